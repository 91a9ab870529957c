/* depth.h -- how many tasks may be taken together that nobody has asked for.
 *
 * A table says how many steps are worth it, by what the job computes on, the
 * dimensions, and how far around an item is read. Where ranks exchange halos,
 * fewer may be: cells that two ranks compute cost more with each step, and so
 * they must not take longer than the messages that they spare; or, where a
 * chunk is more than caches hold, than a small part of it. Where GPUs wait for
 * each other's halos, more are: the shorter these, the more. Where a device
 * cannot hold what a task touches, more steps than the table's are: rows come
 * from the host once for all of them (instr/fold.c).
 *
 * Invariant: ranks come to the same. So all follows from the task, the number
 * of ranks, and the machine and the room that they have agreed on; nothing from
 * what one rank has or measures, and nothing from time. Cost: a few ns per
 * access; where tasks of another range or with other weights come, a cut, and
 * O(ranks) with weights. Pure. Confined.
 */
#ifndef CEL_FOLD_DEPTH_H
#define CEL_FOLD_DEPTH_H

#include "task/task.h"

/* What a job computes on; all ranks say the same. */
typedef enum cel_fold_machine {
  CEL_FOLD_MIXED, /* kinds that do not give the same bits */
  CEL_FOLD_PROCESSOR,
  CEL_FOLD_GPU,
  CEL_FOLD_MACHINES
} cel_fold_machine;

typedef struct cel__fold_depths {
  cel_fold_machine machine;
  int64_t ranks;
  int64_t devices; /* of a rank that is alone; of others it is of no account */
  int64_t room; /* bytes of the one device that each rank has; 0: any number */
  /* Of the last task: how it is divided, and what the smallest of its chunks
   * is. */
  cel_box range;
  cel_split_kind permitted;
  uint64_t weights;
  int64_t least[CEL_DIMS];
  bool cut[CEL_DIMS], known;
} cel__fold_depths;

/* Of how many steps a fold with this one is at most, as its first one or behind
 * others; 1: it is none, and *why says why. What its submission asked for comes
 * first. The task may be a step. Thread: main. */
int32_t cel__fold_depth(cel__fold_depths *depths, const cel_task *task,
                        bool first, const char **why);

#endif
