/* folded.h -- a fold that the threads of a processor share.
 *
 * It is a job, or several calls that wait in a lane, one after another, and
 * touch the same arrays: those are gathered, as one pass over memory is as good
 * as several. A block is a run of it (device/bands.h). Who ends the second of
 * two runs side by side computes the seam between them, too: nobody waits for
 * anybody.
 * Thread: worker.
 */
#ifndef CEL_DEVICE_CPU_FOLDED_H
#define CEL_DEVICE_CPU_FOLDED_H

#include "device/finished.h"
#include "device/fold.h"

#ifndef CEL_CDEF
typedef struct cel__folded cel__folded;

/* For so many threads; *blocks is how many blocks there are. Borrows the job,
 * which is a FOLD. */
cel__folded *cel__folded_create(const cel_job *job, int32_t threads,
                                int64_t *blocks);
/* How many calls, from a lane's head on, are worth one pass, or with `always`
 * could be one; 1: none but the head. The last one may reduce, where none reads
 * around its items: *reducing, else null. Looks at entries in the lane, and so
 * with its lock held. */
int32_t cel__folded_gather(const cel_entry *head, bool always,
                           const cel_job **reducing);
/* Makes a fold of so many, which stay where they are. Null where its threads
 * would not all have a run; with `always` never, and in short bands. */
cel__folded *cel__folded_join(const cel_entry *head, int32_t calls,
                              int32_t threads, bool always, int64_t *blocks);
void cel__folded_destroy(cel__folded *folded);
/* Block i; each once. A block that fails leaves its seams out. */
cel_status cel__folded_run(cel__folded *folded, int64_t i);
#endif

#endif
