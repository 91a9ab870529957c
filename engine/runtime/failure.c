/* What failed: the first failure is kept for main; a lost device that main
 * stumbles upon before it is told whose fault it is; and what host tasks fail
 * with in a session, which goes on. */

#include "base/text.h"
#include "runtime/internal.h"

void cel__engine_wake(cel_engine *engine) {
  cel_park_wake(&engine->park);
  cel_park_wake(&engine->scheduler_park);
  cel__executor_wake(engine);
}

void cel__engine_fail(cel_engine *engine, const cel_error *error) {
  pthread_mutex_lock(&engine->lock);
  if (!atomic_load(&engine->failed)) {
    engine->failure = *error;
    atomic_store(&engine->failed, true);
  }
  pthread_mutex_unlock(&engine->lock);
  cel__engine_wake(engine);
}

bool cel__engine_failed(const cel_engine *engine) {
  return atomic_load_explicit(&engine->failed, memory_order_acquire);
}

cel_status cel_engine_check(cel_engine *engine) {
  if (!cel__engine_failed(engine)) return CEL_E_OK;
  pthread_mutex_lock(&engine->lock);
  cel_status status = cel_fail_with(&engine->failure);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* ---- a lost device ------------------------------------------------------- */

static bool never(const cel_engine *engine, const void *context) {
  (void)engine;
  (void)context;
  return false;
}

cel_status cel_engine_lost(cel_engine *engine, bool (*interrupted)(void)) {
  engine->loss = *cel_error_last();
  atomic_store_explicit(&engine->lost, true, memory_order_release);
  cel__executor_wake(engine);
  return cel__engine_await(engine, never, NULL, interrupted);
}

void cel__engine_take_loss(cel_engine *engine) {
  if (!atomic_load_explicit(&engine->lost, memory_order_relaxed) ||
      !atomic_exchange_explicit(&engine->lost, false, memory_order_acquire))
    return;
  cel_executor_lose(engine->executor, &engine->loss);
}

/* ---- what is forgiven ---------------------------------------------------- */

void cel__engine_forgive(void *context, const cel_error *error) {
  cel_engine *e = context;
  pthread_mutex_lock(&e->lock);
  if (e->mishaps++ == 0) e->mishap = *error;
  pthread_mutex_unlock(&e->lock);
}

cel_status cel_engine_mishap(cel_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  uint64_t n = engine->mishaps;
  cel_error first = n > 0 ? engine->mishap : (cel_error){.code = CEL_E_OK};
  engine->mishaps = 0;
  pthread_mutex_unlock(&engine->lock);
  if (n == 0) return CEL_E_OK;
  if (n > 1)
    cel_text_append(first.text, sizeof first.text,
                    "; and %llu more have failed since",
                    (unsigned long long)n - 1);
  return cel_fail_with(&first);
}
