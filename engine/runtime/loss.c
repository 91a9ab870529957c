/* A lost device that main stumbles upon before it is told whose fault it is. */
#include "runtime/internal.h"

static bool never(const cel_engine *engine, const void *context) {
  (void)engine;
  (void)context;
  return false;
}

cel_status cel_engine_lost(cel_engine *engine, bool (*interrupted)(void)) {
  engine->loss = *cel_error_last();
  atomic_store_explicit(&engine->lost, true, memory_order_release);
  if (engine->config.park != NULL) cel_park_wake(engine->config.park);
  return cel__engine_await(engine, never, NULL, interrupted);
}

void cel__engine_take_loss(cel_engine *engine) {
  if (!atomic_load_explicit(&engine->lost, memory_order_relaxed) ||
      !atomic_exchange_explicit(&engine->lost, false, memory_order_acquire))
    return;
  cel_executor_lose(engine->executor, &engine->loss);
}
