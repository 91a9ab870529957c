/* collective.h -- collective tasks of one group come one after another.
 *
 * What a collective task does may block until the same task runs on every rank.
 * So that all ranks come to the calls of one communicator in one order, each
 * node of a group depends on the one before it, in submission order: in the
 * task graph, and alike among a rank's commands and its instructions. Between
 * groups there is no order: each has a communicator and a thread of its own.
 *
 * A rank has one node per task there, as collective tasks are CEL_PLACE_EACH.
 * The holder owns it; zero to begin. 8 bytes per group. Confined. Pure.
 */
#ifndef CEL_TASK_COLLECTIVE_H
#define CEL_TASK_COLLECTIVE_H

#include "base/vec.h"
#include "region/track.h"

typedef struct cel_collectives {
  CEL_VEC(uint64_t) last; /* by group: its newest node, 0: none yet */
} cel_collectives;

void cel_collectives_release(cel_collectives *all);
/* Node `id` is the next of `group`, which 0 is not one. What is older than
 * `floor` has become that, as in a tracker. */
void cel_collectives_follow(cel_collectives *all, uint32_t group, uint64_t id,
                            uint64_t floor, cel_deps *deps);

#endif
