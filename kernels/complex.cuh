// complex.cuh -- complex numbers: complex64 of two floats, complex128 of two
// doubles. Comes after celer.cuh where a source mentions one of them.
//   u(i) = conj(v(i)) * complex64 {0, 1} + 0.5f;
#ifndef CELER_COMPLEX_CUH
#define CELER_COMPLEX_CUH

#define CELER_COMPLEX(C, S)                                                    \
  struct C {                                                                   \
    S re, im;                                                                  \
  };                                                                           \
  CELER_FN C operator+(C a, C b) {                                             \
    return {a.re + b.re, a.im + b.im};                                         \
  }                                                                            \
  CELER_FN C operator-(C a, C b) {                                             \
    return {a.re - b.re, a.im - b.im};                                         \
  }                                                                            \
  CELER_FN C operator*(C a, C b) {                                             \
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};             \
  }                                                                            \
  CELER_FN C operator/(C a, C b) {                                             \
    const S n = b.re * b.re + b.im * b.im;                                     \
    return {(a.re * b.re + a.im * b.im) / n, (a.im * b.re - a.re * b.im) / n}; \
  }                                                                            \
  CELER_FN C operator+(C a, S s) {                                             \
    return {a.re + s, a.im};                                                   \
  }                                                                            \
  CELER_FN C operator+(S s, C b) {                                             \
    return {s + b.re, b.im};                                                   \
  }                                                                            \
  CELER_FN C operator-(C a, S s) {                                             \
    return {a.re - s, a.im};                                                   \
  }                                                                            \
  CELER_FN C operator-(S s, C b) {                                             \
    return {s - b.re, -b.im};                                                  \
  }                                                                            \
  CELER_FN C operator*(C a, S s) {                                             \
    return {a.re * s, a.im * s};                                               \
  }                                                                            \
  CELER_FN C operator*(S s, C b) {                                             \
    return {s * b.re, s * b.im};                                               \
  }                                                                            \
  CELER_FN C operator/(C a, S s) {                                             \
    return {a.re / s, a.im / s};                                               \
  }                                                                            \
  CELER_FN C operator/(S s, C b) {                                             \
    return C{s, 0} / b;                                                        \
  }                                                                            \
  CELER_FN C operator-(C a) {                                                  \
    return {-a.re, -a.im};                                                     \
  }                                                                            \
  template <class X> CELER_FN C &operator+=(C &a, X b) {                       \
    return a = a + b;                                                          \
  }                                                                            \
  template <class X> CELER_FN C &operator-=(C &a, X b) {                       \
    return a = a - b;                                                          \
  }                                                                            \
  template <class X> CELER_FN C &operator*=(C &a, X b) {                       \
    return a = a * b;                                                          \
  }                                                                            \
  template <class X> CELER_FN C &operator/=(C &a, X b) {                       \
    return a = a / b;                                                          \
  }                                                                            \
  CELER_FN bool operator==(C a, C b) {                                         \
    return a.re == b.re && a.im == b.im;                                       \
  }                                                                            \
  CELER_FN bool operator!=(C a, C b) {                                         \
    return !(a == b);                                                          \
  }                                                                            \
  CELER_FN C conj(C a) {                                                       \
    return {a.re, -a.im};                                                      \
  }                                                                            \
  CELER_FN S norm(C a) { /* the square of abs */                               \
    return a.re * a.re + a.im * a.im;                                          \
  }                                                                            \
  CELER_FN S abs(C a) {                                                        \
    return S(hypot(a.re, a.im));                                               \
  }                                                                            \
  CELER_FN S arg(C a) {                                                        \
    return S(atan2(a.im, a.re));                                               \
  }                                                                            \
  CELER_FN C exp(C a) {                                                        \
    const S r = S(exp(a.re));                                                  \
    return {r * S(cos(a.im)), r * S(sin(a.im))};                               \
  }
CELER_COMPLEX(complex64, float)
CELER_COMPLEX(complex128, double)
#undef CELER_COMPLEX

#endif
