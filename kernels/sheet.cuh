// sheet.cuh -- CUDA: the steps of a fold by blocks that keep a sheet of each
// array in registers. A part of fold.cuh, for the steps of two dimensions that
// stream.cuh is for, where they read nothing beyond the range. It stands behind
// that where CELER_SHEET is defined.
//
// A warp has 128 columns, a lane four of them, and `high` rows, all at once. At
// each step lanes give what lies beside their columns to the lanes beside them,
// and warps their first and last rows to those above and below, through shared
// memory. So a step waits once, and reads no element twice.
//
// All elements are computed at each step, as of streams: what is right is less
// by the step's reach. Blocks lie within the range, so where it ends nothing is
// missing, and what is near an end is always in the same registers. Where ends
// meet, blocks lie anywhere, and nothing is near an end. Steps that come again
// are compiled once.
namespace celer {

template <int K, class First, class... Rest> struct nth_of {
  using type = typename nth_of<K - 1, Rest...>::type;
};
template <class First, class... Rest> struct nth_of<0, First, Rest...> {
  using type = First;
};

// Copies to shared memory that are on their way until all are waited for. On a
// processor, where specs have blocks, they are there at once.
#ifdef __CUDA_ARCH__
static constexpr bool copies_ahead = __CUDA_ARCH__ >= 800;
#else
static constexpr bool copies_ahead = true;
#endif
template <int Bytes>
static __device__ __forceinline__ void copy_ahead(void *to, const void *from) {
#ifndef __CUDA_ARCH__
  __builtin_memcpy(to, from, Bytes);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                   unsigned(__cvta_generic_to_shared(to))),
               "l"(from), "n"(Bytes)
               : "memory");
#endif
}
static __device__ __forceinline__ void await_copies() {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// `High` rows are a warp's. Ahead: a block asks for the sheet that it has next
// while it computes one.
template <class L, int High, bool Ahead, class All, class... Steps>
struct sheet;
template <class L, int High, bool Ahead, class... E, class... Steps>
struct sheet<L, High, Ahead, fold_elements<E...>, Steps...> {
  using folded = fold<fold_elements<E...>, Steps...>;
  using lanes_of = stream<L, fold_elements<E...>, Steps...>;
  using packed = typename folded::packed;
  using every = typename folded::every;
  static constexpr flow<2, L, Steps...> of = {};
  static constexpr int steps = of.steps;
  static constexpr int own = lanes_of::own, columns = lanes_of::columns;
  static constexpr int left = lanes_of::left, right = lanes_of::right;
  static constexpr int useful = lanes_of::useful;
  static constexpr int high = High;
  static constexpr bool ahead = Ahead && copies_ahead;

  template <int S> using step_at = typename nth_of<S, Steps...>::type;
  static constexpr int above(int s) {
    return of.above0(s) - of.above0(s + 1);
  }
  static constexpr int below(int s) {
    return of.below0(s) - of.below0(s + 1);
  }
  static constexpr int furthest() {
    int most = of.side;
    for (int s = 0; s < steps; ++s)
      most = of.most(most, of.most(above(s), below(s)));
    return most;
  }
  static constexpr int ring = furthest();
  static_assert(ring <= high, "warps know their neighbours alone");

  // ---- registers

  template <class Of> using cell = typename lanes_of::template cell<Of>;
  template <class Of> using piece = typename lanes_of::template piece<Of>;
  // The last row first, as streams have them.
  template <class Of> struct column { piece<Of> at[ring + high + ring]; };
  using rows = numbered_all<every, column<E>...>;
  using beside = typename lanes_of::beside;
  using cells = typename lanes_of::cells;
  static constexpr int place_of(int r) {
    return ring + high - 1 - r;
  }

  struct spot {
    int i, x;          // the thread's first row and column
    bool begins, ends; // dimension 1 does at the block's first, or last, column
    bool top, bottom;  // and dimension 0 at the warp's first, or last, row
  };

  template <class S, int Step, int R, int C> struct in_sheet {
    static constexpr bool inner = L::torus;
    rows &all;
    const beside &sides;
    int i, j;

    template <int A, class Q> __device__ __forceinline__ void put(Q &q) const {
      using element = decltype(q.origin);
      if constexpr (traits<Q>::kind == an_in) {
        q.column = (element)&get<A>(all).at[place_of(R) - above(Step)].at[C];
        q.pitch = own;
        q.age = above(Step);
        q.depth = above(Step) + 1 + below(Step);
        q.beside = (element)&get<A>(sides).at[of.side + C];
        q.left = of.left[Step];
        q.right = of.right[Step];
        q.from0 = i;
        q.from1 = j;
      } else {
        q.own = (element)&get<A>(all).at[place_of(R)].at[C];
      }
    }
  };

  // ---- memory

  template <bool Inner, int A, class Of>
  static __device__ __forceinline__ void fetch(const packed &p, const spot &t,
                                               rows &all) {
    const fold_array &a = p.array.at[A];
    if (a.loads == 0 || ((Inner || L::torus) && a.loads != loads_all)) return;
    const index *n = p.launch.where.range;
    const int x = Inner ? t.x : place_on<L>(t.x, n[1]);
    const bool wide = a.wide && x % own == 0;
    const bool whole = Inner || (L::torus && x + own <= n[1] &&
                                 t.x >= a.min[2] && t.x + own <= a.max[2]);
#pragma unroll
    for (int r = 0; r < high; ++r) {
      const int y = t.i + r, i = Inner ? y : place_on<L>(y, n[0]);
      piece<Of> &to = get<A>(all).at[place_of(r)];
      const unsigned char *from =
          a.from + lanes_of::place_in(a, i, x) * Of::size;
      if (!Inner && (y < a.min[0] || y >= a.max[0])) continue;
      if (whole) {
        lanes_of::template copy_piece<Of>(wide, (unsigned char *)&to, from);
      } else {
#pragma unroll
        for (int c = 0; c < own; ++c)
          if (t.x + c >= a.min[2] && t.x + c < a.max[2])
            Of::copy((unsigned char *)&to.at[c],
                     from + (place_on<L>(t.x + c, n[1]) - x) * Of::size);
      }
    }
  }

  // What a lane asks for lies in shared memory, behind what warps show each
  // other, and nobody else looks at it.
  template <int A, class Of>
  static __device__ __forceinline__ piece<Of> *asked(int r) {
    constexpr int sizes[] = {E::size...};
    int before = 0;
#pragma unroll
    for (int a = 0; a < A; ++a) before += sizes[a];
    unsigned char *all = (unsigned char *)fold_room +
                         2 * blockDim.y * warp_room +
                         threadIdx.y * (high * columns * (E::size + ...));
    return (piece<Of> *)(all + before * high * columns) + r * lanes_of::lanes +
           threadIdx.x;
  }
  template <int A, class Of>
  static __device__ __forceinline__ void ask(const packed &p, const spot &t) {
    constexpr int unit = lanes_of::template unit<Of>;
    const fold_array &a = p.array.at[A];
    if (a.loads != loads_all) return;
#pragma unroll
    for (int r = 0; r < high; ++r) {
      const unsigned char *from =
          a.from + lanes_of::place_in(a, t.i + r, t.x) * Of::size;
      unsigned char *to = (unsigned char *)asked<A, Of>(r);
#pragma unroll
      for (int n = 0; n < own * Of::size; n += unit)
        copy_ahead<unit>(to + n, from + n);
    }
  }
  template <int A, class Of>
  static __device__ __forceinline__ void get_asked(const packed &p, rows &all) {
    if (p.array.at[A].loads != loads_all) return;
#pragma unroll
    for (int r = 0; r < high; ++r)
      get<A>(all).at[place_of(r)] = *asked<A, Of>(r);
  }

  // Of rows [first, behind); `mine`: a bit for each of the lane's columns.
  template <bool Inner, int A, class Of>
  static __device__ __forceinline__ void leave(const packed &p, const spot &t,
                                               const rows &all, int first,
                                               int behind, unsigned mine) {
    const fold_array &a = p.array.at[A];
    if (!a.stores || mine == 0) return;
    const index *n = p.launch.where.range;
    const int x = Inner ? t.x : place_on<L>(t.x, n[1]);
    const bool wide = a.wide && x % own == 0;
#pragma unroll
    for (int r = 0; r < high; ++r) {
      const int y = t.i + r, i = Inner ? y : place_on<L>(y, n[0]);
      const piece<Of> &from = get<A>(all).at[place_of(r)];
      unsigned char *to = a.to + lanes_of::place_in(a, i, x) * Of::size;
      if (y < first || y >= behind) continue;
      if constexpr (Inner) {
        lanes_of::template copy_piece<Of>(wide, to,
                                          (const unsigned char *)&from);
      } else {
#pragma unroll
        for (int c = 0; c < own; ++c)
          if (mine >> c & 1)
            Of::copy(to + (place_on<L>(t.x + c, n[1]) - x) * Of::size,
                     (const unsigned char *)&from.at[c]);
      }
    }
  }

  // ---- neighbours

  // What of shared memory a warp's rows of an array take at a step.
  template <int Step, int A, class Of> static constexpr int shown() {
    return of.reads(Step, A) ? (above(Step) + below(Step)) * columns * Of::size
                             : 0;
  }
  template <int Step, int... A>
  static constexpr int shown_at(int array, indices<A...>) {
    int at = 0;
    ((at += A < array ? shown<Step, A, E>() : 0), ...);
    return at;
  }
  template <int... S> static constexpr int room(indices<S...>) {
    int all = 0;
    ((all = of.most(all, shown_at<S>(arrays, every()))), ...);
    return all;
  }
  static constexpr int arrays = folded::arrays;
  static constexpr int warp_room = room(typename count_up<steps>::type());

  template <int Step, int A, class Of>
  static __device__ __forceinline__ void show(const rows &all,
                                              unsigned char *mine) {
    if constexpr (shown<Step, A, Of>() > 0) {
      piece<Of> *to =
          (piece<Of> *)(mine + shown_at<Step>(A, every())) + threadIdx.x;
#pragma unroll
      for (int k = 0; k < above(Step); ++k)
        to[k * 32] = get<A>(all).at[place_of(k)];
#pragma unroll
      for (int k = 0; k < below(Step); ++k)
        to[(above(Step) + k) * 32] = get<A>(all).at[place_of(high - 1 - k)];
    }
  }
  template <int Step, int A, class Of>
  static __device__ __forceinline__ void
  take(rows &all, const unsigned char *before, const unsigned char *behind) {
    if constexpr (shown<Step, A, Of>() > 0) {
      const int at = shown_at<Step>(A, every());
      const piece<Of> *up = (const piece<Of> *)(before + at) + threadIdx.x;
      const piece<Of> *down = (const piece<Of> *)(behind + at) + threadIdx.x;
#pragma unroll
      for (int k = 0; k < above(Step); ++k)
        get<A>(all).at[place_of(high + k)] = down[k * 32];
#pragma unroll
      for (int k = 0; k < below(Step); ++k)
        get<A>(all).at[place_of(-1 - k)] = up[(above(Step) + k) * 32];
    }
  }

  template <int Step, int R, int A, class Of>
  static __device__ __forceinline__ void look(const rows &all, beside &sides) {
    if constexpr (of.reads(Step, A) && of.left[Step] + of.right[Step] > 0)
      lanes_of::template look_beside<Step, Of>(get<A>(all).at[place_of(R)],
                                               get<A>(sides));
  }

  // ---- items

  template <class S, int Step, int R, int C, class I, class J>
  static __device__ __forceinline__ void item_at(const typename S::packed &p,
                                                 rows &all, const beside &sides,
                                                 const I &i, const J &j) {
    const in_sheet<S, Step, R, C> place = {all, sides, i.at(0), j.at(0)};
    S::run(p, item<2>{{i.at(0), j.at(0)}, {i.extent(), j.extent()}}, place);
  }

  template <int Step, int R, int... A>
  static __device__ __forceinline__ void
  look_all(const rows &all, beside &sides, indices<A...>) {
    (look<Step, R, A, E>(all, sides), ...);
  }
  // Coordinates that have `Below` before them, and so many behind: what is near
  // an end of it is not right, or is computed as that. On a torus, any.
  template <int Below, int Beyond>
  static __device__ __forceinline__ auto amid(int i, int n) {
    const int at = i < Below ? Below : i;
    if constexpr (L::torus)
      return anywhere_of{place_on<L>(i, n), n};
    else
      return within<Below, Beyond>(at < n - 1 - Beyond ? at : n - 1 - Beyond,
                                   n);
  }
  template <class S, int Step, int R, class I, class J, int... C>
  static __device__ __forceinline__ void row_amid(const typename S::packed &p,
                                                  rows &all, const I &i,
                                                  const J *j, indices<C...>) {
    beside sides;
    look_all<Step, R>(all, sides, every());
    (item_at<S, Step, R, C>(p, all, sides, i, j[C]), ...);
  }

  // ---- items at edges: it is known where they are in registers

  template <int R, int C, int... A>
  static __device__ __forceinline__ cells cells_of(const rows &all,
                                                   indices<A...>) {
    cells to;
    ((get<A>(to) = get<A>(all).at[place_of(R)].at[C]), ...);
    return to;
  }
  template <int Step, int R, int C, int A>
  static __device__ __forceinline__ void put_back(rows &all,
                                                  const cells &before) {
    if constexpr (of.writes(Step, A))
      get<A>(all).at[place_of(R)].at[C] = get<A>(before);
  }
  template <int Step, int R, int C, int A>
  static __device__ __forceinline__ void choose(rows &all, const cells &other,
                                                bool takes) {
    if constexpr (of.writes(Step, A)) {
      auto &to = get<A>(all).at[place_of(R)].at[C];
      constexpr int parts = sizeof to.part / sizeof to.part[0];
#pragma unroll
      for (int n = 0; n < parts; ++n)
        to.part[n] = takes ? get<A>(other).part[n] : to.part[n];
    }
  }
  // What column C of row R comes to as an item of which J is known, and so
  // nothing is left of what a kernel does at ends; in its place nothing
  // changes.
  template <class S, int Step, int R, int C, class I, class J, int... A>
  static __device__ __forceinline__ void
  at_end(const typename S::packed &p, rows &all, const beside &sides,
         const I &i, const J &j, cells &to, indices<A...> each) {
    const cells before = cells_of<R, C>(all, each);
    item_at<S, Step, R, C>(p, all, sides, i, j);
    to = cells_of<R, C>(all, each);
    (put_back<Step, R, C, A>(all, before), ...);
  }
  template <class S, int Step, int R, int C, class I>
  static __device__ __forceinline__ void
  find_ends(const typename S::packed &p, const spot &t, rows &all,
            const beside &sides, const I &i, cells &first, cells &last) {
    constexpr int before = of.left[Step], behind = of.right[Step];
    constexpr int left_over = own - 1 - C;
    const int n = int(p.where.range[1]);
    if constexpr (C < before)
      if (t.begins)
        at_end<S, Step, R, C>(p, all, sides, i, near_begin<C, behind>(n), first,
                              every());
    if constexpr (left_over < behind)
      if (t.ends)
        at_end<S, Step, R, C>(p, all, sides, i,
                              near_end<before, left_over>(n - 1 - left_over),
                              last, every());
  }
  template <int Step, int R, int C, int... A>
  static __device__ __forceinline__ void
  take_ends(const spot &t, rows &all, const cells &first, const cells &last,
            indices<A...>) {
    if constexpr (C < of.left[Step])
      (choose<Step, R, C, A>(all, first, t.begins && threadIdx.x == 0), ...);
    if constexpr (own - 1 - C < of.right[Step])
      (choose<Step, R, C, A>(all, last, t.ends && threadIdx.x == 31), ...);
  }
  template <class S, int Step, int R, class I, class J, int... C>
  static __device__ __forceinline__ void
  row_at_edge(const typename S::packed &p, const spot &t, rows &all, const I &i,
              const J *j, indices<C...>) {
    beside sides;
    cells first[own], last[own];
    look_all<Step, R>(all, sides, every());
    (find_ends<S, Step, R, C>(p, t, all, sides, i, first[C], last[C]), ...);
    (item_at<S, Step, R, C>(p, all, sides, i, j[C]), ...);
    (take_ends<Step, R, C>(t, all, first[C], last[C], every()), ...);
  }
  template <bool Edge, class S, int Step, int R, class J>
  static __device__ __forceinline__ void
  row_of(const typename S::packed &p, const spot &t, rows &all, const J *j) {
    constexpr auto each = typename count_up<own>::type();
    constexpr int before = below(Step), behind = above(Step);
    constexpr int left_over = high - 1 - R;
    const int n = int(p.where.range[0]);
    if constexpr (Edge && R < before)
      if (t.top)
        return row_at_edge<S, Step, R>(p, t, all, near_begin<R, behind>(n), j,
                                       each);
    if constexpr (Edge && left_over < behind)
      if (t.bottom)
        return row_at_edge<S, Step, R>(
            p, t, all, near_end<before, left_over>(n - 1 - left_over), j, each);
    const auto i = amid<before, behind>(t.i + R, n);
    if constexpr (Edge)
      row_at_edge<S, Step, R>(p, t, all, i, j, each);
    else
      row_amid<S, Step, R>(p, all, i, j, each);
  }
  template <bool Edge, class S, int Step, int... R, int... C>
  static __device__ __forceinline__ void items(const typename S::packed &p,
                                               const spot &t, rows &all,
                                               indices<R...>, indices<C...>) {
    const int n = int(p.where.range[1]);
    const decltype(amid<of.left[Step], of.right[Step]>(0, n)) j[] = {
        amid<of.left[Step], of.right[Step]>(t.x + C, n)...};
    (row_of<Edge, S, Step, R>(p, t, all, j), ...);
  }

  // ---- steps

  template <bool Edge, int Step, int... A>
  static __device__ __forceinline__ void
  take_step(const typename step_at<Step>::packed &p, const spot &t, rows &all,
            unsigned &parity, indices<A...>) {
    if constexpr (above(Step) + below(Step) > 0) {
      unsigned char *room =
          (unsigned char *)fold_room + parity * blockDim.y * warp_room;
      const int w = int(threadIdx.y), last = int(blockDim.y) - 1;
      (show<Step, A, E>(all, room + w * warp_room), ...);
      __syncthreads();
      const int before = w > 0 ? w - 1 : 0, behind = w < last ? w + 1 : last;
      (take<Step, A, E>(all, room + before * warp_room,
                        room + behind * warp_room),
       ...);
      parity ^= 1;
    }
    items<Edge, step_at<Step>, Step>(p, t, all, typename count_up<high>::type(),
                                     typename count_up<own>::type());
  }

  // After how many steps the same ones come again.
  template <class X, class Y> struct like {
    static constexpr bool value = false;
  };
  template <auto F, class M, class N, class Sig, int... A>
  struct like<step_as<F, M, Sig, A...>, step_as<F, N, Sig, A...>> {
    static constexpr bool value = true;
  };
  template <int S, int By> static constexpr bool repeats() {
    if constexpr (S < By)
      return true;
    else
      return like<step_at<S>, step_at<S - By>>::value &&
             above(S) == above(S - By) && below(S) == below(S - By) &&
             of.left[S] == of.left[S - By] && of.right[S] == of.right[S - By];
  }
  template <int By, int... S> static constexpr bool all_repeat(indices<S...>) {
    return (repeats<S, By>() && ...);
  }
  using each_step = typename count_up<steps>::type;
  static constexpr int period = all_repeat<1>(each_step()) && steps > 1 ? 1
                                : all_repeat<2>(each_step()) && steps > 2
                                    ? 2
                                    : steps;

  template <int S> static constexpr int bytes_before() {
    if constexpr (S == 0)
      return 0;
    else
      return bytes_before<S - 1>() +
             int(sizeof(typename step_at<S - 1>::packed));
  }
  template <bool Edge, int... S>
  static __device__ __forceinline__ void
  take_some(const unsigned char *p, const spot &t, rows &all, unsigned &parity,
            indices<S...>) {
    (take_step<Edge, S>(
         *(const typename step_at<S>::packed *)(p + bytes_before<S>()), t, all,
         parity, every()),
     ...);
  }
  template <bool Edge>
  static __device__ __forceinline__ void
  take_steps(const packed &p, const spot &t, rows &all, unsigned &parity) {
    const unsigned char *at = (const unsigned char *)&p.steps;
#pragma unroll 1
    for (int k = 0; k < steps / period; ++k) {
      take_some<Edge>(at, t, all, parity, typename count_up<period>::type());
      at += bytes_before<period>();
    }
    if constexpr (steps % period > 0)
      take_some<Edge>(at, t, all, parity,
                      typename count_up<steps % period>::type());
  }

  template <bool Inner, int... A>
  static __device__ __forceinline__ void
  fetch_all(const packed &p, const spot &t, rows &all, indices<A...>) {
    (fetch<Inner, A, E>(p, t, all), ...);
  }
  template <bool Inner, int... A>
  static __device__ __forceinline__ void
  leave_all(const packed &p, const spot &t, const rows &all, int first,
            int behind, unsigned mine, indices<A...>) {
    (leave<Inner, A, E>(p, t, all, first, behind, mine), ...);
  }

  template <int... A>
  static __device__ __forceinline__ void ask_all(const packed &p, const spot &t,
                                                 indices<A...>) {
    (ask<A, E>(p, t), ...);
  }
  template <int... A>
  static __device__ __forceinline__ void get_all(const packed &p, rows &all,
                                                 indices<A...>) {
    await_copies();
    (get_asked<A, E>(p, all), ...);
  }
  // Whether lanes may ask for all that they load of an inner sheet.
  template <int... A>
  static __device__ __forceinline__ bool is_wide(const packed &p, int low,
                                                 indices<A...>) {
    return ((p.array.at[A].wide || p.array.at[A].loads != loads_all) && ...) &&
           low % own == 0;
  }

  // Where a sheet lies. It lies within the range, and ends where what it reads
  // does: the last ones begin earlier, and compute twice what others do.
  // Nothing is missing where the range ends. On a torus they go on at the other
  // end.
  struct corner {
    int top, low;
    bool inner;

    __device__ __forceinline__ corner(const packed &p, int k) {
      const fold_launch &l = p.launch;
      const launch &w = l.where;
      const int n0 = int(w.range[0]), n1 = int(w.range[1]);
      const int tall = int(blockDim.y) * high;
      const int first0 = int(w.min[0]) - L::below0;
      const int first1 = (int(w.min[1]) & -own) - left;
      const int y = k / l.across, x = k - y * l.across;
      top = (L::torus || first0 > 0 ? first0 : 0) +
            y * (tall - L::below0 - L::above0);
      low = (L::torus || first1 > 0 ? first1 : 0) + x * useful;
      if (!L::torus) {
        const int end0 = int(w.min[0]) + int(w.extent[0]) + L::above0;
        const int last0 = (end0 < n0 ? end0 : n0) - tall;
        top = top < last0 ? top : last0 > 0 ? last0 : 0;
        low = low < n1 - columns ? low : n1 - columns;
      }
      inner = top >= l.inner_min[0] && top + tall <= l.inner_max[0] &&
              low >= l.inner_min[1] && low + columns <= l.inner_max[1];
    }
    __device__ __forceinline__ spot of_thread(const packed &p) const {
      const launch &w = p.launch.where;
      const int tall = int(blockDim.y) * high;
      const bool ends0 = !L::torus && top + tall == int(w.range[0]);
      return {top + int(threadIdx.y) * high,
              low + int(threadIdx.x) * own,
              !L::torus && low == 0,
              !L::torus && low + columns == int(w.range[1]),
              !L::torus && top == 0 && threadIdx.y == 0,
              ends0 && threadIdx.y + 1 == blockDim.y};
    }
  };

  static __device__ __forceinline__ void compute(const packed &p,
                                                 const corner &at,
                                                 const spot &t, rows &all,
                                                 unsigned &parity) {
    const launch &w = p.launch.where;
    const int n0 = int(w.range[0]), n1 = int(w.range[1]);
    const int tall = int(blockDim.y) * high, top = at.top, low = at.low;
    const bool begins0 = !L::torus && top == 0;
    const bool ends0 = !L::torus && top + tall == n0;
    const bool begins1 = t.begins, ends1 = t.ends;
    if (begins0 || ends0 || begins1 || ends1)
      take_steps<true>(p, t, all, parity);
    else
      take_steps<false>(p, t, all, parity);
    const int min0 = int(w.min[0]), max0 = min0 + int(w.extent[0]);
    const int min1 = int(w.min[1]), max1 = min1 + int(w.extent[1]);
    const int right0 = begins0 ? 0 : top + L::below0;
    const int behind0 = ends0 ? n0 : top + tall - L::above0;
    const int right1 = begins1 ? 0 : low + left;
    const int behind1 = ends1 ? n1 : low + columns - right;
    const int first = right0 > min0 ? right0 : min0;
    const int behind = behind0 < max0 ? behind0 : max0;
    unsigned mine = 0;
#pragma unroll
    for (int c = 0; c < own; ++c) {
      const int x = t.x + c;
      mine |= unsigned(x >= right1 && x >= min1 && x < behind1 && x < max1)
              << c;
    }
    if (at.inner)
      leave_all<true>(p, t, all, first, behind, mine, every());
    else
      leave_all<false>(p, t, all, first, behind, mine, every());
  }

  // A block has one sheet after the other. What it loads would take it as long
  // as half of the steps, so it asks for the next one's before.
  static __device__ __forceinline__ void run(const packed &p) {
    const int sheets = p.launch.across * p.launch.down;
    unsigned parity = 0;
    rows all = {};
    bool asked = false;
#pragma unroll 1
    for (int k = int(blockIdx.x); k < sheets; k += int(gridDim.x)) {
      const corner at(p, k);
      const spot t = at.of_thread(p);
      if (!asked && at.inner) fetch_all<true>(p, t, all, every());
      if (!asked && !at.inner) fetch_all<false>(p, t, all, every());
      if constexpr (ahead) {
        if (asked) get_all(p, all, every());
        const int then = k + int(gridDim.x);
        const corner next(p, then);
        asked = then < sheets && next.inner && is_wide(p, next.low, every());
        if (asked) ask_all(p, next.of_thread(p), every());
      }
      compute(p, at, t, all, parity);
    }
  }
};

} // namespace celer

// With `warps` in a block at most, whose threads have all of a multiprocessor's
// registers.
#define CELER_SHEET(around, high, warps, ahead, ...)                           \
  extern "C" __global__ void __launch_bounds__(32 * warps, 1) celer_fused(     \
      const __grid_constant__ celer::fold<__VA_ARGS__>::packed celer_given) {  \
    celer::sheet<CELER_MARGIN around, high, ahead, __VA_ARGS__>::run(          \
        celer_given);                                                          \
  }
