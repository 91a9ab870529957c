/* conflict.h -- which instructions that could start now may start together.
 *
 * Host tasks with exclusive effects on one object exclude each other, and those
 * with relaxed ones. Of all that are ready, the largest set is wanted of which
 * no two do, and none excludes one that runs (Knorr et al., Declarative Data
 * Flow, section 4.4). To find it takes exponential time, so backtracking ends
 * after a hundred candidates that were not better. Candidates are built from
 * those with few conflicts first, so the first is a good one already.
 *
 *   wait -> pick -> (it runs) -> done
 *
 * Invariant: of what was picked and is not done, no two conflict. While
 * something waits, something was picked and is not done, or the next pick finds
 * something. Nothing is passed over for ever: the horizon after it waits for
 * it, and main for the horizon. Cost: a pick takes tens of microseconds at most
 * for 500 that wait (bench_conflict); more than CEL_CONFLICT_MOST wait for
 * their turn, oldest first. Memory is that of the objects that are waited for,
 * and stays. Confined to the executor.
 */
#ifndef CEL_EXEC_CONFLICT_H
#define CEL_EXEC_CONFLICT_H

#include "base/vec.h"
#include "instr/instr.h"

enum { CEL_CONFLICT_MOST = 512 };

/* A set of vertices. */
typedef struct cel_conflict_set {
  uint64_t word[CEL_CONFLICT_MOST / 64];
} cel_conflict_set;

/* Room for a search; what it holds is of no use after. */
typedef struct cel_conflict_room {
  cel_conflict_set left[CEL_CONFLICT_MOST + 1]; /* by depth */
  uint32_t picked[CEL_CONFLICT_MOST + 1];       /* by depth: where in `order` */
} cel_conflict_room;

/* A large set of the vertices [0, n), n <= CEL_CONFLICT_MOST, of which no two
 * are neighbours; near[i] are the neighbours of i, without i. Gives up after
 * `rejected` candidates that were no better than what is known. Returns how
 * many. Thread: any. */
uint32_t cel_conflict_search(const cel_conflict_set *near, uint32_t n,
                             uint32_t rejected, cel_conflict_room *room,
                             cel_conflict_set *chosen);

typedef struct cel_conflicts cel_conflicts;

cel_conflicts *cel_conflicts_create(void);
void cel_conflicts_destroy(cel_conflicts *conflicts);
/* Whether a task may have conflicts: if not, it may start when it is ready. */
bool cel_conflicts_concern(const cel_task *task);
/* A ready instruction of such a task. */
void cel_conflicts_wait(cel_conflicts *conflicts, const cel_instr *instr);
/* The ids of those that start now, by age, which run from now on; valid until
 * the next call. */
const uint64_t *cel_conflicts_pick(cel_conflicts *conflicts, uint32_t *n);
/* One that ran does so no more. */
void cel_conflicts_done(cel_conflicts *conflicts, const cel_instr *instr);

#endif
