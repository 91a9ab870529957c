/* What goes to many ranks, or comes from many, makes boxes: then the plan has
 * these, in place of their parts.
 *
 * Of what comes, the messages are one RECEIVE. Else each part has a writer and
 * a state of its own in the tracker, and whoever reads all of it depends on
 * every message, until a horizon is applied: where each step reads what all
 * have sent in all steps before (RSIM), that is several times the messages of a
 * step, in every step. What goes is copied to where it leaves from as a whole,
 * if that is little.
 *
 * Only where many ranks' parts make a box: then nobody is likely to read one of
 * them alone, and to wait for the others in vain. */
#include "instr/graph.h"

/* Takes the pieces of the first one's buffer out, what ranks get alike once,
 * and returns of how many ranks they are. */
static uint32_t take_buffer(cel__gathered *all) {
  const cel_buffer *buffer = all->pieces.at[0].buffer;
  uint32_t kept = 0, peers = 0;
  int64_t last = -1;
  cel_vec_clear(&all->boxes);
  for (uint32_t i = 0; i < all->pieces.n; ++i) {
    const cel__gathered_piece *piece = &all->pieces.at[i];
    if (piece->buffer != buffer) {
      all->pieces.at[kept++] = *piece;
      continue;
    }
    if (all->boxes.n == 0 ||
        !cel_box_equal(&cel_vec_last(&all->boxes), &piece->box))
      cel_vec_push(&all->boxes, piece->box);
    peers += piece->peer != last;
    last = piece->peer;
  }
  all->pieces.n = kept;
  cel_region_assign(&all->together, all->boxes.at, all->boxes.n);
  return peers;
}

/* Whether each part lies in one of the boxes. */
static bool are_parts(const cel__gathered *all) {
  const cel_region *boxes = &all->together;
  uint32_t at = 0;
  for (uint32_t i = 0; i < all->boxes.n; ++i) {
    const cel_box *part = &all->boxes.at[i];
    uint32_t tried = 0;
    for (; tried < boxes->n && !cel_box_covers(&boxes->at[at], part); ++tried)
      at = (at + 1) % boxes->n;
    if (tried == boxes->n) return false;
  }
  return true;
}

/* Whether parts from so many ranks are to be the boxes that they make. */
static bool is_worth_it(const cel_instr_graph *graph, const cel_buffer *buffer,
                        uint32_t peers, bool out) {
  const cel__gathered *all = &graph->gathered;
  uint64_t most = graph->config.large_bytes / buffer->element_size;
  return all->together.n > 0 &&
         peers / graph->config.together_peers >= all->together.n &&
         (!out || (uint64_t)cel_region_volume(&all->together) <= most) &&
         are_parts(all);
}

static void collect(cel_instr_graph *graph) {
  cel__gathered *all = &graph->gathered;
  const cel__plan *plan = &graph->plan;
  cel_vec_clear(&all->pieces);
  for (uint32_t i = plan->first; i < plan->last; ++i) {
    const cel__carried *carried = &plan->carried.at[i];
    const cel_message *m = carried->message;
    for (uint32_t p = 0; p < m->pieces && !carried->direct; ++p)
      cel_vec_push(
          &all->pieces,
          (cel__gathered_piece){m->peer, m->piece[p].buffer, m->piece[p].box});
  }
}

/* Touches for boxes; all of it is in host memory. */
static void touch_boxes(cel_instr_graph *graph, const cel_buffer *buffer,
                        const cel_box *box, uint32_t n, bool out) {
  for (uint32_t b = 0; b < n; ++b)
    cel__plan_touch_box(graph, buffer, CEL_MEMORY_HOST, out, &box[b]);
}

static bool is_whole(const cel__gathered *all, const cel_buffer *buffer) {
  for (uint32_t i = 0; i < all->whole.n; ++i)
    if (all->whole.at[i] == buffer) return true;
  return false;
}

/* Messages that bring parts of those boxes are one RECEIVE, with all that they
 * bring. */
static void mark_messages(cel_instr_graph *graph) {
  cel__plan *plan = &graph->plan;
  const cel__gathered *all = &graph->gathered;
  uint32_t most = CEL_RECEIVE_MOST;
  for (uint32_t i = plan->first; i < plan->last && most > 0; ++i) {
    cel__carried *carried = &plan->carried.at[i];
    const cel_message *m = carried->message;
    if (carried->direct) continue;
    for (uint32_t p = 0; p < m->pieces; ++p)
      carried->together |= is_whole(all, m->piece[p].buffer);
    if (!carried->together) continue;
    --most;
    for (uint32_t p = 0; p < m->pieces; ++p)
      if (!is_whole(all, m->piece[p].buffer))
        touch_boxes(graph, m->piece[p].buffer, &m->piece[p].box, 1, false);
  }
}

void cel__together_plan(cel_instr_graph *graph, bool out) {
  cel__plan *plan = &graph->plan;
  cel__gathered *all = &graph->gathered;
  cel_vec_clear(&all->whole);
  if (plan->last - plan->first < graph->config.together_peers) return;
  collect(graph);
  while (all->pieces.n > 0) {
    const cel_buffer *buffer = all->pieces.at[0].buffer;
    uint32_t peers = take_buffer(all);
    if (!is_worth_it(graph, buffer, peers, out)) continue;
    touch_boxes(graph, buffer, all->together.at, all->together.n, out);
    cel_vec_push(&all->whole, buffer);
  }
  plan->boxes = plan->used;
  if (out || all->whole.n == 0) return;
  mark_messages(graph);
  plan->together = plan->used;
}
