// What all elements come to, by CUB.
//   sum 1 elements steps [histogram]
#include "common.cuh"

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>

constexpr int levels = 256;

__global__ void fill(float *v, unsigned char *level, long n) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
       i += (long)gridDim.x * blockDim.x) {
    v[i] = i % 2;
    level[i] = (unsigned)i * 2654435761u >> 24;
  }
}

int main(int argc, char **argv) {
  const long n = number(argc, argv, 2, 1 << 24);
  const int steps = (int)number(argc, argv, 3, 100), warm = 10;
  const bool counts = word(argc, argv, "histogram");
  double begin = now();
  float *v = room<float>(n), *total = room<float>(1);
  unsigned char *level = room<unsigned char>(n);
  unsigned *bins = room<unsigned>(levels);
  fill<<<1024, 256>>>(v, level, n);
  void *space = nullptr;
  size_t size = 0;
  auto step = [&] {
    if (counts)
      CHECK(cub::DeviceHistogram::HistogramEven(space, size, level, bins,
                                                levels + 1, 0, levels, n));
    else
      CHECK(cub::DeviceReduce::Sum(space, size, v, total, n));
  };
  step();
  space = room<char>(size);
  for (int t = 0; t < warm; ++t) step();
  CHECK(cudaDeviceSynchronize());
  const double prepared = now() - begin;
  begin = now();
  for (int t = 0; t < steps; ++t) step();
  CHECK(cudaDeviceSynchronize());
  const double seconds = now() - begin;
  float sum = 0;
  std::vector<unsigned> bin(levels);
  CHECK(cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDefault));
  CHECK(cudaMemcpy(bin.data(), bins, levels * sizeof(int), cudaMemcpyDefault));
  double check = counts ? 0 : sum;
  for (int i = 0; i < levels && counts; ++i) check += bin[i] * (double)i;
  report(prepared, seconds, check);
}
