// lua.cuh -- numbers as Lua computes them, for kernels that were Lua.
#ifndef CELER_LUA_CUH
#define CELER_LUA_CUH

namespace lua {

// a % b has the sign of b.
template <class T> CELER_FN T mod(T a, T b) {
  return a - (T)floor(a / b) * b;
}

template <class T> CELER_FN T mod_whole(T a, T b) {
  T r = a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}

// a % b where a >= -b, where a < 2 * b, and where both.
template <class T> CELER_FN T wrap_before(T a, T b) {
  return a < 0 ? a + b : a;
}
template <class T> CELER_FN T wrap_behind(T a, T b) {
  return a < b ? a : a - b;
}
template <class T> CELER_FN T wrap_beforebehind(T a, T b) {
  return a < 0 ? a + b : a < b ? a : a - b;
}

// floor(a / b), b > 0.
template <class T> CELER_FN T div_whole(T a, T b) {
  T q = a / b;
  return a % b < 0 ? q - 1 : q;
}

// As the processor's own instructions, which Lua takes: of a NaN b, and of 0
// and -0.
template <class T> CELER_FN T min(T a, T b) {
  return a < b ? a : b;
}
template <class T> CELER_FN T max(T a, T b) {
  return a > b ? a : b;
}

template <class T> CELER_FN T abs(T x) {
  return x < 0 ? -x : x;
}

// -x, which is -0 for 0. (g++ 12 makes -(double)x of 0.0 - (double)x, and comes
// to that from 0.0 + -(double)x.)
template <class T, class I> CELER_FN T minus(I x) {
  return x == 0 ? (T)-0.0 : (T)(-(T)x);
}

// A constant that the compiler does not know: what it computes itself may have
// another last bit than the library's functions.
template <class T> CELER_FN T unknown(T x) {
#ifndef CELER_CUDA
  if (__builtin_constant_p(x)) {
    volatile T hidden = x;
    return hidden;
  }
#endif
  return x;
}

// x ^ y: small whole exponents are products and 0.5 is a root, as the library's
// function differs from one platform to another in the last bit. Of -0 and
// -INFINITY that has no sign.
template <class T> CELER_FN T pow(T x, T y) {
  if (y == 2) return x * x;
  if (y == 1) return x;
  if (y == 3) return x * x * x;
  if (y == 4) return (x * x) * (x * x);
  if (y == -1) return 1 / x;
  if (y == -2) return 1 / (x * x);
  if (y == T(0.5)) return x == -INFINITY ? T(INFINITY) : T(sqrt(x + T(0)));
  return ::pow(unknown(x), unknown(y));
}

// Of bit: numbers modulo 2^32, with a sign.
CELER_FN int bits(long long x) {
  return (int)(unsigned)x;
}
CELER_FN int bits(double x) {
  return (int)(unsigned)(long long)rint(x);
}
CELER_FN int band(int a, int b) {
  return a & b;
}
CELER_FN int bor(int a, int b) {
  return a | b;
}
CELER_FN int bxor(int a, int b) {
  return a ^ b;
}
CELER_FN int bnot(int a) {
  return ~a;
}
CELER_FN int lshift(int a, int n) {
  return (int)((unsigned)a << (n & 31));
}
CELER_FN int rshift(int a, int n) {
  return (int)((unsigned)a >> (n & 31));
}
CELER_FN int arshift(int a, int n) {
  return a >> (n & 31);
}

} // namespace lua

#endif
