/* Carries the instructions of fuzz_instr out, on memory that shows what is
 * missing. */
#include "instr/fuzz.h"

#include "tuning.h"

/* Behind the elements: whether there is memory for each, and it was used. */
enum { THERE = 1, USED = 2 };

static uint8_t *committed_of(const cel_allocation *a) {
  require(a->address != NULL);
  return (uint8_t *)a->address + a->reserve;
}

static uint64_t *element_at(const cel_allocation *a, const int64_t p[3]) {
  uint8_t *committed = &committed_of(a)[index_in(&a->layout, p)];
  require(*committed & THERE);
  *committed |= USED;
  return (uint64_t *)a->address + index_in(&a->layout, p);
}

static bool is_whole(const world *w, const cel_allocation *a) {
  return w->grain == 0 || a->reserve < w->whole;
}

/* Whichever order instructions come in, a memory never holds more than it
 * has. */
static void hold(world *w, const cel_allocation *a, uint64_t bytes) {
  w->held[a->memory] += bytes;
  if (w->capacity != 0 && a->memory != CEL_MEMORY_HOST)
    require(w->held[a->memory] <= w->capacity);
}

static bool frees_ended(const cel_instr *instr) {
  return instr != NULL && instr->kind == CEL_INSTR_FREE &&
         instr->task->freed == instr->memory.allocation->buffer;
}

static bool in_room_of(const cel_instr *instr, const cel_allocation *a) {
  return instr->memory.allocation->memory == a->memory;
}

/* Whether an ALLOC that is older than `end` is to take over what is freed. */
static bool is_taken(const world *w, const cel_instr *free, uint64_t end) {
  const cel_allocation *a = free->memory.allocation;
  for (uint64_t id = free->id + 1; id < end; ++id) {
    const cel_instr *alloc = w->instr.at[id - 1];
    if (alloc == NULL || alloc->kind != CEL_INSTR_ALLOC ||
        alloc->memory.allocation->reserve != a->reserve ||
        !in_room_of(alloc, a))
      continue;
    for (uint32_t i = 0; i < alloc->deps; ++i)
      if (alloc->dep[i].id == free->id) return true;
  }
  return false;
}

static uint64_t used_of(const cel_allocation *a) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; a->address != NULL && i < a->reserve / 8; ++i)
    if (committed_of(a)[i] & USED) bytes += 8;
  return bytes;
}

/* Buffers that ended before it hold no more than they may. */
static void check_freed(const world *w, const cel_instr *alloc) {
  const cel_allocation *a = alloc->memory.allocation;
  uint64_t bytes = 0, share = w->capacity / CEL_TUNE_FREED_SHARE;
  if (w->freed_bytes == 0) return;
  for (uint64_t id = 1; id < alloc->id; ++id) {
    const cel_instr *instr = w->instr.at[id - 1];
    if (frees_ended(instr) && in_room_of(instr, a) &&
        !is_taken(w, instr, alloc->id))
      bytes += used_of(instr->memory.allocation);
  }
  require(bytes <= w->freed_bytes || bytes <= share);
}

static void do_alloc(world *w, const cel_instr *instr) {
  cel_allocation *a = instr->memory.allocation;
  check_freed(w, instr);
  require(a->address == NULL);
  require(a->reserve == (uint64_t)cel_box_volume(&a->layout) * 8);
  a->address = malloc(a->reserve + a->reserve / 8);
  memset(a->address, (int)cel_random_int(&w->random, 1, 255), a->reserve);
  memset(committed_of(a), is_whole(w, a) ? THERE : 0, a->reserve / 8);
  if (is_whole(w, a)) hold(w, a, a->reserve);
}

static void do_commit(world *w, const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  uint64_t begin = instr->memory.begin, end = instr->memory.end;
  require(!is_whole(w, a));
  require(begin < end && end <= a->reserve && begin % w->grain == 0);
  require(end % w->grain == 0 || end == a->reserve);
  uint8_t *committed = committed_of(a);
  bool news = false;
  for (uint64_t i = begin / 8; i < end / 8; ++i) {
    news |= !committed[i];
    if (!committed[i] && i * 8 % w->grain == 0) hold(w, a, w->grain);
    committed[i] |= THERE;
  }
  fuzz_total.repeated += !news;
}

static void do_decommit(world *w, const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  uint64_t begin = instr->memory.begin, end = instr->memory.end;
  require(!is_whole(w, a) && w->capacity != 0 && a->memory != CEL_MEMORY_HOST);
  require(begin < end && end <= a->reserve && begin % w->block == 0);
  require(end % w->block == 0 || end == a->reserve);
  uint8_t *committed = committed_of(a);
  for (uint64_t i = begin / 8; i < end / 8; ++i) {
    if (committed[i] && i * 8 % w->grain == 0) w->held[a->memory] -= w->grain;
    committed[i] = 0;
  }
  memset((char *)a->address + begin, (int)cel_random_int(&w->random, 1, 255),
         end - begin);
}

static void do_free(world *w, cel_allocation *a) {
  uint8_t *committed = committed_of(a);
  if (is_whole(w, a)) w->held[a->memory] -= a->reserve;
  for (uint64_t i = 0; i < a->reserve / 8 && !is_whole(w, a); ++i)
    if (committed[i] && i * 8 % w->grain == 0) w->held[a->memory] -= w->grain;
  free(a->address);
  a->address = NULL;
}

static void do_copy(const cel_instr *instr) {
  const cel_allocation *from = instr->copy.from, *to = instr->copy.to;
  require(from != to && from->buffer == to->buffer);
  require(cel_box_covers(&from->layout, &instr->copy.box));
  require(cel_box_covers(&to->layout, &instr->copy.box));
  require(!cel_box_is_empty(&instr->copy.box));
  each_point(p, &instr->copy.box) * element_at(to, p) = *element_at(from, p);
}

static void do_init(const cel_instr *instr) {
  const cel_allocation *to = instr->copy.to;
  require(to->memory == CEL_MEMORY_HOST && instr->copy.from == NULL);
  uint64_t *dense = malloc((size_t)cel_box_volume(&instr->copy.box) * 8);
  const cel_init *init = to->buffer->init;
  init->fill(init, &instr->copy.box, dense);
  uint64_t *from = dense;
  each_point(p, &instr->copy.box) * element_at(to, p) = *from++;
  free(dense);
}

static void do_run(const world *w, const cel_instr *instr) {
  const cel_task *task = instr->task;
  cel_view views[ACCESSES] = {{0}};
  bool host = instr->kind == CEL_INSTR_HOST;
  require(host == (instr->device < 0) && instr->device < w->devices);
  int32_t memory = host ? 0 : w->device_memory[instr->device];
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_place_in *place = &instr->run.view[a];
    views[a].box = place->box;
    if (place->allocation == NULL) continue;
    require(place->allocation->memory == memory);
    require(place->allocation->buffer == task->access[a].buffer);
    require(cel_box_covers(&place->allocation->layout, &place->box));
    views[a].base = place->allocation->address;
    views[a].layout = place->allocation->layout;
    cel_region r = {0};
    require(cel_rule_eval(&task->access[a].use, &instr->run.chunk, &r) ==
            CEL_E_OK);
    for (uint32_t b = 0; b < r.n; ++b)
      each_point(p, &r.at[b])(void) element_at(place->allocation, p);
    cel_region_release(&r);
    require(views[a].base != NULL);
  }
  cel_call call = {.chunk = instr->run.chunk,
                   .range = task->range,
                   .views = (int32_t)task->accesses,
                   .view = views};
  task->work->fn(task->work, &call);
}

static bool is_near(const world *w, const cel_sent *m) {
  return w->near && m->peer == 1;
}

/* Of one device, where the message is long enough and no host task asks. */
static bool may_be_direct(const world *w, const cel_instr *instr,
                          const cel_sent *m) {
  uint64_t least = is_near(w, m) ? DIRECT_BYTES
                   : w->far      ? FAR_BYTES
                                 : UINT64_MAX;
  return w->devices == 1 && w->device_memory[0] != CEL_MEMORY_HOST &&
         instr->task->kind != CEL_TASK_HOST && m->bytes >= least;
}

static void do_message(const world *w, const cel_instr *instr,
                       const cel_sent *m) {
  bool out = instr->kind == CEL_INSTR_SEND;
  const parcel *parcel = &(out ? w->sent.at : w->received.at)[m->sequence];
  size_t i = 0;
  require(m->direct == may_be_direct(w, instr, m));
  require(m->far == (m->direct && !is_near(w, m)));
  for (uint32_t n = 0; n < m->pieces; ++n) {
    const cel_place_in *piece = &m->piece[n];
    require(piece->allocation->memory ==
            (m->direct ? w->device_memory[0] : CEL_MEMORY_HOST));
    require(cel_box_covers(&piece->allocation->layout, &piece->box));
    each_point(p, &piece->box) {
      uint64_t *element = element_at(piece->allocation, p);
      if (out && parcel->defined[i])
        require(*element == parcel->value[i]);
      else if (!out)
        *element = parcel->value[i];
      ++i;
    }
  }
  require(m->bytes == i * 8);
}

/* One goes, or is direct; of several that come, no two are of one rank here. */
static void do_messages(const world *w, const cel_instr *instr) {
  const cel_sent *m = &instr->message;
  bool alone = m->next == NULL;
  require(alone || (instr->kind == CEL_INSTR_RECEIVE && !m->direct));
  fuzz_total.together += !alone;
  for (; m != NULL; m = m->next) {
    require(m->next == NULL || m->next->peer > m->peer);
    do_message(w, instr, m);
  }
}

/* What others give is the same for all: here it is given at once. */
static void do_share(const cel_exchange *x, const cel_place_in *whole,
                     const parcel *parcel) {
  require(whole->allocation->memory == CEL_MEMORY_HOST);
  require(cel_box_equal(&whole->box, &x->box));
  require(cel_box_covers(&whole->allocation->layout, &whole->box));
  size_t i = 0;
  each_point(p, &x->box) {
    uint64_t *element = element_at(whole->allocation, p);
    cel_box point = {{p[0], p[1], p[2]}, {p[0] + 1, p[1] + 1, p[2] + 1}};
    bool mine = cel_box_meets(&point, &x->mine);
    if (mine && parcel->defined[i])
      require(*element == parcel->value[i]);
    else if (!mine)
      *element = parcel->value[i];
    ++i;
  }
}

static void do_collective(const world *w, const cel_instr *instr) {
  const cel_exchange *x = instr->collective.exchange;
  const parcel *parcel = &w->exchanged.at[x->nth];
  const cel_place_in *place = instr->collective.place;
  for (; x != NULL; x = x->next) do_share(x, place++, parcel++);
}

static void do_bound(world *w, const cel_instr *instr) {
  w->last_done_bound = instr->id;
  /* Everything before it has been done. */
  for (uint64_t id = 1; id < instr->id; ++id)
    require(w->instr.at[id - 1] == NULL);
  if (cel_random_chance(&w->random, 70)) {
    cel_instr_graph_retire(w->instrs, instr->id);
    cel_instr_graph_retire(w->anew, instr->id);
    cel_task_graph_retire(w->tasks, w->task_of_bound.at[instr->id - 1]);
  }
}

static void carry_out(world *w, uint64_t id) {
  const cel_instr *instr = w->instr.at[id - 1];
  w->instr.at[id - 1] = NULL;
  ++w->done;
  ++fuzz_total.kinds[instr->kind];
  switch (instr->kind) {
  case CEL_INSTR_ALLOC: do_alloc(w, instr); break;
  case CEL_INSTR_COMMIT: do_commit(w, instr); break;
  case CEL_INSTR_DECOMMIT: do_decommit(w, instr); break;
  case CEL_INSTR_FREE: do_free(w, instr->memory.allocation); break;
  case CEL_INSTR_INIT: do_init(instr); break;
  case CEL_INSTR_COPY: do_copy(instr); break;
  case CEL_INSTR_KERNEL:
  case CEL_INSTR_HOST: do_run(w, instr); break;
  case CEL_INSTR_RELEASE: require(false); break; /* no task has objects */
  case CEL_INSTR_SEND:
  case CEL_INSTR_RECEIVE: do_messages(w, instr); break;
  case CEL_INSTR_COLLECTIVE: do_collective(w, instr); break;
  case CEL_INSTR_HORIZON:
  case CEL_INSTR_EPOCH: do_bound(w, instr); break;
  }
}

static bool is_ready(const world *w, const cel_instr *instr) {
  for (uint32_t i = 0; i < instr->deps; ++i)
    if (w->instr.at[instr->dep[i].id - 1] != NULL) return false;
  return true;
}

bool fuzz_step(world *w) {
  CEL_VEC(uint64_t) ready = {0};
  for (uint32_t i = 0; i < w->instr.n; ++i)
    if (w->instr.at[i] != NULL && is_ready(w, w->instr.at[i]))
      cel_vec_push(&ready, (uint64_t)i + 1);
  bool any = ready.n > 0;
  if (any) {
    int64_t pick = cel_random_int(&w->random, 0, ready.n - 1);
    if (w->policy == 1) pick = ready.n - 1;
    if (w->policy == 2) pick = 0;
    carry_out(w, ready.at[pick]);
  }
  cel_vec_release(&ready);
  return any;
}
