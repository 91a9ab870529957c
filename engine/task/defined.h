/* defined.h -- internal to task/: what of each buffer was ever written, so that
 * `celer check` knows who reads the rest.
 *
 * By whole accesses, as the task graph tracks them; a buffer with initial
 * contents is all written. Confined to the graph's thread.
 */
#ifndef CEL_TASK_DEFINED_H
#define CEL_TASK_DEFINED_H

#include "base/arena.h"
#include "base/vec.h"
#include "task/task.h"

#ifndef CEL_CDEF
typedef struct cel__defined {
  CEL_VEC(cel_region) written; /* by buffer id */
} cel__defined;

void cel__defined_release(cel__defined *defined);
/* Notes in a task's accesses what they read of what nobody wrote, then that it
 * writes; images by access. `exact` says which image is no more than what is
 * accessed. Boxes go to the arena. */
void cel__defined_add(cel__defined *defined, cel_arena *arena,
                      cel_access *access, uint32_t n, const cel_region *image,
                      const bool *exact);
/* The buffer is gone. */
void cel__defined_forget(cel__defined *defined, const cel_buffer *buffer);
#endif

#endif
