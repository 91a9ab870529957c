// warp.cuh -- what 32 items of a group<1> know of each other, and words by
// which groups of one launch tell each other what they have. Comes after
// group.cuh and atomic.cuh; a part of radix.cuh and scan.cuh.
//
// On a GPU these are its warps. On the processor each such call is a barrier
// of the whole group: slow, so that specs can run there what GPUs run.
#ifndef CELER_WARP_CUH
#define CELER_WARP_CUH

// Words that `room` of a warp takes for groups of so many items.
#ifdef CELER_CUDA
#define CELER_WARP_ROOM(items) 1
#else
#define CELER_WARP_ROOM(items) (items)
#endif

namespace celer {

// All items of the group make each call, in the same order. `room`: a word for
// each item of the group, that nothing else uses.
struct warp {
#ifdef CELER_CUDA
  static constexpr bool apart = true; // one warp may do so alone
#else
  static constexpr bool apart = false;
#endif
  const group<1> &g;
  uint64_t *room;

  CELER_FN int lane() const {
    return g.local(0) & 31;
  }
  CELER_FN int number() const {
    return g.local(0) >> 5;
  }
  // Waits for the others of the warp; what they wrote is seen after.
  CELER_FN void wait() const {
#ifdef CELER_CUDA
    __syncwarp();
#else
    g.barrier();
#endif
  }
  // Bit k: whether lane k says so.
  CELER_FN uint32_t ballot(bool says) const {
#ifdef CELER_CUDA
    return __ballot_sync(~0u, says);
#else
    uint32_t all = 0;
    room[g.local(0)] = says;
    g.barrier();
    for (int k = 0; k < 32; ++k)
      all |= uint32_t(room[(g.local(0) & ~31) + k] != 0) << k;
    g.barrier();
    return all;
#endif
  }
  // Which lanes have the same number of so many bits.
  template <int Bits> CELER_FN uint32_t match(uint32_t x) const {
    uint32_t all = ~0u;
#pragma unroll
    for (int b = 0; b < Bits; ++b) {
      const bool set = (x >> b & 1) != 0;
      const uint32_t others = ballot(set);
      all &= set ? others : ~others;
    }
    return all;
  }
  // x of another lane.
  CELER_FN uint32_t of(uint32_t x, int other) const {
#ifdef CELER_CUDA
    return __shfl_sync(~0u, x, other);
#else
    room[g.local(0)] = x;
    g.barrier();
    const uint32_t found = uint32_t(room[(g.local(0) & ~31) + (other & 31)]);
    g.barrier();
    return found;
#endif
  }
  template <class T> CELER_FN T of(const T &x, int other) const {
    constexpr int words = (sizeof(T) + 3) / 4;
    uint32_t word[words] = {};
    T found;
    memcpy(word, &x, sizeof x);
#pragma unroll
    for (int k = 0; k < words; ++k) word[k] = of(word[k], other);
    memcpy(&found, word, sizeof found);
    return found;
  }
};

CELER_FN int ones(uint32_t x) {
#ifdef CELER_CUDA
  return __popc(x);
#else
  return __builtin_popcount(x);
#endif
}

CELER_FN int highest(uint32_t x) { // bit that is set; of 0: -1
#ifdef CELER_CUDA
  return 31 - __clz(x);
#else
  return x == 0 ? -1 : 31 - __builtin_clz(x);
#endif
}

// A word that other groups read while this launch runs. It holds all that it
// says, so no other memory need be in order with it.
template <class W> CELER_FN void tell(W *at, W word) {
#ifdef CELER_CUDA
  *(volatile W *)at = word;
#else
  __atomic_store_n(at, word, __ATOMIC_RELAXED);
#endif
}
template <class W> CELER_FN W heard(const W *at) {
#ifdef CELER_CUDA
  return *(const volatile W *)at;
#else
  return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

// What this item, and others of its group at a barrier before, wrote is seen
// by whoever hears what it tells then; and what others wrote before they told
// what it has heard, after.
CELER_FN void fence() {
#ifdef CELER_CUDA
  __threadfence();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

} // namespace celer

#endif
