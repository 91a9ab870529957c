// A chain of short kernels by hand, on a stream or as a CUDA graph of 100.
//   chain 1 items launches rounds [graph]
#include "common.cuh"

__global__ void turn(double *v, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = v[i];
  for (int k = 0; k < rounds; ++k) x = fma(x, 0.999, 0.001 * i);
  v[i] = x;
}

constexpr int warm = 100;

int main(int argc, char **argv) {
  const int n = (int)number(argc, argv, 2, 65536);
  const int steps = (int)number(argc, argv, 3, 2000);
  const int rounds = (int)number(argc, argv, 4, 500);
  double begin = now();
  double *v = room<double>(n);
  CHECK(cudaMemset(v, 0, n * sizeof(double)));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  auto launches = [&](int count) {
    for (int t = 0; t < count; ++t)
      turn<<<(n + 255) / 256, 256, 0, s>>>(v, n, rounds);
  };
  cudaGraphExec_t exec = nullptr;
  if (word(argc, argv, "graph")) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    launches(100);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
  }
  auto chain = [&](int count) {
    for (int t = 0; exec && t < count / 100; ++t)
      CHECK(cudaGraphLaunch(exec, s));
    launches(exec ? count % 100 : count);
    CHECK(cudaStreamSynchronize(s));
  };
  chain(warm);
  const double prepared = now() - begin;
  begin = now();
  chain(steps);
  const double seconds = now() - begin;
  std::vector<double> host(n);
  CHECK(cudaMemcpy(host.data(), v, n * sizeof(double), cudaMemcpyDefault));
  double sum = 0;
  for (double x : host) sum += x;
  report(prepared, seconds, sum);
}
