/* confined.h -- which thread may be where, asserted.
 *
 * The threads of an engine say what they are. What is confined to some of them
 * asserts at its head that it is called by one:
 *
 *   cel_assert_thread(CEL_THREAD_SCHEDULER);
 *
 * A thread that has not said what it is may be anywhere: the simulated cluster
 * has one for all, and specs call what they like. Debug and sanitizer builds
 * alone look; cost: a thread-local word.
 */
#ifndef CEL_BASE_CONFINED_H
#define CEL_BASE_CONFINED_H

#include "base/status.h"

typedef enum cel_thread_kind {
  CEL_THREAD_ANY = 0,
  CEL_THREAD_MAIN = 1,
  CEL_THREAD_SCHEDULER = 2,
  CEL_THREAD_EXECUTOR = 4,
  CEL_THREAD_WORKER = 8 /* of a processor, of a GPU, of a host lane */
} cel_thread_kind;

/* The calling thread is that from now on; what it was before. Thread: any. */
cel_thread_kind cel_thread_act(cel_thread_kind kind);
/* Whether the calling thread is of `kinds`, several of them together, or has
 * not said what it is. Thread: any. */
bool cel_thread_may(unsigned kinds);

#ifndef CEL_CDEF
#define cel_assert_thread(kinds) cel_assert(cel_thread_may(kinds))
#endif

#endif
