/* What many messages bring for one task counts as written by one: a JOIN after
 * them. Else each part of it has a writer and a state of its own in the
 * tracker, and whoever reads all of it depends on every message, until a
 * horizon is applied: where each step reads what all have sent in all steps
 * before (RSIM), that is several times the messages of a step, in every step.
 *
 * Only where many parts make a box: then nobody is likely to read one of them
 * alone, and to wait for the others in vain. */
#include "instr/graph.h"

void cel__join_note(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->memory != CEL_MEMORY_HOST) continue;
    cel_piece piece = {touch->buffer, touch->hull};
    cel_vec_push(&graph->arrivals.pieces, piece);
  }
}

/* Takes out what arrived of the first piece's buffer. */
static const cel_buffer *take_buffer(cel__arrivals *all) {
  const cel_buffer *buffer = all->pieces.at[0].buffer;
  uint32_t kept = 0;
  cel_vec_clear(&all->boxes);
  for (uint32_t i = 0; i < all->pieces.n; ++i) {
    const cel_piece *piece = &all->pieces.at[i];
    if (piece->buffer == buffer)
      cel_vec_push(&all->boxes, piece->box);
    else
      all->pieces.at[kept++] = *piece;
  }
  all->pieces.n = kept;
  cel_region_assign(&all->together, all->boxes.at, all->boxes.n);
  return buffer;
}

static void make(cel_instr_graph *graph, const cel_buffer *buffer) {
  const cel_region *boxes = &graph->arrivals.together;
  for (uint32_t b = 0; b < boxes->n; ++b) {
    cel__tracked *in;
    cel_box part;
    for (uint32_t next = 0;
         (in = cel__memory_meets(graph->memories, buffer, CEL_MEMORY_HOST,
                                 &boxes->at[b], &next, &part)) != NULL;)
      cel__emit_write(graph->emission, in, &part);
  }
  cel__emit_join(graph->emission);
}

void cel__join_make(cel_instr_graph *graph) {
  cel__arrivals *all = &graph->arrivals;
  uint32_t least = graph->config.join_parts;
  if (all->pieces.n < least) cel_vec_clear(&all->pieces);
  while (all->pieces.n > 0) {
    const cel_buffer *buffer = take_buffer(all);
    if (all->boxes.n / least >= all->together.n) make(graph, buffer);
  }
}
