#include "fold/fold.h"

cel_box cel_fold_box(const cel_fold *fold, int32_t s, const cel_box *chunk) {
  const cel_fold_step *step = &fold->step[s];
  cel_box box = *chunk;
  if (cel_box_is_empty(chunk)) return box;
  for (int d = 0; d < step->task->dims; ++d) {
    box.min[d] -= step->grows.below[d];
    box.max[d] += step->grows.above[d];
  }
  cel_box_intersect(&box, &step->task->range, &box);
  return box;
}

void cel_fold_tell_unread(const cel_fold *fold, uint32_t i) {
  cel_assert(i < CEL_FOLD_TOLD);
  __atomic_fetch_or(fold->unread, (uint64_t)1 << i, __ATOMIC_RELAXED);
}

bool cel_fold_is_unread(const cel_task *task, const cel_buffer *buffer) {
  uint64_t bits = __atomic_load_n(task->folded->unread, __ATOMIC_RELAXED);
  for (; bits != 0; bits &= bits - 1)
    if (task->access[__builtin_ctzll(bits)].buffer == buffer) return true;
  return false;
}
