#include "exec/folding.h"

#include "device/kernel.h"
#include "fold/fold.h"
#include "tuning.h"

/* What a record has beside the job. Elements are pointed to, so there is room
 * for all before the first is made. */
typedef struct cel_folding {
  struct cel_folding *next; /* while free */
  CEL_VEC(cel_fold_call) calls;
  CEL_VEC(cel_sample) samples;    /* of each call */
  CEL_VEC(cel_view) views;        /* of all calls */
  CEL_VEC(cel_fold_view) uses;    /* likewise */
  CEL_VEC(cel_allocation *) lies; /* likewise; null: nowhere */
  CEL_VEC(bool) anywhere;         /* likewise: read, and not around items */
  CEL_VEC(cel_fold_array) arrays; /* of all parts */
  CEL_VEC(cel_allocation *) made; /* what those are */
  CEL_VEC(cel_fold_copy) copies;
  CEL_VEC(cel_fold_job) parts;
  CEL_VEC(cel_allocation *) held; /* whose spare memory the job uses */
} cel_folding;

static void destroy(cel_folding *f) {
  cel_vec_release(&f->calls);
  cel_vec_release(&f->samples);
  cel_vec_release(&f->views);
  cel_vec_release(&f->uses);
  cel_vec_release(&f->lies);
  cel_vec_release(&f->anywhere);
  cel_vec_release(&f->arrays);
  cel_vec_release(&f->made);
  cel_vec_release(&f->copies);
  cel_vec_release(&f->parts);
  cel_vec_release(&f->held);
  cel_free(f);
}

void cel_foldings_release(cel_foldings *all) {
  while (all->free != NULL) {
    cel_folding *f = all->free;
    all->free = f->next;
    destroy(f);
  }
}

static cel_folding *take(cel_foldings *all) {
  cel_folding *f = all->free;
  if (f == NULL) return cel_alloc_zero(sizeof *f);
  all->free = f->next;
  return f;
}

/* ---- steps --------------------------------------------------------------- */

static void make_room(cel_folding *f, const cel_instr_fold *fold) {
  uint32_t views = 0, steps = (uint32_t)fold->steps;
  for (int32_t s = 0; s < fold->steps; ++s)
    views += fold->step[s].task->accesses;
  cel_vec_clear(&f->calls);
  cel_vec_clear(&f->samples);
  cel_vec_clear(&f->views);
  cel_vec_clear(&f->uses);
  cel_vec_clear(&f->lies);
  cel_vec_clear(&f->anywhere);
  cel_vec_clear(&f->arrays);
  cel_vec_clear(&f->made);
  cel_vec_clear(&f->copies);
  cel_vec_clear(&f->parts);
  cel_vec_clear(&f->held);
  cel_vec_reserve(&f->calls, steps);
  cel_vec_reserve(&f->samples, steps);
  cel_vec_reserve(&f->views, views);
  cel_vec_reserve(&f->uses, views);
  cel_vec_reserve(&f->arrays, views);
  cel_vec_reserve(&f->copies, steps * fold->kept);
  cel_vec_reserve(&f->parts, steps);
}

/* Where views lie is filled in part by part. */
static void add_step(cel_folding *f, const cel_instr_step *step, int64_t rank,
                     int64_t ranks, int32_t device) {
  const cel_task *task = step->task;
  cel_fold_call call = {.work = task->work,
                        .call = {.chunk = step->chunk,
                                 .range = task->range,
                                 .rank = (int32_t)rank,
                                 .ranks = (int32_t)ranks,
                                 .views = (int32_t)task->accesses,
                                 .view = f->views.at + f->views.n,
                                 .values = task->work->values,
                                 .device = device},
                        .use = f->uses.at + f->uses.n,
                        .name = task->name,
                        .location = task->location};
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_place_in *in = &step->view[i];
    cel_fold_view use;
    bool known = cel_translate_use(&task->access[i], &use);
    cel_assert(known);
    (void)known;
    cel_vec_push(&f->views, (cel_view){.box = in->box});
    cel_vec_push(&f->uses, use);
    cel_vec_push(&f->lies, in->allocation);
    cel_vec_push(&f->anywhere, use.array < 0);
  }
  cel_sample sample = {.task = task};
  cel_box_intersect(&step->chunk, &task->range, &sample.chunk);
  cel_vec_push(&f->samples, sample);
  if (task->work->samples && !cel_box_is_empty(&step->chunk))
    call.call.sample = &cel_vec_last(&f->samples);
  cel_vec_push(&f->calls, call);
}

/* ---- parts --------------------------------------------------------------- */

typedef struct planning {
  cel_folding *f;
  const cel_task *task; /* the fold's */
  const cel_instr_fold *fold;
  cel_backend *backend;
  cel_reserved_list *reserved;
  int32_t device;
} planning;

static uint32_t first_view(const cel_folding *f, int32_t s) {
  return (uint32_t)(f->calls.at[s].call.view - f->views.at);
}

static uint32_t end_view(const cel_folding *f, int32_t s) {
  return first_view(f, s) + (uint32_t)f->calls.at[s].call.views;
}

static bool is_written(const cel_folding *f, uint32_t from, uint32_t to,
                       const cel_allocation *in) {
  for (uint32_t i = from; i < to; ++i)
    if (f->uses.at[i].writes && !f->anywhere.at[i] && f->lies.at[i] == in)
      return true;
  return false;
}

/* The array of the part whose arrays begin at `first`; made when first seen. */
static int32_t array_of(cel_folding *f, uint32_t first, uint32_t view) {
  cel_allocation *in = f->lies.at[view];
  uint32_t a = first;
  while (a < f->made.n && f->made.at[a] != in) ++a;
  if (a == f->made.n) {
    cel_vec_push(&f->made, in);
    cel_vec_push(&f->arrays,
                 ((cel_fold_array){.dims = in->buffer->dims,
                                   .element_size = in->buffer->element_size,
                                   .memory = {in->address, in->layout}}));
  }
  return (int32_t)(a - first);
}

/* Whether a later step, or what comes behind the fold, may read what steps
 * before `end` leave there. Who overwrites it does so wherever later steps
 * read. */
static bool is_live(const planning *p, int32_t end, const cel_allocation *in) {
  const cel_folding *f = p->f;
  for (int32_t s = end; s < p->fold->steps; ++s) {
    bool touched = false;
    for (uint32_t i = first_view(f, s); i < end_view(f, s); ++i) {
      if (f->lies.at[i] != in) continue;
      if (!f->uses.at[i].writes || f->uses.at[i].keeps) return true;
      touched = true;
    }
    if (touched) return false;
  }
  return !cel_fold_is_unread(p->task, in->buffer);
}

/* Where a step's views lie; their arrays are not known yet. */
static void lay_views(const planning *p, int32_t s) {
  cel_folding *f = p->f;
  const cel_work *work = f->calls.at[s].work;
  const uint32_t first = first_view(f, s);
  for (uint32_t i = first; i < end_view(f, s); ++i) {
    const cel_allocation *in = f->lies.at[i];
    f->uses.at[i].array = -1;
    f->views.at[i].base = in != NULL ? in->address : NULL;
    if (in != NULL) f->views.at[i].layout = in->layout;
  }
  for (int32_t r = 0; r < work->reducers; ++r) {
    const int32_t k = work->reducer[r].view;
    f->views.at[first + (uint32_t)k].box = p->fold->step[s].view[k].box;
    cel_translate_row(&f->views.at[first + (uint32_t)k], &work->reducer[r]);
  }
}

/* A part of the steps [s, s + n). False: one of them reads anywhere what one of
 * them writes, or there are too many views. */
static bool make_part(const planning *p, int32_t s, int32_t n, uint32_t first,
                      cel_fold_job *out) {
  cel_folding *f = p->f;
  uint32_t from = first_view(f, s), to = end_view(f, s + n - 1);
  bool fine = true;
  f->arrays.n = f->made.n = first;
  for (int32_t i = s; i < s + n; ++i) lay_views(p, i);
  for (uint32_t i = from; i < to; ++i) {
    const cel_allocation *in = f->lies.at[i];
    if (in == NULL || !is_written(f, from, to, in)) continue;
    fine = fine && !f->anywhere.at[i];
    f->uses.at[i].array = array_of(f, first, i);
  }
  for (uint32_t a = first; a < f->arrays.n; ++a)
    f->arrays.at[a].live = is_live(p, s + n, f->made.at[a]);
  for (int32_t i = s; i < s + n; ++i)
    fine = fine && f->calls.at[i].call.views <= CEL_FOLD_VIEWS;
  *out = (cel_fold_job){.steps = n,
                        .step = f->calls.at + s,
                        .arrays = (int32_t)(f->arrays.n - first),
                        .array = f->arrays.at + first};
  return fine && out->arrays <= CEL_FOLD_ARRAYS;
}

/* Steps from `s` on that are not looked at item by item, at least one. */
static int32_t steps_from(const cel_folding *f, int32_t s) {
  int32_t n = 1, most = (int32_t)f->calls.n - s;
  if (f->calls.at[s].call.sample != NULL) return 1;
  while (n < most && f->calls.at[s + n].call.sample == NULL) ++n;
  return n;
}

/* To the range; but to what goes on at other ends of it where the call does not
 * compute all. */
static void clip(const cel_task *fold, const cel_call *call, cel_box *box) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    const int64_t min = call->range.min[d], max = call->range.max[d];
    if (fold->folded->wraps[d] &&
        (call->chunk.min[d] > min || call->chunk.max[d] < max))
      continue;
    if (box->min[d] < min) box->min[d] = min;
    if (box->max[d] > max) box->max[d] = max;
  }
}

/* Whether later steps find all that they read where the part leaves it, which
 * is within its last chunk. */
static bool leaves_enough(const planning *p, int32_t end,
                          const cel_fold_job *part) {
  const cel_folding *f = p->f;
  const cel_fold_call *last = &part->step[part->steps - 1];
  const cel_allocation *const *made =
      (const cel_allocation *const *)f->made.at + (part->array - f->arrays.at);
  for (int32_t s = end; s < p->fold->steps; ++s)
    for (uint32_t i = first_view(f, s); i < end_view(f, s); ++i) {
      cel_box within = f->views.at[i].box;
      int32_t a = 0;
      while (a < part->arrays && made[a] != f->lies.at[i]) ++a;
      clip(p->task, &last->call, &within);
      if (a < part->arrays && !cel_box_covers(&last->call.chunk, &within))
        return false;
    }
  return true;
}

/* Adds what has to be copied to spare memory; false where that is too much. */
static bool add_copies(const planning *p, cel_fold_job *part) {
  cel_folding *f = p->f;
  uint32_t begin = f->copies.n;
  uint64_t bytes = 0, most = 0;
  const uint32_t first = (uint32_t)(part->array - f->arrays.at);
  const cel_box *chunk = &part->step[part->steps - 1].call.chunk;
  for (int32_t a = 0; a < part->arrays; ++a) {
    uint64_t size = part->array[a].element_size;
    if (!cel_fold_needs_spare(part, a)) continue;
    most += (uint64_t)cel_box_volume(chunk) * size / CEL_TUNE_FOLD_KEPT_SHARE;
    for (uint32_t k = 0; k < p->fold->kept; ++k) {
      const cel_place_in *kept = &p->fold->keeps[k];
      if (kept->allocation != f->made.at[first + (uint32_t)a]) continue;
      cel_vec_push(&f->copies, (cel_fold_copy){a, kept->box});
      bytes += (uint64_t)cel_box_volume(&kept->box) * size;
    }
  }
  part->copies = f->copies.n - begin;
  part->copy = f->copies.at + begin;
  if (bytes <= most || bytes <= CEL_TUNE_FOLD_KEPT_BYTES) return true;
  f->copies.n = begin;
  part->copies = 0;
  return false;
}

static bool take_spares(const planning *p, const cel_fold_job *part) {
  const uint32_t first = (uint32_t)(part->array - p->f->arrays.at);
  for (int32_t a = 0; a < part->arrays; ++a) {
    if (!cel_fold_needs_spare(part, a)) continue;
    void *spare = cel_reserved_spare(p->reserved, p->backend,
                                     p->f->made.at[first + (uint32_t)a]);
    if (spare == NULL) return false;
    p->f->arrays.at[first + (uint32_t)a].spare = spare;
  }
  return true;
}

/* What was spare is the allocations' from now on. */
static void swap_spares(const planning *p, const cel_fold_job *part) {
  cel_folding *f = p->f;
  const uint32_t first = (uint32_t)(part->array - f->arrays.at);
  for (int32_t a = 0; a < part->arrays; ++a) {
    cel_allocation *in = f->made.at[first + (uint32_t)a];
    if (part->array[a].spare == NULL) continue;
    cel_reserved_swap(p->reserved, in);
    uint32_t h = 0;
    while (h < f->held.n && f->held.at[h] != in) ++h;
    if (h < f->held.n) continue;
    cel_vec_push(&f->held, in);
    cel_reserved_hold(p->reserved, in, true);
  }
}

static void drop_spares(cel_folding *f, uint32_t first) {
  for (uint32_t a = first; a < f->arrays.n; ++a) f->arrays.at[a].spare = NULL;
}

/* Around what lies within their memory. */
static void place_views(cel_folding *f, int32_t s, int32_t n) {
  for (uint32_t i = first_view(f, s); i < end_view(f, s + n - 1); ++i) {
    cel_view *view = &f->views.at[i];
    cel_box part[CEL_BOX_PARTS], hull = {{0}, {0}};
    int32_t parts = f->lies.at[i] == NULL
                        ? 0
                        : cel_box_on_ring(&view->box, &view->layout, part);
    while (parts-- > 0) hull = cel_box_hull(&hull, &part[parts]);
    if (f->lies.at[i] != NULL) view->box = hull;
  }
}

/* As many steps from `s` on as the device takes in one manner. */
static cel_fold_job plan_part(const planning *p, int32_t s) {
  cel_folding *f = p->f;
  cel_fold_job part;
  const uint32_t first = f->arrays.n;
  bool stands_in = f->parts.n > 0 && cel_vec_last(&f->parts).stands_in;
  int32_t n = steps_from(f, s);
  bool may = make_part(p, s, n, first, &part) && n > 1;
  while (may) {
    part.stands_in = stands_in;
    part.manner = p->backend->folds(p->backend, p->device, &part);
    cel_assert(part.steps >= 1 && part.steps <= n);
    if (part.steps == n) break;
    stands_in = part.stands_in;
    n = part.steps;
    may = make_part(p, s, n, first, &part) && n > 1;
  }
  if (part.manner == CEL_FOLD_TO_SPARE &&
      !(leaves_enough(p, s + n, &part) && take_spares(p, &part) &&
        add_copies(p, &part)))
    part.manner = CEL_FOLD_PLAIN;
  if (part.manner != CEL_FOLD_TO_SPARE) place_views(f, s, n);
  cel_module_hold_fused(part.fused, true);
  if (part.manner == CEL_FOLD_TO_SPARE)
    swap_spares(p, &part);
  else
    drop_spares(f, first);
  return part;
}

void cel_folding_begin(cel_foldings *all, cel_record *record,
                       const cel_instr *instr, cel_backend *backend,
                       cel_reserved_list *reserved, int64_t rank,
                       int64_t ranks) {
  const cel_instr_fold *fold = instr->run.fold;
  cel_folding *f = record->folding = take(all);
  const planning p = {.f = f,
                      .task = instr->task,
                      .fold = fold,
                      .backend = backend,
                      .reserved = reserved,
                      .device = instr->device};
  make_room(f, fold);
  for (int32_t s = 0; s < fold->steps; ++s)
    add_step(f, &fold->step[s], rank, ranks, instr->device);
  for (int32_t s = 0; s < fold->steps; s += cel_vec_last(&f->parts).steps) {
    cel_fold_job part = plan_part(&p, s);
    if (f->parts.n > 0) cel_vec_last(&f->parts).next = f->parts.at + f->parts.n;
    cel_vec_push(&f->parts, part);
  }
  record->job = (cel_job){.ticket = instr->id,
                          .kind = CEL_JOB_FOLD,
                          .fold = f->parts.at,
                          .name = instr->task->name,
                          .location = instr->task->location};
}

void cel_folding_end(cel_foldings *all, cel_record *record,
                     cel_reserved_list *reserved) {
  cel_folding *f = record->folding;
  for (uint32_t i = 0; i < f->held.n && reserved != NULL; ++i)
    cel_reserved_hold(reserved, f->held.at[i], false);
  for (uint32_t i = 0; i < f->parts.n && reserved != NULL; ++i)
    cel_module_hold_fused(f->parts.at[i].fused, false);
  cel_vec_clear(&f->held);
  f->next = all->free;
  all->free = f;
  record->folding = NULL;
}
