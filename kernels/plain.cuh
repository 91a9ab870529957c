// plain.cuh -- CUDA's own kernels, __global__ functions of pointers and values,
// as celer.cuda_module loads them: after celer.cuh, before the user's text.
//
// Such a function becomes a device function, which an entry of celer's calls
// with the grid and the blocks that it was written for. A pointer is an
// accessor whose origin the engine has moved to the first element that the
// mapper promises to the chunk. The last value, which celer adds, says which
// integers are placeholders (celer.chunk_size and the like), known on the
// device alone. lua/celer/kernel/plain.lua defines CELER_PLAIN_DIMS and
// CELER_PLAIN_THREADS.

namespace celer {

template <class P> struct plain { // a value
  static constexpr bool pointer = false;
  static constexpr index size = sizeof(P), align = alignof(P);
  static constexpr param described() {
    return param_of<P>(a_value, 0);
  }
};

template <class T> struct plain<T *> {
  static constexpr bool pointer = true;
  static constexpr index size = 24, align = 8;
  static constexpr param described() {
    return param_of<T>(an_inout, -1);
  }
};

template <class T> struct plain<const T *> : plain<T *> {
  static constexpr param described() {
    return param_of<T>(an_in, -1);
  }
};

template <class F> struct plain_signature {
  static_assert(sizeof(F) == 0, "a __global__ function returns void");
};

template <class... P> struct plain_signature<void (*)(P...)> {
  static constexpr int count = sizeof...(P);
  using all = typename count_up<count>::type;

  static constexpr params<count + 2> describe() {
    return {{{an_item, CELER_PLAIN_DIMS, 0, 0, 0, {}},
             plain<P>::described()...,
             param_of<unsigned long long>(a_value, 0),
             {}}};
  }
  static constexpr index argument_at(int k) {
    const index size[] = {plain<P>::size..., 8, 0};
    const index align[] = {plain<P>::align..., 8, 1};
    index at = 0;
    for (int i = 0; i < k; ++i) at = aligned(at, align[i]) + size[i];
    return aligned(at, align[k]);
  }
};

template <auto F, class S = decltype(F)> struct plain_entry;
template <auto F, class... P> struct plain_entry<F, void (*)(P...)> {
  using sig = plain_signature<void (*)(P...)>;
  using packed = arguments<sig::argument_at(sig::count + 1)>;
  static_assert(sizeof(packed) <= 4096,
                "the parameters of a kernel take more than 4 KB");

  // code = kind * 1024 + argument * 4 + dimension
  template <int... K>
  static __device__ index resolve(const packed &a, int code, indices<K...>) {
    const index at[] = {sig::argument_at(K)..., 0};
    const int d = code % 4, kind = code / 1024;
    if (kind == 0) return a.where.extent[d];
    if (kind == 1) return a.where.min[d];
    if (kind == 2) return a.where.range[d];
    auto *strides = (const accessor<char, 3> *)(a.bytes + at[code / 4 % 256]);
    return d == 0 ? strides->stride0 : strides->stride1;
  }

  template <class T, int K>
  static __device__ __forceinline__ T take(const packed &a,
                                           unsigned long long placeholders) {
    const unsigned char *from = a.bytes + sig::argument_at(K);
    constexpr int c = describe<T>::class_;
    if constexpr (!plain<T>::pointer && (c == 'i' || c == 'u') &&
                  sizeof(T) >= 4)
      if (placeholders >> K & 1)
        return T(resolve(a, *(const int *)from, typename sig::all()));
    return *(const T *)from; // an accessor begins with its pointer
  }

  template <int... K>
  static __device__ __forceinline__ void run(const packed &a, indices<K...>) {
    const auto placeholders =
        *(const unsigned long long *)(a.bytes + sig::argument_at(sig::count));
    F(take<P, K>(a, placeholders)...);
  }
};

} // namespace celer

#undef CELER_ENTRY
#define CELER_ENTRY(name)                                                      \
  extern "C" {                                                                 \
  extern __device__ const                                                      \
      celer::params<celer::plain_signature<decltype(&name)>::count + 2>        \
          celer_params_##name;                                                 \
  __device__ const                                                             \
      celer::params<celer::plain_signature<decltype(&name)>::count + 2>        \
          celer_params_##name =                                                \
              celer::plain_signature<decltype(&name)>::describe();             \
  __attribute__((global)) void                                                 \
      __attribute__((launch_bounds(CELER_PLAIN_THREADS)))                      \
      celer_run_##name(const __attribute__((grid_constant))                    \
                       celer::plain_entry<&name>::packed celer_given) {        \
    using celer_entry = celer::plain_entry<&name>;                             \
    celer_entry::run(celer_given, celer_entry::sig::all());                    \
  }                                                                            \
  }

// The user's text comes next.
#undef kernel
#undef __global__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__ __device__
#define __launch_bounds__(...)
#define __grid_constant__
