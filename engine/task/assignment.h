/* assignment.h -- which ranks, and which of their devices, compute which chunks
 * of a task.
 *
 * All from the task alone, so the same on every rank and in every layer. Pure.
 * Thread: any.
 */
#ifndef CEL_TASK_ASSIGNMENT_H
#define CEL_TASK_ASSIGNMENT_H

#include "task/task.h"

/* How `task` is split over `ranks`; the same on every rank. Of CEL_PLACE_ALL
 * the chunks count the ranks, and each computes the whole range. */
cel_split cel_task_split(const cel_task *task, int64_t ranks);
/* All of `range` in the chunk of rank `home`. `alone` are ranks + 1 numbers, 0
 * but for the last, which is 1; they are needed as long as the split is. */
cel_split cel_task_split_at(const cel_box *range, int64_t home, int64_t ranks,
                            const int64_t *alone);
/* Such numbers, of pages that nobody touches; the caller frees them. */
int64_t *cel_task_alone(int64_t ranks);
/* `chunk` of the task's range, cut into at most `pieces` as the task permits:
 * as many as can be, with the least surface between them. With weights, one for
 * each piece and not all 0, the pieces are in proportion; where several
 * dimensions are cut, slices of the grid are, as the sums of their weights.
 * `room` is for the split's sums, CEL_TASK_CUT_ROOM(pieces) of them, and needed
 * as long as it is; both may be null. */
#define CEL_TASK_CUT_ROOM(pieces) ((size_t)(pieces) + 5)
cel_split cel_task_cut(const cel_task *task, const cel_box *chunk,
                       int64_t pieces, const int64_t *weight, int64_t *room);
/* What a device or host lane has of it, in the runs that the task asks for.
 * What has effects on more than its buffers is called once: runs of one task
 * have no order. */
cel_split cel_task_runs(const cel_task *task, const cel_box *chunk);

#endif
