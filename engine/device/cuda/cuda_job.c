/* Copies and launches, put on a stream. */

#include <string.h>

#include "device/bounds.h"
#include "device/clock.h"
#include "device/cuda/cuda_copy.h"
#include "device/cuda/cuda_fold.h"
#include "device/cuda/cuda_lane.h"
#include "device/cuda/cuda_reduce.h"
#include "device/cuda/cuda_sample.h"
#include "device/cuda/cuda_trial.h"
#include "tuning.h"

enum { WARP = 32, BLOCK = 256, ARGUMENTS = 4096 };
/* The most that CUDA takes. */
enum { BLOCK_Z = 64, GRID_YZ = 65535 };
enum { SLICE = 1 << 30 }; /* items along a dimension */

cel_status cel__cuda_fail(const cel_cuda *cuda, int32_t device,
                          const cel_job *job, cel_status status,
                          CUresult code) {
  const char *name = NULL, *text = cel_cuda_api_text(cuda->api, code);
  cuda->api->cuGetErrorName(code, &name);
  if (name == NULL) name = "without a name";
  int32_t gpu = cuda->device[device].ordinal;
  const cel_cuda_kernel *kernel = cel__cuda_kernel_of(job);
  if (kernel != NULL && job->kind == CEL_JOB_FOLD)
    return cel_fail(
        status,
        "steps that are taken together, kernel %s the first, failed on GPU "
        "%d: %s (%s)",
        kernel->name, gpu, text, name);
  if (kernel != NULL)
    return cel_fail(status, "kernel %s failed on GPU %d: %s (%s)", kernel->name,
                    gpu, text, name);
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
  return (cel_cuda_end){
      .at = (uintptr_t)l->base + at, .row = row, .plane = plane};
}

static bool reaches(const cel_cuda *cuda, int32_t device, int32_t memory) {
  return memory == 0 || cuda->device[device].peer[memory - 1];
}

static CUresult enqueue_copy(const cel_cuda *cuda, int32_t device,
                             const cel_job *job, CUstream stream) {
  const cel_box *box = &job->box;
  if (cel_box_is_empty(box)) return CUDA_SUCCESS;
  cel_cuda_end from = end_of(&job->from, box, job->element_size);
  cel_cuda_end to = end_of(&job->to, box, job->element_size);
  if (job->from_memory > 0 && job->to_memory > 0 &&
      !(reaches(cuda, device, job->from_memory) &&
        reaches(cuda, device, job->to_memory))) {
    from.context = cuda->device[job->from_memory - 1].context;
    to.context = cuda->device[job->to_memory - 1].context;
  }
  size_t width = (size_t)(box->max[2] - box->min[2]) * job->element_size;
  return cel_cuda_copy(cuda, device, from, to, width,
                       (size_t)(box->max[0] - box->min[0]),
                       (size_t)(box->max[1] - box->min[1]), stream);
}

/* ---- launches --------------------------------------------------------------
 */

/* celer::launch, in kernels/launch.cuh. */
typedef struct launch {
  int64_t min[3], range[3];
  uint32_t extent[3], flags;
} launch;

typedef struct accessor {
  uint64_t origin;
  int64_t stride0, stride1;
} accessor;

_Static_assert(sizeof(launch) == 64 && sizeof(accessor) == 24,
               "kernels/launch.cuh says the same");

/* Where `at` lies, or would; nobody looks when the view is empty. */
static accessor accessor_of(const cel_view *view, uint64_t size,
                            const int64_t at[3]) {
  const cel_box *l = &view->layout;
  int64_t e1 = l->max[1] - l->min[1], e2 = l->max[2] - l->min[2];
  int64_t bias =
      ((l->min[0] - at[0]) * e1 + l->min[1] - at[1]) * e2 + l->min[2] - at[2];
  return (accessor){(uintptr_t)view->base - (uint64_t)bias * size, e1 * e2, e2};
}

/* `checks`: what the kernel is promised, of the checked build of a sample. */
static void pack(const cel_cuda_kernel *kernel, const cel_job *job,
                 const unsigned char *checks, uint32_t flags,
                 unsigned char *out) {
  const cel_call *call = &job->call;
  const cel_reducer *reducer = job->work->reducer;
  launch where = {.flags = flags};
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
      if (a->reducer) {
        int64_t count = cel_box_volume(&reducer->extent);
        memcpy(out + a->at + sizeof it, &count, sizeof count);
        memcpy(out + a->from, reducer->identity, a->size);
        ++reducer;
      }
      ++view;
    } else {
      memcpy(out + a->at, values + a->from, a->size);
    }
  }
  if (checks != NULL)
    memcpy(out + kernel->boxes_at, checks,
           sizeof(cel__units) +
               (size_t)(view - call->view) * sizeof(cel__promise));
  if (checks != NULL || kernel->fault[0] == 0) return;
  for (int32_t v = 0; &call->view[v] < view; ++v)
    memcpy(out + kernel->boxes_at + (size_t)v * sizeof(cel_box),
           &call->view[v].box, sizeof(cel_box));
}

void cel__cuda_pack(const cel_job *job, uint32_t flags, unsigned char *out) {
  pack(job->work->cuda, job, NULL, flags, out);
}

/* After a checked kernel: waits for it and reads what it found. */
static cel_status check_fault(const cel_cuda *cuda, int32_t device,
                              const cel_job *job, const cel_cuda_kernel *kernel,
                              CUstream stream) {
  const cel_cuda_api *api = cuda->api;
  const bool sampled = kernel != job->work->cuda;
  cel__fault fault = {.set = 0};
  CUresult code = api->cuStreamSynchronize(stream);
  if (code == CUDA_SUCCESS)
    code = api->cuMemcpyDtoH_v2(&fault, kernel->fault[device],
                                sampled ? offsetof(cel__fault, promised)
                                        : offsetof(cel__fault, scratch));
  if (code != CUDA_SUCCESS)
    return cel__cuda_fail(cuda, device, job, CEL_E_FAULT, code);
  if (fault.set == 0) return CEL_E_OK;
  static const int32_t zero;
  cel_cuda_write(api, kernel->fault[device], &zero, sizeof zero);
  return sampled ? cel__sample_report(job->call.sample->task, &fault,
                                      kernel->name, kernel->param)
                 : cel__fault_report(&fault, kernel->name, kernel->param);
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

/* Rows of a warp or two, and as many of them as fit into `most` threads. */
static void shape_block(const int64_t n[3], int32_t dims, uint32_t most,
                        uint32_t block[3]) {
  uint32_t row = dims == 2 && n[0] >= BLOCK ? 2 * WARP : WARP;
  uint32_t planes = dims == 3 && most == BLOCK ? 2 : 1;
  block[0] = power_up(n[0], dims == 1 ? most : row);
  block[1] = power_up(n[1], most / block[0] / planes);
  uint32_t left = most / block[0] / block[1];
  block[2] = power_up(n[2], left < BLOCK_Z ? left : BLOCK_Z);
}

/* How many items of a row of `n` are a thread's, for a grid of `most` blocks.
 * No thread of a block of so many is to be left without. `threads` may be 0:
 * not known, or the kernel strides itself. */
static uint32_t each_of(const cel_box *chunk, int32_t dims, int64_t threads,
                        int64_t n, uint32_t block, uint32_t most) {
  uint32_t each = 1,
           enough = dims == 3 ? CEL_TUNE_CUDA_ITEMS_3D : CEL_TUNE_CUDA_ITEMS;
  double rounds = 1;
  for (int d = 0; d < CEL_DIMS; ++d)
    rounds *= (double)(chunk->max[d] - chunk->min[d]);
  rounds /= threads > 0 ? (double)threads : rounds;
  while (each < enough && rounds >= 2.0 * each * CEL_TUNE_CUDA_ROUNDS &&
         2 * (int64_t)each * block <= n)
    each *= 2;
  while (ceil_div(n, block * each, INT32_MAX) > most) each *= 2;
  return each;
}

/* In y of three dimensions celer's kernels stride where the grid ends. False:
 * another would have to. */
static bool shape(const cel_box *chunk, const cel_cuda_kernel *kernel,
                  int64_t threads, cel__launch_shape *out) {
  int64_t n[3] = {1, 1, 1}; /* x first */
  int32_t dims = kernel->dims;
  bool own = kernel->block[0] > 0;
  uint32_t each[3] = {1, 1, 1}, *block = out->block;
  for (int d = 0; d < dims; ++d)
    n[dims - 1 - d] = chunk->max[d] - chunk->min[d];
  if (!own)
    shape_block(n, dims, dims > 1 && threads > 0 ? BLOCK / 2 : BLOCK, block);
  for (int i = 0; i < 3 && own; ++i) block[i] = (uint32_t)kernel->block[i];
  const uint32_t most[3] = {INT32_MAX, GRID_YZ, GRID_YZ};
  if (!own && dims > 0)
    each[dims - 1] = each_of(chunk, dims, threads, n[dims - 1], block[dims - 1],
                             most[dims - 1]);
  for (int i = 0; i < 3; ++i)
    out->grid[i] = ceil_div(n[i], block[i] * each[i], most[i]);
  out->each = dims > 0 ? each[dims - 1] : 1;
  return !own || ((uint64_t)out->grid[1] * block[1] >= (uint64_t)n[1] &&
                  (uint64_t)out->grid[2] * block[2] >= (uint64_t)n[2]);
}

bool cel__cuda_shape(const cel_job *job, int64_t threads,
                     cel__launch_shape *out) {
  return shape(&job->call.chunk, job->work->cuda, threads, out);
}

/* Whether 31 bits count the items along each dimension. */
static bool is_countable(const cel_box *chunk) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (chunk->max[d] - chunk->min[d] > INT32_MAX) return false;
  return true;
}

/* How far a slice goes of what 31 bits do not count. */
static void slice(const cel_box *chunk, int64_t step[CEL_DIMS]) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = chunk->max[d] - chunk->min[d];
    step[d] = size < SLICE ? size : SLICE;
  }
}

/* What is launched first: all of it, or a slice. */
static cel_box first_of(const cel_box *chunk) {
  int64_t step[CEL_DIMS];
  if (is_countable(chunk)) return *chunk;
  slice(chunk, step);
  return cel_box_piece(chunk, step, 0);
}

/* Items by themselves are launched slice by slice. */
static cel_status check_launch(const cel_job *job) {
  const cel_box *chunk = &job->call.chunk;
  const cel_work *work = job->work;
  if (is_countable(chunk) || (work->work_group[0] == 0 && !work->combines &&
                              work->cuda->block[0] == 0))
    return CEL_E_OK;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (chunk->max[d] - chunk->min[d] > INT32_MAX)
      return cel_fail(CEL_E_RANGE,
                      "kernel %s: a GPU computes less than 2^31 items of a "
                      "dimension at once, not %lld",
                      job->work->cuda->name,
                      (long long)(chunk->max[d] - chunk->min[d]));
  return CEL_E_OK;
}

/* What a call takes of the device. */
typedef struct launching {
  const cel_cuda *cuda;
  const cel_job *job;
  const unsigned char *checks; /* see pack; null: none */
  int64_t threads;             /* of the device */
  CUfunction function;
  CUstream stream;
  uint32_t shared; /* bytes, beside those known at compile time */
  unsigned char *arguments;
} launching;

static CUresult launch_kernel(const launching *l, const uint32_t grid[3],
                              const uint32_t block[3]) {
  void *params[] = {l->arguments};
  return l->cuda->api->cuLaunchKernel(l->function, grid[0], grid[1], grid[2],
                                      block[0], block[1], block[2], l->shared,
                                      l->stream, params, NULL);
}

/* A chunk that 31 bits do not count. Each slice goes on with what others have
 * reduced. */
static CUresult launch_slices(const launching *l) {
  const cel_box *chunk = &l->job->call.chunk;
  const bool reduces = l->job->work->reducers > 0;
  int64_t step[CEL_DIMS], n = 1;
  CUresult code = CUDA_SUCCESS;
  slice(chunk, step);
  for (int d = 0; d < CEL_DIMS; ++d)
    n *= (chunk->max[d] - chunk->min[d] + step[d] - 1) / step[d];
  launch where;
  memcpy(&where, l->arguments, sizeof where);
  for (int64_t i = 0; i < n && code == CUDA_SUCCESS; ++i) {
    cel_box part = cel_box_piece(chunk, step, i);
    cel__launch_shape of;
    for (int d = 0; d < CEL_DIMS; ++d) {
      where.min[d] = part.min[d];
      where.extent[d] = (uint32_t)(part.max[d] - part.min[d]);
    }
    shape(&part, l->job->work->cuda, l->threads, &of);
    if (reduces)
      cel__cuda_reduce_grid(of.block, of.grid);
    else
      where.flags = of.each - 1;
    memcpy(l->arguments, &where, sizeof where);
    code = launch_kernel(l, of.grid, of.block);
    if (reduces) where.flags |= CEL__LAUNCH_ONTO;
  }
  return code;
}

/* Groups from `first` on, x first, `n` of them. */
static CUresult launch_some(const launching *l, const launch *where,
                            const int64_t first[3], const int64_t n[3],
                            const uint32_t block[3]) {
  const int32_t dims = l->job->work->cuda->dims;
  launch part = *where;
  uint32_t grid[3];
  for (int i = 0; i < 3; ++i) grid[i] = (uint32_t)n[i];
  for (int i = 0; i < dims; ++i) part.min[dims - 1 - i] += first[i] * block[i];
  if (l->job->work->reducers > 0 && (first[0] | first[1] | first[2]) != 0)
    part.flags |= CEL__LAUNCH_ONTO;
  memcpy(l->arguments, &part, sizeof part);
  return launch_kernel(l, grid, block);
}

/* Whole groups, which do not stride: one launch after the other where a grid
 * ends. */
static CUresult launch_groups(const launching *l) {
  const cel_job *job = l->job;
  const int32_t dims = job->work->cuda->dims;
  const cel_box *chunk = &job->call.chunk;
  uint32_t block[3] = {1, 1, 1};
  int64_t n[3] = {1, 1, 1}, at[3], some[3]; /* groups, x first */
  int64_t most[3] = {INT32_MAX, GRID_YZ, GRID_YZ};
  launch where;
  memcpy(&where, l->arguments, sizeof where);
  for (int d = 0; d < dims; ++d) {
    block[dims - 1 - d] = (uint32_t)job->work->work_group[d];
    n[dims - 1 - d] =
        (chunk->max[d] - chunk->min[d]) / job->work->work_group[d];
  }
  if (job->work->reducers > 0) cel__cuda_reduce_groups(n, most);
  CUresult code = CUDA_SUCCESS;
  for (at[2] = 0; at[2] < n[2]; at[2] += most[2])
    for (at[1] = 0; at[1] < n[1]; at[1] += most[1])
      for (at[0] = 0; at[0] < n[0] && code == CUDA_SUCCESS; at[0] += most[0]) {
        for (int i = 0; i < 3; ++i)
          some[i] = n[i] - at[i] < most[i] ? n[i] - at[i] : most[i];
        code = launch_some(l, &where, at, some, block);
      }
  return code;
}

/* How many blocks there are at most. */
static int64_t blocks_of(const cel_job *job, const uint32_t grid[3]) {
  const int32_t *group = job->work->work_group;
  if (group[0] == 0) return (int64_t)grid[0] * grid[1] * grid[2];
  int64_t items = 1;
  for (int d = 0; d < CEL_DIMS; ++d) items *= group[d] > 0 ? group[d] : 1;
  return cel_box_volume(&job->call.chunk) / items;
}

static CUresult launch_call(launching *l, int32_t device, uint32_t lane,
                            cel__launch_shape *of) {
  const cel_job *job = l->job;
  const cel_cuda_kernel *kernel = job->work->cuda;
  bool reduces = job->work->reducers > 0;
  if (reduces && job->work->work_group[0] == 0)
    cel__cuda_reduce_grid(of->block, of->grid);
  if (reduces)
    l->shared = cel__cuda_reduce_shared(job, blocks_of(job, of->grid));
  if (l->shared > 0) lane |= CEL__LAUNCH_SHARED;
  bool is_alone = job->work->work_group[0] == 0 &&
                  is_countable(&job->call.chunk) &&
                  blocks_of(job, of->grid) == 1;
  if (is_alone) lane |= CEL__LAUNCH_ALONE;
  pack(kernel, job, l->checks, reduces ? lane : of->each - 1, l->arguments);
  if (reduces) {
    CUresult code = cel__cuda_reduce_begin(l->cuda, device, job, is_alone,
                                           l->arguments, l->stream);
    if (code != CUDA_SUCCESS) return code;
  }
  if (job->work->work_group[0] > 0) return launch_groups(l);
  return is_countable(&job->call.chunk) ? launch_kernel(l, of->grid, of->block)
                                        : launch_slices(l);
}

/* What a call is put on a stream by. */
typedef struct putting {
  const cel_cuda *cuda;
  int32_t device;
  uint32_t lane;
  CUstream stream;
  CUresult *lost;
} putting;

static cel_status put_call(const putting *p, const cel_job *job,
                           const unsigned char *checks) {
  const cel_cuda *cuda = p->cuda;
  const int32_t device = p->device;
  const cel_cuda_kernel *kernel = job->work->cuda;
  CEL_TRY(check_launch(job));
  _Alignas(16) unsigned char arguments[ARGUMENTS];
  cel_assert(kernel->bytes <= sizeof arguments);
  launching l = {.cuda = cuda,
                 .job = job,
                 .threads = cuda->device[device].threads,
                 .function = kernel->function[device],
                 .stream = p->stream,
                 .checks = checks,
                 .arguments = arguments};
  cel__launch_shape of = {.each = 1};
  if (job->work->reducers > 0) l.threads = 0; /* strides itself */
  cel_box first = first_of(&job->call.chunk); /* later slices have their own */
  if (job->work->work_group[0] == 0 && !job->work->combines &&
      !shape(&first, kernel, l.threads, &of))
    return cel_fail(CEL_E_RANGE,
                    "kernel %s: a grid has at most %d blocks in y and z; use "
                    "larger blocks, or more devices",
                    kernel->name, GRID_YZ);
  CUresult code = job->work->combines
                      ? cel__cuda_reduce_combine(cuda, device, job, p->stream)
                      : launch_call(&l, device, p->lane, &of);
  return code == CUDA_SUCCESS ? CEL_E_OK
                              : refuse(cuda, device, job, code, p->lost);
}

/* ---- samples ---------------------------------------------------------------
 */

static cel_status put_boxes(const putting *p, const cel_job *job,
                            const cel_box *box, uint32_t n) {
  for (uint32_t i = 0; i < n && *p->lost == CUDA_SUCCESS; ++i) {
    cel_job part = *job;
    part.call.chunk = box[i];
    CEL_TRY(put_call(p, &part, NULL));
  }
  return CEL_E_OK;
}

/* Until all is done that is on the stream; how long that took. */
static cel_status wait_for_stream(const putting *p, const cel_job *job,
                                  int64_t *ns) {
  int64_t begin = cel_now_ns();
  CUresult code = p->cuda->api->cuStreamSynchronize(p->stream);
  *ns = cel_now_ns() - begin;
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel__cuda_fail(p->cuda, p->device, job, CEL_E_FAULT, code);
}

static cel_status put_checked(const putting *p, const cel_job *job,
                              const cel_box *patch, int32_t n,
                              const cel__cuda_promises *promises) {
  cel_work work = *job->work;
  work.cuda = job->work->cuda->sample;
  for (int32_t i = 0; i < n && *p->lost == CUDA_SUCCESS; ++i) {
    cel_job part = *job;
    part.work = &work;
    part.call.chunk = patch[i];
    CEL_TRY(put_call(p, &part, promises->at + (size_t)i * promises->size));
  }
  return CEL_E_OK;
}

/* The rest first, which says whether the checks are cheap. Items of patches are
 * computed twice, and what the checked build writes goes nowhere. */
static cel_status put_sampled(const putting *p, const cel_job *job,
                              const cel_box *patch, int32_t n,
                              const cel_region *rest) {
  int64_t ns, checks;
  CEL_TRY(put_boxes(p, job, rest->at, rest->n));
  if (*p->lost != CUDA_SUCCESS) return CEL_E_OK;
  CEL_TRY(wait_for_stream(p, job, &ns));
  if (!cel__sample_affords(ns * CEL_TUNE_SAMPLE_CUDA_SLOWER +
                           CEL_TUNE_SAMPLE_CUDA_BEGIN_NS))
    return put_boxes(p, job, patch, (uint32_t)n);
  cel__cuda_promises promises;
  CUresult code =
      cel__cuda_promise(p->cuda, p->device, job, patch, n, &promises);
  int64_t begin = cel_now_ns();
  cel_status status =
      code == CUDA_SUCCESS
          ? put_checked(p, job, patch, n, &promises)
          : cel__cuda_fail(p->cuda, p->device, job, CEL_E_FAULT, code);
  if (status == CEL_E_OK && *p->lost == CUDA_SUCCESS)
    status = wait_for_stream(p, job, &checks);
  cel_free(promises.at);
  cel__sample_spend(cel_now_ns() - begin);
  if (status != CEL_E_OK || *p->lost != CUDA_SUCCESS) return status;
  CEL_TRY(
      check_fault(p->cuda, p->device, job, job->work->cuda->sample, p->stream));
  return put_boxes(p, job, patch, (uint32_t)n);
}

/* A kernel that is compiled to check all accesses: part by part, so that what
 * mappers do not promise shows on one device, too. */
static cel_status put_in_parts(const putting *p, const cel_job *job) {
  const cel_call *call = &job->call;
  cel_box part[CEL__SAMPLE_PARTS];
  int32_t n = cel__sample_parts(call->sample->task, &call->chunk, false, part);
  cel_job one = *job;
  cel_view *view = cel_alloc((size_t)call->views * sizeof *view + 1);
  cel_status status = CEL_E_OK;
  one.call.view = view;
  for (int32_t i = 0; i < n && status == CEL_E_OK && *p->lost == CUDA_SUCCESS;
       ++i) {
    one.call.chunk = part[i];
    cel__sample_views(call->sample->task, &part[i], call->view, call->views,
                      view);
    status = put_call(p, &one, NULL);
    if (status == CEL_E_OK && *p->lost == CUDA_SUCCESS)
      status = check_fault(p->cuda, p->device, job, job->work->cuda, p->stream);
  }
  cel_free(view);
  return status;
}

static cel_status enqueue_call(const cel_cuda *cuda, int32_t device,
                               const cel_job *job, uint32_t lane,
                               CUstream stream, CUresult *lost) {
  const putting p = {cuda, device, lane, stream, lost};
  const cel_cuda_kernel *kernel = job->work->cuda;
  if (kernel == NULL)
    return cel_fail(CEL_E_TASK, "the task has no kernel for a GPU");
  if (cel_box_is_empty(&job->call.chunk)) return CEL_E_OK;
  if (job->call.sample != NULL && kernel->sample != NULL &&
      is_countable(&job->call.chunk)) {
    cel_box patch[CEL__CUDA_PATCHES];
    cel_region rest = {0};
    int32_t n = cel__cuda_patches(job, patch, &rest);
    cel_status status =
        n > 0 ? put_sampled(&p, job, patch, n, &rest) : put_call(&p, job, NULL);
    cel_region_release(&rest);
    return status;
  }
  bool checked = kernel->fault[device] != 0 && !job->work->combines;
  if (checked && job->call.sample != NULL && job->work->reducers == 0)
    return put_in_parts(&p, job);
  CEL_TRY(put_call(&p, job, NULL));
  return checked && *lost == CUDA_SUCCESS
             ? check_fault(cuda, device, job, kernel, stream)
             : CEL_E_OK;
}

/* ---- folds ----------------------------------------------------------------
 */

/* A step, whose chunk may go on at the other end of the range. */
static cel_status put_step(const putting *p, const cel_job *job,
                           const cel_fold_call *step) {
  cel_box part[CEL_BOX_PARTS];
  int32_t n = cel_box_on_ring(&step->call.chunk, &step->call.range, part);
  for (int32_t i = 0; i < n && *p->lost == CUDA_SUCCESS; ++i) {
    cel_job one = {.ticket = job->ticket,
                   .kind = CEL_JOB_CALL,
                   .work = step->work,
                   .call = step->call,
                   .name = step->name,
                   .location = step->location};
    one.call.chunk = part[i];
    if (i > 0) one.call.sample = NULL;
    cel_status status =
        enqueue_call(p->cuda, p->device, &one, p->lane, p->stream, p->lost);
    if (status != CEL_E_OK)
      return cel_fail_at(step->location.file, step->location.line);
  }
  return CEL_E_OK;
}

/* What lies beyond the range goes to where the rest went. */
static CUresult put_kept(const putting *p, const cel_fold_job *fold) {
  CUresult code = CUDA_SUCCESS;
  for (uint32_t i = 0; i < fold->copies && code == CUDA_SUCCESS; ++i) {
    const cel_fold_array *array = &fold->array[fold->copy[i].array];
    const cel_job copy = {.kind = CEL_JOB_COPY,
                          .element_size = array->element_size,
                          .from = array->memory,
                          .to = {array->spare, array->memory.box},
                          .box = fold->copy[i].box};
    code = enqueue_copy(p->cuda, p->device, &copy, p->stream);
  }
  return code;
}

static cel_status enqueue_folds(const putting *p, const cel_job *job) {
  for (const cel_fold_job *f = job->fold; f != NULL && *p->lost == CUDA_SUCCESS;
       f = f->next) {
    CUresult code = cel__cuda_trial_mark(p->cuda->api, f, false, p->stream);
    if (f->manner == CEL_FOLD_PLAIN) {
      for (int32_t s = 0; s < f->steps && *p->lost == CUDA_SUCCESS; ++s)
        CEL_TRY(put_step(p, job, &f->step[s]));
    } else if (code == CUDA_SUCCESS) {
      code = cel__cuda_fold_enqueue(p->cuda, p->device, f, p->lane, p->stream);
      if (code == CUDA_SUCCESS) code = put_kept(p, f);
    }
    if (code == CUDA_SUCCESS)
      code = cel__cuda_trial_mark(p->cuda->api, f, true, p->stream);
    if (code != CUDA_SUCCESS)
      CEL_TRY(refuse(p->cuda, p->device, job, code, p->lost));
  }
  return CEL_E_OK;
}

cel_status cel__cuda_enqueue(const cel_cuda *cuda, int32_t device,
                             const cel_job *job, int32_t lane, CUstream stream,
                             CUresult *lost) {
  if (job->kind == CEL_JOB_CALL)
    return enqueue_call(cuda, device, job, (uint32_t)lane, stream, lost);
  if (job->kind == CEL_JOB_FOLD) {
    const putting p = {cuda, device, (uint32_t)lane, stream, lost};
    return enqueue_folds(&p, job);
  }
  cel_assert(job->kind == CEL_JOB_COPY);
  CUresult code = enqueue_copy(cuda, device, job, stream);
  return code == CUDA_SUCCESS ? CEL_E_OK
                              : refuse(cuda, device, job, code, lost);
}
