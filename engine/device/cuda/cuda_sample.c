#include "device/cuda/cuda_sample.h"

#include <string.h>

#include "base/random.h"
#include "base/vec.h"
#include "device/cuda/cuda_copy.h"
#include "tuning.h"

enum { BOXES = CEL__CUDA_PROMISES / sizeof(cel_box) };

/* ---- patches ----------------------------------------------------------------
 */

/* Boxes that a unit is promised of view `v`. */
static int64_t boxes_of(const cel_job *job, int32_t v) {
  const cel_rule *rule = job->call.sample->task->access[v].use.rule;
  return rule != NULL && rule->listing == NULL ? rule->desc.boxes : 1;
}

/* Full along the last dimensions, as far as the items go; of so few that there
 * is room for what all views are promised, should each be a unit. */
static void size_patch(const cel_job *job, int64_t unit[3], int64_t size[3]) {
  const cel_box *chunk = &job->call.chunk;
  int64_t left = cel_box_volume(chunk) / CEL_TUNE_SAMPLE_PATCH_SHARE, each = 1;
  for (int32_t v = 0; v < job->call.views; ++v) each += boxes_of(job, v);
  int64_t most = (int64_t)(BOXES / CEL__CUDA_PATCHES) / each;
  if (left > CEL_TUNE_SAMPLE_PATCH_ITEMS) left = CEL_TUNE_SAMPLE_PATCH_ITEMS;
  if (left > most) left = most;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t whole = chunk->max[d] - chunk->min[d];
    unit[d] = job->work->work_group[d] > 0 ? job->work->work_group[d] : 1;
    size[d] = left < whole ? left / unit[d] * unit[d] : whole;
    if (size[d] < unit[d]) size[d] = unit[d];
    left /= size[d];
  }
}

int32_t cel__cuda_patches(const cel_job *job, cel_box out[CEL__CUDA_PATCHES],
                          cel_region *rest) {
  const cel_box *chunk = &job->call.chunk;
  cel_random random = {job->call.sample->task->id};
  int64_t unit[3], size[3];
  int32_t n = 0;
  size_patch(job, unit, size);
  cel_region_assign(rest, chunk, 1);
  for (int32_t i = 0; i < CEL__CUDA_PATCHES; ++i) { /* first, last, between */
    cel_box patch;
    for (int d = 0; d < CEL_DIMS; ++d) {
      int64_t room = (chunk->max[d] - chunk->min[d] - size[d]) / unit[d];
      int64_t at = i == 0   ? 0
                   : i == 1 ? room
                            : cel_random_int(&random, 0, room);
      patch.min[d] = chunk->min[d] + at * unit[d];
      patch.max[d] = patch.min[d] + size[d];
    }
    if (!cel_region_covers_box(rest, &patch)) continue;
    cel_region_remove(rest, &patch);
    out[n++] = patch;
  }
  return rest->n > 0 ? n : 0;
}

/* ---- promises -------------------------------------------------------------
 */

typedef CEL_VEC(cel_box) boxes;

/* Appends what view `v` is promised of each unit; all units have as many. */
static int64_t promise_view(const cel_job *job, int32_t v,
                            const cel__units *units, int64_t n, boxes *out) {
  const cel_task *task = job->call.sample->task;
  cel_box box[CEL_RULE_BOXES];
  int64_t each = boxes_of(job, v);
  for (int64_t i = 0; i < n; ++i) {
    cel_box unit = cel__sample_nth_unit(task, units, i);
    int32_t m = cel__sample_promise(task, v, &unit, &job->call.view[v], box);
    if (m < 0) return m;
    for (int32_t b = 0; b < each; ++b)
      cel_vec_push(out, b < m ? box[b] : (cel_box){{0}, {0}});
  }
  return each;
}

/* Of one patch; boxes are named by their number, until they have addresses. */
static void promise_patch(const cel_job *job, const cel_box *patch,
                          int32_t views, boxes *all, unsigned char *out) {
  cel__units units;
  int64_t n = cel__sample_units(job->call.sample->task, patch, &units);
  memcpy(out, &units, sizeof units);
  for (int32_t v = 0; v < views; ++v) {
    uintptr_t first = all->n;
    cel__promise promise = {.n = promise_view(job, v, &units, n, all)};
    memcpy(&promise.at, &first, sizeof first);
    memcpy(out + sizeof units + (size_t)v * sizeof promise, &promise,
           sizeof promise);
  }
}

/* Numbers become addresses. */
static void place_boxes(CUdeviceptr memory, cel__cuda_promises *p, int32_t n,
                        int32_t views) {
  for (int32_t i = 0; i < n * views; ++i) {
    unsigned char *at = p->at + (size_t)(i / views) * p->size +
                        sizeof(cel__units) +
                        (size_t)(i % views) * sizeof(cel__promise);
    uintptr_t address;
    memcpy(&address, at, sizeof address);
    address = (uintptr_t)memory + address * sizeof(cel_box);
    memcpy(at, &address, sizeof address);
  }
}

CUresult cel__cuda_promise(const cel_cuda *cuda, int32_t device,
                           const cel_job *job, const cel_box *patch, int32_t n,
                           cel__cuda_promises *out) {
  const cel_cuda_kernel *kernel = job->work->cuda;
  CUdeviceptr memory = cuda->device[device].promises;
  int32_t views = 0;
  for (int32_t i = 0; i < kernel->arguments; ++i)
    views += kernel->argument[i].view;
  boxes all = {0};
  out->size = sizeof(cel__units) + (size_t)views * sizeof(cel__promise);
  out->at = cel_alloc_zero(out->size * (size_t)n);
  for (int32_t i = 0; i < n; ++i)
    promise_patch(job, &patch[i], views, &all, out->at + (size_t)i * out->size);
  cel_assert(all.n <= BOXES);
  CUresult code = CUDA_SUCCESS;
  if (all.n > 0)
    code = cel_cuda_write(cuda->api, memory, all.at, all.n * sizeof *all.at);
  place_boxes(memory, out, n, views);
  cel_vec_release(&all);
  return code;
}

CUresult cel__cuda_promises_prepare(cel_cuda *cuda, int32_t device) {
  cel_cuda_device *d = &cuda->device[device];
  if (d->promises != 0) return CUDA_SUCCESS;
  CUresult code = cuda->api->cuCtxSetCurrent(d->context);
  return code == CUDA_SUCCESS
             ? cuda->api->cuMemAlloc_v2(&d->promises, CEL__CUDA_PROMISES)
             : code;
}

void cel__cuda_promises_clear(cel_cuda *cuda) {
  for (int32_t i = 0; i < cuda->devices; ++i) {
    cel_cuda_device *d = &cuda->device[i];
    if (d->promises == 0) continue;
    cuda->api->cuCtxSetCurrent(d->context);
    cuda->api->cuMemFree_v2(d->promises);
    d->promises = 0;
  }
}
