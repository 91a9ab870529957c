#include "instr/state.h"

/* What is left of a chunk along dimension 0. */
typedef struct rows {
  int64_t begin, end;
} rows;

/* Whether the chunk lacks part of what the task reads; where it does, *inner
 * shrinks by as much as the read box goes beyond the chunk, which is right for
 * a halo and is tried out for anything else. */
static cel_status look(cel_instr_graph *graph, const cel__part *part,
                       const cel_box *chunk, rows *inner, bool *lacks) {
  const cel_task *task = graph->plan.command->task;
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_access *access = &task->access[a];
    if (!cel_mode_consumes(access->mode)) continue;
    CEL_TRY(cel_rule_eval(&access->use, chunk, &graph->reads));
    if (!cel__coherence_lacks(graph, access->buffer, part->memory,
                              &graph->reads))
      continue;
    *lacks = true;
    cel_box hull = cel_region_hull(&graph->reads);
    int64_t below = chunk->min[0] - hull.min[0];
    int64_t above = hull.max[0] - chunk->max[0];
    if (below > 0 && inner->begin < chunk->min[0] + below)
      inner->begin = chunk->min[0] + below;
    if (above > 0 && inner->end > chunk->max[0] - above)
      inner->end = chunk->max[0] - above;
  }
  return CEL_E_OK;
}

/* Inwards to where the task may be cut. */
static rows at_cuts(const cel_box *chunk, rows inner, int64_t granularity) {
  int64_t g = granularity < 1 ? 1 : granularity, from = chunk->min[0];
  if (inner.end < chunk->max[0]) inner.end -= (inner.end - from) % g;
  inner.begin += (g - (inner.begin - from) % g) % g;
  return inner;
}

/* The middle half, as if something lay on both sides. */
static rows middle_of(const cel_box *chunk) {
  int64_t margin = (chunk->max[0] - chunk->min[0] + 3) / 4;
  return (rows){chunk->min[0] + margin, chunk->max[0] - margin};
}

/* Finds the interior; false where there is none, or it is too small, or the
 * part lacks nothing. */
static cel_status find(cel_instr_graph *graph, const cel__part *part, rows *out,
                       bool *found) {
  const cel_box *chunk = &part->chunk;
  const cel_task *task = graph->plan.command->task;
  int64_t least = graph->config.interior_items;
  bool always = least < 0, lacks = false;
  *found = false;
  if (always) least = -least;
  if (least == 0 || !task->permitted.cut[0]) return CEL_E_OK;
  if (cel_box_volume(chunk) < least) return CEL_E_OK;
  rows inner = {chunk->min[0], chunk->max[0]};
  CEL_TRY(look(graph, part, chunk, &inner, &lacks));
  if (always)
    inner = middle_of(chunk);
  else if (!lacks)
    return CEL_E_OK;
  inner = at_cuts(chunk, inner, task->permitted.granularity[0]);
  cel_box box = *chunk;
  box.min[0] = inner.begin;
  box.max[0] = inner.end;
  bool whole = inner.begin == chunk->min[0] && inner.end == chunk->max[0];
  if (whole || inner.begin >= inner.end || cel_box_volume(&box) < least)
    return CEL_E_OK;
  *out = inner;
  bool inner_lacks = false;
  CEL_TRY(look(graph, part, &box, &inner, &inner_lacks));
  *found = always || !inner_lacks;
  return CEL_E_OK;
}

static void add(cel__plan *plan, const cel__part *part, int64_t begin,
                int64_t end, int32_t priority) {
  if (begin >= end) return;
  cel__part piece = *part;
  piece.chunk.min[0] = begin;
  piece.chunk.max[0] = end;
  piece.priority = priority;
  cel_vec_push(&plan->parts, piece);
}

cel_status cel__interior_cut(cel_instr_graph *graph, const cel__part *part) {
  cel__plan *plan = &graph->plan;
  rows inner;
  bool found;
  CEL_TRY(find(graph, part, &inner, &found));
  if (!found) {
    cel_vec_push(&plan->parts, *part);
    return CEL_E_OK;
  }
  const cel_box *chunk = &part->chunk;
  add(plan, part, inner.begin, inner.end, CEL__PRIORITY_RUN);
  add(plan, part, chunk->min[0], inner.begin, CEL__PRIORITY_BOUNDARY);
  add(plan, part, inner.end, chunk->max[0], CEL__PRIORITY_BOUNDARY);
  return CEL_E_OK;
}
