#include "exec/pace.h"

#include <stdatomic.h>

struct cel_pace {
  _Atomic(uint64_t) weights;
  struct {
    _Atomic(int64_t) items, ns;
  } device[CEL_DEVICES];
};

cel_pace *cel_pace_create(void) {
  return cel_alloc_zero(sizeof(cel_pace));
}

void cel_pace_destroy(cel_pace *pace) {
  cel_free(pace);
}

void cel_pace_follow(cel_pace *pace, uint64_t weights) {
  atomic_store_explicit(&pace->weights, weights, memory_order_relaxed);
}

void cel_pace_add(cel_pace *pace, const cel_instr *instr, const cel_job *job) {
  const cel_task *task = instr->task;
  if (instr->kind != CEL_INSTR_KERNEL || job->end <= job->begin ||
      task->placement != CEL_PLACE_SPLIT || task->work->lua ||
      task->weights !=
          atomic_load_explicit(&pace->weights, memory_order_relaxed))
    return;
  int32_t d = instr->device;
  atomic_fetch_add_explicit(&pace->device[d].items,
                            cel_box_volume(&instr->run.chunk),
                            memory_order_relaxed);
  atomic_fetch_add_explicit(&pace->device[d].ns, job->end - job->begin,
                            memory_order_relaxed);
}

void cel_pace_take(cel_pace *pace, int32_t d, int64_t *items, int64_t *ns) {
  *items = atomic_exchange(&pace->device[d].items, 0);
  *ns = atomic_exchange(&pace->device[d].ns, 0);
}
