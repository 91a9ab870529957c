// group.cuh -- work groups whose items wait where they like: kernels of
// celer.nd_range, whose first parameter is group<D>. Comes after celer.cuh,
// before the user's text. Groups that are loops stand in tile.cuh.
//
// On a GPU a group is a block and `local` is shared memory. On the processor a
// group is computed by one thread: its items are a loop, until one of them
// meets a barrier. That one waits where it stands, those after it get stacks of
// their own, and from then on a barrier goes on with the next item. One that
// has returned counts as having come to all barriers.
#ifndef CELER_GROUP_CUH
#define CELER_GROUP_CUH

#include "local.cuh"
#ifndef CELER_CUDA
#include <sys/mman.h>
#endif

namespace celer {

#ifndef CELER_CUDA

// ---- the processor: stacks to switch between

#if defined(__x86_64__)
// Jumps rather than returns: nearly all switches go to the same barrier, which
// a jump's prediction learns and a return's cannot.
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
  popq %rcx
  jmp *%rcx
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

// How the items of a group take turns on the thread that computes it.
struct fibers {
  static constexpr int most = 1024;
  char *stacks;
  size_t stack;   // bytes of each
  void *at[most]; // where an item that waits goes on
  bool done[most];
  int size[3], items; // of the group
  int now, left;      // the item that runs; how many have not returned
  int root, started;  // the item on the thread's own stack; the last begun
  bool spread;        // items have stacks
  char *base;         // where the thread's stack was before the first item
  const void *context;
  void (*call)(const void *context, const int *from, const int *to);

  ~fibers() {
    if (stacks != nullptr) munmap(stacks, most * stack);
  }

  static fibers &mine() {
    static thread_local fibers f;
    return f;
  }

  static void begin() {
    fibers &f = mine();
    const int plane = f.size[1] * f.size[2], i = f.now % plane;
    const int from[] = {f.now / plane, i / f.size[2], i % f.size[2]};
    const int to[] = {from[0] + 1, from[1] + 1, from[2] + 1};
    f.call(f.context, from, to);
    f.leave();
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
  }

  // Stacks for items that had used so much when the first came to a barrier,
  // and that go on to call a little. Were they a power of two apart, all would
  // want the same few lines of a cache.
  void make_stacks(size_t used) {
    const size_t page = 4096, least = 64 << 10, calls = 32 << 10;
    const size_t need = used + calls > least ? used + calls : least;
    if (stacks != nullptr && need <= stack) return;
    if (stacks != nullptr) munmap(stacks, most * stack);
    stack = (need + page - 1) / page * page + 320;
    void *room = mmap(nullptr, most * stack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
      perror("celer: stacks for a work group");
      abort();
    }
    stacks = (char *)room;
  }

  // Item `first` is the first to come to a barrier; those before it have
  // returned, those after it are begun when it is their turn.
  __attribute__((noinline)) void spread_from(int first) {
    make_stacks(size_t(base - (char *)__builtin_frame_address(0)));
    spread = true;
    root = now = first;
    left = items - first;
    for (int i = 0; i < items; ++i) done[i] = i < first;
    started = first;
  }

  CELER_FN void go_on(int next) {
    const int from = now;
    now = next;
    if (next > started) prepare(started = next);
    if (next != from) celer_switch(&at[from], at[next]);
  }

  CELER_FN int after(int i) const {
    do i = i + 1 < items ? i + 1 : 0;
    while (done[i]);
    return i;
  }

  // The item that runs is at a barrier.
  CELER_FN void wait(int item) {
    if (!spread) spread_from(item);
    go_on(after(now));
  }

  // The item that runs has returned. Comes back for the root alone, once all
  // have.
  void leave() {
    done[now] = true;
    go_on(--left > 0 ? after(now) : root);
  }

  void run() {
    const int from[] = {0, 0, 0};
    spread = false;
    base = (char *)__builtin_frame_address(0);
    call(context, from, size);
    if (spread) leave();
  }
};

// What a loop over items knows of barriers. It is a local variable of the loop:
// where a kernel has no barrier the compiler sees that, and vectorises.
struct turns {
  fibers *f;
  bool met;
};

#else

// ---- a GPU: barriers of items that are needed after they have returned

// Who has returned comes to the others' barriers until all have. Threads of one
// warp are in different places then: barrier.sync lets them; __syncthreads may
// not, and barrier.red hangs. So items say by a flag that they have not
// returned. Of three flags one is this barrier's, one may still be read by
// those who are late from the last, and one is cleared for the next.
struct turns {
  volatile unsigned *flags; // 3, in shared memory
  unsigned now;             // this barrier's; all threads have the same

  // For all threads.
  __device__ __forceinline__ void begin() {
    __shared__ unsigned room[3];
    flags = room;
    now = 0;
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0)
      flags[0] = flags[1] = flags[2] = 0;
    __syncthreads();
  }
  // By who has not returned.
  __device__ __forceinline__ void meet() {
    flags[now] = 1;
    clear_next();
    __barrier_sync(0);
  }
  // By who has; true once all have.
  __device__ __forceinline__ bool all_returned() {
    const unsigned mine = now;
    clear_next();
    __barrier_sync(0);
    return flags[mine] == 0;
  }

private:
  __device__ __forceinline__ void clear_next() {
    now = now == 2 ? 0 : now + 1;
    flags[now] = 0;
  }
};

#endif

// An item of a group, and its group. Dimension 0 is the slowest.
template <int D> struct group {
  static_assert(D >= 1 && D <= 3, "a group has 1 to 3 dimensions");
  index at[D], whole[D];
  int here[D], items[D];
  turns *taken; // on a GPU null, but in kernels that reduce

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
    if (taken != nullptr)
      taken->meet();
    else
      __syncthreads();
#else
    int item = here[0];
    for (int d = 1; d < D; ++d) item = item * items[d] + here[d];
    taken->f->wait(item);
    taken->met = true;
#endif
  }
  template <class F> void each(const F &) const {
    static_assert(sizeof(F) == 0, "each is for kernels of tile<...>; the items "
                                  "of a group<D> wait by barrier()");
  }
};

template <int D, class... P>
constexpr auto chosen(void (*f)(group<D>, P...), int) {
  return f;
}

template <int D> struct traits<group<D>> {
  static constexpr int kind = a_group, views = 0, dims = D;
  static constexpr param describe() {
    return {a_group, D, 0, 0, 0, {}};
  }
};

#ifdef CELER_CUDA

// The most items of a group; a GPU has 65536 registers for them. The engine
// compiles again for larger ones, when they come.
#ifndef CELER_GROUP
#define CELER_GROUP 256
#endif

template <auto F, int D, class... P>
struct entry<F, signature<void (*)(group<D>, P...)>> {
  using sig = signature<void (*)(group<D>, P...)>;
  using packed = arguments<sig::packed_size()>;
  static constexpr int threads = CELER_GROUP;
  static_assert(sizeof(packed) <= 4096,
                "the parameters of a kernel take more than 4 KB");

  template <int... K>
  static __device__ __forceinline__ void
  call(const packed &a, const group<D> &g, indices<K...>) {
    F(g, group_argument<F, sig, K, typename bare<P>::type>::from(a, g.at)...);
  }

  // The engine launches whole groups, and as many as a grid may have.
  static __device__ __forceinline__ void run(const packed &a) {
    check_locals<sig::reduces, P...>();
    if constexpr (sig::reduces)
      reducing<F>::run(a);
    else
      call(a, here(a, nullptr), typename sig::all());
  }

  // Where what all items come to is needed: comes back once all have returned.
  template <class Work>
  static __device__ __forceinline__ void each_item(const packed &a,
                                                   const Work &work) {
    turns t;
    t.begin();
    work(here(a, &t));
    while (!t.all_returned()) {
    }
  }

  static __device__ __forceinline__ group<D> here(const packed &a,
                                                  turns *taken) {
    const unsigned block[] = {blockIdx.x, blockIdx.y, blockIdx.z};
    const unsigned size[] = {blockDim.x, blockDim.y, blockDim.z};
    const unsigned thread[] = {threadIdx.x, threadIdx.y, threadIdx.z};
    group<D> g;
    g.taken = taken;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const int x = D - 1 - d;
      g.here[d] = thread[x];
      g.items[d] = size[x];
      g.at[d] = a.where.min[d] + block[x] * size[x] + thread[x];
      g.whole[d] = a.where.range[d];
    }
    return g;
  }
};

#else

template <auto F, int D, class... P>
struct entry<F, signature<void (*)(group<D>, P...)>> {
  using sig = signature<void (*)(group<D>, P...)>;

  // A box of the items of a group that begins at `first`, up to one that met a
  // barrier. Dimension D - 1 is the last of three here.
  template <class... A>
  static CELER_FN void items(const call *c, const index *first, fibers *f,
                             const int *from, const int *to, A... a) {
    group<D> g;
    index origin[D];
    const int end[] = {to[0], to[1], to[2]}, begin = from[2];
    for (int d = 0; d < D; ++d) {
      g.items[d] = c->group[d];
      g.whole[d] = c->range.max[d];
      origin[d] = first[d];
    }
    for (int i = from[0]; i < end[0]; ++i)
      for (int j = from[1]; j < end[1]; ++j)
        if (!line(g, origin, f, i, j, begin, end[2], copied(a)...)) return;
  }

  // Those along the last dimension; false once one met a barrier.
  template <class... A>
  static CELER_FN bool line(group<D> g, const index *origin, fibers *f, int i,
                            int j, int begin, int end, A... a) {
    turns t = {f, false};
    if constexpr (sig::reduces) {
      for (int k = begin; k < end; ++k)
        if (item(g, origin, &t, i, j, k, copied(a)...)) return false;
    } else {
      CELER_INDEPENDENT
      for (int k = begin; k < end; ++k)
        if (item(g, origin, &t, i, j, k, copied(a)...)) return false;
    }
    return true;
  }

  // True once it met a barrier.
  template <class... A>
  static CELER_FN bool item(const group<D> &g, const index *origin, turns *t,
                            int i, int j, int k, A... a) {
    const int here[] = {i, j, k};
    group<D> mine = g;
    for (int d = 0; d < D; ++d) {
      mine.here[d] = here[3 - D + d];
      mine.at[d] = origin[d] + mine.here[d];
    }
    mine.taken = t;
    compute<F>(mine, copied(a)...);
    return t->met;
  }

  template <class... A> static CELER_FN void groups(const call *c, A... a) {
    const box &b = c->chunk;
    fibers &f = fibers::mine();
    index first[3];
    auto body = [&](const int *from, const int *to) __attribute__((noinline)) {
      items(c, first, &f, from, to, copied(a)...);
    };
    f.context = &body;
    f.call = [](const void *context, const int *from, const int *to) {
      (*(decltype(body) *)context)(from, to);
    };
    const int step[] = {c->group[0], D > 1 ? c->group[1] : 1,
                        D > 2 ? c->group[2] : 1};
    for (int d = 0; d < 3; ++d) f.size[d] = d < 3 - D ? 1 : step[d + D - 3];
    f.items = f.size[0] * f.size[1] * f.size[2];
    for (first[0] = b.min[0]; first[0] < b.max[0]; first[0] += step[0])
      for (first[1] = b.min[1]; first[1] < b.max[1]; first[1] += step[1])
        for (first[2] = b.min[2]; first[2] < b.max[2]; first[2] += step[2])
          f.run();
  }

  template <int... K>
  static CELER_FN void call_all(const call *c, indices<K...>) {
    check_locals<sig::reduces, P...>();
    alignas(64) unsigned char room[local_at<P...>(sig::count) + 1];
    groups(
        c,
        group_argument<typename bare<P>::type, sig::view_of(K),
                       sig::value_at(K)>::from(c, room + local_at<P...>(K))...);
  }

  static CELER_FN void run(const call *c) {
    call_all(c, typename sig::all());
  }
};

#endif

} // namespace celer

using celer::group;

#endif
