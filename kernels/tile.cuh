// tile.cuh -- work groups whose items go in step: kernels whose first parameter
// is tile<N, ...>, a group of so many items in each dimension. Comes after
// celer.cuh, before the user's text.
//
// A kernel is called once for a tile; `each` calls a function for each item of
// it, which is what lies between two barriers. So on the processor that is a
// loop over the items, of a length that the compiler knows, and what an item
// keeps from one loop to the next is an element of an array. On a GPU each
// thread of a block runs the kernel, calls the function for its own item, and
// waits for the others.
#ifndef CELER_TILE_CUH
#define CELER_TILE_CUH

#include "local.cuh"

namespace celer {

template <class T, int... N> struct of_items;

template <class... I> constexpr int first_of(int first, I...) {
  return first;
}

// Dimension 0 is the slowest.
template <int... N> struct tile {
  static constexpr int dims = sizeof...(N), count = (N * ... * 1);
  static_assert(dims >= 1 && dims <= 3, "a tile has 1 to 3 dimensions");
  static_assert(((N > 0) && ... && true) && count <= 1024,
                "a tile has 1 to 1024 items");
  static_assert(dims < 3 || first_of(N..., 1) <= 64,
                "a tile of three dimensions has 64 items at most along the "
                "first");
  index first[dims], whole[dims];
#ifdef CELER_CUDA
  index at[dims];
  int here[dims];
#else
  bool narrow, reduces; // constants, once all is inlined
  index *now;           // for CELER_CHECK: the item that runs
#endif

  // The tile's extent; which tile it is; the extent of the whole index space.
  CELER_FN static constexpr int size(int d) {
    const int all[] = {N...};
    return all[d];
  }
  CELER_FN index number(int d) const {
    return first[d] / size(d);
  }
  CELER_FN index range(int d) const {
    return whole[d];
  }

  // A T of each item's own, for as long as the kernel runs; or all equal to x.
  template <class T> CELER_FN of_items<T, N...> per_item() const {
    return {};
  }
  template <class T> CELER_FN of_items<T, N...> per_item(const T &x) const {
    return {x};
  }

  // Calls f(item<D>) for all items; what they wrote is seen after it.
  template <class F> CELER_FN void each(const F &f) const {
#ifdef CELER_CUDA
    item<dims> it;
#pragma unroll
    for (int d = 0; d < dims; ++d) {
      it.at[d] = at[d];
      it.size[d] = whole[d];
      it.here[d] = here[d];
    }
    f(it);
    __syncthreads();
#else
    if (narrow)
      rows<int>(f);
    else
      rows<index>(f);
#endif
  }

  template <class T = int> void barrier() const {
    static_assert(sizeof(T) == 0,
                  "a tile needs no barrier: each ends with one");
  }

#ifndef CELER_CUDA
private:
// A compiler that unrolls a short loop does not vectorise it any more.
#ifdef __clang__
#define CELER_IN_STEP                                                          \
  _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define CELER_IN_STEP CELER_INDEPENDENT
#endif

  // X counts along rows, as in loop.cuh.
  template <class X, class F> CELER_FN void rows(const F &f) const {
    const int planes = dims == 3 ? size(0) : 1;
    const int lines = dims == 1 ? 1 : size(dims - 2), n = size(dims - 1);
    for (int i = 0; i < planes; ++i)
      for (int j = 0; j < lines; ++j)
        if (reduces) {
          for (int k = 0; k < n; ++k) call<X>(f, i, j, k);
        } else {
          CELER_IN_STEP
          for (int k = 0; k < n; ++k) call<X>(f, i, j, k);
        }
  }

  template <class X, class F>
  __attribute__((flatten)) CELER_FN void call(const F &f, int i, int j,
                                              int k) const {
    const int of[] = {i, j, k};
    item<dims> it;
    for (int d = 0; d < dims; ++d) {
      it.here[d] = of[3 - dims + d];
      it.at[d] = X(first[d]) + X(it.here[d]);
      it.size[d] = whole[d];
#ifdef CELER_CHECK
      now[d] = it.at[d];
#endif
    }
    f(it);
  }
#endif
};

// A T for each item: x[it] is the one of `it`.
template <class T, int... N> struct of_items {
#ifdef CELER_CUDA
  mutable T own;

  CELER_FN of_items() {
  }
  CELER_FN of_items(const T &x) : own(x) {
  }
  CELER_FN T &operator[](const item<sizeof...(N)> &) const {
    return own;
  }
#else
  alignas(64) mutable T own[(N * ... * 1)];

  CELER_FN of_items() {
  }
  CELER_FN of_items(const T &x) {
    for (T &mine : own) mine = x;
  }
  CELER_FN T &operator[](const item<sizeof...(N)> &it) const {
    const int size[] = {N...};
    int i = 0;
    for (int d = 0; d < int(sizeof...(N)); ++d) i = i * size[d] + it.here[d];
    return own[i];
  }
#endif
  of_items(const of_items &) {
    static_assert(sizeof(T) == 0,
                  "what each item has of its own is captured by reference: "
                  "write [&], or [=, &name]");
  }
};

// Of functions with one name g++ deduces no second pack.
template <int A, class... P>
constexpr auto chosen(void (*f)(tile<A>, P...), int) {
  return f;
}
template <int A, int B, class... P>
constexpr auto chosen(void (*f)(tile<A, B>, P...), int) {
  return f;
}
template <int A, int B, int C, class... P>
constexpr auto chosen(void (*f)(tile<A, B, C>, P...), int) {
  return f;
}

template <int... N> struct traits<tile<N...>> {
  static constexpr int kind = a_group, views = 0, dims = sizeof...(N);
  static constexpr param describe() {
    return {a_group, dims, 0, 0, 0, {}, {N...}};
  }
};

#ifdef CELER_CUDA

template <auto F, int... N, class... P>
struct entry<F, signature<void (*)(tile<N...>, P...)>> {
  using sig = signature<void (*)(tile<N...>, P...)>;
  using packed = arguments<sig::packed_size()>;
  static constexpr int D = sizeof...(N), threads = tile<N...>::count;
  static_assert(sizeof(packed) <= 4096,
                "the parameters of a kernel take more than 4 KB");

  template <int... K>
  static __device__ __forceinline__ void
  call(const packed &a, const tile<N...> &t, indices<K...>) {
    F(t, group_argument<F, sig, K, typename bare<P>::type>::from(a, t.at)...);
  }

  // The engine launches whole tiles, and as many as a grid may have.
  static __device__ __forceinline__ void run(const packed &a) {
    check_locals<sig::reduces, P...>();
    if constexpr (sig::reduces)
      reducing<F>::run(a);
    else
      call(a, here(a), typename sig::all());
  }

  template <class Work>
  static __device__ __forceinline__ void each_item(const packed &a,
                                                   const Work &work) {
    work(here(a));
  }

  static __device__ __forceinline__ tile<N...> here(const packed &a) {
    const unsigned block[] = {blockIdx.x, blockIdx.y, blockIdx.z};
    const unsigned thread[] = {threadIdx.x, threadIdx.y, threadIdx.z};
    tile<N...> t;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const int x = D - 1 - d;
      t.here[d] = thread[x];
      t.first[d] = a.where.min[d] + block[x] * unsigned(t.size(d));
      t.at[d] = t.first[d] + thread[x];
      t.whole[d] = a.where.range[d];
    }
    return t;
  }
};

#else

template <auto F, int... N, class... P>
struct entry<F, signature<void (*)(tile<N...>, P...)>> {
  using sig = signature<void (*)(tile<N...>, P...)>;
  static constexpr int D = sizeof...(N);

  template <class... A>
  static CELER_FN void tiles(const call *c, bool narrow, A... a) {
    const int step[] = {N..., 1, 1};
    const box &b = c->chunk;
    index now[D], at[3];
    tile<N...> t;
    t.narrow = narrow;
    t.reduces = sig::reduces;
    t.now = now;
    for (int d = 0; d < D; ++d) t.whole[d] = c->range.max[d];
    for (at[0] = b.min[0]; at[0] < b.max[0]; at[0] += step[0])
      for (at[1] = b.min[1]; at[1] < b.max[1]; at[1] += step[1])
        for (at[2] = b.min[2]; at[2] < b.max[2]; at[2] += step[2]) {
          for (int d = 0; d < D; ++d) now[d] = t.first[d] = at[d];
          F(t, marked(copied(a), now, D)...);
        }
  }

  template <int... K>
  static CELER_FN void call_all(const call *c, bool narrow, indices<K...>) {
    check_locals<sig::reduces, P...>();
    alignas(64) unsigned char room[local_at<P...>(sig::count) + 1];
    tiles(
        c, narrow,
        group_argument<typename bare<P>::type, sig::view_of(K),
                       sig::value_at(K)>::from(c, room + local_at<P...>(K))...);
  }

  // Flattened, as `each` and what it calls must be parts of one function to be
  // vectorised, and compilers find them large.
  template <bool Narrow>
  static __attribute__((flatten, noinline)) void run_as(const call *c) {
    call_all(c, Narrow, typename sig::all());
  }

  static CELER_FN void run(const call *c) {
    if constexpr (all_are_long)
      run_as<false>(c);
    else if constexpr (all_are_short)
      run_as<true>(c);
    else if (c->range.max[D - 1] <= 0x7fffffff)
      run_as<true>(c);
    else
      run_as<false>(c);
  }
};

#endif

} // namespace celer

using celer::tile;

#endif
