/* Copies and launches, put on a stream. */

#include <string.h>

#include "device/check.h"
#include "device/cuda_copy.h"
#include "device/cuda_lane.h"

enum { BLOCK = 256, ARGUMENTS = 4096 };
/* The most that CUDA takes. */
enum { BLOCK_Z = 64, GRID_YZ = 65535 };

cel_status cel__cuda_fail(const cel_cuda *cuda, int32_t device,
                          const cel_job *job, cel_status status,
                          CUresult code) {
  const char *name = NULL, *text = cel_cuda_api_text(cuda->api, code);
  cuda->api->cuGetErrorName(code, &name);
  if (name == NULL) name = "without a name";
  int32_t gpu = cuda->device[device].ordinal;
  if (job->kind == CEL_JOB_CALL && job->work->cuda != NULL)
    return cel_fail(status, "kernel %s failed on GPU %d: %s (%s)",
                    job->work->cuda->name, gpu, text, name);
  return cel_fail(status, "%s failed on GPU %d: %s (%s)",
                  job->kind == CEL_JOB_CALL ? "an interop task" : "a copy", gpu,
                  text, name);
}

/* A job that could not be submitted, by its own fault or because the device is
 * lost already. */
static cel_status refuse(const cel_cuda *cuda, int32_t device,
                         const cel_job *job, CUresult code, CUresult *lost) {
  if (!cel_cuda_is_fault(code))
    return cel__cuda_fail(cuda, device, job, CEL_E_TASK, code);
  *lost = code;
  return CEL_E_OK;
}

/* ---- copies ---------------------------------------------------------------
 */

static cel_cuda_end end_of(const cel_layout *l, const cel_box *box,
                           uint64_t size) {
  uint64_t row = (uint64_t)(l->box.max[2] - l->box.min[2]) * size;
  uint64_t plane = (uint64_t)(l->box.max[1] - l->box.min[1]) * row;
  uint64_t at = (uint64_t)(box->min[0] - l->box.min[0]) * plane +
                (uint64_t)(box->min[1] - l->box.min[1]) * row +
                (uint64_t)(box->min[2] - l->box.min[2]) * size;
  return (cel_cuda_end){(uintptr_t)l->base + at, row, plane};
}

static CUresult enqueue_copy(const cel_cuda *cuda, int32_t device,
                             const cel_job *job, CUstream stream) {
  const cel_box *box = &job->box;
  if (cel_box_is_empty(box)) return CUDA_SUCCESS;
  cel_cuda_end from = end_of(&job->from, box, job->element_size);
  cel_cuda_end to = end_of(&job->to, box, job->element_size);
  size_t width = (size_t)(box->max[2] - box->min[2]) * job->element_size;
  return cel_cuda_copy(cuda, device, from, to, width,
                       (size_t)(box->max[0] - box->min[0]),
                       (size_t)(box->max[1] - box->min[1]), stream);
}

/* ---- launches --------------------------------------------------------------
 */

/* celer::launch, in kernels/celer.cuh. */
typedef struct launch {
  int64_t min[3], range[3];
  uint32_t extent[3], unused;
} launch;

typedef struct accessor {
  uint64_t origin;
  int64_t stride0, stride1;
} accessor;

_Static_assert(sizeof(launch) == 64 && sizeof(accessor) == 24,
               "kernels/celer.cuh says the same");

/* Where `at` lies, or would; nobody looks when the view is empty. */
static accessor accessor_of(const cel_view *view, uint64_t size,
                            const int64_t at[3]) {
  const cel_box *l = &view->layout;
  int64_t e1 = l->max[1] - l->min[1], e2 = l->max[2] - l->min[2];
  int64_t bias =
      ((l->min[0] - at[0]) * e1 + l->min[1] - at[1]) * e2 + l->min[2] - at[2];
  return (accessor){(uintptr_t)view->base - (uint64_t)bias * size, e1 * e2, e2};
}

static void pack(const cel_cuda_kernel *kernel, const cel_job *job,
                 unsigned char *out) {
  const cel_call *call = &job->call;
  launch where = {.unused = 0};
  for (int d = 0; d < CEL_DIMS; ++d) {
    where.min[d] = call->chunk.min[d];
    where.range[d] = call->range.max[d];
    where.extent[d] = (uint32_t)(call->chunk.max[d] - call->chunk.min[d]);
  }
  memcpy(out, &where, sizeof where);
  static const int64_t zero[3];
  const char *values = job->work->values;
  const cel_view *view = call->view;
  for (int32_t i = 0; i < kernel->arguments; ++i) {
    const cel_cuda_argument *a = &kernel->argument[i];
    if (a->view) {
      bool moved = kernel->block[0] > 0;
      accessor it = accessor_of(view, a->size, moved ? view->box.min : zero);
      memcpy(out + a->at, &it, sizeof it);
      ++view;
    } else {
      memcpy(out + a->at, values + a->from, a->size);
    }
  }
  if (kernel->fault[0] == 0) return;
  for (int32_t v = 0; &call->view[v] < view; ++v)
    memcpy(out + kernel->boxes_at + (size_t)v * sizeof(cel_box),
           &call->view[v].box, sizeof(cel_box));
}

/* After a checked kernel: waits for it and reads what it found. */
static cel_status check_fault(const cel_cuda *cuda, int32_t device,
                              const cel_job *job, CUstream stream) {
  const cel_cuda_kernel *kernel = job->work->cuda;
  const cel_cuda_api *api = cuda->api;
  cel__fault fault = {.set = 0};
  CUresult code = api->cuStreamSynchronize(stream);
  if (code == CUDA_SUCCESS)
    code = api->cuMemcpyDtoH_v2(&fault, kernel->fault[device],
                                offsetof(cel__fault, scratch));
  if (code != CUDA_SUCCESS)
    return cel__cuda_fail(cuda, device, job, CEL_E_FAULT, code);
  if (fault.set == 0) return CEL_E_OK;
  static const int32_t zero;
  api->cuMemcpyHtoD_v2(kernel->fault[device], &zero, sizeof zero);
  return cel__fault_report(&fault, kernel->name, kernel->param);
}

static uint32_t power_up(int64_t n, uint32_t most) {
  uint32_t p = 1;
  while (p < most && p < n) p *= 2;
  return p;
}

static uint32_t ceil_div(int64_t n, uint32_t by, uint32_t most) {
  uint64_t blocks = ((uint64_t)n + by - 1) / by;
  return blocks < most ? (uint32_t)blocks : most;
}

/* Rows of a warp or more, and as many of them as fit. */
static void shape_block(const int64_t n[3], int32_t dims, uint32_t block[3]) {
  block[0] = power_up(n[0], dims == 1 ? BLOCK : 32);
  block[1] = power_up(n[1], BLOCK / block[0] / (dims == 3 ? 2 : 1));
  uint32_t left = BLOCK / block[0] / block[1];
  block[2] = power_up(n[2], left < BLOCK_Z ? left : BLOCK_Z);
}

/* In y and z celer's kernels stride where the grid ends. False: another would
 * have to. */
static bool shape(const cel_box *chunk, const cel_cuda_kernel *kernel,
                  uint32_t grid[3], uint32_t block[3]) {
  int64_t n[3] = {1, 1, 1}; /* x first */
  int32_t dims = kernel->dims;
  bool own = kernel->block[0] > 0;
  for (int d = 0; d < dims; ++d)
    n[dims - 1 - d] = chunk->max[d] - chunk->min[d];
  if (!own) shape_block(n, dims, block);
  for (int i = 0; i < 3 && own; ++i) block[i] = (uint32_t)kernel->block[i];
  grid[0] = ceil_div(n[0], block[0], INT32_MAX);
  grid[1] = ceil_div(n[1], block[1], GRID_YZ);
  grid[2] = ceil_div(n[2], block[2], GRID_YZ);
  return !own || ((uint64_t)grid[1] * block[1] >= (uint64_t)n[1] &&
                  (uint64_t)grid[2] * block[2] >= (uint64_t)n[2]);
}

static cel_status check_launch(const cel_job *job) {
  const cel_box *chunk = &job->call.chunk;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (chunk->max[d] - chunk->min[d] > INT32_MAX)
      return cel_fail(CEL_E_RANGE,
                      "kernel %s: a GPU computes less than 2^31 items of a "
                      "dimension at once, not %lld",
                      job->work->cuda->name,
                      (long long)(chunk->max[d] - chunk->min[d]));
  return CEL_E_OK;
}

static CUresult launch_kernel(const cel_cuda *cuda, CUfunction function,
                              const uint32_t grid[3], const uint32_t block[3],
                              void *arguments, CUstream stream) {
  void *params[] = {arguments};
  return cuda->api->cuLaunchKernel(function, grid[0], grid[1], grid[2],
                                   block[0], block[1], block[2], 0, stream,
                                   params, NULL);
}

/* Whole groups, which do not stride: one launch after the other where a grid
 * ends. */
static CUresult launch_groups(const cel_cuda *cuda, const cel_job *job,
                              CUfunction function, unsigned char *arguments,
                              CUstream stream) {
  const int32_t dims = job->work->cuda->dims;
  const cel_box *chunk = &job->call.chunk;
  uint32_t block[3] = {1, 1, 1}, grid[3];
  int64_t n[3] = {1, 1, 1}; /* groups, x first */
  launch where;
  memcpy(&where, arguments, sizeof where);
  for (int d = 0; d < dims; ++d) {
    block[dims - 1 - d] = (uint32_t)job->work->group[d];
    n[dims - 1 - d] = (chunk->max[d] - chunk->min[d]) / job->work->group[d];
  }
  grid[0] = (uint32_t)n[0];
  CUresult code = CUDA_SUCCESS;
  for (int64_t z = 0; z < n[2]; z += GRID_YZ)
    for (int64_t y = 0; y < n[1] && code == CUDA_SUCCESS; y += GRID_YZ) {
      launch part = where;
      if (dims > 1) part.min[dims - 2] += y * block[1];
      if (dims > 2) part.min[dims - 3] += z * block[2];
      memcpy(arguments, &part, sizeof part);
      grid[1] = ceil_div(n[1] - y, 1, GRID_YZ);
      grid[2] = ceil_div(n[2] - z, 1, GRID_YZ);
      code = launch_kernel(cuda, function, grid, block, arguments, stream);
    }
  return code;
}

static cel_status enqueue_call(const cel_cuda *cuda, int32_t device,
                               const cel_job *job, CUstream stream,
                               CUresult *lost) {
  const cel_cuda_kernel *kernel = job->work->cuda;
  if (kernel == NULL)
    return cel_fail(CEL_E_TASK, "the task has no kernel for a GPU");
  if (cel_box_is_empty(&job->call.chunk)) return CEL_E_OK;
  CEL_TRY(check_launch(job));
  _Alignas(16) unsigned char arguments[ARGUMENTS];
  cel_assert(kernel->bytes <= sizeof arguments);
  pack(kernel, job, arguments);
  CUfunction function = kernel->function[device];
  CUresult code;
  if (job->work->group[0] > 0) {
    code = launch_groups(cuda, job, function, arguments, stream);
  } else {
    uint32_t grid[3], block[3];
    if (!shape(&job->call.chunk, kernel, grid, block))
      return cel_fail(CEL_E_RANGE,
                      "kernel %s: a grid has at most %d blocks in y and z; use "
                      "larger blocks, or more devices",
                      kernel->name, GRID_YZ);
    code = launch_kernel(cuda, function, grid, block, arguments, stream);
  }
  if (code != CUDA_SUCCESS) return refuse(cuda, device, job, code, lost);
  return kernel->fault[device] != 0 ? check_fault(cuda, device, job, stream)
                                    : CEL_E_OK;
}

cel_status cel__cuda_enqueue(const cel_cuda *cuda, int32_t device,
                             const cel_job *job, CUstream stream,
                             CUresult *lost) {
  if (job->kind == CEL_JOB_CALL)
    return enqueue_call(cuda, device, job, stream, lost);
  cel_assert(job->kind == CEL_JOB_COPY);
  CUresult code = enqueue_copy(cuda, device, job, stream);
  return code == CUDA_SUCCESS ? CEL_E_OK
                              : refuse(cuda, device, job, code, lost);
}
