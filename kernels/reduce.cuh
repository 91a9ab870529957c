// reduce.cuh -- reducers: what all items of a task come to. Comes after
// celer.cuh and group.cuh, before the user's text.
//
// A launch or call leaves what its items come to in one row of memory, dense
// and of the shape of the buffer; the engine combines rows. Which operator a
// reducer has cg:reduce says: CELER_OPS lists them by the numbers of the views,
// and the constant meets the switch below once all is inlined.
//
// On the processor an item combines onto a variable, of an array onto the row.
// Of a long one a block has a part for itself, and a row for other elements,
// whose lines its items begin with the identity: a block that comes to few of
// many elements costs no more than these. An index that the compiler sees to be
// the item's coordinate needs no look at whose it is, so that the loop over
// items is vectorised.
// On a GPU a reducer of one element is a register of each thread; a block's are
// combined by shuffles, and the last block that ends combines the blocks', in
// their order: no two runs differ. An array is combined by atomics, in the
// block's shared memory where it fits.
#ifndef CELER_REDUCE_CUH
#define CELER_REDUCE_CUH

#ifndef CELER_OPS
#define CELER_OPS 0
#endif

namespace celer {

// ---- operators; lua/celer/kernel/reduce.lua says the same

enum op : int {
  op_sum,
  op_prod,
  op_min,
  op_max,
  op_and,
  op_or,
  op_fixed, // of float and double, fixed.cuh
  op_custom
};

constexpr int op_of(int view) {
  const int all[] = {CELER_OPS};
  return view < int(sizeof all / sizeof *all) ? all[view] : int(op_sum);
}

constexpr bool has_fixed() {
  const int all[] = {CELER_OPS};
  for (int op : all)
    if (op == op_fixed) return true;
  return false;
}
template <class T> constexpr bool may_be_fixed = false;
template <> constexpr bool may_be_fixed<float> = has_fixed();
template <> constexpr bool may_be_fixed<double> = has_fixed();

template <class T> struct fixed;
template <class T> struct to_fixed;

// The user's own, as text; specialised after this.
template <class T> CELER_FN T customs(int, T a, T) {
  return a;
}

template <class T> CELER_FN T apply(int op, T a, T b) {
  constexpr int c = __is_enum(T) ? 's' : describe<T>::class_;
  if constexpr (c != 's') {
    if (op == op_sum) return T(a + b);
    if (op == op_prod) return T(a * b);
    // A NaN on either side is what both come to: one in `a` is never less.
    if (op == op_min) return b < a || b != b ? b : a;
    if (op == op_max) return a < b || b != b ? b : a;
  }
  if constexpr (c == 'i' || c == 'u' || c == 'b') {
    if (op == op_and) return T(a & b);
    if (op == op_or) return T(a | b);
  }
  return customs<T>(op - op_custom, a, b);
}

template <class To, class From>
CELER_FN void copy_bits(To *to, const From *from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  memcpy(to, from, sizeof *to);
}

#ifdef CELER_CUDA

template <int Bytes> struct word_of { using type = unsigned; };
template <> struct word_of<8> { using type = unsigned long long; };

// *at = apply(op, *at, x), whoever else does so.
template <class T>
__device__ __forceinline__ void apply_atomic(int op, T *at, T x) {
  constexpr int c = __is_enum(T) ? 's' : describe<T>::class_;
  using word = typename word_of<sizeof(T)>::type;
  word *p = (word *)at;
  if constexpr (c == 'f') {
    if (op == op_sum) {
      atomicAdd(at, x);
      return;
    }
  } else if constexpr (c == 'i' || c == 'u') {
    if (op == op_sum || op == op_and || op == op_or) {
      if (op == op_sum) atomicAdd(p, word(x));
      if (op == op_and) atomicAnd(p, word(x));
      if (op == op_or) atomicOr(p, word(x));
      return;
    }
  }
  word old = *(volatile word *)p, seen, next;
  do {
    T value;
    seen = old;
    copy_bits(&value, &seen);
    value = apply(op, value, x);
    copy_bits(&next, &value);
    if (next == seen) return;
    old = atomicCAS(p, seen, next);
  } while (old != seen);
}

#endif

// ---- what a kernel is given

// All that is reduced into is one element.
template <class T, int D = 0> struct reducer {
  static_assert(D == 0, "a reducer has 0 to 3 dimensions");
  static_assert(__is_trivially_copyable(T) && sizeof(T) <= 256,
                "what is reduced is plain data of 256 bytes at most");
  T *at; // of op_fixed a to_fixed<T>
  int op;

  // Hands a value over; the operator is what cg:reduce says.
  CELER_FN void combine(const T &x) const {
    if constexpr (may_be_fixed<T>) {
      if (op == op_fixed) return ((to_fixed<T> *)at)->add(x);
    }
    *at = apply<T>(op, *at, x);
  }
  CELER_FN const reducer &operator+=(const T &x) const {
    combine(x);
    return *this;
  }
};

// One element of an array.
template <class T> struct reduced_element {
  T *at; // of op_fixed a fixed<T>
  int op;

  CELER_FN void combine(const T &x) const {
    if constexpr (may_be_fixed<T>) {
      if (op == op_fixed) return ((fixed<T> *)at)->add(x);
    }
#ifdef CELER_CUDA
    apply_atomic<T>(op, at, x);
#else
    *at = apply<T>(op, *at, x);
#endif
  }
  CELER_FN const reduced_element &operator+=(const T &x) const {
    combine(x);
    return *this;
  }
};

template <class T, int D> struct reducer_array {
  static_assert(D >= 0 && D <= 3, "a reducer has 0 to 3 dimensions");
  static_assert(sizeof(T) == 4 || sizeof(T) == 8,
                "an array is reduced in elements of 4 or 8 bytes");
  accessor<T, D> row;
  int op;
#ifndef CELER_CUDA
  lines seen;        // begun null: all is the call's own
  const index *here; // the last coordinates of the item; or null
#endif

  template <class... I> CELER_FN reduced_element<T> operator()(I... i) const {
    if constexpr (may_be_fixed<T>) {
      if (op == op_fixed) return {(T *)&row_of_fixed()(i...), op};
    }
#ifdef CELER_CUDA
    return {&row(i...), op};
#else
    return {place(&row(i...), is_here(0, index(i)...)), op};
#endif
  }
  CELER_FN reduced_element<T> operator[](index i) const {
    return (*this)(i);
  }

private:
  CELER_FN auto row_of_fixed() const {
    accessor<fixed<T>, D> fixed_row = {};
    fixed_row.origin = (fixed<T> *)row.origin;
    fixed_row.stride0 = row.stride0;
    fixed_row.stride1 = row.stride1;
#ifdef CELER_CHECK
    fixed_row.check = row.check;
#endif
    return fixed_row;
  }
#ifndef CELER_CUDA
  CELER_FN bool is_here(int) const {
    return true;
  }
  template <class... I>
  CELER_FN bool is_here(int d, index i, I... others) const {
    return here != nullptr && __builtin_constant_p(i - here[d]) &&
           i == here[d] && is_here(d + 1, others...);
  }
  CELER_FN T *place(T *at, bool is_here) const {
    if (seen.begun == nullptr || (is_here && seen.along != 0)) return at;
    return find_place(seen, row.origin, at);
  }
#endif
};
// Of each warp one.
template <class T> struct shared_of<reducer<T, 0>> {
  static constexpr index one = may_be_fixed<T> ? 32 : (sizeof(T) + 3) / 4 * 4;
  static constexpr index bytes = 32 * one;
};
template <class T> struct reducer<T, 1> : reducer_array<T, 1> {
  // combine(i, x): as (i).combine(x).
  CELER_FN void combine(index i, const T &x) const {
    (*this)(i).combine(x);
  }
};
template <class T> struct reducer<T, 2> : reducer_array<T, 2> {
  CELER_FN void combine(index i, index j, const T &x) const {
    (*this)(i, j).combine(x);
  }
};
template <class T> struct reducer<T, 3> : reducer_array<T, 3> {
  CELER_FN void combine(index i, index j, index k, const T &x) const {
    (*this)(i, j, k).combine(x);
  }
};

// What a launch is given of it; engine/device/cuda/cuda_job.c writes it.
template <class T> struct reduced {
  T *row;
  index stride0, stride1, count;
  T identity;
};

template <class T, int D> struct traits<reducer<T, D>> {
  static constexpr int kind = a_reducer, views = 1;
  static constexpr index size = sizeof(reduced<T>);
  static constexpr index align = alignof(reduced<T>);
  static constexpr param describe() {
    return param_of<T>(a_reducer, D);
  }
};

template <class T>
CELER_FN reducer<T, 0> marked(reducer<T, 0> r, const index *, int) {
  return r;
}
template <class T, int D>
CELER_FN reducer<T, D> marked(reducer<T, D> r, const index *item, int dims) {
#ifdef CELER_CHECK
  r.row.check.item = item;
  r.row.check.item_dims = dims;
#endif
  return r;
}

// ---- combining rows: [first, end) of them, each of some elements; on a GPU
// these are one

// Onto what the result holds; into what is reduced into, not into another row.
enum how : int { how_onto = 1, how_settles = 2 };

template <class T>
CELER_FN void combine_fixed(int how, const fixed<T> *rows, index first,
                            index end, index pitch, void *into, index i) {
  fixed<T> sum = {};
  if (first < end) sum = rows[first * pitch + i]; // all on its way at once
  for (index r = first + 1; r < end; ++r)
    sum.template add<false>(rows[r * pitch + i]);
  if ((how & how_settles) == 0) {
    fixed<T> *row = (fixed<T> *)into + i;
    if ((how & how_onto) != 0) sum.template add<false>(*row);
    *row = sum;
  } else {
    T *element = (T *)into + i;
    if ((how & how_onto) != 0) sum.template add<false>(*element);
    *element = sum.rounded();
  }
}

template <class T>
CELER_FN void combine_element(int op, bool onto, const T *rows, index first,
                              index end, index pitch, T *into, index i) {
  T value = onto ? into[i] : rows[first * pitch + i];
  for (index r = onto ? first : first + 1; r < end; ++r)
    value = apply<T>(op, value, rows[r * pitch + i]);
  into[i] = value;
}

#ifdef CELER_CUDA
constexpr bool has_spans = false;
using elements = index;
template <class Work> CELER_FN void each_of(elements i, const Work &work) {
  work(i);
}
#else
constexpr bool has_spans = true; // of arrays
struct elements {
  index begin, end;
  const lines *seen; // of all rows; null: all lines hold something
};
template <class Work>
CELER_FN void each_of(const elements &of, const Work &work) {
  for (index i = of.begin; i < of.end; ++i) work(i);
}
#endif

template <class S> struct combiner;
template <class Item, class... P>
struct combiner<signature<void (*)(Item, P...)>> {
  using sig = signature<void (*)(Item, P...)>;

  template <int K, class Q> struct one {
    static CELER_FN void run(int, int, const void *, index, index, index,
                             void *, elements) {
    }
  };
  template <int K, class T, int D> struct one<K, reducer<T, D>> {
    static CELER_FN void run(int view, int how, const void *rows, index first,
                             index end, index pitch, void *into, elements i) {
      constexpr int op = op_of(sig::view_of(K));
      if (view != sig::view_of(K)) return;
      if constexpr (may_be_fixed<T> && op == op_fixed)
        each_of(i, [=](index i) {
          combine_fixed<T>(how, (const fixed<T> *)rows, first, end, pitch, into,
                           i);
        });
      else if constexpr (has_spans && D > 0)
        combine_rows(op, (how & how_onto) != 0, (const T *)rows, first, end,
                     pitch, (T *)into, i);
      else
        each_of(i, [=](index i) {
          combine_element(op, (how & how_onto) != 0, (const T *)rows, first,
                          end, pitch, (T *)into, i);
        });
    }
  };

  template <int... K>
  static CELER_FN void run(int view, int how, const void *rows, index first,
                           index end, index pitch, void *into, elements i,
                           indices<K...>) {
    (one<K, typename bare<P>::type>::run(view, how, rows, first, end, pitch,
                                         into, i),
     ...);
  }
};

} // namespace celer

#ifdef CELER_CUDA
#include "reduce_launch.cuh"
#else
#include "reduce_loop.cuh"
#endif

using celer::reducer;

#endif
