/* A thread that watches the executor while that carries out calls itself, and
 * starts another executor when one of them does not end. */
#include "device/aside.h"
#include "device/thread.h"
#include "runtime/internal.h"

/* The old one, which nobody joins, ends with its call. Where the system refuses
 * a thread, this one is the executor, and nobody watches. */
void *cel__stand_in_main(void *engine) {
  cel_engine *e = engine;
  while (cel_aside_watch(e->config.backend->aside)) {
    if (cel__executor_take_back(e)) continue;
    atomic_store(&e->executing.taken, false);
    pthread_t old = e->executor_thread;
    e->has_executor = cel_thread_start(&e->executor_thread, cel__executor_main,
                                       e, "executing") == CEL_E_OK;
    pthread_detach(old);
    if (!e->has_executor) return cel__executor_main(e);
  }
  return NULL;
}
