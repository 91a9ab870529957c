/* partial.h -- what the threads of a processor that share a reducing call each
 * come to.
 *
 * The call is cut into blocks, and each has a row of its own for each view that
 * is reduced into; then the rows are combined in order. How many blocks there
 * are depends on the chunk and on the size of the rows alone: the result has
 * the same bits whatever the number of threads, and whoever took which block.
 * Thread: worker.
 */
#ifndef CEL_DEVICE_PARTIAL_H
#define CEL_DEVICE_PARTIAL_H

#include "device/backend.h"

#ifndef CEL_CDEF
/* How many blocks a reducing call is cut into at most. */
int64_t cel__partial_blocks(const cel_work *work);
/* Rows for so many blocks, in the order of the work's reducers; the caller
 * frees them by cel_free. */
char *cel__partial_rows(const cel_work *work, int64_t blocks);
/* Runs `part`, the i-th block of a call, into its own rows. */
cel_status cel__partial_run(const cel_job *part, char *rows, int64_t blocks,
                            int64_t i);
/* Combines them into the views of the whole job. */
cel_status cel__partial_combine(const cel_job *job, char *rows, int64_t blocks);
#endif

#endif
