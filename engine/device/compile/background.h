/* background.h -- threads that compile while the script goes on.
 *
 * A chore is begun in the order in which it was given, by the first of a few
 * threads that is free; one that main waits for comes before the others. What
 * nobody waits for goes beside another chore: it has a thread more. The
 * threads are this process's, as its compilers are. They start when there is
 * something to do, and end by cel_background_stop.
 *
 *   cel_background_start(&chore);   ... the script goes on ...
 *   cel_background_wait(&chore);    chore.run has returned
 *
 * Cost: nothing without chores.
 */
#ifndef CEL_DEVICE_COMPILE_BACKGROUND_H
#define CEL_DEVICE_COMPILE_BACKGROUND_H

#include "base/status.h"

typedef struct cel_chore {
  void (*run)(struct cel_chore *chore); /* Thread: any */
  struct cel_chore *next;               /* the lock's, as all below */
  int32_t state;
} cel_chore;

#ifndef CEL_CDEF
/* How many threads there may be: as many as this rank has cores. Thread: main.
 */
void cel_background_limit(int32_t threads);
/* Has `run` called once. The chore, zero but for that, is borrowed until it
 * was waited for, or all is stopped. Thread: any. */
void cel_background_start(cel_chore *chore);
/* The same, beside the chore that calls this, and before all others. Thread:
 * one that runs a chore. */
void cel_background_start_beside(cel_chore *chore);
/* Returns true when `run` has returned; false once `interrupted` (null: never)
 * says so. Where the system refuses threads `run` is called here. Once all is
 * stopped it does not come back. Thread: main. */
bool cel_background_wait(cel_chore *chore, bool (*interrupted)(void));
/* Whether `run` has returned. Thread: any. */
bool cel_background_done(const cel_chore *chore);
/* The process ends: forgets what was not begun, ends the compilers that run
 * (process.h), and waits a second at most for what is left. Thread: any. */
void cel_background_stop(void);
/* Whether something is left that could not be ended, as NVRTC. The process is
 * to leave by _exit then: at exit a library takes itself apart while a thread
 * is in it. Thread: the one that has stopped all. */
bool cel_background_left(void);
#endif

#endif
