/* Samples on the processor: a block of a chunk, some of whose items are
 * checked.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/clock.h"
#include "device/module/module.h"
#include "device/sample.h"
#include "tuning.h"

/* ---- which items ----------------------------------------------------------
 */

/* A few items in a row, the point among them; or its work group. */
static cel_box segment_at(const cel_sample *sample, const int32_t group[3],
                          const int64_t at[3]) {
  const cel_box *chunk = &sample->chunk;
  int last = sample->task->dims > 0 ? sample->task->dims - 1 : 0;
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = group[d] > 0 ? group[d] : 1;
    box.min[d] = at[d] - (at[d] - chunk->min[d]) % size;
    box.max[d] = box.min[d] + size;
  }
  if (group[0] > 0) return box;
  if (box.min[last] > chunk->max[last] - CEL_TUNE_SAMPLE_ROW)
    box.min[last] = chunk->max[last] - CEL_TUNE_SAMPLE_ROW;
  if (box.min[last] < chunk->min[last]) box.min[last] = chunk->min[last];
  box.max[last] = box.min[last] + CEL_TUNE_SAMPLE_ROW;
  if (box.max[last] > chunk->max[last]) box.max[last] = chunk->max[last];
  return box;
}

static int by_order(const void *a, const void *b) {
  const cel_box *x = a, *y = b;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (x->min[d] != y->min[d]) return x->min[d] < y->min[d] ? -1 : 1;
  return 0;
}

/* The parts of the sample that lie in a block, disjoint and in the order of
 * their items. Returns how many. */
static int segments_of(const cel_sample *sample, const int32_t group[3],
                       const cel_box *block, cel_box out[CEL__SAMPLE_POINTS]) {
  int found = 0, kept = 0;
  int64_t at[3];
  for (int i = 0; cel__sample_point(sample, i, at); ++i) {
    cel_box box = segment_at(sample, group, at);
    if (cel_box_intersect(&box, block, &box)) out[found++] = box;
  }
  qsort(out, (size_t)found, sizeof *out, by_order);
  for (int i = 0; i < found; ++i) {
    cel_box *last = &out[kept - 1];
    if (kept == 0 || !cel_box_meets(last, &out[i])) {
      out[kept++] = out[i];
      continue;
    }
    for (int d = 0; d < CEL_DIMS; ++d) /* they are of one row, or one group */
      if (out[i].max[d] > last->max[d]) last->max[d] = out[i].max[d];
  }
  return kept;
}

/* ---- computing ------------------------------------------------------------
 */

/* A block on its way. Positions are in units of one item, or of one group. */
typedef struct walk {
  const cel__kernel_work *work;
  cel__kernel *kernel; /* its */
  const cel_call *call;
  cel_view *view;        /* the call's, with promises */
  cel__promise *promise; /* of each view */
  cel_box *box;          /* CEL_RULE_BOXES for each */
  cel__fault fault;
  int64_t size[3], n[3];
  int64_t ns, items; /* of what the real build has computed */
  bool ordered;      /* items are computed in their order */
  cel_status status;
} walk;

/* The items of one unit, by the checked build. */
static void check_unit(walk *w, const cel_box *unit, const cel_box *items) {
  const cel_task *task = w->call->sample->task;
  cel_call checked = *w->call;
  checked.view = w->view;
  cel_box_intersect(unit, items, &checked.chunk);
  for (int32_t i = 0; i < checked.views; ++i) {
    cel_box *at = w->box + (size_t)i * CEL_RULE_BOXES;
    int32_t n = cel__sample_promise(task, i, unit, &w->call->view[i], at);
    w->promise[i] = (cel__promise){at, n, &w->fault};
  }
  w->kernel->sample(&checked);
  if (w->fault.set != 0)
    w->status =
        cel__sample_report(task, &w->fault, w->work->name, w->kernel->param);
}

static void check_items(walk *w, const cel_box *items) {
  const cel_task *task = w->call->sample->task;
  cel__units units;
  int64_t n = cel__sample_units(task, items, &units);
  for (int64_t i = 0; i < n && w->status == CEL_E_OK; ++i) {
    cel_box unit = cel__sample_nth_unit(task, &units, i);
    check_unit(w, &unit, items);
  }
}

static void run_real(walk *w, const cel_box *items) {
  cel_call real = *w->call;
  real.chunk = *items;
  int64_t begin = cel_now_ns();
  w->work->entry->run(&real);
  w->ns += cel_now_ns() - begin;
  w->items += cel_box_volume(items);
  int64_t ps = w->ns * 1000 / w->items;
  atomic_store_explicit(&w->kernel->item_ps, (uint64_t)(ps > 0 ? ps : 1),
                        memory_order_relaxed);
}

/* From the position `at`: [begin, end) along dimension d, all behind it. */
static void run_piece(walk *w, const int64_t at[3], int d, int64_t begin,
                      int64_t end) {
  cel_box items;
  if (begin >= end || w->status != CEL_E_OK) return;
  for (int k = 0; k < CEL_DIMS; ++k) {
    int64_t lo = k < d ? at[k] : k == d ? begin : 0;
    int64_t hi = k < d ? at[k] + 1 : k == d ? end : w->n[k];
    items.min[k] = w->call->chunk.min[k] + lo * w->size[k];
    items.max[k] = w->call->chunk.min[k] + hi * w->size[k];
  }
  run_real(w, &items);
}

/* All from one position to another, in order: the rest of the row, of the
 * plane, of the box; and what of those is before the other. */
static void run_between(walk *w, const int64_t from[3], const int64_t to[3]) {
  int64_t at[3] = {from[0], from[1], from[2]};
  int same = 0;
  while (same < CEL_DIMS - 1 && from[same] == to[same]) ++same;
  for (int d = CEL_DIMS - 1; d > same; --d) {
    if (at[d] == 0) continue;
    run_piece(w, at, d, at[d], w->n[d]);
    at[d] = 0;
    ++at[d - 1];
  }
  for (int d = same; d < CEL_DIMS; ++d) {
    run_piece(w, at, d, at[d], to[d]);
    at[d] = to[d];
  }
}

/* Where nothing says yet whether checks are cheap, all but one position of a
 * row by the real build: but its last, or its first where the chunk begins.
 * Returns what is left. */
static cel_box time_some(walk *w, const cel_box *items) {
  cel_box some = *items, left = *items;
  int d = CEL_DIMS - 1;
  while (d > 0 && some.max[d] - some.min[d] == w->size[d]) --d;
  if (!w->ordered && items->min[d] == w->call->sample->chunk.min[d])
    left.max[d] = some.min[d] += w->size[d];
  else
    left.min[d] = some.max[d] -= w->size[d];
  if (cel_box_is_empty(&some)) return *items;
  run_real(w, &some);
  return left;
}

/* By the checked build, if that is cheap enough. */
static void run_segment(walk *w, const cel_box *segment) {
  _Atomic uint64_t *item_ps = &w->kernel->item_ps;
  if (w->status != CEL_E_OK) return;
  bool known = atomic_load_explicit(item_ps, memory_order_relaxed) > 0;
  const cel_box left = known ? *segment : time_some(w, segment), *items = &left;
  uint64_t ps = atomic_load_explicit(item_ps, memory_order_relaxed);
  int64_t n = cel_box_volume(items);
  int64_t real = (int64_t)(ps * (uint64_t)n / 1000);
  if (ps == 0 || !cel__sample_affords(real * CEL_TUNE_SAMPLE_SLOWER +
                                      n * CEL_TUNE_SAMPLE_BEGIN_NS)) {
    run_real(w, items);
    return;
  }
  int64_t begin = cel_now_ns();
  check_items(w, items);
  cel__sample_spend(cel_now_ns() - begin - real);
}

/* How long a box is along dimension d. */
static int64_t length(const walk *w, const cel_box *box, int d) {
  return (box->max[d] - box->min[d]) / w->size[d];
}

/* The rest by the real build, and the segments where they stand. */
static void run_all(walk *w, const cel_box *segment, int n, bool rest,
                    bool segments) {
  int64_t at[3] = {0}, to[3];
  for (int i = 0; i < n; ++i) {
    for (int d = 0; d < CEL_DIMS; ++d)
      to[d] = (segment[i].min[d] - w->call->chunk.min[d]) / w->size[d];
    if (rest) run_between(w, at, to);
    if (segments) run_segment(w, &segment[i]);
    memcpy(at, to, sizeof at);
    int along = CEL_DIMS - 1; /* the segment, which is one wide elsewhere */
    while (along > 0 && length(w, &segment[i], along) == 1) --along;
    if (length(w, &segment[i], along) == 1) along = CEL_DIMS - 1;
    at[along] += length(w, &segment[i], along);
  }
  const int64_t end[3] = {w->n[0], 0, 0};
  if (rest) run_between(w, at, end);
}

cel_status cel__sample_call(const cel_work *work, const cel_call *call) {
  const cel__kernel_work *own = cel__kernel_work_of(work);
  cel_box segment[CEL__SAMPLE_POINTS];
  size_t views = (size_t)call->views;
  int n = segments_of(call->sample, work->work_group, &call->chunk, segment);
  if (n == 0) {
    own->entry->run(call);
    return CEL_E_OK;
  }
  walk w = {.work = own,
            .kernel = (cel__kernel *)(uintptr_t)own->kernel, /* its item_ps */
            .call = call,
            .ordered = work->reducers > 0,
            .view = cel_alloc(views * sizeof *w.view + 1),
            .promise = cel_alloc(views * sizeof *w.promise + 1),
            .box = cel_alloc(views * CEL_RULE_BOXES * sizeof *w.box + 1)};
  for (size_t i = 0; i < views; ++i) {
    w.view[i] = call->view[i];
    w.view[i].touched = (struct cel_touched *)&w.promise[i];
  }
  for (int d = 0; d < CEL_DIMS; ++d) {
    w.size[d] = work->work_group[d] > 0 ? work->work_group[d] : 1;
    w.n[d] = (call->chunk.max[d] - call->chunk.min[d]) / w.size[d];
  }
  /* What the others take says whether a segment is cheap. */
  if (!w.ordered) run_all(&w, segment, n, true, false);
  run_all(&w, segment, n, w.ordered, true);
  cel_free(w.view);
  cel_free(w.promise);
  cel_free(w.box);
  return w.status;
}
