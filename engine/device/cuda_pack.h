/* cuda_pack.h -- boxes of short rows, copied by a kernel.
 *
 * The driver copies a box row by row, so a column of a matrix costs as much as
 * its rows are many. The kernel (kernels/strided.cuh) gives each element a
 * thread: it packs a column straight into pinned memory of the host, into
 * another GPU's memory or a mailbox, and unpacks it likewise, without memory of
 * its own between the two. Only where kernels of the device reach all memory
 * that the backend may name: pinned memory of the host, and all peers.
 */
#ifndef CEL_DEVICE_CUDA_PACK_H
#define CEL_DEVICE_CUDA_PACK_H

#include "device/cuda_copy.h"

/* Rows shorter than that, and so many of them at least, go by the kernel. */
enum { CEL_CUDA_NARROW = 256, CEL_CUDA_PACK_ROWS = 64 };

/* celer_strided of kernels/strided.cuh. */
typedef struct cel_cuda_strided {
  uint64_t from, to;                               /* addresses */
  uint64_t from_row, from_plane, to_row, to_plane; /* bytes */
  uint32_t width, rows; /* units of a row, rows of a plane */
  uint32_t units;       /* in all, below 2^31 */
  uint32_t unused;
} cel_cuda_strided;

/* Compiles the kernel, or finds it in the cache, and loads it on every device
 * where it may be used. `text` is kernels/strided.cuh. CEL_E_COMPILE,
 * CEL_E_MISSING, CEL_E_IO: then the driver copies all. Thread: main. */
cel_status cel_cuda_pack_load(cel_cuda *cuda, const char *text);
/* What the above loaded. Thread: main. */
void cel_cuda_pack_unload(cel_cuda *cuda);

/* Whether `planes` of `rows` of `width` bytes go by the kernel. Thread: any. */
bool cel_cuda_pack_suits(const cel_cuda *cuda, int32_t device, size_t width,
                         size_t planes, size_t rows);
/* Puts such a copy on a stream of the device. Thread: any, with the device's
 * context current. */
CUresult cel_cuda_pack(const cel_cuda *cuda, int32_t device, cel_cuda_end from,
                       cel_cuda_end to, size_t width, size_t planes,
                       size_t rows, CUstream stream);
#endif
