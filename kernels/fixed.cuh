// fixed.cuh -- sums in fixed point, whose bits depend on nothing but what is
// added: `reproducible` ones. Comes before reduce.cuh, where CELER_OPS has one.
//
// An element of a row is a whole number of many limbs, in units of the least
// number of its type: the exact sum. Whole numbers come to the same in any
// order. The sum is rounded once, when all rows are combined into the buffer.
//
// To add to limbs takes tens of cycles. So a reducer of one element holds what
// items hand over, and adds it together by floating-point operations that are
// exact. On the processor these are so many numbers in memory, which are taken
// apart by their size: "Reproducible Summation" of Demmel and Nguyen does so to
// a depth that it chooses, and here nothing is left in the end. On a GPU they
// are three numbers in registers of each thread, whose sum is exact, and go to
// the limbs when three no longer hold it.
#ifndef CELER_FIXED_CUH
#define CELER_FIXED_CUH

namespace celer {

#ifdef CELER_CUDA
constexpr bool many_add = true; // to one row, at the same time
#define CELER_ASIDE __device__ __noinline__
#define CELER_APART __device__ __noinline__ // where that saves compiling
#define CELER_ROLLED _Pragma("unroll 1")
#else
constexpr bool many_add = false;
#define CELER_ASIDE __attribute__((noinline))
#define CELER_APART CELER_FN
#define CELER_ROLLED
#endif

// Two's complement. What is not finite is noted beside, as bits.
template <class T> struct fixed {
  static constexpr bool single = sizeof(T) == 4;
  static constexpr int limbs = single ? 6 : 34;
  static constexpr int unit = single ? -149 : -1074; // a power of 2
  static constexpr int digits = single ? 24 : 53;
  using limb = unsigned long long;
  enum : limb { seen_nan = 1, seen_plus = 2, seen_minus = 4 };

  limb at[limbs], seen;

  // Adds a number, which is a multiple of the unit, and less than 2^64 times
  // the largest one.
  template <bool Many> CELER_APART void add(double x) {
    limb bits, whole;
    memcpy(&bits, &x, sizeof bits);
    const limb minus = bits >> 63;
    const int exponent = int(bits >> 52) & 0x7ff;
    whole = bits & ((limb(1) << 52) - 1);
    if (exponent == 0x7ff) {
      note<Many>(whole != 0 ? seen_nan : minus != 0 ? seen_minus : seen_plus);
      return;
    }
    if (exponent > 0) whole |= limb(1) << 52;
    if (whole == 0) return;
    int shift = (exponent > 0 ? exponent : 1) - 1075 - unit;
    if (shift < 0) whole >>= -shift, shift = 0; // these bits are 0
    const int i = shift / 64, by = shift % 64;
    const limb low = whole << by, high = whole >> 1 >> (63 - by);
    if constexpr (Many) {
      carry<true>(i, low, minus);
      carry<true>(i + 1, high, minus);
    } else {
      add_both(i, low, high, minus);
    }
  }

  // What an item hands over.
  CELER_FN void add(double x) {
    add<many_add>(x);
  }

  template <bool Many> CELER_APART void add(const fixed &other) {
    if (other.seen != 0) note<Many>(other.seen);
    if constexpr (Many) {
      CELER_ROLLED
      for (int i = 0; i < limbs; ++i) carry<true>(i, other.at[i], 0);
    } else {
      limb over = 0;
      CELER_ROLLED
      for (int i = 0; i < limbs; ++i) {
        const limb some = at[i] + other.at[i], sum = some + over;
        over = (some < at[i]) | (sum < some);
        at[i] = sum;
      }
    }
  }

  // The nearest number; of two as near the one whose last bit is 0. No -0.
  CELER_APART T rounded() const {
    constexpr limb infinite = limb(single ? 0xff : 0x7ff) << (digits - 1);
    const bool plus = seen & seen_plus, minus = seen & seen_minus;
    if ((seen & seen_nan) != 0 || (plus && minus))
      return number(infinite | limb(1) << (digits - 2), false);
    if (plus || minus) return number(infinite, minus);
    const bool negative = at[limbs - 1] >> 63 != 0;
    const fixed size = negative ? negated() : *this;
    int top = 0; // without a way out, so that many are looked at at a time
#pragma unroll 8
    for (int i = 1; i < limbs; ++i)
      if (size.at[i] != 0) top = i;
    int last = top * 64 - 1; // the number of the first bit that is 1
    for (limb x = size.at[top]; x != 0; x >>= 1) ++last;
    if (last < digits) return number(size.at[0], negative && last >= 0);
    const int drop = last + 1 - digits;
    limb kept = size.from(drop) & ((limb(1) << digits) - 1);
    const bool half = size.from(drop - 1) & 1;
    kept += half && ((kept & 1) != 0 || size.any_below(drop - 1));
    // The first bit, which numbers do not store, adds 1 to the exponent.
    const limb bits = (limb(drop) << (digits - 1)) + kept;
    return number(bits < infinite ? bits : infinite, negative);
  }

private:
  template <bool Many> CELER_FN void note(limb what) {
#ifdef CELER_CUDA
    if constexpr (Many)
      atomicOr(&seen, what);
    else
#endif
      seen |= what;
  }

  // Adds to limb i, or takes from it, and from those above what that carries.
  // Of many who do so at a time each sees what it has carried itself.
  template <bool Many> CELER_FN void carry(int i, limb x, limb minus) {
    CELER_ROLLED
    for (; x != 0 && i < limbs; ++i) {
      limb old = at[i];
#ifdef CELER_CUDA
      if constexpr (Many)
        old = atomicAdd(at + i, minus != 0 ? 0 - x : x);
      else
#endif
        at[i] = minus != 0 ? old - x : old + x;
      x = minus != 0 ? old < x : old + x < old;
    }
  }

  // Without a branch on the sign, which may be any. The limbs above of what is
  // negative are all ones: they change nothing where the lower ones carry.
  CELER_FN void add_both(int i, limb low, limb high, limb minus) {
    low ^= 0 - minus;
    high ^= 0 - minus;
    const limb first = at[i] + low, sum = first + minus;
    const limb over = (first < low) | (sum < minus);
    const limb second = at[i + 1] + high, next = second + over;
    at[i] = sum;
    at[i + 1] = next;
    if (((second < high) | (next < over)) != minus)
      carry<false>(i + 2, 1, minus);
  }

  CELER_FN fixed negated() const {
    fixed out = {};
    limb over = 1;
    CELER_ROLLED
    for (int i = 0; i < limbs; ++i) {
      out.at[i] = ~at[i] + over;
      over = out.at[i] < over;
    }
    return out;
  }

  // 64 bits, from number n on.
  CELER_FN limb from(int n) const {
    const int i = n / 64, by = n % 64;
    const limb high = i + 1 < limbs ? at[i + 1] : 0;
    return at[i] >> by | high << 1 << (63 - by);
  }
  CELER_FN bool any_below(int n) const {
    limb any = at[n / 64] & ((limb(1) << n % 64) - 1);
    CELER_ROLLED
    for (int i = 0; i < n / 64; ++i) any |= at[i];
    return any != 0;
  }

  static CELER_FN T number(limb bits, bool minus) {
    T x;
    if constexpr (single) {
      const unsigned some = unsigned(bits) | unsigned(minus) << 31;
      memcpy(&x, &some, sizeof x);
    } else {
      bits |= limb(minus) << 63;
      memcpy(&x, &bits, sizeof x);
    }
    return x;
  }
};

static_assert(sizeof(fixed<float>) == 56 && sizeof(fixed<double>) == 280,
              "engine/base/operator.c says the same");

#ifdef CELER_CUDA

// Not as a + b, which a compiler may contract with a product.
CELER_FN double plus(double a, double b) {
  return __dadd_rn(a, b);
}
CELER_FN double less(double a, double b) {
  return __dadd_rn(a, -b);
}

// What is a + b without `sum`, which is a + b rounded (Knuth).
CELER_FN double error_of(double a, double b, double sum) {
  const double most = less(sum, a);
  return plus(less(a, less(sum, most)), less(b, most));
}
// Whether that is 0, and all are numbers.
CELER_FN bool is_exact(double a, double b, double sum) {
  return (less(sum, a) == b) & (less(sum, b) == a);
}

// Handed over, and not in the row: a + b + c.
template <class T> struct to_fixed {
  fixed<T> *row;
  double a, b, c;

  CELER_FN void begin(fixed<T> *to) {
    row = to;
    a = b = c = 0;
  }

  CELER_FN void add(double x) {
    const double sum = plus(a, x), rest = error_of(a, x, sum);
    const double more = plus(b, rest);
    if (is_exact(b, rest, more))
      a = sum, b = more;
    else
      *this = added(*this, x);
  }

  CELER_FN void flush() {
    if (a != 0) row->add(a);
    if (b != 0) row->add(b);
    if (c != 0) row->add(c);
    a = b = c = 0;
  }

private:
  // By value, so that all stays in registers.
  static CELER_ASIDE to_fixed added(to_fixed t, double x) {
    const double sum = plus(t.a, x), rest = error_of(t.a, x, sum);
    const double more = plus(t.b, rest), left = error_of(t.b, rest, more);
    const double all = plus(t.c, left);
    if (is_exact(t.c, left, all)) return {t.row, sum, more, all};
    t.flush();
    t.row->add(x);
    return t;
  }
};

#else

// Handed over, and not in the row.
template <class T> struct to_fixed {
  static constexpr int log_room = 8, room = 1 << log_room;
  fixed<T> *row;
  int n;
  alignas(64) double held[room];

  CELER_FN void begin(fixed<T> *to) {
    row = to;
    n = 0;
  }

  CELER_FN void add(double x) {
    held[n++] = x;
    if (__builtin_expect(n == room, 0)) flush();
  }

  CELER_FN void flush() {
    add_held(row, held, n);
    n = 0;
  }

private:
#if defined(__AVX512F__)
  static constexpr int bytes = 64;
#elif defined(__AVX__)
  static constexpr int bytes = 32;
#else
  static constexpr int bytes = 16;
#endif
  static constexpr int width = bytes / 8, chains = 4, together = width * chains;
  static_assert(room % together == 0, "held numbers are whole vectors");
  typedef double numbers __attribute__((vector_size(bytes), may_alias));
  typedef long long words __attribute__((vector_size(bytes), may_alias));
  static constexpr long long no_sign = 0x7fffffffffffffff;

  static CELER_FN double power_of_2(int k) {
    const unsigned long long bits = (unsigned long long)(k + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
  }

  // The bits of the largest in size, of `count` vectors.
  static CELER_FN long long largest(const numbers *x, int count) {
    words most = {};
    for (int i = 0; i < count; ++i) {
      const words size = (words)x[i] & no_sign;
      most = size > most ? size : most;
    }
    long long one = 0;
    for (int l = 0; l < width; ++l) one = most[l] > one ? most[l] : one;
    return one;
  }

  // Takes the multiple of 2^(k-42) that is nearest from each of these numbers,
  // of 2^k at most in size, and adds it to the row; whether anything is left,
  // which is 2^(k-43) at most. To add to `large` rounds to such multiples, and
  // sums of so many of them have 51 bits.
  static CELER_FN bool take(fixed<T> *row, numbers *x, int count, int k) {
    const double large = 1.5 * power_of_2(k + log_room + 2);
    numbers sum[chains];
    words left = {};
    for (int c = 0; c < chains; ++c) sum[c] = large - numbers{};
    for (int i = 0; i < count; i += chains)
      for (int c = 0; c < chains; ++c) {
        const numbers next = sum[c] + x[i + c];
        x[i + c] -= next - sum[c];
        sum[c] = next;
        left |= (words)x[i + c];
      }
    numbers all = {};
    for (int c = 0; c < chains; ++c) all += sum[c] - large;
    double one = 0;
    long long any = 0;
    for (int l = 0; l < width; ++l) one += all[l], any |= left[l];
    row->add(one);
    return (any & no_sign) != 0;
  }

  static CELER_ASIDE void add_held(fixed<T> *row, double *held, int n) {
    for (; n % together != 0; ++n) held[n] = 0;
    numbers *x = (numbers *)held;
    const int exponent = int(largest(x, n / width) >> 52);
    if (exponent > 2046 - log_room - 3) { // or what is not finite
      for (int i = 0; i < n; ++i) row->add(held[i]);
      return;
    }
    constexpr int least = -1022 - log_room - 2;
    int k = (exponent > 0 ? exponent : 1) - 1022;
    while (take(row, x, n / width, k > least ? k : least)) k -= 43;
  }
};

#endif

} // namespace celer

#endif
