#include "instr/emission.h"
#include "instr/emission_state.h"

int32_t cel__device_in(const cel_instr_graph_config *config, int32_t memory) {
  if (memory == CEL_MEMORY_HOST) return -1;
  for (int32_t d = 0; d < config->devices; ++d)
    if (config->device_memory[d] == memory) return d;
  return -1;
}

/* ---- any instruction ----------------------------------------------------- */

void cel__emit_after(cel__emission *e, uint64_t id, cel_dep_kind kind) {
  if (e->tape != NULL) cel__tape_note_after(e->tape, id, kind);
  cel_deps_add(&e->deps, id, kind);
}

static inline cel_track *track_of(cel__emission *e, cel__tracked *tracked) {
  return cel__tracked_track(tracked, e->front.floor);
}

/* How an access is told to a tracker. */
typedef void report_fn(cel_track *, const cel_box *, uint64_t, cel_deps *);

/* The same onto the tape. */
static void report_noted(cel__emission *e, cel__tracked *tracked,
                         const cel_box *box, report_fn *fn) {
  uint32_t nth = cel__tape_note_tracked(e, tracked);
  cel_deps *own = &e->tape->own;
  cel_deps_clear(own);
  fn(track_of(e, tracked), box, e->front.next, own);
  for (uint32_t i = 0; i < own->n; ++i) {
    cel__tape_note_dep(e->tape, nth, &own->at[i]);
    cel_deps_add(&e->deps, own->at[i].id, own->at[i].kind);
  }
}

static inline void report(cel__emission *e, cel__tracked *tracked,
                          const cel_box *box, report_fn *fn) {
  if (e->tape != NULL)
    report_noted(e, tracked, box, fn);
  else
    fn(track_of(e, tracked), box, e->front.next, &e->deps);
}

static void write_box(cel__emission *e, cel__tracked *to, const cel_box *box) {
  report(e, to, box, cel_track_write);
}

static void *room_for(cel__emission *e, size_t bytes) {
  return cel_arena_alloc(cel_eras_arena(&e->eras), bytes);
}

void *cel__emission_room(cel__emission *e, size_t bytes) {
  return room_for(e, bytes);
}

static cel_instr *begin(cel__emission *e, cel_instr_kind kind,
                        int32_t priority) {
  cel_instr *instr = room_for(e, sizeof *instr);
  *instr = (cel_instr){.id = e->front.next,
                       .kind = kind,
                       .device = -1,
                       .priority = priority,
                       .task = e->task};
  return instr;
}

uint64_t cel__emission_end(cel__emission *e, cel_instr *instr) {
  cel_deps *deps = &e->deps;
  if (e->tape != NULL) cel__tape_note_instr(e->tape, instr);
  bool bound =
      instr->kind == CEL_INSTR_HORIZON || instr->kind == CEL_INSTR_EPOCH;
  if (deps->n == 0 && !bound) cel_deps_add(deps, e->front.floor, CEL_DEP_ORDER);
  cel_front_add(&e->front, deps);
  instr->deps = deps->n;
  instr->dep = cel_arena_copy(cel_eras_arena(&e->eras), deps->at,
                              deps->n * sizeof(cel_dep));
  cel_deps_clear(deps);
  if (e->config->emit != NULL) e->config->emit(e->config->context, instr);
  return instr->id;
}

/* ---- memory and copies --------------------------------------------------- */

void cel__emit_alloc(cel__emission *e, cel__tracked *tracked) {
  cel_instr *instr = begin(e, CEL_INSTR_ALLOC, CEL__PRIORITY_MEMORY);
  instr->memory.allocation = &tracked->made;
  tracked->track = cel_track_create(&tracked->made.layout, instr->id);
  tracked->floor = e->front.floor;
  cel__emission_end(e, instr);
}

uint64_t cel__emit_free(cel__emission *e, cel__tracked *tracked) {
  cel_instr *instr = begin(e, CEL_INSTR_FREE, CEL__PRIORITY_RUN);
  instr->memory.allocation = &tracked->made;
  cel_track_users(track_of(e, tracked), &tracked->made.layout, &e->deps);
  cel_track_destroy(tracked->track);
  tracked->track = NULL;
  cel_vec_release(&tracked->ids);
  cel_eras_keep(&e->eras, tracked);
  return cel__emission_end(e, instr);
}

void cel__emit_commit(cel__emission *e, cel__tracked *tracked, uint64_t from,
                      uint64_t to, const cel_region *rows) {
  cel_instr *instr = begin(e, CEL_INSTR_COMMIT, CEL__PRIORITY_MEMORY);
  instr->memory.allocation = &tracked->made;
  instr->memory.begin = from;
  instr->memory.end = to;
  for (uint32_t i = 0; i < rows->n; ++i) {
    cel_box box = tracked->made.layout;
    box.min[0] = rows->at[i].min[0];
    box.max[0] = rows->at[i].max[0];
    write_box(e, tracked, &box);
  }
  cel__emission_end(e, instr);
}

uint64_t cel__emit_decommit(cel__emission *e, cel__tracked *tracked,
                            uint64_t from, uint64_t to, const cel_box *box) {
  cel_instr *instr = begin(e, CEL_INSTR_DECOMMIT, CEL__PRIORITY_MEMORY);
  instr->memory.allocation = &tracked->made;
  instr->memory.begin = from;
  instr->memory.end = to;
  write_box(e, tracked, box);
  return cel__emission_end(e, instr);
}

uint64_t cel__emit_copy(cel__emission *e, cel__tracked *from, cel__tracked *to,
                        const cel_box *box, int32_t priority) {
  cel_instr *instr =
      begin(e, from != NULL ? CEL_INSTR_COPY : CEL_INSTR_INIT, priority);
  instr->copy.to = &to->made;
  instr->copy.box = *box;
  if (from != NULL) {
    /* The device that has the data. What a GPU reads from another it must ask
     * for first, which takes half as long again for a few bytes, and a share of
     * the way for many. */
    instr->device = cel__device_in(
        e->config, from->made.memory != CEL_MEMORY_HOST ? from->made.memory
                                                        : to->made.memory);
    instr->copy.from = &from->made;
    report(e, from, box, cel_track_read);
  }
  write_box(e, to, box);
  return cel__emission_end(e, instr);
}

/* ---- what touches a plan's data ------------------------------------------ */

static void track_touch(cel__emission *e, const cel__touch *touch,
                        report_fn *fn) {
  for (uint32_t b = 0; b < touch->region.n; ++b)
    report(e, touch->lies, &touch->region.at[b], fn);
}

/* Whether no other touch is of its buffer: then it needs not be tracked twice,
 * with all reads before all writes. */
static bool updates_alone(const cel__touch *touch, uint32_t n, uint32_t i) {
  if (!touch[i].consumes || !touch[i].produces) return false;
  for (uint32_t k = 0; k < n; ++k)
    if (k != i && touch[k].buffer == touch[i].buffer) return false;
  return true;
}

/* Tracks `n` touches as one instruction's, all reads before all writes, and
 * returns where they lie; no allocation for an empty one. */
static const cel_place_in *use(cel__emission *e, const cel__touch *touch,
                               uint32_t n) {
  cel_place_in *place = room_for(e, n * sizeof *place);
  for (uint32_t i = 0; i < n; ++i) {
    bool empty = cel_box_is_empty(&touch[i].hull);
    place[i] = (cel_place_in){.allocation = empty ? NULL : &touch[i].lies->made,
                              .box = touch[i].hull};
    if (updates_alone(touch, n, i))
      track_touch(e, &touch[i], cel_track_update);
    else if (touch[i].consumes)
      track_touch(e, &touch[i], cel_track_read);
  }
  for (uint32_t i = 0; i < n; ++i)
    if (touch[i].produces && !updates_alone(touch, n, i))
      track_touch(e, &touch[i], cel_track_write);
  return place;
}

void cel__emit_launch(cel__emission *e, const cel__plan *plan, uint32_t p) {
  const cel_task *task = plan->command->task;
  const cel__part *part = &plan->parts.at[p];
  bool host = task->kind == CEL_TASK_HOST;
  cel_instr *instr =
      begin(e, host ? CEL_INSTR_HOST : CEL_INSTR_KERNEL, part->priority);
  instr->device = part->device;
  instr->run.chunk = part->chunk;
  instr->run.view =
      use(e, plan->touches.at + (size_t)p * task->accesses, task->accesses);
  cel_collective_tasks_follow(&e->collectives, task->collective_group,
                              instr->id, e->front.floor, &e->deps);
  cel_effects_add(&e->effects, task->effect, task->effects,
                  task->collective_group != 0, instr->id, e->front.floor,
                  &e->deps);
  cel__emission_end(e, instr);
}

static bool writes(const cel__plan *plan, const cel__tracked *in) {
  for (uint32_t i = 0; i < plan->used; ++i)
    if (plan->touches.at[i].produces && plan->touches.at[i].lies == in)
      return true;
  return false;
}

void cel__emit_fold(cel__emission *e, const cel__plan *plan, uint32_t p,
                    const cel_instr_fold *fold) {
  const cel__part *part = &plan->parts.at[p];
  const cel__touch *touches = plan->touches.at + (size_t)p * plan->accesses;
  cel_instr *instr = begin(e, CEL_INSTR_KERNEL, part->priority);
  cel_place_in *place = room_for(e, plan->accesses * sizeof *place);
  instr->device = part->device;
  instr->run.chunk = part->chunk;
  instr->run.view = place;
  instr->run.fold = fold;
  for (uint32_t i = 0; i < plan->accesses; ++i) {
    const cel__touch *touch = &touches[i];
    bool empty = cel_box_is_empty(&touch->hull);
    place[i] = (cel_place_in){.allocation = empty ? NULL : &touch->lies->made,
                              .box = touch->hull};
    if (empty) continue;
    if (touch->produces)
      report(e, touch->lies, &touch->lies->made.layout, cel_track_update);
    else if (!writes(plan, touch->lies))
      track_touch(e, touch, cel_track_read);
  }
  cel__emission_end(e, instr);
}

/* A message as an instruction has it; *at as in cel__plan_covering. */
static cel_sent sent(cel__emission *e, const cel__plan *plan,
                     const cel__carried *carried, uint32_t *at) {
  const cel_message *told = carried->message;
  int32_t memory =
      carried->direct ? e->config->device_memory[0] : CEL_MEMORY_HOST;
  cel_place_in *place = room_for(e, told->pieces * sizeof *place);
  for (uint32_t i = 0; i < told->pieces; ++i) {
    const cel_piece *piece = &told->piece[i];
    const cel__touch *touch = cel__plan_covering(plan, memory, piece, at);
    if (touch == NULL) cel_bug("a piece of a message is not in its plan");
    place[i] = (cel_place_in){&touch->lies->made, piece->box};
  }
  return (cel_sent){.peer = told->peer,
                    .sequence = told->sequence,
                    .bytes = told->bytes,
                    .direct = carried->direct,
                    .far = carried->far,
                    .nth = carried->nth,
                    .pieces = told->pieces,
                    .piece = place};
}

/* The allocation's tracker, of which others see the first member alone. */
static cel__tracked *tracked_of(cel_allocation *made) {
  return (cel__tracked *)made;
}

static void emit_message(cel__emission *e, const cel__plan *plan,
                         const cel__carried *carried, int32_t priority,
                         uint32_t *at) {
  const cel_message *told = carried->message;
  bool out = plan->command->kind == CEL_COMMAND_PUSH;
  cel_instr *instr =
      begin(e, out ? CEL_INSTR_SEND : CEL_INSTR_RECEIVE, priority);
  instr->message = sent(e, plan, carried, at);
  for (uint32_t i = 0; i < told->pieces; ++i) {
    const cel_place_in *in = &instr->message.piece[i];
    (out ? cel_track_read : cel_track_write)(
        track_of(e, tracked_of(in->allocation)), &in->box, instr->id, &e->deps);
  }
  /* Without contents, it tells what has been done to a host object. */
  if (told->object != NULL && out)
    cel_effect_ask(&e->effects, told->object, told->order, e->front.floor,
                   &e->deps);
  else if (told->object != NULL)
    cel_effect_arrive(&e->effects, told->object, instr->id, e->front.floor);
  cel__emission_end(e, instr);
}

/* The RECEIVE of all messages that come together. */
static void emit_together(cel__emission *e, const cel__plan *plan,
                          int32_t priority, uint32_t *at) {
  cel_instr *instr = begin(e, CEL_INSTR_RECEIVE, priority);
  cel_sent *last = NULL;
  for (uint32_t i = plan->first; i < plan->last; ++i) {
    const cel__carried *carried = &plan->carried.at[i];
    if (!carried->together) continue;
    cel_sent *next = last == NULL ? &instr->message : room_for(e, sizeof *next);
    *next = sent(e, plan, carried, at);
    if (last != NULL) last->next = next;
    last = next;
  }
  for (uint32_t i = 0; i < plan->together; ++i)
    track_touch(e, &plan->touches.at[i], cel_track_write);
  cel__emission_end(e, instr);
}

void cel__emit_messages(cel__emission *e, const cel__plan *plan,
                        int32_t priority) {
  uint32_t at = plan->boxes;
  if (plan->together > 0) emit_together(e, plan, priority, &at);
  for (uint32_t i = plan->first; i < plan->last; ++i)
    if (!plan->carried.at[i].together)
      emit_message(e, plan, &plan->carried.at[i], priority, &at);
}

/* Where each of a list lies, of which `used` has those that have a place. */
static const cel_place_in *spread_out(cel__emission *e,
                                      const cel_exchange *list,
                                      const cel_place_in *used) {
  size_t n = 0;
  for (const cel_exchange *x = list; x != NULL; x = x->next) ++n;
  cel_place_in *place = room_for(e, n * sizeof *place);
  for (const cel_exchange *x = list; x != NULL; x = x->next, ++place) {
    int touches = !cel_box_is_empty(&x->mine) + (x->gets > 0);
    *place = touches > 0 ? *used : (cel_place_in){0};
    used += touches;
  }
  return place - n;
}

void cel__emit_collective(cel__emission *e, const cel__plan *plan,
                          int32_t device, uint32_t first, uint32_t n) {
  static const cel_place_in nowhere;
  const cel_exchange *x = plan->command->exchange;
  cel_instr *instr = begin(e, CEL_INSTR_COLLECTIVE, CEL__PRIORITY_RECEIVE);
  instr->device = device;
  instr->collective.exchange = x;
  const cel_place_in *place = use(e, plan->touches.at + first, n);
  if (x->next != NULL)
    place = spread_out(e, x, place);
  else if (n == 0)
    place = &nowhere;
  instr->collective.place = place;
  cel__emission_end(e, instr);
}

/* ---- the others ---------------------------------------------------------- */

void cel__emit_release(cel__emission *e, const cel_object *object) {
  if (object->release != NULL) {
    cel_instr *instr = begin(e, CEL_INSTR_RELEASE, CEL__PRIORITY_RUN);
    instr->run.chunk = cel_box_sized(1, 1, 1);
    cel_effect_ask(&e->effects, object, CEL_ORDER_SEQUENTIAL, e->front.floor,
                   &e->deps);
    cel__emission_end(e, instr);
  }
  cel_effect_forget(&e->effects, object);
}

void cel__emit_bound(cel__emission *e, bool epoch) {
  cel_instr *instr =
      begin(e, epoch ? CEL_INSTR_EPOCH : CEL_INSTR_HORIZON, CEL__PRIORITY_RUN);
  cel_front_collect(&e->front, &e->deps);
  uint64_t id = cel__emission_end(e, instr);
  cel_front_barrier(&e->front, epoch);
  cel_eras_close(&e->eras, id);
}

/* ---- life ---------------------------------------------------------------- */

cel__emission *cel__emission_create(const cel_instr_graph_config *config) {
  cel__emission *e = cel_alloc_zero(sizeof *e);
  e->config = config;
  cel_front_init(&e->front);
  cel_eras_init(&e->eras, cel_free);
  return e;
}

void cel__emission_destroy(cel__emission *e) {
  cel_eras_release(&e->eras);
  cel_front_release(&e->front);
  cel_deps_release(&e->deps);
  cel_collective_tasks_release(&e->collectives);
  cel_effect_track_release(&e->effects);
  cel__outlines_release(&e->outlines);
  cel_vec_release(&e->slots);
  cel_free(e);
}

void cel__emission_retire(cel__emission *e, uint64_t id) {
  cel_eras_retire(&e->eras, id);
}

void cel__emission_begin(cel__emission *e, const cel_task *task) {
  cel_assert(e->deps.n == 0);
  e->task = task;
}

uint64_t cel__emission_floor(const cel__emission *e) {
  return e->front.floor;
}

size_t cel__emission_bytes(const cel__emission *e) {
  return sizeof *e + cel_eras_bytes(&e->eras) + e->front.followed.cap +
         cel_effect_track_bytes(&e->effects) + e->outlines.bytes;
}

void cel__emission_check(const cel__emission *e) {
  cel_assert(e->deps.n == 0);
  const cel_front *front = &e->front;
  cel_assert(front->floor <= front->last && front->last <= front->next);
  cel_assert(front->followed.n == front->next - front->floor);
  uint64_t last = 0;
  for (uint32_t i = 0; i < e->eras.closed.n; ++i) {
    cel_assert(e->eras.closed.at[i]->last > last);
    last = e->eras.closed.at[i]->last;
  }
  cel_assert(last < front->next);
}
