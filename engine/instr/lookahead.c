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

static cel_status hold(cel_instr_graph *graph, const cel_command *command) {
  cel__lookahead *ahead = &graph->lookahead;
  cel_vec_push(&ahead->held, command);
  if (want_all(graph)) ahead->quiet_horizons = 0;
  if (command->kind != CEL_COMMAND_HORIZON) return CEL_E_OK;
  ++ahead->horizons;
  ++ahead->quiet_horizons;
  if (ahead->quiet_horizons < CEL_TUNE_QUIET_HORIZONS &&
      ahead->horizons < CEL_TUNE_HELD_HORIZONS)
    return CEL_E_OK;
  return cel__lookahead_flush(graph);
}

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command) {
  bool epoch = command->kind == CEL_COMMAND_EPOCH;
  if (epoch) CEL_TRY(cel__lookahead_flush(graph));
  CEL_TRY(cel__plan_make(graph, command));
  bool ahead = graph->config.lookahead && !epoch;
  if (ahead && graph->lookahead.held.n > 0) return hold(graph, command);
  /* Whether it needs memory that is not there; else it is placed then. */
  bool allocates = !graph->plan.placed && !cel__memory_place(graph->memories);
  if (ahead && allocates) return hold(graph, command);
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
  ahead->horizons = ahead->quiet_horizons = 0;
  cel__memory_forget(graph->memories);
  return status;
}
