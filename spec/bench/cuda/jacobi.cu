// Jacobi's iteration by hand: a block of 128 threads per row of A; every GPU
// holds its rows and all of x, and sends its part of the new x to the others.
//   jacobi GPUS size iterations
#include "common.cuh"

constexpr int threads = 128;

__global__ void fill(double *a, double *b, double *x, int first, int n) {
  const int row = blockIdx.x;
  for (int j = threadIdx.x; j < n; j += threads)
    a[(long)row * n + j] = first + row == j ? 2.0 * n : 1.0;
  if (threadIdx.x) return;
  b[row] = 3.0 * n - 1;
  x[first + row] = 0;
}

__global__ void sweep(const double *__restrict__ a, const double *b,
                      const double *__restrict__ x, double *x_new, int first,
                      int n) {
  __shared__ double warps[threads / 32];
  const int row = blockIdx.x, i = first + row, t = threadIdx.x;
  const double *line = a + (long)row * n;
  double sum = 0;
#pragma unroll 4
  for (int j = t; j < n; j += threads)
    if (j != i) sum += line[j] * x[j];
  for (int k = 16; k; k /= 2) sum += __shfl_down_sync(~0u, sum, k);
  if (t % 32 == 0) warps[t / 32] = sum;
  __syncthreads();
  if (t) return;
  for (int k = 1; k < threads / 32; ++k) sum += warps[k];
  x_new[i] = (b[row] - sum) / line[i];
}

struct Part {
  double *a, *b, *x[2];
  int first, rows;
  cudaStream_t stream;
  cudaEvent_t sent[2];
};

static Part part[8];
static int devices, n;

static void issue(int t) {
  const int now = t & 1, before = ~t & 1;
  for (int d = 0; d < devices; ++d) {
    Part &p = part[d];
    CHECK(cudaSetDevice(d));
    for (int e = 0; e < devices; ++e)
      if (t > 0 && e != d)
        CHECK(cudaStreamWaitEvent(p.stream, part[e].sent[before]));
    sweep<<<p.rows, threads, 0, p.stream>>>(p.a, p.b, p.x[before], p.x[now],
                                            p.first, n);
    for (int k = 1; k < devices; ++k) {
      const int e = (d + k) % devices;
      CHECK(cudaMemcpyPeerAsync(part[e].x[now] + p.first, e, p.x[now] + p.first,
                                d, p.rows * sizeof(double), p.stream));
    }
    CHECK(cudaEventRecord(p.sent[now], p.stream));
  }
}

int main(int argc, char **argv) {
  devices = (int)number(argc, argv, 1, 1);
  n = (int)number(argc, argv, 2, 16384);
  const int warm = 4, last = warm + (int)number(argc, argv, 3, 100);
  double begin = now();
  connect(devices);
  for (int d = 0; d < devices; ++d) {
    Part &p = part[d];
    CHECK(cudaSetDevice(d));
    p.first = (int)((long)n * d / devices);
    p.rows = (int)((long)n * (d + 1) / devices) - p.first;
    p.a = room<double>((size_t)p.rows * n);
    p.b = room<double>(p.rows);
    for (int i = 0; i < 2; ++i) {
      p.x[i] = room<double>(n);
      CHECK(cudaMemset(p.x[i], 0, n * sizeof(double)));
      CHECK(cudaEventCreateWithFlags(&p.sent[i], cudaEventDisableTiming));
    }
    fill<<<p.rows, threads>>>(p.a, p.b, p.x[1], p.first, n);
    CHECK(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking));
  }
  wait_all(devices);
  for (int t = 0; t < warm; ++t) issue(t);
  wait_all(devices);
  const double prepared = now() - begin;
  begin = now();
  for (int t = warm; t < last; ++t) issue(t);
  wait_all(devices);
  const double seconds = now() - begin;
  std::vector<double> x(n);
  CHECK(cudaMemcpy(x.data(), part[0].x[~last & 1], n * sizeof(double),
                   cudaMemcpyDefault));
  double sum = 0;
  for (double v : x) sum += v;
  report(prepared, seconds, sum);
}
