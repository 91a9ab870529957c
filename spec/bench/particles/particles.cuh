// particles.cuh -- what the CUDA programs of this folder share: memory, and
// what they take of CUB.
#pragma once
#include <cub/cub.cuh>

#include "../cuda/common.cuh"

template <class T> static T *zeros(size_t count) {
  T *p = room<T>(count);
  CHECK(cudaMemset(p, 0, count * sizeof(T)));
  return p;
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
