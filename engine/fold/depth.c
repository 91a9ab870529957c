#include "fold/depth.h"

#include "fold/fold.h"
#include "fold/shape.h"
#include "task/assignment.h"
#include "tuning.h"

/* `around`: of how many steps that read one item around theirs, by dimensions;
 * who reads further takes so many times fewer. `silent`: of how many where that
 * spares no messages, or with 0 dimensions, where nobody reads around an item.
 * The processor needs no fold for that: it carries out in one pass what waits
 * in a lane (device/cpu/folded.h), and nothing is held back. A GPU has launches
 * for one and two dimensions, and for chains of elementwise tasks; for two
 * alone where the ends of the range meet. */
static const struct {
  int32_t around[CEL_DIMS + 1];
  int32_t silent[CEL_DIMS + 1];
} most[CEL_FOLD_MACHINES] = {
    [CEL_FOLD_MIXED] = {{1, 1, 1, 1}, {1, 1, 1, 1}},
    [CEL_FOLD_PROCESSOR] = {{1, 16, 16, 4}, {1, 1, 1, 1}},
    [CEL_FOLD_GPU] = {{1, CEL_TUNE_FOLD_GPU, CEL_TUNE_FOLD_GPU, 1},
                      {CEL_TUNE_FOLD_GPU, CEL_TUNE_FOLD_GPU, CEL_TUNE_FOLD_GPU,
                       1}},
};

/* ---- chunks -------------------------------------------------------------- */

/* Of the pieces that are not empty. */
static int64_t least_of(const cel_cut *cut) {
  int64_t least = cut->N;
  if (cut->sums == NULL) { /* the last one may be cut short */
    int64_t last = cut->lo + cut->N - cel_cut_at(cut, cut->P - 1);
    return cut->P > 1 && cut->A < last ? cut->A : last;
  }
  for (int64_t i = 0; i < cut->P; ++i) {
    int64_t size = cel_cut_at(cut, i + 1) - cel_cut_at(cut, i);
    if (size > 0 && size < least) least = size;
  }
  return least;
}

static bool knows(const cel__fold_depths *depths, const cel_task *task) {
  if (!depths->known || depths->weights != task->weights ||
      !cel_box_equal(&depths->range, &task->range))
    return false;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (depths->permitted.cut[d] != task->permitted.cut[d] ||
        depths->permitted.granularity[d] != task->permitted.granularity[d])
      return false;
  return true;
}

static void learn(cel__fold_depths *depths, const cel_task *task) {
  if (knows(depths, task)) return;
  bool devices = depths->ranks == 1 && depths->machine == CEL_FOLD_GPU;
  cel_split split =
      cel_task_split(task, devices ? depths->devices : depths->ranks);
  for (int d = 0; d < CEL_DIMS; ++d) {
    depths->least[d] = least_of(&split.cut[d]);
    depths->cut[d] = depths->least[d] < split.cut[d].N;
  }
  depths->range = task->range;
  depths->permitted = task->permitted;
  depths->weights = task->weights;
  depths->known = true;
}

/* ---- a task -------------------------------------------------------------- */

/* Reading around items, and what messages that takes. */
typedef struct stencil {
  int64_t reach[CEL_DIMS];
  int64_t furthest;
  int64_t alone, folded; /* buffers that ranks send each other of */
  int64_t item_bytes;    /* of all buffers, of each once */
  bool wraps;            /* around the ends of the range */
} stencil;

/* Of two accesses to a buffer the second one takes no more memory. */
static bool is_counted(const cel_task *task, uint32_t i) {
  cel_reach reach;
  for (uint32_t k = 0; k < i; ++k)
    if (task->access[k].buffer == task->access[i].buffer &&
        cel_fold_role_of(&task->access[k], &reach) != CEL_FOLD_TABLE)
      return true;
  return false;
}

static stencil stencil_of(const cel_task *task) {
  stencil s = {.furthest = 0};
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    cel_reach reach = {0};
    cel_fold_role role = cel_fold_role_of(access, &reach);
    int64_t own = 0;
    for (int d = 0; d < CEL_DIMS; ++d) {
      int64_t far =
          reach.below[d] > reach.above[d] ? reach.below[d] : reach.above[d];
      if (far > s.reach[d]) s.reach[d] = far;
      if (far > own) own = far;
      s.wraps = s.wraps || reach.wraps[d];
    }
    if (own > s.furthest) s.furthest = own;
    s.alone += own > 0;
    s.folded += role != CEL_FOLD_TABLE && cel_mode_consumes(access->mode);
    if (role != CEL_FOLD_TABLE && !is_counted(task, i))
      s.item_bytes += access->buffer->element_size;
  }
  return s;
}

/* Whether so many steps, on the smallest chunk, do not compute more twice than
 * they save. */
static bool is_worth(const cel__fold_depths *depths, const stencil *s,
                     int32_t steps) {
  double items = 1, twice = 0, messages = 0;
  for (int d = 0; d < CEL_DIMS; ++d) items *= (double)depths->least[d];
  for (int d = 0; d < CEL_DIMS; ++d) {
    if (!depths->cut[d] || s->reach[d] == 0) continue;
    /* Halos come of neighbours alone. */
    if (s->reach[d] * steps > depths->least[d]) return false;
    double layer = items / (double)depths->least[d];
    twice += layer * (double)s->reach[d] * steps * (steps - 1);
    messages += 2.0 * (double)(s->alone * steps - s->folded);
  }
  double spare = messages * (depths->machine == CEL_FOLD_GPU
                                 ? CEL_TUNE_FOLD_GPU_MESSAGE_ITEMS
                                 : CEL_TUNE_FOLD_MESSAGE_ITEMS);
  if (items * (double)s->item_bytes > CEL_TUNE_FOLD_BYTES)
    spare += items * steps / CEL_TUNE_FOLD_TWICE;
  return twice <= spare;
}

/* Whether even the smallest chunk is more than its device holds, and rows of it
 * may be computed one after another. */
static bool spills(const cel__fold_depths *depths, const cel_task *task,
                   const stencil *s) {
  double bytes = (double)s->item_bytes;
  for (int d = 0; d < CEL_DIMS; ++d) bytes *= (double)depths->least[d];
  return depths->room > 0 && depths->machine != CEL_FOLD_MIXED &&
         task->permitted.cut[0] && task->permitted.granularity[0] <= 1 &&
         bytes > (double)depths->room;
}

/* Whether ranks send each other anything before the task, or GPUs of one. */
static bool sends(const cel__fold_depths *depths, const stencil *s) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (depths->cut[d] && s->reach[d] > 0) return true;
  return false;
}

/* Of how many steps where GPUs wait for what they send each other: the more,
 * the less often, and the more is computed twice. */
static int64_t exchanging(const cel__fold_depths *depths, const stencil *s,
                          int64_t least) {
  double items = 1, layers = 0;
  int64_t steps = CEL_FOLD_STEPS / s->furthest;
  for (int d = 0; d < CEL_DIMS; ++d) items *= (double)depths->least[d];
  for (int d = 0; d < CEL_DIMS; ++d)
    if (depths->cut[d])
      layers += items / (double)depths->least[d] * (double)s->reach[d];
  while (steps / 2 >= least &&
         layers * (double)(steps * steps) > 2.0 * CEL_TUNE_FOLD_EXCHANGE_ITEMS)
    steps /= 2;
  return steps > least ? steps : least;
}

/* Why the table has no more than one step. */
static const char *why_few(const cel__fold_depths *depths) {
  return depths->machine == CEL_FOLD_GPU
             ? "on GPUs --fold or q:hint has to ask for steps in so many "
               "dimensions, or that reach so far"
         : depths->machine == CEL_FOLD_MIXED
             ? "ranks compute on devices of several kinds"
             : "it reads further around than a fold is worth";
}

int32_t cel__fold_depth(cel__fold_depths *depths, const cel_task *task,
                        bool first, const char **why) {
  *why = "the submission asks for no fold";
  if (task->fold != 0) return task->fold;
  const int32_t *silent = most[depths->machine].silent;
  bool never = silent[0] <= 1 && silent[task->dims] <= 1;
  *why = "it takes no messages";
  if (first && never && depths->ranks == 1 && depths->room == 0) return 1;
  stencil s = stencil_of(task);
  int64_t steps = CEL_FOLD_STEPS;
  if (s.furthest > 0)
    steps = most[depths->machine].around[task->dims] / s.furthest;
  *why = why_few(depths);
  if (steps <= 1 && depths->room == 0) return 1;
  learn(depths, task);
  if (steps > 1 && depths->machine == CEL_FOLD_GPU && sends(depths, &s))
    steps = exchanging(depths, &s, steps);
  if (spills(depths, task, &s)) {
    steps = CEL_TUNE_FOLD_SPILL / (s.furthest > 0 ? s.furthest : 1);
  } else if (s.wraps && task->dims != 2 && depths->machine == CEL_FOLD_GPU &&
             !sends(depths, &s)) {
    *why = "a launch of a GPU has steps that read around ends in two "
           "dimensions alone";
    return 1;
  } else if (first && !sends(depths, &s)) {
    int64_t all = silent[s.furthest > 0 ? task->dims : 0];
    if (all < steps) steps = all;
  }
  if (steps > 1) *why = "ranks would compute more twice than messages cost";
  while (steps > 1 && !is_worth(depths, &s, (int32_t)steps)) --steps;
  return steps > 1 ? (int32_t)steps : 1;
}
