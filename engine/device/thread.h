/* thread.h -- starts a thread, or says why the system refuses one; and threads
 * that can still speak when their stack is full.
 *
 * A signal handler needs some stack, and a thread whose stack has overflowed
 * has none left. So each thread that runs what users wrote, which may keep
 * large arrays or call itself without end, has a second stack for handlers. It
 * lies in the first frame of the thread's own, where no overflow comes.
 */
#ifndef CEL_DEVICE_THREAD_H
#define CEL_DEVICE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "base/status.h"

/* As pthread_create; `purpose` follows "a thread for". Fails with
 * CEL_E_MISSING. Thread: any. */
cel_status cel_thread_start(pthread_t *out, void *(*run)(void *),
                            void *argument, const char *purpose);

/* Blocks what is for the main thread, as Ctrl-C is, for this thread and those
 * that it starts then: all signals but those of faults. *before is for
 * pthread_sigmask, afterwards. Thread: any, for itself. */
void cel_thread_block_signals(sigset_t *before);

/* Address space alone: nothing is touched before a handler runs. */
typedef struct cel_overflow_room {
  char bytes[64 << 10];
} cel_overflow_room;

/* Handlers that ask for it (SA_ONSTACK) run in *room, a variable of the
 * thread's first function. Where the thread has a second stack, as a sanitizer
 * gives it, that stays. Thread: any, for itself. */
void cel_overflow_prepare(cel_overflow_room *room);

/* Whether a signal comes from a full stack, by what its handler was given.
 * Thread: any; for signal handlers. */
bool cel_overflow_is(const siginfo_t *info, const void *context);

#endif
