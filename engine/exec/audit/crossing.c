#include "exec/audit/crossing.h"

#include <string.h>

#include "task/touched.h"

enum { FAR = 16 }; /* tasks, after which few of its jobs can be under way */

static bool only_reads(const cel_access *access) {
  return !cel_mode_produces(access->mode);
}

/* What is reduced into is not the chunk's to write. */
static bool cross(const cel_access *a, const cel_access *b) {
  return a->buffer == b->buffer && a->rows == 0 && b->rows == 0 &&
         only_reads(a) != only_reads(b);
}

bool cel_crossings_concern(const cel_task *task, uint32_t access) {
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (cross(&task->access[access], &task->access[i])) return true;
  return false;
}

static bool is_touched(const cel_view *view, const int64_t at[3]) {
  return (*cel_touched_byte(view->touched, &view->box, at[0], at[1], at[2]) &
          CEL_TOUCHED) != 0;
}

/* How many elements both views touched, and the first of them. */
static int64_t count(const cel_view *a, const cel_view *b, int64_t first[3]) {
  int64_t n = 0, at[3];
  cel_box both;
  if (!cel_box_intersect(&a->box, &b->box, &both)) return 0;
  for (at[0] = both.min[0]; at[0] < both.max[0]; ++at[0])
    for (at[1] = both.min[1]; at[1] < both.max[1]; ++at[1])
      for (at[2] = both.min[2]; at[2] < both.max[2]; ++at[2])
        if (is_touched(a, at) && is_touched(b, at) && n++ == 0)
          memcpy(first, at, sizeof at);
  return n;
}

bool cel_crossings_concern_items(const cel_task *task, uint32_t access) {
  return task->kind == CEL_TASK_KERNEL && !task->work->lua &&
         task->work->work_group[0] == 0 && cel_crossings_concern(task, access);
}

/* The item that touched an element; empty where several did. */
static cel_box item_of(const cel_touched *touched, uint64_t who) {
  const cel_box *chunk = &touched->chunk;
  cel_box item = {{0}, {0}};
  if (who == CEL_SEVERAL_ITEMS) return item;
  --who;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    uint64_t n = (uint64_t)(chunk->max[d] - chunk->min[d]);
    item.min[d] = chunk->min[d] + (int64_t)(who % n);
    item.max[d] = item.min[d] + 1;
    who /= n;
  }
  return item;
}

static uint64_t who_at(const cel_view *view, const int64_t at[3]) {
  const cel_touched *touched = view->touched;
  return touched
      ->who[cel_touched_byte(touched, &view->box, at[0], at[1], at[2]) -
            touched->map];
}

bool cel_crossings_within(const cel_task *task, uint32_t reads, uint32_t writes,
                          const cel_view *view, cel_crossing *out) {
  const cel_access *all = task->access;
  const cel_view *read = &view[reads], *written = &view[writes];
  int64_t at[3];
  cel_box both;
  *out = (cel_crossing){.access = reads};
  if (!cross(&all[reads], &all[writes]) || !only_reads(&all[reads]) ||
      read->touched == NULL || read->touched->who == NULL ||
      !cel_box_intersect(&read->box, &written->box, &both))
    return false;
  for (at[0] = both.min[0]; at[0] < both.max[0]; ++at[0])
    for (at[1] = both.min[1]; at[1] < both.max[1]; ++at[1])
      for (at[2] = both.min[2]; at[2] < both.max[2]; ++at[2]) {
        uint64_t reader = who_at(read, at), writer = who_at(written, at);
        if (reader == 0 || writer == 0 ||
            (reader == writer && reader != CEL_SEVERAL_ITEMS) ||
            out->count++ > 0)
          continue;
        memcpy(out->at, at, sizeof at);
        out->reader = item_of(read->touched, reader);
        out->writer = item_of(written->touched, writer);
      }
  return out->count > 0;
}

bool cel_crossings_with(const cel_crossings *crossings, uint32_t i,
                        const cel_instr *instr, uint32_t access,
                        const cel_view *view, cel_crossing *out) {
  const cel_trace *trace = &crossings->traces.at[i];
  const cel_access *all = instr->task->access;
  const cel_box *chunk = &instr->run.chunk;
  if (trace->task != instr->task->id ||
      !cross(&all[access], &all[trace->access]) ||
      cel_box_equal(&trace->chunk, chunk))
    return false;
  bool reads = only_reads(&all[access]);
  out->count = count(view, &trace->view, out->at);
  out->access = reads ? access : trace->access;
  out->reader = reads ? *chunk : trace->chunk;
  out->writer = reads ? trace->chunk : *chunk;
  return out->count > 0;
}

static void drop(cel_crossings *crossings, uint32_t i) {
  cel_touched *touched = crossings->traces.at[i].view.touched;
  cel_free(touched->map);
  cel_free(touched);
  cel_vec_swap_out(&crossings->traces, i);
}

void cel_crossings_keep(cel_crossings *crossings, const cel_instr *instr,
                        uint32_t access, cel_view *view) {
  uint64_t task = instr->task->id;
  for (uint32_t i = crossings->traces.n; i-- > 0;)
    if (crossings->traces.at[i].task + FAR < task) drop(crossings, i);
  cel_trace trace = {
      .task = task, .access = access, .chunk = instr->run.chunk, .view = *view};
  cel_vec_push(&crossings->traces, trace);
  view->touched = NULL;
}

void cel_crossings_release(cel_crossings *crossings) {
  while (crossings->traces.n > 0) drop(crossings, crossings->traces.n - 1);
  cel_vec_release(&crossings->traces);
}
