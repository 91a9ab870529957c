/* compose.h -- the task that a chain of steps is to the layers below.
 *
 * It reads, of each buffer, what some step reads that no step before has
 * written: around the chunk, grown as that step grows, and no further than that
 * within the range; beyond the range what steps of such an item read there. And
 * it reads what lies beyond the range of what steps have written within. It
 * writes what some step writes, of its chunk alone.
 *
 * The rules have those distances as parameters, so that there are few of them:
 * for each number of dimensions, and of those each in which the ends of the
 * range meet, one for what is read around a chunk, and one for the rim of the
 * range.
 * Confined; rules are main's.
 */
#ifndef CEL_FOLD_COMPOSE_H
#define CEL_FOLD_COMPOSE_H

#include "base/arena.h"
#include "fold/chain.h"

typedef struct cel__fold_rules {
  cel_rules *store; /* borrowed */
  /* By dimensions, and bits of those whose ends meet; null: not made yet. */
  const cel_rule *around[3 + 1][1 << 3];
  const cel_rule *rim[3 + 1][1 << 3];
} cel__fold_rules;

void cel__fold_rules_release(cel__fold_rules *rules);
/* The fold of a chain of at least one step, which has been grown; all of it in
 * the arena. Thread: main. */
const cel_task *cel__fold_compose(cel__fold_rules *rules,
                                  const cel__fold_chain *chain,
                                  cel_arena *arena);

#endif
