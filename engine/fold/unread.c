#include "fold/unread.h"

#include "fold/shape.h"

void cel__fold_watch_begin(cel__fold_watch *watch, const cel_task *fold) {
  *watch = (cel__fold_watch){.fold = fold};
  for (uint32_t i = 0; i < fold->accesses && i < CEL_FOLD_TOLD; ++i) {
    cel_reach none;
    if (cel_fold_role_of(&fold->access[i], &none) == CEL_FOLD_WRITTEN)
      watch->open |= (uint64_t)1 << i;
  }
}

typedef enum meaning { NOTHING, READ, UNREAD } meaning;

static bool overwrites(const cel_task *task, const cel_access *access,
                       const cel_task *fold) {
  cel_reach none;
  return access->mode == CEL_MODE_DISCARD_WRITE &&
         cel_fold_role_of(access, &none) == CEL_FOLD_WRITTEN &&
         task->dims == fold->dims && cel_box_covers(&task->range, &fold->range);
}

/* What a kernel is to a buffer that the fold writes. */
static meaning meaning_of(const cel_task *task, const cel_task *fold,
                          const cel_buffer *buffer) {
  meaning is = NOTHING;
  for (uint32_t i = 0; i < task->accesses; ++i) {
    if (task->access[i].buffer != buffer) continue;
    if (!overwrites(task, &task->access[i], fold)) return READ;
    is = UNREAD;
  }
  return is;
}

bool cel__fold_watch_see(cel__fold_watch *watch, const cel_task *task) {
  const cel_task *fold = watch->fold;
  if (task->kind == CEL_TASK_HORIZON) return watch->open != 0;
  if (task->kind != CEL_TASK_KERNEL && task->kind != CEL_TASK_FREE)
    watch->open = 0;
  for (uint64_t left = watch->open; left != 0; left &= left - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    const cel_buffer *buffer = fold->access[i].buffer;
    meaning is = task->kind == CEL_TASK_KERNEL ? meaning_of(task, fold, buffer)
                 : task->freed == buffer       ? UNREAD
                                               : NOTHING;
    if (is == UNREAD) cel_fold_tell_unread(fold->folded, i);
    if (is != NOTHING) watch->open &= ~((uint64_t)1 << i);
  }
  return watch->open != 0;
}
