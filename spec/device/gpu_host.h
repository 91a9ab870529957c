// A GPU on the processor: what NVRTC knows by itself, for kernels that are to
// be run without one. One block after the other; its threads take turns on
// stacks of their own, and change at barriers and shuffles. A barrier that
// never comes about ends the process. Before celer.cuh, compiled by g++ or
// clang++.
#undef _FORTIFY_SOURCE // which forbids to jump from stack to stack
// All that units use, before the words below, which newer headers say, too.
#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <ucontext.h>
#include <vector>

#define __CUDACC__ 1
#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
// What a GPU may take for granted holds.
#define __builtin_assume(x) ((x) ? (void)0 : abort())

#define GPU_VECTORS(T, name, a2, a4)                                           \
  struct alignas(a2) name##2 {                                                 \
    T x, y;                                                                    \
  };                                                                           \
  struct name##3 {                                                             \
    T x, y, z;                                                                 \
  };                                                                           \
  struct alignas(a4) name##4 {                                                 \
    T x, y, z, w;                                                              \
  };
GPU_VECTORS(float, float, 8, 16)
GPU_VECTORS(double, double, 16, 16)
GPU_VECTORS(int, int, 8, 16)
GPU_VECTORS(unsigned, uint, 8, 16)

namespace gpu {

enum { MOST = 1024, STACK = 64 << 10 };

struct thread {
  jmp_buf place;
  unsigned x, y, z;
  int line; // of the barrier it is at; 0: it may be at another than its warp
  bool begun, done;
};

inline thread threads[MOST];
inline unsigned char stacks[MOST][STACK];
inline jmp_buf scheduler;
inline int now, count, alive, arrived, all, any, result_all, result_any;
inline unsigned long turn;
inline struct {
  int arrived, wanted;
  unsigned long turn;
  unsigned value[32];
} warps[MOST / 32];
inline void (*entry)(const void *);
inline const void *arguments;

inline void fail(const char *what) {
  fprintf(stderr, "gpu_host: %s\n", what);
  abort();
}

// Not by swapcontext, which asks the system each time.
inline void yield() {
  if (_setjmp(threads[now].place) == 0) _longjmp(scheduler, 1);
}

// Until all threads that have not ended are here.
inline void meet(int line, bool vote) {
  const unsigned long mine = turn;
  threads[now].line = line;
  ++arrived;
  all &= vote;
  any |= vote;
  while (turn == mine) yield();
}

// Until so many threads of the warp are here.
inline void meet_warp(unsigned mask) {
  auto &w = warps[now / 32];
  const unsigned long mine = w.turn;
  if (!(mask >> now % 32 & 1)) fail("a lane that the mask leaves out");
  w.wanted = __builtin_popcount(mask);
  if (++w.arrived == w.wanted) {
    w.arrived = 0;
    ++w.turn;
  }
  while (w.turn == mine) yield();
}

inline void run_thread() {
  entry(arguments);
  threads[now].done = true;
  --alive;
  yield();
}

} // namespace gpu

struct dim3_of_gpu {
  unsigned x, y, z;
};
inline dim3_of_gpu gridDim, blockDim, blockIdx, threadIdx;

inline void __barrier_sync(unsigned) {
  gpu::meet(0, true);
}
inline int syncthreads_and(int line, int x) {
  gpu::meet(line, x != 0);
  return gpu::result_all;
}
inline int syncthreads_or(int line, int x) {
  gpu::meet(line, x != 0);
  return gpu::result_any;
}
#define __syncthreads() gpu::meet(__LINE__, true)
#define __syncthreads_and(x) syncthreads_and(__LINE__, x)
#define __syncthreads_or(x) syncthreads_or(__LINE__, x)
inline void __threadfence() {
}
inline unsigned shuffle(unsigned mask, unsigned x, int delta) {
  const int lane = gpu::now % 32, from = lane + delta;
  auto &w = gpu::warps[gpu::now / 32];
  w.value[lane] = x;
  gpu::meet_warp(mask);
  const bool there = from >= 0 && from < 32 && (mask >> from & 1);
  const unsigned y = there ? w.value[from] : x;
  gpu::meet_warp(mask);
  return y;
}
// A lane that knows of no other that is active.
inline unsigned __activemask() {
  return 1u << gpu::now % 32;
}
inline int __any_sync(unsigned mask, int x) {
  if (mask != __activemask()) gpu::fail("votes are of lanes by themselves");
  return x != 0;
}
inline unsigned __shfl_down_sync(unsigned mask, unsigned x, int delta) {
  return shuffle(mask, x, delta);
}
inline unsigned __shfl_up_sync(unsigned mask, unsigned x, int delta) {
  return shuffle(mask, x, -delta);
}

inline double __dadd_rn(double a, double b) {
  return a + b;
}

template <class T, class U> inline T atomicAdd(T *p, U x) {
  const T old = *p;
  *p = old + x;
  return old;
}
template <class T, class U> inline T atomicAnd(T *p, U x) {
  const T old = *p;
  *p = old & x;
  return old;
}
template <class T, class U> inline T atomicOr(T *p, U x) {
  const T old = *p;
  *p = old | x;
  return old;
}
template <class T> inline T atomicCAS(T *p, T old, T x) {
  const T seen = *p;
  if (seen == old) *p = x;
  return seen;
}

namespace gpu {

inline void begin(int i) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks[i];
  context.uc_stack.ss_size = STACK;
  context.uc_link = nullptr;
  makecontext(&context, run_thread, 0);
  setcontext(&context);
}

// Threads of a warp come to one barrier, or to such as take them from anywhere.
inline void check_lines() {
  int wanted[MOST / 32];
  for (int &w : wanted) w = -1;
  for (int i = 0; i < count; ++i) {
    if (threads[i].done) continue;
    int &w = wanted[i / 32];
    if (w < 0) w = threads[i].line;
    if (w != threads[i].line)
      fail("a warp's threads are at different barriers");
  }
}

inline void run_block() {
  count = int(blockDim.x * blockDim.y * blockDim.z);
  if (count > MOST) fail("too many threads");
  alive = count;
  arrived = 0;
  all = 1;
  any = 0;
  for (auto &w : warps) w.arrived = 0;
  for (int i = 0; i < count; ++i) {
    thread &t = threads[i];
    t.begun = t.done = false;
    t.x = unsigned(i) % blockDim.x;
    t.y = unsigned(i) / blockDim.x % blockDim.y;
    t.z = unsigned(i) / blockDim.x / blockDim.y;
  }
  for (int idle = 0; alive > 0; ++idle) {
    if (idle > 100000) fail("threads wait for each other");
    for (now = 0; now < count; ++now) {
      thread &t = threads[now];
      if (t.done) continue;
      threadIdx = {t.x, t.y, t.z};
      const bool begun = t.begun;
      t.begun = true;
      if (_setjmp(scheduler) != 0) continue;
      if (begun)
        _longjmp(t.place, 1);
      else
        begin(now);
    }
    if (alive == 0 || arrived < alive) continue;
    check_lines();
    result_all = all;
    result_any = any;
    arrived = 0;
    all = 1;
    any = 0;
    ++turn;
  }
}

} // namespace gpu

extern "C" {
unsigned gpu_launches, gpu_blocks, gpu_shared; // since it was cleared; the last

int gpu_launch(void *function, unsigned gx, unsigned gy, unsigned gz,
               unsigned bx, unsigned by, unsigned bz, unsigned shared, void *,
               void **params, void **) {
  gridDim = {gx, gy, gz};
  blockDim = {bx, by, bz};
  memcpy(&gpu::entry, &function, sizeof function);
  gpu::arguments = params[0];
  ++gpu_launches;
  gpu_blocks = gx * gy * gz;
  gpu_shared = shared;
  for (unsigned z = 0; z < gz; ++z)
    for (unsigned y = 0; y < gy; ++y)
      for (unsigned x = 0; x < gx; ++x) {
        blockIdx = {x, y, z};
        gpu::run_block();
      }
  return 0;
}
}
