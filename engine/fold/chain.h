/* chain.h -- which tasks follow each other as steps of one fold, and how far
 * each of them has to be computed beyond a chunk.
 *
 * A chain is the steps of a fold to be. What a step reads is what the step
 * before it that wrote the buffer left, or what was there before the chain. So
 * that a rank needs nothing of others in between, a step grows by how far later
 * ones that read of it reach, and by how far those grow themselves.
 *
 * All follows from the tasks, so ranks agree. Cost: O(accesses of the chain)
 * to ask whether a task follows. Confined.
 */
#ifndef CEL_FOLD_CHAIN_H
#define CEL_FOLD_CHAIN_H

#include "base/vec.h"
#include "fold/fold.h"
#include "fold/shape.h"

/* An access of a step. */
typedef struct cel__fold_access {
  const cel_access *access;
  cel_fold_role role;
  cel_reach reach; /* of what is read; 0 of what is written */
  int32_t from;    /* the step that left what it reads, or -1 */
} cel__fold_access;

/* By dimensions, of some accesses: one reads around the ends of the range; the
 * buffer of one has other ends. */
typedef struct cel__fold_edges {
  bool meet[CEL_DIMS], differ[CEL_DIMS];
} cel__fold_edges;

typedef struct cel__fold_chain {
  CEL_VEC(const cel_task *) tasks;
  CEL_VEC(cel__fold_access) accesses; /* of all steps, in order */
  CEL_VEC(uint32_t) ends;             /* of each step's accesses */
  bool wraps[CEL_DIMS]; /* some step reads around the ends of the range */
  cel_reach grows[CEL_FOLD_STEPS]; /* once it has been grown */
} cel__fold_chain;

void cel__fold_chain_release(cel__fold_chain *chain);
void cel__fold_chain_clear(cel__fold_chain *chain);
/* Whether the task may be a step, and whatever is in the chain may go before
 * it; then it is its last step. `alike`: devices of all ranks give the same
 * bits; else nobody computes what another one has, too. */
bool cel__fold_chain_add(cel__fold_chain *chain, const cel_task *task,
                         bool alike);
/* Whether the task may be a step at all. */
bool cel__fold_may_be_step(const cel_task *task);
/* Whether it could only be the last step, as it reduces; and only where no step
 * reads around its items. */
bool cel__fold_ends(const cel_task *task);
/* Adds an access of a task with this range. */
void cel__fold_edges_add(cel__fold_edges *edges, const cel__fold_access *access,
                         const cel_box *range);
/* Whether ends meet only where they are those of each buffer. */
bool cel__fold_edges_agree(const cel__fold_edges *edges);
/* Fills in `grows`. */
void cel__fold_chain_grow(cel__fold_chain *chain);

#endif
