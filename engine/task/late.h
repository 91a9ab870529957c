/* late.h -- what an access touches where an earlier task is to find it out.
 *
 * Where data say what a rank touches of a buffer, main does not know it when it
 * submits the task. So the access names words that will say it, and main goes
 * on. All ranks agree on the rule of the access, which comes to no less; the
 * dependencies of tasks and of commands are by that. Whoever makes instructions
 * waits until the words are there, in the order of tasks
 * (runtime/scheduler.c), and goes by the words.
 *
 * Words: how many pieces there are; of each one the items [first, end) in
 * dimension 0 of the range, and which rows [first, end) of the buffer these
 * touch. A chunk touches the rows of the pieces that it meets.
 *
 * Invariants: words do not change once they are known. An access that is late
 * only reads, or its buffer is apart.
 * Cost: O(pieces) for a chunk.
 * Threads: each thread that holds it has a reference.
 */
#ifndef CEL_TASK_LATE_H
#define CEL_TASK_LATE_H

#ifndef CEL_CDEF
#include <stdatomic.h>
#endif

#include "region/region.h"

enum { CEL_LATE_PIECE = 4 }; /* words */

typedef struct cel_late {
  _Atomic(int32_t) references;
  _Atomic(bool) known;
  uint64_t number; /* another one for each */
  const int64_t *word;
  int64_t words;
  void (*destroy)(struct cel_late *late); /* with the last reference */
} cel_late;

/* Of nobody yet: with so many references. Thread: any. */
void cel_late_init(cel_late *late, int32_t references,
                   void (*destroy)(cel_late *late));
cel_late *cel_late_retain(cel_late *late);
void cel_late_release(cel_late *late);
/* The words, which are there, are known from now on. Thread: any. */
void cel_late_tell(cel_late *late);
bool cel_late_is_known(const cel_late *late);

/* What the words from `at` on, which are known, give for a chunk, within the
 * buffer. */
void cel_late_eval(const cel_late *late, int64_t at, const cel_box *chunk,
                   const cel_box *extent, cel_region *out);

#endif
