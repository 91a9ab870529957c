#include "task/chunks.h"

#include "task/check.h"

void cel_chunks_release(cel_chunks *chunks) {
  cel_vec_release(&chunks->chunk);
  cel_vec_release(&chunks->part);
}

/* The place of a chunk, which is added where it is not known from `from` on,
 * nor this rank's. */
static int32_t put(cel_chunks *out, int32_t from, const cel_box *chunk) {
  if (out->mine >= 0 && cel_box_equal(&out->chunk.at[out->mine], chunk))
    return out->mine;
  for (uint32_t i = (uint32_t)from; i < out->chunk.n; ++i)
    if (cel_box_equal(&out->chunk.at[i], chunk)) return (int32_t)i;
  cel_vec_push(&out->chunk, *chunk);
  return (int32_t)out->chunk.n - 1;
}

static void add_ranks(const cel_task *task, const cel_chunks_of *of,
                      cel_chunks *out) {
  cel_split split = cel_task_split(task, of->ranks);
  cel_box chunk;
  out->mine = -1;
  for (int64_t k = 0; k < split.n; ++k) {
    if (!cel_split_chunk(&split, k, &chunk)) continue;
    if (k == of->rank) out->mine = (int32_t)out->chunk.n;
    cel_vec_push(&out->chunk, chunk);
  }
  out->ranks = (int32_t)out->chunk.n;
}

/* Where one rank has all of it, there are no others; what is cut has halves in
 * each dimension, as the search for counter-examples takes them. */
static void add_samples(const cel_group *group, cel_chunks *out) {
  cel_split_kind splits = cel__splits_of(group);
  if (!cel__is_cut(group)) return;
  put(out, 0, &group->range);
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t g = splits.granularity[d];
    int64_t size = group->range.max[d] - group->range.min[d];
    int64_t units = size / g + (size % g != 0), half = (units + 1) / 2;
    if (!splits.cut[d] || units < 2) continue;
    cel_box low = group->range, high = group->range;
    low.max[d] = high.min[d] = group->range.min[d] + half * g;
    put(out, 0, &low);
    put(out, 0, &high);
  }
}

static void add_runs(const cel_task *task, const cel_box *chunk,
                     cel_chunks *out) {
  cel_split runs = cel_task_runs(task, chunk);
  cel_box run;
  for (int64_t i = 0; i < runs.n; ++i)
    if (cel_split_chunk(&runs, i, &run))
      cel_vec_push(&out->part, put(out, out->ranks, &run));
}

/* This rank's chunk over its devices and runs. */
static void add_parts(const cel_group *group, const cel_task *task,
                      const cel_chunks_of *of, cel_chunks *out) {
  if (out->mine < 0) return;
  cel_box mine = out->chunk.at[out->mine], chunk;
  if (group->kind == CEL_TASK_HOST) {
    add_runs(task, &mine, out);
    return;
  }
  int64_t *room = cel_alloc(CEL_TASK_CUT_ROOM(of->devices) * sizeof *room);
  cel_split split =
      cel_task_cut(task, &mine, of->devices, task->device_weight, room);
  for (int64_t d = 0; d < split.n; ++d)
    if (cel_split_chunk(&split, d, &chunk)) add_runs(task, &chunk, out);
  cel_free(room);
}

void cel_chunks_find(const cel_group *group, const cel_chunks_of *of,
                     cel_chunks *out) {
  const cel_weights *weights = group->weights;
  cel_task task = {.kind = group->kind,
                   .placement = group->placement,
                   .range = group->range,
                   .permitted = group->permitted,
                   .oversubscribe = group->oversubscribe,
                   .device_weight = weights ? weights->device : NULL,
                   .effects = group->effects};
  cel_split split;
  int64_t *room = NULL;
  cel_vec_clear(&out->chunk);
  cel_vec_clear(&out->part);
  if (weights != NULL && weights->rank != NULL &&
      group->placement == CEL_PLACE_SPLIT) {
    room = cel_alloc(CEL_TASK_CUT_ROOM(of->ranks) * sizeof *room);
    split = cel_task_cut(&task, &task.range, of->ranks, weights->rank, room);
    task.split = &split;
  }
  add_ranks(&task, of, out);
  add_samples(group, out);
  out->common = (int32_t)out->chunk.n;
  add_parts(group, &task, of, out);
  cel_free(room);
}

cel_listing cel_chunks_list(const cel_chunks *chunks, const int32_t *start,
                            const cel_box *box) {
  return (cel_listing){.chunks = (int32_t)chunks->chunk.n,
                       .ranks = chunks->ranks,
                       .common = chunks->common,
                       .mine = chunks->mine,
                       .parts = (int32_t)chunks->part.n,
                       .part = chunks->part.at,
                       .chunk = chunks->chunk.at,
                       .start = start,
                       .box = box};
}
