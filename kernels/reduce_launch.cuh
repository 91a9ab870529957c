// reduce_launch.cuh -- reducers on a GPU. A part of reduce.cuh.
namespace celer {

// celer::launch::flags: the lane, and these.
enum flag : unsigned {
  flag_lane = 0xff,
  flag_shared = 0x100,
  flag_onto = 0x200,
  flag_alone = 0x400 // one block is all that there is
};

__device__ __forceinline__ unsigned thread_number() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __forceinline__ unsigned block_number() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
__device__ __forceinline__ unsigned thread_count() {
  return blockDim.x * blockDim.y * blockDim.z;
}
__device__ __forceinline__ unsigned block_count() {
  return gridDim.x * gridDim.y * gridDim.z;
}

// A value as whole words, which is what shuffles take.
template <class T> struct words {
  static constexpr int count = (sizeof(T) + 3) / 4;
  unsigned at[count];
};

template <class T>
__device__ __forceinline__ T from_below(unsigned mask, const T &x, int delta) {
  words<T> w = {};
  memcpy(w.at, &x, sizeof x);
#pragma unroll
  for (int i = 0; i < words<T>::count; ++i)
    w.at[i] = __shfl_down_sync(mask, w.at[i], delta);
  T y;
  memcpy(&y, w.at, sizeof y);
  return y;
}

// What the first `count` lanes of a warp come to, in its first lane. All of its
// lanes that there are call it. Two come to combined(x, y), which may leave
// some of it elsewhere: each value is in one lane alone.
template <class T, class Combined>
__device__ __forceinline__ T across_warp(const Combined &combined, T x,
                                         unsigned mask, unsigned count) {
  const unsigned lane = thread_number() % 32;
  // Large values take much code to combine, which a short launch would wait
  // for.
#pragma unroll(sizeof(T) <= 16 ? 5 : 1)
  for (unsigned delta = 16; delta > 0; delta /= 2) {
    const T y = from_below(mask, x, delta);
    if (lane < delta && lane + delta < count) x = combined(x, y);
  }
  return x;
}

// What all threads of a block come to, in its first one.
template <class T, class Combined>
__device__ __forceinline__ T across_block(const Combined &combined, T x) {
  __shared__ words<T> each[32];
  const unsigned threads = thread_count(), thread = thread_number();
  const unsigned warp = thread / 32, warps = (threads + 31) / 32;
  const unsigned here = warp + 1 < warps ? 32 : threads - warp * 32;
  const unsigned mask = here == 32 ? ~0u : (1u << here) - 1;
  x = across_warp(combined, x, mask, here);
  if (warps == 1) return x;
  __syncthreads(); // the one before has read
  if (thread % 32 == 0) memcpy(each[warp].at, &x, sizeof x);
  __syncthreads();
  if (warp > 0) return x;
  if (thread < warps) memcpy(&x, each[thread].at, sizeof x);
  return across_warp(combined, x, mask, warps);
}

template <class T> __device__ __forceinline__ T across_block(int op, T x) {
  return across_block([=](T a, T b) { return apply<T>(op, a, b); }, x);
}

// Of memory that another block has written.
template <class T> __device__ __forceinline__ T read_other(const words<T> *at) {
  words<T> w;
#pragma unroll
  for (int i = 0; i < words<T>::count; ++i)
    w.at[i] = ((const volatile unsigned *)at->at)[i];
  T x;
  memcpy(&x, w.at, sizeof x);
  return x;
}

// A parameter P, where its operator is this; a reducer of a sum in fixed point
// is another thing.
template <class T, int D> struct fixed_reducer;
template <class P, int Op> struct by { using type = P; };
template <class T, int D> struct by<reducer<T, D>, op_fixed> {
  using type = fixed_reducer<T, D>;
};

// What parameter K is while a thread computes.
template <int K, class P> struct part {};
template <int K, class T> struct part<K, reducer<T, 0>> { T value; };
template <int K, class T, int D> struct part<K, reducer<T, D>> { T *bins; };
template <int K, class T> struct part<K, fixed_reducer<T, 0>> {
  to_fixed<T> value;
};
template <int K, class T, int D> struct part<K, fixed_reducer<T, D>> {
  fixed<T> *bins;
};
template <class I, class... P> struct parts;
template <int... K, class... P>
struct parts<indices<K...>, P...> : part<K, P>... {};

// Where blocks leave what they come to: for each lane, which carries out one
// launch after the other.
constexpr int room_lanes = 8;
template <int Bytes> struct alignas(16) lane_room {
  unsigned arrived, unused[3]; // blocks; 0 between launches
  unsigned char at[Bytes > 0 ? Bytes : 16];
};
template <auto F, int Bytes> __device__ lane_room<Bytes> rooms[room_lanes];

template <auto F, class S, int K, class P> struct group_argument;

extern __shared__ uint4 celer_shared[];

template <auto F, class Item, class... P>
struct reducing<F, signature<void (*)(Item, P...)>> {
  using sig = signature<void (*)(Item, P...)>;
  using first = typename bare<Item>::type;
  using packed = arguments<sig::packed_size()>;
  template <int K, class Q>
  using operated = typename by<Q, op_of(sig::view_of(K))>::type;
  template <int... K>
  static parts<indices<K...>, operated<K, typename bare<P>::type>...>
      parts_of(indices<K...>);
  using all = decltype(parts_of(typename sig::all()));
  static constexpr int D = sig::dims;
  // As cuda_reduce.h has it.
  static constexpr int blocks = traits<first>::kind == a_group ? 16384 : 4096;

  // ---- parameter K, of type Q

  template <int K, class Q> struct one {
    static constexpr index bytes = 0;
    static constexpr bool is_array = false;
    template <bool>
    static __device__ __forceinline__ void begin(const packed &, all &,
                                                 unsigned &) {
    }
    static __device__ __forceinline__ auto give(const packed &a, all &,
                                                const first &item) {
      if constexpr (traits<first>::kind == a_group)
        return group_argument<F, sig, K, Q>::from(a, item.at);
      else
        return bind<Q, sig, K>::from(a, item.at, D);
    }
    template <bool>
    static __device__ __forceinline__ void merge(const packed &, all &) {
    }
    static __device__ __forceinline__ void leave(const packed &, all &) {
    }
    static __device__ __forceinline__ void end(const packed &) {
    }
    static __device__ __forceinline__ void fill(const packed &) {
    }
  };

  template <class T>
  static __device__ __forceinline__ const reduced<T> &of(const packed &a,
                                                         index at) {
    return *(const reduced<T> *)(a.bytes + at);
  }

  template <int K, class T> struct one<K, reducer<T, 0>> {
    static constexpr int op = op_of(sig::view_of(K));
    static constexpr index bytes = (blocks * sizeof(words<T>) + 15) / 16 * 16;
    static constexpr bool is_array = false;

    static __device__ __forceinline__ const reduced<T> &mine(const packed &a) {
      return of<T>(a, sig::argument_at(K));
    }
    static __device__ __forceinline__ T &value(all &p) {
      return static_cast<part<K, reducer<T, 0>> &>(p).value;
    }
    static __device__ __forceinline__ words<T> *slots(const packed &a) {
      return (words<T> *)(room(a).at + room_at(K));
    }

    template <bool>
    static __device__ __forceinline__ void begin(const packed &a, all &p,
                                                 unsigned &) {
      value(p) = mine(a).identity;
    }
    static __device__ __forceinline__ reducer<T, 0> give(const packed &, all &p,
                                                         const first &) {
      return {&value(p), op};
    }
    template <bool>
    static __device__ __forceinline__ void merge(const packed &, all &) {
    }

    static __device__ __forceinline__ void store(const packed &a, T x) {
      T *row = mine(a).row;
      *row = a.where.flags & flag_onto ? apply<T>(op, *row, x) : x;
    }

    // This block's, in its place or, where it is alone, in the row.
    static __device__ __forceinline__ void leave(const packed &a, all &p) {
      const T x = across_block<T>(op, value(p));
      if (thread_number() != 0) return;
      if (block_count() == 1)
        store(a, x);
      else
        memcpy(slots(a)[block_number()].at, &x, sizeof x);
    }

    // All blocks', by the last one.
    static __device__ __forceinline__ void end(const packed &a) {
      const unsigned n = block_count();
      const unsigned each = (n + thread_count() - 1) / thread_count();
      const unsigned begin = thread_number() * each;
      T x = mine(a).identity;
      for (unsigned i = begin; i < begin + each && i < n; ++i)
        x = apply<T>(op, x, read_other<T>(slots(a) + i));
      x = across_block<T>(op, x);
      if (thread_number() == 0) store(a, x);
    }

    static __device__ __forceinline__ void fill(const packed &) {
    }
  };

  // The sum of a block goes to the row as those of an array do. A block alone
  // makes the row beside, and writes it once: nothing begins it.
  template <int K, class T> struct one<K, fixed_reducer<T, 0>> {
    static constexpr index bytes = 0;
    static constexpr bool is_array = false;

    using limb = typename fixed<T>::limb;
    static constexpr unsigned words = sizeof(fixed<T>) / sizeof(limb);

    static __device__ __forceinline__ fixed<T> *row(const packed &a) {
      return (fixed<T> *)of<T>(a, sig::argument_at(K)).row;
    }
    static __device__ __forceinline__ limb *beside() {
      __shared__ limb room[words];
      return room;
    }
    static __device__ __forceinline__ bool is_alone(const packed &a) {
      return traits<first>::kind != a_group && (a.where.flags & flag_alone);
    }
    static __device__ __forceinline__ to_fixed<T> &value(all &p) {
      return static_cast<part<K, fixed_reducer<T, 0>> &>(p).value;
    }

    template <bool>
    static __device__ __forceinline__ void begin(const packed &a, all &p,
                                                 unsigned &) {
      if (!is_alone(a)) return value(p).begin(row(a));
      for (unsigned i = thread_number(); i < words; i += thread_count())
        beside()[i] = 0;
      __syncthreads();
      value(p).begin((fixed<T> *)beside());
    }
    static __device__ __forceinline__ reducer<T, 0> give(const packed &, all &p,
                                                         const first &) {
      return {(T *)&value(p), op_fixed};
    }
    template <bool>
    static __device__ __forceinline__ void merge(const packed &, all &) {
    }
    static __device__ __forceinline__ void leave(const packed &a, all &p) {
      const auto both = [](to_fixed<T> x, const to_fixed<T> &y) {
        x.add(y.a);
        x.add(y.b);
        x.add(y.c);
        return x;
      };
      to_fixed<T> x = across_block(both, value(p));
      if (thread_number() == 0) x.flush();
      if (!is_alone(a)) return;
      __syncthreads();
      for (unsigned i = thread_number(); i < words; i += thread_count())
        ((limb *)row(a))[i] = beside()[i];
    }
    static __device__ __forceinline__ void end(const packed &) {
    }
    static __device__ __forceinline__ void fill(const packed &a) {
      if (blockIdx.x == 0 && threadIdx.x == 0) *row(a) = {};
    }
  };

  // Elements of a row are of type R: T, or fixed<T>.
  template <int K, class T, int E, class R> struct array {
    static constexpr int op = op_of(sig::view_of(K));
    static constexpr bool is_fixed = op == op_fixed;
    static constexpr index bytes = 0;
    static constexpr bool is_array = true;

    static __device__ __forceinline__ const reduced<T> &mine(const packed &a) {
      return of<T>(a, sig::argument_at(K));
    }
    static __device__ __forceinline__ R *row(const packed &a) {
      return (R *)mine(a).row;
    }
    static __device__ __forceinline__ R none(const packed &a) {
      if constexpr (is_fixed)
        return {};
      else
        return mine(a).identity;
    }
    static __device__ __forceinline__ R *&bins(all &p) {
      return static_cast<part<K, operated<K, reducer<T, E>>> &>(p).bins;
    }

    template <bool Shares>
    static __device__ __forceinline__ void begin(const packed &a, all &p,
                                                 unsigned &at) {
      bins(p) = row(a);
      if (!Shares) return;
      bins(p) = (R *)(celer_shared + at);
      at += unsigned((mine(a).count * sizeof(R) + 15) / 16);
      for (index i = thread_number(); i < mine(a).count; i += thread_count())
        bins(p)[i] = none(a);
    }

    static __device__ __forceinline__ reducer<T, E>
    give(const packed &a, all &p, const first &item) {
      reducer<T, E> r;
      r.row.origin = (T *)bins(p);
      r.row.stride0 = stride(mine(a).stride0);
      r.row.stride1 = stride(mine(a).stride1);
      r.op = op;
#ifdef CELER_CHECK
      r.row.check.look(a.bytes + sig::boxes_at(), sig::view_of(K), item.at, D);
      r.row.check.item = item.at;
      r.row.check.item_dims = D;
#endif
      return r;
    }

    static __device__ __forceinline__ void merge_one(const packed &a,
                                                     const R &x, R *to) {
      if constexpr (is_fixed) {
        to->template add<true>(x);
      } else {
        typename word_of<sizeof(T)>::type none, some;
        copy_bits(&none, &mine(a).identity);
        copy_bits(&some, &x);
        if (some != none) apply_atomic<T>(op, to, x);
      }
    }
    template <bool Shares>
    static __device__ __forceinline__ void merge(const packed &a, all &p) {
      if (!Shares) return;
      for (index i = thread_number(); i < mine(a).count; i += thread_count())
        merge_one(a, bins(p)[i], row(a) + i);
    }

    static __device__ __forceinline__ void leave(const packed &, all &) {
    }
    static __device__ __forceinline__ void end(const packed &) {
    }

    static __device__ __forceinline__ void fill(const packed &a) {
      const index step = index(gridDim.x) * blockDim.x;
      for (index i = index(blockIdx.x) * blockDim.x + threadIdx.x;
           i < mine(a).count; i += step)
        row(a)[i] = none(a);
    }
  };
  template <int K, class T, int E>
  struct one<K, reducer<T, E>> : array<K, T, E, T> {};
  template <int K, class T, int E>
  struct one<K, fixed_reducer<T, E>> : array<K, T, E, fixed<T>> {};

  // ---- all of them

  template <int K, class Q> using use = one<K, operated<K, Q>>;

  template <int... K> static constexpr index room_before(int k, indices<K...>) {
    return ((K < k ? use<K, typename bare<P>::type>::bytes : 0) + ... + 0);
  }
  static constexpr index room_at(int k) {
    return room_before(k, typename sig::all());
  }
  static __device__ __forceinline__ auto &room(const packed &a) {
    return rooms<F, int(room_at(sig::count))>[a.where.flags & flag_lane];
  }

  // How many of [0, end) a thread comes to from `first` on. Loops that count
  // them are unrolled so that loads are under way for several items, unless an
  // item has loops itself.
  static __device__ __forceinline__ unsigned steps(unsigned first, unsigned by,
                                                   unsigned end) {
    return first < end ? (end - 1 - first) / by + 1 : 0;
  }

  template <class Work>
  static __device__ __forceinline__ void each_item(const packed &a,
                                                   const Work &work) {
    const launch &w = a.where;
    const unsigned x0 = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y0 = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned z0 = blockIdx.z * blockDim.z + threadIdx.z;
    const unsigned dx = gridDim.x * blockDim.x;
    const unsigned dy = gridDim.y * blockDim.y;
    const unsigned dz = gridDim.z * blockDim.z;
    if constexpr (traits<first>::kind == a_group) {
      entry<F, sig>::each_item(a, work);
    } else if constexpr (D == 0) {
      if (x0 == 0) work(item<0>{{0}, {1}});
    } else if constexpr (D == 1) {
      unsigned x = x0;
#pragma unroll(has_loops <F> ? 1 : 4)
      for (unsigned n = steps(x0, dx, w.extent[0]); n > 0; --n, x += dx)
        work(item<1>{{w.min[0] + x}, {w.range[0]}});
    } else if constexpr (D == 2) {
      const index nx = steps(x0, dx, w.extent[1]);
      unsigned x = x0, y = y0;
#pragma unroll(has_loops <F> ? 1 : 4)
      for (index n = nx * steps(y0, dy, w.extent[0]); n > 0; --n) {
        work(item<2>{{w.min[0] + y, w.min[1] + x}, {w.range[0], w.range[1]}});
        x += dx;
        if (x >= w.extent[1]) x = x0, y += dy;
      }
    } else {
      const index nx = steps(x0, dx, w.extent[2]);
      const index ny = steps(y0, dy, w.extent[1]);
      unsigned x = x0, y = y0, z = z0;
#pragma unroll(has_loops <F> ? 1 : 4)
      for (index n = nx * ny * steps(z0, dz, w.extent[0]); n > 0; --n) {
        work(item<3>{{w.min[0] + z, w.min[1] + y, w.min[2] + x},
                     {w.range[0], w.range[1], w.range[2]}});
        x += dx;
        if (x >= w.extent[2]) x = x0, y += dy;
        if (y >= w.extent[1]) y = y0, z += dz;
      }
    }
  }

  // True for all threads of the block that ends last.
  static __device__ __forceinline__ bool is_last(const packed &a) {
    int last = 0;
    if (thread_number() == 0) {
      __threadfence();
      last = atomicAdd(&room(a).arrived, 1) == block_count() - 1;
      if (last) room(a).arrived = 0;
    }
    last = __syncthreads_or(last);
    if (last) __threadfence();
    return last;
  }

  // What all items came to.
  template <int... K>
  static __device__ __forceinline__ void finish(const packed &a, all &p,
                                                indices<K...>) {
    (use<K, typename bare<P>::type>::leave(a, p), ...);
    if constexpr (room_at(sig::count) > 0) {
      if (block_count() == 1 || !is_last(a)) return;
      (use<K, typename bare<P>::type>::end(a), ...);
    }
  }

  // Shares: arrays lie in shared memory. That it is known beforehand lets loads
  // overtake atomics there.
  template <bool Shares, int... K>
  static __device__ __forceinline__ void run_all(const packed &a,
                                                 indices<K...>) {
    all p;
    unsigned at = 0;
    (use<K, typename bare<P>::type>::template begin<Shares>(a, p, at), ...);
    if (Shares) __syncthreads();
    each_item(a, [&](const first &item) {
      compute<F>(item, use<K, typename bare<P>::type>::give(a, p, item)...);
    });
    if (Shares) __syncthreads();
    (use<K, typename bare<P>::type>::template merge<Shares>(a, p), ...);
    finish(a, p, typename sig::all());
  }

  template <int... K>
  static __device__ __forceinline__ void run_either(const packed &a,
                                                    indices<K...> all_of) {
    constexpr bool arrays =
        (use<K, typename bare<P>::type>::is_array || ... || false);
    if constexpr (arrays) {
      if (a.where.flags & flag_shared) return run_all<true>(a, all_of);
    }
    run_all<false>(a, all_of);
  }

  static __device__ __forceinline__ void run(const packed &a) {
    run_either(a, typename sig::all());
  }

  template <int... K>
  static __device__ __forceinline__ void fill_all(const packed &a,
                                                  indices<K...>) {
    (use<K, typename bare<P>::type>::fill(a), ...);
  }
};

// What combines rows is given; engine/device/cuda/cuda_reduce.c writes it.
struct combining {
  const void *rows;
  void *into;
  index first, end, pitch, elements;
  int view, how;
};

template <class S>
__device__ __forceinline__ void combine_all(const combining &c) {
  const index step = index(gridDim.x) * blockDim.x;
  for (index i = index(blockIdx.x) * blockDim.x + threadIdx.x; i < c.elements;
       i += step)
    combiner<S>::run(c.view, c.how, c.rows, c.first, c.end, c.pitch, c.into, i,
                     typename S::all());
}

// Begins the rows of arrays; combines rows.
#undef CELER_REDUCES
#define CELER_REDUCES(name)                                                    \
  __global__ void celer_begin_##name(                                          \
      const __grid_constant__ celer::entry<CELER_KERNEL(name)>::packed         \
          celer_given) {                                                       \
    using celer_sig = celer::signature<decltype(CELER_KERNEL(name))>;          \
    if constexpr (celer_sig::reduces)                                          \
      celer::reducing<CELER_KERNEL(name)>::fill_all(                           \
          celer_given, typename celer_sig::all());                             \
  }                                                                            \
  __global__ void celer_combine_##name(                                        \
      const __grid_constant__ celer::combining celer_given) {                  \
    celer::combine_all<celer::signature<decltype(CELER_KERNEL(name))>>(        \
        celer_given);                                                          \
  }

} // namespace celer
