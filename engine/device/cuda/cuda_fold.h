/* cuda_fold.h -- a fold as one launch (kernels/fold.cuh). */
#ifndef CEL_DEVICE_CUDA_CUDA_FOLD_H
#define CEL_DEVICE_CUDA_CUDA_FOLD_H

#include "device/cuda/cuda.h"
#include "device/fold.h"

/* See kernels/fold.cuh. Lanes of a stream's block, and columns of each. */
enum { CEL_FUSED_LANES = 32, CEL_FUSED_OWN = 4 };
typedef enum cel_fused_way {
  CEL_FUSED_CHAIN,
  CEL_FUSED_TILE,
  CEL_FUSED_STREAM,
  CEL_FUSED_SHEET
} cel_fused_way;

/* An entry for folds of one pattern: of these kernels, whose views are these
 * arrays, with these reaches. Owned by the first kernel's module. */
typedef struct cel_fused {
  CUfunction function[CEL_DEVICES];
  _Atomic(bool) ready; /* the functions are there; stays so */
  bool failed;         /* they will never be; the executor's */
  cel_fused_way way;
  int32_t around[4];    /* but of CHAIN: below and above, of both dimensions */
  bool torus;           /* the ends of the range meet; of TILE and SHEET */
  bool reduces;         /* the last step does; of CHAIN */
  uint32_t bytes;       /* of the launch's parameter */
  uint32_t shared;      /* of a block, of TILE */
  uint32_t shared_warp; /* of each warp, of SHEET */
  bool ahead;           /* of SHEET: blocks ask for what they have next */
  int32_t high, warps;  /* of SHEET: rows of a warp; warps at most */
  int32_t resident[CEL_DEVICES]; /* warps of a multiprocessor, of those two */
  struct cel_cuda_trial *trials; /* of each size; none without functions */
  uint32_t held;                 /* by jobs: the executor's */
} cel_fused;

#ifndef CEL_CDEF
/* What the pattern of a fold says of its entry: all but the functions. False
 * where there can be none. Looks at works, uses and boxes alone. Thread: any.
 */
bool cel__cuda_fold_pattern(const cel_fold_job *fold, cel_fused_way way,
                            cel_fused *out);
/* How much more than the last step a step computes, in the order of `around`.
 * Thread: any. */
void cel__cuda_fold_margin(const cel_fold_job *fold, int32_t step,
                           int32_t out[4]);
/* A cel_fused_way that folds which read around items go, if they can; -1, which
 * it is but for specs: what is best for their size. */
extern int cel__cuda_fold_way;
/* See cel_backend. Thread: executor. */
cel_fold_manner cel__cuda_folds(int32_t device, cel_fold_job *fold);
/* Puts the launch of a fold that is not PLAIN on a lane's stream. Thread: the
 * device's. */
CUresult cel__cuda_fold_enqueue(const cel_cuda *cuda, int32_t device,
                                const cel_fold_job *fold, uint32_t lane,
                                CUstream stream);
#endif

#endif
