#include "device/wide.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/park.h"
#include "tuning.h"

typedef struct wide {
  const cel_layout *from, *to;
  const cel_box *box;
  uint32_t element_size;
  int64_t step[3], parts;
  _Atomic(int64_t) next;
} wide;

static void *copy_parts(void *argument) {
  wide *w = argument;
  for (int64_t i; (i = atomic_fetch_add(&w->next, 1)) < w->parts;) {
    cel_box part = cel_box_piece(w->box, w->step, i);
    cel_copy_box(w->from, w->to, &part, w->element_size);
  }
  return NULL;
}

/* As many as there are cores for, and as are worth it. */
static int64_t threads_for(int64_t bytes) {
  int64_t worth = bytes / CEL_TUNE_WIDE_BYTES, cores = cel_park_cores();
  int64_t most = cores < CEL_TUNE_WIDE_THREADS ? cores : CEL_TUNE_WIDE_THREADS;
  return worth < most ? worth : most;
}

void cel_copy_box_wide(const cel_layout *from, const cel_layout *to,
                       const cel_box *box, uint32_t element_size) {
  int64_t n = threads_for(cel_box_volume(box) * element_size), helpers = 0;
  if (n <= 1) {
    cel_copy_box(from, to, box, element_size);
    return;
  }
  wide w = {.from = from, .to = to, .box = box, .element_size = element_size};
  w.parts = cel_box_pieces(box, element_size, CEL_TUNE_WIDE_PART, w.step);
  pthread_t helper[CEL_TUNE_WIDE_THREADS];
  while (helpers < n - 1 &&
         pthread_create(&helper[helpers], NULL, copy_parts, &w) == 0)
    ++helpers;
  copy_parts(&w);
  while (helpers > 0) pthread_join(helper[--helpers], NULL);
}
