#include <string.h>

#include "instr/state.h"

/* ---- batches ------------------------------------------------------------- */

static cel__batch *batch_open(cel_instr_graph *graph) {
  if (graph->spare.n > 0) return cel_vec_pop(&graph->spare);
  cel__batch *batch = cel_alloc_zero(sizeof *batch);
  cel_arena_init(&batch->arena);
  return batch;
}

static void batch_clear(cel__batch *batch) {
  for (uint32_t i = 0; i < batch->freed.n; ++i)
    cel__record_destroy(batch->freed.at[i]);
  cel_vec_clear(&batch->freed);
  cel_arena_clear(&batch->arena);
}

static void batch_destroy(cel__batch *batch) {
  batch_clear(batch);
  cel_arena_release(&batch->arena);
  cel_vec_release(&batch->freed);
  cel_free(batch);
}

static size_t batch_bytes(const cel__batch *batch) {
  return sizeof *batch + cel_arena_bytes(&batch->arena) +
         batch->freed.cap * sizeof(cel__record *);
}

void cel__batch_bury(cel_instr_graph *graph, cel__record *record) {
  cel_track_destroy(record->track);
  record->track = NULL;
  cel_vec_push(&graph->open->freed, record);
}

void cel_instr_graph_retire(cel_instr_graph *graph, uint64_t id) {
  uint32_t n = 0;
  while (n < graph->closed.n && graph->closed.at[n]->last < id) ++n;
  for (uint32_t i = 0; i < n; ++i) {
    batch_clear(graph->closed.at[i]);
    cel_vec_push(&graph->spare, graph->closed.at[i]);
  }
  graph->closed.n -= n;
  memmove(graph->closed.at, graph->closed.at + n,
          graph->closed.n * sizeof(cel__batch *));
}

/* ---- instructions -------------------------------------------------------- */

cel_instr *cel__instr_begin(cel_instr_graph *graph, cel_instr_kind kind,
                            const cel_task *task, int32_t priority) {
  cel_assert(graph->deps.n == 0);
  cel_instr *instr = cel_arena_alloc(&graph->open->arena, sizeof *instr);
  *instr = (cel_instr){.id = graph->next++,
                       .kind = kind,
                       .device = -1,
                       .priority = priority,
                       .task = task};
  return instr;
}

void cel__instr_end(cel_instr_graph *graph, cel_instr *instr) {
  cel_deps *deps = &graph->deps;
  bool bound =
      instr->kind == CEL_INSTR_HORIZON || instr->kind == CEL_INSTR_EPOCH;
  if (deps->n == 0 && !bound) cel_deps_add(deps, graph->floor, CEL_DEP_ORDER);
  for (uint32_t i = 0; i < deps->n; ++i) {
    cel_assert(deps->at[i].id >= graph->floor && deps->at[i].id < instr->id);
    graph->succeeded.at[deps->at[i].id - graph->floor] = true;
  }
  instr->deps = deps->n;
  instr->dep =
      cel_arena_copy(&graph->open->arena, deps->at, deps->n * sizeof(cel_dep));
  cel_deps_clear(deps);
  cel_vec_push(&graph->succeeded, false);
  if (graph->config.emit != NULL)
    graph->config.emit(graph->config.context, instr);
}

/* Nobody has to know of instructions before `id` any more. Trackers follow
 * when they are touched. */
static void apply(cel_instr_graph *graph, uint64_t id) {
  uint32_t gone = (uint32_t)(id - graph->floor);
  graph->succeeded.n -= gone;
  memmove(graph->succeeded.at, graph->succeeded.at + gone,
          graph->succeeded.n * sizeof(bool));
  graph->floor = id;
}

void cel__instr_bound(cel_instr_graph *graph, const cel_command *command) {
  bool epoch = command->kind == CEL_COMMAND_EPOCH;
  cel_instr *instr =
      cel__instr_begin(graph, epoch ? CEL_INSTR_EPOCH : CEL_INSTR_HORIZON,
                       command->task, CEL__PRIORITY_RUN);
  /* What is older than the last horizon has that one as a successor. */
  for (uint32_t i = 0; i < graph->succeeded.n; ++i)
    if (!graph->succeeded.at[i])
      cel_deps_add(&graph->deps, graph->floor + i, CEL_DEP_ORDER);
  uint64_t id = instr->id;
  cel__instr_end(graph, instr);
  if (id != 1) apply(graph, epoch ? id : graph->last_horizon);
  graph->last_horizon = id;
  graph->open->last = id;
  cel_vec_push(&graph->closed, graph->open);
  graph->open = batch_open(graph);
}

/* ---- life ---------------------------------------------------------------- */

void cel__nodes_init(cel_instr_graph *graph) {
  graph->next = graph->floor = graph->last_horizon = 1;
  graph->open = batch_open(graph);
}

void cel__nodes_release(cel_instr_graph *graph) {
  batch_destroy(graph->open);
  for (uint32_t i = 0; i < graph->closed.n; ++i)
    batch_destroy(graph->closed.at[i]);
  for (uint32_t i = 0; i < graph->spare.n; ++i)
    batch_destroy(graph->spare.at[i]);
  cel_vec_release(&graph->closed);
  cel_vec_release(&graph->spare);
  cel_vec_release(&graph->succeeded);
  cel_deps_release(&graph->deps);
}

size_t cel__nodes_bytes(const cel_instr_graph *graph) {
  size_t sum = batch_bytes(graph->open) + graph->succeeded.cap;
  for (uint32_t i = 0; i < graph->closed.n; ++i)
    sum += batch_bytes(graph->closed.at[i]);
  for (uint32_t i = 0; i < graph->spare.n; ++i)
    sum += batch_bytes(graph->spare.at[i]);
  return sum;
}
