// Tiled matrix product by hand; every GPU has its rows of a and c, and all of
// b.
//   matmul GPUS size products
#include "common.cuh"

constexpr int T = 16;

__global__ void fill(float *m, int first, int n, int seed) {
  const int j = blockIdx.x * T + threadIdx.x, i = blockIdx.y * T + threadIdx.y;
  m[(long)i * n + j] = ((first + i) * 7 + j * 3 + seed) % 11 / 11.0f;
}

__global__ void mul(const float *__restrict__ a, const float *__restrict__ b,
                    float *c, int n) {
  __shared__ float ta[T][T], tb[T][T];
  const int x = threadIdx.x, y = threadIdx.y;
  const int i = blockIdx.y * T + y, j = blockIdx.x * T + x;
  float sum = 0;
  for (int t = 0; t < n; t += T) {
    ta[y][x] = a[(long)i * n + t + x];
    tb[y][x] = b[(long)(t + y) * n + j];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T; ++k) sum += ta[y][k] * tb[k][x];
    __syncthreads();
  }
  c[(long)i * n + j] = sum;
}

int main(int argc, char **argv) {
  const int devices = (int)number(argc, argv, 1, 1);
  const int n = (int)number(argc, argv, 2, 4096);
  const int steps = (int)number(argc, argv, 3, 10), rows = n / devices;
  if (n % (devices * T)) {
    std::fprintf(stderr, "%d rows are not tiles for all\n", n);
    return 1;
  }
  float *a[8], *b[8], *c[8];
  double begin = now();
  connect(devices);
  const dim3 block(T, T), part(n / T, rows / T), all(n / T, n / T);
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    a[d] = room<float>((size_t)rows * n);
    b[d] = room<float>((size_t)n * n);
    c[d] = room<float>((size_t)rows * n);
    fill<<<part, block>>>(a[d], d * rows, n, 1);
    fill<<<all, block>>>(b[d], 0, n, 2);
    mul<<<part, block>>>(a[d], b[d], c[d], n);
  }
  wait_all(devices);
  const double prepared = now() - begin;
  begin = now();
  for (int t = 0; t < steps; ++t)
    for (int d = 0; d < devices; ++d) {
      CHECK(cudaSetDevice(d));
      mul<<<part, block>>>(a[d], b[d], c[d], n);
    }
  wait_all(devices);
  const double seconds = now() - begin;
  double sum = 0;
  std::vector<float> host((size_t)rows * n);
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaMemcpy(host.data(), c[d], host.size() * sizeof(float),
                     cudaMemcpyDefault));
    for (float v : host) sum += v;
  }
  report(prepared, seconds, sum);
}
