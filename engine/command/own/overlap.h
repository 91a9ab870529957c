/* overlap.h -- writes that could not be proved disjoint, tried on the split.
 *
 * Each rank's boxes are entered into a map, so that two ranks that write one
 * element are found before anything of the task takes effect.
 * Cost: nothing where writes are known to be disjoint; else O(ranks log ranks),
 * once for a footprint that stands alone. Confined.
 */
#ifndef CEL_COMMAND_OWN_OVERLAP_H
#define CEL_COMMAND_OWN_OVERLAP_H

#include "command/own/footprint.h"

/* An access of the task at hand. */
typedef struct cel__use {
  const cel_access *access;
  cel__footprint *footprint;
} cel__use;

/* CEL_E_OVERLAP, with a text that names the buffer, both chunks and the box,
 * when two ranks write one element. */
cel_status cel__writes_check(const cel__footprints *all, const cel_task *task,
                             const cel__use *use, uint32_t n);

#endif
