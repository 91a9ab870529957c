/* cursor.h -- how far the pieces of a direct message have been copied.
 *
 * What transports that take such a message apart share: its bytes lie one
 * behind the other, piece by piece and row by row, however they lie in the
 * device's memory.
 */
#ifndef CEL_COMM_CURSOR_H
#define CEL_COMM_CURSOR_H

#include "comm/transport.h"
#include "device/cuda/cuda.h"

typedef struct cel_cursor {
  uint32_t piece;
  uint64_t within; /* bytes of that piece */
} cel_cursor;

/* Where the next `bytes` bytes lie, if that is in one row; else 0. Thread:
 * any. */
CUdeviceptr cel_cursor_dense(const cel_posted *message, const cel_cursor *at,
                             uint64_t bytes);
/* Moves it on by `bytes`, no more than are left. Thread: any. */
void cel_cursor_skip(const cel_posted *message, cel_cursor *at, uint64_t bytes);
/* The same, and puts copies of these bytes on a stream of the first device:
 * `out` of the message to `dense`, or from there. Thread: any, with the
 * device's context current. */
CUresult cel_cursor_copy(const cel_cuda *cuda, const cel_posted *message,
                         cel_cursor *at, uint64_t bytes, CUdeviceptr dense,
                         bool out, CUstream stream);
/* The same from `dense`, which is the device's own memory, by one launch of a
 * kernel, for few bytes: the driver copies within a GPU by a kernel for each
 * piece, each of which takes the GPU from others for longer. False, and nothing
 * done: there is no kernel, or these are more than CEL_CUDA_BOXES copies. */
bool cel_cursor_scatter(const cel_cuda *cuda, const cel_posted *message,
                        cel_cursor *at, uint64_t bytes, CUdeviceptr dense,
                        CUstream stream, CUresult *code);
#endif
