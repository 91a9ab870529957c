// vector.cuh -- arithmetic of CUDA's vectors, component by component, and of
// structs that were declared with { arithmetic = true }. Comes after celer.cuh
// where a source mentions one of them.
//   v(i) += dt * (a(i) - 0.5f * v(i));
// All are templates, so that functions of one's own for a type come first.
#ifndef CELER_VECTOR_CUH
#define CELER_VECTOR_CUH

namespace celer {

// What has arithmetic: its own name as `type`, `scalar`, each<F>(a, b), which
// is F::of of each two components, and all(s), whose components are s.
template <class V> struct arithmetic;

#define CELER_OPERATION(name, sign)                                            \
  struct name {                                                                \
    template <class T> static CELER_FN T of(T a, T b) {                        \
      return T(a sign b);                                                      \
    }                                                                          \
  };
CELER_OPERATION(plus, +)
CELER_OPERATION(minus, -)
CELER_OPERATION(times, *)
CELER_OPERATION(divided, /)
#undef CELER_OPERATION

#define CELER_VECTOR(V, S, components, same)                                   \
  template <> struct arithmetic<V> {                                           \
    using type = V;                                                            \
    using scalar = S;                                                          \
    template <class F> static CELER_FN V each(const V &a, const V &b) {        \
      return components;                                                       \
    }                                                                          \
    static CELER_FN V all(S s) {                                               \
      return same;                                                             \
    }                                                                          \
  };
#define CELER_OF(x) F::of(a.x, b.x)
#define CELER_VECTORS(name, S)                                                 \
  CELER_VECTOR(name##2, S, (name##2 {CELER_OF(x), CELER_OF(y)}),               \
               (name##2 {s, s}))                                               \
  CELER_VECTOR(name##3, S, (name##3 {CELER_OF(x), CELER_OF(y), CELER_OF(z)}),  \
               (name##3 {s, s, s}))                                            \
  CELER_VECTOR(name##4, S,                                                     \
               (name##4 {CELER_OF(x), CELER_OF(y), CELER_OF(z), CELER_OF(w)}), \
               (name##4 {s, s, s, s}))
CELER_VECTORS(float, float)
CELER_VECTORS(double, double)
CELER_VECTORS(int, int)
CELER_VECTORS(uint, unsigned)
#undef CELER_VECTORS
#undef CELER_OF
#undef CELER_VECTOR

template <class V> using arithmetic_type = typename arithmetic<V>::type;
template <class V> using arithmetic_scalar = typename arithmetic<V>::scalar;

} // namespace celer

#define CELER_OPERATOR(sign, name)                                             \
  template <class V>                                                           \
  CELER_FN celer::arithmetic_type<V> operator sign(const V &a, const V &b) {   \
    return celer::arithmetic<V>::template each<celer::name>(a, b);             \
  }                                                                            \
  template <class V>                                                           \
  CELER_FN celer::arithmetic_type<V> operator sign(                            \
      const V &a, celer::arithmetic_scalar<V> s) {                             \
    return a sign celer::arithmetic<V>::all(s);                                \
  }                                                                            \
  template <class V>                                                           \
  CELER_FN celer::arithmetic_type<V> operator sign(                            \
      celer::arithmetic_scalar<V> s, const V &b) {                             \
    return celer::arithmetic<V>::all(s) sign b;                                \
  }                                                                            \
  template <class V>                                                           \
  CELER_FN celer::arithmetic_type<V> &operator sign##=(V &a, const V &b) {     \
    return a = a sign b;                                                       \
  }                                                                            \
  template <class V>                                                           \
  CELER_FN celer::arithmetic_type<V> &operator sign##=(                        \
      V &a, celer::arithmetic_scalar<V> s) {                                   \
    return a = a sign s;                                                       \
  }
CELER_OPERATOR(+, plus)
CELER_OPERATOR(-, minus)
CELER_OPERATOR(*, times)
CELER_OPERATOR(/, divided)
#undef CELER_OPERATOR

template <class V> CELER_FN celer::arithmetic_type<V> operator-(const V &a) {
  return celer::arithmetic<V>::template each<celer::times>(
      a, celer::arithmetic<V>::all(-1));
}

#endif
