#include "instr/graph.h"

/* How far what is read goes beyond the chunk in one dimension. A box that a
 * periodic buffer's end cut off counts as if it lay on, beyond the other end.
 */
static void reach_of(const cel_region *reads, const cel_box *chunk, int d,
                     int64_t extent, int64_t *below, int64_t *above) {
  *below = *above = 0;
  for (uint32_t i = 0; i < reads->n; ++i) {
    int64_t least = INT64_MAX, down = 0, up = 0;
    for (int turn = -1; turn <= 1; ++turn) {
      int64_t under = chunk->min[d] - reads->at[i].min[d] - turn * extent;
      int64_t over = reads->at[i].max[d] + turn * extent - chunk->max[d];
      int64_t most = under > over ? under : over;
      if (most >= least) continue;
      least = most;
      down = under;
      up = over;
    }
    if (*below < down) *below = down;
    if (*above < up) *above = up;
  }
}

/* Whether the chunk lacks part of what the task reads; where it does, *inner
 * shrinks, in the dimensions that may be cut, by as much as what is read goes
 * beyond the chunk, which is right for a halo and is tried out for anything
 * else. */
static cel_status look(cel_instr_graph *graph, const cel__part *part,
                       const cel_box *chunk, cel_box *inner, bool *lacks) {
  const cel_task *task = graph->plan.command->task;
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_access *access = &task->access[a];
    if (!cel_mode_consumes(access->mode)) continue;
    CEL_TRY(cel__plan_eval(graph, access, chunk, &graph->reads));
    if (!cel__coherence_lacks(graph->coherence, access->buffer, part->memory,
                              &graph->reads))
      continue;
    *lacks = true;
    for (int d = 0; d < CEL_DIMS; ++d) {
      int64_t below, above;
      if (!task->permitted.cut[d]) continue;
      reach_of(&graph->reads, chunk, d, access->buffer->extent.max[d], &below,
               &above);
      if (inner->min[d] < chunk->min[d] + below)
        inner->min[d] = chunk->min[d] + below;
      if (inner->max[d] > chunk->max[d] - above)
        inner->max[d] = chunk->max[d] - above;
    }
  }
  return CEL_E_OK;
}

/* Inwards to where the task may be cut. */
static void to_cuts(const cel_box *chunk, const cel_split_kind *permitted,
                    cel_box *inner) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t g = permitted->granularity[d] < 1 ? 1 : permitted->granularity[d];
    int64_t from = chunk->min[d];
    if (!permitted->cut[d]) continue;
    if (inner->max[d] < chunk->max[d])
      inner->max[d] -= (inner->max[d] - from) % g;
    inner->min[d] += (g - (inner->min[d] - from) % g) % g;
  }
}

/* The middle half in each dimension that may be cut, as if something lay on
 * both sides. */
static cel_box middle_of(const cel_box *chunk,
                         const cel_split_kind *permitted) {
  cel_box middle = *chunk;
  for (int d = 0; d < CEL_DIMS; ++d) {
    if (!permitted->cut[d]) continue;
    int64_t margin = (chunk->max[d] - chunk->min[d] + 3) / 4;
    middle.min[d] += margin;
    middle.max[d] -= margin;
  }
  return middle;
}

/* An interior has so many items at least; 0: there is none. An item is taken to
 * touch an element by each access. */
static int64_t least_items(const cel_task *task, int64_t bytes) {
  int64_t each = 0;
  for (uint32_t a = 0; a < task->accesses; ++a)
    each += task->access[a].buffer->element_size;
  if (bytes < 0) bytes = -bytes;
  return each == 0 ? 0 : (bytes + each - 1) / each;
}

/* Finds the interior; false where there is none, or it is too small, or the
 * part lacks nothing. */
static cel_status find(cel_instr_graph *graph, const cel__part *part,
                       cel_box *out, bool *found) {
  const cel_box *chunk = &part->chunk;
  const cel_split_kind *permitted = &graph->plan.command->task->permitted;
  int64_t bytes = graph->config.interior_bytes;
  int64_t least = least_items(graph->plan.command->task, bytes);
  bool always = bytes < 0, lacks = false;
  *found = false;
  if (!permitted->cut[0] && !permitted->cut[1] && !permitted->cut[2])
    return CEL_E_OK;
  if (least == 0 || cel_box_volume(chunk) < least) return CEL_E_OK;
  cel_box inner = *chunk;
  CEL_TRY(look(graph, part, chunk, &inner, &lacks));
  if (always)
    inner = middle_of(chunk, permitted);
  else if (!lacks)
    return CEL_E_OK;
  to_cuts(chunk, permitted, &inner);
  if (cel_box_equal(&inner, chunk) || cel_box_is_empty(&inner) ||
      cel_box_volume(&inner) < least)
    return CEL_E_OK;
  *out = inner;
  bool inner_lacks = false;
  CEL_TRY(look(graph, part, out, &inner, &inner_lacks));
  *found = always || !inner_lacks;
  return CEL_E_OK;
}

static void add(cel__plan *plan, const cel__part *part, const cel_box *chunk,
                int32_t priority) {
  if (cel_box_is_empty(chunk)) return;
  cel__part piece = *part;
  piece.chunk = *chunk;
  piece.priority = priority;
  piece.continues = priority == CEL__PRIORITY_BOUNDARY;
  cel_vec_push(&plan->parts, piece);
}

cel_status cel__interior_cut(cel_instr_graph *graph, const cel__part *part) {
  cel__plan *plan = &graph->plan;
  cel_box inner;
  bool found;
  CEL_TRY(find(graph, part, &inner, &found));
  if (!found) {
    cel_vec_push(&plan->parts, *part);
    return CEL_E_OK;
  }
  add(plan, part, &inner, CEL__PRIORITY_RUN);
  cel_box rest = part->chunk; /* without what was peeled off */
  for (int d = 0; d < CEL_DIMS; ++d) {
    cel_box below = rest, above = rest;
    below.max[d] = rest.min[d] = inner.min[d];
    above.min[d] = rest.max[d] = inner.max[d];
    add(plan, part, &below, CEL__PRIORITY_BOUNDARY);
    add(plan, part, &above, CEL__PRIORITY_BOUNDARY);
  }
  return CEL_E_OK;
}
