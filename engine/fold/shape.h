/* shape.h -- which submissions may be members of a fold, by their accesses.
 *
 * Each access is one of
 *   written   the item's own element, nothing else
 *   around    read around the item: rule/reach.h
 *   table     read, the same for all items, and small
 *   reduced   into a result that no item reads
 * Whether kernels are contracted follows from it, so it depends on nothing but
 * the submission: neither on what comes before or behind it, nor on settings.
 * Pure. Thread: any.
 */
#ifndef CEL_FOLD_SHAPE_H
#define CEL_FOLD_SHAPE_H

#include "rule/reach.h"
#include "task/task.h"

typedef enum cel_fold_role {
  CEL_FOLD_OTHER, /* none of these */
  CEL_FOLD_WRITTEN,
  CEL_FOLD_AROUND,
  CEL_FOLD_TABLE,
  CEL_FOLD_REDUCED
} cel_fold_role;

/* What an access of a group is; *reach is that of AROUND, and untouched else.
 */
cel_fold_role cel_fold_role_of(const cel_access *access, cel_reach *reach);
/* Whether all are something else than OTHER. */
bool cel_fold_has_shape(const cel_access *access, uint32_t n);
/* Whether the task may be carried out together with others, as far as its work
 * says: that computes each item from its accesses alone, and no hint or setting
 * fold = 1 forbids it. Its accesses are not looked at. */
bool cel_fold_may_join(const cel_task *task);
/* The same, and what it writes has a fitting role. Then each item is taken to
 * touch of what is WRITTEN or AROUND no more than the mapper gives for that
 * item alone, also along dimensions in which no chunk is cut. */
bool cel_fold_is_itemwise(const cel_task *task);

#endif
