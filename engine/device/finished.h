/* finished.h -- jobs on their way through a backend's threads, and back.
 *
 * Many threads push what has finished; the executor takes it all at once.
 * Entries are the executor's and are recycled by it, so that a steady program
 * allocates nothing here.
 * Cost: a push is one compare-and-swap; a take of nothing is one load.
 */
#ifndef CEL_DEVICE_FINISHED_H
#define CEL_DEVICE_FINISHED_H

#ifndef CEL_CDEF
#include <stdatomic.h>

#include "device/backend.h"

typedef struct cel_entry {
  struct cel_entry *next;
  cel_job *job;
  cel_error *error;
  int32_t lane; /* the backend's number */
  uint64_t nth; /* of its device's, as the backend counts; GPUs alone do */
  /* Of a call, by the processor: what one thread would take for it, as expected
   * and as measured; 0: unknown. */
  int64_t expected_ns, took_ns;
  bool brief; /* the executor may carry it out itself */
} cel_entry;

/* All zero but for `park` to begin. */
typedef struct cel_finished {
  _Atomic(cel_entry *) top; /* newest first */
  cel_park *park;           /* may be null */
  cel_entry *ready;         /* taken, oldest first */
  cel_entry *spare;
} cel_finished;

/* A new entry. Thread: executor. */
cel_entry *cel_finished_entry(cel_finished *finished, cel_job *job,
                              int32_t lane);
/* Pushes a completion; the caller wakes the park. Thread: worker, executor. */
void cel_finished_push(cel_finished *finished, cel_entry *entry);
/* The oldest that has finished, null when there is none; give it back when it
 * is done with. Thread: executor. */
cel_entry *cel_finished_take(cel_finished *finished);
void cel_finished_give(cel_finished *finished, cel_entry *entry);
/* Frees all entries in it. Thread: main, when nobody pushes any more. */
void cel_finished_release(cel_finished *finished);
/* The calling thread's last error, for an entry. */
cel_error *cel_finished_error(void);
#endif

#endif
