// radix.cuh -- numbers in order, by one pass over memory for each digit of 8
// bits: for lua/celer/arrays/radix.lua. Comes after celer.cuh and warp.cuh.
//
// Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort
// for GPUs" (2022). First, all digits are counted. Then, for each digit, a
// group takes a tile of keys, counts its digits, and tells that; it adds up
// what the groups before it tell, by decoupled look-back (Merrill and Garland,
// "Single- pass Parallel Prefix Scan with Decoupled Look-back", 2016), and so
// knows where each key goes. Within a tile keys are put in order in shared
// memory, so that those of one digit are written side by side. Equal digits
// keep their order.
//
// Difference: what a tile tells is wiped by the next pass but one, not by a
// launch of its own. Groups take tiles by a counter, in the order in which they
// begin: those that one waits for have begun before it.
#ifndef CELER_RADIX_CUH
#define CELER_RADIX_CUH

#include "warp.cuh"

namespace celer {

template <int Size> struct bits_of;
template <> struct bits_of<1> { using type = uint8_t; };
template <> struct bits_of<2> { using type = uint16_t; };
template <> struct bits_of<4> { using type = uint32_t; };
template <> struct bits_of<8> { using type = uint64_t; };

// So many numbers in parts, each sorted alone, of which the first ones may have
// one more than the others.
struct radix_parts {
  int64_t n, count;

  CELER_FN int64_t begin(int64_t part) const {
    const int64_t least = n / count, longer = n - least * count;
    return least * part + (part < longer ? part : longer);
  }
  CELER_FN int64_t size(int64_t part) const {
    return begin(part + 1) - begin(part);
  }
};

// Keys of type T, the largest first if Down.
template <class T, bool Down> struct radix {
  using key = typename bits_of<sizeof(T)>::type;
  static constexpr int passes = sizeof(T), digits = 256;
  static constexpr key sign = key(key(1) << (8 * sizeof(T) - 1));
  static constexpr key infinity =
      key(sizeof(T) == 4 ? 0x7f800000u : 0x7ff0000000000000u);
  // Bits of a word of a tile for a digit: how many keys of this tile, or of
  // this and all before it, counted from the digit's first place; 0: not yet.
  static constexpr uint32_t of_tile = 1u << 30, of_all = 2u << 30;
  static constexpr uint32_t count_bits = of_tile - 1;

  // A whole number that compares as the key does: engine/base/radix.c has the
  // same.
  static CELER_FN key code(key k) {
    if constexpr (describe<T>::class_ == 'f') {
      const key magnitude = k & key(~sign);
      k = magnitude > infinity ? key(~key(0))
          : magnitude == 0     ? sign
          : (k & sign) != 0    ? key(sign - magnitude)
                               : key(sign + magnitude);
    } else if constexpr (describe<T>::class_ == 'i') {
      k ^= sign;
    }
    return Down ? key(~k) : k;
  }
  static CELER_FN uint32_t digit(key k, int pass) {
    return uint32_t(code(k) >> (8 * pass)) & 255;
  }

  // What passes share, in words: counts of all digits, tiles that were taken in
  // each pass, and two times what tiles tell.
  uint32_t *state;
  int64_t tiles;
  static CELER_FN int64_t words(int64_t tiles) {
    return (passes + 1 + 2 * tiles) * digits;
  }
  CELER_FN uint32_t *counts(int pass) const {
    return state + pass * digits;
  }
  CELER_FN uint32_t *taken(int pass) const {
    return state + passes * digits + pass;
  }
  CELER_FN uint32_t *told(int pass, int64_t tile) const {
    return state + (passes + 1) * digits + ((pass & 1) * tiles + tile) * digits;
  }

  // Counts the digits of keys by so many groups, of which this is the one of
  // that number; `mine` are passes * digits words of the group.
  CELER_FN void count(const group<1> &g, int64_t number, int64_t groups,
                      const key *from, int64_t n, uint32_t *mine) const {
    const int me = g.local(0), size = g.size(0);
    for (int k = me; k < passes * digits; k += size) mine[k] = 0;
    g.barrier();
    for (int64_t i = number * size + me; i < n; i += groups * size) {
      const key k = from[i];
#pragma unroll
      for (int p = 0; p < passes; ++p)
        atomicAdd(&mine[p * digits + digit(k, p)], 1u);
    }
    g.barrier();
    for (int k = me; k < passes * digits; k += size)
      if (mine[k] != 0) atomicAdd(&state[k], mine[k]);
  }
};

// A pass of a group of so many items, of which each has so many keys.
template <class T, bool Down, int Threads, int Each>
struct radix_pass : radix<T, Down> {
  using base = radix<T, Down>;
  using key = typename base::key;
  static constexpr int warps = Threads / 32, tile = Threads * Each;
  static constexpr int digits = base::digits;
  static_assert(Threads % 32 == 0 && Threads >= digits,
                "each digit has an item, and warps are whole");
  // Bytes of a group's memory for keys, for their places, or for counts of
  // warps; and words.
  static constexpr int most = sizeof(key) > 4 ? sizeof(key) : 4;
  static constexpr int room =
      tile * most > warps *digits * 4 ? tile *most : warps *digits * 4;
  static constexpr int words = digits + digits / 32 + 1;

  // The sum of x of the items before this one; each digit's item has an x.
  static CELER_FN uint32_t before(const warp &w, uint32_t x, uint32_t *sums) {
    uint32_t upto = x;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const uint32_t other = w.of(upto, w.lane() - by);
      if (w.lane() >= by) upto += other;
    }
    if (w.lane() == 31 && w.number() < digits / 32) sums[w.number()] = upto;
    w.g.barrier();
    uint32_t sum = upto - x;
    for (int k = 0; k < digits / 32; ++k)
      if (k < w.number()) sum += sums[k];
    w.g.barrier();
    return sum;
  }

  // How many keys there are of this item's digit in tiles before this one, and
  // of smaller digits in all.
  CELER_FN uint32_t look_back(int me, int pass, int64_t at) const {
    uint32_t sum = 0;
    for (int64_t k = at - 1;;) {
      const uint32_t word = heard(base::told(pass, k) + me);
      if (word == 0) continue;
      sum += word & base::count_bits;
      if ((word & base::of_all) != 0) return sum;
      --k;
    }
  }

  // `from`: n keys; `at_from`: where they were before the first pass, or null
  // in that one. `to`, `at_to`: where they go. Where the latter is null, no
  // places do. `given`: the tile; negative: the next one.
  CELER_FN void run(const group<1> &g, const key *from, key *to,
                    const uint32_t *at_from, uint32_t *at_to, int64_t n,
                    int pass, unsigned char *room_at, uint32_t *few,
                    uint64_t *room_of_warps, int64_t given = -1) const {
    const warp w = {g, room_of_warps};
    const int me = g.local(0);
    uint32_t *const counts = (uint32_t *)room_at + w.number() * digits;
    uint32_t *const offset = few, *const sums = few + digits;
    uint32_t *const which = sums + digits / 32;
    if (me == 0)
      *which = given < 0 ? atomicAdd(base::taken(pass), 1u) : uint32_t(given);
    for (int k = me; k < warps * digits; k += Threads)
      ((uint32_t *)room_at)[k] = 0;
    g.barrier();
    const int64_t at = *which, begin = at * tile;
    const int count = int(n - begin < tile ? n - begin : tile);
    const int first = w.number() * 32 * Each + w.lane();
    // Keys of a warp lie side by side. What lies behind the last one counts as
    // the last digit, behind all others.
    key mine[Each];
    uint32_t place[Each]; // the digit; then also where it goes in the tile
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const bool there = first + 32 * i < count;
      mine[i] = there ? from[begin + first + 32 * i] : key(0);
      place[i] = there ? base::digit(mine[i], pass) : digits - 1;
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) atomicAdd(&counts[place[i]], 1u);
    g.barrier();
    // Counts of warps become those of the warps before, and are told.
    uint32_t total = 0;
    if (me < digits) {
      uint32_t *const column = (uint32_t *)room_at + me;
#pragma unroll
      for (int k = 0; k < warps; ++k) {
        const uint32_t c = column[k * digits];
        column[k * digits] = total;
        total += c;
      }
      if (at > 0) tell(base::told(pass, at) + me, total | base::of_tile);
      tell(base::told(pass + 1, at) + me, 0u);
    }
    const uint32_t smaller = before(w, total, sums);
    uint32_t start = 0;
    if (at == 0) { // where the digit begins in all
      start = before(w, me < digits ? base::counts(pass)[me] : 0, sums);
      if (me < digits)
        tell(base::told(pass, at) + me, (start + total) | base::of_all);
    }
    if (me < digits) {
      uint32_t *const column = (uint32_t *)room_at + me;
#pragma unroll
      for (int k = 0; k < warps; ++k) column[k * digits] += smaller;
    }
    g.barrier();
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const uint32_t d = place[i], alike = w.template match<8>(d);
      const int last = highest(alike);
      uint32_t next = 0;
      if (w.lane() == last) {
        next = counts[d];
        counts[d] = next + ones(alike);
      }
      next = w.of(next, last) + ones(alike & ((1u << w.lane()) - 1));
      w.wait();
      place[i] = next << 8 | d;
    }
    g.barrier();
    key *const keys = (key *)room_at;
#pragma unroll
    for (int i = 0; i < Each; ++i) keys[place[i] >> 8] = mine[i];
    uint32_t was[Each]; // on their way while this looks back
    if (at_to != nullptr) {
#pragma unroll
      for (int i = 0; i < Each; ++i) {
        const int k = first + 32 * i;
        was[i] = uint32_t(begin + k);
        if (at_from != nullptr && k < count) was[i] = at_from[begin + k];
      }
    }
    if (me < digits) {
      if (at > 0) {
        start = look_back(me, pass, at);
        tell(base::told(pass, at) + me, (start + total) | base::of_all);
      }
      offset[me] = start - smaller;
    }
    g.barrier();
    uint32_t there[Each];
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const int k = i * Threads + me;
      if (k >= count) continue;
      const key x = keys[k];
      there[i] = offset[base::digit(x, pass)] + k;
      to[there[i]] = x;
    }
    if (at_to == nullptr) return;
    g.barrier();
    uint32_t *const places = (uint32_t *)room_at;
#pragma unroll
    for (int i = 0; i < Each; ++i)
      if (first + 32 * i < count) places[place[i] >> 8] = was[i];
    g.barrier();
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const int k = i * Threads + me;
      if (k < count) at_to[there[i]] = places[k];
    }
  }
};

} // namespace celer

#endif
