/* known.h -- what a graph found out of a command group, for others like it.
 *
 * A loop submits groups that differ in buffers of one shape and in values
 * alone. Whoever submits them keeps a cel_known beside what it makes them from,
 * zeroed at first, and names it in each. The graph compares the group with the
 * last one of it: where all that checks and hashes look at is equal, so is what
 * they come to.
 *
 * Cost: some 100 instructions for each access, in place of 500.
 * Thread: main.
 */
#ifndef CEL_TASK_KNOWN_H
#define CEL_TASK_KNOWN_H

#include "task/task.h"

/* At most; of a group that has more nothing is remembered. */
enum { CEL_KNOWN_ACCESSES = 8, CEL_KNOWN_PARAMS = 16 };

typedef struct cel_known_access {
  uint64_t rule; /* its id, which is never given again */
  cel_mode mode;
  bool disjoint, exact;
  uint8_t same; /* the first access of its buffer */
  cel_box extent;
  cel_box image; /* of all of the range */
  uint64_t hash; /* of rule, mode and numbers */
} cel_known_access;

typedef struct cel_known {
  uint64_t graph;  /* its number; 0: nothing is known */
  uint32_t misses; /* groups since the last one that was like it */
  cel_task_kind kind;
  int32_t dims, oversubscribe, fold;
  bool lua; /* the work's, as the next */
  int32_t work_group[3];
  cel_box range;
  cel_split_kind permitted;
  uint32_t accesses;
  bool disjoint; /* as of the task */
  uint64_t hash; /* of the task, without its work, home and accesses */
  cel_known_access access[CEL_KNOWN_ACCESSES];
  int64_t param[CEL_KNOWN_PARAMS]; /* of all accesses, one after the other */
} cel_known;

/* Whether all that is known holds for this group, of the graph with that
 * number. */
bool cel__known_holds(const cel_known *known, uint64_t graph,
                      const cel_group *group);
/* Whether it may be remembered: that it is split evenly, without effects,
 * reductions and opaque mappers. Then it is, but for what the graph adds:
 * images, proofs and hashes. */
bool cel__known_note(cel_known *known, uint64_t graph, const cel_group *group);

#endif
