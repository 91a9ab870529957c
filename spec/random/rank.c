/* One rank's side of a run: it turns steps into records of the engine, and
 * compares what fences bring back. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "command/command_graph.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_copy.h"
#include "device/fold.h"
#include "embed/embedded.h"
#include "random/program.h"
#include "runtime/internal.h"

/* ---- kernels ------------------------------------------------------------ */

typedef struct kernel {
  cel_work work;
  cel_reducer reducer[MOST_ACCESSES];
  const program *program;
  const step *step;
} kernel;

static bool holds(const cel_box *chunk, const cel_box *atom) {
  for (int d = 0; d < 3; ++d)
    if (atom->min[d] < chunk->min[d] || atom->min[d] >= chunk->max[d])
      return false;
  return true;
}

/* Whether it is made of whole work groups. */
static bool whole_groups(const cel_work *work, const cel_call *call) {
  for (int d = 0; d < 3; ++d) {
    int64_t lo = call->chunk.min[d], hi = call->chunk.max[d],
            g = work->work_group[d];
    if (g > 1 && ((lo - call->range.min[d]) % g != 0 || (hi - lo) % g != 0))
      return false;
  }
  return true;
}

/* What the ranks tell each other, all of it together; a task fails on one rank
 * while the others wait for it. */
static cel_status hear(const kernel *k, const cel_call *call,
                       const place *places, uint64_t *out) {
  const step *s = k->step;
  uint64_t said[MOST_RANKS];
  *out = 0;
  if (s->collective == 0) return CEL_E_OK;
  if (call->comm == NULL || call->comm->ranks != k->program->ranks)
    return cel_fail(CEL_E_TASK, "no communicator of all ranks");
  uint64_t mine = atom_tells(k->program, s, &call->chunk, places);
  CEL_TRY(cel_comm_gather(call->comm, &mine, sizeof mine, said, CEL_COMM_ALL));
  for (int i = 0; i < k->program->ranks; ++i) *out += said[i];
  return CEL_E_OK;
}

static bool fails(const kernel *k, const cel_call *call) {
  const step *s = k->step;
  int odd = (int)(s->salt % (uint64_t)k->program->ranks);
  return s->number == k->program->failing_step &&
         (s->collective == 0 || call->rank == odd);
}

/* What a reducing access is given is a row, which has begun, or holds what
 * items before came to. */
static cel_status check_row(const cel_view *v, const cel_reducer *reducer) {
  const char *at = v->base;
  if (!cel_box_equal(&v->box, &reducer->extent) ||
      !cel_box_equal(&v->layout, &reducer->extent))
    return cel_fail(CEL_E_TASK, "not a row to reduce into");
  for (int64_t i = v->holds ? 0 : cel_box_volume(&v->box); i > 0; --i) {
    if (memcmp(at, reducer->identity, reducer->element_size) != 0)
      return cel_fail(CEL_E_TASK, "a row to reduce into has not begun");
    at += reducer->element_size;
  }
  return CEL_E_OK;
}

/* Whoever has an atom's first point computes the atom. */
static cel_status run_atoms(const kernel *k, const cel_call *call) {
  const step *s = k->step;
  place places[MOST_ACCESSES];
  uint64_t others;
  for (int i = 0; i < s->accesses; ++i)
    places[i] =
        (place){call->view[i].base, call->view[i].layout, call->view[i].box,
                call->view[i].touched, reduces(&s->access[i])};
  for (int i = 0; i < k->work.reducers; ++i)
    CEL_TRY(check_row(&call->view[k->reducer[i].view], &k->reducer[i]));
  CEL_TRY(hear(k, call, places, &others));
  for (int i = 0; i < atom_count(s); ++i) {
    cel_box atom = atom_at(s, i);
    if (holds(&call->chunk, &atom) &&
        !atom_run(k->program, s, &atom, places, others))
      return cel_fail(CEL_E_TASK,
                      "step %d is not given all that it was promised",
                      s->number);
  }
  return CEL_E_OK;
}

static cel_status run_kernel(const cel_work *work, const cel_call *call) {
  const kernel *k = (const kernel *)work;
  const step *s = k->step;
  difference odd = k->program->odd.what;
  if (odd != DIFFERS_NOT_AT_ALL &&
      (odd != DIFFERS_BY_A_GROUP || s->data != DATA_NOT))
    return CEL_E_OK; /* nobody could say what data are right */
  if (fails(k, call)) return cel_fail(CEL_E_TASK, "planted");
  if (call->views != s->accesses)
    return cel_fail(CEL_E_TASK, "%d views, not %d", call->views, s->accesses);
  if (!whole_groups(work, call))
    return cel_fail(CEL_E_TASK, "a work group was cut");
  if (!objects_enter(k->program, s, call))
    return cel_fail(CEL_E_TASK, "%d effects, not %d", call->effects,
                    s->effects);
  cel_status status = s->data >= DATA_FIND ? data_call(k->program, s, call)
                                           : run_atoms(k, call);
  objects_leave(k->program, s, call, status == CEL_E_OK);
  return status;
}

static void destroy_kernel(cel_work *work) {
  cel_free(work);
}

/* Items that stay together are a work group, where the range is made of
 * such. */
static int32_t group_of(const step *s, int d) {
  int64_t g = s->permitted.granularity[d];
  return (s->range.max[d] - s->range.min[d]) % g == 0 ? (int32_t)g : 1;
}

static cel_work *make_kernel(const rank *r, const step *s) {
  const program *p = r->program;
  kernel *k = cel_alloc_zero(sizeof *k);
  *k = (kernel){.work = {.references = 1,
                         .fn = run_kernel,
                         .destroy = destroy_kernel,
                         .hash = s->salt,
                         .marks = r->audit != NULL,
                         .waits = step_waits(s),
                         .alike = step_alike(s),
                         .objects = s->effects > 0 && (s->salt & 1) != 0},
                .program = p,
                .step = s};
  for (int i = 0; i < s->accesses; ++i) {
    const access *a = &s->access[i];
    if (!reduces(a)) continue;
    cel_reducer *to = &k->reducer[k->work.reducers++];
    const buffer *b = buffer_on(p, r->index, a->buffer);
    *to = *reduce_reducer(a->reduce, b->element_size);
    to->view = i;
    to->extent = b->extent;
  }
  k->work.reducer = k->reducer;
  if (s->task == CEL_TASK_KERNEL && s->placement == CEL_PLACE_SPLIT &&
      s->chain == 0)
    for (int d = 0; d < 3; ++d) k->work.work_group[d] = group_of(s, d);
  return &k->work;
}

/* ---- buffers ------------------------------------------------------------ */

typedef struct contents {
  cel_init init;
  int buffer;
  uint32_t size;
} contents;

typedef struct filling {
  const contents *contents;
  const cel_box *box;
  char *out;
} filling;

static void fill_point(void *context, const int64_t *point) {
  filling *at = context;
  uint32_t size = at->contents->size;
  initial_bytes(at->contents->buffer, point,
                at->out + index_of(at->box, point) * size, size);
}

static cel_status fill(const cel_init *init, const cel_box *box, void *out) {
  filling at = {(const contents *)init, box, out};
  each_point(box, 1, fill_point, &at);
  return CEL_E_OK;
}

static void destroy_init(cel_init *init) {
  cel_free(init);
}

bool buffer_room(const buffer *what, cel_box *out) {
  int64_t which = (what->extent.max[0] + what->extent.max[1]) % 4;
  *out = what->extent;
  for (int d = 1; d < what->dims && which == 1; ++d)
    out->max[d] = (out->max[d] + 1) / 2;
  return which <= 1;
}

static const cel_buffer *buffer_of(rank *r, int b) {
  if (r->buffer[b] != NULL) return r->buffer[b];
  const buffer *what = buffer_on(r->program, r->index, b);
  contents *init = NULL;
  if (what->init) {
    init = cel_alloc_zero(sizeof *init);
    *init = (contents){
        {.fill = fill, .destroy = destroy_init, .hash = 1 + what->contents},
        b,
        what->element_size};
  }
  char name[8];
  snprintf(name, sizeof name, "b%d", b);
  r->buffer[b] = cel_engine_buffer(r->engine, what->dims, what->extent.max,
                                   what->element_size, what->type, name,
                                   init ? &init->init : NULL, what->apart);
  cel_box room;
  if (buffer_room(what, &room))
    cel_engine_buffer_reserve(r->engine, r->buffer[b], &room);
  return r->buffer[b];
}

/* ---- submission --------------------------------------------------------- */

static cel_location place_of(const step *s) {
  return (cel_location){.file = "program", .line = s->number};
}

/* What is read of an image's copy is late: what the plan says of it is asked
 * for when ranks have met. */
static void make_late(const rank *r, const step *s, cel_access *out, int copy) {
  const program *p = r->program;
  for (int i = 0; s->data == DATA_GATHER && i < IMAGES; ++i) {
    if (p->image[i].copy != copy || r->plan[i] == NULL) continue;
    out->late = cel_fence_late(r->plan[i]);
    out->late_at = p->image[i].late;
  }
}

static cel_status ask_for_plan(rank *r, const step *s) {
  const program *p = r->program;
  const cel_buffer *plan;
  if (s->kind != STEP_GROUP || s->data != DATA_MEET) return CEL_E_OK;
  cel_fence **out = &r->plan[s->image];
  if (*out != NULL) cel_fence_destroy(*out);
  *out = NULL;
  if (p->seed / 8 % 4 == 0) return CEL_E_OK; /* all of it is read */
  plan = buffer_of(r, p->image[s->image].plan);
  return cel_engine_fence(r->engine, plan, &plan->extent, place_of(s), out);
}

static cel_status make_accesses(rank *r, const step *s, const cel_group *group,
                                cel_access *out) {
  bool some = false;
  for (int k = 0; k < s->accesses; ++k) some = some || reduces(&s->access[k]);
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    const buffer *b = buffer_on(r->program, r->index, a->buffer);
    const cel_rule *made;
    if (a->rule->opaque)
      made = rule_list(a->rule, group, some, &b->extent, r->engine);
    else
      CEL_TRY(
          cel_rules_intern(cel_engine_rules(r->engine), &a->rule->desc, &made));
    out[k] = (cel_access){.buffer = buffer_of(r, a->buffer),
                          .mode = a->mode,
                          .use = {made, a->rule->param, s->range, b->extent}};
    make_late(r, s, &out[k], a->buffer);
    if (reduces(a)) out[k].reducer = reduce_reducer(a->reduce, b->element_size);
  }
  return CEL_E_OK;
}

static cel_status submit_group(rank *r, const step *s) {
  const program *p = r->program;
  cel_access accesses[MOST_ACCESSES];
  cel_effect effects[MOST_EFFECTS];
  for (int k = 0; k < s->effects; ++k)
    effects[k] =
        (cel_effect){object_of(r, s->effect[k].object), s->effect[k].order};
  cel_weights weights = {
      .rank = s->rank_weights ? s->rank_weight : NULL,
      .device = s->device_weights ? s->device_weight[r->index] : NULL,
      .devices = MOST_DEVICES,
      .hash = cel_hash(s->rank_weight, sizeof s->rank_weight, 0) ^
              cel_hash(s->device_weight, sizeof s->device_weight, 0)};
  cel_home home = {.rank = s->home.rank};
  if (step_placed(s) && s->home.buffer >= 0)
    home =
        (cel_home){.buffer = buffer_of(r, s->home.buffer), .box = s->home.box};
  cel_group group = {.kind = s->task,
                     .home = step_placed(s) ? &home : NULL,
                     .effects = (uint32_t)s->effects,
                     .effect = effects,
                     .placement = s->placement,
                     .collective_group = s->collective,
                     .dims = s->dims,
                     .range = s->range,
                     .permitted = s->permitted,
                     .oversubscribe = s->oversubscribe,
                     .fold = s->chain > 0 ? p->fold : 1,
                     .weights =
                         s->rank_weights || s->device_weights ? &weights : NULL,
                     .location = place_of(s),
                     .known = &r->known};
  CEL_TRY(make_accesses(r, s, &group, accesses));
  group.accesses = (uint32_t)s->accesses;
  group.access = accesses;
  group.work = make_kernel(r, s);
  cel_status status = cel_engine_submit(r->engine, &group);
  cel_work_release(group.work);
  for (int k = 0; k < s->accesses; ++k) cel_rule_release(accesses[k].use.rule);
  if (status == CEL_E_OK) status = ask_for_plan(r, s);
  return status;
}

/* A fence of another part on each rank. */
static cel_status submit_parts(rank *r, const step *s) {
  const rule *made = s->access[0].rule;
  const cel_rule *known;
  CEL_TRY(cel_rules_intern(cel_engine_rules(r->engine), &made->desc, &known));
  cel_status status =
      cel_engine_fence_each(r->engine, buffer_of(r, s->buffer), known,
                            made->param, place_of(s), &r->fence[r->pc]);
  cel_rule_release(known);
  return status;
}

static cel_status submit(rank *r, const step *s) {
  switch (s->kind) {
  case STEP_GROUP:
  case STEP_BAD: return submit_group(r, s);
  case STEP_FENCE:
    if (s->accesses > 0) return submit_parts(r, s);
    return cel_engine_fence(r->engine, buffer_of(r, s->buffer), &s->box,
                            place_of(s), &r->fence[r->pc]);
  case STEP_EPOCH:
    r->epoch = cel_engine_epoch(r->engine, place_of(s));
    return CEL_E_OK;
  case STEP_FREE:
    buffer_of(r, s->buffer); /* all ranks make it now */
    r->late[s->buffer] = true;
    return CEL_E_OK;
  case STEP_LOOK:
    return object_look(r, s->object, s->salt, place_of(s), &r->fence[r->pc]);
  case STEP_END:
    object_of(r, s->object);
    r->late_object[s->object] = true;
    return CEL_E_OK;
  }
  return CEL_E_OK;
}

/* Whether the collector comes to thing `i` now. */
static bool comes(const rank *r, int i) {
  int64_t key[] = {r->index, r->pc, i};
  return cel_hash(key, sizeof key, r->program->seed) % 3 != 0;
}

/* A collector frees a thing some time after its last mention, on each rank at
 * another. */
static void collect(rank *r) {
  for (int o = 0; o < r->program->objects; ++o) {
    if (!r->late_object[o] || !comes(r, -1 - o)) continue;
    r->late_object[o] = false;
    object_end(r, o);
  }
  for (int b = 0; b < r->program->buffers; ++b) {
    if (!r->late[b] || !comes(r, b)) continue;
    r->late[b] = false;
    cel_engine_buffer_free(r->engine, r->buffer[b]);
    r->buffer[b] = NULL;
  }
}

/* Buffers and objects are made when they are first mentioned, and that is not
 * to be where one rank differs. */
static void mention(rank *r, const step *s) {
  for (int k = 0; k < s->effects; ++k) object_of(r, s->effect[k].object);
  for (int k = 0; k < s->accesses; ++k) buffer_of(r, s->access[k].buffer);
  if (step_placed(s) && s->home.buffer >= 0) buffer_of(r, s->home.buffer);
  if (s->kind == STEP_FENCE) buffer_of(r, s->buffer);
  if (s->kind == STEP_LOOK) object_of(r, s->object);
}

/* Whether what such a step has come to before is kept, as the harm is. */
static bool kept(const program *p, const step *s) {
  bool finds = s->data == DATA_FIND || s->data == DATA_MEET;
  if (!(p->harm == HARM_KEPT && finds) &&
      !(p->harm == HARM_STALE && s->data == DATA_BRING))
    return false;
  for (int i = 0; i < s->number; ++i)
    if (p->step[i]->data == s->data && p->step[i]->image == s->image)
      return true;
  return false;
}

bool rank_submit(rank *r, char *text, size_t size) {
  const step *s = step_on(r->program, r->index, r->pc);
  collect(r);
  if (s == NULL || s->dropped || kept(r->program, s)) return true;
  if (s == r->program->odd.instead) mention(r, r->program->step[r->pc]);
  if (r->record != NULL) record_step(r->record, r->pc);
  cel_status status = submit(r, s);
  if (status == s->code) return true;
  snprintf(text, size, "mismatch: step %d is answered by %s, not %s: %.1500s",
           s->number, cel_status_name(status), cel_status_name(s->code),
           status == CEL_E_OK ? "" : cel_error_last()->text);
  return false;
}

/* ---- verification ------------------------------------------------------- */

typedef struct comparison {
  const step *s;
  cel_box box;
  const buffer *b;
  const char *data;
  const uint8_t *expect; /* on this rank */
  bool wrong;
  int64_t point[3];
} comparison;

static void compare(void *context, const int64_t *point) {
  comparison *at = context;
  int64_t i = index_of(&at->b->extent, point);
  if (at->wrong || at->s->known[i] == 0) return;
  uint32_t size = at->b->element_size;
  if (memcmp(at->data + index_of(&at->box, point) * size, at->expect + i * size,
             size) == 0)
    return;
  at->wrong = true;
  memcpy(at->point, point, sizeof at->point);
}

static bool verify_fence(const rank *r, int i, char *text, size_t size) {
  const step *s = r->program->step[i];
  const void *data;
  uint64_t bytes;
  if (cel_engine_fence_get(r->engine, r->fence[i], NULL, &data, &bytes) !=
      CEL_E_OK) {
    snprintf(text, size, "mismatch: fence of step %d: %.1500s", s->number,
             cel_error_last()->text);
    return false;
  }
  comparison at = {.s = s,
                   .box = fence_box(r->program, s, r->index),
                   .b = &r->program->buffer[s->buffer],
                   .data = data};
  at.expect = (const uint8_t *)bytes_of_rank(r->program, s->buffer,
                                             (char *)s->expect, r->index);
  if (!cel_box_equal(&at.box, cel_fence_box(r->fence[i]))) {
    snprintf(text, size,
             "mismatch: the fence of step %d on rank %d brings "
             "another box",
             s->number, r->index);
    return false;
  }
  each_point(&at.box, 1, compare, &at);
  if (at.wrong)
    snprintf(text, size,
             "mismatch: the fence of step %d on rank %d has wrong contents of "
             "b%d at (%lld, %lld, %lld)",
             s->number, r->index, s->buffer, (long long)at.point[0],
             (long long)at.point[1], (long long)at.point[2]);
  return !at.wrong;
}

bool rank_verify_fence(const rank *r, int i, char *text, size_t size) {
  bool looks = r->program->step[i]->kind == STEP_LOOK;
  return (looks ? object_seen : verify_fence)(r, i, text, size);
}

bool rank_verify(const rank *r, char *text, size_t size) {
  if (!audit_clean(r, text, size)) return false;
  for (int i = 0; i < r->program->steps; ++i)
    if (r->fence[i] != NULL && !rank_verify_fence(r, i, text, size))
      return false;
  return objects_verify(r, text, size);
}

/* ---- planted trouble ---------------------------------------------------- */

bool rank_troubled(const rank *r, char *text, size_t size) {
  const program *p = r->program;
  char place[32];
  bool odd = p->odd.what != DIFFERS_NOT_AT_ALL;
  int number = odd ? p->odd.step : p->failing_step;
  snprintf(place, sizeof place, "program:%d", number);
  cel_status status = cel_engine_check(r->engine);
  const cel_error *error = cel_error_last();
  const char *said = status == CEL_E_OK ? "" : error->text;
  if (odd && status == CEL_E_DIVERGED && strstr(said, place) != NULL)
    return true;
  if (p->failing_step >= 0 &&
      (status == CEL_E_TASK || status == CEL_E_CANCELLED) &&
      error->line == number && strstr(said, "planted") != NULL)
    return true;
  snprintf(text, size,
           "mismatch: rank %d does not tell of the trouble at %s, but %s: "
           "%.1500s",
           r->index, place, cel_status_name(status), said);
  return false;
}

/* ---- life --------------------------------------------------------------- */

static void must(cel_status status) {
  if (status != CEL_E_OK) cel_bug("no backend: %s", cel_error_last()->text);
}

/* As many devices as the program asks for, however few GPUs there are; in every
 * other program all copies of several rows go by the kernel. */
void rank_open_gpus(rank *r) {
  char why[256];
  int32_t n = cel_cuda_count(why, sizeof why), ordinal[CEL_DEVICES];
  if (n == 0) cel_bug("no GPU: %s", why);
  for (int d = 0; d < r->program->devices; ++d) ordinal[d] = (r->index + d) % n;
  must(cel_cuda_open(ordinal, r->program->devices, &r->cuda));
  if (r->program->seed % 2 == 0) return;
  must(cel_cuda_pack_load(r->cuda,
                          cel_embedded_find("kernels/strided.cuh")->data));
  r->cuda->pack_rows = 1;
}

/* ---- jobs on their way to devices ------------------------------------------
 */

static void (*submit_truly)(cel_backend *b, int32_t device, int32_t lane,
                            cel_job *job);
static harm submit_harm;
static uint64_t carried_out[CEL_FOLD_TO_SPARE + 1], kept_boxes, unread,
    reducing, rounds, turning;

void rank_print_folds(void) {
  printf("parts of folds: %llu plain, %llu in place, %llu to spare memory, "
         "%llu boxes kept, %llu arrays unread, %llu end by reducing\n"
         "folds in one around ends: %llu, to spare memory at the other end: "
         "%llu\n",
         (unsigned long long)carried_out[CEL_FOLD_PLAIN],
         (unsigned long long)carried_out[CEL_FOLD_IN_PLACE],
         (unsigned long long)carried_out[CEL_FOLD_TO_SPARE],
         (unsigned long long)kept_boxes, (unsigned long long)unread,
         (unsigned long long)reducing, (unsigned long long)rounds,
         (unsigned long long)turning);
}

static bool goes_round(const cel_fold_job *fold) {
  for (int32_t s = 0; s < fold->steps; ++s)
    for (int32_t k = 0; k < fold->step[s].call.views; ++k)
      for (int d = 0; d < CEL_DIMS; ++d)
        if (fold->step[s].use[k].wraps[d]) return true;
  return false;
}

static void bring_near(const cel_fold_view *uses, int32_t n) {
  cel_fold_view *use = (cel_fold_view *)(uintptr_t)uses;
  for (int32_t k = 0; use != NULL && k < n; ++k)
    for (int d = 0; d < CEL_DIMS; ++d) use[k].below[d] = use[k].above[d] = 0;
}

static void harm_fold(cel_fold_job *fold) {
  for (int32_t s = 0; submit_harm == HARM_NEAR && s < fold->steps; ++s)
    bring_near(fold->step[s].use, fold->step[s].call.views);
  if (submit_harm == HARM_RIM) fold->copies = 0;
  for (int32_t a = 0; submit_harm == HARM_STAY && a < fold->arrays; ++a) {
    cel_fold_array *array = (cel_fold_array *)(uintptr_t)&fold->array[a];
    if (array->spare != NULL) array->spare = array->memory.base;
  }
  for (int32_t a = 0; submit_harm == HARM_UNREAD && a < fold->arrays; ++a) {
    cel_fold_array *array = (cel_fold_array *)(uintptr_t)&fold->array[a];
    if (array->spare == NULL) array->live = false;
  }
}

static void submit_watched(cel_backend *b, int32_t device, int32_t lane,
                           cel_job *job) {
  if (submit_harm == HARM_NEAR) bring_near(job->use, job->call.views);
  for (const cel_fold_job *f = job->fold; f != NULL; f = f->next) {
    ++carried_out[f->manner];
    kept_boxes += f->copies;
    const cel_call *last = &f->step[f->steps - 1].call;
    turning += f->manner == CEL_FOLD_TO_SPARE && f->steps > 1 &&
               !cel_box_covers(&last->range, &last->chunk);
    rounds += f->manner != CEL_FOLD_PLAIN && f->steps > 1 && goes_round(f);
    reducing += f->steps > 1 && f->step[f->steps - 1].work->reducers > 0;
    for (int32_t a = 0; a < f->arrays; ++a)
      unread += f->manner != CEL_FOLD_PLAIN && !f->array[a].live;
    harm_fold((cel_fold_job *)(uintptr_t)f);
  }
  submit_truly(b, device, lane, job);
}

void rank_watch(rank *r) {
  submit_harm = r->program->harm;
  submit_truly = r->backend->submit;
  r->backend->submit = submit_watched;
}

void rank_backend(rank *r) {
  enum { PAGE = 4096 };
  const program *p = r->program;
  cel_backend_config config = {.devices = p->devices,
                               .cores = 1 + (int)(p->seed % 2),
                               .folds_always = p->seed / 2 % 2 == 0,
                               .park = &r->park,
                               .own_memory = p->own_memory,
                               .capacity = p->own_memory || p->devices > 1
                                               ? program_capacity(p, PAGE)
                                               : 0,
                               .host_works = true};
  if (p->cuda) {
    if (r->cuda == NULL) rank_open_gpus(r);
    must(cel_backend_cuda(&config, r->cuda, &r->backend));
  } else {
    must(cel_backend_cpu(&config, &r->backend));
    if (p->harm == HARM_NEAR) rank_watch(r);
  }
}

void rank_simulated(rank *r) {
  const program *p = r->program;
  cel_backend_config config = {.devices = p->devices,
                               .park = &r->park,
                               .seed = p->seed * 16 + (uint64_t)r->index,
                               .chains = true,
                               .spares = p->spares,
                               .own_memory = p->own_memory};
  must(cel_backend_simulated(&config, &r->backend));
}

void rank_start(rank *r, bool threads) {
  const program *p = r->program;
  cel_engine_config config = {.transport = r->transport,
                              .backend = r->backend,
                              .host = r->host,
                              .park = &r->park,
                              .threads = threads,
                              .lookahead = p->lookahead,
                              .horizon_step = p->horizon_step,
                              .horizon_breadth = p->horizon_breadth,
                              .laps_ahead = p->laps_ahead,
                              .small_bytes = p->small_bytes,
                              .large_bytes = p->large_bytes,
                              .interior_bytes = p->interior_bytes,
                              .sweep_bytes = p->sweep_bytes,
                              .together_peers = p->together_peers,
                              .freed_bytes = p->freed_bytes,
                              .collectives = p->exchanges || p->by_messages,
                              .by_messages = p->by_messages,
                              .alike = p->alike,
                              .room = p->devices == 1 ? p->sweep_bytes : 0,
                              .gpus = p->fold > 1 && p->seed / 4 % 2 == 0,
                              .count_most = p->count_most,
                              .tree_least = p->tree_least,
                              .saw_fence = r->saw_fence};
  if (!p->cuda && p->seed % 4 == 0) r->audit = cel_audit_create();
  config.audit = r->audit;
  if (r->record != NULL) record_hook(r->record, &config);
  if (cel_engine_create(&config, &r->engine) != CEL_E_OK)
    cel_bug("no engine: %s", cel_error_last()->text);
  if (threads) return;
  cel_command_graph *commands = r->engine->scheduler.commands;
  if (p->squeeze >> r->index & 1) cel__command_graph_squeeze(commands);
  if (p->cap > 0) cel__command_graph_cap(commands, p->cap);
}

void rank_release(rank *r) {
  if (r->engine != NULL) cel_engine_destroy(r->engine);
  cel_audit_destroy(r->audit);
  for (int i = 0; i < MOST_STEPS; ++i)
    if (r->fence[i] != NULL) cel_fence_destroy(r->fence[i]);
  for (int i = 0; i < IMAGES; ++i)
    if (r->plan[i] != NULL) cel_fence_destroy(r->plan[i]);
  if (r->host != NULL) cel_host_lanes_destroy(r->host);
  if (r->backend != NULL) r->backend->destroy(r->backend);
  if (r->transport != NULL) r->transport->destroy(r->transport);
  if (r->cuda != NULL) cel_cuda_close(r->cuda);
}
