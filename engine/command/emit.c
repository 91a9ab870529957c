#include "command/emit.h"

#include <string.h>

void cel__emitter_init(cel__emitter *e,
                       void (*emit)(void *, const cel_command *),
                       void *context) {
  *e = (cel__emitter){.emit = emit, .context = context, .next = 1, .front = 1};
  cel_vec_push(&e->eras, (cel__era){0});
}

void cel__emitter_release(cel__emitter *e) {
  for (uint32_t i = 0; i < e->eras.n; ++i)
    cel_arena_release(&e->eras.at[i].arena);
  cel_vec_release(&e->eras);
  cel_vec_release(&e->followed);
  cel_deps_release(&e->deps);
  cel_arena_release(&e->spare);
}

uint64_t cel__emit_begin(cel__emitter *e) {
  cel_deps_clear(&e->deps);
  return e->next;
}

static void follow(cel__emitter *e, const cel_deps *deps) {
  for (uint32_t i = 0; i < deps->n; ++i)
    if (deps->at[i].id >= e->front)
      e->followed.at[deps->at[i].id - e->front] = 1;
}

static bool has_true(const cel_deps *deps) {
  for (uint32_t i = 0; i < deps->n; ++i)
    if (deps->at[i].kind == CEL_DEP_TRUE) return true;
  return false;
}

/* Everything that the command points to moves into the arena. */
static void finish(cel__emitter *e, cel_command *command) {
  cel_arena *arena = &cel_vec_last(&e->eras).arena;
  const cel_deps *deps = &e->deps;
  follow(e, deps);
  cel_vec_push(&e->followed, 0);
  command->id = e->next++;
  command->deps = deps->n;
  command->dep = cel_arena_copy(arena, deps->at, deps->n * sizeof *deps->at);
  cel_message *message = &command->message;
  if (message->pieces > 0)
    message->piece = cel_arena_copy(arena, message->piece,
                                    message->pieces * sizeof *message->piece);
  const cel_command *made = cel_arena_copy(arena, command, sizeof *command);
  e->emit(e->context, made);
}

void cel__emit_end(cel__emitter *e, cel_command *command) {
  if (e->applied != 0 && !has_true(&e->deps))
    cel_deps_add(&e->deps, e->applied, CEL_DEP_ORDER);
  finish(e, command);
}

static void depend_on_front(cel__emitter *e) {
  for (uint32_t i = 0; i < e->followed.n; ++i)
    if (!e->followed.at[i]) cel_deps_add(&e->deps, e->front + i, CEL_DEP_ORDER);
}

/* The new arena is the one that was emptied last, if there is one. */
static void open_era(cel__emitter *e, uint64_t last) {
  cel_vec_last(&e->eras).last = last;
  cel_vec_push(&e->eras, (cel__era){.arena = e->spare});
  cel_arena_init(&e->spare);
}

void cel__emit_horizon(cel__emitter *e, const cel_task *task) {
  bool epoch = task->kind == CEL_TASK_EPOCH;
  cel_command command = {
      .kind = epoch ? CEL_COMMAND_EPOCH : CEL_COMMAND_HORIZON, .task = task};
  uint64_t id = cel__emit_begin(e);
  depend_on_front(e);
  finish(e, &command);
  open_era(e, id);
  cel_vec_clear(&e->followed);
  cel_vec_push(&e->followed, 0);
  e->front = id;
  uint64_t apply = epoch ? id : e->pending;
  e->pending = epoch ? 0 : id;
  if (apply != 0) e->applied = apply;
}

static void end_era(cel__emitter *e, cel_arena *arena) {
  cel_arena_clear(arena);
  if (e->spare.blocks == NULL)
    e->spare = *arena;
  else
    cel_arena_release(arena);
}

void cel__emitter_retire(cel__emitter *e, uint64_t id) {
  uint32_t old = 0;
  while (old + 1 < e->eras.n && e->eras.at[old].last < id)
    end_era(e, &e->eras.at[old++].arena);
  if (old == 0) return;
  memmove(e->eras.at, e->eras.at + old, (e->eras.n - old) * sizeof *e->eras.at);
  e->eras.n -= old;
}

size_t cel__emitter_bytes(const cel__emitter *e) {
  size_t sum = cel_arena_bytes(&e->spare) + e->followed.cap;
  for (uint32_t i = 0; i < e->eras.n; ++i)
    sum += cel_arena_bytes(&e->eras.at[i].arena);
  return sum;
}
