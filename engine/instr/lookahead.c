#include "instr/graph.h"
#include "tuning.h"

/* Announces what the planned command needs; whether that is new. Initial
 * contents are made in host memory: a wish for it costs nothing if unused. */
static bool want_all(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  bool news = false;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (cel_box_is_empty(&touch->hull)) continue;
    news |= cel__memory_want(graph->memories, touch->buffer, touch->memory,
                             &touch->hull);
    if (touch->consumes && touch->buffer->init != NULL)
      cel__memory_want(graph->memories, touch->buffer, CEL_MEMORY_HOST,
                       &touch->hull);
  }
  return news;
}

static void hold(cel_instr_graph *graph, const cel_command *command) {
  cel__lookahead *ahead = &graph->lookahead;
  uint64_t lap = command->task->lap;
  if (ahead->held.n == 0) ahead->first = lap;
  if (want_all(graph) || ahead->held.n == 0) ahead->news = lap;
  cel_vec_push(&ahead->held, command);
}

/* Whether what is held goes out before something of that lap. */
static bool is_due(const cel__lookahead *ahead, uint64_t lap) {
  return ahead->held.n > 0 && (lap >= ahead->news + CEL_TUNE_QUIET_LAPS ||
                               lap >= ahead->first + CEL_TUNE_HELD_LAPS);
}

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command) {
  bool epoch = command->kind == CEL_COMMAND_EPOCH;
  if (epoch || is_due(&graph->lookahead, command->task->lap))
    CEL_TRY(cel__lookahead_flush(graph));
  if (graph->lookahead.held.n == 0 && cel__again_play(graph, command))
    return CEL_E_OK;
  CEL_TRY(cel__plan_make(graph, command));
  bool ahead = graph->config.lookahead && !epoch;
  /* Whether it needs memory that is not there; else it is placed then. */
  bool holds = ahead && graph->lookahead.held.n > 0;
  bool allocates =
      !holds && !graph->plan.placed && !cel__memory_place(graph->memories);
  if (holds || (ahead && allocates)) {
    hold(graph, command);
    return CEL_E_OK;
  }
  if (allocates) want_all(graph);
  cel_status status = cel__generate(graph);
  cel__memory_forget(graph->memories);
  return status;
}

cel_status cel__lookahead_flush(cel_instr_graph *graph) {
  cel__lookahead *ahead = &graph->lookahead;
  cel_status status = CEL_E_OK;
  for (uint32_t i = 0; i < ahead->held.n && status == CEL_E_OK; ++i) {
    status = cel__plan_make(graph, ahead->held.at[i]);
    if (status == CEL_E_OK) status = cel__generate(graph);
  }
  cel_vec_clear(&ahead->held);
  cel__memory_forget(graph->memories);
  return status;
}
