#include "instr/state.h"

#include "base/confined.h"

void cel__record_bury(cel_instr_graph *graph, cel__record *record) {
  cel_track_destroy(record->track);
  record->track = NULL;
  cel_eras_keep(&graph->eras, record);
}

void cel_instr_graph_retire(cel_instr_graph *graph, uint64_t id) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  cel_eras_retire(&graph->eras, id);
}

/* ---- instructions -------------------------------------------------------- */

cel_instr *cel__instr_begin(cel_instr_graph *graph, cel_instr_kind kind,
                            const cel_task *task, int32_t priority) {
  cel_assert(graph->deps.n == 0);
  cel_instr *instr =
      cel_arena_alloc(cel_eras_arena(&graph->eras), sizeof *instr);
  *instr = (cel_instr){.id = graph->front.next,
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
  if (deps->n == 0 && !bound)
    cel_deps_add(deps, graph->front.floor, CEL_DEP_ORDER);
  cel_front_add(&graph->front, deps);
  instr->deps = deps->n;
  instr->dep = cel_arena_copy(cel_eras_arena(&graph->eras), deps->at,
                              deps->n * sizeof(cel_dep));
  cel_deps_clear(deps);
  if (graph->config.emit != NULL)
    graph->config.emit(graph->config.context, instr);
}

void cel__instr_bound(cel_instr_graph *graph, const cel_command *command) {
  bool epoch = command->kind == CEL_COMMAND_EPOCH;
  cel_instr *instr =
      cel__instr_begin(graph, epoch ? CEL_INSTR_EPOCH : CEL_INSTR_HORIZON,
                       command->task, CEL__PRIORITY_RUN);
  cel_front_collect(&graph->front, &graph->deps);
  cel__instr_end(graph, instr);
  cel_front_barrier(&graph->front, epoch);
  if (epoch) cel__rooms_settle(graph);
  cel_eras_close(&graph->eras, instr->id);
}

/* ---- life ---------------------------------------------------------------- */

static void drop_record(void *record) {
  cel__record_destroy(record);
}

void cel__nodes_init(cel_instr_graph *graph) {
  cel_front_init(&graph->front);
  cel_eras_init(&graph->eras, drop_record);
}

void cel__nodes_release(cel_instr_graph *graph) {
  cel_eras_release(&graph->eras);
  cel_front_release(&graph->front);
  cel_deps_release(&graph->deps);
}
