/* cuda_sample.h -- samples on a GPU (sample.h): slabs of a launch's chunk that
 * the checked build computes, once the rest has been launched and timed.
 * Thread: the device's, all of these.
 */
#ifndef CEL_DEVICE_CUDA_SAMPLE_H
#define CEL_DEVICE_CUDA_SAMPLE_H

#include "device/cuda.h"
#include "device/sample.h"

#ifndef CEL_CDEF
enum { CEL__CUDA_SLABS = 3 };

/* Some thousand items each, of whole groups: the first and the last of the
 * chunk among them. Disjoint; and what is left. Returns how many; 0: all are
 * for the real build. The caller releases *rest. Pure. */
int32_t cel__cuda_slabs(const cel_job *job, cel_box out[CEL__CUDA_SLABS],
                        cel_region *rest);

/* What launches of slabs are told behind their arguments. */
typedef struct cel__cuda_promises {
  CUdeviceptr memory;
  size_t size; /* bytes for each slab */
  unsigned char *at;
} cel__cuda_promises;

/* Asks the mappers, and puts what they give into the memory of the device whose
 * context is current. The caller releases *out. */
CUresult cel__cuda_promise(const cel_cuda *cuda, const cel_job *job,
                           const cel_box *slab, int32_t n,
                           cel__cuda_promises *out);
void cel__cuda_promises_release(const cel_cuda *cuda,
                                cel__cuda_promises *promises);
#endif

#endif
