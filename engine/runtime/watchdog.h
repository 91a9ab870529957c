/* watchdog.h -- notices that an executor has been waiting for long.
 *
 * The executor asks it how long to sleep whenever nothing is to be done, so it
 * needs no thread and no polling of its own, and costs a look at the clock per
 * sleep. It speaks once per stall; what moves ends the stall. Time in which the
 * process was stopped does not count.
 * Threads: the executor's.
 */
#ifndef CEL_RUNTIME_WATCHDOG_H
#define CEL_RUNTIME_WATCHDOG_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

typedef struct cel_watchdog {
  int64_t limit_ns; /* 0: it never speaks */
  int64_t since_ns; /* when it saw that nothing moves; 0: not yet */
  int64_t due_ns;   /* when the sleep was to end */
  bool told;        /* of this stall */
} cel_watchdog;

/* Something was done. */
void cel__watchdog_moved(cel_watchdog *dog);
/* For how long to sleep, of `timeout_us` at most (UINT32_MAX: no end), and
 * whether it is time to speak; 0 then, for the caller to ask again. A caller
 * that finds that it waits for nothing says that something moved. */
uint32_t cel__watchdog_rest(cel_watchdog *dog, uint32_t timeout_us,
                            int64_t now_ns, bool *speak);

#endif
