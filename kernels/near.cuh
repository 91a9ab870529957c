// near.cuh -- near<T, D>: what lies around an item, also where that leaves the
// buffer. It stands after celer.cuh where a source mentions it.
//
// Items from which no index leaves the buffer know that, and read as in<T, D>
// does. A row of items is computed in parts, of such and of others; on a GPU
// what a thread has of it.
#ifndef CELER_NEAR_CUH
#define CELER_NEAR_CUH

namespace celer {

enum edge_kind : int {
  periodic_edge,
  clamped_edge,
  mirrored_edge,
  constant_edge
};

// What the mapper says of an index that leaves the buffer. Mirrored in
// lua/celer/kernel/near.lua.
template <class T> struct edge {
  index size[3], reach[3]; // of the buffer; of indices, from their item
  int kind;
  alignas(8) unsigned char outside[sizeof(T)]; // what a constant edge reads
};

// The index within [0, n) that one outside stands for. On the processor a call:
// compilers would have a loop for each kind of edge.
#ifdef CELER_CUDA
CELER_FN
#else
static __attribute__((noinline, unused))
#endif
index come_back(int kind, index i, index n) {
  if (kind == clamped_edge || kind == constant_edge) return i < 0 ? 0 : n - 1;
  const bool turns = kind == mirrored_edge;
  const index once = turns   ? (i < 0 ? -1 - i : 2 * n - 1 - i)
                     : i < 0 ? i + n
                             : i - n;
  if (once >= 0 && once < n) return once;
  const index all = turns ? 2 * n : n; // a reach beyond the extent
  i %= all;
  if (i < 0) i += all;
  return i < n ? i : all - 1 - i;
}

// An index that does not leave the buffer, with 31 bits on a GPU: there the
// compiler would compute i - 1 of an int i with 64.
#ifdef CELER_CUDA
template <class I> static __device__ __forceinline__ int short_index(I i) {
  int low = int(i);
  asm("" : "+r"(low));
  return low;
}
#else
static CELER_FN index short_index(index i) {
  return i;
}
#endif

// What is read where an index may leave the buffer. On a GPU a call: few items
// come here, and all would have fewer registers. Not so where they hold what is
// read.
#if defined(CELER_CUDA) && !defined(CELER_STREAM)
#define CELER_FEW static __device__ __noinline__
#else
#define CELER_FEW static CELER_FN
#endif
template <class T, int D>
CELER_FEW T read_beyond(const accessor<const T, D> &a, const edge<T> &e,
                        index i, index j, index k) {
  index at[3] = {i, j, k};
  bool beyond = false;
  for (int d = 0; d < D; ++d) {
    if (at[d] >= 0 && at[d] < e.size[d]) continue;
    beyond = true;
    if (e.kind != constant_edge) at[d] = come_back(e.kind, at[d], e.size[d]);
  }
  if (beyond && e.kind == constant_edge) {
    T value;
#ifdef CELER_CUDA
    unsigned char *to = (unsigned char *)&value;
#pragma unroll
    for (size_t n = 0; n < sizeof value; ++n) to[n] = e.outside[n];
#else
    memcpy((void *)&value, e.outside, sizeof value);
#endif
    return value;
  }
  if constexpr (D == 1) return a(at[0]);
  if constexpr (D == 2) return a(at[0], at[1]);
  if constexpr (D == 3) return a(at[0], at[1], at[2]);
}

template <class T, int D> struct near : accessor<const T, D> {
  static_assert(D >= 1 && D <= 3, "near<T, D> has 1 to 3 dimensions");
#ifdef CELER_CUDA
  const edge<T> *edges; // among the arguments
  int here[D];          // the item
#else
  edge<T> edges[1];
#endif
  int known;

  template <class... I> CELER_FN T operator()(I... i) const {
    static_assert(sizeof...(I) == D,
                  "an accessor takes as many coordinates as it has dimensions");
    if (known == inside) return inside_at(i...);
    return anywhere_at(index(i)...);
  }
  CELER_FN T operator[](index i) const {
    static_assert(D == 1, "only a one-dimensional accessor is also an array");
    return (*this)(i);
  }

private:
  template <class... I>
  CELER_FN typename accessed<const T>::type element(I... i) const {
    return accessor<const T, D>::operator()(i...);
  }

  // On a GPU as far from the item as it is: the item's place is found once, and
  // distances are constants mostly, of which nothing is computed.
  template <class... I>
  CELER_FN typename accessed<const T>::type inside_at(I... i) const {
#if defined(CELER_CUDA) && !defined(CELER_FOLD) && !defined(CELER_CHECK)
    const int at[] = {int(i)...};
    const T *p = this->origin + here[D - 1];
    if constexpr (D > 1) p += index(here[0]) * this->stride0;
    if constexpr (D > 2) p += index(here[1]) * this->stride1;
    if constexpr (D > 1) p += index(at[0] - here[0]) * this->stride0;
    if constexpr (D > 2) p += index(at[1] - here[1]) * this->stride1;
    return p[at[D - 1] - here[D - 1]];
#else
    return element(short_index(i)...);
#endif
  }

  template <class... I> CELER_FN T anywhere_at(I... i) const {
    const index at[3] = {i...};
#ifdef CELER_CHECK
    if (is_too_far(at)) return element(i...);
#endif
#if defined(CELER_CUDA) && !defined(CELER_STREAM)
    bool stays = true; // most do, of an item beside an edge
#pragma unroll
    for (int d = 0; d < D; ++d)
      stays = stays && at[d] >= 0 && at[d] < edges->size[d];
    if (stays) return element(i...);
#endif
    return read_beyond<T, D>(*this, *edges, at[0], at[1], at[2]);
  }

#ifdef CELER_CHECK
  // Whether an index leaves the buffer by more than its item's reach: no
  // mapper promises it, and it is reported as what it is.
  CELER_FN bool is_too_far(const index *at) const {
    if (known != held_to_reach) return false;
    bool far = false;
    for (int d = 0; d < D; ++d) {
      const index from = at[d] - this->check.item[d], r = edges->reach[d];
      far = far ||
            ((at[d] < 0 || at[d] >= edges->size[d]) && (from > r || from < -r));
    }
    return far;
  }
#endif
};

template <class T, int D>
struct traits<near<T, D>> : accessor_traits<T, D, an_in> {
  static constexpr index size = 24 + sizeof(edge<T>);
};

template <class T, int D> struct edge_of<near<T, D>> {
  static constexpr index size = sizeof(edge<T>);
  static constexpr bool is_near = true;
  static constexpr param describe() {
    return {a_value, D, 's', int(size), 8, "edge", {}};
  }
};

template <int Known, class T, int D>
static CELER_FN near<T, D> knowing(near<T, D> p) {
  p.known = Known;
  return p;
}

#ifdef CELER_CUDA

template <class T, int D>
static __device__ __forceinline__ bool stays(const near<T, D> &p) {
  return p.known == inside;
}

template <class T, int D>
static __device__ __forceinline__ void narrow(index *low, index *high,
                                              const near<T, D> &p) {
  for (int d = 0; d < D; ++d) {
    const index reach = p.edges->reach[d], end = p.edges->size[d] - reach;
    if (low[d] < reach) low[d] = reach;
    if (high[d] > end) high[d] = end;
  }
}

template <class T, int D, class S, int K> struct bind<near<T, D>, S, K> {
  template <class A>
  static __device__ __forceinline__ near<T, D>
  from(const A &a, const index *item, int item_dims) {
    near<T, D> p;
    static_cast<accessor<const T, D> &>(p) =
        bind<in<T, D>, S, K>::from(a, item, item_dims);
    p.edges = (const edge<T> *)(a.bytes + S::argument_at(K) + 24);
    p.known = anywhere;
    if constexpr (S::first::kind == an_item) {
      static_assert(S::dims == D, "near<T, D> is for items of D dimensions");
      for (int d = 0; d < D; ++d) p.here[d] = int(item[d]);
#ifdef CELER_CHECK
      p.known = held_to_reach;
#else
      bool within = true;
#pragma unroll
      for (int d = 0; d < D; ++d)
        within = within && item[d] >= p.edges->reach[d] &&
                 item[d] < p.edges->size[d] - p.edges->reach[d] &&
                 p.edges->size[d] <= 0x7fffffff;
      if (within) p.known = inside;
#endif
    }
    return p;
  }
};

#else

template <class T, int D, int V, index At> struct bind<near<T, D>, V, At> {
  static CELER_FN near<T, D> from(const call *c) {
    near<T, D> p;
    static_cast<accessor<const T, D> &>(p) = bind<in<T, D>, V, At>::from(c);
    memcpy((void *)p.edges, c->values + At, sizeof p.edges);
    p.known = anywhere;
    return p;
  }
};

// Items from which no index leaves a buffer.
template <int D> struct inner {
  index begin[D], end[D];

  template <class P> CELER_FN void keep(const P &) {
  }
  template <class T, int E> CELER_FN void keep(const near<T, E> &p) {
    static_assert(E == D, "near<T, D> is for items of D dimensions");
    for (int d = 0; d < D; ++d) {
      const index least = p.edges->reach[d], most = p.edges->size[d] - least;
      if (least > begin[d]) begin[d] = least;
      if (most < end[d]) end[d] = most;
    }
  }
  CELER_FN bool holds(int d, index i) const {
    return i >= begin[d] && i < end[d];
  }
};

template <auto F, int D, class X> struct near_loop {
  static constexpr bool in_order = signature<decltype(F)>::reduces;

  template <int Known, class... A>
  static CELER_FN void one(const call *c, index i, index j, X k, A &...a) {
    const index *n = c->range.max;
    if constexpr (D == 1)
      compute<F>(item<1>{{k}, {n[0]}}, knowing<Known>(copied(a))...);
    else if constexpr (D == 2)
      compute<F>(item<2>{{i, k}, {n[0], n[1]}}, knowing<Known>(copied(a))...);
    else
      compute<F>(item<3>{{i, j, k}, {n[0], n[1], n[2]}},
                 knowing<Known>(copied(a))...);
  }

  // Items [begin, end) of a row.
  template <int Known, class... A>
  static CELER_FN void span(const call *c, index i, index j, X begin, X end,
                            A &...a) {
    if constexpr (in_order || Known != inside) {
      for (X k = begin; k < end; ++k) one<Known>(c, i, j, k, a...);
    } else {
      CELER_INDEPENDENT
      for (X k = begin; k < end; ++k) one<Known>(c, i, j, k, a...);
    }
  }

  template <class... A>
  static CELER_FN void row(const call *c, const inner<D> &all, index i, index j,
                           X begin, X end, A &...a) {
#ifdef CELER_CHECK
    span<held_to_reach>(c, i, j, begin, end, a...);
#else
    const bool stays = (D < 2 || all.holds(0, i)) && (D < 3 || all.holds(1, j));
    const X from =
        stays ? clamp(all.begin[D - 1], index(begin), index(end)) : end;
    const X to = clamp(all.end[D - 1], index(from), index(end));
#pragma GCC unroll 1
    for (int part = 0; part < 2; ++part) {
      span<anywhere>(c, i, j, part == 0 ? begin : to, part == 0 ? from : end,
                     a...);
      if (part == 0) span<inside>(c, i, j, from, to, a...);
    }
#endif
  }

  template <class... A> static CELER_FN void run(const call *c, A &...a) {
    const box &b = c->chunk;
    inner<D> all;
    for (int d = 0; d < D; ++d) {
      all.begin[d] = 0;
      all.end[d] = c->range.max[d];
    }
    (all.keep(a), ...);
    strips<X>(c, D - 1, [&](X begin, X end) CELER_ALWAYS {
      for (index i = D > 1 ? b.min[0] : 0; i < (D > 1 ? b.max[0] : 1); ++i)
        for (index j = D > 2 ? b.min[1] : 0; j < (D > 2 ? b.max[1] : 1); ++j)
          row(c, all, i, j, begin, end, a...);
    });
  }
};

#endif

} // namespace celer

using celer::near;

#endif
