// when.cuh -- kernels that are skipped where a flag is 0: what celer writes for
// cg:when(flag). Comes before the user's text.
#ifndef CELER_WHEN_CUH
#define CELER_WHEN_CUH

namespace celer {

// Of a function's parameters, as a kernel has them.
template <class F> struct parameters;
template <class... P> struct parameters<void (*)(P...)> {
  template <int K, class First, class... Rest> struct find {
    using type = typename find<K - 1, Rest...>::type;
  };
  template <class First, class... Rest> struct find<0, First, Rest...> {
    using type = typename bare<First>::type;
  };
  template <int K> using at = typename find<K, P...>::type;
};

template <class F, int K>
using parameter = typename parameters<F>::template at<K>;

// The flag: in<T, 0>. On the processor a call looks at it once, so that no item
// takes a look behind what another one has written.
template <class T> struct when_flag : in<T, 0> {
#if defined(CELER_CUDA) || defined(CELER_CHECK)
  CELER_FN bool is_set() const {
    return (*this)() != 0;
  }
#else
  bool set;
  CELER_FN bool is_set() const {
    return set;
  }
#endif
};

template <class T>
struct traits<when_flag<T>> : accessor_traits<T, 0, an_in> {};

#if !defined(CELER_CUDA) && !defined(CELER_CHECK)
template <class T, int V, index At> struct bind<when_flag<T>, V, At> {
  static CELER_FN when_flag<T> from(const call *c) {
    when_flag<T> p;
    static_cast<in<T, 0> &>(p) = bind<in<T, 0>, V, At>::from(c);
    p.set = p() != 0;
    return p;
  }
};
#endif

} // namespace celer

#endif
