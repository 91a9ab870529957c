#include "exec/ready.h"

void cel_ready_release(cel_ready *ready) {
  cel_vec_release(&ready->heap);
}

static bool before(const cel_ready_item *a, const cel_ready_item *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  return a->id < b->id;
}

static void swap(cel_ready_item *a, cel_ready_item *b) {
  cel_ready_item t = *a;
  *a = *b;
  *b = t;
}

void cel_ready_push(cel_ready *ready, int32_t priority, uint64_t id) {
  cel_vec_push(&ready->heap, (cel_ready_item){id, priority});
  cel_ready_item *at = ready->heap.at;
  uint32_t i = ready->heap.n - 1;
  while (i > 0 && before(&at[i], &at[(i - 1) / 2])) {
    swap(&at[i], &at[(i - 1) / 2]);
    i = (i - 1) / 2;
  }
}

bool cel_ready_pop(cel_ready *ready, uint64_t *id) {
  if (ready->heap.n == 0) return false;
  cel_ready_item *at = ready->heap.at;
  *id = at[0].id;
  at[0] = at[--ready->heap.n];
  for (uint32_t i = 0;;) {
    uint32_t least = i;
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2; ++child)
      if (child < ready->heap.n && before(&at[child], &at[least]))
        least = child;
    if (least == i) return true;
    swap(&at[i], &at[least]);
    i = least;
  }
}
