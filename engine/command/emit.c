#include "command/emit.h"

void cel__emitter_init(cel__emitter *e, const cel_command_graph_config *config,
                       void (*drop)(void *kept)) {
  *e = (cel__emitter){.emit = config->emit,
                      .context = config->context,
                      .unordered = config->unordered};
  cel_front_init(&e->front);
  cel_eras_init(&e->eras, drop);
}

void cel__emitter_release(cel__emitter *e) {
  cel_eras_release(&e->eras);
  cel_front_release(&e->front);
  cel_deps_release(&e->deps);
}

uint64_t cel__emit_begin(cel__emitter *e) {
  cel_deps_clear(&e->deps);
  return e->front.next;
}

/* The command and its dependencies move into the arena. */
static void finish(cel__emitter *e, cel_command *command) {
  cel_arena *arena = cel_eras_arena(&e->eras);
  const cel_deps *deps = &e->deps;
  command->id = cel_front_add(&e->front, deps);
  command->deps = deps->n;
  command->dep = cel_arena_copy(arena, deps->at, deps->n * sizeof *deps->at);
  const cel_command *made = cel_arena_copy(arena, command, sizeof *command);
  e->emit(e->context, made);
}

void cel__emit_end(cel__emitter *e, cel_command *command) {
  bool ordered = e->unordered;
  for (uint32_t i = 0; i < e->deps.n && !ordered; ++i)
    ordered = e->deps.at[i].kind == CEL_DEP_TRUE;
  if (!ordered) cel_deps_add(&e->deps, e->front.floor, CEL_DEP_ORDER);
  finish(e, command);
}

void cel__emit_horizon(cel__emitter *e, const cel_task *task) {
  bool epoch = task->kind == CEL_TASK_EPOCH;
  cel_command command = {
      .kind = epoch ? CEL_COMMAND_EPOCH : CEL_COMMAND_HORIZON, .task = task};
  uint64_t id = cel__emit_begin(e);
  if (!e->unordered) cel_front_collect(&e->front, &e->deps);
  finish(e, &command);
  cel_front_barrier(&e->front, epoch);
  cel_eras_close(&e->eras, id);
}
