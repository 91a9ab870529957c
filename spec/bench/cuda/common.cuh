/* common.cuh -- what the hand-written programs share: errors, the clock, and
 * the line with the result, as measure.lua prints it. Every program takes the
 * number of GPUs first, then what the script of its name takes. */
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t e_ = (call);                                                   \
    if (e_ != cudaSuccess) {                                                   \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,       \
                   cudaGetErrorString(e_));                                    \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

static inline double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static inline long number(int argc, char **argv, int i, long otherwise) {
  return argc > i ? std::atol(argv[i]) : otherwise;
}

static inline bool word(int argc, char **argv, const char *w) {
  for (int i = 1; i < argc; ++i)
    if (!std::strcmp(argv[i], w)) return true;
  return false;
}

/* Each GPU may reach the memory of each other one. */
static inline void connect(int devices) {
  int there = 0;
  CHECK(cudaGetDeviceCount(&there));
  if (there < devices) {
    std::fprintf(stderr, "%d GPUs, not %d\n", there, devices);
    std::exit(1);
  }
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    for (int e = 0; e < devices; ++e) {
      int can = 0;
      if (e != d) CHECK(cudaDeviceCanAccessPeer(&can, d, e));
      if (can) CHECK(cudaDeviceEnablePeerAccess(e, 0));
    }
  }
}

static inline void wait_all(int devices) {
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaDeviceSynchronize());
  }
}

template <typename T> static T *room(size_t count) {
  void *p = nullptr;
  CHECK(cudaMalloc(&p, count * sizeof(T)));
  return static_cast<T *>(p);
}

static inline void report(double prepare, double seconds, double checksum,
                          double idle_us = -1) {
  std::printf("{\"prepare\": %.6f, \"seconds\": %.9f, \"checksum\": %.17g",
              prepare, seconds, checksum);
  if (idle_us >= 0) std::printf(", \"idle_us\": %.3f", idle_us);
  std::printf("}\n");
}
