/* What the executor's thread looks out for beside its work: that nothing moves,
 * or that nothing comes. */
#include "device/clock.h"
#include "runtime/internal.h"

void cel__engine_sleep(cel_engine *engine, uint32_t seen, uint32_t timeout_us) {
  cel_engine *e = engine;
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

void cel__engine_watch(cel_engine *engine, bool progress) {
  cel_engine *e = engine;
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
