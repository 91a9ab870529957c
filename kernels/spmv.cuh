// spmv.cuh -- a sparse matrix in compressed rows times a vector, for
// lua/celer/arrays/spmv.lua. Comes after celer.cuh and warp.cuh.
//
// A group takes a tile of entries, as many as any other, however long rows are:
// after Greathouse and Daga, "Efficient Sparse Matrix-Vector Multiplication on
// GPUs Using the CSR Storage Format" (2014), whose groups take rows, and
// Merrill and Garland, "Merge-Based Parallel Sparse Matrix-Vector
// Multiplication" (2016). Products go to shared memory; there a short piece of
// a row is added up by one item, a long one by a warp. What a tile has of a row
// that began before it goes to `carry`, and is added in the order of tiles by a
// second launch. So a row's sum has the same bits wherever its entries lie in a
// chunk.
#ifndef CELER_SPMV_CUH
#define CELER_SPMV_CUH

#include "warp.cuh"

namespace celer {

template <class T> CELER_FN T streamed(const T &x) { // read once
#ifdef CELER_CUDA
  return __ldcs(&x);
#else
  return x;
#endif
}
template <class T> CELER_FN T kept(const T &x) { // perhaps read again
#ifdef CELER_CUDA
  return __ldg(&x);
#else
  return x;
#endif
}

// Of so many entries, by groups of so many items.
template <class T, int Threads, int Tile> struct spmv {
  static constexpr int each = Tile / Threads, alone = 32, warps = Threads / 32;
  static constexpr int room = Tile + Tile / 16, most = Tile / alone + 1;
  static_assert(Tile % Threads == 0, "items have as many entries");

  // Where a product lies: rows of 8 or 16 entries begin in different banks.
  static CELER_FN int place(int k) {
    return k + (k >> 4);
  }
  // Sums of a piece of a row, by an item and by a warp; of its first lane.
  template <class F>
  static CELER_FN T in_line(const F &product, int64_t from, int64_t to) {
    T sum = product(from);
    for (int64_t k = from + 1; k < to; ++k) sum += product(k);
    return sum;
  }
  template <class F>
  static CELER_FN T by_warp(const warp &w, const F &product, int64_t from,
                            int64_t to) {
    T sum = 0;
    for (int64_t k = from + w.lane(); k < to; k += 32) sum += product(k);
#pragma unroll
    for (int by = 16; by > 0; by /= 2) sum += w.of(sum, w.lane() + by);
    return sum;
  }

  // Piece j of tile t: 0 is what it has of a row before its own, which begins
  // at row `first`; the others are its rows, one by one.
  template <class P>
  static CELER_FN void piece(const P &ptr, int64_t begin, int count,
                             int64_t first, int j, int *from, int *to) {
    *from = 0;
    if (j > 0) *from = int(ptr(first + j - 1) - begin);
    const int64_t end = ptr(first + j) - begin;
    *to = end < count ? int(end) : count;
  }

  // `start`: for each tile the first row that begins in it, or behind; and the
  // number of rows, at the end. `products`: room elements.
  template <class P, class C, class V, class X, class S, class Y>
  static CELER_FN void tile(const group<1> &g, const P &ptr, const C &col,
                            const V &val, const X &x, const S &start,
                            const Y &y, const Y &carry, int64_t entries,
                            T *products, int *longer, uint64_t *room_of_warps) {
    const warp w = {g, room_of_warps};
    const int64_t t = g.number(0), begin = t * Tile;
    const int me = g.local(0);
    const int count = int(entries - begin < Tile ? entries - begin : Tile);
    if (me == 0) longer[most] = 0;
    if (count == Tile) {
      T own[each];
      int64_t at[each];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        at[i] = streamed(col(begin + i * Threads + me));
        own[i] = streamed(val(begin + i * Threads + me));
      }
#pragma unroll
      for (int i = 0; i < each; ++i) own[i] *= kept(x(at[i]));
#pragma unroll
      for (int i = 0; i < each; ++i) products[place(i * Threads + me)] = own[i];
    } else {
      for (int k = me; k < count; k += Threads)
        products[place(k)] = val(begin + k) * x(col(begin + k));
    }
    const auto product = [&](int k) { return products[place(k)]; };
    const int64_t first = start(t);
    const int rows = int(start(t + 1) - first);
    g.barrier();
    for (int j = me; j <= rows; j += Threads) {
      int from, to;
      piece(ptr, begin, count, first, j, &from, &to);
      if (to - from > alone) {
        longer[atomicAdd(&longer[most], 1)] = j;
        continue;
      }
      const T sum = to > from ? in_line(product, from, to) : T(0);
      if (j > 0)
        y(first + j - 1) = sum;
      else
        carry(t) = sum;
    }
    g.barrier();
    const int n = longer[most];
    for (int k = 0; k < n; k += warps) {
      const int i = k + w.number(), j = i < n ? longer[i] : 0;
      int from = 0, to = 0;
      if (i < n) piece(ptr, begin, count, first, j, &from, &to);
      const T sum = by_warp(w, product, from, to);
      if (i >= n || w.lane() > 0) continue;
      if (j > 0)
        y(first + j - 1) = sum;
      else
        carry(t) = sum;
    }
  }

  // Adds what tiles from t on have of a row that begins in the one before it.
  template <class P, class S, class Y, class K>
  static CELER_FN void carried(int64_t t, const P &ptr, const S &start,
                               const Y &y, const K &carry) {
    const int64_t row = start(t);
    if (t == 0 || start(t - 1) == row) return;
    const int64_t upto = (ptr(row) + Tile - 1) / Tile;
    if (upto <= t) return;
    T sum = y(row - 1);
#pragma unroll 8
    for (int64_t k = t; k < upto; ++k) sum += carry(k);
    y(row - 1) = sum;
  }

  // The same sums, where a group has rows: as many as items. Long ones are for
  // warps. `longer`: an int for each item and one more, of the group's memory.
  template <class P, class C, class V, class X, class Y>
  static CELER_FN void rows(const group<1> &g, const P &ptr, const C &col,
                            const V &val, const X &x, const Y &y, int64_t rows,
                            int *longer, uint64_t *room_of_warps) {
    const warp w = {g, room_of_warps};
    const auto product = [&](int64_t k) { return val(k) * x(col(k)); };
    const int me = g.local(0);
    const int64_t row = g.global(0), first = row - me;
    if (me == 0) longer[Threads] = 0;
    g.barrier();
    if (row < rows) {
      const int64_t from = ptr(row), to = ptr(row + 1);
      if (to - from > alone) {
        longer[atomicAdd(&longer[Threads], 1)] = me;
      } else {
        T sum = 0;
        for (int64_t k = from; k < to;) {
          const int64_t next = cut(k, to);
          const T part = in_line(product, k, next);
          sum = k == from ? part : sum + part;
          k = next;
        }
        y(row) = sum;
      }
    }
    g.barrier();
    const int n = longer[Threads];
    int64_t most = 0; // on the processor all warps wait for each other
    for (int k = 0; k < n && !warp::apart; ++k) {
      const int64_t r = first + longer[k];
      const int64_t pieces = (ptr(r + 1) - 1) / Tile - ptr(r) / Tile + 1;
      most = pieces > most ? pieces : most;
    }
    for (int k = 0; k < n; k += warps) {
      const int i = k + w.number();
      const int64_t r = first + (i < n ? longer[i] : 0);
      const int64_t from = i < n ? ptr(r) : 0, to = i < n ? ptr(r + 1) : 0;
      T sum = 0;
      int64_t at = from;
      for (int64_t j = 0; warp::apart ? at < to : j < most; ++j) {
        const int64_t next = cut(at, to);
        T part = 0;
        if (next - at > alone || !warp::apart)
          part = by_warp(w, product, at, next);
        if (next - at <= alone && at < next && w.lane() == 0)
          part = in_line(product, at, next);
        if (at < next) sum = at == from ? part : sum + part;
        at = next;
      }
      if (i < n && w.lane() == 0) y(r) = sum;
    }
  }
  // Where a row's piece from k on ends.
  static CELER_FN int64_t cut(int64_t k, int64_t to) {
    const int64_t end = (k / Tile + 1) * Tile;
    return end < to ? end : to;
  }

  // Which tiles row r is the first to begin in.
  template <class P, class S>
  static CELER_FN void starts(int64_t r, int64_t rows, int64_t tiles,
                              const P &ptr, const S &start) {
    int64_t from = r > 0 ? ptr(r - 1) / Tile + 1 : 0, to = ptr(r) / Tile;
    if (to >= tiles) to = tiles - 1;
    for (int64_t t = from; t <= to; ++t) start(t) = r;
    if (r == rows) start(tiles) = r;
  }
};

} // namespace celer

#endif
