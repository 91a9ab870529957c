/* fuzz.c -- random tasks through the task and instruction graphs, carried out
 * in a random topological order on real memory, against a sequential
 * interpreter.
 *
 *   fuzz_instr [CASES [FIRST_SEED]]
 *
 * One rank's view: tasks become commands one to one; messages are made by hand,
 * with contents that the interpreter knows. Garbage fills what is allocated and
 * a freed address is gone, so that a missing copy or dependency shows as a
 * wrong value (or as a sanitizer's report). Prints the seed that fails.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/vec.h"
#include "instr/instr.h"
#include "task/graph.h"

enum { BUFFERS = 4, ACCESSES = 3, MESSAGE_PIECES = 3, DIRECT_BYTES = 64 };

static uint64_t seed_now;

#define fail(...)                                                              \
  (fprintf(stderr, "seed %" PRIu64 ": ", seed_now),                            \
   fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())
#define require(x) ((x) ? (void)0 : (fail("%s:%d: %s", __FILE__, __LINE__, #x)))

/* What the sequential interpreter holds of a buffer. */
typedef struct model {
  cel_buffer buffer;
  cel_init init;
  uint64_t *value;
  bool *defined;
  bool live;
} model;

/* Contents of one message, by sequence. */
typedef struct parcel {
  uint64_t *value;
  bool *defined;
} parcel;

typedef CEL_VEC(cel_box) boxes;

/* One per task; the accesses that it was submitted with. */
typedef struct job {
  cel_work work;
  cel_task_kind kind;
  cel_box range;
  cel_split_kind permitted;
  int32_t oversubscribe;
  bool weighted;
  int64_t device_weight[8];
  uint32_t accesses;
  cel_access access[ACCESSES];
  int64_t params[ACCESSES][CEL_RULE_PARAMS];
  /* A job that checks compares with these instead. */
  const model *against;
  uint64_t *expect;
  bool *expect_defined;
  bool ran;
} job;

typedef struct world {
  cel_random random;
  cel_rules *rules;
  cel_task_graph *tasks;
  cel_instr_graph *instrs;
  int32_t devices, device_memory[8];
  bool near;                   /* the other rank is */
  uint64_t grain;              /* of memories; 0: committed on touch */
  uint64_t whole, block;       /* see instr.h */
  uint64_t capacity;           /* of every device's memory; 0: any */
  uint64_t held[CEL_MEMORIES]; /* bytes, grain by grain */
  bool full;                   /* a command needed more by itself */
  bool warned, lookahead;
  CEL_VEC(model *) models; /* by buffer id */
  CEL_VEC(job *) jobs;
  CEL_VEC(cel_command *) commands;
  CEL_VEC(cel_piece *) pieces;
  CEL_VEC(cel_exchange *) exchanges;
  CEL_VEC(parcel) sent, received, exchanged;
  /* Emitted instructions by id - 1; null once done. */
  CEL_VEC(const cel_instr *) instr;
  uint64_t horizons[2]; /* ids: the last two made */
  uint64_t last_done_bound;
  const cel_task *last_task;
  CEL_VEC(uint64_t) task_of_bound; /* by instruction id - 1; 0 if no bound */
  CEL_VEC(const cel_allocation *) allocations;
  int policy;
  uint64_t done;
} world;

static struct {
  uint64_t kinds[CEL_INSTR_EPOCH + 1], refused, tasks, resizes, repeated, full,
      warned;
} total;

/* ---- elements ------------------------------------------------------------ */

static int64_t index_in(const cel_box *layout, const int64_t at[3]) {
  int64_t e1 = layout->max[1] - layout->min[1];
  int64_t e2 = layout->max[2] - layout->min[2];
  return ((at[0] - layout->min[0]) * e1 + at[1] - layout->min[1]) * e2 + at[2] -
         layout->min[2];
}

#define each_point(p, box)                                                     \
  for (int64_t p[3] = {(box)->min[0]}; p[0] < (box)->max[0]; ++p[0])           \
    for (p[1] = (box)->min[1]; p[1] < (box)->max[1]; ++p[1])                   \
      for (p[2] = (box)->min[2]; p[2] < (box)->max[2]; ++p[2])

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t both[2] = {a, b};
  return cel_hash(both, sizeof both, 0);
}

static uint64_t first_value(const cel_buffer *buffer, const int64_t at[3]) {
  return mix(buffer->id + 1000, (uint64_t)index_in(&buffer->extent, at));
}

static cel_status fill(const cel_init *init, const cel_box *box, void *out) {
  const cel_buffer *buffer = init->context;
  uint64_t *to = out;
  each_point(p, box) *to++ = first_value(buffer, p);
  return CEL_E_OK;
}

/* ---- the work of a task -------------------------------------------------- */

/* A value and whether it means anything. */
typedef struct known {
  uint64_t value;
  bool defined;
} known;

/* Where a view's elements are; `defined` is null on real memory. */
typedef struct store {
  uint64_t *value;
  bool *defined;
  cel_box layout;
} store;

/* Adds up all that the unit reads. */
static known read_unit(const job *j, const cel_box *unit, const store *stores) {
  known sum = {j->work.hash, true};
  cel_region r = {0};
  for (uint32_t a = 0; a < j->accesses; ++a) {
    if (j->access[a].mode != CEL_MODE_READ) continue;
    require(cel_rule_eval(&j->access[a].use, unit, &r) == CEL_E_OK);
    for (uint32_t b = 0; b < r.n; ++b) each_point(p, &r.at[b]) {
        require(cel_box_covers(&stores[a].layout, &r.at[b]));
        int64_t i = index_in(&stores[a].layout, p);
        sum.value = mix(sum.value, stores[a].value[i]);
        if (stores[a].defined != NULL) sum.defined &= stores[a].defined[i];
      }
  }
  cel_region_release(&r);
  return sum;
}

static void write_element(cel_mode mode, known in, const store *s,
                          const int64_t p[3], uint32_t access) {
  int64_t i = index_in(&s->layout, p);
  uint64_t where = (uint64_t)(p[0] * 10007 + p[1] * 101 + p[2]) * 4 + access;
  uint64_t fresh = mix(in.value, where);
  /* `write` leaves some elements as they are. */
  if (mode == CEL_MODE_WRITE && (p[0] + p[1] + p[2]) % 3 == 0) return;
  if (mode == CEL_MODE_READ_WRITE) fresh = mix(fresh, s->value[i]);
  s->value[i] = fresh;
  if (s->defined != NULL)
    s->defined[i] =
        in.defined && (mode != CEL_MODE_READ_WRITE || s->defined[i]);
}

static void write_unit(const job *j, const cel_box *unit, known in,
                       const store *stores) {
  cel_region r = {0};
  for (uint32_t a = 0; a < j->accesses; ++a) {
    if (!cel_mode_produces(j->access[a].mode)) continue;
    require(cel_rule_eval(&j->access[a].use, unit, &r) == CEL_E_OK);
    for (uint32_t b = 0; b < r.n; ++b) each_point(p, &r.at[b]) {
        require(cel_box_covers(&stores[a].layout, &r.at[b]));
        write_element(j->access[a].mode, in, &stores[a], p, a);
      }
  }
  cel_region_release(&r);
}

/* Unit by unit: the pieces that no permitted split cuts. All units read before
 * any writes, which is what the program means. */
static void run_units(const job *j, const cel_box *chunk, const store *stores) {
  int64_t g[3], n[3];
  for (int d = 0; d < 3; ++d) {
    g[d] = j->permitted.cut[d] ? j->permitted.granularity[d]
                               : j->range.max[d] - j->range.min[d];
    require((chunk->min[d] - j->range.min[d]) % g[d] == 0);
    n[d] = (chunk->max[d] - chunk->min[d] + g[d] - 1) / g[d];
  }
  cel_box units = cel_box_sized(n[0], n[1], n[2]);
  CEL_VEC(known) ins = {0};
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t i = 0;
    each_point(u, &units) {
      cel_box unit;
      for (int d = 0; d < 3; ++d) {
        unit.min[d] = chunk->min[d] + g[d] * u[d];
        unit.max[d] = unit.min[d] + g[d];
        if (unit.max[d] > chunk->max[d]) unit.max[d] = chunk->max[d];
      }
      if (pass == 0)
        cel_vec_push(&ins, read_unit(j, &unit, stores));
      else
        write_unit(j, &unit, ins.at[i++], stores);
    }
  }
  cel_vec_release(&ins);
}

static void check_job(const job *j, const store *s) {
  const cel_box *extent = &j->against->buffer.extent;
  each_point(p, extent) {
    int64_t i = index_in(extent, p);
    if (j->expect_defined[i] &&
        s->value[index_in(&s->layout, p)] != j->expect[i])
      fail("buffer %u (%" PRId64 ", %" PRId64 ", %" PRId64 ") is wrong",
           j->against->buffer.id, p[0], p[1], p[2]);
  }
}

static cel_status run_job(const cel_work *work, const cel_call *call) {
  job *j = work->context;
  store stores[ACCESSES];
  for (int32_t v = 0; v < call->views; ++v) {
    stores[v] = (store){call->view[v].base, NULL, call->view[v].layout};
    cel_region r = {0};
    require(cel_rule_eval(&j->access[v].use, &call->chunk, &r) == CEL_E_OK);
    cel_box hull = cel_region_hull(&r);
    require(cel_box_equal(&hull, &call->view[v].box));
    require((call->view[v].base == NULL) == cel_box_is_empty(&hull));
    cel_region_release(&r);
  }
  if (j->against != NULL)
    check_job(j, &stores[0]);
  else
    run_units(j, &call->chunk, stores);
  j->ran = true;
  return CEL_E_OK;
}

/* What a chunk promises to write over and no unit of it writes is lost. */
static void forget(const job *j, uint32_t a, const store *s) {
  cel_region r = {0};
  if (j->access[a].mode != CEL_MODE_DISCARD_WRITE) return;
  require(cel_rule_eval(&j->access[a].use, &j->range, &r) == CEL_E_OK);
  for (uint32_t b = 0; b < r.n; ++b)
    each_point(p, &r.at[b]) s->defined[index_in(&s->layout, p)] = false;
  cel_region_release(&r);
}

/* The same on the interpreter's memory. */
static void interpret(const world *w, const job *j) {
  store stores[ACCESSES];
  for (uint32_t a = 0; a < j->accesses; ++a) {
    const model *m = w->models.at[j->access[a].buffer->id];
    stores[a] = (store){m->value, m->defined, m->buffer.extent};
    forget(j, a, &stores[a]);
  }
  run_units(j, &j->range, stores);
}

static void job_gone(cel_work *work) {
  require(work->references == 0);
}

/* ---- carrying out -------------------------------------------------------- */

/* Behind the elements: whether there is memory for each. */
static uint8_t *committed_of(const cel_allocation *a) {
  require(a->address != NULL);
  return (uint8_t *)a->address + a->reserve;
}

static uint64_t *element_at(const cel_allocation *a, const int64_t p[3]) {
  require(committed_of(a)[index_in(&a->layout, p)]);
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

static void do_alloc(world *w, cel_allocation *a) {
  require(a->address == NULL);
  require(a->reserve == (uint64_t)cel_box_volume(&a->layout) * 8);
  a->address = malloc(a->reserve + a->reserve / 8);
  memset(a->address, (int)cel_random_int(&w->random, 1, 255), a->reserve);
  memset(committed_of(a), is_whole(w, a), a->reserve / 8);
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
    committed[i] = true;
  }
  total.repeated += !news;
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
    committed[i] = false;
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

/* Of one device, where the message is long enough and no host task asks. */
static bool may_be_direct(const world *w, const cel_instr *instr) {
  return w->near && w->devices == 1 && w->device_memory[0] != CEL_MEMORY_HOST &&
         instr->task->kind != CEL_TASK_HOST &&
         instr->message.bytes >= DIRECT_BYTES;
}

static void do_message(const world *w, const cel_instr *instr) {
  bool out = instr->kind == CEL_INSTR_SEND;
  const parcel *parcel =
      &(out ? w->sent.at : w->received.at)[instr->message.sequence];
  size_t i = 0;
  require(instr->message.direct == may_be_direct(w, instr));
  for (uint32_t n = 0; n < instr->message.pieces; ++n) {
    const cel_place_in *piece = &instr->message.piece[n];
    require(piece->allocation->memory ==
            (instr->message.direct ? w->device_memory[0] : CEL_MEMORY_HOST));
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
  require(instr->message.bytes == i * 8);
}

/* What others give is the same for all: here it is given at once. */
static void do_collective(const world *w, const cel_instr *instr) {
  const cel_exchange *x = instr->collective.exchange;
  const cel_place_in *whole = &instr->collective.place;
  const parcel *parcel = &w->exchanged.at[x->nth];
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

static void do_bound(world *w, const cel_instr *instr) {
  w->last_done_bound = instr->id;
  /* Everything before it has been done. */
  for (uint64_t id = 1; id < instr->id; ++id)
    require(w->instr.at[id - 1] == NULL);
  if (cel_random_chance(&w->random, 70)) {
    cel_instr_graph_retire(w->instrs, instr->id);
    cel_task_graph_retire(w->tasks, w->task_of_bound.at[instr->id - 1]);
  }
}

static void carry_out(world *w, uint64_t id) {
  const cel_instr *instr = w->instr.at[id - 1];
  w->instr.at[id - 1] = NULL;
  ++w->done;
  ++total.kinds[instr->kind];
  switch (instr->kind) {
  case CEL_INSTR_ALLOC: do_alloc(w, instr->memory.allocation); break;
  case CEL_INSTR_COMMIT: do_commit(w, instr); break;
  case CEL_INSTR_DECOMMIT: do_decommit(w, instr); break;
  case CEL_INSTR_FREE: do_free(w, instr->memory.allocation); break;
  case CEL_INSTR_INIT: do_init(instr); break;
  case CEL_INSTR_COPY: do_copy(instr); break;
  case CEL_INSTR_KERNEL:
  case CEL_INSTR_HOST: do_run(w, instr); break;
  case CEL_INSTR_RELEASE: require(false); break; /* no task has objects */
  case CEL_INSTR_SEND:
  case CEL_INSTR_RECEIVE: do_message(w, instr); break;
  case CEL_INSTR_COLLECTIVE: do_collective(w, instr); break;
  case CEL_INSTR_JOIN: break;
  case CEL_INSTR_HORIZON:
  case CEL_INSTR_EPOCH: do_bound(w, instr); break;
  }
}

static bool is_ready(const world *w, const cel_instr *instr) {
  for (uint32_t i = 0; i < instr->deps; ++i)
    if (w->instr.at[instr->dep[i].id - 1] != NULL) return false;
  return true;
}

/* Carries out one ready instruction, by the case's policy: any, the newest, or
 * the oldest. False when there is none. */
static bool step(world *w) {
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

/* ---- what comes out of the graphs ---------------------------------------- */

static void check_alloc(world *w, const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  if (instr->kind == CEL_INSTR_ALLOC) {
    for (uint32_t i = 0; i < w->allocations.n; ++i)
      total.resizes += w->allocations.at[i]->buffer == a->buffer &&
                       w->allocations.at[i]->memory == a->memory;
    cel_vec_push(&w->allocations, a);
    return;
  }
  for (uint32_t i = 0; i < w->allocations.n; ++i)
    if (w->allocations.at[i] == a) {
      cel_vec_swap_out(&w->allocations, i);
      return;
    }
  fail("frees what is not allocated");
}

/* A kernel and its like see a settled state. */
static void check_disjoint(const world *w) {
  for (uint32_t i = 0; i < w->allocations.n; ++i)
    for (uint32_t j = 0; j < i; ++j) {
      const cel_allocation *a = w->allocations.at[i], *b = w->allocations.at[j];
      if (a->buffer == b->buffer && a->memory == b->memory)
        require(!cel_box_meets(&a->layout, &b->layout));
    }
}

static void on_instr(void *context, const cel_instr *instr) {
  world *w = context;
  require(instr->id == w->instr.n + 1);
  bool bound =
      instr->kind == CEL_INSTR_HORIZON || instr->kind == CEL_INSTR_EPOCH;
  require(instr->deps > 0 || instr->id == 1);
  for (uint32_t i = 0; i < instr->deps; ++i) {
    require(instr->dep[i].id < instr->id);
    require(instr->dep[i].id >= w->horizons[0]);
  }
  if (instr->kind == CEL_INSTR_ALLOC || instr->kind == CEL_INSTR_FREE)
    check_alloc(w, instr);
  if (instr->kind == CEL_INSTR_KERNEL) check_disjoint(w);
  cel_vec_push(&w->instr, instr);
  cel_vec_push(&w->task_of_bound, bound ? instr->task->id : 0);
  if (!bound) return;
  w->horizons[0] = instr->kind == CEL_INSTR_EPOCH ? instr->id : w->horizons[1];
  w->horizons[1] = instr->id;
}

static cel_command *command_new(world *w, cel_command_kind kind,
                                const cel_task *task) {
  cel_command *command = cel_alloc_zero(sizeof *command);
  cel_vec_push(&w->commands, command);
  command->id = w->commands.n;
  command->kind = kind;
  command->task = task;
  return command;
}

/* As much as a task could need where all that it mentions is there, whole. */
static uint64_t most_needed(const world *w, const cel_task *task) {
  uint64_t sum = 0;
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_buffer *buffer = task->access[a].buffer;
    sum += (uint64_t)cel_box_volume(&buffer->extent) * 8 + w->block;
  }
  return sum;
}

/* A command may be refused that needs more than there is; then the run is at
 * its end. */
static void add(world *w, const cel_command *command) {
  if (w->full) return;
  cel_status status = cel_instr_graph_add(w->instrs, command);
  if (status == CEL_E_OK) return;
  if (status != CEL_E_MEMORY || w->capacity == 0)
    fail("%s", cel_error_last()->text);
  w->full = true;
  ++total.full;
  require(strstr(cel_error_last()->text, "at once") != NULL);
  const cel_task *task = command->task;
  if (command->kind == CEL_COMMAND_EXECUTE && !w->lookahead)
    require(most_needed(w, task) > w->capacity);
}

static void on_task(void *context, const cel_task *task) {
  world *w = context;
  static const cel_command_kind kinds[] = {
      [CEL_TASK_KERNEL] = CEL_COMMAND_EXECUTE,
      [CEL_TASK_HOST] = CEL_COMMAND_EXECUTE,
      [CEL_TASK_HORIZON] = CEL_COMMAND_HORIZON,
      [CEL_TASK_EPOCH] = CEL_COMMAND_EPOCH,
      [CEL_TASK_FREE] = CEL_COMMAND_FREE};
  cel_command *command = command_new(w, kinds[task->kind], task);
  command->chunk = task->range;
  w->last_task = task;
  add(w, command);
}

/* ---- random programs ----------------------------------------------------- */

static int64_t any(world *w, int64_t lo, int64_t hi) {
  return cel_random_int(&w->random, lo, hi);
}

static bool chance(world *w, int percent) {
  return cel_random_chance(&w->random, percent);
}

static model *model_new(world *w) {
  model *m = cel_alloc_zero(sizeof *m);
  int dims = (int)any(w, 0, 3);
  m->buffer.id = w->models.n;
  m->buffer.dims = dims;
  m->buffer.extent =
      cel_box_sized(dims > 0 ? any(w, 1, 9) : 1, dims > 1 ? any(w, 1, 6) : 1,
                    dims > 2 ? any(w, 1, 4) : 1);
  m->buffer.element_size = 8;
  m->buffer.name = "b";
  m->live = true;
  m->init = (cel_init){.fill = fill, .context = &m->buffer};
  if (chance(w, 50)) m->buffer.init = &m->init;
  size_t n = (size_t)cel_box_volume(&m->buffer.extent);
  m->value = cel_alloc_zero(n * sizeof *m->value);
  m->defined = cel_alloc_zero(n * sizeof *m->defined);
  if (m->buffer.init != NULL) each_point(p, &m->buffer.extent) {
      int64_t i = index_in(&m->buffer.extent, p);
      m->value[i] = first_value(&m->buffer, p);
      m->defined[i] = true;
    }
  cel_vec_push(&w->models, m);
  return m;
}

static model *model_any(world *w) {
  CEL_VEC(model *) live = {0};
  for (uint32_t i = 0; i < w->models.n; ++i)
    if (w->models.at[i]->live) cel_vec_push(&live, w->models.at[i]);
  model *m = live.at[any(w, 0, live.n - 1)];
  cel_vec_release(&live);
  return m;
}

/* Code of a rule as it is put together. */
typedef struct coder {
  cel_rule_desc desc;
  int64_t code[512];
  int64_t params[CEL_RULE_PARAMS];
} coder;

static void code_put(coder *c, int64_t word) {
  c->code[c->desc.code_length++] = word;
}

static void code_number(world *w, coder *c, int64_t number) {
  bool param = c->desc.params < CEL_RULE_PARAMS && chance(w, 30);
  code_put(c, param ? CEL_RULE_PARAM : CEL_RULE_CONST);
  code_put(c, param ? c->desc.params : number);
  if (param) c->params[c->desc.params++] = number;
}

/* factor * chunk.{min|max}[d] + offset */
static void code_chunk(world *w, coder *c, int op, int d, int64_t factor,
                       int64_t offset) {
  code_put(c, op);
  code_put(c, d);
  if (factor != 1) {
    code_put(c, CEL_RULE_CONST);
    code_put(c, factor);
    code_put(c, CEL_RULE_MUL);
  }
  if (offset == 0) return;
  code_number(w, c, offset);
  code_put(c, CEL_RULE_ADD);
}

static void code_dim(world *w, coder *c, int b, int j, bool writes,
                     const model *m, int task_dims) {
  int64_t extent = m->buffer.extent.max[j];
  int kind = (int)any(w, 0, writes ? 5 : 7);
  int d = j < task_dims && chance(w, 80) ? j : (int)any(w, 0, task_dims - 1);
  int64_t lo = any(w, 0, extent - 1), hi = any(w, lo, extent);
  int64_t shift = chance(w, 70) ? 0 : any(w, -2, 2);
  int64_t width = writes || chance(w, 40) ? 0 : any(w, -1, 2);
  int64_t factor = chance(w, 85) ? 1 : any(w, -1, 2);
  for (int side = 0; side < 2; ++side) {
    c->desc.start[b][j][side] = c->desc.code_length;
    int op = (side == 0) == (factor >= 0) ? CEL_RULE_MIN : CEL_RULE_MAX;
    if (kind == 0 || kind == 6) {
      code_number(w, c, side == 0 ? lo : hi);
    } else if (kind == 7) {
      code_put(c, side == 0 ? CEL_RULE_CONST : CEL_RULE_BUFFER);
      code_put(c, side == 0 ? 0 : j);
    } else {
      code_chunk(w, c, op, d, factor,
                 shift + (side == 0 ? -width : width) +
                     (factor < 0 ? extent : 0));
    }
    c->desc.length[b][j][side] =
        c->desc.code_length - c->desc.start[b][j][side];
  }
}

static void access_any(world *w, job *j, int task_dims) {
  uint32_t a = j->accesses;
  const model *m = model_any(w);
  cel_mode mode = (cel_mode)any(w, 0, 3);
  coder c = {.desc = {.task_dims = task_dims, .buffer_dims = m->buffer.dims}};
  bool writes = cel_mode_produces(mode);
  c.desc.boxes = writes || chance(w, 60) ? 1 : (int)any(w, 0, 3);
  for (int b = 0; b < c.desc.boxes; ++b) {
    c.desc.clamp[b] = chance(w, writes ? 50 : 80);
    for (int dim = 0; dim < m->buffer.dims; ++dim)
      code_dim(w, &c, b, dim, writes, m, task_dims);
  }
  c.desc.code = c.code;
  const cel_rule *rule;
  if (cel_rules_intern(w->rules, &c.desc, &rule) != CEL_E_OK)
    fail("%s", cel_error_last()->text);
  memcpy(j->params[a], c.params, sizeof c.params);
  j->access[a] =
      (cel_access){.buffer = &m->buffer,
                   .mode = mode,
                   .use = {rule, j->params[a], j->range, m->buffer.extent}};
  ++j->accesses;
}

/* Whether what one access writes is touched by another: the result would hang
 * on the order of the units. */
static bool races(const job *j) {
  bool bad = false;
  for (uint32_t a = 0; a < j->accesses; ++a)
    for (uint32_t b = 0; b < j->accesses; ++b) {
      if (a == b || j->access[a].buffer != j->access[b].buffer) continue;
      if (!cel_mode_produces(j->access[a].mode)) continue;
      cel_region ra = {0}, rb = {0};
      bool known =
          cel_rule_eval(&j->access[a].use, &j->range, &ra) == CEL_E_OK &&
          cel_rule_eval(&j->access[b].use, &j->range, &rb) == CEL_E_OK;
      cel_region_intersect(&ra, &ra, &rb);
      bad |= !known || ra.n > 0;
      cel_region_release(&ra);
      cel_region_release(&rb);
    }
  return bad;
}

static job *job_new(world *w) {
  job *j = cel_alloc_zero(sizeof *j);
  cel_vec_push(&w->jobs, j);
  j->work = (cel_work){.references = 1,
                       .fn = run_job,
                       .destroy = job_gone,
                       .hash = w->jobs.n,
                       .context = j};
  for (int d = 0; d < CEL_DIMS; ++d) j->permitted.granularity[d] = 1;
  return j;
}

static bool submit(world *w, job *j, cel_placement placement, int dims) {
  cel_weights weights = {.device = j->device_weight, .devices = 8};
  cel_group group = {.kind = j->kind,
                     .placement = placement,
                     .dims = dims,
                     .range = j->range,
                     .permitted = j->permitted,
                     .oversubscribe = j->oversubscribe,
                     .weights = j->weighted ? &weights : NULL,
                     .accesses = j->accesses,
                     .access = j->access,
                     .work = &j->work,
                     .name = "job",
                     .place = {"fuzz", 1}};
  uint64_t id;
  cel_status status = cel_task_graph_submit(w->tasks, &group, &id);
  if (status != CEL_E_OK) {
    ++total.refused;
    require(cel_error_last()->text[0] != '\0' && cel_error_last()->line == 1);
  }
  return status == CEL_E_OK;
}

/* Most random rules are refused; tries until one is taken. */
static void task_any(world *w) {
  for (int tries = 0; tries < 20; ++tries) {
    job *j = job_new(w);
    int dims = (int)any(w, 1, 3);
    for (int d = 0; d < CEL_DIMS; ++d) {
      j->range.min[d] = d < dims && chance(w, 30) ? any(w, 0, 2) : 0;
      j->range.max[d] =
          j->range.min[d] + (d < dims ? any(w, 1, d == 0 ? 9 : 4) : 1);
    }
    j->kind = chance(w, 75) ? CEL_TASK_KERNEL : CEL_TASK_HOST;
    j->permitted.cut[0] = chance(w, 80);
    if (chance(w, 30)) j->permitted.granularity[0] = any(w, 1, 3);
    if (dims > 1 && chance(w, 30)) j->permitted.cut[1] = true;
    if (chance(w, 30)) j->permitted.granularity[1] = any(w, 1, 2);
    if (chance(w, 30)) j->oversubscribe = (int32_t)any(w, 1, 4);
    j->weighted = chance(w, 30);
    for (int d = 0; d < 8; ++d) j->device_weight[d] = any(w, d == 0, 3);
    int64_t accesses = any(w, 1, ACCESSES);
    while (j->accesses < accesses) access_any(w, j, dims);
    if (races(j)) continue;
    bool once = chance(w, 15);
    if (!submit(w, j, once ? CEL_PLACE_ONCE : CEL_PLACE_SPLIT, dims)) continue;
    ++total.tasks;
    interpret(w, j);
    return;
  }
}

/* Compares a whole buffer, by a host task that reads all of it. */
static void check_buffer(world *w, const model *m) {
  coder c = {.desc = {.task_dims = 1, .buffer_dims = m->buffer.dims}};
  c.desc.boxes = 1;
  for (int d = 0; d < m->buffer.dims; ++d)
    for (int side = 0; side < 2; ++side) {
      c.desc.start[0][d][side] = c.desc.code_length;
      c.desc.length[0][d][side] = 2;
      code_put(&c, side == 0 ? CEL_RULE_CONST : CEL_RULE_BUFFER);
      code_put(&c, side == 0 ? 0 : d);
    }
  c.desc.code = c.code;
  const cel_rule *rule;
  require(cel_rules_intern(w->rules, &c.desc, &rule) == CEL_E_OK);
  job *j = job_new(w);
  j->kind = CEL_TASK_HOST;
  j->range = cel_box_sized(1, 1, 1);
  j->accesses = 1;
  j->access[0] =
      (cel_access){.buffer = &m->buffer,
                   .mode = CEL_MODE_READ,
                   .use = {rule, j->params[0], j->range, m->buffer.extent}};
  size_t n = (size_t)cel_box_volume(&m->buffer.extent);
  j->against = m;
  j->expect =
      memcpy(cel_alloc(n * sizeof *m->value), m->value, n * sizeof *m->value);
  j->expect_defined = memcpy(cel_alloc(n * sizeof *m->defined), m->defined,
                             n * sizeof *m->defined);
  require(submit(w, j, CEL_PLACE_ONCE, 1));
}

/* A message by hand: the interpreter sends what it holds and takes in what
 * arrives. Boxes of one message do not overlap. */
static void message_any(world *w) {
  bool out = chance(w, 50);
  cel_piece *piece = cel_alloc_zero(MESSAGE_PIECES * sizeof *piece);
  cel_vec_push(&w->pieces, piece);
  uint32_t pieces = 0;
  size_t n = 0;
  for (int64_t i = any(w, 1, MESSAGE_PIECES); i > 0; --i) {
    const model *m = model_any(w);
    cel_box box;
    for (int d = 0; d < CEL_DIMS; ++d) {
      box.min[d] = any(w, 0, m->buffer.extent.max[d] - 1);
      box.max[d] = any(w, box.min[d] + 1, m->buffer.extent.max[d]);
    }
    bool meets = false;
    for (uint32_t p = 0; p < pieces; ++p)
      meets |=
          piece[p].buffer == &m->buffer && cel_box_meets(&piece[p].box, &box);
    if (meets) continue;
    piece[pieces++] = (cel_piece){&m->buffer, box};
    n += (size_t)cel_box_volume(&box);
  }
  parcel parcel = {cel_alloc(n * sizeof(uint64_t)), cel_alloc(n)};
  size_t at = 0;
  for (uint32_t p = 0; p < pieces; ++p) {
    const model *m = w->models.at[piece[p].buffer->id];
    each_point(x, &piece[p].box) {
      int64_t i = index_in(&m->buffer.extent, x);
      if (!out) m->value[i] = cel_random_next(&w->random);
      if (!out) m->defined[i] = true;
      parcel.value[at] = m->value[i];
      parcel.defined[at++] = m->defined[i];
    }
  }
  cel_command *command = command_new(
      w, out ? CEL_COMMAND_PUSH : CEL_COMMAND_AWAIT_PUSH, w->last_task);
  command->message = (cel_message){.peer = 1,
                                   .sequence = (out ? w->sent : w->received).n,
                                   .bytes = n * 8,
                                   .pieces = pieces,
                                   .piece = piece};
  if (out)
    cel_vec_push(&w->sent, parcel);
  else
    cel_vec_push(&w->received, parcel);
  add(w, command);
}

static cel_box box_any(world *w, const cel_box *within) {
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    box.min[d] = any(w, within->min[d], within->max[d] - 1);
    box.max[d] = any(w, box.min[d] + 1, within->max[d]);
  }
  return box;
}

/* A collective by hand: this rank gives some of a box, or nothing, or all. */
static void exchange_any(world *w) {
  model *m = model_any(w);
  cel_exchange *x = cel_alloc_zero(sizeof *x);
  cel_vec_push(&w->exchanges, x);
  *x = (cel_exchange){.pattern = CEL_PATTERN_BROADCAST,
                      .nth = w->exchanged.n,
                      .buffer = &m->buffer,
                      .box = box_any(w, &m->buffer.extent)};
  if (chance(w, 80)) x->mine = chance(w, 30) ? x->box : box_any(w, &x->box);
  x->place = x->box;
  x->gets = (uint32_t)cel_box_subtract(&x->place, &x->mine, x->get);
  size_t n = (size_t)cel_box_volume(&x->box), at = 0;
  parcel parcel = {cel_alloc(n * sizeof(uint64_t)), cel_alloc(n)};
  each_point(p, &x->box) {
    int64_t i = index_in(&m->buffer.extent, p);
    cel_box point = {{p[0], p[1], p[2]}, {p[0] + 1, p[1] + 1, p[2] + 1}};
    bool given = cel_box_meets(&point, &x->mine);
    if (!given) m->value[i] = cel_random_next(&w->random);
    if (!given) m->defined[i] = true;
    parcel.value[at] = m->value[i];
    parcel.defined[at++] = m->defined[i];
  }
  cel_vec_push(&w->exchanged, parcel);
  cel_command *command = command_new(w, CEL_COMMAND_COLLECTIVE, w->last_task);
  command->exchange = x;
  add(w, command);
}

static void act(world *w) {
  int64_t what = any(w, 0, 99);
  if (what < 55) {
    task_any(w);
  } else if (what < 60) {
    exchange_any(w);
  } else if (what < 75) {
    message_any(w);
  } else if (what < 80) {
    check_buffer(w, model_any(w));
  } else if (what < 84) {
    model *m = model_any(w);
    m->live = false;
    cel_task_graph_free(w->tasks, &m->buffer);
    model_new(w);
  } else if (what < 87) {
    cel_task_graph_epoch(w->tasks, (cel_place){0});
  } else if (what < 90) {
    cel_status status = w->full ? CEL_E_OK : cel_instr_graph_flush(w->instrs);
    require(status == CEL_E_OK || w->capacity != 0);
    w->full |= status != CEL_E_OK;
  }
  for (int64_t i = any(w, 0, 8); i > 0 && step(w);) --i;
}

/* ---- one case ------------------------------------------------------------ */

static void on_warning(void *context, const cel_task *task, const char *text) {
  world *w = context;
  (void)task;
  require(w->capacity != 0 && !w->warned && strstr(text, "buffer b") != NULL);
  w->warned = true;
  ++total.warned;
}

/* Room for less than one to all of the buffers. */
static void limit(world *w, cel_instr_graph_config *config) {
  w->block = w->grain << any(w, 0, 2);
  if (w->grain != 0 && chance(w, 50)) w->whole = (uint64_t)any(w, 1, 60) * 8;
  if (chance(w, 60))
    w->capacity =
        (uint64_t)any(w, 2, 6) * w->block + (uint64_t)any(w, 8, 60) * 8;
  config->grain = w->grain;
  config->whole = w->whole;
  config->block = w->block;
  for (int m = 1; m < CEL_MEMORIES; ++m) config->capacity[m] = w->capacity;
}

static void world_open(world *w, uint64_t seed) {
  *w = (world){.random = {seed}};
  w->rules = cel_rules_create();
  w->devices = chance(w, 50) ? 1 : (int32_t)any(w, 2, 4);
  for (int32_t d = 0; d < w->devices; ++d)
    w->device_memory[d] = (int32_t)(chance(w, 75) ? d + 1 : any(w, 0, 4));
  w->policy = (int)any(w, 0, 2);
  w->grain = chance(w, 40) ? 0 : 8ull << any(w, 0, 5);
  static const int64_t other = 1;
  w->near = chance(w, 60);
  w->lookahead = chance(w, 50);
  cel_instr_graph_config instrs = {.ranks = 2,
                                   .near = &other,
                                   .nears = w->near ? 1 : 0,
                                   .direct_bytes = DIRECT_BYTES,
                                   .devices = w->devices,
                                   .large_bytes = (uint64_t)any(w, 0, 3) * 40,
                                   .join_parts = (uint32_t)any(w, 0, 3),
                                   .lookahead = w->lookahead,
                                   .emit = on_instr,
                                   .warn = on_warning,
                                   .context = w};
  limit(w, &instrs);
  memcpy(instrs.device_memory, w->device_memory, sizeof w->device_memory);
  w->instrs = cel_instr_graph_create(&instrs);
  cel_task_graph_config tasks = {.ranks = 1,
                                 .horizon_step = (int32_t)any(w, 1, 5),
                                 .horizon_breadth = (int32_t)any(w, 2, 12),
                                 .emit = on_task,
                                 .context = w};
  w->tasks = cel_task_graph_create(&tasks);
  for (int i = 0; i < BUFFERS; ++i) model_new(w);
}

static void world_close(world *w) {
  for (uint32_t i = 0; i < w->allocations.n; ++i)
    free(w->allocations.at[i]->address);
  cel_instr_graph_destroy(w->instrs);
  cel_task_graph_destroy(w->tasks);
  cel_rules_destroy(w->rules);
  require(w->allocations.n == 0 || w->full);
  for (uint32_t i = 0; i < w->models.n; ++i) {
    cel_free(w->models.at[i]->value);
    cel_free(w->models.at[i]->defined);
    cel_free(w->models.at[i]);
  }
  for (uint32_t i = 0; i < w->jobs.n; ++i) {
    require(w->jobs.at[i]->work.references == 1);
    cel_free(w->jobs.at[i]->expect);
    cel_free(w->jobs.at[i]->expect_defined);
    cel_free(w->jobs.at[i]);
  }
  for (uint32_t i = 0; i < w->commands.n; ++i) cel_free(w->commands.at[i]);
  for (uint32_t i = 0; i < w->pieces.n; ++i) cel_free(w->pieces.at[i]);
  for (uint32_t i = 0; i < w->sent.n; ++i)
    cel_free(w->sent.at[i].value), cel_free(w->sent.at[i].defined);
  for (uint32_t i = 0; i < w->received.n; ++i)
    cel_free(w->received.at[i].value), cel_free(w->received.at[i].defined);
  for (uint32_t i = 0; i < w->exchanged.n; ++i)
    cel_free(w->exchanged.at[i].value), cel_free(w->exchanged.at[i].defined);
  for (uint32_t i = 0; i < w->exchanges.n; ++i) cel_free(w->exchanges.at[i]);
  cel_vec_release(&w->models);
  cel_vec_release(&w->jobs);
  cel_vec_release(&w->commands);
  cel_vec_release(&w->pieces);
  cel_vec_release(&w->sent);
  cel_vec_release(&w->received);
  cel_vec_release(&w->exchanged);
  cel_vec_release(&w->exchanges);
  cel_vec_release(&w->instr);
  cel_vec_release(&w->task_of_bound);
  cel_vec_release(&w->allocations);
}

static void run_case(uint64_t seed) {
  world w;
  seed_now = seed;
  world_open(&w, seed);
  for (int64_t i = any(&w, 3, w.capacity != 0 ? 80 : 40); i > 0 && !w.full; --i)
    act(&w);
  for (uint32_t i = 0; i < w.models.n; ++i)
    if (w.models.at[i]->live) check_buffer(&w, w.models.at[i]);
  for (uint32_t i = 0; i < w.models.n; ++i)
    if (w.models.at[i]->live)
      cel_task_graph_free(w.tasks, &w.models.at[i]->buffer);
  cel_task_graph_epoch(w.tasks, (cel_place){0});
  while (step(&w)) {
  }
  require(w.done == w.instr.n);
  world_close(&w);
}

int main(int argc, char **argv) {
  uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t i = 0; i < cases; ++i) run_case(first + i);
  printf("%" PRIu64 " cases, %" PRIu64 " tasks, %" PRIu64
         " refused groups; instructions:",
         cases, total.tasks, total.refused);
  for (int k = 0; k <= CEL_INSTR_EPOCH; ++k)
    printf(" %" PRIu64 " %s", total.kinds[k],
           cel_instr_name((cel_instr_kind)k));
  require(total.repeated * 20 <= total.kinds[CEL_INSTR_COMMIT]);
  printf("; %" PRIu64 " cases spilled, %" PRIu64 " had too little room\n",
         total.warned, total.full);
  return 0;
}
