#include "device/sample.h"

#include <stdatomic.h>

#include "base/random.h"
#include "base/text.h"
#include "device/clock.h"
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
static int64_t unit_size(const cel_task *task, int d) {
  int64_t whole = task->range.max[d] - task->range.min[d];
  int64_t size = task->permitted.granularity[d];
  if (!task->permitted.cut[d] || size > whole) return whole;
  return size < 1 ? 1 : size;
}

cel_box cel__sample_unit(const cel_task *task, const int64_t item[3]) {
  cel_box unit;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = unit_size(task, d), end = task->range.max[d];
    unit.min[d] = item[d] - (item[d] - task->range.min[d]) % size;
    unit.max[d] = unit.min[d] + size < end ? unit.min[d] + size : end;
  }
  return unit;
}

int64_t cel__sample_units(const cel_task *task, const cel_box *items,
                          cel__units *out) {
  cel_box first = cel__sample_unit(task, items->min);
  int64_t n = 1;
  for (int d = 0; d < CEL_DIMS; ++d) {
    out->first[d] = first.min[d];
    out->step[d] = unit_size(task, d);
    out->count[d] = (items->max[d] - 1 - first.min[d]) / out->step[d] + 1;
    n *= out->count[d];
  }
  return n;
}

cel_box cel__sample_nth_unit(const cel_task *task, const cel__units *units,
                             int64_t n) {
  int64_t at[CEL_DIMS];
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    at[d] = units->first[d] + n % units->count[d] * units->step[d];
    n /= units->count[d];
  }
  return cel__sample_unit(task, at);
}

int32_t cel__sample_promise(const cel_task *task, int32_t i,
                            const cel_box *unit, const cel_view *view,
                            cel_box *out) {
  const cel_access *access = &task->access[i];
  const cel_rule *rule = access->use.rule;
  if (access->rows > 0 || rule == NULL) return -1;
  int32_t n = rule->listing == NULL ? rule->desc.boxes : -1;
  for (int32_t b = 0; b < n; ++b)
    if (cel_rule_eval_box(&access->use, b, unit, &out[b]) != CEL_E_OK) n = -1;
  if (n < 0) *out = view->box;
  return n < 0 ? 1 : n;
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

cel_status cel__sample_report(const cel_task *task, const cel__fault *fault,
                              const char *kernel,
                              const struct cel_param *param) {
  static const cel_view none;
  cel_box promised[CEL_RULE_BOXES];
  cel_box unit = cel__sample_unit(task, fault->item);
  int32_t n = cel__sample_promise(task, fault->view, &unit, &none, promised);
  cel_text text = {0};
  cel__fault_begin(&text, fault, kernel, param);
  add_boxes(&text, promised, n, fault->dims);
  cel_text_format(&text, " to the chunk ");
  cel__text_add_box(&text, &unit, task->dims);
  cel_text_format(&text,
                  ": it is wrong on several ranks or devices; let the mapper "
                  "give all that each item touches");
  return cel__fault_end(&text, fault);
}
