/* effect.h -- what orders tasks besides buffers: host objects that they touch,
 * and groups of collective tasks.
 *
 * A host object is something beside buffers that only host tasks touch: a file,
 * a counter. A task says so by an *effect*, an object and an order (Knorr et
 * al., Declarative Data Flow, section 4). Between two tasks that touch one
 * object the stricter decides:
 *
 *   sequential  with anything               a dependency, in submission order
 *   exclusive   with exclusive or relaxed   a conflict: either first, not both
 *                                           at once
 *   relaxed     with relaxed                nothing
 *
 * Conflicts are a rule (cel_effects_conflict), no edges that somebody stores:
 * n exclusive tasks would have n^2 of them. One between tasks that
 * dependencies order already means nothing more. Where one of the two is a
 * collective task it becomes a dependency in submission order: if each rank
 * chose, one rank's could wait for ever for another's, or for what another's
 * needs of a task that it keeps from running.
 *
 * An object of cluster scope stands for something that all ranks share. What
 * touches it is ordered across ranks; exclusive is sequential there, for ranks
 * could not agree on another order without asking each other.
 *
 * What a collective task does may block until the same task runs on every rank.
 * So that all ranks come to the calls of one communicator in one order, each
 * node of a collective group depends on the one before it, in submission order:
 * in the task graph, and alike among a rank's commands and its instructions.
 * Between groups there is no order: each has a communicator and a thread of its
 * own. A rank has one node per task there, as collective tasks are
 * CEL_PLACE_EACH.
 *
 * Invariant of a tracker: what it holds is bounded by the effects since the
 * floor, see front.h.
 * Cost: O(1) per effect, O(effects since) for a sequential one; 8 bytes for
 * each object ever mentioned, and for each group. Confined. Pure.
 */
#ifndef CEL_TASK_EFFECT_H
#define CEL_TASK_EFFECT_H

#include "base/vec.h"
#include "region/track.h"
#include "task/location.h"
#include "task/work.h"

/* NAME, name: strictest first. */
#define CEL_ORDERS(_)                                                          \
  _(SEQUENTIAL, sequential)                                                    \
  _(EXCLUSIVE, exclusive)                                                      \
  _(RELAXED, relaxed)

typedef enum cel_order {
#define CEL_ORDER_ENUM(NAME, name) CEL_ORDER_##NAME,
  CEL_ORDERS(CEL_ORDER_ENUM)
#undef CEL_ORDER_ENUM
} cel_order;

typedef enum cel_scope {
  CEL_SCOPE_RANK,   /* one on each rank */
  CEL_SCOPE_CLUSTER /* one that all ranks share */
} cel_scope;

/* Immutable after creation; owned by the runtime, which ends it after every
 * layer has seen its CEL_TASK_FREE. `id` is dense from 0 and never reused. */
typedef struct cel_object {
  uint32_t id;
  cel_scope scope;
  const char *name;
  cel_location location; /* where it was made */
  uint64_t hash; /* of what makes and ends it: all ranks' must be the same */
  void *context; /* the maker's own */
  /* What is to be run after the last task that touches it, on each rank; may be
   * null. One reference. */
  cel_work *release;
  /* Frees `context`, when nothing mentions the object any more; may be null. */
  void (*destroy)(struct cel_object *object);
} cel_object;

typedef struct cel_effect {
  const cel_object *object;
  cel_order order;
} cel_effect;

const char *cel_order_name(cel_order order);
/* The order that it is to be given. */
cel_order cel_effect_order(const cel_effect *effect);
/* Whether two tasks that are given one object in these exclude one another
 * without a dependency. */
bool cel_orders_conflict(cel_order a, cel_order b);
/* Whether two tasks with these effects exclude one another without a
 * dependency. O(n m). */
bool cel_effects_conflict(const cel_effect *a, uint32_t n, const cel_effect *b,
                          uint32_t m);

#ifndef CEL_CDEF
typedef struct cel_effect_user {
  uint64_t id;
  cel_order order;
  bool collective;
} cel_effect_user;

/* The effects of one graph's nodes on one object. */
typedef struct cel_effect_use {
  uint64_t floor;                 /* applied to what follows */
  uint64_t sequential;            /* the newest sequential node; 0: none */
  CEL_VEC(cel_effect_user) since; /* the others after it */
  bool collective;                /* some of them may be */
  CEL_VEC(uint64_t) arrived;      /* nodes after it, for other ranks */
} cel_effect_use;

typedef struct cel_effect_track {
  CEL_VEC(cel_effect_use *) uses; /* by object id; null: not mentioned */
} cel_effect_track;

/* Zero to begin. */
void cel_effect_track_release(cel_effect_track *track);
/* Node `id`, of a collective task or not, has these effects: adds what it must
 * come after. `floor` is that of the graph now. */
void cel_effects_add(cel_effect_track *track, const cel_effect *effect,
                     uint32_t n, bool collective, uint64_t id, uint64_t floor,
                     cel_deps *deps);
/* When node `id` is done, another rank has done what it must: what has an
 * effect from here on comes after it. */
void cel_effect_arrive(cel_effect_track *track, const cel_object *object,
                       uint64_t id, uint64_t floor);
/* Only asks: what an effect of that order would come after; all who have
 * touched the object, if it is sequential. */
void cel_effect_ask(cel_effect_track *track, const cel_object *object,
                    cel_order order, uint64_t floor, cel_deps *deps);
/* The object is not mentioned again. */
void cel_effect_forget(cel_effect_track *track, const cel_object *object);
size_t cel_effect_track_bytes(const cel_effect_track *track);

/* The collective tasks of each group. Zero to begin. */
typedef struct cel_collective_tasks {
  CEL_VEC(uint64_t) last; /* by group: its newest node, 0: none yet */
} cel_collective_tasks;

void cel_collective_tasks_release(cel_collective_tasks *all);
/* Node `id` is the next of `group`, which 0 is not one. What is older than
 * `floor` has become that, as in a tracker. */
void cel_collective_tasks_follow(cel_collective_tasks *all, uint32_t group,
                                 uint64_t id, uint64_t floor, cel_deps *deps);
#endif

#endif
