/* front.h -- a graph's ids, its execution front, and what horizons apply.
 *
 * Nodes get ids from 1 on. A *barrier* is a horizon (the talk on Celerity) or
 * an epoch (Knorr et al., Declarative Data Flow): a node after the whole
 * execution front, the nodes on which none depends yet. An epoch is applied at
 * once, a horizon by the barrier after it: then the floor rises to it, and
 * nothing depends on what is older. Trackers are to be floored to `floor`
 * before they are asked.
 *
 * Invariant: a dependency's id lies between the floor and the node's own.
 * Cost: O(dependencies) per node, O(nodes since the floor) per barrier.
 * The holder owns it: init ... release. Confined. Pure.
 */
#ifndef CEL_REGION_FRONT_H
#define CEL_REGION_FRONT_H

#include "base/vec.h"
#include "region/track.h"

typedef struct cel_front {
  uint64_t next;          /* id of the node now to be made */
  uint64_t floor;         /* the barrier applied last */
  uint64_t last;          /* the newest barrier, perhaps not applied yet */
  CEL_VEC(bool) followed; /* nodes from `floor` on: whether some node depends */
} cel_front;

void cel_front_init(cel_front *front);
void cel_front_release(cel_front *front);
/* Node `next` is made, and comes after *deps; returns its id. */
uint64_t cel_front_add(cel_front *front, const cel_deps *deps);
/* What a barrier comes after. What is older than the last barrier has that one
 * as a successor. */
void cel_front_collect(const cel_front *front, cel_deps *deps);
/* The node added last is a barrier. */
void cel_front_barrier(cel_front *front, bool epoch);

#endif
