// loop.cuh -- the host: an entry loops over its chunk. A part of celer.cuh.
namespace celer {

// The innermost dimension is contiguous, and items are independent, unless they
// reduce.
#ifdef __clang__
#define CELER_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CELER_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <class P, int V, index At> struct bind {
  static CELER_FN P from(const call *c) {
    if constexpr (traits<P>::views == 1) {
      const view &v = c->view_at[V];
      const box &l = v.layout;
      const index e1 = l.max[1] - l.min[1], e2 = l.max[2] - l.min[2];
      const index bias = (l.min[0] * e1 + l.min[1]) * e2 + l.min[2];
      P p;
      using element = decltype(p.origin);
      p.origin =
          (element)((uintptr_t)v.base - (uintptr_t)bias * sizeof(*p.origin));
      // A 2-D buffer keeps [0, 1) in dimension 2, and so e2 is 1 there.
      p.stride0 = e1 * e2;
      p.stride1 = e2;
#ifdef CELER_CHECK
      p.check.look(v, V);
#endif
      return p;
    } else {
      P p;
      memcpy(&p, c->values + At, sizeof p);
      return p;
    }
  }
};

// What a loop holds, as an item is given it.
template <class P> static CELER_FN P copied(const P &p) {
  return p;
}

// What an item is given, which may want to know where the item is.
template <class P, class Item>
static CELER_FN P placed(const P &p, const Item &) {
  return p;
}

template <auto F, class Item, class... A>
static CELER_FN void compute(const Item &it, A... a) {
  F(it, marked(placed(a, it), it.at, traits<Item>::dims)...);
}

#ifdef CELER_SAMPLE
constexpr bool sampled = true; // few items, compiled quickly
#else
constexpr bool sampled = false;
#endif

// The rows that an entry is compiled for: of less than 2^31 items (0), which an
// int counts; longer ones (1), for which the engine has it compiled once more
// when they come; or both (2). engine/device/compile/compile.h says the same.
#ifndef CELER_ROWS
#define CELER_ROWS 0
#endif
constexpr bool all_are_long = sampled || CELER_ROWS == 1;
constexpr bool all_are_short = !sampled && CELER_ROWS == 0;

// Calls at(begin, end) for items of a row of `size`: of a long one first for
// those up to where a line of the cache begins. Else each vector of the rest
// would lie in two lines, mostly because the row's first item is computed
// apart. What comes first goes in shorter vectors, and one by one: where items
// are much work, that takes a twentieth of the shortest rows that are cut.
template <class X, class At>
static CELER_FN void stretches(X begin, X end, X size, const At &at) {
  constexpr X line = 16, least = 4000; // items; a line of floats
  X to = end;
  if (end - begin >= least && size % line == 0 && begin % line != 0)
    to = begin - begin % line + line;
#pragma GCC unroll 1
  do {
    at(begin, to);
    begin = to;
    to = end;
  } while (begin < end);
}

// Items [begin, end) of a row of `size`; those that reduce are in order. Others
// are computed apart at the row's two ends, and between them the compiler is to
// prove that there are neighbours: u(max(i - 1, 0)) and u(min(i + 1, size - 1))
// then are contiguous. For the one it takes a count from a constant; for the
// other that the right neighbour is what is compared, with a bound that is
// known beside size - 1. (Its min must still be a branch: see compile_cpu.c.)
template <bool Apart, class X, class At>
static CELER_FN void row(X begin, X end, X size, const At &at) {
  if constexpr (!Apart) {
    for (X i = begin; i < end; ++i) at(i);
  } else {
    const X last = size - 1;
#pragma GCC unroll 1
    for (int side = 0; side < (last > 0 ? 2 : 1); ++side) {
      const X i = side == 0 ? 0 : last;
      if (begin <= i && i < end) at(i);
    }
    stretches(begin > 1 ? begin : X(1), end < last ? end : last, size,
              [&](X first, X stop) CELER_ALWAYS {
                const X right = first + 1;
                if (first < 1 || stop > last) __builtin_unreachable();
                CELER_INDEPENDENT
                for (X k = 0; k + right <= stop; ++k) at(k + right - 1);
              });
  }
}

// Calls at(begin, end) for the strips of a row, one after another. A kernel
// that touches columns of a buffer along its rows goes through all rows of a
// strip before the next strip: the lines of the columns stay in the first cache
// until all of their elements were touched.
template <class X, class At>
static CELER_FN void strips(const call *c, int d, const At &at) {
  const X end = c->chunk.max[d], width = c->strip;
  for (X i = c->chunk.min[d], next; i < end; i = next) {
    next = width > 0 && width < end - i ? i + width : end;
    at(i, next);
  }
}

// In place of `loop`, where there is a near<T, D>: near.cuh.
template <auto F, int D, class X> struct near_loop;

// X counts along rows: int where it suffices, for the vectoriser's sake.
template <auto F, int D, class X, class... A>
static CELER_FN void loop(const call *c, A... a) {
  constexpr bool apart = !signature<decltype(F)>::reduces && !sampled;
  const box &b = c->chunk;
  const index n0 = c->range.max[0], n1 = c->range.max[1], n2 = c->range.max[2];
  if constexpr (signature<decltype(F)>::has_near) {
    near_loop<F, D, X>::run(c, a...);
  } else if constexpr (D == 0) {
    compute<F>(item<0>{{0}, {1}}, copied(a)...);
  } else if constexpr (D == 1) {
    row<apart>(X(b.min[0]), X(b.max[0]), X(n0), [&](X i) CELER_ALWAYS {
      compute<F>(item<1>{{i}, {n0}}, copied(a)...);
    });
  } else if constexpr (D == 2) {
    strips<X>(c, 1, [&](X begin, X end) CELER_ALWAYS {
      for (index i = b.min[0]; i < b.max[0]; ++i)
        row<apart>(begin, end, X(n1), [&](X j) CELER_ALWAYS {
          compute<F>(item<2>{{i, j}, {n0, n1}}, copied(a)...);
        });
    });
  } else {
    strips<X>(c, 2, [&](X begin, X end) CELER_ALWAYS {
      for (index i = b.min[0]; i < b.max[0]; ++i)
        for (index j = b.min[1]; j < b.max[1]; ++j)
          row<apart>(begin, end, X(n2), [&](X k) CELER_ALWAYS {
            compute<F>(item<3>{{i, j, k}, {n0, n1, n2}}, copied(a)...);
          });
    });
  }
}

template <auto F, class S = signature<decltype(F)>> struct entry;
template <auto F, class Item, class... P>
struct entry<F, signature<void (*)(Item, P...)>> {
  using sig = signature<void (*)(Item, P...)>;

  // A function of its own: what is part of others is compiled anew in each.
  template <class X, int... K>
  static __attribute__((noinline)) void run_as(const call *c, indices<K...>) {
    loop<F, sig::dims, X>(
        c,
        bind<typename bare<P>::type, sig::view_of(K), sig::value_at(K)>::from(
            c)...);
  }

  static CELER_FN void run(const call *c) {
    constexpr int last = sig::dims > 0 ? sig::dims - 1 : 0;
    for (int d = 0; d < 3; ++d)
      if (c->chunk.min[d] >= c->chunk.max[d]) return;
    if constexpr (all_are_long)
      run_as<index>(c, typename sig::all());
    else if constexpr (all_are_short)
      run_as<int>(c, typename sig::all());
    else if (c->range.max[last] <= 0x7fffffff)
      run_as<int>(c, typename sig::all());
    else
      run_as<index>(c, typename sig::all());
  }
};

#define CELER_EXPORT __attribute__((visibility("default")))
#define CELER_ENTRY(name)                                                      \
  extern "C" {                                                                 \
  extern CELER_EXPORT const celer::described<CELER_KERNEL(name)>               \
      celer_params_##name;                                                     \
  const celer::described<CELER_KERNEL(name)> celer_params_##name =             \
      celer::signature<decltype(CELER_KERNEL(name))>::describe();              \
  CELER_EXPORT void celer_run_##name(const celer::call *celer_given) {         \
    celer::entry<CELER_KERNEL(name)>::run(celer_given);                        \
  }                                                                            \
  CELER_REDUCES(name)                                                          \
  }

} // namespace celer
