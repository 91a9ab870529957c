#include "exec/window.h"

void cel_window_init(cel_window *window) {
  *window = (cel_window){.base = 1, .next = 1, .free_edge = CEL_NO_EDGE};
}

void cel_window_release(cel_window *window) {
  cel_free(window->ring);
  cel_vec_release(&window->edges);
  cel_window_init(window);
}

static void grow(cel_window *w) {
  uint32_t capacity = w->capacity == 0 ? 256 : w->capacity * 2;
  cel_node *ring = cel_alloc(capacity * sizeof *ring);
  for (uint64_t id = w->base; id < w->next; ++id)
    ring[id & (capacity - 1)] = w->ring[id & w->mask];
  cel_free(w->ring);
  w->ring = ring;
  w->capacity = capacity;
  w->mask = capacity - 1;
}

static void link(cel_window *w, cel_node *from, uint64_t to) {
  int32_t e = w->free_edge;
  if (e == CEL_NO_EDGE) {
    e = (int32_t)w->edges.n;
    cel_vec_push(&w->edges, (cel_edge){0});
  } else {
    w->free_edge = w->edges.at[e].next;
  }
  w->edges.at[e] = (cel_edge){to, from->successors};
  from->successors = e;
}

cel_node *cel_window_add(cel_window *window, const cel_instr *instr) {
  if (instr->id != window->next)
    cel_bug("instruction %llu came instead of %llu",
            (unsigned long long)instr->id, (unsigned long long)window->next);
  if (window->next - window->base == window->capacity) grow(window);
  window->next++;
  cel_node *node = &window->ring[instr->id & window->mask];
  *node = (cel_node){.instr = instr,
                     .successors = CEL_NO_EDGE,
                     .device = -1,
                     .lane = CEL_NO_LANE,
                     .host = CEL_NO_LANE};
  for (uint32_t i = 0; i < instr->deps; ++i) {
    cel_assert(instr->dep[i].id < instr->id);
    cel_node *dep = cel_window_node(window, instr->dep[i].id);
    if (dep == NULL || dep->state == CEL_NODE_DONE) continue;
    node->incomplete++;
    if (dep->state < CEL_NODE_ISSUED) node->unissued++;
    link(window, dep, instr->id);
  }
  return node;
}

void cel_window_drop_edges(cel_window *window, cel_node *node) {
  while (node->successors != CEL_NO_EDGE) {
    int32_t e = node->successors;
    node->successors = window->edges.at[e].next;
    window->edges.at[e].next = window->free_edge;
    window->free_edge = e;
  }
}

void cel_window_advance(cel_window *window, uint64_t id) {
#ifdef CEL_DEBUG
  for (uint64_t i = window->base; i < id; ++i)
    if (cel_window_node(window, i)->state != CEL_NODE_DONE)
      cel_bug("instruction %llu (%s) is not complete, but horizon %llu is",
              (unsigned long long)i,
              cel_instr_name(cel_window_node(window, i)->instr->kind),
              (unsigned long long)id);
#endif
  if (id > window->base) window->base = id;
}

/* Dependencies in the window that have not come as far as `state`. */
CEL_ASSERTED static uint32_t count_before(cel_window *w, const cel_instr *instr,
                                          cel_node_state state) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < instr->deps; ++i) {
    const cel_node *dep = cel_window_node(w, instr->dep[i].id);
    n += dep != NULL && dep->state < state;
  }
  return n;
}

void cel_window_check(cel_window *window) {
  cel_window *w = window;
  uint32_t edges = 0;
  cel_assert(w->base <= w->next && w->next - w->base <= w->capacity);
  for (uint64_t id = w->base; id < w->next; ++id) {
    const cel_node *node = cel_window_node(w, id);
    cel_assert(node->instr->id == id && node->unissued <= node->incomplete);
    cel_assert(node->incomplete == count_before(w, node->instr, CEL_NODE_DONE));
    cel_assert(node->unissued == count_before(w, node->instr, CEL_NODE_ISSUED));
    cel_assert(node->state != CEL_NODE_DONE || node->incomplete == 0);
    cel_assert(node->state != CEL_NODE_DONE || node->successors == CEL_NO_EDGE);
    for (int32_t i = node->successors; i != CEL_NO_EDGE;
         i = w->edges.at[i].next, ++edges)
      cel_assert(w->edges.at[i].to > id && w->edges.at[i].to < w->next);
  }
  for (int32_t i = w->free_edge; i != CEL_NO_EDGE; i = w->edges.at[i].next)
    ++edges;
  cel_assert(edges == w->edges.n);
}
