// lua.cuh -- numbers as Lua computes them, for kernels that were Lua.
#ifndef CELER_LUA_CUH
#define CELER_LUA_CUH

namespace lua {

// Sums where the compiler may know an operand to be 0. In one expression g++ 12
// takes 0.0 - x for -x where x is no -0 for certain, as fabs(x) and (double)i:
// for 0 it would be -0.
template <class T> CELER_FN T add(T a, T b) {
  return a + b;
}
template <class T> CELER_FN T sub(T a, T b) {
  return a - b;
}

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

// The same of ints, where a minimum, or maximum, is taken of the result.
template <class T> CELER_FN T first_min(T a, T b) {
  return ::min(a, b);
}
template <class T> CELER_FN T first_max(T a, T b) {
  return ::max(a, b);
}

// A number to compare with, of which the compiler knows nothing.
template <class T> CELER_FN T opaque(T x) {
  return x;
}

#ifdef CELER_CUDA
// NVVM, the optimiser in NVRTC, takes `a < b ? a : b` for a minimum where b is
// no NaN for certain, as a constant is. Such a minimum has -0 below 0, and
// NVVM makes min(a, b) of min(min(a, b), b), though a may be a NaN. It does not
// look into what follows. ptxas does, and takes one instruction where that
// gives the same bits.
#define CELER_CHOOSE(name, T, letter, type, test)                              \
  template <> CELER_FN T name<T>(T a, T b) {                                   \
    T r;                                                                       \
    asm("{ .reg .pred p; setp." test "." type " p, %1, %2;"                    \
        " selp." type " %0, %1, %2, p; }"                                      \
        : "=" letter(r)                                                        \
        : letter(a), letter(b));                                               \
    return r;                                                                  \
  }
CELER_CHOOSE(min, float, "f", "f32", "lt")
CELER_CHOOSE(max, float, "f", "f32", "gt")
CELER_CHOOSE(min, double, "d", "f64", "lt")
CELER_CHOOSE(max, double, "d", "f64", "gt")
#undef CELER_CHOOSE

// ptxas (of CUDA 13.0, from sm_90 on) makes one instruction of two minima, and
// in min(min(a, -b), c) loses the sign of -b. So the first one is a selection
// by bits, which it does not take for a minimum.
#define CELER_SELECT(name, test)                                               \
  template <> CELER_FN int name<int>(int a, int b) {                           \
    int r;                                                                     \
    asm("{ .reg .b32 m; set." test ".s32.s32 m, %1, %2;"                       \
        " lop3.b32 %0, %1, %2, m, 0xe4; }"                                     \
        : "=r"(r)                                                              \
        : "r"(a), "r"(b));                                                     \
    return r;                                                                  \
  }
CELER_SELECT(first_min, "lt")
CELER_SELECT(first_max, "gt")
#undef CELER_SELECT

#define CELER_OPAQUE(T, letter, type)                                          \
  template <> CELER_FN T opaque<T>(T x) {                                      \
    T r;                                                                       \
    asm("mov." type " %0, %1;" : "=" letter(r) : letter(x));                   \
    return r;                                                                  \
  }
CELER_OPAQUE(float, "f", "f32")
CELER_OPAQUE(double, "d", "f64")
CELER_OPAQUE(int, "r", "b32")
CELER_OPAQUE(long long, "l", "b64")
#undef CELER_OPAQUE
#endif

template <class T> CELER_FN T abs(T x) {
  return x < 0 ? -x : x;
}

// -x, which is -0 for 0.
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

// A whole number as an integer; -2^63 if it is none of 64 bits or a NaN, as the
// processor has it: a GPU gives the nearest one, and so do compilers of what
// they know, late as that may be.
template <class T> CELER_FN long long whole(T x) {
  return x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0)
             ? (long long)x
             : (long long)(1ULL << 63);
}

// Of bit: numbers modulo 2^32, with a sign.
CELER_FN int bits(long long x) {
  return (int)(unsigned)x;
}
CELER_FN int bits(double x) {
  return (int)(unsigned)whole(rint(x));
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
