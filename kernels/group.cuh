// group.cuh -- work groups: kernels of celer.nd_range, `kernel void
// name(group<D> g, ...)`. Comes after celer.cuh, before the user's text.
//
// On a GPU a group is a block and `local` is shared memory. On the processor a
// group is computed by one thread: its items are plain calls, one after the
// other, unless the first of them meets a barrier; then each item has a stack
// of its own, and a barrier goes on with the next. An item that has returned
// counts as having come to all barriers.
#ifndef CELER_GROUP_CUH
#define CELER_GROUP_CUH

#ifndef CELER_CUDA
#include <sys/mman.h>
#endif

namespace celer {

// Memory that the items of a group share: N elements.
template <class T, int N> struct local {
  static_assert(__is_trivially_copyable(T), "local memory holds plain data");
  T *data;
  CELER_FN T &operator[](index i) const {
    return data[i];
  }
};

template <class T, int N> struct traits<local<T, N>> {
  static constexpr int kind = a_local, views = 0;
  static constexpr index size = 0, align = 1; // nothing is passed
  static constexpr param describe() {
    return param_of<T>(a_local, N);
  }
};

template <class P> struct is_local { static constexpr index bytes = 0; };
template <class T, int N> struct is_local<local<T, N>> {
  static constexpr index bytes = (index(sizeof(T)) * N + 63) / 64 * 64;
};

#ifndef CELER_CUDA

// ---- the processor: stacks to switch between

#if defined(__x86_64__)
asm(R"(
.pushsection .text
.p2align 4
.type celer_switch, @function
celer_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size celer_switch, .-celer_switch
.popsection
)");
enum { saved_words = 6 };
#elif defined(__aarch64__)
asm(R"(
.pushsection .text
.p2align 4
.type celer_switch, %function
celer_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size celer_switch, .-celer_switch
.popsection
)");
#else
#error "group kernels need x86-64 or aarch64"
#endif
extern "C" __attribute__((visibility("hidden"))) void celer_switch(void **from,
                                                                   void *to);

// A thread's stacks, one per item of the group that it computes.
struct fibers {
  static constexpr int most = 1024;
  static constexpr size_t stack = 64 << 10;
  char *stacks;
  void *home, *at[most];
  bool done[most], met; // met: an item came to a barrier
  int now;              // the item that runs; -1: a plain call
  void (*call)(void *context, int item);
  void *context;

  ~fibers() {
    if (stacks != nullptr) munmap(stacks, most * stack);
  }

  static fibers &mine() {
    static thread_local fibers f;
    return f;
  }

  static void begin() {
    fibers &f = mine();
    f.call(f.context, f.now);
    f.done[f.now] = true;
    celer_switch(&f.at[f.now], f.home);
    __builtin_unreachable();
  }

  // A stack that returns into begin().
  void prepare(int i) {
    void **top = (void **)(stacks + (i + 1) * stack);
#if defined(__x86_64__)
    *--top = nullptr;
    *--top = (void *)begin;
    for (int k = 0; k < saved_words; ++k) *--top = nullptr;
#else
    top -= 20;
    for (int k = 0; k < 20; ++k) top[k] = nullptr;
    top[11] = (void *)begin; // x30
#endif
    at[i] = top;
    done[i] = false;
  }

  void go_on(int i) {
    now = i;
    celer_switch(&home, at[i]);
  }

  void wait() {
    if (now < 0) {
      fprintf(stderr, "celer: some items of a group came to a barrier, "
                      "others did not\n");
      abort();
    }
    met = true;
    celer_switch(&at[now], home);
  }

  void run(int items) {
    if (stacks == nullptr)
      stacks = (char *)mmap(nullptr, most * stack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) abort();
    met = false;
    prepare(0);
    go_on(0);
    if (!met) {
      now = -1;
      for (int i = 1; i < items; ++i) call(context, i);
      return;
    }
    for (int i = 1; i < items; ++i) {
      prepare(i);
      go_on(i);
    }
    for (bool left = true; left;) {
      left = false;
      for (int i = 0; i < items; ++i) {
        if (done[i]) continue;
        left = true;
        go_on(i);
      }
    }
  }
};

#endif

// An item of a group, and its group. Dimension 0 is the slowest.
template <int D> struct group {
  static_assert(D >= 1 && D <= 3, "a group has 1 to 3 dimensions");
  index at[D], whole[D];
  int here[D], items[D];

  // Coordinate in the whole index space, and its extent.
  CELER_FN index global(int d) const {
    return at[d];
  }
  CELER_FN index range(int d) const {
    return whole[d];
  }
  // Coordinate in the group, and the group's extent.
  CELER_FN int local(int d) const {
    return here[d];
  }
  CELER_FN int size(int d) const {
    return items[d];
  }
  // Which group in the whole index space.
  CELER_FN index number(int d) const {
    return at[d] / items[d];
  }
  // Waits for all items of the group; what they wrote before is seen after.
  CELER_FN void barrier() const {
#ifdef CELER_CUDA
    __syncthreads();
#else
    fibers::mine().wait();
#endif
  }
};

template <int D> struct traits<group<D>> {
  static constexpr int kind = a_group, views = 0, dims = D;
  static constexpr param describe() {
    return {a_group, D, 0, 0, 0, {}};
  }
};

#ifdef CELER_CUDA

template <auto F, class S, int K, class P> struct group_argument {
  template <class A>
  static __device__ __forceinline__ P from(const A &a, const index *item) {
    return bind<P, S, K>::from(a, item, S::dims);
  }
};
template <auto F, class S, int K, class T, int N>
struct group_argument<F, S, K, local<T, N>> {
  template <class A>
  static __device__ __forceinline__ local<T, N> from(const A &, const index *) {
    __shared__ T data[N];
    return {data};
  }
};

template <auto F, int D, class... P>
struct entry<F, signature<void (*)(group<D>, P...)>> {
  using sig = signature<void (*)(group<D>, P...)>;
  using packed = arguments<sig::packed_size()>;
  static constexpr int threads = 1024;
  static_assert(sizeof(packed) <= 4096,
                "the parameters of a kernel take more than 4 KB");

  template <int... K>
  static __device__ __forceinline__ void
  call(const packed &a, const group<D> &g, indices<K...>) {
    F(g, group_argument<F, sig, K, typename bare<P>::type>::from(a, g.at)...);
  }

  // The engine launches whole groups, and as many as a grid may have.
  static __device__ __forceinline__ void run(const packed &a) {
    const unsigned block[] = {blockIdx.x, blockIdx.y, blockIdx.z};
    const unsigned size[] = {blockDim.x, blockDim.y, blockDim.z};
    const unsigned thread[] = {threadIdx.x, threadIdx.y, threadIdx.z};
    group<D> g;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const int x = D - 1 - d;
      g.here[d] = thread[x];
      g.items[d] = size[x];
      g.at[d] = a.where.min[d] + block[x] * size[x] + thread[x];
      g.whole[d] = a.where.range[d];
    }
    call(a, g, typename sig::all());
  }
};

#else

template <class P, int V, index At> struct group_argument {
  static CELER_FN P from(const call *c, unsigned char *) {
    return bind<P, V, At>::from(c);
  }
};
template <class T, int N, int V, index At>
struct group_argument<local<T, N>, V, At> {
  static CELER_FN local<T, N> from(const call *, unsigned char *room) {
    return {(T *)room};
  }
};

template <auto F, int D, class... P>
struct entry<F, signature<void (*)(group<D>, P...)>> {
  using sig = signature<void (*)(group<D>, P...)>;

  static constexpr index local_at(int k) {
    const index bytes[] = {is_local<typename bare<P>::type>::bytes..., 0};
    index at = 0;
    for (int i = 0; i < k; ++i) at += bytes[i];
    return at;
  }

  // Coordinates of item i of the group that begins at `first`.
  static CELER_FN group<D> item(const call *c, const index *first, int i) {
    group<D> g;
    for (int d = D - 1; d >= 0; --d) {
      g.items[d] = c->group[d];
      g.here[d] = i % g.items[d];
      i /= g.items[d];
      g.at[d] = first[d] + g.here[d];
      g.whole[d] = c->range.max[d];
    }
    return g;
  }

  template <class... A>
  static CELER_FN void groups(const call *c, int items, A... a) {
    const box &b = c->chunk;
    index first[3];
    auto body = [&](int i) { compute<F>(item(c, first, i), A(a)...); };
    fibers &f = fibers::mine();
    f.context = &body;
    f.call = [](void *context, int i) { (*(decltype(body) *)context)(i); };
    const int step[] = {c->group[0], D > 1 ? c->group[1] : 1,
                        D > 2 ? c->group[2] : 1};
    for (first[0] = b.min[0]; first[0] < b.max[0]; first[0] += step[0])
      for (first[1] = b.min[1]; first[1] < b.max[1]; first[1] += step[1])
        for (first[2] = b.min[2]; first[2] < b.max[2]; first[2] += step[2])
          f.run(items);
  }

  template <int... K>
  static CELER_FN void call_all(const call *c, indices<K...>) {
    alignas(64) unsigned char room[local_at(sig::count) + 1];
    int items = 1;
    for (int d = 0; d < D; ++d) items *= c->group[d];
    groups(c, items,
           group_argument<typename bare<P>::type, sig::view_of(K),
                          sig::value_at(K)>::from(c, room + local_at(K))...);
  }

  static CELER_FN void run(const call *c) {
    call_all(c, typename sig::all());
  }
};

#endif

} // namespace celer

using celer::group;
using celer::local;

#endif
