#include "exec/translate.h"

#include "command/collective/member.h"
#include "fold/shape.h"

cel_record *cel_records_take(cel_records *records) {
  cel_record *record = records->free;
  if (record == NULL) return cel_alloc_zero(sizeof *record);
  records->free = record->next;
  return record;
}

void cel_records_give(cel_records *records, cel_record *record) {
  record->next = records->free;
  records->free = record;
}

void cel_records_release(cel_records *records) {
  while (records->free != NULL) {
    cel_record *record = records->free;
    records->free = record->next;
    cel_vec_release(&record->views);
    cel_vec_release(&record->uses);
    cel_vec_release(&record->afters);
    cel_free(record->known);
    cel_vec_release(&record->pieces);
    cel_vec_release(&record->parts);
    cel_vec_release(&record->messages);
    cel_free(record);
  }
}

static cel_layout layout_of(const cel_allocation *a) {
  if (a == NULL) return (cel_layout){0};
  cel_assert(a->address != NULL);
  return (cel_layout){a->address, a->layout};
}

static void translate_copy(cel_job *job, const cel_instr *instr) {
  job->from = layout_of(instr->copy.from);
  if (instr->copy.from != NULL) job->from_memory = instr->copy.from->memory;
  job->to_memory = instr->copy.to->memory;
  job->to = layout_of(instr->copy.to);
  job->box = instr->copy.box;
  job->element_size = instr->copy.to->buffer->element_size;
  if (instr->kind == CEL_INSTR_INIT) job->init = instr->copy.to->buffer->init;
}

void cel_translate_row(cel_view *view, const cel_reducer *reducer) {
  const cel_box *layout = &view->layout;
  int64_t n = cel_box_volume(&reducer->extent);
  cel_assert(view->box.max[0] - view->box.min[0] == 1 &&
             cel_box_volume(&view->box) == n &&
             layout->max[1] - layout->min[1] == n);
  int64_t at = (view->box.min[0] - layout->min[0]) * n;
  view->base = (char *)view->base + at * reducer->element_size;
  view->layout = view->box = reducer->extent;
}

bool cel_translate_use(const cel_access *access, cel_fold_view *out) {
  cel_reach reach;
  *out = (cel_fold_view){.array = -1,
                         .element_size = access->buffer->element_size};
  switch (cel_fold_role_of(access, &reach)) {
  case CEL_FOLD_WRITTEN:
    out->array = 0;
    out->writes = true;
    out->keeps = access->mode != CEL_MODE_DISCARD_WRITE;
    return true;
  case CEL_FOLD_AROUND:
    for (int32_t d = 0; d < access->use.rule->desc.buffer_dims; ++d) {
      if (reach.below[d] > CEL_FOLD_REACH || reach.above[d] > CEL_FOLD_REACH)
        return true;
      out->below[d] = (int32_t)reach.below[d];
      out->above[d] = (int32_t)reach.above[d];
      out->wraps[d] = reach.wraps[d];
    }
    out->along_axes = reach.along_axes;
    out->array = 0;
    return true;
  case CEL_FOLD_REDUCED: out->writes = true; return true;
  default: return !cel_mode_produces(access->mode);
  }
}

/* Where the task may be a step of a fold, the device may carry it out together
 * with others that wait in its lane. */
static void translate_uses(cel_record *record, const cel_task *task) {
  record->job.use = NULL;
  record->job.together = 0;
  if (!cel_fold_may_join(task)) return;
  cel_vec_clear(&record->uses);
  for (uint32_t i = 0; i < task->accesses; ++i) {
    cel_fold_view use;
    if (!cel_translate_use(&task->access[i], &use)) return;
    cel_vec_push(&record->uses, use);
  }
  record->job.use = record->uses.at;
}

static void translate_call(cel_record *record, const cel_instr *instr,
                           int64_t rank, int64_t ranks) {
  const cel_task *task = instr->task;
  cel_vec_clear(&record->views);
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_place_in *in = &instr->run.view[i];
    cel_layout layout = layout_of(in->allocation);
    cel_vec_push(
        &record->views,
        (cel_view){.base = layout.base, .layout = layout.box, .box = in->box});
  }
  record->job.work =
      instr->kind == CEL_INSTR_RELEASE ? task->ended->release : task->work;
  const cel_work *work = record->job.work;
  for (int32_t i = 0; i < work->reducers; ++i) {
    const cel_reducer *reducer = &work->reducer[i];
    const cel_access *access = &task->access[reducer->view];
    cel_view *view = &record->views.at[reducer->view];
    if (access->in_place)
      view->holds = access->mode == CEL_MODE_READ_WRITE;
    else
      cel_translate_row(view, reducer);
  }
  record->job.collective_group = task->collective_group;
  record->job.call = (cel_call){.chunk = instr->run.chunk,
                                .range = task->range,
                                .rank = (int32_t)rank,
                                .ranks = (int32_t)ranks,
                                .views = (int32_t)task->accesses,
                                .view = record->views.at,
                                .effects = (int32_t)task->effects,
                                .effect = task->effect,
                                .values = record->job.work->values,
                                .device = instr->device};
  if (instr->kind == CEL_INSTR_KERNEL) translate_uses(record, task);
  if (!work->waits || task->placement != CEL_PLACE_SPLIT ||
      cel_box_is_empty(&instr->run.chunk))
    return;
  record->sample = (cel_sample){.task = task, .chunk = instr->run.chunk};
  record->job.call.sample = &record->sample;
}

void cel_translate_job(cel_record *record, const cel_instr *instr, int64_t rank,
                       int64_t ranks) {
  record->job = (cel_job){
      .ticket = instr->id,
      .name = instr->task != NULL ? instr->task->name : NULL,
      .location =
          instr->task != NULL ? instr->task->location : (cel_location){0},
  };
  switch (instr->kind) {
  case CEL_INSTR_COPY:
    record->job.kind = CEL_JOB_COPY;
    translate_copy(&record->job, instr);
    break;
  case CEL_INSTR_INIT:
    record->job.kind = CEL_JOB_INIT;
    translate_copy(&record->job, instr);
    break;
  default:
    record->job.kind = CEL_JOB_CALL;
    translate_call(record, instr, rank, ranks);
  }
}

/* The points of a box in dense row-major memory, as runs. */
static cel_strided runs_of(const cel_place_in *in) {
  const cel_allocation *a = in->allocation;
  const cel_box *layout = &a->layout, *box = &in->box;
  cel_assert(cel_box_covers(layout, box) && a->address != NULL);
  uint64_t size[CEL_DIMS], stride[CEL_DIMS], step = a->buffer->element_size;
  char *base = a->address;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    stride[d] = step;
    size[d] = (uint64_t)(box->max[d] - box->min[d]);
    base += (uint64_t)(box->min[d] - layout->min[d]) * step;
    step *= (uint64_t)(layout->max[d] - layout->min[d]);
  }
  cel_strided s = {.base = base,
                   .count = {size[0], size[1]},
                   .stride = {stride[0], stride[1]},
                   .run = size[2] * stride[2]};
  /* Rows that lie side by side become one run. */
  for (int d = 1; d >= 0; --d) {
    if (s.run != stride[d] && size[d] != 1) break;
    s.run *= size[d];
    s.count[d] = 1;
  }
  return s;
}

void cel_translate_message(cel_record *record, const cel_instr *instr) {
  cel_vec_clear(&record->pieces);
  cel_vec_clear(&record->messages);
  for (const cel_sent *m = &instr->message; m != NULL; m = m->next)
    for (uint32_t i = 0; i < m->pieces; ++i)
      cel_vec_push(&record->pieces, runs_of(&m->piece[i]));
  const cel_strided *piece = record->pieces.at;
  for (const cel_sent *m = &instr->message; m != NULL; m = m->next) {
    uint64_t which = (uint64_t)record->messages.n << CEL_TICKET_MESSAGE;
    cel_transit transit = {.posted = {.ticket = instr->id | which,
                                      .peer = m->peer,
                                      .sequence = m->nth,
                                      .direct = m->direct,
                                      .far = m->far,
                                      .bytes = m->bytes,
                                      .pieces = m->pieces,
                                      .piece = piece},
                           .sent = m};
    cel_vec_push(&record->messages, transit);
    if (m->pieces > 0) piece += m->pieces;
  }
  record->missing = record->messages.n;
}

/* The part of rank k where the whole lies; a piece of nothing where it has
 * none. */
static cel_strided part_of(const cel_instr *instr, int64_t k) {
  cel_place_in part = *instr->collective.place;
  part.box = cel_exchange_part(instr->collective.exchange, k);
  return cel_box_is_empty(&part.box) ? (cel_strided){0} : runs_of(&part);
}

/* The whole where it is to be found as one, else by rank; or this rank's part,
 * or nothing. */
static void find_pieces(cel_record *record, const cel_instr *instr,
                        int64_t rank) {
  const cel_exchange *x = instr->collective.exchange;
  const cel_place_in *place = instr->collective.place;
  const cel_parts *parts = x->parts;
  bool part = rank != x->root && cel_pattern_is_by_parts(x->pattern);
  cel_strided runs = {0};
  if (place->allocation != NULL) runs = runs_of(place);
  bool dense = runs.count[0] == 1 && runs.count[1] == 1;
  cel_vec_clear(&record->pieces);
  if (part || parts == NULL || (dense && parts->box == NULL))
    cel_vec_push(&record->pieces, runs);
  else
    for (int64_t k = 0; k < parts->ranks; ++k)
      cel_vec_push(&record->pieces, part_of(instr, k));
}

/* Parts of a box in an allocation; of an empty one, of nothing. */
static cel_collective_parts parts_in(const cel_place_in *place,
                                     const cel_box *box, const cel_parts *parts,
                                     uint64_t size) {
  cel_collective_parts out = {.parts = parts};
  uint64_t step = size;
  bool none = cel_box_is_empty(box);
  if (!none) out.base = place->allocation->address;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    out.stride[d] = step;
    if (none) continue;
    const cel_box *layout = &place->allocation->layout;
    out.extent[d] = (uint64_t)(box->max[d] - box->min[d]);
    out.base =
        (char *)out.base + (uint64_t)(box->min[d] - layout->min[d]) * step;
    step *= (uint64_t)(layout->max[d] - layout->min[d]);
  }
  return out;
}

/* One side of each of a list: what goes to others, or comes from them; of a
 * whole both are one. */
static void push_parts(cel_record *record, const cel_instr *instr, bool to) {
  const cel_place_in *place = instr->collective.place;
  const cel_exchange *x = instr->collective.exchange;
  for (; x != NULL; x = x->next, ++place) {
    bool pairs = x->to != NULL;
    const cel_box *box = !pairs ? &x->box : to ? &x->mine : &x->wanted;
    const cel_parts *parts = !pairs ? x->parts : to ? x->to : x->from;
    cel_vec_push(&record->parts,
                 parts_in(place, box, parts, x->buffer->element_size));
  }
}

/* What is packed is counted in bytes. */
static void translate_several(cel_record *record, const cel_instr *instr) {
  const cel_exchange *x = instr->collective.exchange;
  cel_collective *collective = &record->collective;
  cel_vec_clear(&record->parts);
  push_parts(record, instr, true);
  collective->several = record->parts.n;
  if (x->to != NULL) push_parts(record, instr, false);
  collective->each[0] = record->parts.at;
  collective->each[1] =
      record->parts.at + (x->to != NULL ? collective->several : 0);
  collective->to = collective->from =
      (cel_collective_parts){.stride = {1, 1, 1}};
  collective->to.parts = x->sum[0];
  collective->from.parts = x->sum[1];
  collective->unit = 1;
  if (x->sum[0] == NULL) return;
  collective->count = x->sum[0]->count;
  collective->start = x->sum[0]->start;
}

void cel_translate_collective(cel_record *record, const cel_instr *instr,
                              int64_t rank) {
  const cel_exchange *x = instr->collective.exchange;
  const cel_place_in *place = instr->collective.place;
  const cel_parts *parts = x->parts;
  uint64_t size = x->buffer->element_size;
  bool pairs = x->to != NULL;
  record->collective =
      (cel_collective){.ticket = instr->id,
                       .nth = x->nth,
                       .pattern = pairs ? CEL_PATTERN_ALL_TO_ALL : x->pattern,
                       .root = x->root,
                       .wide = x->wide,
                       .bytes = cel_exchange_bytes(x),
                       .unit = parts != NULL ? (uint64_t)parts->unit * size : 0,
                       .count = parts != NULL ? parts->count : NULL,
                       .start = parts != NULL ? parts->start : NULL,
                       .by = x->by};
  if (x->next != NULL) {
    translate_several(record, instr);
    return;
  }
  if (pairs) {
    record->collective.to = parts_in(place, &x->mine, x->to, size);
    record->collective.from = parts_in(place, &x->wanted, x->from, size);
    return;
  }
  find_pieces(record, instr, rank);
  record->collective.pieces = record->pieces.n;
  record->collective.piece = record->pieces.at;
}

/* ---- between devices ----------------------------------------------------- */

/* Whether member `me` gives or gets the part of `other`. */
static bool concerns(const cel_exchange *x, int64_t me, int64_t other) {
  return x->pattern == CEL_PATTERN_ALL_GATHER || me == other ||
         me == cel_member_root(x);
}

/* Whether a part is what follows another along the dimension that the whole is
 * cut along; parts that lie elsewhere are packed, and then in any order. */
static bool follows(const cel_exchange *x, const cel_box *part,
                    const cel_box *next) {
  int d = x->parts->along;
  return x->parts->box != NULL || next->min[d] == part->max[d];
}

static void find_members(cel_record *record, const cel_instr *instr, int64_t me,
                         int64_t members) {
  const cel_exchange *x = instr->collective.exchange;
  cel_place_in at = *instr->collective.place;
  bool even = true;
  for (int64_t m = 0; m < members; ++m) {
    cel_box before = at.box;
    at.box = cel_member_share(x, m);
    int64_t n = cel_box_volume(&at.box);
    if (m > 0)
      even &= n == cel_box_volume(&before) && follows(x, &before, &at.box);
    bool here = n > 0 && concerns(x, me, m);
    cel_vec_push(&record->pieces, here ? runs_of(&at) : (cel_strided){0});
  }
  record->device_collective.even = even;
}

static cel_strided runs_in(const cel_instr *instr, cel_box box) {
  cel_place_in at = {instr->collective.place->allocation, box};
  return cel_box_is_empty(&box) ? (cel_strided){0} : runs_of(&at);
}

/* What it gives to each member, then what it gets from each. */
static void find_pairs(cel_record *record, const cel_instr *instr,
                       int64_t members) {
  const cel_exchange *x = instr->collective.exchange;
  for (int64_t m = 0; m < members; ++m)
    cel_vec_push(&record->pieces,
                 runs_in(instr, cel_member_gives(x, instr->device, m)));
  for (int64_t m = 0; m < members; ++m)
    cel_vec_push(&record->pieces,
                 runs_in(instr, cel_member_gets(x, instr->device, m)));
}

void cel_translate_device_collective(cel_record *record, const cel_instr *instr,
                                     int64_t rank, int64_t ranks) {
  const cel_exchange *x = instr->collective.exchange;
  int64_t members = ranks * x->devices;
  bool pairs = x->to != NULL;
  cel_member side;
  cel_member_side(x, rank, instr->device, &side);
  cel_vec_clear(&record->pieces);
  record->device_collective = (cel_device_collective){
      .ticket = instr->id,
      .nth = x->nth,
      .pattern = pairs ? CEL_PATTERN_ALL_TO_ALL : x->pattern,
      .device = instr->device,
      .root = cel_member_root(x),
      .by = x->by,
      .zero = cel_box_is_empty(&side.mine),
      .bytes = (uint64_t)cel_box_volume(&x->box) * x->buffer->element_size};
  if (pairs)
    find_pairs(record, instr, members);
  else if (x->parts == NULL)
    cel_vec_push(&record->pieces, runs_of(instr->collective.place));
  else
    find_members(record, instr, rank * x->devices + instr->device, members);
  record->device_collective.pieces =
      pairs ? (uint32_t)members : record->pieces.n;
  record->device_collective.piece = record->pieces.at;
  if (pairs) record->device_collective.from = record->pieces.at + members;
}
