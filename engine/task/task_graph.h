/* task_graph.h -- the task graph: dependencies "as if on one node".
 *
 * Replicated on all ranks: every rank builds the same one from the same
 * submissions. It validates a group, finds its dependencies by tracking whole
 * accesses (the mapper's image of the whole range) and effects, makes horizons
 * and epochs, and emits each node once, in id order, finished.
 *
 * Laps: what waits, or holds back, counts laps of the program, not horizons. A
 * lap ends when the critical path has grown by CEL_TUNE_LAP_STEP, or when
 * CEL_TUNE_LAP_BREADTH tasks were made; a horizon or epoch ends it, too.
 *
 * Horizons: one is made when the critical path has grown by `horizon_step`
 * since the last, or when `horizon_breadth` tasks were made since. The end of a
 * lap makes one, too, if much memory of nodes has come together, or a task
 * whose end main waits for. All of this is alike on all ranks. Making
 * horizon N applies horizon N-1 (the talk on Celerity). Tracking is floored
 * then, so no structure grows without bound. A horizon depends on the whole
 * execution front. An epoch depends on the whole front, is applied at once, and
 * every later node without another true dependency depends on it (Knorr et al.,
 * Declarative Data Flow): no task depends on an ancestor of its preceding
 * epoch. The first node, id 1, is an epoch.
 *
 * Retirement: nodes made after horizon N-1 up to and including N live in one
 * arena; cel_task_graph_retire(id) frees every arena whose nodes are all older
 * than the horizon or epoch `id`, known to have been executed. Works are
 * released then.
 * Pure. Thread: main.
 */
#ifndef CEL_TASK_TASK_GRAPH_H
#define CEL_TASK_TASK_GRAPH_H

#include "base/operator.h"
#include "task/task.h"

typedef struct cel_task_graph cel_task_graph;

typedef struct cel_task_graph_config {
  int64_t ranks;    /* for CEL_PLACE_EACH and for weights */
  int64_t reducing; /* devices of a rank that reduce; default 1 */
  bool in_place;    /* one that is alone may reduce where the result belongs */
  bool collectives; /* what all ranks exchange is one step */
  cel_all_reduces all_reduces; /* and so is an all-reduce, there */
  bool alike;                  /* devices of all ranks are of one kind */
  cel_rules *rules;            /* for reductions; may be null without any */
  int32_t horizon_step;        /* default CEL_TUNE_HORIZON_STEP */
  int32_t horizon_breadth;     /* default CEL_TUNE_HORIZON_BREADTH */
  bool audited; /* accesses are told what they read of what nobody wrote, and
                   nobody is warned of it */
  /* Called for each finished node, in id order. */
  void (*emit)(void *context, const cel_task *task);
  /* Called for a warning about the user's program (an uninitialised read);
   * may be null. */
  void (*warn)(void *context, const cel_task *task, const char *text);
  /* Makes and frees the buffers of partial results (see reduce.h), as a program
   * does its own; null without reductions. The buffer takes `init`. */
  const cel_buffer *(*make)(void *context, int32_t dims,
                            const int64_t extent[3], uint32_t element_size,
                            const char *name, cel_init *init);
  void (*drop)(void *context, const cel_buffer *buffer);
  void *context;
} cel_task_graph_config;

cel_task_graph *cel_task_graph_create(const cel_task_graph_config *config);
void cel_task_graph_destroy(cel_task_graph *graph);

/* Validates and adds a group. A kernel's item that touches nothing but buffers
 * of 0 dimensions becomes every rank's (CEL_PLACE_ALL) where that makes no
 * difference, so that its results need not travel. `*id` becomes its task's id,
 * 0 for an empty range. Errors (nothing is added then): CEL_E_OVERLAP when a
 * write is refuted as non-overlapping under the permitted splits,
 * CEL_E_ARGUMENT when a read is refuted as a union homomorphism, CEL_E_RANGE
 * when a mapper leaves the buffer. Proofs are cached by (rule, parameters'
 * effect, range, permitted). The error carries the group's location. */
cel_status cel_task_graph_submit(cel_task_graph *graph, const cel_group *group,
                                 uint64_t *id);
/* Adds an epoch and returns its id. */
uint64_t cel_task_graph_epoch(cel_task_graph *graph, cel_location location);
/* The buffer is not mentioned again. */
void cel_task_graph_free(cel_task_graph *graph, const cel_buffer *buffer);
/* The object is not mentioned again. */
void cel_task_graph_end(cel_task_graph *graph, const cel_object *object);
void cel_task_graph_retire(cel_task_graph *graph, uint64_t id);
/* Bytes held, for the memory benchmark. */
size_t cel_task_graph_bytes(const cel_task_graph *graph);

#endif
