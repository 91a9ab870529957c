/* What main does: submits, waits, asks; starts the engine and ends it. */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include <stdio.h>
#include <time.h>

#include "base/confined.h"
#include "comm/communicator.h"
#include "device/clock.h"
#include "device/thread.h"
#include "fold/fold.h"
#include "runtime/internal.h"
#include "tuning.h"

enum {
  LOOK_US = 50000,      /* how often a waiting main looks for an interrupt */
  SUSPECT_LOOKS = 40,   /* looks without a move until it suspects; then twice
                           as many, and so on */
  PATIENCE_US = 1000000 /* between rank 0's answers to suspicion, at first */
};

/* ---- handing over -------------------------------------------------------- */

void cel__engine_pass(cel_engine *engine, void *item) {
  cel_engine *e = engine;
  while (!cel_ring_push(e->tasks, item)) {
    if (!e->config.threads) {
      if (!cel__scheduler_step(e)) cel_engine_step_executor(e);
      continue;
    }
    cel_park_wake(&e->scheduler_park);
    uint32_t seen = cel_park_prepare(&e->park);
    cel_park_wait(&e->park, seen, CEL_TUNE_NAP_US);
  }
  /* Either the scheduler is seen not to doze, or it sees the item: see there.
   */
  atomic_thread_fence(memory_order_seq_cst);
  if (e->config.threads && !e->helps &&
      !atomic_load_explicit(&e->dozes, memory_order_relaxed))
    cel_park_wake(&e->scheduler_park);
}

bool cel_engine_congested(const cel_engine *engine) {
  uint64_t done = atomic_load(&engine->laps_done);
  return engine->laps_made - done > engine->laps_ahead;
}

/* So that one fold is there to go on with while another one is executed. */
static void run_ahead(cel_engine *e, const cel_fold *fold) {
  uint64_t begin = fold->step[0].task->lap;
  uint64_t laps = fold->step[fold->steps - 1].task->lap + 1 - begin;
  if (2 * laps < e->laps_ahead) return;
  e->laps_ahead = 2 * laps;
  e->fold_lap = begin;
}

/* Whoever looks at the program sees the user's tasks, not what they are folded
 * into. */
static void emit_task(void *context, const cel_task *task) {
  cel_engine *e = context;
  e->last_task = task->id;
  atomic_fetch_add_explicit(&e->tasks_made, 1, memory_order_relaxed);
  if (e->config.saw_task != NULL)
    e->config.saw_task(e->config.saw_context, task);
  cel__divergence_log(&e->divergence, task);
  cel_fold_window_add(e->folds, task);
}

/* Laps and horizons count from here on: main never waits for what is held. */
static void pass_task(void *context, const cel_task *task) {
  cel_engine *e = context;
  bool horizon = task->kind == CEL_TASK_HORIZON || task->kind == CEL_TASK_EPOCH;
  cel__engine_pass(e, (void *)(uintptr_t)task);
  if (task->folded != NULL) run_ahead(e, task->folded);
  if (!horizon) return;
  e->horizons_made++;
  e->laps_made = task->lap;
  if (task->lap - e->fold_lap > 2 * e->laps_ahead)
    e->laps_ahead = (uint64_t)e->config.laps_ahead;
  /* What is held back could be all that main is going to wait for. */
  if (cel_engine_congested(e)) cel__engine_pass(e, &e->flush);
}

static void note_alone(void *context, const cel_task *task, const char *why) {
  const cel_engine *e = context;
  cel_profile_add_alone(e->config.profile, cel__name_of(task->name),
                        task->location, why);
}

/* Drops what nobody needs any more. */
static void retire(cel_engine *e) {
  uint64_t retired = atomic_load_explicit(&e->retired, memory_order_acquire);
  if (retired == e->retired_seen) return;
  e->retired_seen = retired;
  cel_task_graph_retire(e->graph, retired);
  cel_fold_window_retire(e->folds, retired);
  cel__owned_retire(e, retired);
}

/* ---- waiting ------------------------------------------------------------- */

void cel_engine_suspect(cel_engine *engine) {
  atomic_store(&engine->divergence.suspicious, true);
  cel__executor_wake(engine);
}

/* What main knows while it waits. */
typedef struct waiting {
  bool helps;     /* does other threads' work: */
  bool scheduled; /* the scheduler's no more, as it has much */
  bool executes;  /* it is the executor */
  int polls;      /* as that */
  uint32_t seen;  /* of `park` */
  int64_t looked_ns;
  uint64_t moves; /* then */
  int looks;      /* since something moved */
} waiting;

/* Once per look: suspects when nothing has moved for long. */
static void watch(cel_engine *e, waiting *w) {
  int64_t now_ns = cel_now_ns();
  if (now_ns - w->looked_ns < LOOK_US * INT64_C(1000)) return;
  w->looked_ns = now_ns;
  uint64_t moves = atomic_load_explicit(&e->moves, memory_order_relaxed);
  w->looks = moves == w->moves ? w->looks + 1 : 0;
  w->moves = moves;
  int rounds = w->looks / SUSPECT_LOOKS;
  bool power = rounds > 0 && (rounds & (rounds - 1)) == 0;
  if (power && w->looks % SUSPECT_LOOKS == 0) cel_engine_suspect(e);
}

/* Until there are news. Main does what else two threads would be woken for, and
 * then sleeps in the executor's place. */
static void rest(cel_engine *e, waiting *w) {
  if (w->helps && !w->scheduled && !cel__scheduler_help(e)) w->scheduled = true;
  if (w->executes) {
    w->executes = cel__executor_turn(e, &w->polls, LOOK_US);
  } else if (w->helps && cel__executor_borrow(e)) {
    w->executes = true; /* now that news are told there: looks once more */
  } else {
    if (w->helps) cel__executor_wake(e); /* it may have been given more */
    cel_park_wait(&e->park, w->seen, LOOK_US);
  }
}

static cel_status await(cel_engine *e,
                        bool (*ready)(const cel_engine *, const void *),
                        const void *context, bool (*interrupted)(void),
                        waiting *w) {
  for (;;) {
    w->seen = cel_park_prepare(&e->park);
    CEL_TRY(cel_engine_check(e));
    if (ready(e, context)) return CEL_E_OK;
    if (interrupted != NULL && interrupted())
      return cel_fail(CEL_E_CANCELLED, "interrupted");
    rest(e, w);
    watch(e, w);
  }
}

/* Whether main does other threads' work while it waits for all that it has
 * submitted. Not with a timeline, which shows each thread's, nor in a dry run,
 * whose figures are theirs; and not in a session, which Ctrl-C is to give back
 * whatever a kernel does. */
static bool lends(const cel_engine *e) {
  const cel_engine_config *c = &e->config;
  return c->threads && !c->forgiving && c->timeline == NULL &&
         !c->transport->dry &&
         !atomic_load_explicit(&e->awaits_turn, memory_order_relaxed);
}

/* Nothing more comes before main waits. What it takes in itself, or then wakes
 * the scheduler for, that need not be woken for now. */
static void hurry(cel_engine *e, bool helps) {
  if (atomic_load_explicit(&e->hurries, memory_order_relaxed)) return;
  atomic_store(&e->hurries, true);
  if (!helps && atomic_load(&e->dozes)) cel_park_wake(&e->scheduler_park);
}

cel_status cel__engine_await(cel_engine *engine,
                             bool (*ready)(const cel_engine *, const void *),
                             const void *context, bool (*interrupted)(void)) {
  cel_engine *e = engine;
  CEL_TRY(cel_engine_check(e));
  if (ready(e, context)) return CEL_E_OK;
  if (!e->config.threads) return cel_fail(CEL_E_CANCELLED, "not there yet");
  int64_t begin = cel_now_ns();
  atomic_store_explicit(&e->awaits, true, memory_order_relaxed);
  waiting w = {.helps = lends(e), .looked_ns = begin};
  hurry(e, w.helps);
  cel_status status = await(e, ready, context, interrupted, &w);
  if (w.executes) cel__executor_give_back(e);
  atomic_store_explicit(&e->awaits, false, memory_order_relaxed);
  e->waited += cel_now_ns() - begin;
  cel__engine_add_span(e, CEL_SPAN_WAIT, 0, NULL, e->at, begin);
  return status;
}

static bool is_uncongested(const cel_engine *engine, const void *context) {
  (void)context;
  return !cel_engine_congested(engine);
}

/* Whoever knows of a horizon's end tells at once while main waits for it. */
static cel_status await_turn(cel_engine *e) {
  atomic_store(&e->awaits_turn, true);
  if (cel_host_lanes_expect(e->config.host, true)) cel__executor_wake(e);
  cel_status status =
      cel__engine_await(e, is_uncongested, NULL, e->config.interrupted);
  cel_host_lanes_expect(e->config.host, false);
  atomic_store_explicit(&e->awaits_turn, false, memory_order_relaxed);
  return status;
}

/* Whether the session's line may go on. */
static cel_status pass(const cel_engine *e) {
  const cel_engine_config *c = &e->config;
  return c->pass == NULL || c->pass(c->pass_context)
             ? CEL_E_OK
             : cel_fail(CEL_E_CANCELLED, "interrupted");
}

/* Before main submits: reports a failure, drops what is done with, waits its
 * turn. */
static cel_status enter(cel_engine *e) {
  CEL_TRY(cel_engine_check(e));
  atomic_store_explicit(&e->hurries, false, memory_order_relaxed);
  retire(e);
  if (e->config.threads && cel_engine_congested(e)) CEL_TRY(await_turn(e));
  return pass(e);
}

/* ---- the program --------------------------------------------------------- */

cel_rules *cel_engine_rules(cel_engine *engine) {
  return engine->rules;
}

static int64_t reducing(const cel_engine_config *c) {
  return c->reducing > 0 ? c->reducing : c->backend->devices;
}

void cel_engine_chunks(const cel_engine *engine, const cel_group *group,
                       bool reduces, uint32_t tried, cel_chunks *out) {
  const cel_engine_config *c = &engine->config;
  int64_t some = reducing(c), all = c->backend->devices;
  cel_chunks_of of = {.rank = c->transport->rank,
                      .ranks = c->transport->ranks,
                      .devices = reduces && some < all ? some : all,
                      .tried = tried};
  cel_chunks_find(group, &of, out);
}

/* Also what is reduced into, which may be combined later: that is a mode that
 * produces, too. */
static void count_changes(const cel_group *group) {
  for (uint32_t i = 0; i < group->accesses; ++i)
    if (cel_mode_produces(group->access[i].mode))
      ++*group->access[i].buffer->changes;
}

cel_status cel_engine_submit(cel_engine *engine, const cel_group *group) {
  cel_assert_thread(CEL_THREAD_MAIN);
  uint64_t id;
  const cel_control_table *control = &engine->config.transport->control;
  if (group->collective_group != 0 && control->no_groups != NULL) {
    cel_fail(CEL_E_COMM, "%s", control->no_groups);
    return cel_fail_at(group->location.file, group->location.line);
  }
  if (group->collective_group != 0 && control->declare_group != NULL)
    control->declare_group(control->self, group->collective_group);
  if (engine->began == 0) cel__engine_begin(engine);
  int64_t begin = cel__engine_now(engine);
  engine->at = group->location;
  CEL_TRY(enter(engine));
  CEL_TRY(cel_task_graph_submit(engine->graph, group, &id));
  count_changes(group);
  cel__engine_add_span(engine, CEL_SPAN_SUBMIT, id, group->name,
                       group->location, begin);
  return CEL_E_OK;
}

void cel_engine_unhold(cel_engine *engine) {
  cel_fold_window_flush(engine->folds);
}

uint64_t cel_engine_epoch(cel_engine *engine, cel_location location) {
  retire(engine);
  engine->at = location;
  hurry(engine, engine->helps);
  return cel_task_graph_epoch(engine->graph, location);
}

bool cel_engine_reached(const cel_engine *engine, uint64_t epoch) {
  return cel__divergence_executed_by_all(&engine->divergence) >= epoch;
}

static bool is_reached(const cel_engine *engine, const void *epoch) {
  return cel_engine_reached(engine, *(const uint64_t *)epoch);
}

cel_status cel_engine_wait(cel_engine *engine, uint64_t epoch,
                           bool (*interrupted)(void)) {
  cel_assert_thread(CEL_THREAD_MAIN);
  CEL_TRY(cel__engine_await(engine, is_reached, &epoch, interrupted));
  retire(engine);
  return CEL_E_OK;
}

cel_status cel_engine_barrier(cel_engine *engine, cel_location location,
                              bool (*interrupted)(void)) {
  cel_assert_thread(CEL_THREAD_MAIN);
  cel_engine *e = engine;
  CEL_TRY(pass(e));
  e->helps = lends(e);
  uint64_t epoch = cel_engine_epoch(e, location);
  e->helps = false;
  return cel_engine_wait(e, epoch, interrupted);
}

static bool is_settled(const cel_engine *engine, const void *context) {
  (void)context;
  return cel__divergence_settled(&engine->divergence);
}

cel_status cel_engine_finish(cel_engine *engine, cel_location location,
                             bool (*interrupted)(void)) {
  cel_assert_thread(CEL_THREAD_MAIN);
  cel__divergence_end(&engine->divergence, location);
  cel__executor_wake(engine);
  return cel__engine_await(engine, is_settled, NULL, interrupted);
}

/* ---- questions ---------------------------------------------------------- */

bool cel_engine_step_scheduler(cel_engine *engine) {
  return cel__scheduler_step(engine);
}

void cel_engine_describe(const cel_engine *engine, char *text, size_t size) {
  int n = snprintf(
      text, size,
      "rank %lld: %llu tasks, %llu commands, %llu instructions made; task %llu "
      "reached; tasks %s, instructions %s on their way; agreements %llu of "
      "%llu\n",
      (long long)engine->config.transport->rank,
      (unsigned long long)atomic_load(&engine->tasks_made),
      (unsigned long long)atomic_load(&engine->commands_made),
      (unsigned long long)atomic_load(&engine->instrs_made),
      (unsigned long long)atomic_load(&engine->reached),
      cel_ring_empty(engine->tasks) ? "not" : "still",
      cel_ring_empty(engine->instrs) ? "not" : "still",
      (unsigned long long)atomic_load(&engine->divergence.agreed),
      (unsigned long long)atomic_load(&engine->divergence.asked));
  if (n >= 0 && (size_t)n < size)
    cel_executor_describe(engine->executor, text + n, size - (size_t)n);
}

bool cel_engine_tell(const cel_engine *engine, char *text, size_t size) {
  bool waits = cel_executor_tell(engine->executor, text, size);
  if (waits || cel__divergence_settled(&engine->divergence)) return waits;
  snprintf(text, size,
           "  the other ranks, which have not all come to where this one is in "
           "the program\n");
  return true;
}

void cel_engine_count(const cel_engine *engine, cel_engine_counts *out) {
  cel_executor_counts done;
  uint64_t messages, bytes;
  cel_executor_count(engine->executor, &done);
  cel_comm_count(&messages, &bytes); /* of images, routes, host tasks */
  /* Their numbers ascend, and what comes before an executed horizon is done. */
  uint64_t horizons = atomic_load(&engine->horizons_done);
  uint64_t reached = atomic_load(&engine->reached);
  *out =
      (cel_engine_counts){.tasks = atomic_load(&engine->tasks_made),
                          .commands = atomic_load(&engine->commands_made),
                          .instructions = atomic_load(&engine->instrs_made),
                          .messages = done.messages + messages,
                          .bytes_sent = done.bytes_sent + bytes,
                          .copies = done.copies,
                          .bytes_copied = done.bytes_copied,
                          .allocations = done.allocations,
                          .horizons = atomic_load(&engine->horizons_made),
                          .done = reached > horizons ? reached - horizons : 0};
}

/* ---- life --------------------------------------------------------------- */

static void warn(void *context, const cel_task *task, const char *text) {
  const cel_engine *e = context;
  if (e->config.warn != NULL)
    e->config.warn(e->config.warn_context, task, text);
}

static const cel_buffer *make_buffer(void *context, int32_t dims,
                                     const int64_t extent[3],
                                     uint32_t element_size, const char *name,
                                     cel_init *init) {
  return cel_engine_buffer(context, dims, extent, element_size, 0, name, init,
                           false);
}

static void drop_buffer(void *context, const cel_buffer *buffer) {
  cel_engine_buffer_free(context, buffer);
}

static cel_all_reduces all_reduces(const cel_engine_config *c) {
  if (!c->collectives || c->by_messages) return CEL_ALL_REDUCES_NOWHERE;
  return c->transport->collectives.limits.devices > 0
             ? CEL_ALL_REDUCES_ON_GPUS
             : CEL_ALL_REDUCES_ON_HOSTS;
}

static void make_graph(cel_engine *e) {
  const cel_engine_config *c = &e->config;
  cel_fold_config folds = {.rules = e->rules,
                           .off = c->audit != NULL,
                           .machine = !c->alike ? CEL_FOLD_MIXED
                                      : c->gpus ? CEL_FOLD_GPU
                                                : CEL_FOLD_PROCESSOR,
                           .ranks = c->transport->ranks,
                           .devices = c->backend->devices,
                           .room = c->room,
                           .stores = !c->alike || !c->gpus,
                           .pass = pass_task,
                           .alone = c->profile != NULL ? note_alone : NULL,
                           .context = e};
  e->folds = cel_fold_window_create(&folds);
  cel_task_graph_config config = {.ranks = c->transport->ranks,
                                  .reducing = reducing(c),
                                  .in_place =
                                      c->backend->holds && c->audit == NULL,
                                  .collectives = c->collectives,
                                  .all_reduces = all_reduces(c),
                                  .alike = c->alike,
                                  .rules = e->rules,
                                  .audited = c->audit != NULL,
                                  .make = make_buffer,
                                  .drop = drop_buffer,
                                  .horizon_step = c->horizon_step,
                                  .horizon_breadth = c->horizon_breadth,
                                  .emit = emit_task,
                                  .warn = warn,
                                  .context = e};
  e->graph = cel_task_graph_create(&config);
}

static void heard_failure(void *context, const cel_error *error) {
  cel__engine_fail(context, error);
}

static cel_status start_executor(cel_engine *e) {
  CEL_TRY(cel_thread_start(&e->executor_thread, cel__executor_main, e,
                           "executing"));
  e->has_executor = true;
  if (e->config.backend->aside == NULL) return CEL_E_OK;
  CEL_TRY(cel_thread_start(&e->stand_in_thread, cel__stand_in_main, e,
                           "watching over that"));
  e->has_stand_in = true;
  return CEL_E_OK;
}

/* The one that stands in ends last, and knows who the executor is. */
static void join_executor(cel_engine *e) {
  if (e->has_stand_in) pthread_join(e->stand_in_thread, NULL);
  if (e->has_executor) pthread_join(e->executor_thread, NULL);
}

static cel_status start_threads(cel_engine *e) {
  CEL_TRY(cel_thread_start(&e->scheduler_thread, cel__scheduler_main, e,
                           "scheduling"));
  cel_status status = start_executor(e);
  if (status == CEL_E_OK) return CEL_E_OK;
  atomic_store(&e->stop, true);
  cel__engine_wake(e);
  pthread_join(e->scheduler_thread, NULL);
  join_executor(e);
  return status;
}

cel_status cel_engine_create(const cel_engine_config *config,
                             cel_engine **out) {
  cel_engine *e = cel_alloc_lines(sizeof *e);
  e->config = *config;
  if (e->config.laps_ahead <= 0) e->config.laps_ahead = CEL_TUNE_LAPS_AHEAD;
  e->laps_ahead = (uint64_t)e->config.laps_ahead;
  cel_park_init(&e->park);
  cel_park_init(&e->scheduler_park);
  cel_park_init(&e->off_duty);
  int32_t ranks = config->transport->local_ranks;
  cel_park_linger(&e->park, ranks);
  cel_park_linger(&e->scheduler_park, ranks);
  cel_park_linger(&e->off_duty, ranks);
  if (config->park != NULL) cel_park_linger(config->park, ranks);
  pthread_mutex_init(&e->lock, NULL);
  cel__divergence_init(&e->divergence, config->transport, config->backend,
                       config->arguments, heard_failure, e);
  e->divergence.patience_us = config->threads ? PATIENCE_US : 0;
  if (config->stalled != NULL) e->watchdog.limit_ns = config->watchdog_ns;
  e->rules = config->rules != NULL ? config->rules : cel_rules_create();
  e->tasks = cel_ring_create(CEL_TUNE_RING);
  e->instrs = cel_ring_create(CEL_TUNE_RING);
  cel__executor_init(e);
  cel__scheduler_init(e);
  make_graph(e);
  cel_status status = config->threads ? start_threads(e) : CEL_E_OK;
  if (config->threads) cel_thread_act(CEL_THREAD_MAIN);
  if (status != CEL_E_OK) {
    e->stopped = true; /* there are no threads to be ended */
    cel_engine_destroy(e);
    return status;
  }
  *out = e;
  return CEL_E_OK;
}

void cel_engine_stop(cel_engine *engine) {
  cel_assert_thread(CEL_THREAD_MAIN);
  if (engine->stopped) return;
  engine->stopped = true;
  atomic_store(&engine->stop, true);
  cel__engine_wake(engine);
  if (!engine->config.threads) { /* nobody else takes the last completions in */
    cel_executor_halt(engine->executor);
    while (!cel_executor_quiet(engine->executor))
      cel_executor_step(engine->executor);
    return;
  }
  pthread_join(engine->scheduler_thread, NULL);
  join_executor(engine);
}

/* Whether a thread that there is has ended by then. */
static bool join_by(pthread_t thread, bool *is_there,
                    const struct timespec *by) {
  if (*is_there) *is_there = pthread_timedjoin_np(thread, NULL, by) != 0;
  return !*is_there;
}

bool cel_engine_stop_within(cel_engine *e, int32_t seconds) {
  struct timespec by;
  cel_assert_thread(CEL_THREAD_MAIN);
  if (e->stopped) return true;
  clock_gettime(CLOCK_REALTIME, &by);
  by.tv_sec += seconds;
  atomic_store(&e->stop, true);
  cel__engine_wake(e);
  pthread_join(e->scheduler_thread, NULL);
  e->stopped = join_by(e->stand_in_thread, &e->has_stand_in, &by) &&
               join_by(e->executor_thread, &e->has_executor, &by);
  return e->stopped;
}

void cel_engine_abandon(cel_engine *engine) {
  if (engine->stopped || !engine->config.threads) return;
  engine->stopped = true;
  atomic_store(&engine->abandoned, true);
  cel__executor_wake(engine);
  join_executor(engine);
}

void cel_engine_destroy(cel_engine *engine) {
  cel_engine *e = engine;
  cel_engine_stop(e);
  cel_executor_destroy(e->executor);
  cel__scheduler_release(e);
  cel_fold_window_destroy(e->folds);
  cel_task_graph_destroy(e->graph);
  cel__owned_release(e);
  cel_ring_destroy(e->tasks);
  cel_ring_destroy(e->instrs);
  for (int d = 0; d <= CEL_DIMS; ++d)
    if (e->fence_rule[d] != NULL) cel_rule_release(e->fence_rule[d]);
  if (e->config.rules == NULL) cel_rules_destroy(e->rules);
  cel__divergence_release(&e->divergence);
  pthread_mutex_destroy(&e->lock);
  if (e->config.threads) cel_thread_act(CEL_THREAD_ANY);
  cel_free(e);
}
