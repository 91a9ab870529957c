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
 * within the range; where steps read around its ends, what a box lacks beyond
 * one of them it has at the other. All of it is alike on all ranks, except what
 * is known to be unread. Lives in the arena of the window that made it, until a
 * horizon behind it is retired; immutable, except for that. Pure. Thread: any.
 */
#ifndef CEL_FOLD_FOLD_H
#define CEL_FOLD_FOLD_H

#include "rule/reach.h"
#include "task/task.h"

/* Steps of one at most; accesses of which it may be told that they are unread.
 */
enum { CEL_FOLD_STEPS = 64, CEL_FOLD_TOLD = 64 };
/* Boxes of a step at most: in each dimension two. */
enum { CEL_FOLD_BOXES = 8 };

typedef struct cel_fold_step {
  const cel_task *task;
  cel_reach grows; /* beyond the chunk */
} cel_fold_step;

typedef struct cel_fold {
  int32_t steps;
  const cel_fold_step *step;
  bool wraps[CEL_DIMS]; /* the ends of the range meet */
  /* Bits, by the accesses of the fold's task: a later task overwrites all that
   * this one writes, and none before that reads it (unread.h). */
  uint64_t *unread;
} cel_fold;

/* Whether the ends of the range meet in any dimension. */
bool cel_fold_wraps(const cel_fold *fold);
/* What step `s` of a rank's chunk is to compute, around the chunk; empty where
 * the chunk is. */
cel_box cel_fold_box(const cel_fold *fold, int32_t s, const cel_box *chunk);
/* The same as one box, which leaves the range where its ends meet: what it has
 * beyond one of them is at the other (cel_box_on_ring). */
cel_box cel_fold_turning_box(const cel_fold *fold, int32_t s,
                             const cel_box *chunk);
/* That one, and those at other ends of the range, which do not overlap; how
 * many. */
int32_t cel_fold_boxes(const cel_fold *fold, int32_t s, const cel_box *chunk,
                       cel_box out[CEL_FOLD_BOXES]);
/* Access `i` of the fold's task is so. Thread: main. */
void cel_fold_tell_unread(const cel_fold *fold, uint32_t i);
/* Whether it is known by now that nobody reads what the fold leaves in the
 * buffer. Thread: any. */
bool cel_fold_is_unread(const cel_task *task, const cel_buffer *buffer);

#endif
