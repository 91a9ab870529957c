/* nccl.cuh -- what the hand-written programs that call NCCL share. */
#pragma once
#include <nccl.h>

#include "common.cuh"

#define NCCL(call)                                                             \
  do {                                                                         \
    ncclResult_t r_ = (call);                                                  \
    if (r_ != ncclSuccess) {                                                   \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,       \
                   ncclGetErrorString(r_));                                    \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

/* One stream and one communicator for each GPU. */
struct gpus {
  int n;
  cudaStream_t stream[8];
  ncclComm_t comm[8];

  explicit gpus(int n) : n(n) {
    for (int d = 0; d < n; ++d) {
      CHECK(cudaSetDevice(d));
      CHECK(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
    }
    NCCL(ncclCommInitAll(comm, n, nullptr));
  }
};

/* The rounds by which programs are compared: some to warm up, then some. */
template <typename Round>
static double timed(int gpus, int warm, int steps, Round round) {
  for (int t = 0; t < warm; ++t) round(t);
  wait_all(gpus);
  const double begin = now();
  for (int t = warm; t < warm + steps; ++t) round(t);
  wait_all(gpus);
  return now() - begin;
}
