/* unread.h -- which buffers that a fold writes nobody reads before all of it is
 * overwritten.
 *
 * The tasks behind a fold say so, as they come. Until one does, what the fold
 * leaves may be read. Whoever reads some of a buffer, also by keeping elements,
 * settles that it is to be there; so does all that is no kernel. A buffer that
 * is freed no later task names.
 *
 * Only what a device stores depends on it, and never which folds there are:
 * ranks free buffers at different times. Whose data is current where stays as
 * if all had been written.
 *
 * Cost: O(accesses of the fold, times those of the task). Confined to main.
 */
#ifndef CEL_FOLD_UNREAD_H
#define CEL_FOLD_UNREAD_H

#include "fold/fold.h"

typedef struct cel__fold_watch {
  const cel_task *fold; /* or null */
  uint64_t open; /* its accesses of which nothing is known yet, by number */
} cel__fold_watch;

void cel__fold_watch_begin(cel__fold_watch *watch, const cel_task *fold);
/* What comes behind it; false where nothing is open any more. */
bool cel__fold_watch_see(cel__fold_watch *watch, const cel_task *task);

#endif
