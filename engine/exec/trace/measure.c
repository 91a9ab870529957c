#include "exec/trace/measure.h"

#include <stdatomic.h>

#include "device/clock.h"

int64_t cel__measure_now(const cel_measures *measure) {
  return measure->timeline != NULL ? cel_now_ns() : 0;
}

/* Whether lanes notice when it is complete, and note it as a job. */
static bool is_job(const cel_node *node) {
  if (node->instr->kind == CEL_INSTR_COLLECTIVE)
    return node->instr->device >= 0;
  return node->record->messages.at[0].posted.chained;
}

void cel__measure_message(const cel_measures *measure, const cel_node *node,
                          uint64_t which, bool failed) {
  const cel_record *record = node->record;
  cel_timeline *t = measure->timeline;
  cel_span span;
  if (t == NULL || is_job(node)) return;
  const cel_transit *transit = node->instr->kind != CEL_INSTR_COLLECTIVE
                                   ? &record->messages.at[which]
                                   : NULL;
  int16_t track = transit != NULL ? transit->track : record->track;
  cel_timeline_arrive(t, node->instr->kind == CEL_INSTR_SEND, track);
  cel_span_of_message(node->instr, transit != NULL ? transit->sent : NULL,
                      record->issued, cel_now_ns(), track, &span);
  span.failed = failed;
  cel_timeline_add(t, &span);
}

void cel__measure_job(const cel_measures *measure, const cel_node *node,
                      bool failed) {
  const cel_record *record = node->record;
  cel_span span;
  if (measure->pace != NULL && !failed)
    cel_pace_add(measure->pace, node->instr, &record->job);
  if ((measure->profile == NULL && measure->timeline == NULL) ||
      !cel_span_of_job(node->instr, &record->job, record->issued, node->device,
                       node->lane, &span))
    return;
  span.failed = failed;
  if (measure->profile != NULL && !failed)
    cel_profile_add(measure->profile, &span);
  if (measure->timeline != NULL) cel_timeline_add(measure->timeline, &span);
}

void cel__measure_step(const cel_measures *measure, const cel_instr *instr,
                       cel_instr_lane lane, int64_t begin) {
  cel_span span;
  if (begin == 0 || cel_instr_lane_of(instr->kind) != lane) return;
  cel_span_of_step(instr, begin, cel_now_ns(), &span);
  cel_timeline_add(measure->timeline, &span);
}

/* ---- paces --------------------------------------------------------------- */

struct cel_pace {
  _Atomic(uint64_t) weights;
  struct {
    _Atomic(int64_t) items, ns;
  } device[CEL_DEVICES];
};

cel_pace *cel_pace_create(void) {
  return cel_alloc_zero(sizeof(cel_pace));
}

void cel_pace_destroy(cel_pace *pace) {
  cel_free(pace);
}

void cel_pace_follow(cel_pace *pace, uint64_t weights) {
  atomic_store_explicit(&pace->weights, weights, memory_order_relaxed);
}

/* Of a fold, those of all steps. */
static int64_t items_of(const cel_instr *instr) {
  const cel_instr_fold *fold = instr->run.fold;
  if (fold == NULL) return cel_box_volume(&instr->run.chunk);
  int64_t items = 0;
  for (int32_t s = 0; s < fold->steps; ++s)
    items += cel_box_volume(&fold->step[s].chunk);
  return items;
}

void cel_pace_add(cel_pace *pace, const cel_instr *instr, const cel_job *job) {
  const cel_task *task = instr->task;
  if (instr->kind != CEL_INSTR_KERNEL || job->end <= job->begin ||
      task->placement != CEL_PLACE_SPLIT || task->work->lua ||
      task->weights !=
          atomic_load_explicit(&pace->weights, memory_order_relaxed))
    return;
  int32_t d = instr->device;
  atomic_fetch_add_explicit(&pace->device[d].items, items_of(instr),
                            memory_order_relaxed);
  atomic_fetch_add_explicit(&pace->device[d].ns, job->end - job->begin,
                            memory_order_relaxed);
}

void cel_pace_take(cel_pace *pace, int32_t d, int64_t *items, int64_t *ns) {
  *items = atomic_exchange(&pace->device[d].items, 0);
  *ns = atomic_exchange(&pace->device[d].ns, 0);
}
