/* partial.h -- what the threads of a processor that share a reducing call each
 * come to.
 *
 * The call is cut into blocks, and each has a row of its own for each view that
 * is reduced into; then the rows are combined in order. How many blocks there
 * are depends on the chunk and on the size of the rows alone: the result has
 * the same bits whatever the number of threads, and whoever took which block.
 * Of arrays that are long for the number of items each block owns a part, that
 * which lies at its items' own coordinates, and combines that where it belongs.
 * For the rest it has a row that is begun line by line, by the items that come
 * to it. So what a call costs is in proportion to its items and to the elements
 * of one row, and one whose items come to their own elements alone costs no
 * more than a loop.
 * Thread: worker.
 */
#ifndef CEL_DEVICE_CPU_PARTIAL_H
#define CEL_DEVICE_CPU_PARTIAL_H

#include "device/backend.h"

#ifndef CEL_CDEF
typedef struct cel__partial cel__partial;

/* How many blocks a reducing call is cut into at most. */
int64_t cel__partial_blocks(const cel_work *work);
/* Rows for so many blocks of a call, whose work it borrows; the caller frees it
 * by cel_free. */
cel__partial *cel__partial_create(const cel_job *job, int64_t blocks);
/* Runs `part`, the i-th block of the call, into its own rows; or where that
 * `goes_on` what comes behind a part of the block. Then rows are whole. */
cel_status cel__partial_run(const cel_job *part, cel__partial *partial,
                            int64_t i, bool goes_on);
/* Combines them into the views of the whole job. */
cel_status cel__partial_combine(const cel_job *job, cel__partial *partial);
#endif

#endif
