/* How the executor waits for other ranks, whose words wake nobody: it polls,
 * and lets others have the core, or naps, as cores are.
 */
#include <sched.h>
#include <unistd.h>

#include "device/clock.h"
#include "runtime/internal.h"
#include "tuning.h"

/* Ranks that are not bound share all cores. A nap takes longer than a message
 * between neighbours: a rank that naps is late, so that others come to nap as
 * well, and are late in turn. */
void cel__engine_find_cores(cel_engine *engine) {
  const cel_transport *t = engine->config.transport;
  int64_t all = sysconf(_SC_NPROCESSORS_ONLN), cores = cel_park_cores();
  bool bound = cores < all, own = bound && !engine->config.shares_cores;
  engine->own_cores = own && t->local_ranks <= all;
  engine->to_spare =
      cel_park_share(t->local_ranks) >= CEL_TUNE_SPARE_CORES_SHARED;
  engine->polls = bound ? CEL_TUNE_POLLS_BOUND : CEL_TUNE_POLLS_SHARED;
  if (engine->to_spare || (own && cores >= CEL_TUNE_SPARE_CORES_BOUND))
    engine->polls = CEL_TUNE_POLLS_SPARE;
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

void cel__engine_rest(cel_engine *engine, uint32_t seen, int *polls) {
  cel_engine *e = engine;
  cel_transport *t = e->config.transport;
  if (!t->busy(t)) {
    cel__engine_sleep(e, seen, t->ranks > 1 ? CEL_TUNE_LISTEN_US : UINT32_MAX);
    return;
  }
  bool free = e->to_spare || is_alone(e);
  if (++*polls < CEL_TUNE_POLLS_GREEDY && free) return;
  if (*polls >= (free ? CEL_TUNE_POLLS_SPARE : e->polls) || !yield(e))
    cel__engine_sleep(e, seen, CEL_TUNE_NAP_US);
}
