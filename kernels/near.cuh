// near.cuh -- near<T, D>: what lies around an item, also where that leaves the
// buffer. It stands after celer.cuh where a source mentions it.
//
// An item is computed in one of several ways (celer.cuh: known), by what is
// known of its distance to edges: from most no index leaves the buffer, and
// they read as in<T, D> does. On the processor a row has three parts; on a GPU
// all items of a warp go one way.
#ifndef CELER_NEAR_CUH
#define CELER_NEAR_CUH

namespace celer {

// What the mapper says of an index that leaves the buffer: i stands for
// low + turn * i, or high + turn * i. Mirrored in lua/celer/kernel/near.lua.
template <class T> struct edge {
  index size[3], reach[3]; // of the buffer; of indices, from their item
  index low[3], high[3];
  int turn;
  int constant; // all bits: what is beyond is `outside`
  int is_far;   // a reach exceeds its size: once is not enough
  alignas(8) unsigned char outside[sizeof(T)];

  CELER_FN T beyond() const {
#ifdef CELER_CUDA
    if constexpr (alignof(T) <= 8) return *(const T *)outside;
#endif
    T value;
#ifdef CELER_CUDA
    unsigned char *to = (unsigned char *)&value;
#pragma unroll
    for (size_t n = 0; n < sizeof value; ++n) to[n] = outside[n];
#else
    memcpy((void *)&value, outside, sizeof value);
#endif
    return value;
  }
};

// The index within [0, n) that one outside stands for. On the processor a call:
// few items come here.
#ifdef CELER_CUDA
#define CELER_BACK CELER_FN
#else
#define CELER_BACK static __attribute__((noinline, unused))
#endif
template <class I> CELER_BACK I come_back(I i, I n, I low, I high, I turn) {
  do i = (i < 0 ? low : high) + turn * i;
  while (i < 0 || i >= n);
  return i;
}

using span = stride; // of coordinates: they have as many bits as strides

// An index that does not leave the buffer, with 31 bits on a GPU: there the
// compiler would compute i - 1 of an int i with 64.
#ifdef CELER_CUDA
template <class I> static __device__ __forceinline__ int short_index(I i) {
  int low = int(i);
#ifndef CELER_STREAM // where it has to be seen how far from the item it is
  asm("" : "+r"(low));
#endif
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
    at[d] = come_back(at[d], e.size[d], e.low[d], e.high[d], index(e.turn));
  }
  if (beyond && e.constant) return e.beyond();
  if constexpr (D == 1) return a(at[0]);
  if constexpr (D == 2) return a(at[0], at[1]);
  if constexpr (D == 3) return a(at[0], at[1], at[2]);
}

// All bits, or none.
static CELER_FN span all_if_negative(span x) {
  return x >> (8 * sizeof x - 1);
}
#ifndef CELER_CUDA
template <class T> constexpr auto bits_of() {
  if constexpr (sizeof(T) == 4) return uint32_t();
  if constexpr (sizeof(T) == 8) return uint64_t();
}
// Without a branch, so that the compiler makes vectors of it.
template <class T> static CELER_FN T blended(T value, T other, span all) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    decltype(bits_of<T>()) a, b;
    memcpy(&a, &value, sizeof a);
    memcpy(&b, &other, sizeof b);
    a = (a & ~decltype(a)(all)) | (b & decltype(a)(all));
    memcpy((void *)&value, &a, sizeof a);
    return value;
  }
  return all ? other : value;
}
#endif

template <class T, int D> struct near : accessor<const T, D> {
  static_assert(D >= 1 && D <= 3, "near<T, D> has 1 to 3 dimensions");
#ifdef CELER_CUDA
  const edge<T> *edges; // among the arguments
  span here[D];         // the item
#else
  edge<T> edges[1];
#endif
  int known;

  template <class... I> CELER_FN T operator()(I... i) const {
    static_assert(sizeof...(I) == D,
                  "an accessor takes as many coordinates as it has dimensions");
    if (known == inside) return inside_at(i...);
#if !defined(CELER_FOLD) && !defined(CELER_CHECK)
    if (known >= at_ends) return led_back(i...);
#endif
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

  template <class... I>
  CELER_FN typename accessed<const T>::type inside_at(I... i) const {
#if defined(CELER_CUDA) && !defined(CELER_FOLD) && !defined(CELER_CHECK)
    const span at[] = {span(i)...};
    return by_distance(at, *this);
#else
    return element(short_index(i)...);
#endif
  }

#ifdef CELER_CUDA
  // As far from the item as it is: the item's place is found once, and
  // distances are constants mostly, of which nothing is computed. They are in
  // strides of `own`.
  template <class A>
  __device__ __forceinline__ const T &by_distance(const span *at,
                                                  const A &own) const {
    const T *p = this->origin + here[D - 1];
    if constexpr (D > 1) p += index(here[0]) * this->stride0;
    if constexpr (D > 2) p += index(here[1]) * this->stride1;
    if constexpr (D > 1) p += index(at[0] - here[0]) * own.stride0;
    if constexpr (D > 2) p += index(at[1] - here[1]) * own.stride1;
    return p[at[D - 1] - here[D - 1]];
  }
  CELER_FN T found(const span *at) const {
    accessor<const T, D> own = *this;
#ifndef CELER_WIDE
    renew(own);
#endif
    return by_distance(at, own);
  }
#else
  CELER_FN T found(const span *at) const {
    if constexpr (D == 1) return element(at[0]);
    if constexpr (D == 2) return element(at[0], at[1]);
    if constexpr (D == 3) return element(at[0], at[1], at[2]);
  }
#endif

  // Where an index may leave the buffer, and the item does not.
  template <class... I> CELER_FN T led_back(I... i) const {
    span at[] = {span(i)...}, beyond = 0;
#ifdef CELER_CUDA
#pragma unroll
#endif
    for (int d = 0; d < D; ++d) {
      if (known == (d < D - 1 ? at_ends : inside_row)) continue;
      const span size = edges->size[d], turn = edges->turn, from = at[d];
      const span low = edges->low[d], high = edges->high[d];
      span below = all_if_negative(from);
      span above = all_if_negative(size - 1 - from);
#ifdef CELER_CUDA  // it does so on the side to which it leads from its item
#ifndef CELER_WIDE // or where items lie outside
      if (from >= here[d]) below = 0;
      if (from <= here[d]) above = 0;
#endif
#endif
      if (known != far_out)
        at[d] += (below & (low + turn * from - from)) +
                 (above & (high + turn * from - from));
      else if (below | above)
        at[d] = come_back(from, size, low, high, turn);
      beyond |= below | above;
    }
    T value = found(at);
    beyond &= edges->constant;
#ifndef CELER_CUDA
    if (known == inside_row) return blended(value, edges->beyond(), beyond);
#endif
    if (beyond) value = edges->beyond();
    return value;
  }

  template <class... I> CELER_FN T anywhere_at(I... i) const {
    const index at[3] = {i...};
#ifdef CELER_CHECK
    if (is_too_far(at)) return element(i...);
#endif
#if defined(CELER_CUDA) && !defined(CELER_STREAM)
    bool stays = true; // most do
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
#ifdef CELER_CHECK
      p.known = held_to_reach;
#else
      for (int d = 0; d < D; ++d) p.here[d] = span(item[d]);
#ifdef CELER_FOLD
      inner<D> all;
      all.keep(p);
      bool within = true;
      for (int d = 0; d < D; ++d) within = within && all.holds(d, p.here[d]);
      if (within) p.known = inside;
#endif
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
  static CELER_FN void part(const call *c, index i, index j, X begin, X end,
                            A &...a) {
    if constexpr (in_order || (Known != inside && Known != inside_row)) {
      for (X k = begin; k < end; ++k) one<Known>(c, i, j, k, a...);
    } else {
      stretches(begin, end, X(c->range.max[D - 1]),
                [&](X from, X to) CELER_ALWAYS {
                  CELER_INDEPENDENT
                  for (X k = from; k < to; ++k) one<Known>(c, i, j, k, a...);
                });
    }
  }

  template <class... A>
  static CELER_FN void row(const call *c, const inner<D> &all, index i, index j,
                           X begin, X end, A &...a) {
#ifdef CELER_CHECK
    part<held_to_reach>(c, i, j, begin, end, a...);
#else
    if (all.far) return part<far_out>(c, i, j, begin, end, a...);
    const bool stays = (D < 2 || all.holds(0, i)) && (D < 3 || all.holds(1, j));
    const X from = clamp(all.begin[D - 1], index(begin), index(end));
    const X to = clamp(all.end[D - 1], index(from), index(end));
#pragma GCC unroll 1
    for (int side = 0; side < 2; ++side) {
      const X first = side == 0 ? begin : to, last = side == 0 ? from : end;
      if (stays) {
        part<at_ends>(c, i, j, first, last, a...);
        if (side == 0) part<inside>(c, i, j, from, to, a...);
      } else {
        part<far_out>(c, i, j, first, last, a...);
        if (side == 0) part<inside_row>(c, i, j, from, to, a...);
      }
    }
#endif
  }

  template <class... A> static CELER_FN void run(const call *c, A &...a) {
    const box &b = c->chunk;
    inner<D> all;
    (all.keep(a), ...);
    all.range_over(c->range.max);
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
