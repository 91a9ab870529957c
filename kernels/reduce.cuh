// reduce.cuh -- reducers: what all items of a task come to. Comes after
// celer.cuh and group.cuh, before the user's text.
//
// A launch or call leaves what its items come to in one row of memory, dense
// and of the shape of the buffer; the engine combines rows. Which operator a
// reducer has cg:reduce says: CELER_OPS lists them by the numbers of the views,
// and the constant meets the switch below once all is inlined.
//
// On the processor an item combines onto a variable, of an array onto the row.
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

// ---- operators; lua/celer/reduce.lua says the same

enum op : int { op_sum, op_prod, op_min, op_max, op_and, op_or, op_custom };

constexpr int op_of(int view) {
  const int all[] = {CELER_OPS};
  return view < int(sizeof all / sizeof *all) ? all[view] : int(op_sum);
}

// The user's own, as text; specialised after this.
template <class T> CELER_FN T customs(int, T a, T) {
  return a;
}

template <class T> CELER_FN T apply(int op, T a, T b) {
  constexpr int c = __is_enum(T) ? 's' : describe<T>::class_;
  if constexpr (c != 's') {
    if (op == op_sum) return T(a + b);
    if (op == op_prod) return T(a * b);
    if (op == op_min) return b < a ? b : a;
    if (op == op_max) return a < b ? b : a;
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
  T *at;
  int op;

  // Hands a value over; the operator is what cg:reduce says.
  CELER_FN void combine(const T &x) const {
    *at = apply<T>(op, *at, x);
  }
  CELER_FN const reducer &operator+=(const T &x) const {
    combine(x);
    return *this;
  }
};

// One element of an array.
template <class T> struct reduced_element {
  T *at;
  int op;

  CELER_FN void combine(const T &x) const {
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

  template <class... I> CELER_FN reduced_element<T> operator()(I... i) const {
    return {&row(i...), op};
  }
  CELER_FN reduced_element<T> operator[](index i) const {
    return {&row[i], op};
  }
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

// What a launch is given of it; engine/device/cuda_job.c writes it.
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

// ---- combining rows: [first, end) of them, element i

template <class T>
CELER_FN void combine_rows(int op, bool onto, const T *rows, index first,
                           index end, index pitch, T *into, index i) {
  T value = onto ? into[i] : rows[first * pitch + i];
  for (index r = onto ? first : first + 1; r < end; ++r)
    value = apply<T>(op, value, rows[r * pitch + i]);
  into[i] = value;
}

template <class S> struct combiner;
template <class Item, class... P>
struct combiner<signature<void (*)(Item, P...)>> {
  using sig = signature<void (*)(Item, P...)>;

  template <int K, class Q> struct one {
    static CELER_FN void run(int, bool, const void *, index, index, index,
                             void *, index) {
    }
  };
  template <int K, class T, int D> struct one<K, reducer<T, D>> {
    static CELER_FN void run(int view, bool onto, const void *rows, index first,
                             index end, index pitch, void *into, index i) {
      if (view == sig::view_of(K))
        combine_rows<T>(op_of(sig::view_of(K)), onto, (const T *)rows, first,
                        end, pitch, (T *)into, i);
    }
  };

  template <int... K>
  static CELER_FN void run(int view, bool onto, const void *rows, index first,
                           index end, index pitch, void *into, index i,
                           indices<K...>) {
    (one<K, typename bare<P>::type>::run(view, onto, rows, first, end, pitch,
                                         into, i),
     ...);
  }
};

#ifndef CELER_CUDA

// ---- the processor

// One element, while a call computes it.
template <class T> struct held {
  T *row;
  T value;
  int op;

  CELER_FN ~held() {
    *row = value;
  }
};

template <class T> static CELER_FN reducer<T, 0> copied(held<T> &h) {
  return {&h.value, h.op};
}

template <class T, int V, index At> struct bind<reducer<T, 0>, V, At> {
  static CELER_FN held<T> from(const call *c) {
    T *row = (T *)c->view_at[V].base;
    return {row, *row, op_of(V)};
  }
};

template <class T, int D, int V, index At> struct bind<reducer<T, D>, V, At> {
  static CELER_FN reducer<T, D> from(const call *c) {
    reducer<T, D> r;
    const inout<T, D> row = bind<inout<T, D>, V, At>::from(c);
    r.row = row;
    r.op = op_of(V);
    return r;
  }
};

template <class S>
static inline void combine_chunk(const call *c, int number, bool onto) {
  const view &rows = c->view_at[0], &into = c->view_at[1];
  for (index i = c->chunk.min[0]; i < c->chunk.max[0]; ++i)
    combiner<S>::run(number, onto, rows.base, rows.promised.min[0],
                     rows.promised.max[0], rows.layout.max[1], into.base, i,
                     typename S::all());
}

#undef CELER_REDUCES
#define CELER_REDUCES(name)                                                    \
  CELER_EXPORT void celer_combine_##name(const celer::call *c, int view,       \
                                         int onto) {                           \
    celer::combine_chunk<celer::signature<decltype(&name)>>(c, view,           \
                                                            onto != 0);        \
  }

#else

// ---- a GPU

// celer::launch::flags: the lane, and these.
enum flag : unsigned {
  flag_lane = 0xff,
  flag_shared = 0x100,
  flag_onto = 0x200
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
// lanes that there are call it.
template <class T>
__device__ __forceinline__ T across_warp(int op, T x, unsigned mask,
                                         unsigned count) {
  const unsigned lane = thread_number() % 32;
#pragma unroll
  for (unsigned delta = 16; delta > 0; delta /= 2) {
    const T y = from_below(mask, x, delta);
    if (lane + delta < count) x = apply<T>(op, x, y);
  }
  return x;
}

// What all threads of a block come to, in its first one.
template <class T> __device__ __forceinline__ T across_block(int op, T x) {
  __shared__ words<T> each[32];
  const unsigned threads = thread_count(), thread = thread_number();
  const unsigned warp = thread / 32, warps = (threads + 31) / 32;
  const unsigned here = warp + 1 < warps ? 32 : threads - warp * 32;
  const unsigned mask = here == 32 ? ~0u : (1u << here) - 1;
  x = across_warp(op, x, mask, here);
  if (warps == 1) return x;
  __syncthreads(); // the one before has read
  if (thread % 32 == 0) memcpy(each[warp].at, &x, sizeof x);
  __syncthreads();
  if (warp > 0) return x;
  if (thread < warps) memcpy(&x, each[thread].at, sizeof x);
  return across_warp(op, x, mask, warps);
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

// What parameter K is while a thread computes.
template <int K, class P> struct part {};
template <int K, class T> struct part<K, reducer<T, 0>> { T value; };
template <int K, class T, int D> struct part<K, reducer<T, D>> { T *bins; };
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
  using all = parts<typename sig::all, typename bare<P>::type...>;
  static constexpr int D = sig::dims;
  // As cuda_job.c has it.
  static constexpr int blocks = traits<first>::kind == a_group ? 16384 : 4096;

  // ---- parameter K, of type Q

  template <int K, class Q> struct one {
    static constexpr index bytes = 0;
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

    static __device__ __forceinline__ const reduced<T> &mine(const packed &a) {
      return of<T>(a, sig::argument_at(K));
    }
    static __device__ __forceinline__ T &value(all &p) {
      return static_cast<part<K, reducer<T, 0>> &>(p).value;
    }
    static __device__ __forceinline__ words<T> *slots(const packed &a) {
      return (words<T> *)(room(a).at + room_at(K));
    }

    static __device__ __forceinline__ void begin(const packed &a, all &p,
                                                 unsigned &) {
      value(p) = mine(a).identity;
    }
    static __device__ __forceinline__ reducer<T, 0> give(const packed &, all &p,
                                                         const first &) {
      return {&value(p), op};
    }
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

  template <int K, class T, int E> struct one<K, reducer<T, E>> {
    static constexpr int op = op_of(sig::view_of(K));
    static constexpr index bytes = 0;

    static __device__ __forceinline__ const reduced<T> &mine(const packed &a) {
      return of<T>(a, sig::argument_at(K));
    }
    static __device__ __forceinline__ T *&bins(all &p) {
      return static_cast<part<K, reducer<T, E>> &>(p).bins;
    }

    static __device__ __forceinline__ void begin(const packed &a, all &p,
                                                 unsigned &at) {
      bins(p) = mine(a).row;
      if (!(a.where.flags & flag_shared)) return;
      bins(p) = (T *)(celer_shared + at);
      at += unsigned((mine(a).count * sizeof(T) + 15) / 16);
      for (index i = thread_number(); i < mine(a).count; i += thread_count())
        bins(p)[i] = mine(a).identity;
    }

    static __device__ __forceinline__ reducer<T, E>
    give(const packed &a, all &p, const first &item) {
      reducer<T, E> r;
      r.row.origin = bins(p);
      r.row.stride0 = stride(mine(a).stride0);
      r.row.stride1 = stride(mine(a).stride1);
      r.op = op;
#ifdef CELER_CHECK
      r.row.check.promised =
          ((const box *)(a.bytes + sig::boxes_at()))[sig::view_of(K)];
      r.row.check.view = sig::view_of(K);
      r.row.check.item = item.at;
      r.row.check.item_dims = D;
#endif
      return r;
    }

    static __device__ __forceinline__ void merge(const packed &a, all &p) {
      if (!(a.where.flags & flag_shared)) return;
      const T identity = mine(a).identity;
      typename word_of<sizeof(T)>::type none, some;
      copy_bits(&none, &identity);
      for (index i = thread_number(); i < mine(a).count; i += thread_count()) {
        const T x = bins(p)[i];
        copy_bits(&some, &x);
        if (some != none) apply_atomic<T>(op, mine(a).row + i, x);
      }
    }

    static __device__ __forceinline__ void leave(const packed &, all &) {
    }
    static __device__ __forceinline__ void end(const packed &) {
    }

    static __device__ __forceinline__ void fill(const packed &a) {
      const index step = index(gridDim.x) * blockDim.x;
      for (index i = index(blockIdx.x) * blockDim.x + threadIdx.x;
           i < mine(a).count; i += step)
        mine(a).row[i] = mine(a).identity;
    }
  };

  // ---- all of them

  template <int... K> static constexpr index room_before(int k, indices<K...>) {
    return ((K < k ? one<K, typename bare<P>::type>::bytes : 0) + ... + 0);
  }
  static constexpr index room_at(int k) {
    return room_before(k, typename sig::all());
  }
  static __device__ __forceinline__ auto &room(const packed &a) {
    return rooms<F, int(room_at(sig::count))>[a.where.flags & flag_lane];
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
      work(entry<F, sig>::here(a));
    } else if constexpr (D == 0) {
      if (x0 == 0) work(item<0>{{0}, {1}});
    } else if constexpr (D == 1) {
#pragma unroll 4
      for (unsigned x = x0; x < w.extent[0]; x += dx)
        work(item<1>{{w.min[0] + x}, {w.range[0]}});
    } else if constexpr (D == 2) {
#pragma unroll 1
      for (unsigned y = y0; y < w.extent[0]; y += dy)
#pragma unroll 4
        for (unsigned x = x0; x < w.extent[1]; x += dx)
          work(item<2>{{w.min[0] + y, w.min[1] + x}, {w.range[0], w.range[1]}});
    } else {
#pragma unroll 1
      for (unsigned z = z0; z < w.extent[0]; z += dz)
#pragma unroll 1
        for (unsigned y = y0; y < w.extent[1]; y += dy)
#pragma unroll 4
          for (unsigned x = x0; x < w.extent[2]; x += dx)
            work(item<3>{{w.min[0] + z, w.min[1] + y, w.min[2] + x},
                         {w.range[0], w.range[1], w.range[2]}});
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

  template <int... K>
  static __device__ __forceinline__ void run_all(const packed &a,
                                                 indices<K...>) {
    all p;
    unsigned at = 0;
    (one<K, typename bare<P>::type>::begin(a, p, at), ...);
    if (a.where.flags & flag_shared) __syncthreads();
    each_item(a, [&](const first &item) {
      F(item, one<K, typename bare<P>::type>::give(a, p, item)...);
    });
    // Who has returned comes to the barriers of the others until all have.
    if constexpr (traits<first>::kind == a_group)
      while (!__syncthreads_and(1)) {
      }
    else if (a.where.flags & flag_shared)
      __syncthreads();
    (one<K, typename bare<P>::type>::merge(a, p), ...);
    (one<K, typename bare<P>::type>::leave(a, p), ...);
    if constexpr (room_at(sig::count) > 0) {
      if (block_count() == 1 || !is_last(a)) return;
      (one<K, typename bare<P>::type>::end(a), ...);
    }
  }

  static __device__ __forceinline__ void run(const packed &a) {
    run_all(a, typename sig::all());
  }

  template <int... K>
  static __device__ __forceinline__ void fill_all(const packed &a,
                                                  indices<K...>) {
    (one<K, typename bare<P>::type>::fill(a), ...);
  }
};

// What combines rows is given; engine/device/cuda_job.c writes it.
struct combining {
  const void *rows;
  void *into;
  index first, end, pitch, elements;
  int view, onto;
};

template <class S>
__device__ __forceinline__ void combine_all(const combining &c) {
  const index step = index(gridDim.x) * blockDim.x;
  for (index i = index(blockIdx.x) * blockDim.x + threadIdx.x; i < c.elements;
       i += step)
    combiner<S>::run(c.view, c.onto != 0, c.rows, c.first, c.end, c.pitch,
                     c.into, i, typename S::all());
}

// Begins the rows of arrays; combines rows.
#undef CELER_REDUCES
#define CELER_REDUCES(name)                                                    \
  __global__ void celer_begin_##name(                                          \
      const __grid_constant__ celer::entry<&name>::packed a) {                 \
    using sig = celer::signature<decltype(&name)>;                             \
    if constexpr (sig::reduces)                                                \
      celer::reducing<&name>::fill_all(a, typename sig::all());                \
  }                                                                            \
  __global__ void celer_combine_##name(                                        \
      const __grid_constant__ celer::combining c) {                            \
    celer::combine_all<celer::signature<decltype(&name)>>(c);                  \
  }

#endif

} // namespace celer

using celer::reducer;

#endif
