// cub.cu -- what spec/bench/arrays.lua measures of celer, by CUB: sorts and
// scans of n elements. Prints milliseconds and rates as JSON.
//   nvcc -O3 -std=c++17 -arch=sm_90 cub.cu && ./a.out 1e8
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <vector>

#define CHECK(x)                                                               \
  do {                                                                         \
    cudaError_t e = (x);                                                       \
    if (e != cudaSuccess) {                                                    \
      printf("%s: %s\n", #x, cudaGetErrorString(e));                           \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

__global__ void fill(uint64_t *k, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  k[i] = z ^ (z >> 31);
}

// Milliseconds.
template <class F> double median(F f, int turns = 7) {
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  std::vector<float> t;
  f();
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < turns; ++i) {
    cudaEventRecord(a);
    f();
    cudaEventRecord(b);
    CHECK(cudaEventSynchronize(b));
    float ms;
    cudaEventElapsedTime(&ms, a, b);
    t.push_back(ms);
  }
  std::sort(t.begin(), t.end());
  return t[t.size() / 2];
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? atof(argv[1]) : 1e8;
  uint64_t *k, *o;
  uint64_t *v, *w;
  CHECK(cudaMalloc(&k, n * 8));
  CHECK(cudaMalloc(&o, n * 8));
  CHECK(cudaMalloc(&v, n * 8));
  CHECK(cudaMalloc(&w, n * 8));
  fill<<<(n + 255) / 256, 256>>>(k, n);
  fill<<<(n + 255) / 256, 256>>>(v, n);
  size_t need = 0, t = 0;
  void *room;
  cub::DeviceRadixSort::SortKeys(nullptr, t, k, o, n);
  need = std::max(need, t);
  cub::DeviceRadixSort::SortPairs(nullptr, t, k, o, v, w, n);
  need = std::max(need, t);
  cub::DeviceScan::InclusiveSum(nullptr, t, k, o, n);
  need = std::max(need, t);
  CHECK(cudaMalloc(&room, need));
  double ms = median([&] {
    size_t b = need;
    cub::DeviceRadixSort::SortKeys(room, b, k, o, n);
  });
  printf("{\"cub\": {\"n\": %zu, \"sort_keys64_ms\": %.3f, "
         "\"sort_keys64_gkeys\": %.2f",
         n, ms, n / ms * 1e-6);
  ms = median([&] {
    size_t b = need;
    cub::DeviceRadixSort::SortPairs(room, b, k, o, v, w, n);
  });
  printf(", \"sort_pairs64_ms\": %.3f", ms);
  ms = median([&] {
    size_t b = need;
    cub::DeviceRadixSort::SortKeys(room, b, (uint32_t *)k, (uint32_t *)o, n);
  });
  printf(", \"sort_keys32_ms\": %.3f", ms);
  ms = median([&] {
    size_t b = need;
    cub::DeviceScan::InclusiveSum(room, b, k, o, n);
  });
  printf(", \"scan_int64_ms\": %.3f, \"scan_int64_gb_s\": %.0f", ms,
         16 * n / ms * 1e-6);
  ms = median([&] {
    size_t b = need;
    cub::DeviceScan::InclusiveSum(room, b, (double *)k, (double *)o, n);
  });
  printf(", \"scan_double_ms\": %.3f", ms);
  ms = median([&] {
    size_t b = need;
    cub::DeviceScan::InclusiveSum(room, b, (float *)k, (float *)o, n);
  });
  printf(", \"scan_float_ms\": %.3f", ms);
  ms = median(
      [&] { CHECK(cudaMemcpyAsync(o, k, n * 8, cudaMemcpyDeviceToDevice)); });
  printf(", \"copy_ms\": %.3f, \"copy_gb_s\": %.0f}}\n", ms,
         16 * n / ms * 1e-6);
}
