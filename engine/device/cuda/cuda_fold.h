/* cuda_fold.h -- a fold as one launch (kernels/fold.cuh). */
#ifndef CEL_DEVICE_CUDA_CUDA_FOLD_H
#define CEL_DEVICE_CUDA_CUDA_FOLD_H

#include "device/cuda/cuda.h"
#include "device/fold.h"

/* An entry for folds of one pattern: of these kernels, whose views are these
 * arrays, with these reaches. Owned by the first kernel's module. */
typedef struct cel_fused {
  CUfunction function[CEL_DEVICES];
  _Atomic(bool) ready; /* the functions are there; stays so */
  /* Each block has a tile of each array in shared memory; else each thread
   * carries its items through all steps. */
  bool tiles;
  int32_t around[4]; /* of a tile: below and above, of both dimensions */
  uint32_t bytes;    /* of the launch's parameter */
  uint32_t shared;   /* of a block, of tiles */
} cel_fused;

#ifndef CEL_CDEF
/* What the pattern of a fold says of its entry: all but the functions. False
 * where there can be none. Looks at works and uses alone. Thread: any. */
bool cel__cuda_fold_pattern(const cel_fold_job *fold, cel_fused *out);
/* How much more than the last step a step computes, in the order of `around`.
 * Thread: any. */
void cel__cuda_fold_margin(const cel_fold_job *fold, int32_t step,
                           int32_t out[4]);
/* See cel_backend. Thread: executor. */
cel_fold_manner cel__cuda_folds(cel_fold_job *fold);
/* Puts the launch of a fold that is not PLAIN on a stream. Thread: the
 * device's. */
CUresult cel__cuda_fold_enqueue(const cel_cuda *cuda, int32_t device,
                                const cel_fold_job *fold, CUstream stream);
#endif

#endif
