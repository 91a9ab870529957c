/* cuda_reduce.h -- launches of kernels that reduce, and what combines rows of
 * partial results on a GPU. kernels/reduce_launch.cuh is the other side.
 *
 * A launch combines what its blocks come to by itself: the last block to end
 * does. There is room for so many blocks of one launch of each lane, whose
 * launches follow one another; a call of more groups is several launches.
 * Thread: the device's.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_REDUCE_H
#define CEL_DEVICE_CUDA_CUDA_REDUCE_H

#include "device/cuda/cuda_lane.h"

#ifndef CEL_CDEF
/* celer::flag: the lane in the low byte, and these. */
enum {
  CEL__LAUNCH_SHARED = 0x100,
  CEL__LAUNCH_ONTO = 0x200,
  CEL__LAUNCH_ALONE = 0x400
};
/* Blocks of one launch, of items and of groups, at most. */
enum { CEL__REDUCE_BLOCKS = 4096, CEL__REDUCE_GROUPS = 16384 };

/* Items stride over what a smaller grid leaves out: one of 2^18 threads, about
 * as many as a large GPU has at a time, or of up to twice as many where rows
 * leave over. It is the same on all GPUs, and so is how results are rounded. */
void cel__cuda_reduce_grid(const uint32_t block[3], uint32_t grid[3]);
/* How far a launch of so many groups, x first, may go in each dimension. */
void cel__cuda_reduce_groups(const int64_t groups[3], int64_t most[3]);
/* Bytes of each block's own copies of the arrays that are reduced into, or 0
 * where atomics in the device's memory are to do: they are too large, or too
 * few items come to a block. */
uint32_t cel__cuda_reduce_shared(const cel_job *job, int64_t blocks);
/* Puts what begins rows that blocks add to on the stream: those of arrays, and
 * of sums in fixed point unless one block `is_alone`. */
CUresult cel__cuda_reduce_begin(const cel_cuda *cuda, int32_t device,
                                const cel_job *job, bool is_alone,
                                void *arguments, CUstream stream);
/* Puts a work that `combines` on the stream. */
CUresult cel__cuda_reduce_combine(const cel_cuda *cuda, int32_t device,
                                  const cel_job *job, CUstream stream);
#endif

#endif
