/* cuda_copy.h -- strided copies, put on a stream.
 *
 * By the driver, or where rows are short by a kernel: that is decided by the
 * shape alone. Several boxes at once always by the kernel.
 * Between memories that the stream's device reaches: its own, pinned memory of
 * the host, other devices'. Between devices that do not reach each other the
 * driver goes through the host: both ends have a context then. Thread: any,
 * with a context of CUDA's current.
 *
 * The driver copies a box row by row, so a column of a matrix costs as much as
 * its rows are many. The kernel (kernels/strided.cuh) gives each element a
 * thread: it packs a column straight into pinned memory of the host, into
 * another GPU's memory or a mailbox, and unpacks it likewise, without memory of
 * its own between the two. Only where kernels of the device reach all memory
 * that the backend may name: pinned memory of the host, and all peers.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_COPY_H
#define CEL_DEVICE_CUDA_CUDA_COPY_H

#include "device/cuda/cuda.h"

/* One end of a copy: where it begins, bytes from row to row and from plane to
 * plane. */
typedef struct cel_cuda_end {
  CUdeviceptr at;
  size_t row, plane;
  /* Where the stream's device does not reach both ends: of the device that this
   * one is on; else null. */
  CUcontext context;
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

/* ---- by the kernel ---- */

enum { CEL_CUDA_BOXES = 8 /* that one launch moves */ };

/* celer_strided and celer_boxes of kernels/strided.cuh. */
typedef struct cel_cuda_strided {
  uint64_t from, to;                               /* addresses */
  uint64_t from_row, from_plane, to_row, to_plane; /* bytes */
  uint32_t width, rows; /* units of a row, rows of a plane */
  uint32_t units;       /* in all, below 2^31 */
  uint32_t unused;
} cel_cuda_strided;
typedef struct cel_cuda_boxes {
  cel_cuda_strided box[CEL_CUDA_BOXES];
} cel_cuda_boxes;

/* A copy: `planes` of `rows` of `width` bytes, none of them 0. */
typedef struct cel_cuda_move {
  cel_cuda_end from, to;
  size_t width, planes, rows;
} cel_cuda_move;

/* Compiles the kernel, or finds it in the cache, and loads it on every device
 * where it may be used. `text` is kernels/strided.cuh. CEL_E_COMPILE,
 * CEL_E_MISSING, CEL_E_IO: then the driver copies all. Thread: main. */
cel_status cel_cuda_pack_load(cel_cuda *cuda, const char *text);
/* What the above loaded. Thread: main. */
void cel_cuda_pack_unload(cel_cuda *cuda);

/* Whether `planes` of `rows` of `width` bytes go by the kernel. Thread: any. */
bool cel_cuda_pack_suits(const cel_cuda *cuda, int32_t device, size_t width,
                         size_t planes, size_t rows);
/* Puts copies that do not overlap on a stream of the device, which has the
 * kernel: with one launch, if they are at most CEL_CUDA_BOXES and below 2^30
 * bytes. Thread: any, with the device's context current. */
CUresult cel_cuda_pack(const cel_cuda *cuda, int32_t device,
                       const cel_cuda_move *move, uint32_t moves,
                       CUstream stream);
#endif
