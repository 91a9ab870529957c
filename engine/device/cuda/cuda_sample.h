/* cuda_sample.h -- samples on a GPU (sample.h): patches of a launch's chunk
 * that the checked build computes, once the rest has been launched and timed.
 * Thread: the device's, all of these.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_SAMPLE_H
#define CEL_DEVICE_CUDA_CUDA_SAMPLE_H

#include "device/cuda/cuda.h"
#include "device/sample.h"

#ifndef CEL_CDEF
enum { CEL__CUDA_PATCHES = 3, CEL__CUDA_PROMISES = 4 << 20 /* bytes */ };

/* Some thousand items each, of whole groups: the first and the last of the
 * chunk among them. Disjoint; and what is left. Returns how many; 0: all are
 * for the real build. The caller releases *rest. Pure. */
int32_t cel__cuda_patches(const cel_job *job, cel_box out[CEL__CUDA_PATCHES],
                          cel_region *rest);

/* What launches of patches are told behind their arguments: `size` bytes each.
 */
typedef struct cel__cuda_promises {
  size_t size;
  unsigned char *at;
} cel__cuda_promises;

/* Asks the mappers, and puts what they give into the device's room for it,
 * which nothing uses that is under way. The caller frees out->at. */
CUresult cel__cuda_promise(const cel_cuda *cuda, int32_t device,
                           const cel_job *job, const cel_box *patch, int32_t n,
                           cel__cuda_promises *out);

/* That room, made ahead and kept: to take or give back memory of a GPU may wait
 * for all that is under way there. Thread: main, both. */
CUresult cel__cuda_promises_prepare(cel_cuda *cuda, int32_t device);
void cel__cuda_promises_clear(cel_cuda *cuda);
#endif

#endif
