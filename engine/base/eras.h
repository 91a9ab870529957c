/* eras.h -- memory of graph nodes, which die an era at a time.
 *
 * An era is the nodes up to and including one horizon or epoch. All that they
 * point to lies in its arena; what they hold otherwise is kept with it. When a
 * later horizon is known to have been executed, whole eras end at once, and
 * their memory serves the next ones.
 *
 * Invariant: closed eras ascend by `last`; the open one is newer than all.
 * Cost: O(1) per node. The holder owns it: init ... release. Confined.
 */
#ifndef CEL_BASE_ERAS_H
#define CEL_BASE_ERAS_H

#include "base/arena.h"
#include "base/vec.h"

typedef struct cel_era {
  cel_arena arena;
  CEL_VEC(void *) kept; /* dropped when the era ends */
  uint64_t last;        /* id of the newest node, once closed */
} cel_era;

typedef struct cel_eras {
  cel_era *open;
  CEL_VEC(cel_era *) closed; /* oldest first */
  CEL_VEC(cel_era *) spare;  /* empty */
  void (*drop)(void *kept);
} cel_eras;

/* `drop` ends what was kept; null if nothing ever is. */
void cel_eras_init(cel_eras *eras, void (*drop)(void *kept));
/* Ends all of them. */
void cel_eras_release(cel_eras *eras);
/* Where the next nodes go. */
static inline cel_arena *cel_eras_arena(cel_eras *eras) {
  return &eras->open->arena;
}
/* Dropped when the era that is open now ends, its arena still being there. */
void cel_eras_keep(cel_eras *eras, void *kept);
/* Node `last` ends the open era; opens the next. */
void cel_eras_close(cel_eras *eras, uint64_t last);
/* Ends the closed eras whose nodes are all older than node `id`. */
void cel_eras_retire(cel_eras *eras, uint64_t id);
size_t cel_eras_bytes(const cel_eras *eras);

#endif
