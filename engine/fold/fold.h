/* fold.h -- tasks that are carried out as one: a fold and its steps.
 *
 * A fold stands for K tasks that come one after another, such as time steps of
 * a stencil. To the command graph it is one task, which reads at once what all
 * its steps need of what was there before, and so messages come once in K
 * steps. Each rank then carries the steps out one after another; a step's box
 * is the rank's chunk, grown by what later steps of the same rank read around
 * it. What a rank computes beyond its chunk nobody else sees: its owner
 * computes the same.
 *
 * Invariants: steps are in the order of their ids, and the fold has the first
 * one's id, place and split. The last step grows by nothing. Grown boxes stay
 * within the range. All of it is alike on all ranks.
 * Lives in the arena of the window that made it, until a horizon behind it is
 * retired; immutable. Pure. Thread: any.
 */
#ifndef CEL_FOLD_FOLD_H
#define CEL_FOLD_FOLD_H

#include "rule/reach.h"
#include "task/task.h"

/* Steps of one at most. */
enum { CEL_FOLD_STEPS = 64 };

typedef struct cel_fold_step {
  const cel_task *task;
  cel_reach grows; /* beyond the chunk */
} cel_fold_step;

typedef struct cel_fold {
  int32_t steps;
  const cel_fold_step *step;
} cel_fold;

/* What step `s` of a rank's chunk is to compute; empty where the chunk is. */
cel_box cel_fold_box(const cel_fold *fold, int32_t s, const cel_box *chunk);

#endif
