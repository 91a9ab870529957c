#include "device/cuda/cuda_copy.h"

#include <stdio.h>
#include <string.h>

#include "device/compile/compile.h"
#include "tuning.h"

enum { MOST_UNITS = 1 << 30 };

_Static_assert(sizeof(cel_cuda_boxes) == 512, "kernels/strided.cuh agrees");

/* ---- loading ------------------------------------------------------------- */

/* Whether a kernel of device d may touch whatever a copy may be about. */
static bool reaches_all(const cel_cuda *cuda, int32_t d) {
  for (int32_t i = 0; i < cuda->devices; ++i)
    if (!cuda->device[i].host_virtual_memory || !cuda->device[d].peer[i])
      return false;
  return true;
}

static cel_status load(cel_cuda *cuda, int32_t d, const char *image) {
  const cel_cuda_api *api = cuda->api;
  cel_cuda_device *device = &cuda->device[d];
  CUresult code = api->cuCtxSetCurrent(device->context);
  if (code == CUDA_SUCCESS)
    code = api->cuModuleLoadData(&device->packer, image);
  for (int i = 0; i < CEL_CUDA_UNITS && code == CUDA_SUCCESS; ++i) {
    char name[32];
    snprintf(name, sizeof name, "celer_strided_%d", 1 << i);
    code = api->cuModuleGetFunction(&device->pack[i], device->packer, name);
  }
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel_fail(CEL_E_MISSING, "cannot load kernels/strided.cuh: %s",
                        cel_cuda_api_text(api, code));
}

cel_status cel_cuda_pack_load(cel_cuda *cuda, const char *text) {
  const cel_source source = {
      .text = text, .file = "kernels/strided.cuh", .line = 1};
  cel_text unit = {0}, image = {0};
  bool was_there;
  cel_status status = CEL_E_OK;
  int32_t made = 0; /* what `image` is for */
  cel_text_format(&unit, "%s", text);
  for (int32_t d = 0; d < cuda->devices && status == CEL_E_OK; ++d) {
    const cel_cuda_device *device = &cuda->device[d];
    cel_cuda_target target = {.architecture = cel_cuda_architecture(device),
                              .items = 256};
    if (!reaches_all(cuda, d)) continue;
    if (target.architecture != made) {
      cel_vec_clear(&image);
      status = cel_compile_cuda(&source, &unit, target, &was_there, &image);
    }
    made = target.architecture;
    if (status == CEL_E_OK) status = load(cuda, d, image.at);
  }
  cel_vec_release(&unit);
  cel_vec_release(&image);
  if (status != CEL_E_OK) cel_cuda_pack_unload(cuda);
  cuda->api->cuCtxSetCurrent(cuda->device[0].context); /* as it was opened */
  return status;
}

void cel_cuda_pack_unload(cel_cuda *cuda) {
  for (int32_t d = 0; d < cuda->devices; ++d) {
    cel_cuda_device *device = &cuda->device[d];
    if (device->packer == NULL) continue;
    cuda->api->cuCtxSetCurrent(device->context);
    cuda->api->cuModuleUnload(device->packer);
    device->packer = NULL;
    memset(device->pack, 0, sizeof device->pack);
  }
}

/* ---- copying ------------------------------------------------------------- */

bool cel_cuda_pack_suits(const cel_cuda *cuda, int32_t device, size_t width,
                         size_t planes, size_t rows) {
  return cuda->device[device].pack[0] != NULL && width < CEL_TUNE_CUDA_NARROW &&
         planes * rows >= cuda->pack_rows;
}

/* The largest unit that all addresses and strides are multiples of, as a power
 * of two. */
static int unit_of(const cel_cuda_move *move, uint32_t moves) {
  uint64_t all = 0;
  for (const cel_cuda_move *m = move; m < move + moves; ++m) {
    all |= m->from.at | m->to.at | m->width;
    if (m->rows > 1) all |= m->from.row | m->to.row;
    if (m->planes > 1) all |= m->from.plane | m->to.plane;
  }
  int unit = 0;
  while (unit + 1 < CEL_CUDA_UNITS && (all >> unit & 1) == 0) ++unit;
  return unit;
}

/* Boxes until they are launched. */
typedef struct packing {
  const cel_cuda *cuda;
  CUfunction function;
  CUstream stream;
  cel_cuda_boxes boxes;
  uint32_t n, most; /* of these; units of the largest */
} packing;

static CUresult launch(packing *p) {
  void *params[] = {&p->boxes};
  unsigned blocks =
      (p->most + CEL_TUNE_CUDA_PACK_BLOCK - 1) / CEL_TUNE_CUDA_PACK_BLOCK;
  if (blocks > CEL_TUNE_CUDA_PACK_GRID) blocks = CEL_TUNE_CUDA_PACK_GRID;
  CUresult code = p->cuda->api->cuLaunchKernel(p->function, blocks, p->n, 1,
                                               CEL_TUNE_CUDA_PACK_BLOCK, 1, 1,
                                               0, p->stream, params, NULL);
  p->n = p->most = 0;
  return code;
}

static CUresult add(packing *p, const cel_cuda_strided *box) {
  CUresult code = p->n == CEL_CUDA_BOXES ? launch(p) : CUDA_SUCCESS;
  p->boxes.box[p->n++] = *box;
  if (box->units > p->most) p->most = box->units;
  return code;
}

/* As many planes, or rows of one, at a time as a launch can count. */
static CUresult add_parts(packing *p, const cel_cuda_move *m, int unit) {
  size_t units = m->width >> unit, most = MOST_UNITS / units;
  size_t rows_each = m->rows < most ? m->rows : most;
  size_t planes_each = most / rows_each;
  CUresult code = CUDA_SUCCESS;
  for (size_t i = 0; i < m->planes; i += planes_each)
    for (size_t r = 0; r < m->rows && code == CUDA_SUCCESS; r += rows_each) {
      size_t n = m->planes - i < planes_each ? m->planes - i : planes_each;
      size_t height = m->rows - r < rows_each ? m->rows - r : rows_each;
      const cel_cuda_strided part = {
          .from = m->from.at + i * m->from.plane + r * m->from.row,
          .to = m->to.at + i * m->to.plane + r * m->to.row,
          .from_row = m->from.row,
          .from_plane = m->from.plane,
          .to_row = m->to.row,
          .to_plane = m->to.plane,
          .width = (uint32_t)units,
          .rows = (uint32_t)height,
          .units = (uint32_t)(n * height * units)};
      code = add(p, &part);
    }
  return code;
}

CUresult cel_cuda_pack(const cel_cuda *cuda, int32_t device,
                       const cel_cuda_move *move, uint32_t moves,
                       CUstream stream) {
  int unit = unit_of(move, moves);
  packing p = {.cuda = cuda,
               .function = cuda->device[device].pack[unit],
               .stream = stream};
  CUresult code = CUDA_SUCCESS;
  for (uint32_t i = 0; i < moves && code == CUDA_SUCCESS; ++i)
    code = add_parts(&p, &move[i], unit);
  return code == CUDA_SUCCESS && p.n > 0 ? launch(&p) : code;
}

/* ---- copies ---------------------------------------------------------------
 */

enum { PITCH = INT32_MAX /* the most that CUDA takes */ };

static CUresult copy_row(const cel_cuda_api *api, const cel_cuda_end *from,
                         const cel_cuda_end *to, size_t width,
                         CUstream stream) {
  return from->context == NULL
             ? api->cuMemcpyAsync(to->at, from->at, width, stream)
             : api->cuMemcpyPeerAsync(to->at, to->context, from->at,
                                      from->context, width, stream);
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
  int type =
      from->context != NULL ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  const CUDA_MEMCPY3D copy = {.srcMemoryType = type,
                              .srcDevice = from->at,
                              .reserved0 = from->context,
                              .srcPitch = from->row,
                              .srcHeight = height_of(from, n[1]),
                              .dstMemoryType = type,
                              .dstDevice = to->at,
                              .reserved1 = to->context,
                              .dstPitch = to->row,
                              .dstHeight = height_of(to, n[1]),
                              .WidthInBytes = width,
                              .Height = n[1],
                              .Depth = n[0]};
  return from->context != NULL ? api->cuMemcpy3DPeerAsync(&copy, stream)
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
  if (from.context == NULL &&
      cel_cuda_pack_suits(cuda, device, width, n[0], n[1])) {
    const cel_cuda_move all = {from, to, width, n[0], n[1]};
    return cel_cuda_pack(cuda, device, &all, 1, stream);
  }
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
