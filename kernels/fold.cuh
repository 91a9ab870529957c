// fold.cuh -- CUDA: the steps of a fold in one launch. Stands behind the user's
// text in a build of its own, with CELER_FOLD defined; engine/device/module/
// module_fuse.c writes it and what follows: CELER_CHAIN, CELER_TILE, CELER_FLOW
// or CELER_SHEET.
//
// Each step calls its kernel's function as it is. What changes is where the
// accessors of the fold's arrays lead:
//   chain  each item is carried through all steps by one thread, which keeps
//          its element of each array in registers: for steps that touch nothing
//          but their items' own elements. The last one may reduce: then items
//          are each thread's, and come in the order, that it has by itself;
//   tile   a block keeps a tile of each array in shared memory, with as much
//          around it as the steps reach, and computes step after step there. At
//          each step what is right is less by that step's reach; what is right
//          in the end goes to memory. Two blocks may both compute an item;
//   stream a warp goes down the rows of some columns: stream.cuh;
//   sheet  a block keeps its part of each array in registers: sheet.cuh.
// What no step writes is read where it is.
namespace celer {

template <int N> struct unit_of {};
template <> struct unit_of<1> { using type = unsigned char; };
template <> struct unit_of<2> { using type = unsigned short; };
template <> struct unit_of<4> { using type = unsigned; };
template <> struct unit_of<8> { using type = unsigned long long; };
template <> struct unit_of<16> { using type = uint4; };

// An array's elements, by their size and alignment.
template <int Size, int Align> struct element {
  static constexpr int size = Size;
  using unit = typename unit_of<Align>::type;
  static __device__ __forceinline__ void copy(unsigned char *to,
                                              const unsigned char *from) {
#pragma unroll
    for (int i = 0; i < Size / Align; ++i)
      ((unit *)to)[i] = ((const unit *)from)[i];
  }
};
template <class... E> struct fold_elements {};

// Where an array lies: what element (0, 0, 0) would have for an address, before
// and after; the box that may be read. cuda_fold.c writes it.
struct fold_array {
  const unsigned char *from;
  unsigned char *to;
  int stride0, stride1; // in elements
  int loads;            // 0: nothing of it; 1: what lies beyond the range; all
  int stores;
  int min[3], max[3];
  int wide; // 16 bytes at a time, where coordinates are multiples of 4
  int unused;
};

static constexpr int loads_all = 2;

__device__ __forceinline__ index place_in(const fold_array &a,
                                          const index (&i)[3]) {
  return i[0] * a.stride0 + i[1] * a.stride1 + i[2];
}

// The launch's parameter begins so; the arrays follow, and then what each step
// would be launched with. `where` is of the last step. A tile that lies within
// `inner` need not ask where it ends.
struct alignas(16) fold_launch {
  launch where;
  int inner_min[2], inner_max[2];
  int across, down; // sheets
};
static_assert(sizeof(fold_array) == 64 && sizeof(fold_launch) == 96,
              "engine/device/cuda/cuda_fold.c says the same");

// Of a block, as much as its tiles take.
extern __shared__ uint4 fold_room[];

template <class... P> struct listed;
template <class P> struct listed<P> { P first; };
template <class P, class... R> struct listed<P, R...> {
  P first;
  listed<R...> rest;
};
template <int N> struct fold_arrays { fold_array at[N]; };

// An item's coordinates with the fastest in place 2, as arrays have theirs.
template <int D> struct coordinates;
template <> struct coordinates<1> {
  static __device__ __forceinline__ index of(const item<1> &it,
                                             index (&to)[3]) {
    to[0] = to[1] = 0;
    return to[2] = it.at[0];
  }
};
template <> struct coordinates<2> {
  static __device__ __forceinline__ index of(const item<2> &it,
                                             index (&to)[3]) {
    to[0] = it.at[0];
    to[1] = 0;
    return to[2] = it.at[1];
  }
};
template <> struct coordinates<3> {
  static __device__ __forceinline__ index of(const item<3> &it,
                                             index (&to)[3]) {
    to[0] = it.at[0];
    to[1] = it.at[1];
    return to[2] = it.at[2];
  }
};

// How much more than what is right in the end a step has to compute, in each of
// two dimensions. Torus: where the range ends, in both, it begins again, and
// all that is read around items is read so. Then a block goes on at the other
// end, as what is to be computed may, and what knows by itself where its buffer
// ends need not ask.
template <int Below0, int Above0, int Below1, int Above1, bool Torus = false>
struct margin {
  static constexpr int below0 = Below0, above0 = Above0, below1 = Below1,
                       above1 = Above1;
  static constexpr bool torus = Torus;
};
template <class L> __device__ __forceinline__ int place_on(int i, index n) {
  if (!L::torus) return i;
  return i < 0 ? i + int(n) : i >= int(n) ? i - int(n) : i;
}
// Whether a launch computes coordinate i of dimension d, which may lie beyond
// the range; of a torus that has all of it, any.
template <class L>
__device__ __forceinline__ bool computes(const launch &w, int d, int i) {
  return unsigned(i - w.min[d]) < w.extent[d] ||
         (L::torus && w.extent[d] >= w.range[d]);
}

// A step: a kernel's function, and of each of its views which array it is; -1:
// none of the fold's.
template <auto F, class Margin, class S, int... A> struct step_as;
template <auto F, class Margin, class Item, class... P, int... A>
struct step_as<F, Margin, signature<void (*)(Item, P...)>, A...> {
  using sig = signature<void (*)(Item, P...)>;
  using packed = typename entry<F>::packed;
  using around = Margin;
  static constexpr int dims = sig::dims;

  static constexpr int array_of(int view) {
    const int all[] = {A..., -1};
    return all[view];
  }

  template <int K, class Q, class Place>
  static __device__ __forceinline__ Q give(const packed &a,
                                           const item<dims> &it,
                                           const Place &place) {
    Q q = bind<Q, sig, K>::from(a, it.at, dims);
    if constexpr (traits<Q>::views == 1) {
      constexpr int array = array_of(sig::view_of(K));
      if constexpr (array >= 0) {
        place.template put<array>(q);
        if constexpr (Place::inner) return knowing<inside>(q);
      }
    }
    return q;
  }

  template <int... K>
  static constexpr bool touches(int array, bool writing, indices<K...>) {
    return ((traits<typename bare<P>::type>::views == 1 &&
             array_of(sig::view_of(K)) == array &&
             (traits<typename bare<P>::type>::kind != an_in) == writing) ||
            ... || false);
  }
  static constexpr bool reads(int array) {
    return touches(array, false, typename sig::all());
  }
  static constexpr bool writes(int array) {
    return touches(array, true, typename sig::all());
  }
  // What is none of the fold's arrays.
  static constexpr bool looks_elsewhere() {
    return touches(-1, false, typename sig::all());
  }
  template <class Place, int... K>
  static __device__ __forceinline__ void
  call(const packed &a, const item<dims> &it, const Place &place,
       indices<K...>) {
    F(it, give<K, typename bare<P>::type>(a, it, place)...);
  }
  template <class Place>
  static __device__ __forceinline__ void
  run(const packed &a, const item<dims> &it, const Place &place) {
    call(a, it, place, typename sig::all());
  }

  // ---- of a kernel that reduces

  static constexpr bool reduces = sig::reduces;
  template <int K, class Q, class Place>
  static __device__ __forceinline__ Q placed(Q q, const Place &place) {
    if constexpr (traits<Q>::views == 1) {
      constexpr int array = array_of(sig::view_of(K));
      if constexpr (array >= 0) place.template put<array>(q);
    }
    return q;
  }
  // As reducing::run_all; `each` calls a function of an item and a place.
  template <class Each, int... K>
  static __device__ __forceinline__ void
  reduce_all(const packed &a, const Each &each, indices<K...>) {
    using R = reducing<F>;
    typename R::all p;
    unsigned at = 0;
    (R::template use<K, typename bare<P>::type>::template begin<false>(a, p,
                                                                       at),
     ...);
    each([&](const item<dims> &it, const auto &place) {
      F(it,
        placed<K>(R::template use<K, typename bare<P>::type>::give(a, p, it),
                  place)...);
    });
    R::finish(a, p, typename sig::all());
  }
  template <class Each>
  static __device__ __forceinline__ void reduce(const packed &a,
                                                const Each &each) {
    reduce_all(a, each, typename sig::all());
  }
};
template <auto F, class Margin, int... A>
using step = step_as<F, Margin, signature<decltype(F)>, A...>;

// Something for each array.
template <int I, class T> struct numbered { T value; };
template <class I, class... T> struct numbered_all;
template <int... I, class... T>
struct numbered_all<indices<I...>, T...> : numbered<I, T>... {};

template <int I, class T>
__device__ __forceinline__ const T &get(const numbered<I, T> &of) {
  return of.value;
}
template <int I, class T>
__device__ __forceinline__ T &get(numbered<I, T> &of) {
  return of.value;
}

// Coordinates i to i + More, and the extent n: there are at least Below
// before the first, and Beyond behind the last. All in terms from which the
// compiler finds what that makes of i - Below and of what is less than n: it
// knows what adds up, and little of inequalities of two unknowns.
template <int Below, int Beyond, int More = 0> struct within {
  int low, high;

  __device__ __forceinline__ within(int i, int n)
      : low(i - Below), high(n - 1 - low) {
    asm("" : "+r"(low), "+r"(high)); // else they add up to something else
    __builtin_assume(low >= 0);
    __builtin_assume(high >= Below + More + Beyond);
  }
  __device__ __forceinline__ int at(int r) const {
    return low + (Below + r);
  }
  __device__ __forceinline__ int extent() const {
    return low + high + 1;
  }
};

struct no_last {
  template <class... T>
  __device__ __forceinline__ void operator()(const T &...) const {
  }
};

// A thread's items where a kernel reduces, as reducing::each_item has them.
template <int D> struct items_of_thread {
  index count;

  __device__ __forceinline__ explicit items_of_thread(const launch &w) {
    const unsigned begin[3] = {blockIdx.x * blockDim.x + threadIdx.x,
                               blockIdx.y * blockDim.y + threadIdx.y,
                               blockIdx.z * blockDim.z + threadIdx.z};
    const unsigned step[3] = {gridDim.x * blockDim.x, gridDim.y * blockDim.y,
                              gridDim.z * blockDim.z};
    count = 1;
    for (int d = 0; d < D; ++d) {
      const unsigned end = w.extent[D - 1 - d];
      from[d] = at[d] = begin[d];
      by[d] = step[d];
      count *= from[d] < end ? (end - 1 - from[d]) / by[d] + 1 : 0;
    }
  }
  __device__ __forceinline__ item<D> next(const launch &w) {
    item<D> it = {};
    for (int d = 0; d < D; ++d) {
      it.at[d] = w.min[d] + at[D - 1 - d];
      it.size[d] = w.range[d];
    }
    at[0] += by[0];
    for (int d = 0; d < D - 1 && at[d] >= w.extent[D - 1 - d]; ++d) {
      at[d] = from[d];
      at[d + 1] += by[d + 1];
    }
    return it;
  }

private:
  unsigned at[D], from[D], by[D]; // x first
};

template <class All, class... Steps> struct fold;
template <class... E, class... Steps>
struct fold<fold_elements<E...>, Steps...> {
  static constexpr int arrays = sizeof...(E);
  using every = typename count_up<arrays>::type;
  template <class First, class...> struct front {
    static constexpr int dims = First::dims;
  };
  static constexpr int D = front<Steps...>::dims;
  struct packed {
    fold_launch launch;
    fold_arrays<arrays> array;
    listed<typename Steps::packed...> steps;
  };
  static_assert(sizeof(packed) <= 4096,
                "the parameters of a fold take more than 4 KB");
  static constexpr int threads = 256;

  // ---- chain

  // Where the last step reduces there are no more blocks than a large GPU has
  // at a time, if each takes few registers; long elements would not fit there.
  static constexpr int resident =
      (Steps::reduces || ...) && (E::size + ... + 0) <= 16 ? 8 : 0;

  template <class Of> struct alignas(16) kept_element {
    unsigned char at[Of::size];
  };
  using kept = numbered_all<every, kept_element<E>...>;

  struct in_registers {
    static constexpr bool inner = false;
    kept &all;
    template <int A, class Q> __device__ __forceinline__ void put(Q &q) const {
      q.own = (decltype(q.origin))get<A>(all).at;
    }
  };

  template <int A, class Of>
  static __device__ __forceinline__ void load(const packed &p, kept &all,
                                              const index (&at)[3]) {
    const fold_array &a = p.array.at[A];
    numbered<A, kept_element<Of>> &to = all;
    if (a.loads) Of::copy(to.value.at, a.from + place_in(a, at) * Of::size);
  }
  template <int A, class Of>
  static __device__ __forceinline__ void store(const packed &p, const kept &all,
                                               const index (&at)[3]) {
    const fold_array &a = p.array.at[A];
    if (a.stores) Of::copy(a.to + place_in(a, at) * Of::size, get<A>(all).at);
  }

  // All steps but one that reduces, which is the last; `last` gets that one.
  template <class S, class... Rest, class P, class Place, class Last>
  static __device__ __forceinline__ void
  carry(const P &p, const item<D> &it, const Place &place, const Last &last) {
    if constexpr (S::reduces)
      last(it, place);
    else
      S::run(p.first, it, place);
    if constexpr (sizeof...(Rest) > 0) carry<Rest...>(p.rest, it, place, last);
  }

  template <int... A>
  static __device__ __forceinline__ void one(const packed &p, const item<D> &it,
                                             indices<A...>) {
    index at[3];
    kept all;
    coordinates<D>::of(it, at);
    (load<A, E>(p, all, at), ...);
    carry<Steps...>(p.steps, it, in_registers{all}, no_last());
    (store<A, E>(p, all, at), ...);
  }

  // Some items of a thread, so that loads are under way for all of them.
  template <int N, class Last, int... A>
  static __device__ __forceinline__ void some(const packed &p,
                                              items_of_thread<D> &items,
                                              const Last &last, indices<A...>) {
    item<D> it[N];
    kept all[N];
    index at[3];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      it[i] = items.next(p.launch.where);
      coordinates<D>::of(it[i], at);
      (load<A, E>(p, all[i], at), ...);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      carry<Steps...>(p.steps, it[i], in_registers{all[i]}, last);
      coordinates<D>::of(it[i], at);
      (store<A, E>(p, all[i], at), ...);
    }
  }
  template <class S, class... Rest, class P>
  static __device__ __forceinline__ void ended(const packed &p, const P &at) {
    if constexpr (sizeof...(Rest) > 0) {
      ended<Rest...>(p, at.rest);
    } else {
      S::reduce(at.first, [&](const auto &last) {
        items_of_thread<D> items(p.launch.where);
        index n = items.count;
#pragma unroll 1
        for (; n >= 4; n -= 4) some<4>(p, items, last, every());
#pragma unroll 1
        for (; n > 0; --n) some<1>(p, items, last, every());
      });
    }
  }

  static __device__ __forceinline__ void chain(const packed &p) {
    if constexpr ((Steps::reduces || ...))
      ended<Steps...>(p, p.steps);
    else
      each_item<D, false>(p.launch.where,
                          [&](const item<D> &it) { one(p, it, every()); });
  }

  // ---- tile: of 64 x 64 items, each thread has some rows of one column

  static constexpr int TX = 64, TY = 64, rows = 8;

  // Where an array's tile begins in a block's shared memory.
  static constexpr index tile_at(int a) {
    const index size[] = {E::size..., 0};
    index at = 0;
    for (int i = 0; i < a; ++i) at += size[i] * TX * TY;
    return at;
  }

  template <bool Inner> struct in_tile {
    static constexpr bool inner = Inner;
    int i, j; // of the tile's first element
    template <int A, class Q> __device__ __forceinline__ void put(Q &q) const {
      q.origin = (decltype(q.origin))((unsigned char *)fold_room + tile_at(A));
      q.from0 = i;
      q.from1 = j;
      q.pitch = TX;
    }
  };

  struct tile_place {
    int i, j, x, y; // of the tile's first element; the thread's in the tile
  };

  template <bool Inner, class L, int A, class Of>
  static __device__ __forceinline__ void fetch(const packed &p,
                                               const tile_place &t) {
    const fold_array &a = p.array.at[A];
    const index *n = p.launch.where.range;
    if (a.loads == 0 || (Inner && a.loads != loads_all)) return;
    unsigned char *tile = (unsigned char *)fold_room + tile_at(A);
    const int x = t.j + t.x, j = Inner ? x : place_on<L>(x, n[1]);
    if (!Inner && (x < a.min[2] || x >= a.max[2])) return;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int y = t.i + t.y + r, i = Inner ? y : place_on<L>(y, n[0]);
      if (Inner || (y >= a.min[0] && y < a.max[0]))
        Of::copy(tile + ((t.y + r) * TX + t.x) * Of::size,
                 a.from + (index(i) * a.stride0 + j) * Of::size);
    }
  }

  // Items of rows [first, first + More] of a thread's column. All that a step
  // reads around those of an inner tile is there: of what a kernel does at
  // edges nothing is left.
  template <class S, class Before, int More> struct inner_items {
    using M = typename S::around;
    within<Before::below0 - M::below0, Before::above0 - M::above0, More> i;
    within<Before::below1 - M::below1, Before::above1 - M::above1> j;

    __device__ __forceinline__ inner_items(const launch &w, int first, int x)
        : i(first, int(w.range[0])), j(x, int(w.range[1])) {
    }
    __device__ __forceinline__ item<2> at(int r) const {
      return {{i.at(r), j.at(0)}, {i.extent(), j.extent()}};
    }
  };

  // Whether the thread's column, or row r of it, is within a step's part.
  template <class M, class L>
  static __device__ __forceinline__ bool in_column(const tile_place &t) {
    return t.x >= L::below1 - M::below1 && t.x < TX - L::above1 + M::above1;
  }
  template <class M, class L>
  static __device__ __forceinline__ bool in_row(const tile_place &t, int r) {
    return t.y + r >= L::below0 - M::below0 &&
           t.y + r < TY - L::above0 + M::above0;
  }

  template <class S, class Before, int... R>
  static __device__ __forceinline__ void
  rows_of(const typename S::packed &p, const tile_place &t, indices<R...>) {
    const inner_items<S, Before, rows - 1> of(p.where, t.i + t.y, t.j + t.x);
    const in_tile<true> place = {t.i, t.j};
    (S::run(p, of.at(R), place), ...);
  }
  template <class S, class L, class Before, bool Inner>
  static __device__ __forceinline__ void row_of(const typename S::packed &p,
                                                const tile_place &t, int r) {
    const int i = t.i + t.y + r, j = t.j + t.x;
    const launch &w = p.where;
    const int y = place_on<L>(i, w.range[0]), x = place_on<L>(j, w.range[1]);
    const in_tile<Inner || L::torus> place = {t.i + (y - i), t.j + (x - j)};
    if constexpr (Inner)
      S::run(p, inner_items<S, Before, 0>(w, i, j).at(0),
             in_tile<true>{t.i, t.j});
    else if (computes<L>(w, 0, i))
      S::run(p, item<2>{{y, x}, {w.range[0], w.range[1]}}, place);
  }

  // L: what is right in the end is less by so much; Before: what was right
  // before the step.
  template <bool Inner, class L, class Before, class S>
  static __device__ __forceinline__ void compute(const typename S::packed &p,
                                                 const tile_place &t) {
    using M = typename S::around;
    if (in_column<M, L>(t) && (Inner || computes<L>(p.where, 1, t.j + t.x))) {
      if (Inner && in_row<M, L>(t, 0) && in_row<M, L>(t, rows - 1)) {
        rows_of<S, Before>(p, t, typename count_up<rows>::type());
      } else {
#pragma unroll 1
        for (int r = 0; r < rows; ++r)
          if (in_row<M, L>(t, r)) row_of<S, L, Before, Inner>(p, t, r);
      }
    }
    __syncthreads();
  }
  template <bool Inner, class L, class Before, class S, class... Rest, class P>
  static __device__ __forceinline__ void advance(const P &p,
                                                 const tile_place &t) {
    compute<Inner, L, Before, S>(p.first, t);
    if constexpr (sizeof...(Rest) > 0)
      advance<Inner, L, typename S::around, Rest...>(p.rest, t);
  }

  template <bool Inner, class L, int A, class Of>
  static __device__ __forceinline__ void leave(const packed &p,
                                               const tile_place &t) {
    using none = margin<0, 0, 0, 0>;
    const fold_array &a = p.array.at[A];
    const launch &w = p.launch.where;
    if (!a.stores || !in_column<none, L>(t)) return;
    const unsigned char *tile = (const unsigned char *)fold_room + tile_at(A);
    const int x = t.j + t.x, j = Inner ? x : place_on<L>(x, w.range[1]);
    if (!Inner && unsigned(x - w.min[1]) >= w.extent[1]) return;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int y = t.i + t.y + r, i = Inner ? y : place_on<L>(y, w.range[0]);
      if (in_row<none, L>(t, r) &&
          (Inner || unsigned(y - w.min[0]) < w.extent[0]))
        Of::copy(a.to + (index(i) * a.stride0 + j) * Of::size,
                 tile + ((t.y + r) * TX + t.x) * Of::size);
    }
  }

  template <bool Inner, class L, int... A>
  static __device__ __forceinline__ void
  body(const packed &p, const tile_place &t, indices<A...>) {
    (fetch<Inner, L, A, E>(p, t), ...);
    __syncthreads();
    advance<Inner, L, L, Steps...>(p.steps, t);
    (leave<Inner, L, A, E>(p, t), ...);
  }

  // L: how much around what is right in the end is there at the beginning.
  template <class L>
  static __device__ __forceinline__ void tile(const packed &p) {
    const fold_launch &l = p.launch;
    const int h = TY - L::below0 - L::above0, w = TX - L::below1 - L::above1;
    const tile_place t = {int(l.where.min[0]) + int(blockIdx.y) * h - L::below0,
                          int(l.where.min[1]) + int(blockIdx.x) * w - L::below1,
                          int(threadIdx.x), int(threadIdx.y) * rows};
    if (t.i >= l.inner_min[0] && t.i + TY <= l.inner_max[0] &&
        t.j >= l.inner_min[1] && t.j + TX <= l.inner_max[1])
      body<true, L>(p, t, every());
    else
      body<false, L>(p, t, every());
  }
};

} // namespace celer

#define CELER_CHAIN(...)                                                       \
  extern "C" __global__ void                                                   \
  __launch_bounds__(256, celer::fold<__VA_ARGS__>::resident) celer_fused(      \
      const __grid_constant__ celer::fold<__VA_ARGS__>::packed celer_given) {  \
    celer::fold<__VA_ARGS__>::chain(celer_given);                              \
  }
// Four blocks at a time: with fewer registers for each thread than it would
// take, but more threads, whose loads are under way meanwhile. `around` is in
// parentheses: a margin.
#define CELER_MARGIN(...) celer::margin<__VA_ARGS__>
#define CELER_TILE(around, ...)                                                \
  extern "C" __global__ void __launch_bounds__(512, 4) celer_fused(            \
      const __grid_constant__ celer::fold<__VA_ARGS__>::packed celer_given) {  \
    celer::fold<__VA_ARGS__>::tile<CELER_MARGIN around>(celer_given);          \
  }
#ifdef CELER_STREAM
#include "stream.cuh"
#endif
#ifdef CELER_SHEET
#include "sheet.cuh"
#endif
