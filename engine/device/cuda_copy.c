#include "device/cuda_copy.h"

#include "device/cuda_pack.h"

enum { PITCH = INT32_MAX /* the most that CUDA takes */ };

static CUresult copy_row(const cel_cuda_api *api, const cel_cuda_end *from,
                         const cel_cuda_end *to, size_t width,
                         CUstream stream) {
  return from->apart == NULL
             ? api->cuMemcpyAsync(to->at, from->at, width, stream)
             : api->cuMemcpyPeerAsync(to->at, to->apart, from->at, from->apart,
                                      width, stream);
}

/* Rows one after the other, for pitches that the driver does not take. */
static CUresult copy_rows(const cel_cuda_api *api, const cel_cuda_end *from,
                          const cel_cuda_end *to, size_t width,
                          const size_t n[2], CUstream stream) {
  CUresult code = CUDA_SUCCESS;
  for (size_t i = 0; i < n[0] && code == CUDA_SUCCESS; ++i)
    for (size_t j = 0; j < n[1] && code == CUDA_SUCCESS; ++j) {
      cel_cuda_end a = *from, b = *to;
      a.at += i * from->plane + j * from->row;
      b.at += i * to->plane + j * to->row;
      code = copy_row(api, &a, &b, width, stream);
    }
  return code;
}

static size_t height_of(const cel_cuda_end *e, size_t rows) {
  size_t height = e->plane / e->row;
  return height < rows ? rows : height;
}

static CUresult copy_planes(const cel_cuda_api *api, const cel_cuda_end *from,
                            const cel_cuda_end *to, size_t width,
                            const size_t n[2], CUstream stream) {
  if (from->row > PITCH || to->row > PITCH)
    return copy_rows(api, from, to, width, n, stream);
  int type = from->apart != NULL ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  const CUDA_MEMCPY3D copy = {.srcMemoryType = type,
                              .srcDevice = from->at,
                              .reserved0 = from->apart,
                              .srcPitch = from->row,
                              .srcHeight = height_of(from, n[1]),
                              .dstMemoryType = type,
                              .dstDevice = to->at,
                              .reserved1 = to->apart,
                              .dstPitch = to->row,
                              .dstHeight = height_of(to, n[1]),
                              .WidthInBytes = width,
                              .Height = n[1],
                              .Depth = n[0]};
  return from->apart != NULL ? api->cuMemcpy3DPeerAsync(&copy, stream)
                             : api->cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult cel_cuda_copy(const cel_cuda *cuda, int32_t device, cel_cuda_end from,
                       cel_cuda_end to, size_t width, size_t planes,
                       size_t rows, CUstream stream) {
  const cel_cuda_api *api = cuda->api;
  size_t n[2] = {planes, rows};
  /* Twice: what lies side by side in both is one row, and with one row in each
   * plane the planes are the rows. */
  for (int fold = 0; fold < 2; ++fold) {
    if (n[1] > 1 && (width != from.row || width != to.row)) break;
    width *= n[1];
    n[1] = n[0], n[0] = 1;
    from.row = from.plane, to.row = to.plane;
  }
  if (n[0] * n[1] == 1) return copy_row(api, &from, &to, width, stream);
  if (from.apart == NULL &&
      cel_cuda_pack_suits(cuda, device, width, n[0], n[1]))
    return cel_cuda_pack(cuda, device, from, to, width, n[0], n[1], stream);
  if (n[0] == 1 || (from.plane % from.row == 0 && to.plane % to.row == 0))
    return copy_planes(api, &from, &to, width, n, stream);
  CUresult code = CUDA_SUCCESS;
  for (; n[0] > 0 && code == CUDA_SUCCESS; --n[0]) {
    code = copy_planes(api, &from, &to, width, (size_t[]){1, n[1]}, stream);
    from.at += from.plane, to.at += to.plane;
  }
  return code;
}

CUresult cel_cuda_write(const cel_cuda_api *api, CUdeviceptr to,
                        const void *from, size_t bytes) {
  CUresult code = api->cuMemcpyHtoD_v2(to, from, bytes);
  return code == CUDA_SUCCESS ? api->cuStreamSynchronize(NULL) : code;
}
