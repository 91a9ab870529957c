#include "runtime/internal.h"

#include "base/confined.h"
#include "tuning.h"

/* ---- what the graphs emit ----------------------------------------------- */

static void pass_instr(cel_engine *e, const cel_instr *instr) {
  if (e->scheduler.dropping) return;
  while (!cel_ring_push(e->instrs, (void *)(uintptr_t)instr)) {
    if (!e->config.threads) {
      cel_engine_step_executor(e);
      continue;
    }
    if (cel__engine_failed(e) || atomic_load(&e->stop)) {
      e->scheduler.dropping = true;
      return;
    }
    cel__executor_wake(e);
    uint32_t seen = cel_park_prepare(&e->scheduler_park);
    cel_park_wait(&e->scheduler_park, seen, CEL_TUNE_NAP_US);
  }
}

static void emit_instr(void *context, const cel_instr *instr) {
  cel_engine *e = context;
  cel_scheduler *s = &e->scheduler;
  atomic_fetch_add_explicit(&e->instrs_made, 1, memory_order_relaxed);
  if (e->config.saw_instr != NULL)
    e->config.saw_instr(e->config.saw_context, instr);
  if (instr->kind == CEL_INSTR_HORIZON || instr->kind == CEL_INSTR_EPOCH)
    for (uint32_t i = 0; i < s->horizons.n; ++i)
      if (s->horizons.at[i].task == instr->task->id)
        s->horizons.at[i].instr = instr->id;
  pass_instr(e, instr);
}

static void warn(void *context, const cel_task *task, const char *text) {
  const cel_engine *e = context;
  if (e->config.warn != NULL)
    e->config.warn(e->config.warn_context, task, text);
}

static void emit_command(void *context, const cel_command *command) {
  cel_engine *e = context;
  cel_scheduler *s = &e->scheduler;
  atomic_fetch_add_explicit(&e->commands_made, 1, memory_order_relaxed);
  if (e->config.saw_command != NULL)
    e->config.saw_command(e->config.saw_context, command);
  if (command->kind == CEL_COMMAND_HORIZON ||
      command->kind == CEL_COMMAND_EPOCH)
    cel_vec_push(&s->horizons,
                 (cel_horizon_ids){command->task->id, command->id, 0});
  if (s->status == CEL_E_OK)
    s->status = cel_instr_graph_add(s->instrs, command);
}

/* ---- steps -------------------------------------------------------------- */

static void retire(cel_engine *e) {
  cel_scheduler *s = &e->scheduler;
  uint64_t reached = atomic_load_explicit(&e->reached, memory_order_acquire);
  if (s->retired >= reached) return;
  cel_horizon_ids newest = {0};
  uint32_t n = 0;
  while (n < s->horizons.n && s->horizons.at[n].task <= reached)
    newest = s->horizons.at[n++];
  s->horizons.n -= n;
  memmove(s->horizons.at, s->horizons.at + n, s->horizons.n * sizeof newest);
  s->retired = reached;
  if (n == 0) return;
  cel_instr_graph_retire(s->instrs, newest.instr);
  cel_command_graph_retire(s->commands, newest.command);
  atomic_store_explicit(&e->retired, newest.task, memory_order_release);
}

static void take(cel_engine *e, void *item) {
  cel_scheduler *s = &e->scheduler;
  s->status = CEL_E_OK;
  const cel_task *task = NULL;
  int64_t begin = cel__engine_now(e);
  if (item == &e->flush) {
    s->status = cel_instr_graph_flush(s->instrs);
  } else {
    task = item;
    cel_status status = cel_command_graph_add(s->commands, task);
    if (status != CEL_E_OK) s->status = status;
    /* The task is there until this thread has retired it. */
    cel__engine_add_span(e, CEL_SPAN_SCHEDULE, task->id, task->name,
                         task->location, begin);
  }
  if (s->status == CEL_E_OK) return;
  if (task != NULL) cel_fail_at(task->location.file, task->location.line);
  cel__engine_fail(e, cel_error_last());
}

static bool is_late(const cel_task *task) {
  for (uint32_t i = 0; task->late && i < task->accesses; ++i)
    if (task->access[i].late != NULL &&
        !cel_late_is_known(task->access[i].late))
      return true;
  return false;
}

/* What comes before it may be held back, and tells it: that goes out. */
static void hold(cel_engine *e, void *task) {
  e->scheduler.held = task;
  take(e, &e->flush);
  if (e->config.threads) cel__executor_wake(e);
}

bool cel__scheduler_step(cel_engine *engine) {
  cel_scheduler *s = &engine->scheduler;
  retire(engine);
  bool again = s->held != NULL;
  void *item = again ? s->held : cel_ring_pop(engine->tasks);
  if (item == NULL) return false;
  s->held = NULL;
  if (cel__engine_failed(engine)) return true;
  if (item == &engine->flush || !is_late(item))
    take(engine, item);
  else if (again)
    s->held = item;
  else
    hold(engine, item);
  return s->held == NULL || !again;
}

/* ---- whose work it is ---------------------------------------------------- */

bool cel__role_take(cel_role *role, cel_thread_kind kind) {
  if (atomic_exchange(&role->taken, true)) return false;
  role->before = cel_thread_act(kind);
  return true;
}

void cel__role_leave(cel_role *role) {
  cel_thread_act(role->before);
  atomic_store(&role->taken, false);
}

static bool begin(cel_engine *e) {
  return cel__role_take(&e->scheduling, CEL_THREAD_SCHEDULER);
}

/* A queue that is long is its thread's, while main moves the executor on. */
bool cel__scheduler_help(cel_engine *engine) {
  if (cel_ring_empty(engine->tasks)) return true;
  int left = CEL_TUNE_HELP_TASKS;
  bool sleeps = cel_park_crowded() || cel_park_asleep(&engine->scheduler_park);
  if (sleeps && begin(engine)) {
    while (left > 0 && cel__scheduler_step(engine)) --left;
    const cel_task *held = engine->scheduler.held;
    cel__role_leave(&engine->scheduling);
    if (left > 0 && (held == NULL || is_late(held))) return true;
  }
  cel_park_wake(&engine->scheduler_park); /* it may have looked before */
  return false;
}

/* As cel__scheduler_step; false, too, where main does it. */
static bool step(cel_engine *e) {
  if (!begin(e)) return false;
  bool more = cel__scheduler_step(e);
  cel__role_leave(&e->scheduling);
  return more;
}

static void flush(cel_engine *e) {
  if (!begin(e)) return;
  if (!cel__engine_failed(e)) take(e, &e->flush);
  cel__role_leave(&e->scheduling);
}

/* On one core main has it, and submits more if it is let: what this thread does
 * is done just as soon at the end of that. Main wakes it when it waits. A GPU
 * does not need the core, and begins soon.
 *
 * Who writes one word and then reads another, while a second thread reads and
 * writes the two the other way round, is not to miss what that wrote. Of
 * `dozes` and `hurries` either main sees that this thread may nap, and wakes
 * it, or this one sees that main waits: all four are in one order, that of
 * sequential consistency. Of `dozes` and the ring of tasks either main sees
 * that there is no more dozing, or what main has pushed is seen after this. The
 * ring's own accesses are in no such order, and what is read after a store may
 * be read before others see that, even of the strongest kind: so a fence stands
 * here, as one does in cel__engine_pass. */
static void doze(cel_engine *e) {
  if (cel_park_cores() > 1) return;
  bool shared = e->config.backend->device_memory[0] == CEL_MEMORY_HOST;
  uint32_t us = shared ? CEL_TUNE_DOZE_US : CEL_TUNE_NAP_US;
  atomic_store(&e->dozes, true);
  uint32_t seen = cel_park_prepare(&e->scheduler_park);
  if (!atomic_load(&e->hurries) && !atomic_load(&e->stop))
    cel_park_wait(&e->scheduler_park, seen, us);
  atomic_store_explicit(&e->dozes, false, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
}

/* Sleeps for news; where none comes for a while, what is held back goes out.
 * Not in a dry run, which counts the same however slow the script is. */
static void wait_for_task(cel_engine *e, uint32_t seen, bool *idle) {
  if (*idle || e->config.transport->dry) {
    cel_park_wait(&e->scheduler_park, seen, UINT32_MAX);
    *idle = false;
    doze(e);
    return;
  }
  cel_park_wait(&e->scheduler_park, seen, CEL_TUNE_SCHEDULER_IDLE_US);
  if (cel_park_prepare(&e->scheduler_park) != seen) {
    doze(e);
    return;
  }
  *idle = true;
  flush(e);
  cel__executor_wake(e);
}

void *cel__scheduler_main(void *engine) {
  cel_engine *e = engine;
  cel_thread_act(CEL_THREAD_SCHEDULER);
  bool idle = true, crowded = cel_park_crowded();
  uint32_t steps = 0;
  cel_park_defer();
  for (;;) {
    uint32_t seen = cel_park_prepare(&e->scheduler_park);
    if (atomic_load(&e->stop)) return NULL;
    if (step(e)) {
      if (!crowded || ++steps % CEL_TUNE_SCHEDULER_BATCH == 0 ||
          cel_ring_empty(e->tasks))
        cel__executor_wake(e);
      idle = false;
    } else {
      wait_for_task(e, seen, &idle);
    }
  }
}

/* ---- life --------------------------------------------------------------- */

void cel__scheduler_init(cel_engine *engine) {
  const cel_engine_config *c = &engine->config;
  const cel_backend *b = c->backend;
  /* All ranks come to the same. What a dry run is for nobody has said: one
   * host, as that shows what its messages are alone. */
  bool several_hosts =
      !c->transport->dry && c->transport->local_ranks < c->transport->ranks;
  /* Direct messages are for the one device of a rank. */
  bool direct = b->devices == 1 && b->device_memory[0] != CEL_MEMORY_HOST;
  int32_t nears = direct ? c->transport->messages.nears : 0;
  cel_command_graph_config commands = {
      .rank = c->transport->rank,
      .ranks = c->transport->ranks,
      .small_bytes = c->small_bytes,
      .large_bytes = c->large_bytes,
      .near = c->transport->messages.near,
      .nears = nears,
      .collectives = c->collectives && !c->by_messages,
      .count_most = c->count_most,
      .tree_least = c->tree_least,
      .several_hosts = several_hosts,
      .unordered = c->saw_command == NULL,
      .collective = c->transport->collectives.limits,
      .join = c->transport->collectives.join != NULL ? cel__joining_ask : NULL,
      .messages_else = c->messages_else,
      .emit = emit_command,
      .context = engine};
  cel_instr_graph_config instrs = {
      .rank = c->transport->rank,
      .ranks = c->transport->ranks,
      .devices = c->backend->devices,
      .grain = c->backend->grain,
      .whole = c->backend->whole,
      .block = c->backend->block,
      .near = c->transport->messages.near,
      .nears = nears,
      .direct_bytes = c->transport->messages.direct_bytes,
      .far_bytes = direct ? c->transport->messages.far_bytes : 0,
      .large_bytes = c->large_bytes,
      .freed_bytes = c->freed_bytes,
      .lookahead = c->lookahead,
      .interior_bytes = c->interior_bytes,
      .sweep_bytes = c->sweep_bytes,
      .fuses = c->backend->spares,
      .together_peers = c->together_peers,
      .emit = emit_instr,
      .advise = c->advise,
      .warn = warn,
      .context = engine};
  for (int m = 0; m < c->backend->memories; ++m)
    instrs.capacity[m] = c->backend->capacity[m];
  for (int d = 0; d < c->backend->devices; ++d)
    instrs.device_memory[d] = c->backend->device_memory[d];
  engine->scheduler.commands = cel_command_graph_create(&commands);
  engine->scheduler.instrs = cel_instr_graph_create(&instrs);
}

void cel__scheduler_release(cel_engine *engine) {
  cel_instr_graph_destroy(engine->scheduler.instrs);
  cel_command_graph_destroy(engine->scheduler.commands);
  cel_vec_release(&engine->scheduler.horizons);
}
