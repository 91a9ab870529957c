#include "command/command_graph.h"

#include <string.h>

#include "base/confined.h"
#include "command/collective/bcast_tree.h"
#include "command/collective/coalesce.h"
#include "command/collective/exchange.h"
#include "command/collective/parts.h"
#include "command/emit.h"
#include "command/message.h"
#include "command/own/overlap.h"
#include "command/own/own.h"
#include "command/read.h"
#include "command/shared.h"
#include "command/table.h"
#include "task/assignment.h"
#include "tuning.h"

typedef struct buffer_state {
  const cel_buffer *buffer;
  cel_map *versions; /* the same on all ranks */
  cel_track *track;  /* of this rank's commands; null: they are unordered */
  uint64_t floor;    /* applied to `track` */
  uint32_t index;    /* in `buffers` */
} buffer_state;

struct cel_command_graph {
  cel_command_graph_config config;
  cel__own own;
  cel__footprints footprints;
  cel__emitter emitter;
  cel__table by_id;    /* buffer id -> a: its buffer_state */
  cel__table sequence; /* peer -> a: next sent, b: next received */
  uint64_t exchanges;  /* until now */
  cel__parts_kept parts;
  CEL_VEC(buffer_state *) buffers;
  cel_collective_tasks collectives;
  cel_effect_track effects; /* of this rank's commands */
  cel__shares shares;       /* the same on all ranks */
  int64_t *alone;           /* see cel_task_split_at; null until it is needed */
  CEL_VEC(cel__use) uses;   /* scratch, as all below */
  cel__traffic traffic;
  cel__tokens tokens;
  cel__messages messages;
  cel__boxes boxes;
  cel_region image;
};

cel_command_graph *
cel_command_graph_create(const cel_command_graph_config *config) {
  cel_command_graph *g = cel_alloc_zero(sizeof *g);
  cel_command_graph_config *c = &g->config;
  *c = *config;
  if (c->small_bytes == 0) c->small_bytes = CEL_TUNE_SMALL_BYTES;
  if (c->large_bytes == 0) c->large_bytes = CEL_TUNE_LARGE_BYTES;
  if (c->large_bytes < c->small_bytes) c->large_bytes = c->small_bytes;
  if (c->replications <= 0) c->replications = CEL_TUNE_REPLICATIONS;
  if (c->count_most <= 0) c->count_most = INT32_MAX;
  cel__own_init(&g->own, c->rank, c->ranks, (uint32_t)c->replications);
  g->own.collective = c->collective;
  g->own.join = c->join;
  g->own.context = c->context;
  g->own.messages_else = c->messages_else;
  g->own.count_most = c->count_most;
  g->own.tree_least = c->tree_least > 0 ? c->tree_least : CEL_TUNE_TREE_LEAST;
  g->own.several_hosts = c->several_hosts;
  g->own.small = c->small_bytes;
  cel__footprints_init(&g->footprints, &g->own.reps, c->ranks);
  cel__emitter_init(&g->emitter, c, cel__parts_destroy);
  cel__parts_init(&g->parts, c->ranks, &g->emitter.eras);
  return g;
}

static void state_destroy(buffer_state *state) {
  cel_map_destroy(state->versions);
  cel_track_destroy(state->track);
  cel_free(state);
}

void cel_command_graph_destroy(cel_command_graph *g) {
  if (g == NULL) return;
  for (uint32_t i = 0; i < g->buffers.n; ++i) state_destroy(g->buffers.at[i]);
  cel_vec_release(&g->buffers);
  cel_collective_tasks_release(&g->collectives);
  cel_effect_track_release(&g->effects);
  cel__shares_release(&g->shares);
  cel_free(g->alone);
  cel__tokens_release(&g->tokens);
  cel__table_release(&g->by_id);
  cel__table_release(&g->sequence);
  cel_vec_release(&g->uses);
  cel__traffic_release(&g->traffic);
  cel_vec_release(&g->boxes);
  cel_region_release(&g->image);
  cel__messages_release(&g->messages);
  cel__footprints_clear(&g->footprints);
  cel__own_release(&g->own);
  cel__parts_release(&g->parts);
  cel__emitter_release(&g->emitter);
  cel_free(g);
}

/* ---- buffers --------------------------------------------------------------
 */

static buffer_state *find_state(const cel_command_graph *g,
                                const cel_buffer *buffer) {
  const cel__slot *slot = cel__table_find(&g->by_id, buffer->id);
  return slot == NULL ? NULL : (buffer_state *)(uintptr_t)slot->a;
}

/* What a buffer's initial contents are is known to all: nobody sends them, and
 * locally the last epoch or horizon has written them. */
static buffer_state *state_of(cel_command_graph *g, const cel_buffer *buffer) {
  buffer_state *state = find_state(g, buffer);
  if (state != NULL) return state;
  bool init = buffer->init != NULL;
  state = cel_alloc_zero(sizeof *state);
  state->buffer = buffer;
  state->versions = cel_map_create(
      &buffer->extent, init ? cel__own_everyone(&g->own) : CEL__UNINITIALISED);
  if (!g->config.unordered)
    state->track =
        cel_track_create(&buffer->extent, init ? g->emitter.front.floor : 0);
  state->floor = g->emitter.front.floor;
  state->index = g->buffers.n;
  cel_vec_push(&g->buffers, state);
  cel__table_put(&g->by_id, buffer->id)->a = (uintptr_t)state;
  return state;
}

/* The buffer's tracker, up to date with the horizon or epoch applied last. */
static cel_track *track_of(cel_command_graph *g, buffer_state *state) {
  if (state->floor != g->emitter.front.floor)
    cel_track_floor(state->track, g->emitter.front.floor);
  state->floor = g->emitter.front.floor;
  return state->track;
}

static void add_end(cel_command_graph *g, const cel_task *task) {
  cel_command command = {.kind = CEL_COMMAND_FREE, .task = task};
  cel__emit_begin(&g->emitter);
  if (!g->config.unordered)
    cel_effect_ask(&g->effects, task->ended, CEL_ORDER_SEQUENTIAL,
                   g->emitter.front.floor, &g->emitter.deps);
  cel__emit_end(&g->emitter, &command);
  cel_effect_forget(&g->effects, task->ended);
  cel__shares_forget(&g->shares, task->ended);
}

static void add_free(cel_command_graph *g, const cel_task *task) {
  cel_command command = {.kind = CEL_COMMAND_FREE, .task = task};
  buffer_state *state = find_state(g, task->freed);
  cel__emit_begin(&g->emitter);
  if (state != NULL && state->track != NULL)
    cel_track_users(track_of(g, state), &task->freed->extent, &g->emitter.deps);
  cel__emit_end(&g->emitter, &command);
  if (state == NULL) return;
  cel__table_remove(&g->by_id, task->freed->id);
  cel_vec_swap_out(&g->buffers, state->index);
  if (state->index < g->buffers.n)
    g->buffers.at[state->index]->index = state->index;
  state_destroy(state);
}

/* ---- commands of one task -------------------------------------------------
 */

/* Per ordered pair of ranks, in command order. */
static void number(cel_command_graph *g, cel_command_kind kind,
                   cel_message *message) {
  cel__slot *slot = cel__table_put(&g->sequence, (uint64_t)message->peer);
  bool push = kind == CEL_COMMAND_PUSH;
  message->sequence = push ? slot->a++ : slot->b++;
}

/* Reports pieces that lie one behind the other, and are of one buffer each as
 * long as possible: what many ranks get alike, or have parts of, is one box. */
static void track_pieces(cel_command_graph *g, bool push, uint64_t id) {
  const cel__messages *m = &g->messages;
  for (uint32_t i = 0; i < m->piece.n;) {
    const cel_buffer *buffer = m->piece.at[i].buffer;
    cel_vec_clear(&g->boxes);
    for (; i < m->piece.n && m->piece.at[i].buffer == buffer; ++i)
      if (g->boxes.n == 0 ||
          !cel_box_equal(&cel_vec_last(&g->boxes), &m->piece.at[i].box))
        cel_vec_push(&g->boxes, m->piece.at[i].box);
    cel_region_assign(&g->image, g->boxes.at, g->boxes.n);
    cel_track *track = track_of(g, find_state(g, buffer));
    for (uint32_t b = 0; b < g->image.n; ++b)
      (push ? cel_track_read : cel_track_write)(track, &g->image.at[b], id,
                                                &g->emitter.deps);
  }
}

/* What was packed, as a list in the arena; returns its head. */
static const cel_message *list_packed(cel_command_graph *g,
                                      cel_command_kind kind) {
  cel_arena *arena = cel_eras_arena(&g->emitter.eras);
  cel__messages *m = &g->messages;
  const cel_piece *piece =
      cel_arena_copy(arena, m->piece.at, m->piece.n * sizeof *piece);
  cel_message *list =
      cel_arena_copy(arena, m->message.at, m->message.n * sizeof *list);
  for (uint32_t i = 0; i < m->message.n; ++i) {
    list[i].next = i + 1 < m->message.n ? &list[i + 1] : NULL;
    list[i].piece = piece;
    piece += list[i].pieces;
    number(g, kind, &list[i]);
  }
  return list;
}

static void emit_token(cel_command_graph *g, const cel_task *task,
                       const cel__token *token) {
  cel_command command = {
      .kind = token->sent ? CEL_COMMAND_PUSH : CEL_COMMAND_AWAIT_PUSH,
      .task = task,
      .message = {
          .peer = token->peer, .object = token->object, .order = token->order}};
  number(g, command.kind, &command.message);
  uint64_t id = cel__emit_begin(&g->emitter), floor = g->emitter.front.floor;
  if (!g->config.unordered && token->sent)
    cel_effect_ask(&g->effects, token->object, token->order, floor,
                   &g->emitter.deps);
  else if (!g->config.unordered)
    cel_effect_arrive(&g->effects, token->object, id, floor);
  cel__emit_end(&g->emitter, &command);
}

static void emit_messages(cel_command_graph *g, const cel_task *task,
                          cel_command_kind kind, cel__transfers *transfers) {
  const cel_command_graph_config *c = &g->config;
  bool host = task->kind == CEL_TASK_HOST;
  cel__limits limits = {.small = c->small_bytes,
                        .large = c->large_bytes,
                        .near_large = c->large_bytes > CEL_TUNE_NEAR_LARGE_BYTES
                                          ? c->large_bytes
                                          : CEL_TUNE_NEAR_LARGE_BYTES,
                        .near = c->near,
                        .nears = host ? 0 : c->nears};
  cel__messages_pack(&g->messages, transfers, &limits);
  if (g->messages.message.n == 0) return;
  cel_command command = {
      .kind = kind, .task = task, .message = *list_packed(g, kind)};
  uint64_t id = cel__emit_begin(&g->emitter);
  if (!g->config.unordered) track_pieces(g, kind == CEL_COMMAND_PUSH, id);
  cel__emit_end(&g->emitter, &command);
}

/* Each by itself: see collective/bcast_tree.h. */
static void emit_trees(cel_command_graph *g, const cel_task *task) {
  cel__traffic *traffic = &g->traffic;
  for (uint32_t i = 0; i < traffic->trees.n; ++i) {
    cel__bcast_tree_side(&g->own, &traffic->trees.at[i], &traffic->receives,
                         &traffic->sends);
    emit_messages(g, task, CEL_COMMAND_AWAIT_PUSH, &traffic->receives);
    emit_messages(g, task, CEL_COMMAND_PUSH, &traffic->sends);
  }
}

/* Of an exchange in the arena of the era that is open. */
static void emit_exchange(cel_command_graph *g, const cel_task *task,
                          const cel_exchange *exchange) {
  cel_command command = {
      .kind = CEL_COMMAND_COLLECTIVE, .task = task, .exchange = exchange};
  uint64_t id = cel__emit_begin(&g->emitter);
  const cel_exchange *x = g->config.unordered ? NULL : exchange;
  for (; x != NULL; x = x->next) {
    cel_track *track = track_of(g, find_state(g, x->buffer));
    if (!cel_box_is_empty(&x->mine))
      cel_track_read(track, &x->mine, id, &g->emitter.deps);
    for (uint32_t i = 0; i < x->gets; ++i)
      cel_track_write(track, &x->get[i], id, &g->emitter.deps);
  }
  cel__emit_end(&g->emitter, &command);
}

static void emit_collectives(cel_command_graph *g, const cel_task *task) {
  const cel__together *t = g->traffic.together.at;
  cel__coalesce(&g->traffic, &g->own, g->config.small_bytes,
                g->config.large_bytes);
  for (uint32_t n, i = 0; i < g->traffic.together.n; i += n) {
    for (n = 1; i + n < g->traffic.together.n && t[i + n].coalesced;) ++n;
    cel_arena *arena = cel_eras_arena(&g->emitter.eras);
    emit_exchange(g, task,
                  cel__exchange_make(&g->parts, &g->own, &t[i], n,
                                     g->exchanges++, arena));
  }
}

/* What each rank has written is not what it is to hold before this. */
static void emit_all_reduce(cel_command_graph *g, const cel_task *task,
                            const cel_access *access) {
  cel_box all = access->buffer->extent;
  cel_exchange x = {.pattern = CEL_PATTERN_ALL_REDUCE,
                    .devices = g->own.collective.devices,
                    .nth = g->exchanges++,
                    .buffer = access->buffer,
                    .box = all,
                    .by = access->by,
                    .mine = all,
                    .hull = all,
                    .gets = 1};
  cel_arena *arena = cel_eras_arena(&g->emitter.eras);
  x.get = cel_arena_copy(arena, &all, sizeof all);
  emit_exchange(g, task, cel_arena_copy(arena, &x, sizeof x));
}

/* Reports this rank's part of an access to its buffer's tracker. */
static void track_use(cel_command_graph *g, const cel__use *use, uint64_t id,
                      void (*report)(cel_track *, const cel_box *, uint64_t,
                                     cel_deps *)) {
  cel_track *track = track_of(g, find_state(g, use->access->buffer));
  cel_vec_clear(&g->boxes);
  cel__footprint_boxes(&g->footprints, use->footprint, g->config.rank,
                       &g->boxes);
  for (uint32_t i = 0; i < g->boxes.n; ++i)
    report(track, &g->boxes.at[i], id, &g->emitter.deps);
}

static void track_effects(cel_command_graph *g, const cel_task *task,
                          uint64_t id) {
  cel_collective_tasks_follow(&g->collectives, task->collective_group, id,
                              g->emitter.front.floor, &g->emitter.deps);
  cel_effects_add(&g->effects, task->effect, task->effects,
                  task->collective_group != 0, id, g->emitter.front.floor,
                  &g->emitter.deps);
}

static void track_uses(cel_command_graph *g, const cel_task *task,
                       uint64_t id) {
  for (uint32_t i = 0; i < g->uses.n; ++i)
    if (cel_mode_consumes(g->uses.at[i].access->mode))
      track_use(g, &g->uses.at[i], id, cel_track_read);
  for (uint32_t i = 0; i < g->uses.n; ++i)
    if (cel_mode_produces(g->uses.at[i].access->mode))
      track_use(g, &g->uses.at[i], id, cel_track_write);
  track_effects(g, task, id);
}

static void emit_execute(cel_command_graph *g, const cel_task *task,
                         const cel_split *split) {
  cel_command command = {.kind = CEL_COMMAND_EXECUTE, .task = task};
  if (!cel_split_chunk(split, g->config.rank, &command.chunk)) return;
  if (task->placement == CEL_PLACE_ALL) command.chunk = task->range;
  uint64_t id = cel__emit_begin(&g->emitter);
  if (!g->config.unordered) track_uses(g, task, id);
  cel__emit_end(&g->emitter, &command);
}

/* Binds the accesses and tries the writes; nothing has changed if it fails. */
static cel_status prepare(cel_command_graph *g, const cel_task *task) {
  cel_vec_clear(&g->uses);
  for (uint32_t i = 0; i < task->accesses; ++i) {
    cel__use use = {.access = &task->access[i]};
    CEL_TRY(
        cel__footprint_find(&g->footprints, task, use.access, &use.footprint));
    cel_vec_push(&g->uses, use);
  }
  if (task->placement == CEL_PLACE_ALL) return CEL_E_OK;
  return cel__writes_check(&g->footprints, task, g->uses.at, g->uses.n);
}

/* Collectives are begun in one order on all ranks, so each waits for all before
 * it to be ready. What host tasks read goes by messages: memory that a slow one
 * still reads, or what one writes, would hold up all that kernels exchange.
 * Fences are not slow, and often all ranks have one of all there is; but what
 * they bring goes to host memory. */
static bool may_be_collective(const cel_command_graph *g,
                              const cel_task *task) {
  bool on_hosts = g->own.collective.devices == 0;
  bool brief = task->work != NULL && task->work->brief && on_hosts;
  bool refused = g->config.collective.devices > 0 && on_hosts;
  return g->config.collectives && g->config.ranks > 1 &&
         !(refused && g->own.messages_else) &&
         (task->kind == CEL_TASK_KERNEL || brief);
}

/* All reads see the state before the task, then all writes change it. Of what
 * is apart nobody comes to own more than others, so nobody lacks any of it. */
static void change_ownership(cel_command_graph *g, const cel_task *task) {
  for (uint32_t i = 0; i < g->uses.n; ++i) {
    const cel__use *use = &g->uses.at[i];
    const cel_buffer *buffer = use->access->buffer;
    cel_map *map = state_of(g, buffer)->versions;
    if (cel_mode_consumes(use->access->mode) && use->access->rows == 0)
      cel__read(&g->own, map, buffer, use->footprint, &g->traffic);
  }
  cel__own_forget(&g->own);
  for (uint32_t i = 0; i < g->uses.n; ++i) {
    const cel__use *use = &g->uses.at[i];
    if (!cel_mode_produces(use->access->mode) || use->access->buffer->apart)
      continue;
    cel_map *map = find_state(g, use->access->buffer)->versions;
    if (task->placement == CEL_PLACE_ALL)
      cel__own_write_alike(&g->own, map, use->footprint);
    else
      cel__own_write(&g->own, map, &g->footprints, use->footprint);
  }
#ifdef CEL_DEBUG
  for (uint32_t i = 0; i < g->uses.n; ++i)
    cel__own_check(&g->own,
                   find_state(g, g->uses.at[i].access->buffer)->versions);
#endif
}

/* Drops what no buffer refers to any more. Ranks need not do this before the
 * same task, for they may free buffers at different times. */
static void tidy(cel_command_graph *g) {
  cel__footprints_trim(&g->footprints);
  if (!cel__own_crowded(&g->own)) return;
  for (uint32_t i = 0; i < g->buffers.n; ++i)
    cel__own_mark(&g->own, g->buffers.at[i]->versions);
  cel__footprints_clear(&g->footprints);
  cel__parts_clear(&g->parts);
  cel__own_sweep(&g->own);
}

void cel__command_graph_squeeze(cel_command_graph *g) {
  g->own.sweep_least = g->own.sweep_at = 0;
  g->own.after_slots = g->footprints.most = g->parts.most = 1;
}

void cel__command_graph_cap(cel_command_graph *g, uint32_t replications) {
  g->own.cap = replications;
}

/* ---- one rank alone -------------------------------------------------------
 */

/* Reports an access of the only chunk. */
static cel_status track_alone(cel_command_graph *g, const cel_access *access,
                              const cel_box *chunk, uint64_t id,
                              void (*report)(cel_track *, const cel_box *,
                                             uint64_t, cel_deps *)) {
  cel_box first = cel_box_sized(1, 1, 1);
  CEL_TRY(cel_rule_eval(&access->use, access->rows > 0 ? &first : chunk,
                        &g->image));
  cel_track *track = track_of(g, state_of(g, access->buffer));
  for (uint32_t i = 0; i < g->image.n; ++i)
    report(track, &g->image.at[i], id, &g->emitter.deps);
  return CEL_E_OK;
}

static cel_status track_uses_alone(cel_command_graph *g, const cel_task *task,
                                   const cel_box *chunk, uint64_t id) {
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (cel_mode_consumes(task->access[i].mode))
      CEL_TRY(track_alone(g, &task->access[i], chunk, id, cel_track_read));
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (cel_mode_produces(task->access[i].mode))
      CEL_TRY(track_alone(g, &task->access[i], chunk, id, cel_track_write));
  track_effects(g, task, id);
  return CEL_E_OK;
}

/* A rank that is alone has all there is: nobody is asked who owns what. The
 * task graph has evaluated the same rules for the same items. */
static cel_status add_alone(cel_command_graph *g, const cel_task *task) {
  cel_command command = {.kind = CEL_COMMAND_EXECUTE, .task = task};
  cel_split split = cel_task_split(task, 1);
  if (!cel_split_chunk(&split, 0, &command.chunk)) return CEL_E_OK;
  uint64_t id = cel__emit_begin(&g->emitter);
  if (!g->config.unordered)
    CEL_TRY(track_uses_alone(g, task, &command.chunk, id));
  cel__emit_end(&g->emitter, &command);
  return CEL_E_OK;
}

/* A task whose home is found, where ownership is now. */
typedef struct placed {
  cel_task task;
  cel_home home;
  cel_split split;
} placed;

/* The task where it lies, which all ranks find alike: `out`, if it was to be
 * found. Its commands are the task's own. */
static const cel_task *at_home(cel_command_graph *g, const cel_task *task,
                               placed *out) {
  const cel_home *home = task->home;
  if (home == NULL || home->buffer == NULL) return task;
  const buffer_state *state = state_of(g, home->buffer);
  out->home.rank = cel__own_most(&g->own, state->versions, &home->box);
  if (g->alone == NULL) g->alone = cel_task_alone(g->config.ranks);
  out->split = cel_task_split_at(&task->range, out->home.rank, g->config.ranks,
                                 g->alone);
  out->task = *task;
  out->task.home = &out->home;
  out->task.split = &out->split;
  return &out->task;
}

static cel_status add_work(cel_command_graph *g, const cel_task *task) {
  if (g->config.ranks == 1) return add_alone(g, task);
  tidy(g);
  placed found = {0};
  const cel_task *here = at_home(g, task, &found);
  CEL_TRY(prepare(g, here));
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (task->access[i].by.class_ != 0) cel__own_join(&g->own);
  cel__traffic_clear(&g->traffic);
  g->own.collectives = may_be_collective(g, task);
  change_ownership(g, task);
  emit_collectives(g, task);
  emit_messages(g, task, CEL_COMMAND_PUSH, &g->traffic.sends);
  emit_messages(g, task, CEL_COMMAND_AWAIT_PUSH, &g->traffic.receives);
  emit_trees(g, task);
  cel_split split = cel_task_split(here, g->config.ranks);
  cel__shares_pass(&g->shares, task, split.n, g->config.rank, &g->tokens);
  for (uint32_t i = 0; i < g->tokens.before.n; ++i)
    emit_token(g, task, &g->tokens.before.at[i]);
  emit_execute(g, task, &split);
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (task->access[i].by.class_ != 0)
      emit_all_reduce(g, task, &task->access[i]);
  for (uint32_t i = 0; i < g->tokens.after.n; ++i)
    emit_token(g, task, &g->tokens.after.at[i]);
  return CEL_E_OK;
}

cel_status cel_command_graph_add(cel_command_graph *g, const cel_task *task) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  switch (task->kind) {
  case CEL_TASK_KERNEL:
  case CEL_TASK_HOST: return add_work(g, task);
  case CEL_TASK_HORIZON:
  case CEL_TASK_EPOCH: cel__emit_horizon(&g->emitter, task); return CEL_E_OK;
  case CEL_TASK_FREE:
    if (task->freed != NULL)
      add_free(g, task);
    else
      add_end(g, task);
    return CEL_E_OK;
  }
  cel_bug("a task of kind %d", (int)task->kind);
}

void cel_command_graph_retire(cel_command_graph *g, uint64_t id) {
  cel_assert_thread(CEL_THREAD_SCHEDULER);
  cel_eras_retire(&g->emitter.eras, id);
}

void cel_command_graph_counts(const cel_command_graph *g, uint64_t *entries,
                              uint64_t *replications, uint64_t *bytes) {
  *entries = *replications = 0;
  *bytes = sizeof *g + cel_eras_bytes(&g->emitter.eras) +
           cel_effect_track_bytes(&g->effects) + cel__own_bytes(&g->own) +
           cel__footprints_bytes(&g->footprints);
  for (uint32_t i = 0; i < g->buffers.n; ++i) {
    const buffer_state *state = g->buffers.at[i];
    uint32_t held = cel_map_count(state->versions);
    *entries += held;
    *replications += cel__own_replications(&g->own, state->versions);
    *bytes += sizeof *state + held * sizeof(cel_map_entry);
    if (state->track != NULL)
      *bytes += cel_track_count(state->track) * sizeof(cel_map_entry);
  }
}
