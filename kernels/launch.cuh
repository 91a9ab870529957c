// launch.cuh -- CUDA: an entry is launched with one thread per item, or per few
// of them along dimension 0, in blocks of up to 256. A part of celer.cuh.
namespace celer {

// Where a launch computes; at most 2^31 - 1 items in each dimension. Where a
// kernel reduces, flags are for reduce_launch.cuh; else a thread has so many
// items and one more, along dimension 0. There are fewer threads to start then,
// and what several items of one read is read once. They follow one another; but
// of one dimension, and of two where rows are shorter than a warp, they are a
// block apart, so that neighbours touch what lies side by side. (Of three a
// step that is not known beforehand costs a tenth.) Grids have at most 65535
// blocks in y and z: of three dimensions the middle one strides.
struct launch {
  index min[3], range[3];
  unsigned extent[3], flags;
};

// A launch's one parameter: every parameter but the item, in order, each at
// its alignment; an accessor is {origin, stride0, stride1}, 8 bytes each.
template <index N> struct alignas(16) arguments {
  launch where;
  unsigned char bytes[N > 0 ? N : 1];
};
static_assert(sizeof(launch) == 64, "the CUDA backend says the same");
#if !defined(CELER_CHECK) && !defined(CELER_FOLD)
static_assert(sizeof(accessor<int, 3>) == 24, "the CUDA backend says the same");
#endif

#ifndef CELER_WIDE
// Has each item take the strides anew: else the compiler extends them to 64
// bits once for all, and multiplies by these, in four instructions in place of
// one.
template <class T, int D>
static __device__ __forceinline__ void renew(accessor<T, D> &a) {
  if constexpr (D > 1) asm volatile("" : "+r"(a.stride0));
  if constexpr (D > 2) asm volatile("" : "+r"(a.stride1));
}
#endif

// Parameter K of a signature, for an item at `item`.
template <class P, class S, int K> struct bind {
  template <class A>
  static __device__ __forceinline__ P from(const A &a, const index *item,
                                           int item_dims) {
    const unsigned char *from = a.bytes + S::argument_at(K);
#if defined(CELER_CHECK) || defined(CELER_FOLD)
    if constexpr (traits<P>::views == 1) {
      P p;
      p.origin = *(decltype(p.origin) *)from;
      p.stride0 = *(const stride *)(from + 8);
      p.stride1 = *(const stride *)(from + 16);
#ifdef CELER_FOLD
      p.own = nullptr;
      return p;
#else
      p.check.look(a.bytes + S::boxes_at(), S::view_of(K), item, item_dims);
      return marked(p, item, item_dims);
#endif
    }
#elif !defined(CELER_WIDE)
    if constexpr (traits<P>::views == 1) {
      P p = *(const P *)from;
      renew(p);
      return p;
    }
#endif
    return *(const P *)from;
  }
};

// Whether items are computed in several ways, by how near to edges they are.
template <auto F, class S = signature<decltype(F)>>
#ifdef CELER_CHECK
constexpr bool by_edges = false;
#else
constexpr bool by_edges = S::has_near &&S::first::kind == an_item;
#endif

// F for an item in one of these ways: `least` is what the items of a warp know
// of all dimensions but 0, and `within` says it of that.
template <auto F, class Item, class... Q>
static __device__ __forceinline__ void
compute_by(bool within, int least, const Item &at, const Q &...q) {
  if (within && least == inside)
    F(at, knowing<inside>(q)...);
  else if (within && least == at_ends)
    F(at, knowing<at_ends>(q)...);
  else if (least != far_out)
    F(at, knowing<at_edge>(q)...);
  else
    F(at, knowing<far_out>(q)...);
}

// F for an item.
template <auto F, class Item, class... Q>
static __device__ __forceinline__ void compute(const Item &at, const Q &...q) {
  if constexpr (by_edges<F>) {
    constexpr int D = signature<decltype(F)>::dims;
    inner<D> all;
    (all.keep(q), ...);
#ifdef CELER_WIDE
    for (int d = 0; d < D; ++d) all.far = all.far || at.range(d) > all.size[d];
#endif
    bool within = true;
    for (int d = 0; d < D; ++d) within = within && all.holds(d, at.at[d]);
    compute_by<F>(within, all.far ? far_out : inside, at, q...);
  } else {
    F(at, q...);
  }
}

// Whether items loop: kernels made of Lua say so.
template <auto F, class S = signature<decltype(F)>>
constexpr bool has_loops = false;

// Blocks that a multiprocessor is to have room for; 0: as it comes. Of several
// ways the rare ones take most registers, if elements are short. What reduces
// keeps its sums in registers, which loops of items leave to others.
template <auto F, class S = signature<decltype(F)>>
constexpr int resident = S::has_near &&S::element_bytes <= 16
                             ? (S::dims == 3 && S::element_bytes <= 8 ? 8 : 6)
                             : (S::reduces &&has_loops<F> ? 4 : 0);

// Calls run(first, end, step, y, x) for the items of a thread: first, first +
// step
// ... along dimension 0, from the first item of the launch on, and what they
// have in common: x along the last dimension, y along the middle one of three.
template <int D, class Run>
static __device__ __forceinline__ void each_run(const launch &w,
                                                const Run &run) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y0 = blockIdx.y * blockDim.y + threadIdx.y;
  // Along dimension 0.
  const unsigned n = D == 2 ? blockDim.y : D == 3 ? blockDim.z : blockDim.x;
  const unsigned block = D == 2 ? blockIdx.y : D == 3 ? blockIdx.z : blockIdx.x;
  const unsigned thread = D == 2   ? threadIdx.y
                          : D == 3 ? threadIdx.z
                                   : threadIdx.x;
  const bool apart = D == 1 || (D == 2 && blockDim.x < 32);
  const unsigned each = w.flags + 1, step = apart ? n : 1;
  const unsigned first = block * n * each + thread * (apart ? 1 : each);
  const unsigned behind = first + step * each;
  const unsigned end = behind < w.extent[0] ? behind : w.extent[0];
  if constexpr (D == 1) {
    run(first, end, step, 0, 0);
  } else if constexpr (D == 2) {
    if (x < w.extent[1]) run(first, end, step, 0, x);
  } else {
    const unsigned dy = gridDim.y * blockDim.y;
    if (x < w.extent[2])
#pragma unroll 1
      for (unsigned y = y0; y < w.extent[1]; y += dy) run(first, end, 1, y, x);
  }
}

// An item of a launch.
template <int D>
static __device__ __forceinline__ item<D> item_of(const launch &w, unsigned i,
                                                  unsigned y, unsigned x) {
  if constexpr (D == 1) return {{w.min[0] + i}, {w.range[0]}};
  if constexpr (D == 2)
    return {{w.min[0] + i, w.min[1] + x}, {w.range[0], w.range[1]}};
  if constexpr (D == 3)
    return {{w.min[0] + i, w.min[1] + y, w.min[2] + x},
            {w.range[0], w.range[1], w.range[2]}};
}

// Calls work(item) for the items of a thread. If `Anew`, each computes what
// depends on its y and x by itself: else the compiler keeps that for all of
// them, in so many registers that fewer threads run at once.
template <int D, bool Anew, class Work>
static __device__ __forceinline__ void each_item(const launch &w,
                                                 const Work &work) {
  if constexpr (D == 0) {
    if (blockIdx.x * blockDim.x + threadIdx.x == 0) work(item<0>{{0}, {1}});
  } else {
    each_run<D>(w, [&](unsigned first, unsigned end, unsigned step, unsigned y,
                       unsigned x) {
#pragma unroll 1
      for (unsigned i = first; i < end; i += step) {
        unsigned own_y = y, own_x = x;
        if constexpr (Anew && D == 3)
          asm volatile("" : "+r"(own_y), "+r"(own_x));
        work(item_of<D>(w, i, own_y, own_x));
      }
    });
  }
}

// With as many bits as strides have, which spares most of what a GPU does to
// find elements. The compiler is not to see it: it would go on with 64.
static __device__ __forceinline__ stride as_short(index i) {
#ifdef CELER_WIDE
  return i;
#else
  int low;
  asm("cvt.u32.u64 %0, %1;" : "=r"(low) : "l"(i));
  return low;
#endif
}

template <auto F, class S = signature<decltype(F)>> struct reducing;
template <auto F, class S = signature<decltype(F)>> struct entry;
template <auto F, class Item, class... P>
struct entry<F, signature<void (*)(Item, P...)>> {
  using sig = signature<void (*)(Item, P...)>;
  using packed = arguments<sig::packed_size()>;
  static constexpr int threads = 256; // of a block at most
  static_assert(sizeof(packed) <= 4096,
                "the parameters of a kernel take more than 4 KB");

  template <int K, class Q>
  static __device__ __forceinline__ Q give(const packed &a, const index *at) {
    return bind<Q, sig, K>::from(a, at, sig::dims);
  }

  template <int... K>
  static __device__ __forceinline__ void run_all(const packed &a,
                                                 indices<K...>) {
    each_item<sig::dims, true>(a.where, [&](const item<sig::dims> &it) {
      F(it, give<K, typename bare<P>::type>(a, it.at)...);
    });
  }

  // All of a warp go the way of the one that is nearest to an edge: to go
  // several takes longer.
  template <int... K>
  static __device__ __forceinline__ void run_by_edges(const packed &a,
                                                      indices<K...>) {
    constexpr int D = sig::dims;
    inner<D> all;
    (all.keep(give<K, typename bare<P>::type>(a, a.where.min)), ...);
#ifdef CELER_WIDE
    all.range_over(a.where.range);
#endif
    each_run<D>(a.where, [&](unsigned first, unsigned end, unsigned step,
                             unsigned y, unsigned x) {
      item<D> it = item_of<D>(a.where, 0, y, x);
      int least = inside;
      const unsigned warp = __activemask();
#pragma unroll
      for (int d = D - 1; d > 0; --d) {
        it.at[d] = as_short(it.at[d]);
        if (__any_sync(warp, !all.holds(d, it.at[d])))
          least = d == D - 1 ? at_ends : at_edge;
      }
      if (all.far) least = far_out;
      asm volatile("" : "+r"(end)); // else it is found anew for each item
#pragma unroll 1
      for (unsigned i = first; i < end; i += step) {
        it.at[0] = as_short(a.where.min[0] + i);
        compute_by<F>(all.holds(0, it.at[0]), least, it,
                      give<K, typename bare<P>::type>(a, it.at)...);
      }
    });
  }

  static __device__ __forceinline__ void run(const packed &a) {
    if constexpr (sig::reduces)
      reducing<F>::run(a);
    else if constexpr (by_edges<F>)
      run_by_edges(a, typename sig::all());
    else
      run_all(a, typename sig::all());
  }
};

#define CELER_ENTRY(name)                                                      \
  extern "C" {                                                                 \
  extern __device__ const celer::described<CELER_KERNEL(name)>                 \
      celer_params_##name;                                                     \
  __device__ const celer::described<CELER_KERNEL(name)> celer_params_##name =  \
      celer::signature<decltype(CELER_KERNEL(name))>::describe();              \
  __global__ void                                                              \
  __launch_bounds__(celer::entry<CELER_KERNEL(name)>::threads,                 \
                    celer::resident<CELER_KERNEL(name)>) celer_run_            \
      ##name(const __grid_constant__ celer::entry<CELER_KERNEL(name)>::packed  \
                 celer_given) {                                                \
    celer::entry<CELER_KERNEL(name)>::run(celer_given);                        \
  }                                                                            \
  CELER_REDUCES(name)                                                          \
  }

} // namespace celer
