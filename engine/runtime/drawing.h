/* drawing.h -- the nodes of one of the three graphs, kept for whoever draws
 * them.
 *
 * Each node is described when it is emitted, since it is retired later: its
 * boxes and buffers become lines of text. The first `most` nodes are kept.
 * Cost: some 500 bytes a node. Threads: the graph's thread adds (main for
 * tasks, else the scheduler); main reads when nothing is under way.
 */
#ifndef CEL_RUNTIME_DRAWING_H
#define CEL_RUNTIME_DRAWING_H

#include "runtime/engine.h"

typedef enum cel_drawn {
  CEL_DRAWN_TASKS,
  CEL_DRAWN_COMMANDS,
  CEL_DRAWN_INSTRS
} cel_drawn;

typedef struct cel_drawn_node {
  uint64_t id, task; /* task: what it serves; of a task its own id */
  const char *kind;  /* "kernel", "push", "copy", ... */
  const char *name;  /* the task's, the drawing's; null: none */
  const char *text;  /* lines: what it does to which boxes */
  cel_location location;
  uint32_t deps;
  const cel_dep *dep;
  /* Of a host task that is carried out, in the order that it is given them;
   * objects may be gone. */
  uint32_t effects;
  const cel_effect *effect;
  const cel_object *ended; /* of which there is nothing after it; or null */
} cel_drawn_node;

typedef struct cel_drawing cel_drawing;

/* The caller owns the result. Thread: main. */
cel_drawing *cel_drawing_create(cel_drawn graph, uint32_t most);
void cel_drawing_destroy(cel_drawing *drawing);
/* Has an engine show the drawing its nodes; before it is created. */
void cel_drawing_attach(cel_drawing *drawing, cel_engine_config *config);
/* Whether there have been more nodes than it keeps. Thread: any. */
bool cel_drawing_is_full(const cel_drawing *drawing);
/* In the order of their ids; *left_out: how many more there were. */
uint32_t cel_drawing_nodes(const cel_drawing *drawing,
                           const cel_drawn_node **out, uint64_t *left_out);
/* Which earlier nodes exclude node number `at`, as numbers in the same order:
 * conflicts that no dependencies settle. Valid until the next call. */
uint32_t cel_drawing_conflicts(cel_drawing *drawing, uint32_t at,
                               const uint32_t **out);
#endif
