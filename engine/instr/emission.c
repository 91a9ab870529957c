#include "instr/emission.h"

#include "base/eras.h"
#include "region/front.h"
#include "task/effect.h"

struct cel__emission {
  const cel_instr_graph_config *config;
  const cel_task *task; /* of the present command */
  cel_front front;
  cel_deps deps; /* of the next instruction */
  cel_eras eras; /* each keeps the allocations whose FREE is in it */
  cel_collective_tasks collectives;
  cel_effect_track effects;
};

int32_t cel__device_in(const cel_instr_graph_config *config, int32_t memory) {
  if (memory == CEL_MEMORY_HOST) return -1;
  for (int32_t d = 0; d < config->devices; ++d)
    if (config->device_memory[d] == memory) return d;
  return -1;
}

void cel__tracked_destroy(cel__tracked *tracked) {
  cel_track_destroy(tracked->track);
  cel_free(tracked);
}

size_t cel__tracked_bytes(const cel__tracked *tracked) {
  enum { TRACKED = 96 }; /* about what an entry takes */
  return (size_t)TRACKED * cel_track_count(tracked->track);
}

/* ---- any instruction ----------------------------------------------------- */

void cel__emit_after(cel__emission *e, uint64_t id, cel_dep_kind kind) {
  cel_deps_add(&e->deps, id, kind);
}

/* The tracker, up to date with the floor. */
static cel_track *track_of(const cel__emission *e, cel__tracked *tracked) {
  if (tracked->floor != e->front.floor) {
    cel_track_floor(tracked->track, e->front.floor);
    tracked->floor = e->front.floor;
  }
  return tracked->track;
}

void cel__emit_write(cel__emission *e, cel__tracked *to, const cel_box *box) {
  cel_track_write(track_of(e, to), box, e->front.next, &e->deps);
}

static void *room_for(cel__emission *e, size_t bytes) {
  return cel_arena_alloc(cel_eras_arena(&e->eras), bytes);
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

static uint64_t end(cel__emission *e, cel_instr *instr) {
  cel_deps *deps = &e->deps;
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
  end(e, instr);
}

uint64_t cel__emit_free(cel__emission *e, cel__tracked *tracked) {
  cel_instr *instr = begin(e, CEL_INSTR_FREE, CEL__PRIORITY_RUN);
  instr->memory.allocation = &tracked->made;
  cel_track_users(track_of(e, tracked), &tracked->made.layout, &e->deps);
  cel_track_destroy(tracked->track);
  tracked->track = NULL;
  cel_eras_keep(&e->eras, tracked);
  return end(e, instr);
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
    cel__emit_write(e, tracked, &box);
  }
  end(e, instr);
}

uint64_t cel__emit_decommit(cel__emission *e, cel__tracked *tracked,
                            uint64_t from, uint64_t to, const cel_box *box) {
  cel_instr *instr = begin(e, CEL_INSTR_DECOMMIT, CEL__PRIORITY_MEMORY);
  instr->memory.allocation = &tracked->made;
  instr->memory.begin = from;
  instr->memory.end = to;
  cel__emit_write(e, tracked, box);
  return end(e, instr);
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
    cel_track_read(track_of(e, from), box, instr->id, &e->deps);
  }
  cel__emit_write(e, to, box);
  return end(e, instr);
}

/* ---- what touches a plan's data ------------------------------------------ */

static void track_touch(cel__emission *e, const cel__touch *touch,
                        void (*report)(cel_track *, const cel_box *, uint64_t,
                                       cel_deps *)) {
  if (touch->region.n == 0) return;
  cel_track *track = track_of(e, touch->lies);
  for (uint32_t b = 0; b < touch->region.n; ++b)
    report(track, &touch->region.at[b], e->front.next, &e->deps);
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
  end(e, instr);
}

void cel__emit_message(cel__emission *e, const cel__plan *plan,
                       int32_t priority, bool direct, uint64_t nth) {
  const cel_message *told = &plan->command->message;
  bool out = plan->command->kind == CEL_COMMAND_PUSH;
  cel_instr *instr =
      begin(e, out ? CEL_INSTR_SEND : CEL_INSTR_RECEIVE, priority);
  instr->message.peer = told->peer;
  instr->message.sequence = told->sequence;
  instr->message.bytes = told->bytes;
  instr->message.direct = direct;
  instr->message.nth = nth;
  instr->message.pieces = told->pieces;
  instr->message.piece = use(e, plan->touches.at, plan->used);
  /* Without contents, it tells what has been done to a host object. */
  if (told->object != NULL && out)
    cel_effect_ask(&e->effects, told->object, told->order, e->front.floor,
                   &e->deps);
  else if (told->object != NULL)
    cel_effect_arrive(&e->effects, told->object, instr->id, e->front.floor);
  end(e, instr);
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
  end(e, instr);
}

/* ---- the others ---------------------------------------------------------- */

void cel__emit_join(cel__emission *e) {
  end(e, begin(e, CEL_INSTR_JOIN, CEL__PRIORITY_RECEIVE));
}

void cel__emit_release(cel__emission *e, const cel_object *object) {
  if (object->release != NULL) {
    cel_instr *instr = begin(e, CEL_INSTR_RELEASE, CEL__PRIORITY_RUN);
    instr->run.chunk = cel_box_sized(1, 1, 1);
    cel_effect_ask(&e->effects, object, CEL_ORDER_SEQUENTIAL, e->front.floor,
                   &e->deps);
    end(e, instr);
  }
  cel_effect_forget(&e->effects, object);
}

void cel__emit_bound(cel__emission *e, bool epoch) {
  cel_instr *instr =
      begin(e, epoch ? CEL_INSTR_EPOCH : CEL_INSTR_HORIZON, CEL__PRIORITY_RUN);
  cel_front_collect(&e->front, &e->deps);
  uint64_t id = end(e, instr);
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
         cel_effect_track_bytes(&e->effects);
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
