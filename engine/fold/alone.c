#include "fold/alone.h"

#include "base/text.h"
#include "fold/chain.h"

/* What is read around items, or in a way that no step reads; null: nothing. */
static const cel_access *read_beyond(const cel_task *task) {
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    cel_reach reach = {0};
    cel_fold_role role = cel_fold_role_of(access, &reach);
    bool other = role == CEL_FOLD_OTHER && cel_mode_consumes(access->mode);
    if (other || cel_reach_is_around(&reach)) return access;
  }
  return NULL;
}

/* It reads around ends of the range that are not those of all it touches. */
static bool has_other_ends(const cel_task *task) {
  cel__fold_edges edges = {.meet = {false}};
  for (uint32_t i = 0; i < task->accesses; ++i) {
    cel__fold_access own = {.access = &task->access[i]};
    own.role = cel_fold_role_of(own.access, &own.reach);
    cel__fold_edges_add(&edges, &own, &task->range);
  }
  return !cel__fold_edges_agree(&edges);
}

static const char *obstacle_of_work(const cel_task *task) {
  const cel_work *work = task->work;
  if (work->lua) return "it is an interop task";
  if (task->reduces != 0 || work->reducers > 0) return "it reduces";
  if (work->work_group[0] > 0) return "its items work in groups";
  if (!work->alike)
    return "its kernel has atomics, printf, assembly, #include or __device__ "
           "variables";
  if (task->oversubscribe > 1) return "oversubscribe cuts it into runs";
  if (task->listed) return "a mapper of it is opaque";
  if (has_other_ends(task))
    return "it reads around ends that not all of its buffers have";
  return NULL;
}

static bool say_access(const cel_task *task, char *text, size_t size) {
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    const char *name = cel__name_of(access->buffer->name);
    cel_reach reach = {0};
    cel_fold_role role = cel_fold_role_of(access, &reach);
    const char *what = NULL;
    if (access->buffer->apart)
      what = "each rank has its own '%s'";
    else if (access->late != NULL)
      what = "an index says what it reads of '%s'";
    else if (role == CEL_FOLD_OTHER)
      what = cel_mode_produces(access->mode)
                 ? "it writes '%s' elsewhere than at the item"
                 : "it reads '%s' further than a neighbourhood around the item";
    for (uint32_t k = 0; what == NULL && k < task->accesses; ++k)
      if (cel_reach_is_around(&reach) &&
          task->access[k].buffer == access->buffer &&
          cel_mode_produces(task->access[k].mode))
        what = "it reads '%s' around the item and writes it";
    if (what == NULL) continue;
    cel_text_append(text, size, what, name);
    return true;
  }
  return false;
}

/* Why `next` is not taken together with the task before it. */
static const char *why_apart(const cel_task *task, const cel_task *next) {
  if (!cel__fold_may_be_step(next)) return "is no step";
  bool alike =
      task->dims == next->dims && cel_box_equal(&task->range, &next->range);
  return alike ? "may not follow it" : "has another range";
}

bool cel__fold_why_alone(cel__fold_depths *depths, const cel_task *task,
                         const cel_task *next, char *text, size_t size) {
  text[0] = '\0';
  if (task->kind != CEL_TASK_KERNEL || task->placement != CEL_PLACE_SPLIT ||
      task->dims == 0 || task->fold == 1 || read_beyond(task) == NULL)
    return false;
  const char *why = obstacle_of_work(task);
  if (why == NULL && say_access(task, text, size)) return true;
  const char *shallow = NULL;
  if (why == NULL && cel__fold_depth(depths, task, false, &shallow) == 1)
    why = shallow;
  if (why != NULL)
    cel_text_append(text, size, "%s", why);
  else if (next != NULL && next->kind == CEL_TASK_EPOCH)
    cel_text_append(text, size, "line %d waits", next->location.line);
  else if (next != NULL)
    cel_text_append(text, size, "'%s' of line %d comes next, and %s",
                    cel__name_of(next->name), next->location.line,
                    why_apart(task, next));
  return text[0] != '\0';
}
