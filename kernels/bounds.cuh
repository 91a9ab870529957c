// bounds.cuh -- `celer run --check-bounds`: the first access outside what was
// promised. A part of celer.cuh.
namespace celer {

// Mirrored in engine/device/bounds.h.
struct fault {
  int set, view, dims, item_dims;
  index at[3], item[3];
  box promised;
  alignas(16) unsigned char scratch[1024]; // what such an access is given
};

extern "C" {
#ifdef CELER_CUDA
__device__ fault celer_fault;
#else
__attribute__((visibility("default"))) fault celer_fault;
#endif
}

// Bytes of what a launch is told to be promised of so many views.
constexpr index promises_size(int views) {
  return index(sizeof(box)) * views;
}

// What an accessor knows beside its strides.
struct checked {
  box promised;
  const index *item;
  int item_dims, view;

#ifdef CELER_CUDA
  CELER_FN void look(const unsigned char *promises, int number, const index *,
                     int) {
    promised = ((const box *)promises)[number];
    view = number;
  }
#else
  CELER_FN void look(const celer::view &v, int number) {
    promised = v.promised;
    view = number;
  }
#endif

  // Where the element lies; where none is promised, some other place.
  template <class T, int D> CELER_FN T *guard(const index *at, T *place) const {
    bool holds = promised.min[0] < promised.max[0];
    for (int d = 0; d < D; ++d)
      holds = holds && at[d] >= promised.min[d] && at[d] < promised.max[d];
    return holds ? place : missed<T, D>(at);
  }

private:
  template <class T, int D> CELER_FN T *missed(const index *at) const {
    static_assert(sizeof(T) <= sizeof celer_fault.scratch,
                  "elements of more than 1 KiB cannot be checked");
    fault &f = celer_fault;
#ifdef __CUDA_ARCH__
    bool first = atomicExch(&f.set, 1) == 0;
#else
    bool first = __atomic_exchange_n(&f.set, 1, __ATOMIC_RELAXED) == 0;
#endif
    if (first) {
      f.view = view;
      f.dims = D;
      f.item_dims = item_dims;
      f.promised = promised;
      for (int d = 0; d < D; ++d) f.at[d] = at[d];
      for (int d = 0; d < item_dims; ++d) f.item[d] = item[d];
    }
    return (T *)f.scratch;
  }
};

} // namespace celer
