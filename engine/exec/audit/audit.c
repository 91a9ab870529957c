#include "exec/audit/audit.h"

#include <string.h>

#include "base/vec.h"
#include "task/touched.h"

struct cel_audit {
  CEL_VEC(cel_audit_row) rows;
  CEL_VEC(char *) names;
  cel_coverage coverage; /* by row */
  cel_crossings crossings;
  cel_region region; /* scratch of one call */
};

cel_audit *cel_audit_create(void) {
  return cel_alloc_zero(sizeof(cel_audit));
}

void cel_audit_destroy(cel_audit *audit) {
  if (audit == NULL) return;
  for (uint32_t i = 0; i < audit->names.n; ++i) cel_free(audit->names.at[i]);
  cel_vec_release(&audit->names);
  cel_vec_release(&audit->rows);
  cel_coverage_release(&audit->coverage);
  cel_crossings_release(&audit->crossings);
  cel_region_release(&audit->region);
  cel_free(audit);
}

uint32_t cel_audit_rows(cel_audit *audit, const cel_audit_row **out) {
  for (uint32_t i = 0; i < audit->rows.n; ++i)
    audit->rows.at[i].seen = cel_coverage_of(&audit->coverage, i);
  *out = audit->rows.at;
  return audit->rows.n;
}

/* ---- bytes of a box ------------------------------------------------------ */

static unsigned char *byte_at(const cel_view *view, int64_t i, int64_t j,
                              int64_t k) {
  return cel_touched_byte(view->touched, &view->box, i, j, k);
}

/* Marks what of the view is promised. */
static void promise(const cel_view *view, const cel_box *part) {
  cel_box box;
  if (!cel_box_intersect(&view->box, part, &box)) return;
  for (int64_t i = box.min[0]; i < box.max[0]; ++i)
    for (int64_t j = box.min[1]; j < box.max[1]; ++j)
      memset(byte_at(view, i, j, box.min[2]), CEL_PROMISED,
             (size_t)(box.max[2] - box.min[2]));
}

/* How many elements of a part have just these marks, and the first of them. */
static int64_t count(const cel_view *view, const cel_box *part, int marks,
                     int64_t first[3]) {
  int64_t n = 0;
  cel_box box;
  if (!cel_box_intersect(&view->box, part, &box)) return 0;
  for (int64_t i = box.min[0]; i < box.max[0]; ++i)
    for (int64_t j = box.min[1]; j < box.max[1]; ++j)
      for (int64_t k = box.min[2]; k < box.max[2]; ++k)
        if (*byte_at(view, i, j, k) == marks && n++ == 0) {
          first[0] = i;
          first[1] = j;
          first[2] = k;
        }
  return n;
}

/* ---- before a job -------------------------------------------------------- */

/* All of an array that is reduced into is the kernel's. */
static void promise_view(cel_audit *audit, const cel_instr *instr,
                         const cel_view *view, uint32_t i) {
  const cel_access *access = &instr->task->access[i];
  if (access->rows > 0) {
    promise(view, &view->box);
    return;
  }
  if (cel_rule_eval(&access->use, &instr->run.chunk, &audit->region) !=
      CEL_E_OK)
    cel_bug("a mapper that was evaluated before fails");
  for (uint32_t b = 0; b < audit->region.n; ++b)
    promise(view, &audit->region.at[b]);
}

void cel_audit_begin(cel_audit *audit, const cel_instr *instr,
                     cel_record *record) {
  const cel_task *task = instr->task;
  for (uint32_t i = 0; i < task->accesses; ++i) {
    if (!task->work->marks) continue;
    cel_view *view = &record->views.at[i];
    view->touched = cel_alloc_zero(sizeof *view->touched);
    size_t elements = (size_t)cel_box_volume(&view->box);
    view->touched->map = cel_alloc_zero(elements + 1);
    if (cel_crossings_concern_items(task, i)) {
      view->touched->who =
          cel_alloc_zero((elements + 1) * sizeof *view->touched->who);
      view->touched->chunk = instr->run.chunk;
    }
    promise_view(audit, instr, view, i);
  }
}

/* ---- after it ------------------------------------------------------------ */

/* Where the user is to look: not where the result of a reduction is asked for,
 * but where it was reduced. */
static cel_location place_of(const cel_task *task) {
  return task->reduced.file != NULL ? task->reduced : task->location;
}

static bool is_row(const cel_audit_row *row, const cel_task *task,
                   int32_t access) {
  cel_location location = place_of(task);
  if (row->access != access || row->location.file != location.file ||
      row->location.line != location.line)
    return false;
  return row->name == NULL || task->name == NULL
             ? row->name == task->name
             : strcmp(row->name, task->name) == 0;
}

static void add_fault(cel_fault_tally *tally, int64_t n, const int64_t at[3],
                      const cel_box *chunk) {
  if (n == 0) return;
  if (tally->count == 0) {
    memcpy(tally->at, at, sizeof tally->at);
    tally->chunk = *chunk;
  }
  tally->count += n;
}

/* Whether what is read is a box around what the parts of a chunk need, with
 * gaps; as is found of the first submission. */
static void note_gaps(const cel_task *task, const cel_access *access,
                      cel_audit_row *row) {
  cel_counter_example why;
  if (access->mode != CEL_MODE_READ || access->rows > 0 ||
      task->placement != CEL_PLACE_SPLIT ||
      cel_rule_prove_union(&access->use, &task->permitted, &why) != CEL_REFUTED)
    return;
  cel_box chunk = cel_box_hull(&why.a, &why.b);
  add_fault(&row->gap, 1, why.point, &chunk);
}

static cel_audit_row *row_of(cel_audit *audit, const cel_task *task,
                             int32_t access) {
  for (uint32_t i = 0; i < audit->rows.n; ++i)
    if (is_row(&audit->rows.at[i], task, access)) return &audit->rows.at[i];
  const cel_buffer *buffer = task->access[access].buffer;
  cel_audit_row row = {.location = place_of(task),
                       .combines = task->reduced.file != NULL,
                       .access = access,
                       .marks = task->work->marks,
                       .dims = task->access[access].rows > 0 ? CEL_DIMS
                                                             : buffer->dims,
                       .task_dims = task->dims,
                       .element_size = buffer->element_size};
  if (task->name != NULL) {
    cel_vec_push(&audit->names, cel_strdup(task->name));
    row.name = cel_vec_last(&audit->names);
  }
  note_gaps(task, &task->access[access], &row);
  cel_vec_push(&audit->rows, row);
  return &cel_vec_last(&audit->rows);
}

/* Whether another chunk was promised an element. */
static bool is_elsewhere(cel_audit *audit, const cel_access *access,
                         const int64_t at[3]) {
  cel_box point;
  if (!cel_mode_produces(access->mode) || access->rows > 0 ||
      cel_rule_eval(&access->use, &access->use.range, &audit->region) !=
          CEL_E_OK)
    return false;
  for (int d = 0; d < CEL_DIMS; ++d) {
    point.min[d] = at[d];
    point.max[d] = at[d] + 1;
  }
  return cel_region_covers_box(&audit->region, &point);
}

static void note_outside(cel_audit *audit, const cel_instr *instr,
                         const cel_view *view, cel_audit_row *row) {
  const cel_touched *touched = view->touched;
  if (touched->outside == 0) return;
  if (row->outside.count == 0) {
    row->item_dims = touched->item_dims;
    memcpy(row->item, touched->item, sizeof row->item);
    row->promise = view->box;
    row->elsewhere =
        is_elsewhere(audit, &instr->task->access[row->access], touched->at);
  }
  add_fault(&row->outside, touched->outside, touched->at, &instr->run.chunk);
}

/* What nobody wrote counts where it was touched, or may have been. */
static void note_undefined(const cel_instr *instr, const cel_view *view,
                           cel_audit_row *row) {
  const cel_access *access = &instr->task->access[row->access];
  for (uint32_t b = 0; b < access->undefined_boxes; ++b) {
    cel_box box;
    int64_t first[3] = {0}, n;
    if (view->touched != NULL) {
      n = count(view, &access->undefined[b], CEL_PROMISED | CEL_TOUCHED, first);
    } else {
      n = cel_box_intersect(&view->box, &access->undefined[b], &box)
              ? cel_box_volume(&box)
              : 0;
      if (n > 0) memcpy(first, box.min, sizeof first);
    }
    add_fault(&row->undefined, n, first, &instr->run.chunk);
  }
}

static void take_in(cel_audit *audit, const cel_instr *instr,
                    const cel_view *view, int32_t access) {
  const cel_access *a = &instr->task->access[access];
  cel_audit_row *row = row_of(audit, instr->task, access);
  row->chunks++;
  note_undefined(instr, view, row);
  if (view->touched == NULL) return;
  if (a->mode == CEL_MODE_DISCARD_WRITE && a->rows == 0) {
    int64_t first[3] = {0}, left = count(view, &view->box, CEL_PROMISED, first);
    add_fault(&row->unwritten, left, first, &instr->run.chunk);
  }
  if (cel_mode_consumes(a->mode))
    cel_coverage_add(&audit->coverage, (uint32_t)(row - audit->rows.at),
                     instr->kind == CEL_INSTR_HOST ? -1 : instr->device,
                     a->buffer, view);
  note_outside(audit, instr, view, row);
}

/* What this job and earlier ones of its task touched of one buffer; the row is
 * that of the access that reads. */
static void take_crossings(cel_audit *audit, const cel_instr *instr,
                           cel_view *view, uint32_t access) {
  cel_crossing crossing;
  if (!cel_crossings_concern(instr->task, access)) return;
  for (uint32_t i = 0; i < audit->crossings.traces.n; ++i) {
    if (!cel_crossings_with(&audit->crossings, i, instr, access, view,
                            &crossing))
      continue;
    cel_audit_row *row = row_of(audit, instr->task, (int32_t)crossing.access);
    if (row->crossed.count == 0) row->writer = crossing.writer;
    add_fault(&row->crossed, crossing.count, crossing.at, &crossing.reader);
  }
  cel_crossings_keep(&audit->crossings, instr, access, view);
}

/* What items of this job touched of one buffer. */
static void take_races(cel_audit *audit, const cel_instr *instr,
                       const cel_view *view) {
  const cel_task *task = instr->task;
  cel_crossing crossing;
  for (uint32_t i = 0; i < task->accesses; ++i)
    for (uint32_t k = 0; k < task->accesses; ++k) {
      if (!cel_crossings_within(task, i, k, view, &crossing)) continue;
      cel_audit_row *row = row_of(audit, task, (int32_t)i);
      if (row->raced.count == 0) row->racer = crossing.writer;
      add_fault(&row->raced, crossing.count, crossing.at, &crossing.reader);
    }
}

void cel_audit_end(cel_audit *audit, const cel_instr *instr, cel_record *record,
                   bool done) {
  if (done) take_races(audit, instr, record->views.at);
  for (uint32_t i = 0; i < instr->task->accesses; ++i) {
    cel_view *view = &record->views.at[i];
    if (view->touched != NULL) {
      cel_free(view->touched->who);
      view->touched->who = NULL;
    }
    if (done &&
        (view->touched != NULL || instr->task->access[i].undefined_boxes > 0))
      take_in(audit, instr, view, (int32_t)i);
    if (done && view->touched != NULL) take_crossings(audit, instr, view, i);
    if (view->touched == NULL) continue;
    cel_free(view->touched->map);
    cel_free(view->touched);
    view->touched = NULL;
  }
}
