// scan.cuh -- what the elements up to each one come to, read once and written
// once: for lua/celer/arrays/scan.lua. Comes after celer.cuh and warp.cuh.
//
// Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled
// Look-back" (2016): a group takes a tile of elements, tells what they come to,
// and learns from groups before it what all before them come to.
//
// Difference: the order of operations is fixed, so sums of fractions have the
// same bits in each run. 32 tiles are a span. What tiles of a span come to is
// combined by a tree, by each tile for those before it; what spans come to,
// from the left, one after the other. Only the last tile of a span looks back
// over spans, and tells what all up to its own come to.
#ifndef CELER_SCAN_CUH
#define CELER_SCAN_CUH

#include "warp.cuh"

namespace celer {

// `Combine` has operator()(T, T). A group has so many items, a warp of it so
// many rows of elements, of which each item has so many side by side. Where
// these are more than can be loaded at once, they go by way of memory of the
// group. An order of few rows is cheap on the processor, too.
template <class T, class Combine, int Threads, int Rows, int Each>
struct scan_tile {
  static constexpr int bytes = sizeof(T), each = Each;
  static constexpr int warps = Threads / 32, tile = Threads * each * Rows;
  static constexpr int words = (bytes + 3) / 4; // of a cell
  static constexpr bool staged = Rows == 1 && each > 1 && each *bytes > 16;
  // Elements of a group's memory: for each warp and one more; what is staged.
  static constexpr int room = warps + 1 + (staged ? Threads * (each + 1) : 0);
  struct alignas(staged || each == 1 ? alignof(T) : 16) pack {
    T at[each];
  };

  // What tiles tell, zero at first: the number of tiles taken; then cells, of
  // tiles, of spans, and of all up to the end of a span. A word of a cell has
  // 32 bits of a T, and above them the number of the launch that told it: from
  // 1 on, all of so many tiles.
  uint64_t *state;
  int64_t tiles;
  uint32_t launch;
  CELER_FN uint64_t *of_tile(int64_t k) const {
    return state + 1 + k * words;
  }
  CELER_FN uint64_t *of_span(int64_t k) const {
    return of_tile(tiles) + k * words;
  }
  CELER_FN uint64_t *upto_span(int64_t k) const {
    return of_span((tiles + 31) / 32) + k * words;
  }

  CELER_FN void put(uint64_t *cell, const T &x) const {
    uint32_t part[words] = {};
    memcpy(part, &x, sizeof x);
#pragma unroll
    for (int k = 0; k < words; ++k)
      tell(cell + k, uint64_t(launch) << 32 | part[k]);
  }
  CELER_FN bool look(const uint64_t *cell, T *x) const {
    uint32_t part[words];
    bool there = true;
#pragma unroll
    for (int k = 0; k < words; ++k) {
      const uint64_t word = heard(cell + k);
      there = there && word >> 32 == launch;
      part[k] = uint32_t(word);
    }
    if (there) memcpy(x, part, sizeof *x);
    return there;
  }
  CELER_FN T get(const uint64_t *cell) const {
    T x;
    while (!look(cell, &x)) {
    }
    return x;
  }

  static CELER_FN T combine(const T &a, const T &b) {
    return Combine()(a, b);
  }

  // What x of the lanes up to each one comes to.
  static CELER_FN T along(const warp &w, T x) {
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const T other = w.of(x, w.lane() - by);
      if (w.lane() >= by) x = combine(other, x);
    }
    return x;
  }

  // What all spans before this one come to, by the warp of its last tile.
  CELER_FN T look_back(const warp &w, int64_t span) const {
    const int64_t k = span - 1 - w.lane();
    T all, own;
    uint32_t ends, told;
    do {
      bool has_all = false, has_own = false;
      while (k >= 0 && !has_all && !has_own) {
        has_all = look(upto_span(k), &all);
        has_own = !has_all && look(of_span(k), &own);
      }
      ends = w.ballot(has_all);
      told = w.ballot(has_own);
      ends &= -ends; // the nearest
    } while (ends == 0 || (told & (ends - 1)) != ends - 1);
    const int from = highest(ends);
    T sum = w.of(all, from);
    // On the processor all warps come here, and may have seen others.
    for (int lane = warp::apart ? from - 1 : 31; lane >= 0; --lane) {
      const T next = w.of(own, lane);
      if (lane < from) sum = combine(sum, next);
    }
    return sum;
  }

  // What all tiles before this one come to, by one warp; `tile_sum`: what this
  // one does.
  CELER_FN T before(const warp &w, int64_t at, const T &tile_sum) const {
    const int64_t span = at / 32;
    const int in_span = int(at % 32);
    T x = tile_sum;
    if (w.lane() < in_span)
      x = get(of_tile(span * 32 + w.lane()));
    else if (w.lane() == 31 && in_span < 31 && span > 0)
      x = get(upto_span(span - 1));
    const T upto = along(w, x);
    const T sum = w.of(upto, in_span - 1), last = w.of(upto, 31);
    if (in_span == 31) {
      if (w.lane() == 0) put(span > 0 ? of_span(span) : upto_span(span), last);
      if (span == 0) return sum;
      const T all = look_back(w, span);
      if (w.lane() == 0) put(upto_span(span), combine(all, last));
      return combine(all, sum);
    }
    if (span == 0) return sum;
    const T all = w.of(x, 31);
    return in_span > 0 ? combine(all, sum) : all;
  }

  static CELER_FN void load(const T *from, int count, bool whole, int first,
                            T (&x)[Rows][each]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const int k = first + r * 32 * each;
      if (whole) {
        const pack p = *(const pack *)(from + k);
#pragma unroll
        for (int v = 0; v < each; ++v) x[r][v] = p.at[v];
      } else {
#pragma unroll
        for (int v = 0; v < each; ++v)
          x[r][v] = from[k + v < count ? k + v : 0];
      }
    }
  }
  static CELER_FN void store(T *to, int count, bool whole, int first,
                             const T (&x)[Rows][each]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const int k = first + r * 32 * each;
      if (whole) {
        pack p;
#pragma unroll
        for (int v = 0; v < each; ++v) p.at[v] = x[r][v];
        *(pack *)(to + k) = p;
      } else {
#pragma unroll
        for (int v = 0; v < each; ++v)
          if (k + v < count) to[k + v] = x[r][v];
      }
    }
  }
  static CELER_FN bool is_aligned(const T *at) {
    return (size_t)at % alignof(pack) == 0;
  }

  // Scans the elements of a warp; what they come to.
  static CELER_FN T scan_rows(const warp &w, T (&x)[Rows][each]) {
    T sum = x[0][0];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int v = 1; v < each; ++v) x[r][v] = combine(x[r][v - 1], x[r][v]);
      const T upto = along(w, x[r][each - 1]);
      T left = w.of(upto, w.lane() - 1);
      if (r > 0) left = w.lane() > 0 ? combine(sum, left) : sum;
      const T last = w.of(upto, 31);
      if (r > 0 || w.lane() > 0) {
#pragma unroll
        for (int v = 0; v < each; ++v) x[r][v] = combine(left, x[r][v]);
      }
      sum = r > 0 ? combine(sum, last) : last;
    }
    return sum;
  }

  // From what elements up to each one come to, to that of those before it;
  // `left`: what those before the warp do.
  static CELER_FN void shift(const warp &w, T left, T (&x)[Rows][each]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const T last = x[r][each - 1];
      const T before = w.of(last, w.lane() - 1);
      const T next = w.of(last, 31);
#pragma unroll
      for (int v = each - 1; v > 0; --v) x[r][v] = x[r][v - 1];
      x[r][0] = w.lane() > 0 ? before : left;
      left = next;
    }
  }

  // From memory to items, or back, by way of a group's. There an element lies
  // between those of each two items, so that these do not meet in its banks.
  static CELER_FN void load_staged(const group<1> &g, const T *from, int count,
                                   T *room, T (&x)[Rows][each]) {
    const int me = g.local(0);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int k = i * Threads + me;
      room[k + k / each] = from[k < count ? k : 0];
    }
    g.barrier();
#pragma unroll
    for (int v = 0; v < each; ++v) x[0][v] = room[me * (each + 1) + v];
  }
  static CELER_FN void store_staged(const group<1> &g, T *to, int count,
                                    T *room, const T (&x)[Rows][each]) {
    const int me = g.local(0);
    g.barrier();
#pragma unroll
    for (int v = 0; v < each; ++v) room[me * (each + 1) + v] = x[0][v];
    g.barrier();
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int k = i * Threads + me;
      if (k < count) to[k] = room[k + k / each];
    }
  }

  // One tile of n elements, for one group. `sums`: `room` of the group's
  // memory.
  struct part {
    const warp w;
    T *const sums;
    const int64_t begin;
    const int count, first;
    T x[Rows][each];

    CELER_FN part(const group<1> &g, T *sums, uint64_t *room, int64_t at,
                  int64_t n)
        : w{g, room}, sums(sums), begin(at * tile),
          count(int(n - begin < tile ? n - begin : tile)),
          first((w.number() * Rows * 32 + w.lane()) * each) {
    }
    // What the tile comes to; within warps elements are scanned then.
    CELER_FN T scan(const T *from) {
      if constexpr (staged)
        load_staged(w.g, from, count, sums + warps + 1, x);
      else
        load(from, count, count == tile && is_aligned(from), first, x);
      const T own = scan_rows(w, x);
      if (w.lane() == 0) sums[w.number()] = own;
      w.g.barrier();
      T sum = sums[0];
#pragma unroll
      for (int k = 1; k < warps; ++k) sum = combine(sum, sums[k]);
      return sum;
    }
    // Writes it, with what comes before the tile, if anything does.
    CELER_FN void write(T *to, bool some, const T &all, bool exclusive,
                        const T &identity) {
      T left = identity;
      if (w.number() > 0) {
        left = sums[0];
        for (int k = 1; k < w.number(); ++k) left = combine(left, sums[k]);
        if (some) left = combine(all, left);
      } else if (some) {
        left = all;
      }
      if (some || w.number() > 0) {
#pragma unroll
        for (int r = 0; r < Rows; ++r)
#pragma unroll
          for (int v = 0; v < each; ++v) x[r][v] = combine(left, x[r][v]);
      }
      if (exclusive) shift(w, left, x);
      if constexpr (staged)
        store_staged(w.g, to, count, sums + warps + 1, x);
      else
        store(to, count, count == tile && is_aligned(to), first, x);
    }
  };

  // Scans n elements, in one launch. `which`: of the group's memory.
  CELER_FN void run(const group<1> &g, const T *from, T *to, int64_t n,
                    bool exclusive, const T &identity, T *sums, uint32_t *which,
                    uint64_t *room_of_warps) const {
    if (g.local(0) == 0)
      *which =
          atomicAdd((uint32_t *)state, 1u) - (launch - 1) * uint32_t(tiles);
    g.barrier();
    const int64_t at = *which;
    part p(g, sums, room_of_warps, at, n);
    const T sum = p.scan(from + p.begin);
    if (!warp::apart || p.w.number() == 0) {
      if (g.local(0) == 0) put(of_tile(at), sum);
      const T all = before(p.w, at, sum);
      if (g.local(0) == 0) sums[warps] = all;
    }
    g.barrier();
    p.write(to + p.begin, at > 0, sums[warps], exclusive, identity);
  }

  // The same in several launches, where devices share the elements: what tiles
  // come to; what spans do, by a group of one warp for each; what all up to
  // each span do, by one item; and then the elements.
  template <class U, class S>
  static CELER_FN void total(const group<1> &g, const U &u, const S &of_tiles,
                             int64_t n, T *sums, uint64_t *room_of_warps) {
    const int64_t at = g.number(0);
    part p(g, sums, room_of_warps, at, n);
    const T sum = p.scan(&u(p.begin));
    if (g.local(0) == 0) of_tiles(at) = sum;
  }
  template <class S, class R>
  static CELER_FN void span(const group<1> &g, const S &of_tiles,
                            const R &of_spans, int64_t tiles,
                            uint64_t *room_of_warps) {
    const warp w = {g, room_of_warps};
    const int64_t at = g.number(0) * 32 + w.lane();
    const T upto = along(w, of_tiles(at < tiles ? at : tiles - 1));
    if (w.lane() == 31) of_spans(g.number(0)) = upto;
  }
  template <class R>
  static CELER_FN void spans(const R &of_spans, int64_t count) {
    T sum = of_spans(0);
    for (int64_t k = 1; k < count; ++k)
      of_spans(k) = sum = combine(sum, of_spans(k));
  }
  template <class U, class V, class S, class R>
  static CELER_FN void finish(const group<1> &g, const U &u, const V &v,
                              const S &of_tiles, const R &of_spans, int64_t n,
                              bool exclusive, const T &identity, T *sums,
                              uint64_t *room_of_warps) {
    const int64_t at = g.number(0), span = at / 32;
    const int in_span = int(at % 32);
    part p(g, sums, room_of_warps, at, n);
    p.scan(&u(p.begin));
    if (at > 0 && (!warp::apart || p.w.number() == 0)) {
      const int lane = p.w.lane() < in_span ? p.w.lane() : 0;
      const T upto = along(p.w, of_tiles(span * 32 + lane));
      T all = p.w.of(upto, in_span - 1);
      if (span > 0) {
        const T left = of_spans(span - 1);
        all = in_span > 0 ? combine(left, all) : left;
      }
      if (g.local(0) == 0) sums[warps] = all;
    }
    g.barrier();
    p.write(&v(p.begin), at > 0, sums[warps], exclusive, identity);
  }

  // ---- the same in the same order, without groups: an item for each tile

  static CELER_FN int count_of(int64_t at, int64_t n) {
    return int(n - at * tile < tile ? n - at * tile : tile);
  }
  static CELER_FN void along(T (&x)[32]) {
    for (int by = 1; by < 32; by *= 2)
      for (int lane = 31; lane >= by; --lane)
        x[lane] = combine(x[lane - by], x[lane]);
  }
  // Of a warp, what the elements of each lane up to each one come to, if that
  // is asked for, and all of its own.
  static CELER_FN void lanes(const T *from, T *upto, T (&all)[32]) {
    for (int lane = 0; lane < 32; ++lane) {
      const int first = lane * each;
      T sum = from[first];
      if (upto != nullptr) upto[first] = sum;
      for (int v = 1; v < each; ++v) {
        sum = combine(sum, from[first + v]);
        if (upto != nullptr) upto[first + v] = sum;
      }
      all[lane] = sum;
    }
  }

  // Where any order will do.
  static CELER_FN T total_any(const T *from) {
    T sum = from[0];
    for (int k = 1; k < tile; ++k) sum = combine(sum, from[k]);
    return sum;
  }
  static CELER_FN void finish_any(const T *from, T *to, int count, bool some,
                                  const T &all, bool exclusive,
                                  const T &identity) {
    T sum = some ? combine(all, from[0]) : from[0],
      last = some ? all : identity;
    for (int k = 0;;) {
      to[k] = exclusive ? last : sum;
      if (++k == count) return;
      last = sum;
      sum = combine(sum, from[k]);
    }
  }

  // Nobody asks for that of a tile that is not whole.
  static CELER_FN T total_alone(const T *from) {
    static_assert(Rows == 1, "lanes have their elements side by side");
    T sum = from[0];
    for (int w = 0; w < warps; ++w) {
      T x[32];
      lanes(from + w * 32 * each, nullptr, x);
      for (int n = 16; n > 0; n /= 2) // as the last lane has it
        for (int k = 0; k < n; ++k) x[k] = combine(x[2 * k], x[2 * k + 1]);
      sum = w > 0 ? combine(sum, x[0]) : x[0];
    }
    return sum;
  }
  template <class S>
  static CELER_FN T span_alone(const S &of_tiles, int64_t span, int64_t tiles) {
    T x[32];
    for (int lane = 0; lane < 32; ++lane) {
      const int64_t at = span * 32 + lane;
      x[lane] = of_tiles(at < tiles ? at : tiles - 1);
    }
    along(x);
    return x[31];
  }
  // What all tiles before this one come to, of which there are some.
  template <class S, class R>
  static CELER_FN T before_alone(int64_t at, const S &of_tiles,
                                 const R &of_spans) {
    const int64_t span = at / 32;
    const int in_span = int(at % 32);
    if (in_span == 0) return of_spans(span - 1);
    T x[32];
    for (int lane = 0; lane < 32; ++lane)
      x[lane] = of_tiles(span * 32 + (lane < in_span ? lane : 0));
    along(x);
    if (span == 0) return x[in_span - 1];
    return combine(of_spans(span - 1), x[in_span - 1]);
  }
  static CELER_FN void finish_alone(const T *from, T *to, int count, bool some,
                                    const T &all, bool exclusive,
                                    const T &identity) {
    constexpr int most = 32 * each; // elements of a warp
    T sum = all, left = all, upto[most], of_lanes[32];
    for (int first = 0; first < count; first += most) {
      const int n = count - first < most ? count - first : most;
      const T *in = from + first;
      if (n < most) { // behind the last one comes what nobody asks for
        for (int k = 0; k < most; ++k) upto[k] = in[k < n ? k : 0];
        in = upto;
      }
      lanes(in, upto, of_lanes);
      along(of_lanes);
      const bool has_left = some || first > 0;
      T *const out = exclusive || n < most ? upto : to + first;
      for (int v = 0; v < each; ++v)
        out[v] = has_left ? combine(left, upto[v]) : upto[v];
      for (int lane = 1; lane < 32; ++lane) {
        T *const own = upto + lane * each, *const next = out + lane * each;
        const T before = of_lanes[lane - 1];
        for (int v = 0; v < each; ++v) {
          const T x = combine(before, own[v]);
          next[v] = has_left ? combine(left, x) : x;
        }
      }
      if (exclusive) to[first] = has_left ? left : identity;
      if (out == upto)
        for (int k = exclusive; k < n; ++k) to[first + k] = upto[k - exclusive];
      sum = first > 0 ? combine(sum, of_lanes[31]) : of_lanes[31];
      left = some ? combine(all, sum) : sum;
    }
  }
};

} // namespace celer

#endif
