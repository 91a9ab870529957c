#include "task/chunks.h"

#include "task/assignment.h"
#include "task/check.h"

void cel_chunks_release(cel_chunks *chunks) {
  cel_vec_release(&chunks->chunk);
  cel_vec_release(&chunks->part);
  cel_vec_release(&chunks->split);
}

/* The index of a chunk, which is added where it is not known from `from` on,
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

/* A split with several chunks, none of them empty. */
static void add_split(const cel_split *split, cel_chunks *out) {
  cel_vec_push(&out->split, (int32_t)split->n);
  for (int64_t k = 0; k < split->n; ++k) {
    cel_box chunk;
    cel_split_chunk(split, k, &chunk);
    int32_t at = put(out, 0, &chunk);
    cel_vec_push(&out->split, at);
  }
}

/* The halves in each dimension that is cut, as the search for counter-examples
 * takes them; then as other numbers of ranks would cut it. */
static void add_splits(const cel_group *group, const cel_task *task,
                       uint32_t tried, cel_chunks *out) {
  cel_task evenly = *task;
  evenly.split = NULL;
  out->whole = -1;
  if (!cel__is_cut(group) || cel_box_is_empty(&group->range)) return;
  out->whole = put(out, 0, &group->range);
  cel_split_kind splits = cel__splits_of(group);
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = group->range.max[d] - group->range.min[d];
    if (!splits.cut[d] || size <= splits.granularity[d]) continue;
    cel_split halves = cel_split_none(&group->range);
    halves.cut[d] =
        cel_cut_even(group->range.min[d], size, 2, splits.granularity[d]);
    halves.n = 2;
    add_split(&halves, out);
  }
  for (int32_t n = 3; n < 32; ++n) {
    if ((tried >> n & 1) == 0) continue;
    cel_split split = cel_task_cut(&evenly, &group->range, n, NULL, NULL);
    if (split.n == n) add_split(&split, out);
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
  cel_vec_clear(&out->split);
  if (weights != NULL && weights->rank != NULL &&
      group->placement == CEL_PLACE_SPLIT) {
    room = cel_alloc(CEL_TASK_CUT_ROOM(of->ranks) * sizeof *room);
    split = cel_task_cut(&task, &task.range, of->ranks, weights->rank, room);
    task.split = &split;
  }
  const cel_home *home = group->home;
  if (home != NULL && home->buffer == NULL && home->rank > 0) {
    room = cel_task_alone(of->ranks);
    split = cel_task_split_at(&task.range, home->rank, of->ranks, room);
    task.split = &split;
  }
  add_ranks(&task, of, out);
  /* A home that is still to be found may be here. */
  if (home != NULL && home->buffer != NULL && out->ranks > 0) out->mine = 0;
  add_splits(group, &task, of->tried, out);
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
                       .whole = chunks->whole,
                       .words = (int32_t)chunks->split.n,
                       .split = chunks->split.at,
                       .chunk = chunks->chunk.at,
                       .start = start,
                       .box = box};
}
