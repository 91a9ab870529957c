/* window.h -- the executor's state of each instruction, by id.
 *
 * A ring of nodes for the ids [base, next). Ids come in order without gaps;
 * base moves up to the newest completed horizon, so the ring stays as short as
 * what is under way. Edges to successors come from a pool.
 *
 * Invariants: an id below base is complete; `incomplete` counts the
 * dependencies that are not DONE, `unissued` those that are not even ISSUED, so
 * unissued <= incomplete.
 * Cost: O(1) per id and per dependency; memory grows to what was under way at
 * most, then stays. Confined to the executor.
 */
#ifndef CEL_EXEC_WINDOW_H
#define CEL_EXEC_WINDOW_H

#include "base/vec.h"
#include "exec/translate.h"
#include "instr/instr.h"

typedef enum cel_node_state {
  CEL_NODE_WAITING,
  CEL_NODE_READY,  /* in a heap */
  CEL_NODE_POSTED, /* a chained message that is not in a lane yet */
  CEL_NODE_ISSUED,
  CEL_NODE_RETURNED, /* but not all that it depends on */
  CEL_NODE_DONE
} cel_node_state;

enum { CEL_NO_LANE = -1, CEL_NO_EDGE = -1 };

typedef struct cel_node {
  const cel_instr *instr;
  cel_record *record; /* while ISSUED to somebody */
  uint32_t incomplete, unissued;
  int32_t successors;   /* first edge */
  uint64_t nth;         /* job of that lane, from 1; while ISSUED there */
  int16_t device, lane; /* of a backend; CEL_NO_LANE: none, or none yet */
  int16_t host;         /* a host lane that others may follow in, likewise */
  uint8_t state;
} cel_node;

typedef struct cel_edge {
  uint64_t to;
  int32_t next;
} cel_edge;

typedef struct cel_window {
  cel_node *ring;
  uint32_t mask; /* capacity - 1; capacity is 0 or a power of two */
  uint32_t capacity;
  uint64_t base, next;
  CEL_VEC(cel_edge) edges;
  int32_t free_edge;
} cel_window;

void cel_window_init(cel_window *window);
void cel_window_release(cel_window *window);
/* Adds the next id and counts and links its dependencies. */
cel_node *cel_window_add(cel_window *window, const cel_instr *instr);
/* Null for an id below base. */
static inline cel_node *cel_window_node(cel_window *window, uint64_t id) {
  return id < window->base ? NULL : &window->ring[id & window->mask];
}
/* Frees a node's successor list. */
void cel_window_drop_edges(cel_window *window, cel_node *node);
/* Everything below `id` is complete; asserts it. */
void cel_window_advance(cel_window *window, uint64_t id);
/* Asserts the invariants: what nodes count of their dependencies, and that each
 * edge is some node's or free. O(edges and dependencies). */
void cel_window_check(cel_window *window);

#endif
