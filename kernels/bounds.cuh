// bounds.cuh -- `celer run --check-bounds`: the first access outside what was
// promised. A part of celer.cuh.
namespace celer {

// Mirrored in engine/device/check.h.
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

// What an accessor knows beside its strides.
struct checked {
  box promised;
  const index *item;
  int item_dims, view;

  template <int D> CELER_FN bool holds(const index *at) const {
    for (int d = 0; d < D; ++d)
      if (at[d] < promised.min[d] || at[d] >= promised.max[d]) return false;
    return promised.min[0] < promised.max[0];
  }

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
