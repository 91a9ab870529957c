/* alone.h -- why a task is not taken together with others, for who asks.
 * Cost: as to form a fold of the task; only where somebody asks.
 * Pure. Thread: main.
 */
#ifndef CEL_FOLD_ALONE_H
#define CEL_FOLD_ALONE_H

#include "fold/depth.h"

/* Writes why into `text`: by what the task is, by how deep a fold would be, or
 * by what comes next (null: nothing is told of that). False: there is nothing
 * to say, as it reads nothing but its items' own, is not to be folded, or needs
 * no fold. */
bool cel__fold_why_alone(cel__fold_depths *depths, const cel_task *task,
                         const cel_task *next, char *text, size_t size);

#endif
