#include "fold/fold.h"

cel_box cel_fold_turning_box(const cel_fold *fold, int32_t s,
                             const cel_box *chunk) {
  const cel_fold_step *step = &fold->step[s];
  const cel_box *range = &step->task->range;
  cel_box box = *chunk;
  if (cel_box_is_empty(chunk)) return box;
  for (int d = 0; d < step->task->dims; ++d) {
    box.min[d] -= step->grows.below[d];
    box.max[d] += step->grows.above[d];
    bool all = box.max[d] - box.min[d] >= range->max[d] - range->min[d];
    if (fold->wraps[d] && !all) continue;
    all = all && fold->wraps[d];
    if (all || box.min[d] < range->min[d]) box.min[d] = range->min[d];
    if (all || box.max[d] > range->max[d]) box.max[d] = range->max[d];
  }
  return box;
}

cel_box cel_fold_box(const cel_fold *fold, int32_t s, const cel_box *chunk) {
  cel_box box = cel_fold_turning_box(fold, s, chunk);
  if (!cel_box_is_empty(chunk))
    cel_box_intersect(&box, &fold->step[s].task->range, &box);
  return box;
}

bool cel_fold_wraps(const cel_fold *fold) {
  return fold->wraps[0] || fold->wraps[1] || fold->wraps[2];
}

/* What the step lacks of the chunk in dimension d, where that is grown, lies at
 * the other end of the range; false: nothing does. */
static bool wraps_to(const cel_fold *fold, int32_t s, const cel_box *chunk,
                     int d, int64_t *min, int64_t *max) {
  const cel_fold_step *step = &fold->step[s];
  const cel_box *range = &step->task->range;
  int64_t n = range->max[d] - range->min[d];
  int64_t low = chunk->min[d] - step->grows.below[d];
  int64_t high = chunk->max[d] + step->grows.above[d];
  if (!fold->wraps[d] || high - low >= n) return false;
  *min = low < range->min[d] ? low + n : range->min[d];
  *max = low < range->min[d] ? range->max[d] : high - n;
  return *min < *max;
}

int32_t cel_fold_boxes(const cel_fold *fold, int32_t s, const cel_box *chunk,
                       cel_box out[CEL_FOLD_BOXES]) {
  int32_t n = 1;
  out[0] = cel_fold_box(fold, s, chunk);
  if (cel_box_is_empty(chunk)) return n;
  for (int d = 0; d < fold->step[s].task->dims; ++d) {
    int64_t min, max;
    if (!wraps_to(fold, s, chunk, d, &min, &max)) continue;
    for (int32_t i = 0; i < n; ++i) {
      out[n + i] = out[i];
      out[n + i].min[d] = min;
      out[n + i].max[d] = max;
    }
    n *= 2;
  }
  return n;
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
