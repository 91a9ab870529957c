// stream.cuh -- CUDA: the steps of a fold by warps that go down the rows of
// some columns. A part of fold.cuh, for steps of two dimensions that read
// around their items along the axes alone, and of one, where there is one row.
// It stands there where CELER_STREAM is defined.
//
// Level 0 is what arrays hold before the fold, level s + 1 what step s writes.
// A warp has 128 columns, a lane four of them, side by side. When row i of
// level 0 comes, row i - lag of each other level is computed, which by then has
// all that it needs: a few rows of each level are in registers, and what lies
// beside a lane's columns comes from the lanes beside it. So memory is passed
// over once for all steps, and no warp waits for another.
//
// At each step what is right is less by its reach. The other columns of a warp
// are computed, too, unless the step reads something else than the fold's
// arrays, where what is not right may lead anywhere.
namespace celer {

template <int D, class L, class... Steps> struct flow {
  static constexpr int steps = sizeof...(Steps), most_arrays = 64;
  int lag[steps + 1];
  signed char level[steps + 1][most_arrays]; // of each array, before a step
  int left[steps], right[steps];             // columns that a step reads beside
  int depth;                                 // rows of each level
  int side;   // columns that are read on each side
  int behind; // rows that a step reads before its own

  constexpr flow()
      : lag(), level(), left(), right(), depth(1), side(0), behind(0) {
    for (int s = 0; s < steps; ++s) {
      const int ahead = above0(s) - above0(s + 1);
      left[s] = below1(s) - below1(s + 1);
      right[s] = above1(s) - above1(s + 1);
      side = most(side, most(left[s], right[s]));
      behind = most(behind, below0(s) - below0(s + 1));
      // Lanes give each other what they had a row before: no time is lost.
      const bool waits = D > 1 && left[s] + right[s] > 0;
      lag[s + 1] = lag[s] + most(ahead, waits);
      for (int a = 0; a < most_arrays; ++a) {
        const int was = level[s][a], age = lag[s + 1] - lag[was];
        level[s + 1][a] = writes(s, a) ? s + 1 : was;
        if (writes(s, a)) depth = most(depth, age + 1);
        if (reads(s, a))
          depth = most(depth, age + below0(s) - below0(s + 1) + 1);
      }
    }
  }

  static constexpr int most(int a, int b) {
    return a < b ? b : a;
  }
  static constexpr int below0(int level) {
    const int all[] = {L::below0, Steps::around::below0...};
    return all[level];
  }
  static constexpr int above0(int level) {
    const int all[] = {L::above0, Steps::around::above0...};
    return all[level];
  }
  static constexpr int below1(int level) {
    const int all[] = {L::below1, Steps::around::below1...};
    return all[level];
  }
  static constexpr int above1(int level) {
    const int all[] = {L::above1, Steps::around::above1...};
    return all[level];
  }
  static constexpr bool reads(int s, int a) {
    const bool all[] = {Steps::reads(a)...};
    return all[s];
  }
  static constexpr bool writes(int s, int a) {
    const bool all[] = {Steps::writes(a)...};
    return all[s];
  }
};

// As `within`, of what nothing is known.
struct anywhere_of {
  int i, n;
  __device__ __forceinline__ int at(int) const {
    return i;
  }
  __device__ __forceinline__ int extent() const {
    return n;
  }
};

// As `within`, of coordinate K; or of that which has Left others behind it.
template <int K, int Beyond> struct near_begin {
  int high;
  __device__ __forceinline__ explicit near_begin(int n) : high(n - 1 - K) {
    asm("" : "+r"(high));
    __builtin_assume(high >= Beyond);
  }
  __device__ __forceinline__ int at(int) const {
    return K;
  }
  __device__ __forceinline__ int extent() const {
    return high + (K + 1);
  }
};
template <int Below, int Left> struct near_end {
  int low;
  __device__ __forceinline__ explicit near_end(int i) : low(i - Below) {
    asm("" : "+r"(low));
    __builtin_assume(low >= 0);
  }
  __device__ __forceinline__ int at(int) const {
    return low + Below;
  }
  __device__ __forceinline__ int extent() const {
    return low + (Below + Left + 1);
  }
};

// What another lane has.
template <bool Before, class T>
static __device__ __forceinline__ T of_lane_beside(const T &x) {
  if constexpr (sizeof(T) <= 4) {
    return T(Before ? __shfl_up_sync(~0u, unsigned(x), 1)
                    : __shfl_down_sync(~0u, unsigned(x), 1));
  } else if constexpr (sizeof(T) == 8) {
    return of_lane_beside<Before>(unsigned(x)) |
           T(of_lane_beside<Before>(unsigned(x >> 32))) << 32;
  } else {
    return {of_lane_beside<Before>(x.x), of_lane_beside<Before>(x.y),
            of_lane_beside<Before>(x.z), of_lane_beside<Before>(x.w)};
  }
}

template <class L, class All, class... Steps> struct stream;
template <class L, class... E, class... Steps>
struct stream<L, fold_elements<E...>, Steps...> {
  using folded = fold<fold_elements<E...>, Steps...>;
  using packed = typename folded::packed;
  using every = typename folded::every;
  static constexpr int D = folded::D;
  static constexpr flow<D, L, Steps...> of = {};
  static constexpr int steps = of.steps;
  static constexpr int lanes = 32, own = 4, columns = lanes * own;
  // Of a warp's columns so many are not right in the end: whole lanes.
  static constexpr int left = (L::below1 + own - 1) / own * own;
  static constexpr int right = (L::above1 + own - 1) / own * own;
  static_assert(of.side <= own, "lanes know their neighbours alone");

  // Warps that a multiprocessor is to have room for, which leaves a thread 128
  // registers, or 168 for longer elements or more arrays.
  static constexpr int resident = (E::size + ... + 0) <= 8 ? 16 : 12;

  template <class Of> struct cell {
    typename Of::unit part[Of::size / sizeof(typename Of::unit)];
  };
  // A lane's elements of a row.
  template <class Of>
  static constexpr int unit = own *Of::size % 16 == 0  ? 16
                              : own *Of::size % 8 == 0 ? 8
                                                       : 4;
  template <class Of> struct alignas(unit<Of>) piece { cell<Of> at[own]; };
  // And its rows of an array, of each level, the newest first.
  template <class Of> struct column {
    piece<Of> at[steps + 1][of.depth];
    piece<Of> next; // of level 0, which is on its way
  };
  using rows = numbered_all<every, column<E>...>;
  // And what is beside it.
  template <class Of> struct wider { cell<Of> at[of.side + own + of.side]; };
  using beside = numbered_all<every, wider<E>...>;

  // A lane's elements of one column.
  using cells = numbered_all<every, cell<E>...>;

  // Rows that are right in the end; the lane's first column.
  struct stretch {
    int begin, end, x;
    // A bit for each level in which the column is right. Of level 0: whether
    // any step computes it.
    unsigned levels[own];
    bool begins, ends; // the warp has to do with where dimension 1 does
  };

  // What is known of a row, as a warp sees it. Inside: no level has to do with
  // where dimension 0 ends. Steady: all levels have something to compute.
  // Inner: none of the warp's columns has to do with where dimension 1 ends.
  template <bool Inside, bool Steady, bool Inner> struct of_row {
    static constexpr bool inside = Inside, steady = Steady, inner = Inner;
  };

  template <class R, int S, int C> struct in_stream {
    static constexpr bool inner = false;
    rows &all;
    const beside &sides;
    int i, j;

    template <int A, class Q> __device__ __forceinline__ void put(Q &q) const {
      using element = decltype(q.origin);
      if constexpr (traits<Q>::kind == an_in) {
        constexpr int was = of.level[S][A];
        q.column = (element)&get<A>(all).at[was][0].at[C];
        q.pitch = own;
        q.age = of.lag[S + 1] - of.lag[was];
        q.depth = of.depth;
        q.beside = (element)&get<A>(sides).at[of.side + C];
        q.left = of.left[S];
        q.right = of.right[S];
        q.from0 = i;
        q.from1 = j;
      } else {
        q.own = (element)&get<A>(all).at[S + 1][0].at[C];
      }
    }
  };

  static __device__ __forceinline__ index place_in(const fold_array &a, int i,
                                                   int j) {
    asm("" : "+r"(i)); // else it counts in 64 bits, which takes longer
    return index(i) * a.stride0 + j;
  }

  // A lane's elements of a row at once, where they are aligned.
  template <class Of>
  static __device__ __forceinline__ void
  copy_piece(bool wide, unsigned char *to, const unsigned char *from) {
    static_assert(sizeof(piece<Of>) == own * Of::size,
                  "from a column's row to the next one there are `own`");
    if (wide)
      element<own * Of::size, unit<Of>>::copy(to, from);
    else
#pragma unroll
      for (int c = 0; c < own; ++c)
        Of::copy(to + c * Of::size, from + c * Of::size);
  }

  // Asks for row i of level 0.
  template <class R, int A, class Of>
  static __device__ __forceinline__ void
  fetch(const packed &p, const stretch &t, piece<Of> &to, int i) {
    const fold_array &a = p.array.at[A];
    const bool within = R::inside && R::inner && i < p.launch.inner_max[0];
    if (a.loads == 0 || (within && a.loads != loads_all)) return;
    if (i >= t.end + L::above0 || i >= a.max[0] || i < a.min[0]) return;
    const unsigned char *from = a.from + place_in(a, i, t.x) * Of::size;
    if constexpr (R::inner) {
      copy_piece<Of>(a.wide, (unsigned char *)&to, from);
    } else {
#pragma unroll
      for (int c = 0; c < own; ++c)
        if (t.x + c >= a.min[2] && t.x + c < a.max[2])
          Of::copy((unsigned char *)&to.at[c], from + c * Of::size);
    }
  }

  // A new row of a level: what was there before, where a kernel leaves it.
  template <int Level, int A>
  static __device__ __forceinline__ void begin(rows &all) {
    if constexpr (Level == 0 || of.level[Level][A] == Level) {
      auto &column = get<A>(all);
#pragma unroll
      for (int k = of.depth - 1; k > 0; --k)
        column.at[Level][k] = column.at[Level][k - 1];
      if constexpr (Level == 0) {
        column.at[0][0] = column.next;
      } else {
        constexpr int was = of.level[Level - 1][A];
        column.at[Level][0] = column.at[was][of.lag[Level] - of.lag[was]];
      }
    }
  }

  // For memory.
  template <class R, int Level, int A, class Of>
  static __device__ __forceinline__ void end(const packed &p, const stretch &t,
                                             rows &all, int row) {
    if constexpr (Level > 0 && of.level[steps][A] == Level) {
      const fold_array &a = p.array.at[A];
      const launch &w = p.launch.where;
      const piece<Of> &from = get<A>(all).at[Level][0];
      if (!a.stores || !(R::steady || row >= t.begin) ||
          !((R::steady && Level == steps) || row < t.end) ||
          !(R::inside || unsigned(row - w.min[0]) < w.extent[0]))
        return;
      unsigned char *to = a.to + place_in(a, row, t.x) * Of::size;
      if constexpr (R::inner) {
        if (t.levels[0] >> steps & 1)
          copy_piece<Of>(a.wide, to, (const unsigned char *)&from);
      } else {
#pragma unroll
        for (int c = 0; c < own; ++c)
          if (t.levels[c] >> steps & 1)
            Of::copy(to + c * Of::size, (const unsigned char *)&from.at[c]);
      }
    }
  }

  template <class R, class S>
  static __device__ __forceinline__ bool computes(const typename S::packed &p,
                                                  const stretch &t, int row) {
    using M = typename S::around;
    return (R::steady ||
            (row >= t.begin - M::below0 && row < t.end + M::above0)) &&
           (R::inside || unsigned(row - p.where.min[0]) < p.where.extent[0]);
  }

  // A row, and what a step reads beside the lane's columns.
  template <int Step, class Of>
  static __device__ __forceinline__ void look_beside(const piece<Of> &from,
                                                     wider<Of> &to) {
    constexpr int parts = sizeof from.at[0].part / sizeof from.at[0].part[0];
#pragma unroll
    for (int c = 0; c < own; ++c) to.at[of.side + c] = from.at[c];
#pragma unroll
    for (int k = 1; k <= of.left[Step]; ++k)
#pragma unroll
      for (int n = 0; n < parts; ++n)
        to.at[of.side - k].part[n] =
            of_lane_beside<true>(from.at[own - k].part[n]);
#pragma unroll
    for (int k = 0; k < of.right[Step]; ++k)
#pragma unroll
      for (int n = 0; n < parts; ++n)
        to.at[of.side + own + k].part[n] =
            of_lane_beside<false>(from.at[k].part[n]);
  }

  // What a step reads of its items' row.
  template <int Step, int A, class Of>
  static __device__ __forceinline__ void look(rows &all, beside &sides) {
    if constexpr (of.reads(Step, A) && of.left[Step] + of.right[Step] > 0) {
      constexpr int was = of.level[Step][A];
      look_beside<Step, Of>(get<A>(all).at[was][of.lag[Step + 1] - of.lag[was]],
                            get<A>(sides));
    }
  }

  // Calls the step's function for column C of a lane.
  template <class R, class S, int Step, int C, class I, class J>
  static __device__ __forceinline__ void
  item_at(const typename S::packed &p, rows &all, const beside &sides,
          const I &i, const J &j, int c) {
    const in_stream<R, Step, C> place = {all, sides, i.at(0), j.at(c)};
    if constexpr (D == 1)
      S::run(p, item<1>{{j.at(c)}, {j.extent()}}, place);
    else
      S::run(p, item<2>{{i.at(0), j.at(c)}, {i.extent(), j.extent()}}, place);
  }

  // What a step writes of column C, exchanged with `other`; or that, where not
  // `own`.
  template <int Step, int C, int A>
  static __device__ __forceinline__ void swap(rows &all, cells &other) {
    if constexpr (of.level[Step + 1][A] == Step + 1) {
      const auto was = get<A>(other);
      get<A>(other) = get<A>(all).at[Step + 1][0].at[C];
      get<A>(all).at[Step + 1][0].at[C] = was;
    }
  }
  template <int Step, int C, int A>
  static __device__ __forceinline__ void copy(rows &all, cells &other) {
    if constexpr (of.level[Step + 1][A] == Step + 1)
      get<A>(other) = get<A>(all).at[Step + 1][0].at[C];
  }
  template <int Step, int C, int A>
  static __device__ __forceinline__ void choose(rows &all, const cells &other,
                                                bool own) {
    if constexpr (of.level[Step + 1][A] == Step + 1) {
      auto &to = get<A>(all).at[Step + 1][0].at[C];
      constexpr int parts = sizeof to.part / sizeof to.part[0];
#pragma unroll
      for (int n = 0; n < parts; ++n)
        to.part[n] = own ? to.part[n] : get<A>(other).part[n];
    }
  }

  // At an edge each item is computed as one of which the compiler is told that
  // nothing ends near it. If there is one in the warp of which it knows how
  // near it is to an end, that is computed for all lanes, too, and each takes
  // its own. So nothing is left of what a kernel does at ends, and no lane
  // waits for others.
  template <class R, class S, int Step, int C, class I, class J, int... A>
  static __device__ __forceinline__ void
  at_end(const typename S::packed &p, rows &all, const beside &sides,
         const cells &before, const I &i, const J &j, bool own, indices<A...>) {
    cells other = before;
    (swap<Step, C, A>(all, other), ...);
    item_at<R, S, Step, C>(p, all, sides, i, j, 0);
    (choose<Step, C, A>(all, other, own), ...);
  }
  template <class R, class S, class Before, int Step, int C, int K, class I>
  static __device__ __forceinline__ void
  at_ends(const typename S::packed &p, const stretch &t, rows &all,
          const beside &sides, const cells &before, const I &i) {
    constexpr int below = Before::below1 - S::around::below1;
    constexpr int beyond = Before::above1 - S::around::above1;
    if constexpr (K < beyond) {
      const int x = t.x + C, last = int(p.where.range[D - 1]) - 1 - K;
      if (last % own == C)
        at_end<R, S, Step, C>(p, all, sides, before, i,
                              near_end<below, K>(last), x == last, every());
      at_ends<R, S, Before, Step, C, K + 1>(p, t, all, sides, before, i);
    }
  }
  template <class R, class S, class Before, int Step, int C, class I>
  static __device__ __forceinline__ void
  at_begin(const typename S::packed &p, const stretch &t, rows &all,
           const beside &sides, const cells &before, const I &i) {
    constexpr int below = Before::below1 - S::around::below1;
    constexpr int beyond = Before::above1 - S::around::above1;
    const int x = t.x + C, n = int(p.where.range[D - 1]);
    if constexpr (C < below) // lanes begin at multiples of four
      at_end<R, S, Step, C>(p, all, sides, before, i, near_begin<C, beyond>(n),
                            x == C, every());
  }
  template <class R, class S, class Before, int Step, int C, class I>
  static __device__ __forceinline__ void amid(const typename S::packed &p,
                                              const stretch &t, rows &all,
                                              const beside &sides, const I &i) {
    constexpr int below = Before::below1 - S::around::below1;
    constexpr int beyond = Before::above1 - S::around::above1;
    const int n = int(p.where.range[D - 1]), most = n - 1 - beyond;
    const int x = t.x + C < below ? below : t.x + C;
    item_at<R, S, Step, C>(p, all, sides, i,
                           within<below, beyond>(x < most ? x : most, n), 0);
  }
  template <int Step, int C, int... A>
  static __device__ __forceinline__ cells copy_all(rows &all, indices<A...>) {
    cells to;
    (copy<Step, C, A>(all, to), ...);
    return to;
  }
  template <int Step, int C, int... A>
  static __device__ __forceinline__ void
  choose_all(rows &all, const cells &before, bool own, indices<A...>) {
    (choose<Step, C, A>(all, before, own), ...);
  }
  template <class R, class S, class Before, int Step, class I, int... C>
  static __device__ __forceinline__ void
  at_edge(const typename S::packed &p, const stretch &t, rows &all,
          const beside &sides, const I &i, indices<C...>) {
    const cells before[] = {copy_all<Step, C>(all, every())...};
    (amid<R, S, Before, Step, C>(p, t, all, sides, i), ...);
    if (t.begins)
      (at_begin<R, S, Before, Step, C>(p, t, all, sides, before[C], i), ...);
    if (t.ends)
      (at_ends<R, S, Before, Step, C, 0>(p, t, all, sides, before[C], i), ...);
    (choose_all<Step, C>(all, before[C], t.levels[C] & 1, every()), ...);
  }

  template <class R, class S, class Before, int Step, class I, int... C>
  static __device__ __forceinline__ void
  items_of(const typename S::packed &p, const stretch &t, rows &all,
           const beside &sides, const I &i, indices<C...>) {
    using M = typename S::around;
    const int n = int(p.where.range[D - 1]);
    if constexpr (S::looks_elsewhere()) {
      ((t.levels[C] >> (Step + 1) & 1
            ? item_at<R, S, Step, C>(p, all, sides, i, anywhere_of{t.x + C, n},
                                     0)
            : void()),
       ...);
    } else if constexpr (R::inner) {
      const within<Before::below1 - M::below1, Before::above1 - M::above1,
                   own - 1>
          j(t.x, n);
      (item_at<R, S, Step, C>(p, all, sides, i, j, C), ...);
    } else {
      at_edge<R, S, Before, Step>(p, t, all, sides, i, indices<C...>());
    }
  }
  template <class R, class S, class Before, int Step>
  static __device__ __forceinline__ void row_of(const typename S::packed &p,
                                                const stretch &t, rows &all,
                                                const beside &sides, int row) {
    using M = typename S::around;
    constexpr auto each = typename count_up<own>::type();
    const int n = int(p.where.range[0]);
    if constexpr (R::inside)
      items_of<R, S, Before, Step>(
          p, t, all, sides,
          within<Before::below0 - M::below0, Before::above0 - M::above0>(row,
                                                                         n),
          each);
    else
      items_of<R, S, Before, Step>(p, t, all, sides, anywhere_of{row, n}, each);
  }

  // `sides` is what the step reads beside. Lanes give each other what the next
  // one reads before they compute, as that takes its time.
  template <class R, int Step, class Before, class S, class... Rest, class P,
            int... A>
  static __device__ __forceinline__ void
  advance(const packed &all_of, const P &p, const stretch &t, rows &all,
          const beside &sides, int i, indices<A...> each) {
    constexpr bool more = sizeof...(Rest) > 0;
    const int row = i - of.lag[Step + 1];
    beside next;
    (begin<Step + 1, A>(all), ...);
    if constexpr (D > 1 && more) (look<Step + 1, A, E>(all, next), ...);
    if (computes<R, S>(p.first, t, row))
      row_of<R, S, Before, Step>(p.first, t, all, sides, row);
    (end<R, Step + 1, A, E>(all_of, t, all, row), ...);
    if constexpr (D == 1 && more) (look<Step + 1, A, E>(all, next), ...);
    if constexpr (more)
      advance<R, Step + 1, typename S::around, Rest...>(all_of, p.rest, t, all,
                                                        next, i, each);
  }

  // When row i of level 0 comes.
  template <class R, int... A>
  static __device__ __forceinline__ void
  one(const packed &p, const stretch &t, rows &all, int i, indices<A...> each) {
    beside sides;
    (begin<0, A>(all), ...);
    (fetch<R, A, E>(p, t, get<A>(all).next, i + 1), ...);
    (look<0, A, E>(all, sides), ...);
    advance<R, 0, L, Steps...>(p, p.steps, t, all, sides, i, each);
  }
  template <int... A>
  static __device__ __forceinline__ void
  first(const packed &p, const stretch &t, rows &all, int i, indices<A...>) {
    (fetch<of_row<false, false, false>, A, E>(p, t, get<A>(all).next, i), ...);
  }

  // `count` rows from row i of level 0 on. Of so many at a time it is known
  // where they are in registers.
  static __device__ __forceinline__ void
  go_down(const packed &p, const stretch &t, rows &all, int i, int count) {
#pragma unroll(of.depth)
    for (int n = 0; n < count; ++n)
      one<of_row<true, true, true>>(p, t, all, i + n, every());
  }

  template <bool Inner>
  static __device__ __forceinline__ void body(const packed &p,
                                              const stretch &t) {
    const fold_launch &l = p.launch;
    constexpr int lag = of.lag[steps];
    const int from = t.begin + lag, stop = t.end + lag;
    // Rows of level 0 with which all levels are inside.
    const int inside = l.inner_min[0] + lag + of.behind;
    const int outside = l.inner_max[0];
    int i = t.begin - L::below0;
    rows all = {};
    first(p, t, all, i, every());
    if constexpr (D == 1) {
      one<of_row<true, true, Inner>>(p, t, all, 0, every());
    } else
#pragma unroll 1
      while (i < stop) {
        const int end = t.end + L::above0;
        const int steady = (end < outside ? end : outside) - i;
        if (Inner && i >= inside && i >= from && steady > 0) {
          go_down(p, t, all, i, steady);
          i += steady;
          continue;
        }
        if (Inner && i >= inside && i < outside)
          one<of_row<true, false, Inner>>(p, t, all, i, every());
        else
          one<of_row<false, false, Inner>>(p, t, all, i, every());
        ++i;
      }
  }

  // In which levels a column is right: there are fewer from each to the next,
  // and a step may compute fewer.
  template <int Level, class S, class... Rest, class P>
  static __device__ __forceinline__ unsigned levels_of(const P &p, int x,
                                                       int tx) {
    using M = typename S::around;
    const launch &w = p.first.where;
    unsigned levels =
        unsigned(tx >= left - M::below1 && tx < columns - right + M::above1 &&
                 unsigned(x - w.min[D - 1]) < w.extent[D - 1])
        << Level;
    if (Level == 1 && unsigned(x - w.min[D - 1]) < w.extent[D - 1]) levels |= 1;
    if constexpr (sizeof...(Rest) > 0)
      levels |= levels_of<Level + 1, Rest...>(p.rest, x, tx);
    return levels;
  }

  static constexpr int useful = columns - left - right;

  static __device__ __forceinline__ void strip_of(const packed &p, stretch &t,
                                                  unsigned strip) {
    const fold_launch &l = p.launch;
    const int low =
        (int(l.where.min[D - 1]) & -own) - left + int(strip) * useful;
    const int tx = int(threadIdx.x) * own;
    const bool inner = low - of.side >= l.inner_min[1] &&
                       low + columns + of.side <= l.inner_max[1];
    t.x = low + tx;
#pragma unroll
    for (int c = 0; c < own; ++c)
      t.levels[c] = levels_of<1, Steps...>(p.steps, t.x + c, tx + c);
    t.begins = low <= 0;
    t.ends = low + columns >= int(p.steps.first.where.range[D - 1]) - of.side;
    if (inner)
      body<true>(p, t);
    else
      body<false>(p, t);
  }

  // The rows of a warp are in the launch's flags; of one dimension it takes a
  // strip. Strips begin where pieces are aligned. The first and
  // the last one have to do with edges, which takes longer: they come first,
  // with half as many rows.
  static __device__ __forceinline__ void run(const packed &p) {
    const launch &w = p.launch.where;
    const int first = int(w.min[D - 1]) & -own;
    const int end = int(w.min[D - 1]) + int(w.extent[D - 1]);
    const unsigned strips = unsigned(end - first + useful - 1) / useful;
    stretch t = {0, 1, 0, {}, false, false};
    if constexpr (D == 1) {
      strip_of(p, t, blockIdx.x);
    } else {
      const unsigned few = (w.flags + 1) / 2, outer = strips < 2 ? strips : 2;
      const unsigned edges = outer * ((w.extent[0] + few - 1) / few);
      const bool edge = blockIdx.x < edges;
      const unsigned at = edge ? blockIdx.x : blockIdx.x - edges;
      const unsigned across = edge ? outer : strips - outer, i = at % across;
      const unsigned rows = edge ? few : w.flags, row = at / across * rows;
      t.begin = int(w.min[0]) + int(row);
      t.end =
          t.begin + int(w.extent[0] - row < rows ? w.extent[0] - row : rows);
      strip_of(p, t, !edge ? i + 1 : i == 1 ? strips - 1 : 0);
    }
  }
};

} // namespace celer

#define CELER_FLOW(around, ...)                                                \
  extern "C" __global__ void __launch_bounds__(                                \
      32, celer::stream<CELER_MARGIN around, __VA_ARGS__>::resident)           \
      celer_fused(const __grid_constant__ celer::fold<__VA_ARGS__>::packed     \
                      celer_given) {                                           \
    celer::stream<CELER_MARGIN around, __VA_ARGS__>::run(celer_given);         \
  }
