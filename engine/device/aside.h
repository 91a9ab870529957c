/* aside.h -- the executor carries out what a user wrote, and may be replaced.
 *
 * What is usually short is carried out sooner by the thread that polls than by
 * one that is to be woken for it. But it is a user's, so it may never end,
 * while messages, interrupts and the watchdog need an executor. So another
 * thread watches (runtime/stand_in.c). When one turn lasts too long it takes
 * the executor's place, or gives it back to its thread where main has it. Who
 * had it learns that when its turn is over.
 *
 * Invariants: `turn` is odd while a turn is under way; it grows by one when the
 * turn ends, or when another thread takes the place before that: whoever counts
 * it up is the executor from then on. While the watcher sleeps for good,
 * `unwatched` is set, and the next turn wakes it.
 * Cost: two atomic operations for a turn. The watcher wakes some times a second
 * while there are turns, and not at all while there are none.
 */
#ifndef CEL_DEVICE_ASIDE_H
#define CEL_DEVICE_ASIDE_H

#include "base/park.h"

/* What a look for something to do came to. */
typedef enum cel_step {
  CEL_STEP_NOTHING,
  CEL_STEP_MOVED,
  CEL_STEP_GONE /* the caller is the executor no more */
} cel_step;

#ifndef CEL_CDEF
#include <stdatomic.h>

typedef struct cel_aside {
  _Atomic(uint64_t) turn;
  atomic_bool unwatched, stopped;
  cel_park park; /* the watcher's */
} cel_aside;

void cel_aside_init(cel_aside *aside);
/* A turn begins; returns which. Thread: executor. */
uint64_t cel_aside_begin(cel_aside *aside);
/* It ends. False: another thread is the executor now, and the caller touches
 * nothing more of what is the executor's. Thread: executor. */
bool cel_aside_end(cel_aside *aside, uint64_t turn);
/* Waits until a turn lasts too long: true, the caller or whom it starts is the
 * executor from now on. False: stopped. Thread: the watcher. */
bool cel_aside_watch(cel_aside *aside);
/* No more turns begin. Thread: executor. */
void cel_aside_stop(cel_aside *aside);
#endif

#endif
