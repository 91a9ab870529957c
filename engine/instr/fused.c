/* A fold as one KERNEL for each of a rank's devices: its executor has the
 * device carry several steps out in one launch, or one after another, as it
 * likes. A device computes what its steps need beyond its part, as ranks do.
 *
 * Who computes several steps at once must not write where others still read.
 * So of buffers that steps write it may leave what it has made in other memory,
 * and the KERNEL has their allocations for itself. What it does not write there
 * is lost then, but for what it keeps: what lies beyond the range. All within
 * is written by this rank's last step of the buffer, or by that of another
 * rank. */
#include "fold/fold.h"

#include "fold/shape.h"
#include "instr/graph.h"

static bool reaches(const cel_task *task) {
  cel_reach reach;
  for (uint32_t a = 0; a < task->accesses; ++a) {
    if (cel_fold_role_of(&task->access[a], &reach) != CEL_FOLD_AROUND) continue;
    for (int d = 0; d < CEL_DIMS; ++d)
      if (reach.below[d] > 0 || reach.above[d] > 0) return true;
  }
  return false;
}

/* Devices that share one would write where others read. */
static bool have_own_memories(const cel_instr_graph_config *config) {
  uint64_t seen = 0;
  for (int32_t d = 0; d < config->devices; ++d) {
    uint64_t bit = 1ull << config->device_memory[d];
    if ((seen & bit) != 0) return false;
    seen |= bit;
  }
  return true;
}

/* What a device's thread waits for goes step by step, each to a lane for such.
 * Stencils in three dimensions gain nothing by it, and lose that their interior
 * is computed while halos are under way. */
bool cel__fused_suits(const cel_instr_graph *graph,
                      const cel_command *command) {
  const cel_fold *fold = command->task->folded;
  if (!graph->config.fuses || cel_box_is_empty(&command->chunk) ||
      !have_own_memories(&graph->config))
    return false;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_task *step = fold->step[s].task;
    if (step->work->waits || (step->dims > 2 && reaches(step))) return false;
  }
  return true;
}

/* ---- planning ------------------------------------------------------------ */

/* The touch of all that steps touch of a buffer; those of the fold's own
 * accesses come before it. */
static void widen(cel_instr_graph *graph, uint32_t first,
                  const cel_buffer *buffer, int32_t memory,
                  const cel_box *box) {
  cel__plan *plan = &graph->plan;
  if (cel_box_is_empty(box)) return;
  for (uint32_t i = first; i < plan->used; ++i) {
    cel__touch *touch = &plan->touches.at[i];
    if (touch->buffer != buffer || touch->memory != memory) continue;
    touch->hull = cel_box_hull(&touch->hull, box);
    cel_region_assign(&touch->region, &touch->hull, 1);
    return;
  }
  cel__plan_touch_box(graph, buffer, memory, false, box);
  plan->touches.at[plan->used - 1].produces = false;
  plan->touches.at[plan->used - 1].arrives = false;
}

/* What a step that computes `box` touches, around it. Where ends meet, both may
 * leave the range. */
static cel_status view_of(cel_instr_graph *graph, uint32_t p,
                          const cel_access *access, const cel_box *box,
                          cel_box *out) {
  const cel_task *task = graph->plan.command->task;
  const cel_box *range = &task->range;
  cel_box part[CEL_BOX_PARTS];
  cel_reach reach = {0};
  cel_fold_role role = cel_fold_role_of(access, &reach);
  *out = (cel_box){{0}, {0}};
  for (int32_t n = cel_box_on_ring(box, range, part); n-- > 0;) {
    CEL_TRY(cel__plan_touched(graph, p, access, &part[n], &graph->reads));
    cel_box hull = cel_region_hull(&graph->reads);
    *out = cel_box_hull(out, &hull);
  }
  if ((role != CEL_FOLD_AROUND && role != CEL_FOLD_WRITTEN) ||
      cel_box_is_empty(out))
    return CEL_E_OK;
  for (int d = 0; d < task->dims; ++d) {
    int64_t min = box->min[d] - reach.below[d];
    int64_t max = box->max[d] + reach.above[d];
    if (!task->folded->wraps[d] || max - min >= range->max[d] - range->min[d])
      continue;
    out->min[d] = min;
    out->max[d] = max;
  }
  return CEL_E_OK;
}

/* Around its parts within the buffer. */
static cel_box placed(const cel_buffer *buffer, const cel_box *box) {
  cel_box part[CEL_BOX_PARTS], hull = {{0}, {0}};
  for (int32_t n = cel_box_on_ring(box, &buffer->extent, part); n-- > 0;)
    hull = cel_box_hull(&hull, &part[n]);
  return hull;
}

/* By the steps of part p. */
static cel_status touch_steps(cel_instr_graph *graph, uint32_t p,
                              uint32_t own) {
  const cel__part *part = &graph->plan.parts.at[p];
  const cel_fold *fold = graph->plan.command->task->folded;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_task *task = fold->step[s].task;
    cel_box chunk = cel_fold_turning_box(fold, s, &part->chunk), box;
    for (uint32_t a = 0; a < task->accesses; ++a) {
      CEL_TRY(view_of(graph, p, &task->access[a], &chunk, &box));
      widen(graph, own, task->access[a].buffer, part->memory, &box);
      cel_vec_push(&graph->plan.views, box);
    }
  }
  return CEL_E_OK;
}

/* What lies beyond the ends of the range lies at the other ones; and what the
 * fold touches by its own accesses lies in the same allocation. */
static void place_touches(cel_instr_graph *graph, uint32_t own) {
  cel__plan *plan = &graph->plan;
  cel_box part[CEL_BOX_PARTS];
  for (uint32_t i = own; i < plan->used; ++i) {
    cel__touch *touch = &plan->touches.at[i];
    int32_t n = cel_box_on_ring(&touch->hull, &touch->buffer->extent, part);
    cel_region_assign(&touch->region, part, (uint32_t)n);
    for (uint32_t k = 0; k < own; ++k)
      if (plan->touches.at[k].buffer == touch->buffer &&
          plan->touches.at[k].memory == touch->memory)
        cel_region_unite(&touch->region, &touch->region,
                         &plan->touches.at[k].region);
    touch->hull = cel_region_hull(&touch->region);
  }
}

cel_status cel__fused_touch(cel_instr_graph *graph) {
  cel__plan *plan = &graph->plan;
  const uint32_t own = plan->used;
  const bool wraps = cel_fold_wraps(plan->command->task->folded);
  cel_vec_clear(&plan->views);
  for (uint32_t i = 0; i < own && !wraps; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    cel_box box = touch->hull;
    widen(graph, own, touch->buffer, touch->memory, &box);
  }
  for (uint32_t p = 0; p < plan->parts.n; ++p)
    CEL_TRY(touch_steps(graph, p, own));
  if (wraps) place_touches(graph, own);
  return CEL_E_OK;
}

/* ---- emitting ------------------------------------------------------------ */

/* `box`: of each view. */
static void make_step(cel_instr_graph *graph, uint32_t p, int32_t s,
                      const cel_box *box, cel_instr_step *out) {
  const cel__plan *plan = &graph->plan;
  const cel__part *part = &plan->parts.at[p];
  const cel_fold *fold = plan->command->task->folded;
  const cel_task *task = fold->step[s].task;
  cel_place_in *view =
      cel__emission_room(graph->emission, task->accesses * sizeof *view);
  *out = (cel_instr_step){.task = task,
                          .chunk = cel_fold_turning_box(fold, s, &part->chunk),
                          .view = view};
  for (uint32_t a = 0; a < task->accesses; ++a) {
    view[a] = (cel_place_in){.box = box[a]};
    if (cel_box_is_empty(&box[a])) continue;
    cel_box lies = placed(task->access[a].buffer, &box[a]);
    cel__tracked *in = cel__memory_find(graph->memories, task->access[a].buffer,
                                        part->memory, &lies);
    cel_assert(in != NULL);
    view[a].allocation = &in->made;
  }
}

/* What the allocations that part p writes in keep; rows of what it reduces stay
 * where they are. */
static void make_kept(cel_instr_graph *graph, uint32_t p, cel_instr_fold *out) {
  const cel__plan *plan = &graph->plan;
  const cel_task *task = plan->command->task;
  CEL_VEC(cel_place_in) kept = {0};
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel__touch *touch = &plan->touches.at[p * task->accesses + a];
    if (!touch->produces || task->access[a].rows > 0) continue;
    cel__coherence_leave(graph->coherence, touch->lies, &task->range,
                         &graph->reads);
    for (uint32_t b = 0; b < graph->reads.n; ++b)
      cel_vec_push(&kept,
                   (cel_place_in){&touch->lies->made, graph->reads.at[b]});
  }
  size_t bytes = kept.n * sizeof *kept.at;
  cel_place_in *keeps = cel__emission_room(graph->emission, bytes);
  if (bytes > 0) memcpy(keeps, kept.at, bytes);
  out->kept = kept.n;
  out->keeps = keeps;
  cel_vec_release(&kept);
}

cel_status cel__fused_emit(cel_instr_graph *graph) {
  const cel_fold *folded = graph->plan.command->task->folded;
  size_t bytes = (size_t)folded->steps * sizeof(cel_instr_step);
  const cel_box *box = graph->plan.views.at;
  for (uint32_t p = 0; p < graph->plan.parts.n; ++p) {
    cel_instr_step *step = cel__emission_room(graph->emission, bytes);
    cel_instr_fold *fold = cel__emission_room(graph->emission, sizeof *fold);
    *fold = (cel_instr_fold){.steps = folded->steps, .step = step};
    for (int32_t s = 0; s < folded->steps; ++s) {
      make_step(graph, p, s, box, &step[s]);
      box += folded->step[s].task->accesses;
    }
    make_kept(graph, p, fold);
    cel__emit_fold(graph->emission, &graph->plan, p, fold);
  }
  return CEL_E_OK;
}
