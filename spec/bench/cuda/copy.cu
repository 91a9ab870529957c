// Each GPU sends its part to all others, by bare peer copies, and looks at all
// parts when they are there; on one GPU, a bare copy of a part within it.
//   copy GPUS MiB rounds
#include "common.cuh"

__global__ void touch(float *p, int t) {
  p[0] = t;
}

__global__ void look(const char *all, size_t bytes, int parts, double *seen) {
  double sum = 0;
  for (int p = 0; p < parts; ++p) sum += *(const float *)(all + bytes * p);
  *seen = sum;
}

int main(int argc, char **argv) {
  const int devices = (int)number(argc, argv, 1, 2);
  const size_t bytes = (size_t)number(argc, argv, 2, 64) << 20;
  const int steps = (int)number(argc, argv, 3, 100), warm = 10;
  char *all[8], *to = nullptr;
  double *seen[8];
  cudaStream_t s[8];
  cudaEvent_t sent[8], seen_all[8];
  double begin = now();
  connect(devices);
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    all[d] = room<char>(bytes * devices);
    CHECK(cudaMemset(all[d], 0, bytes * devices));
    CHECK(cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&sent[d], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&seen_all[d], cudaEventDisableTiming));
    seen[d] = room<double>(1);
  }
  if (devices == 1) to = room<char>(bytes);
  auto round = [&](int t) {
    for (int d = 0; d < devices; ++d) {
      CHECK(cudaSetDevice(d));
      for (int e = 0; e < devices; ++e)
        CHECK(cudaStreamWaitEvent(s[d], seen_all[e]));
      char *part = all[d] + bytes * d;
      touch<<<1, 1, 0, s[d]>>>((float *)part, t);
      for (int k = 1; k < devices; ++k) {
        const int e = (d + k) % devices;
        CHECK(cudaMemcpyPeerAsync(all[e] + bytes * d, e, part, d, bytes, s[d]));
      }
      if (to)
        CHECK(cudaMemcpyAsync(to, part, bytes, cudaMemcpyDeviceToDevice, s[d]));
      CHECK(cudaEventRecord(sent[d], s[d]));
    }
    for (int d = 0; d < devices && devices > 1; ++d) {
      CHECK(cudaSetDevice(d));
      for (int e = 0; e < devices; ++e)
        CHECK(cudaStreamWaitEvent(s[d], sent[e]));
      look<<<1, 1, 0, s[d]>>>(all[d], bytes, devices, seen[d]);
      CHECK(cudaEventRecord(seen_all[d], s[d]));
    }
  };
  wait_all(devices);
  for (int t = 0; t < warm; ++t) round(t);
  wait_all(devices);
  const double prepared = now() - begin;
  begin = now();
  for (int t = warm; t < warm + steps; ++t) round(t);
  wait_all(devices);
  const double seconds = now() - begin;
  double sum = 0;
  float first = 0;
  if (devices > 1)
    CHECK(cudaMemcpy(&sum, seen[0], sizeof sum, cudaMemcpyDefault));
  else
    CHECK(cudaMemcpy(&first, to, sizeof first, cudaMemcpyDefault));
  sum += first;
  report(prepared, seconds, sum);
}
