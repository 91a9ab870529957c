// sample.cuh -- sampling: some items of a kernel's first launches are computed
// by a build of it in which accessors know what the mappers give for the least
// chunk that these items may be part of. A part of celer.cuh.
//
// On the processor such an item stands in for the one of the real build, and
// its results have the same bits. A compiler for GPUs contracts multiplications
// and additions in another way in another build. There such an item is computed
// once more, before the real build computes it, and what it writes goes
// nowhere. So these are kernels that read nothing of what they write.
namespace celer {

// The head of what bounds.cuh has; mirrored in engine/device/bounds.h.
struct fault {
  int set, view, dims, item_dims;
  index at[3], item[3];
};

// Of one view: n boxes for each unit, unit by unit. Mirrored, with `units`, in
// engine/device/sample.h.
struct promise {
  const box *at;
  index n;      // less than 0: it is not looked at
  fault *noted; // on a GPU the module's
};

// Least chunks: `count` of them in each dimension, from `first` on.
struct units {
  index first[3], step[3], count[3];

  CELER_FN index of(const index *item, int dims) const {
    index unit = 0;
    for (int d = 0; d < dims; ++d)
      unit = unit * count[d] + (item[d] - first[d]) / step[d];
    return unit;
  }
};

#ifdef CELER_CUDA
#define CELER_CALLED __noinline__ __device__
extern "C" {
__device__ fault celer_fault;
}
__device__ uint4 sampled_scratch[64];
constexpr size_t sampled_most = sizeof sampled_scratch; // else unchecked
#else
constexpr size_t sampled_most = size_t(1) << 30;
#define CELER_CALLED __attribute__((noinline))
#endif

// Bytes of what a launch is told to be promised of so many views.
constexpr index promises_size(int views) {
  return index(sizeof(units)) + index(sizeof(promise)) * views;
}

template <class T> struct read_only { static constexpr bool value = false; };
template <class T> struct read_only<const T> {
  static constexpr bool value = true;
};

// What an accessor knows beside its strides.
struct checked {
  promise boxes;
  const index *item;
  int item_dims, view;

#ifdef CELER_CUDA
  mutable uint4 written[4]; // what the item wrote last, of whatever element
  CELER_FN void look(const unsigned char *promises, int number, const index *at,
                     int dims) {
    const units &all = *(const units *)promises;
    boxes = ((const promise *)(promises + sizeof all))[number];
    if (boxes.n > 0) boxes.at += boxes.n * all.of(at, dims);
    boxes.noted = &celer_fault;
    view = number;
  }
#else
  CELER_FN void look(const celer::view &v, int number) {
    boxes = *(const promise *)v.marks;
    view = number;
  }
#endif

  // Where the element lies; where none is promised, some other place.
  template <class T, int D>
  CELER_CALLED T *guard(const index *at, T *place) const {
    bool holds = boxes.n < 0 || sizeof(T) > sampled_most;
    for (index b = 0; b < boxes.n; ++b) {
      bool inside = boxes.at[b].min[0] < boxes.at[b].max[0];
      for (int d = 0; d < D; ++d)
        inside &= at[d] >= boxes.at[b].min[d] && at[d] < boxes.at[b].max[d];
      holds |= inside;
    }
    if (!holds) return missed<T>(at, D);
#ifdef CELER_CUDA
    if (!read_only<T>::value && sizeof(T) <= sampled_most)
      return sizeof(T) <= sizeof written ? (T *)written : (T *)sampled_scratch;
#endif
    return place;
  }

private:
  template <class T> CELER_CALLED T *missed(const index *at, int dims) const {
    fault &f = *boxes.noted;
#ifdef CELER_CUDA
    void *scratch = sampled_scratch;
    const bool first = atomicExch(&f.set, 1) == 0;
#else
    static thread_local struct {
      alignas(T) unsigned char bytes[sizeof(T)];
    } scratch_of;
    void *scratch = memset(&scratch_of, 0, sizeof scratch_of);
    const bool first = f.set++ == 0;
#endif
    if (first) {
      f.view = view;
      f.dims = dims;
      f.item_dims = item_dims;
      for (int d = 0; d < dims; ++d) f.at[d] = at[d];
      for (int d = 0; d < item_dims; ++d) f.item[d] = item[d];
    }
    return (T *)scratch;
  }
};

} // namespace celer
