/* The executor's thread: it carries instructions out, and in between waits for
 * other ranks, whose words wake nobody. So it polls, and lets others have the
 * core, or naps, as cores are; and it looks out for what does not move, or does
 * not come. */
#include <sched.h>
#include <unistd.h>

#include "base/confined.h"
#include "device/clock.h"
#include "runtime/internal.h"
#include "tuning.h"

/* ---- steps --------------------------------------------------------------- */

static void completed(void *context, const cel_instr *instr) {
  cel_engine *e = context;
  atomic_store_explicit(&e->reached, instr->task->id, memory_order_release);
  /* The next task has the scheduler retire what this closes: nobody waits for
   * that, and main may, for the same core. Of an epoch main is told when all
   * ranks have executed it. */
  atomic_fetch_add(&e->horizons_done, 1);
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

bool cel_engine_step_executor(cel_engine *engine) {
  cel_engine *e = engine;
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
  moved |= cel_executor_step(e->executor);
  if (moved) cel__watchdog_moved(&e->watchdog);
  progress |= moved;
  if (progress) atomic_fetch_add_explicit(&e->moves, 1, memory_order_relaxed);
  return progress;
}

/* ---- waiting ------------------------------------------------------------- */

/* Waits for news, but not beyond the moment in which it is to be said that
 * nothing moves (watchdog.h). */
static void sleep_for_news(cel_engine *e, uint32_t seen, uint32_t timeout_us) {
  char text[CEL_ERROR_TEXT];
  bool speak;
  int64_t now = e->watchdog.limit_ns > 0 ? cel_now_ns() : 0;
  timeout_us = cel__watchdog_rest(&e->watchdog, timeout_us, now, &speak);
  if (!speak)
    cel_park_wait(e->config.park, seen, timeout_us);
  else if (cel_engine_tell(e, text, sizeof text))
    e->config.stalled(e->config.stalled_context, text);
  else
    cel__watchdog_moved(&e->watchdog);
}

/* After each step: whether main leaves the executor without work (idle.h). */
static void watch(cel_engine *e, bool progress) {
  char text[256];
  if (!e->config.advise || (!progress && !cel_executor_idle(e->executor)))
    return;
  if (atomic_load_explicit(&e->awaits, memory_order_relaxed))
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
 * place before those that it will wake. */
static bool is_alone(const cel_engine *e) {
  return e->own_cores &&
         atomic_load_explicit(&e->awaits, memory_order_relaxed) &&
         cel_executor_quiet(e->executor) && cel_ring_empty(e->tasks);
}

static void rest(cel_engine *e, uint32_t seen, int *polls) {
  cel_transport *t = e->config.transport;
  if (!t->busy(t)) {
    sleep_for_news(e, seen, t->ranks > 1 ? CEL_TUNE_LISTEN_US : UINT32_MAX);
    return;
  }
  bool free = e->to_spare || is_alone(e);
  if (++*polls < CEL_TUNE_POLLS_GREEDY && free) return;
  if (*polls >= (free ? CEL_TUNE_POLLS_SPARE : e->polls) || !yield(e))
    sleep_for_news(e, seen, CEL_TUNE_NAP_US);
}

/* ---- the thread ---------------------------------------------------------- */

void *cel__executor_main(void *engine) {
  cel_engine *e = engine;
  cel_thread_act(CEL_THREAD_EXECUTOR);
  for (int polls = 0;;) {
    uint32_t seen = cel_park_prepare(e->config.park);
    if (atomic_load(&e->abandoned)) return NULL;
    if (atomic_load(&e->stop)) {
      cel_executor_halt(e->executor);
      if (cel_executor_quiet(e->executor)) return NULL;
    }
    bool progress = cel_engine_step_executor(e);
    watch(e, progress);
    if (progress)
      polls = 0;
    else
      rest(e, seen, &polls);
  }
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
