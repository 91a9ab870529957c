#include "task/work.h"

#include "base/status.h"

void cel_work_retain(cel_work *work) {
  __atomic_add_fetch(&work->references, 1, __ATOMIC_RELAXED);
}

/* Acquire-release: whoever destroys sees all that other holders wrote. */
void cel_work_release(cel_work *work) {
  int32_t left = __atomic_sub_fetch(&work->references, 1, __ATOMIC_ACQ_REL);
  cel_assert(left >= 0);
  if (left == 0 && work->destroy != NULL) work->destroy(work);
}
