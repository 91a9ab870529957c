#include <string.h>

#include "instr/state.h"

#include "base/confined.h"
#include "tuning.h"

/* ---- execute ------------------------------------------------------------- */

/* Memory behind what touch i meets; behind what the others do there too, so
 * that the parts of a chunk share one COMMIT. */
static void commit_touch(cel_instr_graph *graph, uint32_t i) {
  const cel__plan *plan = &graph->plan;
  const cel__touch *touch = &plan->touches.at[i];
  cel__record *record = touch->record;
  if (cel__memory_is_committed(record, &touch->hull)) return;
  cel_region *together = &graph->kept;
  cel_region_copy(together, &touch->region);
  for (uint32_t k = i + 1; k < plan->used; ++k) {
    const cel__touch *other = &plan->touches.at[k];
    if (other->buffer == touch->buffer && other->memory == touch->memory &&
        cel_box_covers(&record->made.layout, &other->hull))
      cel_region_unite(together, together, &other->region);
  }
  cel__memory_commit(graph, record, together);
}

static void commit_all(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->region.n > 0) commit_touch(graph, i);
  }
}

/* Memory for everything first, so that no record moves later; then what is
 * missing there. */
static cel_status prepare(cel_instr_graph *graph, int32_t priority) {
  const cel__plan *plan = &graph->plan;
  CEL_TRY(cel__need_plan(graph));
  if (graph->config.grain != 0) commit_all(graph);
  cel__alike_fetch(graph, priority);
  cel__manner manner = {.priority = priority};
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->consumes)
      cel__coherence_fetch(graph, touch->buffer, touch->memory, &touch->region,
                           &manner);
  }
  return CEL_E_OK;
}

static void track_touch(cel_instr_graph *graph, const cel__touch *touch,
                        uint64_t id,
                        void (*report)(cel_track *, const cel_box *, uint64_t,
                                       cel_deps *)) {
  if (touch->region.n == 0) return;
  cel_track *track = cel__record_track(graph, touch->record);
  for (uint32_t b = 0; b < touch->region.n; ++b)
    report(track, &touch->region.at[b], id, &graph->deps);
}

/* Whether no other touch is of its buffer: then it needs not be tracked twice,
 * with all reads before all writes. */
static bool updates_alone(const cel__touch *touch, uint32_t n, uint32_t i) {
  if (!touch[i].consumes || !touch[i].produces) return false;
  for (uint32_t k = 0; k < n; ++k)
    if (k != i && touch[k].buffer == touch[i].buffer) return false;
  return true;
}

/* Tracks `n` touches as one instruction's, all reads before all writes, and
 * returns where they lie; no allocation for an empty one. */
static const cel_place_in *use(cel_instr_graph *graph, const cel__touch *touch,
                               uint32_t n, uint64_t id) {
  cel_place_in *place =
      cel_arena_alloc(cel_eras_arena(&graph->eras), n * sizeof(cel_place_in));
  for (uint32_t i = 0; i < n; ++i) {
    bool empty = cel_box_is_empty(&touch[i].hull);
    place[i] =
        (cel_place_in){.allocation = empty ? NULL : &touch[i].record->made,
                       .box = touch[i].hull};
    if (updates_alone(touch, n, i))
      track_touch(graph, &touch[i], id, cel_track_update);
    else if (touch[i].consumes)
      track_touch(graph, &touch[i], id, cel_track_read);
  }
  for (uint32_t i = 0; i < n; ++i)
    if (touch[i].produces && !updates_alone(touch, n, i))
      track_touch(graph, &touch[i], id, cel_track_write);
  return place;
}

static void launch(cel_instr_graph *graph, uint32_t p) {
  const cel__plan *plan = &graph->plan;
  const cel_task *task = plan->command->task;
  const cel__part *part = &plan->parts.at[p];
  bool host = task->kind == CEL_TASK_HOST;
  cel_instr *instr = cel__instr_begin(
      graph, host ? CEL_INSTR_HOST : CEL_INSTR_KERNEL, task, part->priority);
  instr->device = part->device;
  instr->run.chunk = part->chunk;
  instr->run.view = use(graph, plan->touches.at + (size_t)p * task->accesses,
                        task->accesses, instr->id);
  cel_collective_tasks_follow(&graph->collectives, task->collective_group,
                              instr->id, graph->front.floor, &graph->deps);
  cel_effects_add(&graph->effects, task->effect, task->effects,
                  task->collective_group != 0, instr->id, graph->front.floor,
                  &graph->deps);
  cel__instr_end(graph, instr);
}

static void produce_all(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->produces)
      cel__coherence_produce(graph, touch->buffer, touch->memory,
                             &touch->region, touch->arrives);
  }
}

static cel_status execute_plan(cel_instr_graph *graph) {
  CEL_TRY(prepare(graph, CEL__PRIORITY_MEMORY));
  for (uint32_t p = 0; p < graph->plan.parts.n; ++p) launch(graph, p);
  produce_all(graph);
  return CEL_E_OK;
}

/* What the task overwrites unread need not be kept until a round does so. */
static void forget_discards(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!touch->produces) continue;
    cel__plan_discards(graph, touch->buffer, &graph->discarded);
    cel__coherence_forget(graph, touch->buffer, &graph->discarded);
  }
}

/* Every other task goes through its rounds backwards: what the one before used
 * last, which is still there, is what it uses first. */
static cel_status execute(cel_instr_graph *graph) {
  int64_t rounds = graph->plan.rounds;
  if (rounds == 1) return execute_plan(graph);
  forget_discards(graph);
  bool backwards = graph->backwards;
  graph->backwards = !backwards;
  for (int64_t i = 0; i < rounds; ++i) {
    CEL_TRY(cel__plan_round(graph, rounds, backwards ? rounds - 1 - i : i));
    CEL_TRY(execute_plan(graph));
  }
  return CEL_E_OK;
}

/* ---- messages ------------------------------------------------------------ */

/* Direct messages and the others are numbered apart, as each way matches its
 * own. */
static void number(cel_instr_graph *graph, cel_instr *instr) {
  const cel_command *command = graph->plan.command;
  int32_t near = cel__plan_near(graph, command);
  instr->message.direct = cel__plan_direct(graph, command);
  instr->message.nth = command->message.sequence;
  if (near < 0) return;
  uint64_t *direct =
      &graph->near[near].direct[command->kind == CEL_COMMAND_PUSH];
  if (instr->message.direct)
    instr->message.nth = (*direct)++;
  else
    instr->message.nth -= *direct;
}

/* A message without contents tells what has been done to a host object. */
static void track_token(cel_instr_graph *graph, const cel_message *token,
                        const cel_instr *instr) {
  uint64_t floor = graph->front.floor;
  if (token->object == NULL) return;
  if (instr->kind == CEL_INSTR_SEND)
    cel_effect_ask(&graph->effects, token->object, token->order, floor,
                   &graph->deps);
  else
    cel_effect_arrive(&graph->effects, token->object, instr->id, floor);
}

static cel_status message(cel_instr_graph *graph, cel_instr_kind kind,
                          int32_t priority) {
  const cel__plan *plan = &graph->plan;
  const cel_message *told = &plan->command->message;
  CEL_TRY(prepare(graph, priority));
  cel_instr *instr =
      cel__instr_begin(graph, kind, plan->command->task, priority);
  instr->message.peer = told->peer;
  instr->message.sequence = told->sequence;
  instr->message.bytes = told->bytes;
  number(graph, instr);
  instr->message.pieces = told->pieces;
  instr->message.piece = use(graph, plan->touches.at, plan->used, instr->id);
  track_token(graph, told, instr);
  cel__instr_end(graph, instr);
  produce_all(graph);
  if (kind == CEL_INSTR_RECEIVE) cel__join_note(graph);
  return CEL_E_OK;
}

/* ---- collectives --------------------------------------------------------- */

/* Where each of a list lies, of which `used` has those that have a place. */
static const cel_place_in *spread_out(cel_instr_graph *graph,
                                      const cel_exchange *list,
                                      const cel_place_in *used) {
  size_t n = 0;
  for (const cel_exchange *x = list; x != NULL; x = x->next) ++n;
  cel_place_in *place =
      cel_arena_alloc(cel_eras_arena(&graph->eras), n * sizeof *place);
  for (const cel_exchange *x = list; x != NULL; x = x->next, ++place) {
    int touches = !cel_box_is_empty(&x->mine) + (x->gets > 0);
    *place = touches > 0 ? *used : (cel_place_in){0};
    used += touches;
  }
  return place - n;
}

/* With `n` touches, from `first` on. */
static void emit_collective(cel_instr_graph *graph, int32_t device,
                            uint32_t first, uint32_t n) {
  static const cel_place_in nowhere;
  const cel__plan *plan = &graph->plan;
  const cel_exchange *x = plan->command->exchange;
  cel_instr *instr = cel__instr_begin(
      graph, CEL_INSTR_COLLECTIVE, plan->command->task, CEL__PRIORITY_RECEIVE);
  instr->device = device;
  instr->collective.exchange = x;
  const cel_place_in *place =
      use(graph, plan->touches.at + first, n, instr->id);
  if (x->next != NULL)
    place = spread_out(graph, x, place);
  else if (n == 0)
    place = &nowhere;
  instr->collective.place = place;
  cel__instr_end(graph, instr);
}

/* What comes from other ranks is current on the devices that get it alone; what
 * comes from a device of this one is current there, too. */
static void spread(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  const cel_exchange *x = plan->command->exchange;
  cel_region_assign(&graph->kept, x->get, x->gets);
  cel__coherence_forget(graph, x->buffer, &graph->kept);
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->produces)
      cel__coherence_join(graph, x->buffer, touch->memory, &touch->region);
  }
}

static cel_status collective(cel_instr_graph *graph) {
  const cel__plan *plan = &graph->plan;
  const cel_exchange *x = plan->command->exchange;
  CEL_TRY(prepare(graph, CEL__PRIORITY_SEND));
  if (x->devices == 0) {
    emit_collective(graph, -1, 0, plan->used);
    produce_all(graph);
    return CEL_E_OK;
  }
  uint32_t first = 0;
  for (int32_t d = 0; d < x->devices; ++d) {
    uint32_t end = first;
    while (end < plan->used &&
           plan->touches.at[end].memory == graph->config.device_memory[d])
      ++end;
    emit_collective(graph, d, first, end - first);
    first = end;
  }
  spread(graph);
  return CEL_E_OK;
}

/* ---- host objects -------------------------------------------------------- */

static void release(cel_instr_graph *graph, const cel_task *task) {
  const cel_object *object = task->ended;
  if (object->release != NULL) {
    cel_instr *instr =
        cel__instr_begin(graph, CEL_INSTR_RELEASE, task, CEL__PRIORITY_RUN);
    instr->run.chunk = cel_box_sized(1, 1, 1);
    cel_effect_ask(&graph->effects, object, CEL_ORDER_SEQUENTIAL,
                   graph->front.floor, &graph->deps);
    cel__instr_end(graph, instr);
  }
  cel_effect_forget(&graph->effects, object);
}

/* ---- commands ------------------------------------------------------------ */

cel_status cel__generate(cel_instr_graph *graph) {
  const cel_command *command = graph->plan.command;
  switch (command->kind) {
  case CEL_COMMAND_EXECUTE: cel__join_emit(graph); return execute(graph);
  case CEL_COMMAND_PUSH:
    return message(graph, CEL_INSTR_SEND, CEL__PRIORITY_SEND);
  case CEL_COMMAND_AWAIT_PUSH:
    return message(graph, CEL_INSTR_RECEIVE, CEL__PRIORITY_RECEIVE);
  case CEL_COMMAND_COLLECTIVE: return collective(graph);
  case CEL_COMMAND_HORIZON:
  case CEL_COMMAND_EPOCH: cel__instr_bound(graph, command); break;
  case CEL_COMMAND_FREE:
    cel_vec_clear(&graph->arrived); /* of a buffer that goes, perhaps */
    if (command->task->freed != NULL)
      cel__memory_drop(graph, command);
    else
      release(graph, command->task);
    break;
  }
  return CEL_E_OK;
}

cel_status cel_instr_graph_add(cel_instr_graph *graph,
                               const cel_command *command) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  return cel__lookahead_add(graph, command);
}

cel_status cel_instr_graph_flush(cel_instr_graph *graph) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  return cel__lookahead_flush(graph);
}

/* ---- life ---------------------------------------------------------------- */

cel_instr_graph *cel_instr_graph_create(const cel_instr_graph_config *config) {
  cel_instr_graph *graph = cel_alloc_zero(sizeof *graph);
  graph->config = *config;
  if (config->large_bytes == 0)
    graph->config.large_bytes = CEL_TUNE_LARGE_BYTES;
  if (config->join_parts == 0) graph->config.join_parts = CEL_TUNE_JOIN_PARTS;
  graph->memories = 1;
  for (int32_t d = 0; d < config->devices; ++d) {
    cel_assert(config->devices == 1 ||
               config->device_memory[d] != CEL_MEMORY_HOST);
    if (config->device_memory[d] >= graph->memories)
      graph->memories = config->device_memory[d] + 1;
  }
  cel_assert(config->devices >= 1 && graph->memories <= CEL_MEMORIES);
  if (config->devices > 1 || config->device_memory[0] == CEL_MEMORY_HOST)
    graph->config.nears = 0;
  graph->near =
      cel_alloc_zero(((size_t)graph->config.nears + 1) * sizeof *graph->near);
  graph->next_allocation = 1;
  cel__rooms_init(graph);
  cel__nodes_init(graph);
  return graph;
}

void cel_instr_graph_destroy(cel_instr_graph *graph) {
  if (graph == NULL) return;
  for (uint32_t i = 0; i < graph->buffers.n; ++i)
    cel__held_release(graph, &graph->buffers.at[i]);
  cel__plan_release(&graph->plan);
  cel__nodes_release(graph);
  cel__rooms_release(graph);
  cel_free(graph->near);
  cel_vec_release(&graph->buffers);
  cel_collective_tasks_release(&graph->collectives);
  cel_effect_track_release(&graph->effects);
  cel_vec_release(&graph->wanted);
  cel_vec_release(&graph->arrived);
  cel_vec_release(&graph->parts);
  cel_vec_release(&graph->held);
  cel_map_entries_release(&graph->entries);
  cel_vec_release(&graph->lacking);
  cel_vec_release(&graph->owned);
  cel_vec_release(&graph->slices);
  cel_map_entries_release(&graph->alike_found);
  cel_region_release(&graph->alike_box);
  cel_region_release(&graph->boxes);
  cel_region_release(&graph->kept);
  cel_region_release(&graph->discarded);
  cel_region_release(&graph->reads);
  cel_region_release(&graph->rows);
  cel_region_release(&graph->spilled);
  cel_region_release(&graph->blocks);
  cel_map_entries_release(&graph->grains);
  cel_vec_release(&graph->victims);
  cel_region_release(&graph->fresh);
  cel_free(graph);
}

static size_t held_bytes(const cel_instr_graph *graph, const cel__held *held) {
  enum { ENTRY = 64, TRACKED = 96 }; /* about what one takes */
  if (held->buffer == NULL) return 0;
  size_t sum = (size_t)ENTRY * cel_map_count(held->current);
  for (int32_t m = 0; m < graph->memories; ++m) {
    const cel__backing *in = &held->in[m];
    sum +=
        sizeof *in + (in->live.cap + in->wants.cap) * sizeof(cel__layout_entry);
    for (uint32_t i = 0; i < in->live.n; ++i)
      sum += sizeof(cel__record) +
             in->live.at[i].record->committed.cap * sizeof(cel_box) +
             (size_t)TRACKED * cel_track_count(in->live.at[i].record->track);
  }
  return sum;
}

size_t cel_instr_graph_bytes(const cel_instr_graph *graph) {
  size_t sum = sizeof *graph + cel_eras_bytes(&graph->eras) +
               graph->front.followed.cap +
               cel_effect_track_bytes(&graph->effects) +
               graph->buffers.cap * sizeof(cel__held);
  for (uint32_t i = 0; i < graph->buffers.n; ++i)
    sum += held_bytes(graph, &graph->buffers.at[i]);
  return sum;
}
