// particles.cuh -- what the CUDA programs of this folder share: errors, the
// clock, memory, and what they take of CUB.
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t e_ = (call);                                                   \
    if (e_ != cudaSuccess) {                                                   \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,       \
                   cudaGetErrorString(e_));                                    \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

static inline double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

template <class T> static T *room(size_t count) {
  void *p = nullptr;
  CHECK(cudaMalloc(&p, count * sizeof(T)));
  CHECK(cudaMemset(p, 0, count * sizeof(T)));
  return static_cast<T *>(p);
}

// CUB's sums and scans, in memory that they share.
struct library {
  void *memory = nullptr;
  size_t bytes = 1 << 24;
  library() {
    CHECK(cudaMalloc(&memory, bytes));
  }
  template <class T> void exclusive(const T *from, T *to, int n) {
    CHECK(cub::DeviceScan::ExclusiveSum(memory, bytes, from, to, n));
  }
  template <class T> void inclusive(const T *from, T *to, int n) {
    CHECK(cub::DeviceScan::InclusiveSum(memory, bytes, from, to, n));
  }
  template <class T> void sum(const T *from, T *to, int n) {
    CHECK(cub::DeviceReduce::Sum(memory, bytes, from, to, n));
  }
};
