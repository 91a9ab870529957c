/* Collectives between devices start when they are first needed, as that takes
 * seconds. All ranks choose the first one for the same task. There the
 * scheduler stops until all that comes before has been carried out and the
 * ranks have met; so they start as at the beginning of a job, while nothing is
 * under way anywhere. Nobody waits in a circle: what comes before is handed
 * over first, and on no rank does it wait for what comes after. */
#include <stdio.h>

#include "runtime/internal.h"
#include "tuning.h"

/* ---- the scheduler ------------------------------------------------------- */

static cel__joining answer(const cel_engine *e) {
  return atomic_load_explicit(&e->joining, memory_order_acquire);
}

/* Whether main, which schedules meanwhile, is interrupted. */
static bool is_interrupted(const cel_engine *e) {
  return e->scheduling.before == CEL_THREAD_MAIN &&
         e->config.interrupted != NULL && e->config.interrupted();
}

/* False: the job ends. Main may be the scheduler, but is not the executor then,
 * which it becomes when there is nothing left to schedule. */
static bool wait_for_answer(cel_engine *e) {
  cel_assert(e->scheduling.before != CEL_THREAD_EXECUTOR);
  while (answer(e) == CEL__JOINING_ASKED) {
    if (cel__engine_failed(e) || atomic_load(&e->stop) || is_interrupted(e))
      return false;
    if (!e->config.threads) {
      cel_engine_step_executor(e);
      continue;
    }
    cel__executor_wake(e);
    uint32_t seen = cel_park_prepare(&e->scheduler_park);
    if (answer(e) == CEL__JOINING_ASKED)
      cel_park_wait(&e->scheduler_park, seen, CEL_TUNE_LISTEN_US);
  }
  return !cel__engine_failed(e);
}

static void tell_refusal(const cel_engine *e) {
  char text[CEL_JOIN_WHY + 128];
  snprintf(text, sizeof text,
           "what all ranks exchange goes %s, not by NCCL: %s",
           e->config.messages_else ? "by messages" : "through host memory",
           e->no_joining);
  if (e->config.warn != NULL)
    e->config.warn(e->config.warn_context, NULL, text);
}

bool cel__joining_ask(void *engine) {
  cel_engine *e = engine;
  cel_scheduler *s = &e->scheduler;
  s->status = cel_instr_graph_flush(s->instrs);
  if (s->status != CEL_E_OK) return false;
  atomic_store(&e->joining, CEL__JOINING_ASKED);
  if (!wait_for_answer(e)) {
    s->dropping = true; /* others may do otherwise */
    return false;
  }
  if (answer(e) == CEL__JOINING_DONE) return true;
  tell_refusal(e);
  return false;
}

/* ---- the executor -------------------------------------------------------- */

bool cel__joining_step(cel_engine *engine) {
  cel_engine *e = engine;
  const cel_collective_table *by = &e->config.transport->collectives;
  cel_joined joined;
  if (atomic_load_explicit(&e->joining, memory_order_acquire) !=
          CEL__JOINING_ASKED ||
      !cel_ring_empty(e->instrs) || !cel_executor_idle(e->executor) ||
      cel__engine_failed(e))
    return false;
  if (by->join(by->self, &joined, e->no_joining) != CEL_E_OK) {
    cel__engine_fail(e, cel_error_last());
    return true;
  }
  if (joined == CEL_JOIN_PENDING) return false;
  atomic_store_explicit(&e->joining,
                        joined == CEL_JOIN_DONE ? CEL__JOINING_DONE
                                                : CEL__JOINING_REFUSED,
                        memory_order_release);
  cel_park_wake(&e->scheduler_park);
  return true;
}
