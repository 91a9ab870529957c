#include "instr/graph.h"

#include "base/confined.h"
#include "tuning.h"

/* ---- kinds --------------------------------------------------------------- */

static const struct {
  const char *name;
  cel_instr_lane lane;
} kinds[] = {
#define KIND_ROW(NAME, name, lane) {#name, CEL_LANE_##lane},
    CEL_INSTR_KINDS(KIND_ROW)
#undef KIND_ROW
};

const char *cel_instr_name(cel_instr_kind kind) {
  return kinds[kind].name;
}

cel_instr_lane cel_instr_lane_of(cel_instr_kind kind) {
  return kinds[kind].lane;
}

/* ---- execute ------------------------------------------------------------- */

/* Memory for everything first, so that nothing moves later; then what is
 * missing there. */
static cel_status prepare(cel_instr_graph *graph, int32_t priority) {
  CEL_TRY(cel__memory_prepare(graph->memories));
  cel__coherence_fetch(graph->coherence, priority);
  return CEL_E_OK;
}

static cel_status execute_plan(cel_instr_graph *graph) {
  CEL_TRY(prepare(graph, CEL__PRIORITY_MEMORY));
  if (graph->plan.command->task->folded != NULL)
    CEL_TRY(cel__fused_emit(graph));
  else
    for (uint32_t p = 0; p < graph->plan.parts.n; ++p)
      cel__emit_launch(graph->emission, &graph->plan, p);
  cel__coherence_produce(graph->coherence);
  return CEL_E_OK;
}

/* Every other task goes through its rounds backwards: what the one before used
 * last, which is still there, is what it uses first. */
static cel_status execute(cel_instr_graph *graph) {
  int64_t rounds = graph->plan.rounds;
  if (rounds == 1) {
    cel__again_begin(graph);
    cel_status status = execute_plan(graph);
    cel__again_end(graph, status);
    return status;
  }
  cel__coherence_discard(graph->coherence);
  bool backwards = graph->backwards;
  graph->backwards = !backwards;
  for (int64_t i = 0; i < rounds; ++i) {
    CEL_TRY(cel__plan_round(graph, rounds, backwards ? rounds - 1 - i : i));
    CEL_TRY(execute_plan(graph));
  }
  return CEL_E_OK;
}

/* ---- messages and collectives -------------------------------------------- */

/* Where there are direct messages, these and the others are numbered apart, as
 * each way matches its own. */
static uint64_t number(cel_instr_graph *graph, const cel__carried *carried,
                       bool out) {
  const cel_message *message = carried->message;
  const cel_instr_graph_config *c = &graph->config;
  int64_t which = c->far_bytes > 0
                      ? message->peer
                      : cel_rank_find(c->near, c->nears, message->peer);
  cel_assert(which < c->ranks);
  if (which < 0) return message->sequence;
  return graph->numbers[which].messages[out][carried->direct]++;
}

static cel_status planned_messages(cel_instr_graph *graph, int32_t priority) {
  cel__plan *plan = &graph->plan;
  bool out = plan->command->kind == CEL_COMMAND_PUSH;
  CEL_TRY(prepare(graph, priority));
  for (uint32_t i = plan->first; i < plan->last; ++i)
    plan->carried.at[i].nth = number(graph, &plan->carried.at[i], out);
  cel__emit_messages(graph->emission, plan, priority);
  cel__coherence_produce(graph->coherence);
  return CEL_E_OK;
}

/* Those in host memory at once, direct ones one after another: what each has in
 * the device's memory may come from the host's, where others then move. */
static cel_status messages(cel_instr_graph *graph, int32_t priority) {
  uint32_t hosted = graph->plan.hosted, all = graph->plan.carried.n;
  if (hosted == all || all == 1) return planned_messages(graph, priority);
  for (uint32_t first = 0, last = hosted > 0 ? hosted : 1; first < all;
       first = last++) {
    cel__plan_messages(graph, first, last);
    CEL_TRY(planned_messages(graph, priority));
  }
  return CEL_E_OK;
}

static cel_status collective(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  int32_t devices = plan->command->exchange->devices;
  CEL_TRY(prepare(graph, CEL__PRIORITY_SEND));
  if (devices == 0) {
    cel__emit_collective(graph->emission, plan, -1, 0, plan->used);
    cel__coherence_produce(graph->coherence);
    return CEL_E_OK;
  }
  uint32_t first = 0;
  for (int32_t d = 0; d < devices; ++d) {
    uint32_t end = first;
    while (end < plan->used &&
           plan->touches.at[end].memory == graph->config.device_memory[d])
      ++end;
    cel__emit_collective(graph->emission, plan, d, first, end - first);
    first = end;
  }
  cel__coherence_spread(graph->coherence);
  return CEL_E_OK;
}

/* ---- commands ------------------------------------------------------------ */

cel_status cel__generate(cel_instr_graph *graph) {
  const cel_command *command = graph->plan.command;
  const cel_task *task = command->task;
  cel__emission_begin(graph->emission, task);
  switch (command->kind) {
  case CEL_COMMAND_EXECUTE: return execute(graph);
  case CEL_COMMAND_PUSH: return messages(graph, CEL__PRIORITY_SEND);
  case CEL_COMMAND_AWAIT_PUSH: return messages(graph, CEL__PRIORITY_RECEIVE);
  case CEL_COMMAND_COLLECTIVE: return collective(graph);
  case CEL_COMMAND_HORIZON: cel__emit_bound(graph->emission, false); break;
  case CEL_COMMAND_EPOCH:
    cel__emit_bound(graph->emission, true);
    cel__memory_settle(graph->memories);
#ifdef CEL_DEBUG
    cel_instr_graph_check(graph);
#endif
    break;
  case CEL_COMMAND_FREE:
    if (task->freed == NULL) {
      cel__emit_release(graph->emission, task->ended);
      break;
    }
    cel__memory_drop(graph->memories, task->freed);
    cel__coherence_drop(graph->coherence, task->freed);
    break;
  }
  return CEL_E_OK;
}

cel_status cel_instr_graph_add(cel_instr_graph *graph,
                               const cel_command *command) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  if (command->task->folded != NULL && command->kind == CEL_COMMAND_EXECUTE)
    return cel__fold_add(graph, command);
  return cel__lookahead_add(graph, command);
}

cel_status cel_instr_graph_flush(cel_instr_graph *graph) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  return cel__lookahead_flush(graph);
}

void cel_instr_graph_retire(cel_instr_graph *graph, uint64_t id) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  cel__emission_retire(graph->emission, id);
}

/* ---- life ---------------------------------------------------------------- */

cel_instr_graph *cel_instr_graph_create(const cel_instr_graph_config *config) {
  cel_instr_graph *graph = cel_alloc_zero(sizeof *graph);
  cel_instr_graph_config *c = &graph->config;
  *c = *config;
  if (c->large_bytes == 0) c->large_bytes = CEL_TUNE_LARGE_BYTES;
  if (c->freed_bytes == 0) c->freed_bytes = CEL_TUNE_FREED_BYTES;
  if (c->together_peers == 0) c->together_peers = CEL_TUNE_TOGETHER_PEERS;
  int32_t memories = 1;
  for (int32_t d = 0; d < c->devices; ++d) {
    cel_assert(c->devices == 1 || c->device_memory[d] != CEL_MEMORY_HOST);
    if (c->device_memory[d] >= memories) memories = c->device_memory[d] + 1;
  }
  cel_assert(c->devices >= 1 && memories <= CEL_MEMORIES);
  if (c->devices > 1 || c->device_memory[0] == CEL_MEMORY_HOST)
    c->nears = 0, c->far_bytes = 0;
  int64_t numbered = c->far_bytes > 0 ? c->ranks : c->nears;
  if (numbered > 0)
    graph->numbers = cel_alloc_zero((size_t)numbered * sizeof *graph->numbers);
  graph->emission = cel__emission_create(c);
  graph->memories =
      cel__memory_create(c, memories, graph->emission, &graph->plan);
  graph->coherence = cel__coherence_create(c, memories, graph->emission,
                                           graph->memories, &graph->plan);
  return graph;
}

void cel_instr_graph_destroy(cel_instr_graph *graph) {
  if (graph == NULL) return;
  cel__again_release(graph);
  cel__coherence_destroy(graph->coherence);
  cel__memory_destroy(graph->memories);
  cel__emission_destroy(graph->emission);
  cel__plan_release(&graph->plan);
  cel_region_release(&graph->reads);
  cel_images_release(&graph->images);
  cel_vec_release(&graph->lookahead.held);
  cel_vec_release(&graph->gathered.pieces);
  cel_vec_release(&graph->gathered.boxes);
  cel_vec_release(&graph->gathered.whole);
  cel_region_release(&graph->gathered.together);
  cel_free(graph->numbers);
  cel_free(graph);
}

size_t cel_instr_graph_bytes(const cel_instr_graph *graph) {
  return sizeof *graph + cel__emission_bytes(graph->emission) +
         cel__memory_bytes(graph->memories) + cel_images_bytes(&graph->images) +
         cel__coherence_bytes(graph->coherence) + cel__again_bytes(graph);
}

void cel_instr_graph_check(const cel_instr_graph *graph) {
  cel__emission_check(graph->emission);
  cel__memory_check(graph->memories);
  cel__coherence_check(graph->coherence);
}
