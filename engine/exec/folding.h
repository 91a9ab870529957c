/* folding.h -- from a fold that is one instruction to a job FOLD.
 *
 * The steps are given to the device in parts, each as many as it takes in one
 * manner. Where a part leaves what it makes in spare memory, that becomes the
 * allocation's at once: nothing that touches the allocation is translated
 * between an earlier part and a later one, as the fold has it for itself.
 * Steps that the device cannot take together, now or ever, or for which there
 * is no spare memory, are plain launches. That changes no bit.
 * Confined to the executor.
 */
#ifndef CEL_EXEC_FOLDING_H
#define CEL_EXEC_FOLDING_H

#include "exec/reserved.h"
#include "exec/translate.h"

/* Kept for their room; all zero to begin. */
typedef struct cel_foldings {
  struct cel_folding *free;
} cel_foldings;

/* Fills record->job. `instr` is a KERNEL with a fold. */
void cel_folding_begin(cel_foldings *all, cel_record *record,
                       const cel_instr *instr, cel_backend *backend,
                       cel_reserved_list *reserved, int64_t rank,
                       int64_t ranks);
/* The job is back; or nothing will be any more: `reserved` is null. */
void cel_folding_end(cel_foldings *all, cel_record *record,
                     cel_reserved_list *reserved);
void cel_foldings_release(cel_foldings *all);

#endif
