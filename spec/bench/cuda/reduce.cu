// What all GPUs count into an array, added up for all of them, by bare calls of NCCL
// from one thread; kernels touch next to nothing of it.
//   reduce GPUS MiB rounds
#include "nccl.cuh"

enum { ROWS = 16 };

__global__ void count(int *u, long row, int t) {
  u[threadIdx.x * row] += t;
}

__global__ void look(const int *u, double *seen, int n, long row) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += u[r * row];
  *seen = sum;
}

int main(int argc, char **argv) {
  const int devices = (int)number(argc, argv, 1, 2);
  const long n = number(argc, argv, 2, 64) << 18;
  const int steps = (int)number(argc, argv, 3, 100);
  const long row = n / (devices * ROWS);
  int *u[8];
  double *seen[8], sum;
  const double started = now();
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    u[d] = room<int>(n);
    seen[d] = room<double>(1);
  }
  const gpus g(devices);
  wait_all(devices);
  const double prepared = now() - started;
  const double seconds = timed(devices, 10, steps, [&](int t) {
    for (int d = 0; d < devices; ++d) {
      CHECK(cudaSetDevice(d));
      CHECK(cudaMemsetAsync(u[d], 0, n * sizeof(int), g.stream[d]));
      count<<<1, ROWS, 0, g.stream[d]>>>(u[d] + d * ROWS * row, row, t);
    }
    NCCL(ncclGroupStart());
    for (int d = 0; d < devices; ++d)
      NCCL(ncclAllReduce(u[d], u[d], n, ncclInt32, ncclSum, g.comm[d],
                         g.stream[d]));
    NCCL(ncclGroupEnd());
    for (int d = 0; d < devices; ++d) {
      CHECK(cudaSetDevice(d));
      look<<<1, 1, 0, g.stream[d]>>>(u[d], seen[d], devices * ROWS, row);
    }
  });
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(&sum, seen[0], sizeof sum, cudaMemcpyDefault));
  report(prepared, seconds, sum);
}
