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
