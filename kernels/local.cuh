// local.cuh -- memory that the items of a group share, as parameters of its
// kernel. A part of group.cuh and of tile.cuh.
#ifndef CELER_LOCAL_CUH
#define CELER_LOCAL_CUH

namespace celer {

// Memory that the items of a group share: N elements.
template <class T, int N> struct local {
  static_assert(__is_trivially_copyable(T), "local memory holds plain data");
  T *data;
  CELER_FN T &operator[](index i) const {
    return data[i];
  }
};

template <class T, int N> struct traits<local<T, N>> {
  static constexpr int kind = a_local, views = 0;
  static constexpr index size = 0, align = 1; // nothing is passed
  static constexpr param describe() {
    return param_of<T>(a_local, N);
  }
};

template <class P> struct is_local { static constexpr index bytes = 0; };
template <class T, int N> struct is_local<local<T, N>> {
  static constexpr index bytes = (index(sizeof(T)) * N + 63) / 64 * 64;
};
template <class T, int N>
struct shared_of<local<T, N>> : is_local<local<T, N>> {};
template <bool Reduces, class... P> CELER_FN void check_locals() {
  static_assert((shared_of<typename bare<P>::type>::bytes + ... +
                 (Reduces ? 64 : 0)) <= 48 << 10,
                "the local memory of a group is 48 KiB at most, with that of "
                "its reducers");
}

#ifdef CELER_CUDA

template <auto F, class S, int K, class P> struct group_argument {
  template <class A>
  static __device__ __forceinline__ P from(const A &a, const index *item) {
    return bind<P, S, K>::from(a, item, S::dims);
  }
};
template <auto F, class S, int K, class T, int N>
struct group_argument<F, S, K, local<T, N>> {
  template <class A>
  static __device__ __forceinline__ local<T, N> from(const A &, const index *) {
    __shared__ T data[N];
    return {data};
  }
};

#else

// Where the local memory of parameter k lies in that of a group.
template <class... P> constexpr index local_at(int k) {
  const index bytes[] = {is_local<typename bare<P>::type>::bytes..., 0};
  index at = 0;
  for (int i = 0; i < k; ++i) at += bytes[i];
  return at;
}

template <class P, int V, index At> struct group_argument {
  static CELER_FN auto from(const call *c, unsigned char *) {
    return bind<P, V, At>::from(c);
  }
};
template <class T, int N, int V, index At>
struct group_argument<local<T, N>, V, At> {
  static CELER_FN local<T, N> from(const call *, unsigned char *room) {
    return {(T *)room};
  }
};

#endif

} // namespace celer

using celer::local;

#endif
