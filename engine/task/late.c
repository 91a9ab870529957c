#include "task/late.h"

#include <stddef.h>

void cel_late_init(cel_late *late, int32_t references,
                   void (*destroy)(cel_late *late)) {
  static _Atomic(uint64_t) numbers;
  *late = (cel_late){.number = atomic_fetch_add(&numbers, 1) + 1,
                     .destroy = destroy};
  atomic_init(&late->references, references);
  atomic_init(&late->known, false);
}

cel_late *cel_late_retain(cel_late *late) {
  if (late != NULL) atomic_fetch_add(&late->references, 1);
  return late;
}

void cel_late_release(cel_late *late) {
  if (late != NULL && atomic_fetch_sub(&late->references, 1) == 1)
    late->destroy(late);
}

void cel_late_tell(cel_late *late) {
  atomic_store(&late->known, true); /* in one order with whose turn it is */
}

bool cel_late_is_known(const cel_late *late) {
  return atomic_load(&late->known);
}

/* Where a host task was forgiven its failure the words say anything. */
void cel_late_eval(const cel_late *late, int64_t at, const cel_box *chunk,
                   const cel_box *extent, cel_region *out) {
  int64_t most = (late->words - at - 1) / CEL_LATE_PIECE;
  int64_t pieces = most < 0 ? 0 : late->word[at];
  if (pieces > most) pieces = most;
  cel_region_clear(out);
  for (int64_t k = 0; k < pieces; ++k) {
    const int64_t *piece = late->word + at + 1 + k * CEL_LATE_PIECE;
    if (piece[0] >= chunk->max[0] || piece[1] <= chunk->min[0]) continue;
    cel_box rows = *extent;
    if (rows.min[0] < piece[2]) rows.min[0] = piece[2];
    if (rows.max[0] > piece[3]) rows.max[0] = piece[3];
    if (!cel_box_is_empty(&rows)) cel_region_add(out, &rows);
  }
}
