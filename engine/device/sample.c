#include "device/sample.h"

#include <stdatomic.h>

#include "base/random.h"
#include "base/text.h"
#include "device/clock.h"
#include "fold/shape.h"
#include "tuning.h"

enum { LISTED = 4 }; /* boxes in a message */

/* ---- what may be spent ----------------------------------------------------
 */

static _Atomic int64_t began_ns, spent_ns;

bool cel__sample_affords(int64_t ns) {
  int64_t now = cel_now_ns(), none = 0;
  atomic_compare_exchange_strong(&began_ns, &none, now);
  int64_t since = now - atomic_load(&began_ns);
  return atomic_load(&spent_ns) + ns <=
         CEL_TUNE_SAMPLE_NS + since / CEL_TUNE_SAMPLE_SHARE;
}

void cel__sample_spend(int64_t ns) {
  if (ns > 0) atomic_fetch_add(&spent_ns, ns);
}

/* ---- which items ----------------------------------------------------------
 */

/* Somewhere; half of them at a side. */
static void some_point(const cel_sample *sample, int n, int64_t out[3]) {
  const cel_box *chunk = &sample->chunk;
  cel_random random = {sample->task->id * CEL__SAMPLE_POINTS + (uint64_t)n};
  for (int d = 0; d < CEL_DIMS; ++d)
    out[d] = cel_random_int(&random, chunk->min[d], chunk->max[d] - 1);
  if (n % 2 != 0 || sample->task->dims == 0) return;
  int d = n / 4 % sample->task->dims;
  out[d] = n % 4 == 0 ? chunk->min[d] : chunk->max[d] - 1;
}

bool cel__sample_point(const cel_sample *sample, int n, int64_t out[3]) {
  const cel_box *chunk = &sample->chunk;
  if (n >= CEL__SAMPLE_POINTS) return false;
  if (n >= CEL__SAMPLE_CORNERS) {
    some_point(sample, n, out);
    return true;
  }
  for (int d = 0; d < CEL_DIMS; ++d)
    out[d] = (n >> d & 1) != 0 ? chunk->max[d] - 1 : chunk->min[d];
  return true;
}

/* ---- units ----------------------------------------------------------------
 */

/* Where the units of dimension d begin, and how long they are. */
static int64_t unit_size(const cel_task *task, int d, bool itemwise) {
  int64_t whole = task->range.max[d] - task->range.min[d];
  int64_t size = task->permitted.granularity[d];
  if (!task->permitted.cut[d]) return itemwise ? 1 : whole;
  return size < 1 ? 1 : size < whole ? size : whole;
}

/* The part of the range that is made of such units and holds all of `items`. */
static cel_box in_units(const cel_task *task, const cel_box *items,
                        bool itemwise) {
  cel_box all;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = unit_size(task, d, itemwise), begin = task->range.min[d];
    int64_t end = items->max[d] + size - 1 - (items->max[d] - 1 - begin) % size;
    all.min[d] = items->min[d] - (items->min[d] - begin) % size;
    all.max[d] = end < task->range.max[d] ? end : task->range.max[d];
  }
  return all;
}

static cel_box box_of(const int64_t item[3]) {
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d)
    box.min[d] = item[d], box.max[d] = item[d] + 1;
  return box;
}

cel_box cel__sample_unit(const cel_task *task, const int64_t item[3]) {
  cel_box items = box_of(item);
  return in_units(task, &items, cel_fold_is_itemwise(task));
}

int64_t cel__sample_units(const cel_task *task, const cel_box *items,
                          cel__units *out) {
  bool itemwise = cel_fold_is_itemwise(task);
  cel_box all = in_units(task, items, itemwise);
  int64_t n = 1;
  for (int d = 0; d < CEL_DIMS; ++d) {
    out->first[d] = all.min[d];
    out->step[d] = unit_size(task, d, itemwise);
    out->count[d] = (items->max[d] - 1 - all.min[d]) / out->step[d] + 1;
    n *= out->count[d];
  }
  return n;
}

cel_box cel__sample_nth_unit(const cel_task *task, const cel__units *units,
                             int64_t n) {
  cel_box unit;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t end = task->range.max[d];
    unit.min[d] = units->first[d] + n % units->count[d] * units->step[d];
    unit.max[d] = unit.min[d] + units->step[d];
    if (unit.max[d] > end) unit.max[d] = end;
    n /= units->count[d];
  }
  return unit;
}

static int32_t promise(const cel_access *access, const cel_box *unit,
                       const cel_view *view, cel_box *out) {
  const cel_rule *rule = access->use.rule;
  int32_t n = rule->listing == NULL ? rule->desc.boxes : -1;
  for (int32_t b = 0; b < n; ++b)
    if (cel_rule_eval_box(&access->use, b, unit, &out[b]) != CEL_E_OK) n = -1;
  if (n < 0) *out = view->box;
  return n < 0 ? 1 : n;
}

/* Tasks that are carried out together rely on single items for accesses of some
 * kinds alone. */
int32_t cel__sample_promise(const cel_task *task, int32_t i,
                            const cel_box *unit, const cel_view *view,
                            cel_box *out) {
  const cel_access *access = &task->access[i];
  cel_reach reach;
  if (access->rows > 0 || access->use.rule == NULL) return -1;
  cel_fold_role role = cel_fold_role_of(access, &reach);
  bool itemwise = role == CEL_FOLD_WRITTEN || role == CEL_FOLD_AROUND;
  cel_box chunk = itemwise ? *unit : in_units(task, unit, false);
  return promise(access, &chunk, view, out);
}

/* ---- parts ----------------------------------------------------------------
 */

/* Where units meet within [begin, end): two such places at most, and both
 * ends, in order. How many parts. */
static int32_t cut_line(cel_random *random, int64_t step, int64_t first,
                        int64_t begin, int64_t end, int64_t at[4]) {
  int64_t units = (end - 1 - first) / step + 1;
  int32_t n = units < 2 ? 1 : units == 2 ? 2 : 3;
  int64_t one = n > 1 ? cel_random_int(random, 1, units - n + 1) : 0;
  int64_t two = n > 2 ? cel_random_int(random, one + 1, units - 1) : 0;
  at[0] = begin;
  at[1] = first + one * step;
  at[2] = first + two * step;
  at[n] = end;
  return n;
}

int32_t cel__sample_parts(const cel_task *task, const cel_box *items,
                          bool ordered, cel_box out[CEL__SAMPLE_PARTS]) {
  bool itemwise = cel_fold_is_itemwise(task), whole = false;
  cel_box all = in_units(task, items, itemwise);
  cel_random random = {task->id};
  int64_t at[3][4];
  int32_t n[3], parts = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t step = unit_size(task, d, itemwise),
            size = items->max[d] - items->min[d];
    int32_t group = task->work->work_group[d];
    if (whole || (group > 0 && step % group != 0)) step = task->range.max[d];
    n[d] = cut_line(&random, step, all.min[d], items->min[d], items->max[d],
                    at[d]);
    whole = whole || (ordered && size > 1);
  }
  for (int32_t i = 0; i < n[0]; ++i)
    for (int32_t j = 0; j < n[1]; ++j)
      for (int32_t k = 0; k < n[2]; ++k)
        out[parts++] = (cel_box){{at[0][i], at[1][j], at[2][k]},
                                 {at[0][i + 1], at[1][j + 1], at[2][k + 1]}};
  return parts;
}

void cel__sample_views(const cel_task *task, const cel_box *part,
                       const cel_view *view, int32_t views, cel_view *out) {
  bool itemwise = cel_fold_is_itemwise(task);
  cel_box unit = in_units(task, part, itemwise), box[CEL_RULE_BOXES];
  for (int32_t i = 0; i < views; ++i) {
    int32_t n = cel__sample_promise(task, i, &unit, &view[i], box);
    out[i] = view[i];
    if (n >= 0) out[i].box = (cel_box){{0}, {0}};
    for (int32_t b = 0; b < n; ++b)
      out[i].box = cel_box_hull(&out[i].box, &box[b]);
  }
}

/* ---- what is found --------------------------------------------------------
 */

/* As many boxes as a reader looks at. */
static void add_boxes(cel_text *text, const cel_box *box, int32_t n,
                      int32_t dims) {
  int32_t said = 0;
  for (int32_t b = 0; b < n; ++b) {
    if (cel_box_is_empty(&box[b]) || said++ >= LISTED) continue;
    if (said > 1) cel_text_format(text, ", ");
    cel__text_add_box(text, &box[b], dims);
  }
  if (said == 0) cel_text_format(text, "nothing");
  if (said > LISTED) cel_text_format(text, " and %d more", said - LISTED);
}

static bool holds(const cel_box *box, int32_t n, const cel__fault *fault) {
  cel_box at = box_of(fault->at);
  for (int d = fault->dims; d < CEL_DIMS; ++d) at.min[d] = 0, at.max[d] = 1;
  for (int32_t b = 0; b < n; ++b)
    if (cel_box_covers(&box[b], &at)) return true;
  return false;
}

cel_status cel__sample_report(const cel_task *task, const cel__fault *fault,
                              const char *kernel,
                              const struct cel_param *param) {
  static const cel_view none;
  cel_box promised[CEL_RULE_BOXES];
  cel_box item = box_of(fault->item), unit = in_units(task, &item, false);
  int32_t n = promise(&task->access[fault->view], &unit, &none, promised);
  bool together = holds(promised, n, fault);
  if (together) {
    unit = cel__sample_unit(task, fault->item);
    n = cel__sample_promise(task, fault->view, &unit, &none, promised);
  }
  cel_text text = {0};
  cel__fault_begin(&text, fault, kernel, param);
  add_boxes(&text, promised, n, fault->dims);
  cel_text_format(&text, " to the chunk ");
  cel__text_add_box(&text, &unit, task->dims);
  cel_text_format(&text,
                  ": it is wrong %s; let the mapper give all that each "
                  "item touches%s",
                  together ? "where tasks are carried out together"
                           : "on several ranks or devices",
                  together ? ", or give the task the hint fold = 1" : "");
  return cel__fault_end(&text, fault);
}
