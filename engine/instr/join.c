/* What many messages bring for one task counts as written by one: a JOIN after
 * them. Else each part of it has a writer and a state of its own in the
 * tracker, and whoever reads all of it depends on every message, until a
 * horizon is applied: where each step reads what all have sent in all steps
 * before (RSIM), that is several times the messages of a step, in every step.
 *
 * Only where many parts make a box: then nobody is likely to read one of them
 * alone, and to wait for the others in vain. */
#include "instr/state.h"

void cel__join_note(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->memory != CEL_MEMORY_HOST) continue;
    cel_piece piece = {touch->buffer, touch->hull};
    cel_vec_push(&graph->arrived, piece);
  }
}

/* Takes what arrived of the first piece's buffer into graph->boxes. */
static const cel_buffer *take_buffer(cel_instr_graph *graph) {
  const cel_buffer *buffer = graph->arrived.at[0].buffer;
  uint32_t kept = 0;
  cel_vec_clear(&graph->parts);
  for (uint32_t i = 0; i < graph->arrived.n; ++i) {
    const cel_piece *piece = &graph->arrived.at[i];
    if (piece->buffer == buffer)
      cel_vec_push(&graph->parts, piece->box);
    else
      graph->arrived.at[kept++] = *piece;
  }
  graph->arrived.n = kept;
  cel_region_assign(&graph->boxes, graph->parts.at, graph->parts.n);
  return buffer;
}

static void emit(cel_instr_graph *graph, const cel_buffer *buffer) {
  const cel__layouts *live =
      &cel__held_of(graph, buffer)->in[CEL_MEMORY_HOST].live;
  cel_instr *instr = cel__instr_begin(
      graph, CEL_INSTR_JOIN, graph->plan.command->task, CEL__PRIORITY_RECEIVE);
  for (uint32_t b = 0; b < graph->boxes.n; ++b) {
    const cel_box *box = &graph->boxes.at[b];
    cel__layouts_each(i, live, box) {
      cel_box part;
      if (!cel_box_intersect(box, &live->at[i].layout, &part)) continue;
      cel_track *track = cel__record_track(graph, live->at[i].record);
      cel_track_write(track, &part, instr->id, &graph->deps);
    }
  }
  cel__instr_end(graph, instr);
}

void cel__join_emit(cel_instr_graph *graph) {
  uint32_t least = graph->config.join_parts;
  if (graph->arrived.n < least) cel_vec_clear(&graph->arrived);
  while (graph->arrived.n > 0) {
    const cel_buffer *buffer = take_buffer(graph);
    if (graph->parts.n / least >= graph->boxes.n) emit(graph, buffer);
  }
}
