/* The executor, which is its thread or main while that waits: it carries
 * instructions out, and in between waits for other ranks, whose words wake
 * nobody. So it polls, and lets others have the core, or naps, as cores are;
 * and it looks out for what does not move, or does not come. */
#include <sched.h>
#include <unistd.h>

#include "base/confined.h"
#include "device/aside.h"
#include "device/clock.h"
#include "device/thread.h"
#include "runtime/internal.h"
#include "tuning.h"

/* ---- steps --------------------------------------------------------------- */

static void completed(void *context, const cel_instr *instr) {
  cel_engine *e = context;
  atomic_store_explicit(&e->reached, instr->task->id, memory_order_release);
  /* The next task has the scheduler retire what this closes: nobody waits for
   * that, and main may, for the same core. Of an epoch main is told when all
   * ranks have executed it. */
  atomic_fetch_add_explicit(&e->horizons_done, 1, memory_order_relaxed);
  atomic_store(&e->laps_done, instr->task->lap);
  if (instr->kind == CEL_INSTR_EPOCH)
    cel__divergence_executed(&e->divergence, instr->task->id);
  if (atomic_load(&e->awaits_turn)) cel_park_wake(&e->park);
}

static void instr_failed(void *context, const cel_instr *instr,
                         const cel_error *error) {
  cel_engine *e = context;
  (void)instr;
  if (error->code == CEL_E_COMM && e->config.transport->ranks > 1)
    cel__divergence_doubt(&e->divergence, error);
  else
    cel__engine_fail(e, error);
}

static cel_step step(cel_engine *e) {
  cel_divergence *d = &e->divergence;
  bool settled = cel__divergence_settled(d), moved = false;
  uint64_t before = cel__divergence_executed_by_all(d);
  bool progress = cel__divergence_tick(d);
  if ((!settled && cel__divergence_settled(d)) ||
      cel__divergence_executed_by_all(d) != before) {
    cel_park_wake(&e->park);
    moved = true;
  }
  if (cel__engine_failed(e) && !e->told_others) {
    e->told_others = true;
    cel_executor_halt(e->executor);
    cel__divergence_cancel(d, &e->failure);
  }
  cel__engine_take_loss(e);
  for (int i = 0; i < CEL_TUNE_EXECUTOR_BATCH; ++i) {
    const cel_instr *instr = cel_ring_pop(e->instrs);
    if (instr == NULL) break;
    cel_executor_add(e->executor, instr);
    moved = true;
  }
  cel_step made = cel_executor_step(e->executor);
  if (made == CEL_STEP_GONE) return made;
  moved |= made == CEL_STEP_MOVED;
  moved |= cel__joining_step(e);
  if (moved) cel__watchdog_moved(&e->watchdog);
  progress |= moved;
  if (progress) atomic_fetch_add_explicit(&e->moves, 1, memory_order_relaxed);
  return progress ? CEL_STEP_MOVED : CEL_STEP_NOTHING;
}

bool cel_engine_step_executor(cel_engine *engine) {
  return step(engine) == CEL_STEP_MOVED;
}

/* ---- waiting ------------------------------------------------------------- */

/* After each step: whether main leaves the executor without work (idle.h). */
static void watch(cel_engine *e, bool progress) {
  char text[256];
  if (!e->config.advise || (!progress && !cel_executor_idle(e->executor)))
    return;
  if (atomic_load_explicit(&e->awaits, memory_order_relaxed) ||
      atomic_load_explicit(&e->joining, memory_order_relaxed) ==
          CEL__JOINING_ASKED)
    cel__idle_forget(&e->idle);
  else if (progress == (e->idle.since_ns == 0))
    return; /* as before; the clock costs */
  else if (!progress)
    cel__idle_begin(&e->idle, cel_now_ns());
  else if (cel__idle_end(&e->idle, cel_now_ns(), text, sizeof text))
    e->config.warn(e->config.warn_context, NULL, text);
}

/* Lets others have the core, unless they have just kept it for long: who polls
 * comes last, while a sleeper gets it back at once. */
static bool yield(cel_engine *e) {
  if (e->crowded > 0) {
    e->crowded--;
    return false;
  }
  int64_t begin = cel_now_ns();
  sched_yield();
  if (cel_now_ns() - begin > CEL_TUNE_CROWDED_NS)
    e->crowded = CEL_TUNE_CROWDED_NAPS;
  return true;
}

/* Whether no other thread of the rank has work, and no other rank the core:
 * then to let others have it gives it to nobody, and costs this thread its
 * place before those that it will wake, each of which takes the core from it
 * for a while. */
static bool is_alone(const cel_engine *e) {
  return e->own_cores &&
         atomic_load_explicit(&e->awaits, memory_order_relaxed) &&
         cel_executor_quiet(e->executor) && cel_ring_empty(e->tasks) &&
         !atomic_load_explicit(&e->scheduling.taken, memory_order_relaxed);
}

/* Something is under way that wakes nobody: whether to look at it again at
 * once, after so many looks in vain, maybe after others have had the core. */
static bool polls_on(cel_engine *e, int *polls) {
  ++*polls;
  if (is_alone(e)) return *polls < CEL_TUNE_POLLS_SPARE;
  if (!e->to_spare) return *polls < e->polls && yield(e);
  return *polls < CEL_TUNE_POLLS_GREEDY ||
         (*polls < CEL_TUNE_POLLS_SPARE && yield(e));
}

/* Until one looks for what other ranks tell unasked. */
static uint32_t listen_us(const cel_engine *e) {
  return e->config.transport->ranks > 1 ? CEL_TUNE_LISTEN_US : UINT32_MAX;
}

/* For how long to sleep until news come, after a step in vain; 0: not at all.
 * Not beyond the moment in which it is to be said that nothing moves
 * (watchdog.h). */
static uint32_t rest(cel_engine *e, int *polls) {
  char text[CEL_ERROR_TEXT];
  cel_transport *t = e->config.transport;
  uint32_t us = listen_us(e);
  if (t->busy(t)) {
    if (polls_on(e, polls)) return 0;
    us = CEL_TUNE_NAP_US;
  }
  bool speak;
  int64_t now = e->watchdog.limit_ns > 0 ? cel_now_ns() : 0;
  us = cel__watchdog_rest(&e->watchdog, us, now, &speak);
  if (!speak) return us;
  if (cel_engine_tell(e, text, sizeof text))
    e->config.stalled(e->config.stalled_context, text);
  else
    cel__watchdog_moved(&e->watchdog);
  return 0;
}

/* *us: for how long to sleep after it. False: another thread has taken the
 * place of the calling one, which touches nothing more of the executor's. */
static bool turn(cel_engine *e, int *polls, uint32_t *us) {
  cel_step made = step(e);
  if (made == CEL_STEP_GONE) return false;
  watch(e, made == CEL_STEP_MOVED);
  *us = made == CEL_STEP_NOTHING ? rest(e, polls) : 0;
  if (made == CEL_STEP_MOVED) *polls = 0;
  return true;
}

/* ---- main, while it waits ------------------------------------------------ */

bool cel__executor_borrow(cel_engine *engine) {
  bool awake = !cel_park_asleep(engine->config.park) &&
               !cel_park_asleep(&engine->off_duty);
  if (awake && !cel_park_crowded()) return false;
  if (!cel__role_take(&engine->executing, CEL_THREAD_EXECUTOR)) return false;
  atomic_store(&engine->lent, true);
  return true;
}

bool cel__executor_turn(cel_engine *engine, int *polls, uint32_t most_us) {
  uint32_t seen = cel_park_prepare(engine->config.park), us;
  if (!turn(engine, polls, &us)) {
    cel_thread_act(CEL_THREAD_MAIN);
    return false;
  }
  if (us > 0)
    cel_park_wait(engine->config.park, seen, us < most_us ? us : most_us);
  return true;
}

bool cel__executor_take_back(cel_engine *engine) {
  if (!atomic_load(&engine->lent)) return false;
  atomic_store(&engine->lent, false);
  atomic_store(&engine->executing.taken, false);
  cel__executor_wake(engine);
  return true;
}

/* Where nothing is under way, it stays asleep until there is. Who gives more
 * sees that this is no longer lent, or what was given is seen here. That is
 * looked for last: a thread that was woken before finds the role taken, and
 * sleeps again. */
void cel__executor_give_back(cel_engine *engine) {
  cel_engine *e = engine;
  cel_transport *t = e->config.transport;
  bool left = !cel_executor_idle(e->executor) || t->busy(t);
  atomic_store(&e->lent, false);
  cel__role_leave(&e->executing);
  atomic_thread_fence(memory_order_seq_cst);
  if (left || !cel_ring_empty(e->instrs)) cel__executor_wake(e);
}

/* The thread sleeps in one park while it has the role, and in another one when
 * it finds that main has it, so that news wake one of the two. */
void cel__executor_wake(cel_engine *engine) {
  if (engine->config.park == NULL) return;
  cel_park_wake(engine->config.park);
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&engine->lent, memory_order_relaxed))
    cel_park_wake(&engine->off_duty);
}

void cel__main_wake(cel_engine *engine) {
  cel_park_wake(&engine->park);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&engine->lent, memory_order_relaxed))
    cel_park_wake(engine->config.park);
}

/* ---- the thread ---------------------------------------------------------- */

static bool is_over(cel_engine *e) {
  if (!atomic_load(&e->stop)) return false;
  cel_executor_halt(e->executor);
  return cel_executor_quiet(e->executor);
}

/* False when another thread has taken its place. */
static bool run(cel_engine *e) {
  for (int polls = 0;;) {
    uint32_t seen = cel_park_prepare(e->config.park);
    uint32_t duty = cel_park_prepare(&e->off_duty);
    if (atomic_load(&e->abandoned)) return true;
    if (!cel__role_take(&e->executing, CEL_THREAD_EXECUTOR)) {
      cel_park_wait(&e->off_duty, duty, listen_us(e));
      continue;
    }
    uint32_t us = 0;
    bool over = is_over(e);
    if (!over && !turn(e, &polls, &us)) return false;
    cel__role_leave(&e->executing);
    if (over) return true;
    if (us > 0) cel_park_wait(e->config.park, seen, us);
  }
}

void *cel__executor_main(void *engine) {
  cel_engine *e = engine;
  cel_aside *aside = e->config.backend->aside;
  cel_overflow_room room; /* short calls run in this thread */
  cel_overflow_prepare(&room);
  if (run(e) && aside != NULL) cel_aside_stop(aside);
  return NULL;
}

/* Ranks that are not bound share all cores. A nap takes longer than a message
 * between neighbours: a rank that naps is late, so that others come to nap as
 * well, and are late in turn. */
static void find_cores(cel_engine *e) {
  const cel_transport *t = e->config.transport;
  int64_t all = sysconf(_SC_NPROCESSORS_ONLN), cores = cel_park_cores();
  bool bound = cores < all, own = bound && !e->config.shares_cores;
  e->own_cores = own && t->local_ranks <= all;
  e->to_spare = cel_park_share(t->local_ranks) >= CEL_TUNE_SPARE_CORES_SHARED;
  e->polls = bound ? CEL_TUNE_POLLS_BOUND : CEL_TUNE_POLLS_SHARED;
  if (e->to_spare || (own && cores >= CEL_TUNE_SPARE_CORES_BOUND))
    e->polls = CEL_TUNE_POLLS_SPARE;
}

void cel__executor_init(cel_engine *engine) {
  cel_engine *e = engine;
  find_cores(e);
  const cel_engine_config *c = &e->config;
  cel_executor_config config = {.rank = c->transport->rank,
                                .ranks = c->transport->ranks,
                                .backend = c->backend,
                                .host = c->host,
                                .transport = c->transport,
                                .park = c->park,
                                .measure = {c->profile, c->timeline, c->pace},
                                .audit = c->audit,
                                .completed = completed,
                                .failed = instr_failed,
                                .forgive =
                                    c->forgiving ? cel__engine_forgive : NULL,
                                .context = e};
  e->executor = cel_executor_create(&config);
}
