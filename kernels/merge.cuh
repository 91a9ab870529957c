// merge.cuh -- numbers that several GPUs have put in order, each its part,
// become one order: for lua/celer/arrays/merge.lua.
//
// First, cuts are found. For each place where a piece of a part begins it says
// how many numbers of each run come before that place in the whole order. Parts
// tell samples of their runs, each a number and its place; with those of all
// parts each knows between which samples of its own run a cut lies, and tells
// more samples from there, until these are neighbours. Then each part gets what
// is of its pieces, and merges it by pairs. Odeh, Green, Mwassi, Shmueli and
// Birk, "Merge Path - Parallel Merging Made Simple" (2012): where a tile of the
// result begins in both runs is found by halving; so groups merge tiles alone.
//
// Before parts are in order, samples of them say between which places a cut is
// likely to lie. What lies between may go to its part as soon as it is in
// order.
//
// Equal numbers of earlier parts come first, so they keep their order.
#ifndef CELER_MERGE_CUH
#define CELER_MERGE_CUH

#include "radix.cuh"

namespace celer {

// Each part of the result in so many pieces, of which the last ones may be
// shorter. Cut c is where piece c begins.
struct merge_parts : radix_parts {
  int64_t each;

  CELER_FN int64_t pieces() const {
    return count * each;
  }
  CELER_FN int64_t place(int64_t cut) const {
    const int64_t most = (n + count - 1) / count, part = cut / each;
    const int64_t at = begin(part) + cut % each * ((most + each - 1) / each);
    return at < begin(part + 1) ? at : begin(part + 1);
  }
  // Of what there is for each cut of a run.
  CELER_FN int64_t row(int64_t run, int64_t cut) const {
    return run * (pieces() + 1) + cut;
  }
};

// Between which places of a run a cut is likely to lie, by samples of keys that
// are in no order: of each part so many.
struct merge_guess {
  merge_parts parts;
  int64_t samples;
  static constexpr int some = 32; // that a group looks at

  // Which element of its part a sample is: one of each of so many equal shares.
  CELER_FN int64_t at(int64_t part, int64_t k) const {
    const int64_t size = parts.size(part), first = size * k / samples;
    const int64_t share = size * (k + 1) / samples - first;
    const uint64_t any = uint64_t(k + 1) * 0x9e3779b97f4a7c15ull >> 33;
    return share > 1 ? first + int64_t(any % uint64_t(share)) : first;
  }
  // Adds what `some` samples of a part, from number `first` of all on, say of
  // its cuts: how many of them come before the sample that lies so many before
  // the cut, and so many behind it. `rank`: words of the group's memory.
  CELER_FN void add(const group<1> &g, const uint64_t *all, int64_t first,
                    int64_t margin, uint32_t *guess, uint32_t *rank) const {
    const int64_t count = samples * parts.count, i = first + g.local(0) % some;
    if (g.local(0) < some) rank[g.local(0)] = 0;
    g.barrier();
    const uint64_t x = all[i];
    uint32_t before = 0;
#pragma unroll 16
    for (int64_t k = g.local(0) / some; k < count; k += g.size(0) / some)
      before += all[k] < x || (all[k] == x && k < i);
    atomicAdd(&rank[i - first], before);
    g.barrier();
    const int64_t ends = 2 * (parts.pieces() + 1);
    for (int64_t k = g.local(0); k < ends; k += g.size(0)) {
      const int64_t middle = count * parts.place(k / 2) / parts.n;
      const int64_t end = middle + (k % 2 == 0 ? -margin : margin);
      uint32_t sum = 0;
      for (int j = 0; j < some; ++j) sum += rank[j] < end;
      if (sum > 0) atomicAdd(&guess[k], sum);
    }
  }
  // The first place, or with `end` the last one: a sample more than guessed, so
  // that something lies between.
  template <class G>
  CELER_FN int64_t bound(const G &guess, int64_t run, int64_t cut,
                         int end) const {
    const int64_t before = guess(2 * parts.row(run, cut) + end);
    const int64_t at = end == 0 ? before - 1 : before + 1;
    return parts.size(run) *
           (at < 0         ? 0
            : at > samples ? samples
                           : at) /
           samples;
  }
  // Whether a cut that was found between its bounds, in all runs, lies there in
  // all of them. What is before it in one run, and behind it in another, is
  // then known to be in order.
  template <class G>
  CELER_FN bool holds(const G &guess, int64_t run, int64_t cut,
                      int64_t at) const {
    const int64_t least = bound(guess, run, cut, 0);
    const int64_t most = bound(guess, run, cut, 1);
    return (at > least || least == 0) && (at < most || most == parts.size(run));
  }
};

// What a part tells of its run for one cut: that this lies in [lo, hi], and
// every so many-th number from lo on, as its code; so many of these at most.
struct merge_samples {
  uint64_t *at;
  int64_t most;
  static constexpr int head = 2;

  CELER_FN int64_t lo() const {
    return int64_t(at[0]);
  }
  CELER_FN int64_t hi() const {
    return int64_t(at[1]);
  }
  CELER_FN int64_t step() const {
    const int64_t step = (hi() - lo() + most - 1) / most;
    return step > 1 ? step : 1;
  }
  CELER_FN int64_t count() const {
    return (hi() - lo() + step() - 1) / step();
  }
  CELER_FN uint64_t code(int64_t k) const {
    return at[head + k];
  }
  // How many there are before x; those that equal it, too, if `equal`.
  CELER_FN int64_t before(uint64_t x, bool equal) const {
    int64_t low = 0, high = count();
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const uint64_t y = code(middle);
      if (y < x || (equal && y == x))
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  // By all items of a group.
  template <class T, bool Down>
  CELER_FN void tell(const group<1> &g, const typename radix<T, Down>::key *run,
                     int64_t lo, int64_t hi) const {
    if (g.local(0) == 0) at[0] = uint64_t(lo), at[1] = uint64_t(hi);
    g.barrier();
    const int64_t n = count(), by = step();
    for (int64_t k = g.local(0); k < n; k += g.size(0))
      at[head + k] = uint64_t(radix<T, Down>::code(run[lo + k * by]));
  }
};

// What all parts tell, of all cuts but the first and the last one.
struct merge_search {
  merge_parts parts;
  int64_t most;

  CELER_FN int64_t words() const {
    return merge_samples::head + most;
  }
  CELER_FN merge_samples of(uint64_t *all, int64_t part, int64_t cut) const {
    return {all + (part * (parts.pieces() - 1) + cut) * words(), most};
  }

  // At most, or at least, so many numbers come before sample k of a part. Where
  // a cut cannot lie in a run before, or behind, what its part tells, that
  // counts as if it did.
  CELER_FN int64_t rank(uint64_t *all, int64_t part, int64_t cut, int64_t k,
                        bool most_of) const {
    const merge_samples own = of(all, part, cut);
    const uint64_t x = own.code(k);
    int64_t sum = own.lo() + k * own.step();
    for (int64_t r = 0; r < parts.count; ++r) {
      if (r == part) continue;
      const merge_samples other = of(all, r, cut);
      const int64_t i = other.before(x, r < part), lo = other.lo();
      if (most_of)
        sum += i < other.count() ? lo + i * other.step() : other.hi();
      else
        sum += i > 0 ? lo + (i - 1) * other.step() + 1 : lo;
    }
    return sum;
  }

  // Between which places of a part's run a cut lies. One half of the group
  // looks for the last sample that is surely before it, the other for the first
  // that is surely not. `found`: two words of the group's memory.
  CELER_FN void narrow(const group<1> &g, uint64_t *all, int64_t part,
                       int64_t cut, uint32_t *found, int64_t *lo,
                       int64_t *hi) const {
    const merge_samples own = of(all, part, cut);
    const int64_t count = own.count(), wanted = parts.place(cut + 1);
    const int half = g.size(0) / 2, me = g.local(0) % half;
    const bool first = g.local(0) < half;
    int64_t low = 0, high = count; // so many of them are
    for (int64_t width = count; width > 0;
         width = width <= half ? 0 : (width + half - 1) / half) {
      const int64_t step = (high - low + half - 1) / half, k = low + me * step;
      if (me == 0) found[!first] = 0;
      g.barrier();
      if (k < high && rank(all, part, cut, k, first) < wanted)
        atomicAdd(&found[!first], 1u);
      g.barrier();
      const int64_t n = found[!first];
      if (n == 0) {
        high = low;
      } else {
        if (low + n * step < high) high = low + n * step;
        low += (n - 1) * step + 1;
      }
      g.barrier();
    }
    if (me == 0) found[!first] = uint32_t(low);
    g.barrier();
    *lo = found[0] > 0 ? own.lo() + (found[0] - 1) * own.step() + 1 : own.lo();
    *hi = found[1] < count ? own.lo() + found[1] * own.step() : own.hi();
  }
};

// Two runs that become one, from element `to` on.
struct merge_pair {
  int64_t a, a_count, b, b_count, to;
};

// The tiles of a piece: of so many runs become one in each half of a pair.
// `cuts`: of each run, where all pieces begin, and its end; where a cut does
// not lie where it was guessed, the complement.
struct merge_level {
  merge_parts parts;
  const int64_t *cuts;
  int64_t runs, tile;

  CELER_FN int64_t cut(int64_t piece, int64_t run) const {
    const int64_t at = cuts[parts.row(run, piece)];
    return at < 0 ? ~at : at;
  }
  CELER_FN bool was_guessed(int64_t piece) const {
    for (int64_t run = 0; run < parts.count; ++run)
      if (cuts[parts.row(run, piece)] < 0 ||
          cuts[parts.row(run, piece + 1)] < 0)
        return false;
    return true;
  }
  CELER_FN int64_t count(int64_t piece, int64_t run, int64_t end) const {
    int64_t sum = 0;
    for (; run < end && run < parts.count; ++run)
      sum += cut(piece + 1, run) - cut(piece, run);
    return sum;
  }
  CELER_FN int64_t begin(int64_t piece, int64_t run) const {
    return run < parts.count ? parts.begin(run) + cut(piece, run) : 0;
  }
  // To which pair a tile of the piece belongs, and where it begins there; false
  // where there is no such tile.
  CELER_FN bool find(int64_t piece, int64_t number, merge_pair *pair,
                     int64_t *first) const {
    int64_t to = parts.place(piece);
    for (int64_t run = 0; run < parts.count; run += 2 * runs) {
      const int64_t a = count(piece, run, run + runs);
      const int64_t b = count(piece, run + runs, run + 2 * runs);
      const int64_t tiles = (a + b + tile - 1) / tile;
      if (number < tiles) {
        *pair = {to, a, to + a, b, to};
        if (runs == 1)
          pair->a = begin(piece, run), pair->b = begin(piece, run + 1);
        *first = number * tile;
        return true;
      }
      number -= tiles;
      to += a + b;
    }
    return false;
  }
};

// How many of the first n of both runs are of the first one.
template <class R, class A, class B>
CELER_FN int64_t merge_split(const A &a, int64_t a_count, const B &b,
                             int64_t b_count, int64_t n) {
  int64_t low = n > b_count ? n - b_count : 0, high = n < a_count ? n : a_count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (R::code(b(n - 1 - middle)) < R::code(a(middle)))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Merges a tile by a group of so many items, each so many keys.
template <class T, bool Down, int Threads, int Each>
struct merge_tile : radix<T, Down> {
  using base = radix<T, Down>;
  using key = typename base::key;
  static constexpr int tile = Threads * Each;
  static constexpr int room = tile * (sizeof(key) > 4 ? sizeof(key) : 4);

  // `a`, `b`: of the tile, and how many there are. Each key that goes to place
  // k of `to` has put(k, where it was: those of b behind those of a).
  template <class P>
  static CELER_FN void run(const group<1> &g, const key *a, int a_count,
                           const key *b, int b_count, key *to, bool with_places,
                           const P &put, unsigned char *room_at) {
    key *const keys = (key *)room_at;
    const int me = g.local(0), count = a_count + b_count;
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const int k = i * Threads + me;
      if (k < count) keys[k] = k < a_count ? a[k] : b[k - a_count];
    }
    g.barrier();
    const int first = me * Each < count ? me * Each : count;
    int at = int(merge_split<base>([&](int64_t k) { return keys[k]; }, a_count,
                                   [&](int64_t k) { return keys[a_count + k]; },
                                   b_count, first));
    int bt = a_count + first - at;
    key mine[Each];
    uint32_t was[Each];
    const auto held = [&](int k) { return keys[k < count ? k : 0]; };
    key x = held(at), y = held(bt);
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const bool is_a =
          bt >= count || (at < a_count && !(base::code(y) < base::code(x)));
      mine[i] = is_a ? x : y;
      was[i] = is_a ? at++ : bt++;
      const key next = held(is_a ? at : bt);
      (is_a ? x : y) = next;
    }
    g.barrier();
#pragma unroll
    for (int i = 0; i < Each; ++i)
      if (first + i < count) keys[first + i] = mine[i];
    g.barrier();
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const int k = i * Threads + me;
      if (k < count) to[k] = keys[k];
    }
    if (!with_places) return;
    g.barrier();
    uint32_t *const places = (uint32_t *)room_at;
#pragma unroll
    for (int i = 0; i < Each; ++i)
      if (first + i < count) places[first + i] = was[i];
    g.barrier();
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const int k = i * Threads + me;
      if (k < count) put(k, int(places[k]));
    }
  }
};

} // namespace celer

#endif
