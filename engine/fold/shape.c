#include "fold/shape.h"

enum { TABLE_BYTES = 1 << 14 };

/* [chunk.min[j], chunk.max[j]) in each dimension. */
static bool is_identity(const cel_rule *rule) {
  const cel_rule_desc *desc = &rule->desc;
  if (!rule->plain || desc->buffer_dims != desc->task_dims) return false;
  for (int j = 0; j < desc->buffer_dims; ++j)
    if (rule->follows[j] != j) return false;
  return desc->buffer_dims > 0;
}

static bool is_table(const cel_access *access) {
  const cel_rule *rule = access->use.rule;
  if (!rule->plain) return false;
  for (int j = 0; j < rule->desc.buffer_dims; ++j)
    if (rule->follows[j] >= 0) return false;
  const cel_buffer *buffer = access->buffer;
  return cel_box_volume(&buffer->extent) * buffer->element_size <= TABLE_BYTES;
}

cel_fold_role cel_fold_role_of(const cel_access *access, cel_reach *reach) {
  /* What is reduced into has no rule, nor a reducer before its work is made. */
  if (access->reducer != NULL || access->rows > 0 || access->use.rule == NULL)
    return CEL_FOLD_REDUCED;
  if (cel_mode_produces(access->mode))
    return is_identity(access->use.rule) ? CEL_FOLD_WRITTEN : CEL_FOLD_OTHER;
  if (cel_rule_reach(&access->use, reach)) return CEL_FOLD_AROUND;
  return is_table(access) ? CEL_FOLD_TABLE : CEL_FOLD_OTHER;
}

bool cel_fold_has_shape(const cel_access *access, uint32_t n) {
  cel_reach reach;
  for (uint32_t i = 0; i < n; ++i)
    if (cel_fold_role_of(&access[i], &reach) == CEL_FOLD_OTHER) return false;
  return true;
}

bool cel_fold_may_join(const cel_task *task) {
  const cel_work *work = task->work;
  return task->fold != 1 && task->effects == 0 && work != NULL && work->alike &&
         !work->lua && work->work_group[0] == 0;
}

bool cel_fold_is_itemwise(const cel_task *task) {
  cel_reach reach;
  if (task->placement != CEL_PLACE_SPLIT || !cel_fold_may_join(task))
    return false;
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (cel_mode_produces(task->access[i].mode) &&
        cel_fold_role_of(&task->access[i], &reach) == CEL_FOLD_OTHER)
      return false;
  return true;
}
