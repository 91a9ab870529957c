/* folded.h -- a fold that the threads of a processor share.
 *
 * A block is a run of it (device/bands.h). Who ends the second of two runs side
 * by side computes the seam between them, too: nobody waits for anybody.
 * Thread: worker.
 */
#ifndef CEL_DEVICE_CPU_FOLDED_H
#define CEL_DEVICE_CPU_FOLDED_H

#include "device/fold.h"

#ifndef CEL_CDEF
typedef struct cel__folded cel__folded;

/* For so many threads; *blocks is how many blocks there are. Borrows the job;
 * the caller frees it by cel_free. */
cel__folded *cel__folded_create(const cel_job *job, int32_t threads,
                                int64_t *blocks);
/* Block i; each once. A block that fails leaves its seams out. */
cel_status cel__folded_run(cel__folded *folded, int64_t i);
#endif

#endif
