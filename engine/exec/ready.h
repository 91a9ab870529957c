/* ready.h -- instructions that may be issued: a heap by priority, then id.
 *
 * Cost: O(log n); memory grows to the most that was ready at once, and stays.
 * Confined to the executor.
 */
#ifndef CEL_EXEC_READY_H
#define CEL_EXEC_READY_H

#include "base/vec.h"

typedef struct cel_ready_item {
  uint64_t id;
  int32_t priority;
} cel_ready_item;

typedef struct cel_ready {
  CEL_VEC(cel_ready_item) heap;
} cel_ready;

void cel_ready_release(cel_ready *ready);
void cel_ready_push(cel_ready *ready, int32_t priority, uint64_t id);
/* Takes the highest priority, and of these the lowest id; false when empty. */
bool cel_ready_pop(cel_ready *ready, uint64_t *id);

#endif
