// number.cuh -- defines that are no whole numbers: {OMEGA = 0.7} stands for
// celer_number(0.7) in a kernel. Comes after celer.cuh, before the user's text.
//
// A literal of C++ has a type of its own: 0.7 makes a float beside it a double,
// and 0.7f takes digits from a double. A number takes the type of what it
// meets: beside a float it is one, beside a double it is one. Beside whole
// numbers it remains a number, and so do two of them: (1 - OMEGA) * f is a
// float if f is. Numbers compute as doubles do, where they are constants when
// compiled.
#ifndef CELER_NUMBER_CUH
#define CELER_NUMBER_CUH

namespace celer {

struct number;

// What an A and a B come to of which one is a number, or both are; nothing of
// others, and of what is not arithmetic.
template <class A, int Class> struct beside {};
template <class A> struct beside<A, 'i'> { using type = number; };
template <class A> struct beside<A, 'u'> { using type = number; };
template <class A> struct beside<A, 'b'> { using type = number; };
template <class A> struct beside<A, 'f'> { using type = A; };
template <class A, class B> struct meeting {};
template <class A>
struct meeting<A, number> : beside<A, describe<A>::class_> {};
template <class B>
struct meeting<number, B> : beside<B, describe<B>::class_> {};
template <> struct meeting<number, number> { using type = number; };

template <class A> using met = typename meeting<A, number>::type;
template <class A, class B> struct same {};
template <class A> struct same<A, A> { using type = A; };
template <class A> using if_number = typename same<A, number>::type;
template <class A> using if_whole = typename same<met<A>, number>::type;
template <class A> using if_floating = typename same<met<A>, A>::type;

// Becomes a float or a double unasked, but a whole number by int(x) alone: of
// `c ? OMEGA : 0` nothing would be left.
struct number {
  double value;
  CELER_FN constexpr number() : value(0) {
  }
  CELER_FN constexpr explicit number(double x) : value(x) {
  }
  CELER_FN constexpr explicit number(float x) : value(x) {
  }
  template <class A, class = if_whole<A>>
  CELER_FN constexpr number(A x) : value(double(x)) {
  }
  template <class A, class = if_floating<A>>
  CELER_FN constexpr operator A() const {
    return A(value);
  }
  template <class A, class = if_whole<A>, class = void>
  CELER_FN constexpr explicit operator A() const {
    return A(value);
  }
  CELER_FN constexpr number operator-() const {
    return number(-value);
  }
  CELER_FN constexpr number operator+() const {
    return *this;
  }
};

// In what a T is computed.
template <class T> struct computed { using type = T; };
template <> struct computed<number> { using type = double; };

// A function of a and b, whose Result may be the type T in which they meet.
#define CELER_NUMBERS(name, Result, expression)                                \
  template <class A, class B, class T = typename meeting<A, B>::type>          \
  CELER_FN constexpr Result name(A x, B y) {                                   \
    using V = typename computed<T>::type;                                      \
    const V a = V(x), b = V(y);                                                \
    return Result(expression);                                                 \
  }
CELER_NUMBERS(operator+, T, a + b)
CELER_NUMBERS(operator-, T, a - b)
CELER_NUMBERS(operator*, T, (a * b))
CELER_NUMBERS(operator/, T, a / b)
CELER_NUMBERS(operator<, bool, a < b)
CELER_NUMBERS(operator>, bool, a > b)
CELER_NUMBERS(operator<=, bool, a <= b)
CELER_NUMBERS(operator>=, bool, a >= b)
CELER_NUMBERS(operator==, bool, a == b)
CELER_NUMBERS(operator!=, bool, a != b)
CELER_NUMBERS(atan2, T, ::atan2(a, b))
CELER_NUMBERS(copysign, T, ::copysign(a, b))
CELER_NUMBERS(fmax, T, ::fmax(a, b))
CELER_NUMBERS(fmin, T, ::fmin(a, b))
CELER_NUMBERS(fmod, T, ::fmod(a, b))
CELER_NUMBERS(hypot, T, ::hypot(a, b))
CELER_NUMBERS(pow, T, ::pow(a, b))
#undef CELER_NUMBERS

#define CELER_NUMBERS(op)                                                      \
  template <class A, class B, class = met<A>, class = if_number<B>>            \
  CELER_FN constexpr A &operator op##=(A &x, B y) {                            \
    return x = A(x op y);                                                      \
  }
CELER_NUMBERS(+)
CELER_NUMBERS(-)
CELER_NUMBERS(*)
CELER_NUMBERS(/)
#undef CELER_NUMBERS

#define CELER_NUMBERS(name)                                                    \
  CELER_FN number name(number x) {                                             \
    return number(::name(x.value));                                            \
  }
#define CELER_FOUR(a, b, c, d)                                                 \
  CELER_NUMBERS(a) CELER_NUMBERS(b) CELER_NUMBERS(c) CELER_NUMBERS(d)
CELER_FOUR(acos, acosh, asin, asinh)
CELER_FOUR(atan, atanh, cos, cosh)
CELER_FOUR(sin, sinh, tan, tanh)
CELER_FOUR(exp, exp2, expm1, log)
CELER_FOUR(log10, log1p, log2, sqrt)
CELER_FOUR(rsqrt, cbrt, erf, erfc)
CELER_FOUR(tgamma, fabs, ceil, floor)
CELER_FOUR(trunc, round, rint, nearbyint)
#undef CELER_FOUR
#undef CELER_NUMBERS
CELER_FN number abs(number x) {
  return number(::fabs(x.value));
}

template <class A> CELER_FN A printable(A x) {
  return x;
}
CELER_FN double printable(number x) {
  return x.value;
}
// Found where a number is among what is printed.
template <class... A> CELER_FN int printf(const char *format, A... a) {
  return ::printf(format, printable(a)...);
}

} // namespace celer

using celer_number = celer::number; // a name that no source has for its own

#endif
