/* cuda_copy.h -- strided copies, put on a stream.
 *
 * By the driver, or where rows are short by a kernel (cuda_pack.h): that is
 * decided here, by the shape alone.
 * Between memories that the stream's device reaches: its own, pinned memory of
 * the host, other devices'. Between devices that do not reach each other the
 * driver goes through the host: both ends have a context then. Thread: any,
 * with a context of CUDA's current.
 */
#ifndef CEL_DEVICE_CUDA_COPY_H
#define CEL_DEVICE_CUDA_COPY_H

#include "device/cuda.h"

/* One end of a copy: where it begins, bytes from row to row and from plane to
 * plane. */
typedef struct cel_cuda_end {
  CUdeviceptr at;
  size_t row, plane;
  CUcontext apart; /* of the device that it is on; as a rule null */
} cel_cuda_end;

/* `planes` of `rows` of `width` bytes, none of them 0, on a stream of the
 * device. */
CUresult cel_cuda_copy(const cel_cuda *cuda, int32_t device, cel_cuda_end from,
                       cel_cuda_end to, size_t width, size_t planes,
                       size_t rows, CUstream stream);

/* Bytes of the host, which are there when it returns: the driver's own
 * cuMemcpyHtoD may return before. */
CUresult cel_cuda_write(const cel_cuda_api *api, CUdeviceptr to,
                        const void *from, size_t bytes);
#endif
