#include <string.h>

#include "instr/state.h"
#include "tuning.h"

/* Whether the planned command needs memory that is not there; else it is placed
 * then. */
static bool would_allocate(cel_instr_graph *graph) {
  return !(graph->plan.placed || cel__need_find(graph));
}

/* Announces what the planned command needs; whether that is new. Initial
 * contents are made in host memory: a wish for it costs nothing if unused. */
static bool want_all(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  bool news = false;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (cel_box_is_empty(&touch->hull)) continue;
    news |= cel__memory_want(graph, touch->buffer, touch->memory, &touch->hull);
    if (touch->consumes && touch->buffer->init != NULL)
      cel__memory_want(graph, touch->buffer, CEL_MEMORY_HOST, &touch->hull);
  }
  return news;
}

static cel_status hold(cel_instr_graph *graph, const cel_command *command) {
  cel_vec_push(&graph->held, command);
  if (want_all(graph)) graph->quiet_horizons = 0;
  if (command->kind != CEL_COMMAND_HORIZON) return CEL_E_OK;
  ++graph->held_horizons;
  ++graph->quiet_horizons;
  if (graph->quiet_horizons < CEL_TUNE_QUIET_HORIZONS &&
      graph->held_horizons < CEL_TUNE_HELD_HORIZONS)
    return CEL_E_OK;
  return cel__lookahead_flush(graph);
}

/* Emits the planned command at once. */
static cel_status pass(cel_instr_graph *graph) {
  bool allocates = would_allocate(graph);
  if (allocates) want_all(graph);
  cel_status status = cel__generate(graph);
  if (graph->wanted.n > 0) cel__memory_forget(graph);
  return status;
}

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command) {
  bool epoch = command->kind == CEL_COMMAND_EPOCH;
  if (epoch) CEL_TRY(cel__lookahead_flush(graph));
  CEL_TRY(cel__plan_make(graph, command));
  bool holds = graph->config.lookahead && !epoch &&
               (graph->held.n > 0 || would_allocate(graph));
  if (holds) return hold(graph, command);
  return pass(graph);
}

cel_status cel__lookahead_flush(cel_instr_graph *graph) {
  cel_status status = CEL_E_OK;
  for (uint32_t i = 0; i < graph->held.n && status == CEL_E_OK; ++i) {
    status = cel__plan_make(graph, graph->held.at[i]);
    if (status == CEL_E_OK) status = cel__generate(graph);
  }
  cel_vec_clear(&graph->held);
  graph->held_horizons = graph->quiet_horizons = 0;
  cel__memory_forget(graph);
  return status;
}
