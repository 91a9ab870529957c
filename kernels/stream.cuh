// stream.cuh -- CUDA: the steps of a fold by blocks that go down the rows of
// some columns. A part of fold.cuh, for steps of two dimensions that read
// around their items along the axes alone. It stands there where CELER_STREAM
// is defined.
//
// Level 0 is what arrays hold before the fold, level s + 1 what step s writes.
// A block has 256 columns, a thread one of them. When row i of level 0 comes,
// row i - lag of each other level is computed, which by then has all that it
// needs: what lies in the thread's own column in its registers, and what lies
// beside it in shared memory, where a few rows of each level are. So an item
// takes two or three accesses to shared memory, whatever its kernel reads above
// and below, and memory is passed over once for all steps.
namespace celer {

template <class L, class... Steps> struct flow {
  static constexpr int steps = sizeof...(Steps), most_arrays = 64;
  int lag[steps + 1];
  signed char level[steps + 1][most_arrays]; // of each array, before a step
  bool seen[steps + 1][most_arrays];         // by other columns
  int depth;                                 // rows that registers keep
  int ring;   // rows that shared memory keeps, a power of two
  int side;   // columns that are read on each side
  int behind; // rows that a step reads before its own

  constexpr flow()
      : lag(), level(), seen(), depth(1), ring(1), side(0), behind(0) {
    for (int s = 0; s < steps; ++s) {
      const int left = below1(s) - below1(s + 1);
      const int right = above1(s) - above1(s + 1);
      const int ahead = above0(s) - above0(s + 1);
      const bool across = left + right > 0;
      side = most(side, most(left, right));
      behind = most(behind, below0(s) - below0(s + 1));
      lag[s + 1] = lag[s] + (across ? most(ahead, 1) : ahead);
      for (int a = 0; a < most_arrays; ++a) {
        const int was = level[s][a], age = lag[s + 1] - lag[was];
        level[s + 1][a] = writes(s, a) ? s + 1 : was;
        if (writes(s, a)) depth = most(depth, age + 1);
        if (!reads(s, a)) continue;
        depth = most(depth, age + below0(s) - below0(s + 1) + 1);
        if (!across) continue;
        while (ring < age + 1) ring *= 2;
        seen[was][a] = true;
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

template <class L, class All, class... Steps> struct stream;
template <class L, class... E, class... Steps>
struct stream<L, fold_elements<E...>, Steps...> {
  using folded = fold<fold_elements<E...>, Steps...>;
  using packed = typename folded::packed;
  using every = typename folded::every;
  static constexpr flow<L, Steps...> of = {};
  static constexpr int steps = of.steps, columns = 256;
  static constexpr int pitch = columns + 2 * of.side;

  // Where a level's rows of an array begin in shared memory; after the last,
  // the end.
  static constexpr int room_at(int level, int array) {
    const int size[] = {E::size...};
    constexpr int n = sizeof...(E);
    int at = 0;
    for (int i = 0; i < level * n + array; ++i)
      if (of.seen[i / n][i % n])
        at += (of.ring * pitch * size[i % n] + 15) / 16 * 16;
    return at;
  }

  // Rows of level 0 that are asked for before they are needed.
  static constexpr int ahead = of.depth;

  template <class Of> struct cell {
    typename Of::unit part[Of::size / sizeof(typename Of::unit)];
  };
  // A thread's rows of an array, of each level, the newest first.
  template <class Of> struct column {
    cell<Of> at[steps + 1][of.depth];
    cell<Of> next[ahead]; // of level 0, which are on their way
  };
  using rows = numbered_all<every, column<E>...>;

  // Rows that are right in the end; the thread's column, also in its block.
  struct stretch {
    int begin, end, x, tx;
    unsigned char *room;
    unsigned levels; // a bit for each in which the column is computed
    int turn;        // of rings: it counts the rows of level 0
  };

  // What is known of a row, as a warp sees it. Inside: no level has to do with
  // where dimension 0 ends. Steady: all levels have something to compute. Of
  // the warp's columns: whole, all are right in all levels; halo, those that
  // are lie where nothing ends, either.
  enum which { whole, halo, edge };
  template <bool Inside, bool Steady, which Warp> struct of_row {
    static constexpr bool inside = Inside, steady = Steady;
    static constexpr which warp = Warp;
  };

  // Where others see what a level's row i - lag has of the thread's column.
  template <int Level, int A, int Lag, class T>
  static __device__ __forceinline__ T *shown(const stretch &t) {
    constexpr int at = room_at(Level, A);
    return (T *)(t.room + at) + of.side + t.tx +
           (t.turn - Lag & of.ring - 1) * pitch;
  }

  template <class R, int S> struct in_stream {
    static constexpr bool inner = R::inside && R::warp != edge;
    rows &all;
    const stretch &t;
    int i, j;

    template <int A, class Q> __device__ __forceinline__ void put(Q &q) const {
      using element = decltype(q.origin);
      using unit = typename bare<decltype(get<A>(all).at[0][0])>::type;
      if constexpr (traits<Q>::kind == an_in) {
        constexpr int was = of.level[S][A];
        q.column = (element)&get<A>(all).at[was][0];
        q.age = of.lag[S + 1] - of.lag[was];
        q.depth = of.depth;
        q.pitch = pitch;
        q.from0 = i;
        q.from1 = j;
        q.origin = (element)shown<was, A, of.lag[S + 1], unit>(t);
      } else {
        q.own = (element)&get<A>(all).at[S + 1][0];
      }
    }
  };

  static __device__ __forceinline__ index place_in(const fold_array &a, int i,
                                                   int j) {
    asm("" : "+r"(i)); // else it counts in 64 bits, which takes longer
    return index(i) * a.stride0 + j;
  }

  // Asks for row i of level 0.
  template <which Warp, int A, class Of>
  static __device__ __forceinline__ void
  fetch(const packed &p, const stretch &t, column<Of> &to, int n, int i) {
    const fold_array &a = p.array.at[A];
    const bool within = Warp != edge && i < p.launch.inner_max[0];
    if (a.loads == 0 || (within && a.loads != loads_all)) return;
    if (i >= t.end + L::above0 || i >= a.max[0] || i < a.min[0]) return;
    if (Warp == edge && (t.x < a.min[2] || t.x >= a.max[2])) return;
    Of::copy((unsigned char *)&to.next[n],
             a.from + place_in(a, i, t.x) * Of::size);
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
        column.at[0][0] = column.next[0];
#pragma unroll
        for (int k = 1; k < ahead; ++k) column.next[k - 1] = column.next[k];
      } else {
        constexpr int was = of.level[Level - 1][A];
        column.at[Level][0] = column.at[was][of.lag[Level] - of.lag[was]];
      }
    }
  }

  // For other columns, and for memory.
  template <class R, int Level, int A, class Of>
  static __device__ __forceinline__ void end(const packed &p, const stretch &t,
                                             rows &all, int row) {
    const unsigned char *from =
        (const unsigned char *)&get<A>(all).at[Level][0];
    if constexpr (of.seen[Level][A])
      Of::copy((unsigned char *)shown<Level, A, of.lag[Level], cell<Of>>(t),
               from);
    if constexpr (Level > 0 && of.level[steps][A] == Level) {
      const fold_array &a = p.array.at[A];
      const launch &w = p.launch.where;
      if (a.stores && (R::steady || row >= t.begin) &&
          ((R::steady && Level == steps) || row < t.end) &&
          (R::warp == whole || (t.levels >> steps & 1)) &&
          (R::inside || unsigned(row - w.min[0]) < w.extent[0]))
        Of::copy(a.to + place_in(a, row, t.x) * Of::size, from);
    }
  }

  template <class R, class S, int Level>
  static __device__ __forceinline__ bool computes(const typename S::packed &p,
                                                  const stretch &t, int row) {
    using M = typename S::around;
    const launch &w = p.where;
    return (R::warp == whole || (t.levels >> Level & 1)) &&
           (R::steady ||
            (row >= t.begin - M::below0 && row < t.end + M::above0)) &&
           (R::inside || unsigned(row - w.min[0]) < w.extent[0]);
  }

  template <class R, class S, class Before, int Step>
  static __device__ __forceinline__ void
  item_of(const typename S::packed &p, const stretch &t, rows &all, int row) {
    const launch &w = p.where;
    item<2> it = {{row, t.x}, {w.range[0], w.range[1]}};
    using M = typename S::around;
    if constexpr (R::inside) {
      using rows =
          within<Before::below0 - M::below0, Before::above0 - M::above0>;
      const rows i(row, int(w.range[0]));
      it.at[0] = i.at(0);
      it.size[0] = i.extent();
    }
    if constexpr (R::warp != edge) {
      using columns =
          within<Before::below1 - M::below1, Before::above1 - M::above1>;
      const columns j(t.x, int(w.range[1]));
      it.at[1] = j.at(0);
      it.size[1] = j.extent();
    }
    const in_stream<R, Step> place = {all, t, int(it.at[0]), int(it.at[1])};
    S::run(p, it, place);
  }

  template <class R, int Step, class Before, class S, class... Rest, class P,
            int... A>
  static __device__ __forceinline__ void
  advance(const packed &all_of, const P &p, const stretch &t, rows &all, int i,
          indices<A...> each) {
    const int row = i - of.lag[Step + 1];
    (begin<Step + 1, A>(all), ...);
    if (computes<R, S, Step + 1>(p.first, t, row))
      item_of<R, S, Before, Step>(p.first, t, all, row);
    (end<R, Step + 1, A, E>(all_of, t, all, row), ...);
    if constexpr (sizeof...(Rest) > 0)
      advance<R, Step + 1, typename S::around, Rest...>(all_of, p.rest, t, all,
                                                        i, each);
  }

  // When row i of level 0 comes.
  template <class R, int... A>
  static __device__ __forceinline__ void
  one(const packed &p, const stretch &t, rows &all, int i, indices<A...> each) {
    (begin<0, A>(all), ...);
    (fetch<R::warp, A, E>(p, t, get<A>(all), ahead - 1, i + ahead), ...);
    (end<R, 0, A, E>(p, t, all, i), ...);
    advance<R, 0, L, Steps...>(p, p.steps, t, all, i, each);
  }
  template <int... A>
  static __device__ __forceinline__ void
  first(const packed &p, const stretch &t, rows &all, int i, indices<A...>) {
#pragma unroll
    for (int n = 0; n < ahead; ++n)
      (fetch<edge, A, E>(p, t, get<A>(all), n, i + n), ...);
  }

  // `count` rows from row i of level 0 on. Of so many at a time it is known
  // where they are in registers.
  template <which Warp>
  static __device__ __forceinline__ void go_down(const packed &p, stretch &t,
                                                 rows &all, int i, int count) {
#pragma unroll(Warp == edge ? 1 : of.depth)
    for (int n = 0; n < count; ++n) {
      t.turn = n;
      one<of_row<true, true, Warp>>(p, t, all, i + n, every());
      __syncthreads();
    }
  }

  // Warps come to different barriers here: each counts as the others do.
  static __device__ __forceinline__ void body(const packed &p, stretch &t,
                                              which of_warp) {
    const fold_launch &l = p.launch;
    constexpr int lag = of.lag[steps];
    const int from = t.begin + lag, stop = t.end + lag;
    // Rows of level 0 with which all levels are inside.
    const int inside = l.inner_min[0] + lag + of.behind;
    const int outside = l.inner_max[0];
    int i = t.begin - L::below0;
    rows all = {};
    first(p, t, all, i, every());
#pragma unroll 1
    while (i < stop) {
      const int end = t.end + L::above0;
      const int steady = (end < outside ? end : outside) - i;
      if (i >= from && i >= inside && (i - from) % of.ring == 0 && steady > 0) {
        if (of_warp == whole)
          go_down<whole>(p, t, all, i, steady);
        else if (of_warp == halo)
          go_down<halo>(p, t, all, i, steady);
        else
          go_down<edge>(p, t, all, i, steady);
        i += steady;
        continue;
      }
      t.turn = i - from;
      if (i >= inside && i < outside && of_warp != edge)
        one<of_row<true, false, halo>>(p, t, all, i, every());
      else
        one<of_row<false, false, edge>>(p, t, all, i, every());
      __syncthreads();
      ++i;
    }
  }

  // In which levels a column is computed: what is right becomes less from each
  // to the next, and a step may have fewer columns.
  template <int Level, class S, class... Rest, class P>
  static __device__ __forceinline__ unsigned levels_of(const P &p, int x,
                                                       int tx) {
    using M = typename S::around;
    const launch &w = p.first.where;
    unsigned levels = unsigned(tx >= L::below1 - M::below1 &&
                               tx < columns - L::above1 + M::above1 &&
                               unsigned(x - w.min[1]) < w.extent[1])
                      << Level;
    if constexpr (sizeof...(Rest) > 0)
      levels |= levels_of<Level + 1, Rest...>(p.rest, x, tx);
    return levels;
  }

  // The rows of a block are in the launch's flags.
  static __device__ __forceinline__ void run(const packed &p) {
    alignas(16) __shared__ unsigned char room[room_at(steps, 0)];
    const fold_launch &l = p.launch;
    const launch &w = l.where;
    const int begin = int(w.min[0]) + int(blockIdx.y) * int(w.flags);
    const int behind = int(w.min[0]) + int(w.extent[0]);
    const int left = int(w.min[1]) - L::below1 +
                     int(blockIdx.x) * (columns - L::below1 - L::above1);
    const int end =
        begin + int(w.flags) < behind ? begin + int(w.flags) : behind;
    const int tx = int(threadIdx.x), x = left + tx, warp = tx / 32 * 32;
    const bool inner = left + warp - of.side >= l.inner_min[1] &&
                       left + warp + 32 + of.side <= l.inner_max[1];
    const bool right = warp >= L::below1 && warp + 32 <= columns - L::above1;
    stretch t = {
        begin, end, x, tx, room, levels_of<1, Steps...>(p.steps, x, tx), 0};
    body(p, t, !inner ? edge : right ? whole : halo);
  }
};

} // namespace celer

// Four blocks at a time: see CELER_TILE.
#define CELER_FLOW(around, ...)                                                \
  extern "C" __global__ void __launch_bounds__(256, 4) celer_fused(            \
      const __grid_constant__ celer::fold<__VA_ARGS__>::packed celer_given) {  \
    celer::stream<CELER_MARGIN around, __VA_ARGS__>::run(celer_given);         \
  }
