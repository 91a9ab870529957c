/* executor_check issue [COUNT] | failure | memory
 *
 * The executor on random instruction graphs, over a backend and a transport
 * that check every issue against a model of what is complete. Run by
 * executor_spec.lua.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/vec.h"
#include "exec/executor.h"

enum {
  MOST = 400,
  MOST_DEPS = 6,
  DEVICES = 2,
  KERNEL_LANES = 2,
  COPY_LANES = 2
};

typedef struct state {
  bool posted; /* a chained message: the transport has it */
  bool issued, ran, back;
  bool done;        /* back, and all that it waits for */
  int device, lane; /* -1: none */
  uint64_t nth;     /* job of that lane */
} state;

/* What is under way somewhere, in the order of its issue. */
typedef struct flight {
  uint64_t id;
  int device, lane;
} flight;

static cel_random chosen;
static int count, eager, chained, spared, handed, crowded, late;
static uint32_t depth; /* of a lane; 0: the executor's own */
static uint64_t submitted[DEVICES][KERNEL_LANES + COPY_LANES];
static uint64_t in_lane[DEVICES][KERNEL_LANES + COPY_LANES][MOST + 1];
static bool before[MOST + 1][MOST + 1]; /* of a job: it begins after that one */
static cel_instr instrs[MOST + 1];
static cel_dep deps[MOST + 1][MOST_DEPS];
static cel_allocation allocations[MOST + 1];
static state states[MOST + 1];
static CEL_VEC(flight) flights, posted;
static CEL_VEC(uint64_t) messages;   /* tickets */
static cel_sent more[MOST + 1][3];   /* messages of a RECEIVE, but the first */
static uint32_t under_way[MOST + 1]; /* messages */
static uint64_t added, reached;
static cel_buffer buffer = {.dims = 1, .element_size = 8, .name = "b"};
static cel_backend backend;
static cel_transport transport;
static cel_status refuse = CEL_E_OK;
static uint64_t refused_from; /* on, ids */
static bool (*is_failing)(uint64_t id);
static uint64_t failed_id;

static void wrong(const char *what, uint64_t id) {
  printf("I%llu: %s\n", (unsigned long long)id, what);
  exit(1);
}

/* ---- the model ----------------------------------------------------------- */

static bool all_done(uint64_t id) {
  for (uint32_t i = 0; i < instrs[id].deps; ++i)
    if (!states[instrs[id].dep[i].id].done) return false;
  return true;
}

/* A message that goes to a lane. */
static bool is_chained(uint64_t id) {
  const cel_instr *instr = &instrs[id];
  return cel_instr_lane_of(instr->kind) == CEL_LANE_COMM &&
         instr->message.direct && backend.chains &&
         transport.messages.chain_bytes > 0;
}

static bool same_lane(const state *a, const state *b) {
  return a->device == b->device && a->lane == b->lane;
}

/* What it waits for is complete or in lanes: in its own one, unless the backend
 * chains. */
static void check_issue(uint64_t id, const state *to) {
  if (id > added) wrong("issued before it was added", id);
  if (states[id].issued) wrong("issued twice", id);
  for (uint32_t i = 0; i < instrs[id].deps; ++i) {
    const state *s = &states[instrs[id].dep[i].id];
    if (s->done) continue;
    if (to->lane < 0 || !s->issued || s->lane < 0 ||
        (!backend.chains && !same_lane(s, to)))
      wrong("issued too early", id);
    eager++;
  }
}

static void begin_after(uint64_t id, uint64_t other) {
  before[id][other] = true;
  for (int k = 1; k <= count; ++k) before[id][k] |= before[other][k];
}

static bool waits_for(uint64_t id, uint64_t other) {
  for (uint32_t i = 0; i < instrs[id].deps; ++i)
    if (instrs[id].dep[i].id == other) return true;
  return false;
}

/* Its `after` names jobs that it waits for, at most one of each other lane;
 * with these it begins after all that it waits for. */
static void check_afters(const cel_job *job, const state *to) {
  uint64_t id = job->ticket;
  memset(before[id], 0, sizeof before[id]);
  in_lane[to->device][to->lane][to->nth] = id;
  if (to->nth > 1) begin_after(id, in_lane[to->device][to->lane][to->nth - 1]);
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *a = &job->after[i];
    uint64_t other = in_lane[a->device][a->lane][a->nth];
    for (uint32_t k = 0; k < i; ++k)
      if (job->after[k].device == a->device && job->after[k].lane == a->lane)
        wrong("begins after a lane twice", id);
    if (a->device == to->device && a->lane == to->lane)
      wrong("begins after its own lane", id);
    if (a->nth == 0 || a->nth > submitted[a->device][a->lane] ||
        !waits_for(id, other) || states[other].done)
      wrong("begins after a wrong job", id);
  }
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *a = &job->after[i];
    begin_after(id, in_lane[a->device][a->lane][a->nth]);
    chained++;
  }
  bool waits[DEVICES][KERNEL_LANES + COPY_LANES] = {0};
  for (uint32_t i = 0; i < instrs[id].deps; ++i) {
    uint64_t other = instrs[id].dep[i].id;
    const state *s = &states[other];
    if (s->done) continue;
    if (!before[id][other]) wrong("does not begin after all", id);
    spared += !same_lane(s, to) && !waits[s->device][s->lane];
    waits[s->device][s->lane] = true;
  }
  spared -= (int)job->afters;
}

/* Whether no lane that suits it is full; of what is in no lane, always. */
static bool has_room(uint64_t id) {
  const cel_instr *instr = &instrs[id];
  bool kernel = instr->kind == CEL_INSTR_KERNEL;
  if (depth == 0 || (!kernel && instr->kind != CEL_INSTR_COPY)) return true;
  uint32_t load[DEVICES][2][2] = {0}; /* two lanes of each kind */
  for (uint32_t i = 0; i < flights.n; ++i) {
    const flight *f = &flights.at[i];
    load[f->device][f->lane >= KERNEL_LANES][f->lane % 2]++;
  }
  for (int d = 0; d < DEVICES; ++d)
    for (int l = 0; l < 2; ++l)
      if ((instr->device < 0 || instr->device == d) &&
          load[d][!kernel][l] >= depth)
        return false;
  return true;
}

/* As far as the executor must know: when it hears of a host job is its own and
 * the lanes' affair. */
static bool may_go(uint64_t id) {
  for (uint32_t i = 0; i < instrs[id].deps; ++i)
    if (instrs[instrs[id].dep[i].id].kind == CEL_INSTR_HOST) return false;
  return all_done(id);
}

static bool seen_at_issue(cel_instr_kind kind) {
  return kind != CEL_INSTR_HOST && kind != CEL_INSTR_INIT &&
         kind != CEL_INSTR_HORIZON && kind != CEL_INSTR_EPOCH;
}

/* Nothing of a higher priority, or as high and older, could have gone. What
 * waited for room in a lane goes when there is some. */
static void check_priority(uint64_t id) {
  for (uint64_t k = 1; k <= added; ++k) {
    if (states[k].issued || states[k].posted || k == id ||
        !seen_at_issue(instrs[k].kind))
      continue;
    cel_instr_lane lane = cel_instr_lane_of(instrs[k].kind);
    if (depth > 0 && (lane == CEL_LANE_COPY || lane == CEL_LANE_DEVICE))
      continue;
    int32_t mine = instrs[id].priority, other = instrs[k].priority;
    if ((other > mine || (other == mine && k < id)) && may_go(k))
      wrong("went before one of a higher priority", id);
  }
}

static const state nowhere = {.issued = true, .device = -1, .lane = -1};

/* Ids of dependencies are lower. */
static void come_back(uint64_t id) {
  states[id].back = true;
  for (uint64_t k = id; k <= added; ++k)
    if (states[k].back && all_done(k)) states[k].done = true;
}

static void note_issue(uint64_t id, const state *to) {
  check_issue(id, to);
  if (!states[id].posted) check_priority(id);
  states[id] = *to;
}

/* Whether all that it waits for was issued to lanes; to one that suits it,
 * unless the backend chains. */
static bool may_follow(uint64_t id) {
  const cel_instr *instr = &instrs[id];
  const state *common = NULL;
  bool kernel = instr->kind == CEL_INSTR_KERNEL;
  if (!kernel && instr->kind != CEL_INSTR_COPY && !is_chained(id)) return false;
  for (uint32_t i = 0; i < instr->deps; ++i) {
    const state *s = &states[instr->dep[i].id];
    if (s->done && instrs[instr->dep[i].id].kind != CEL_INSTR_HOST) continue;
    if (s->done || !s->issued || s->lane < 0) return false;
    if (common == NULL) common = s;
    if (!backend.chains && !same_lane(s, common)) return false;
  }
  if (backend.chains) return common != NULL;
  return common != NULL && (common->lane < KERNEL_LANES) == kernel &&
         (instr->device < 0 || instr->device == common->device);
}

/* Whatever could start has started. */
static void check_busy(void) {
  for (uint64_t k = 1; k <= added; ++k) {
    if (states[k].issued || states[k].posted) continue;
    bool follows = may_follow(k);
    bool goes = seen_at_issue(instrs[k].kind) && may_go(k);
    if (!has_room(k)) {
      crowded += follows || goes;
    } else if (follows || goes) {
      wrong(follows ? "could have followed" : "could have been issued", k);
    }
  }
}

/* ---- the fakes ----------------------------------------------------------- */

static uint64_t of_address(void *const *out) {
  const char *at = (const char *)out - offsetof(cel_allocation, address);
  return (uint64_t)((const cel_allocation *)(const void *)at - allocations);
}

static cel_status reserve(cel_backend *b, int32_t memory, uint64_t bytes,
                          void **out) {
  (void)b, (void)memory, (void)bytes;
  uint64_t id = of_address(out);
  note_issue(id, &nowhere);
  if (refuse != CEL_E_OK && id >= refused_from)
    return cel_fail(refuse, "there is none");
  *out = cel_alloc(bytes);
  states[id].done = true;
  return CEL_E_OK;
}

/* COMMIT k asks for the bytes from k on. */
static cel_status commit(cel_backend *b, int32_t memory, void *p,
                         uint64_t begin, uint64_t end) {
  (void)b, (void)p;
  if (memory != 1 || end != begin + 1) wrong("commits something else", begin);
  note_issue(begin, &nowhere);
  if (refuse != CEL_E_OK && begin >= refused_from)
    return cel_fail(refuse, "there is none");
  states[begin].done = true;
  return CEL_E_OK;
}

static void decommit(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                     uint64_t end) {
  (void)b, (void)p;
  if (memory != 1 || end != begin + 1)
    wrong("takes something back else", begin);
  note_issue(begin, &nowhere);
  states[begin].done = true;
}

static void release(cel_backend *b, int32_t memory, void *p, uint64_t bytes) {
  (void)b, (void)memory, (void)bytes;
  cel_free(p);
}

static void submit(cel_backend *b, int32_t device, int32_t lane, cel_job *job) {
  (void)b;
  bool kernel = instrs[job->ticket].kind == CEL_INSTR_KERNEL;
  if (kernel != (lane < KERNEL_LANES)) wrong("in a wrong lane", job->ticket);
  if (instrs[job->ticket].device >= 0 && instrs[job->ticket].device != device)
    wrong("on a wrong device", job->ticket);
  state to = {.issued = true, .device = device, .lane = lane};
  to.nth = ++submitted[device][lane];
  note_issue(job->ticket, &to);
  check_afters(job, &to);
  cel_vec_push(&flights, (flight){job->ticket, device, lane});
  uint32_t load = 0;
  for (uint32_t i = 0; i < flights.n; ++i)
    load += flights.at[i].device == device && flights.at[i].lane == lane;
  if (depth > 0 && load > depth) wrong("one too many in a lane", job->ticket);
}

static bool all_ran(uint64_t id) {
  for (uint32_t i = 0; i < instrs[id].deps; ++i) {
    const state *s = &states[instrs[id].dep[i].id];
    if (!s->done && !s->ran) return false;
  }
  return true;
}

/* Of a random lane, runs the oldest that has not run if it may, and hands over
 * the oldest that has. */
static uint32_t take_one(cel_done *out) {
  if (flights.n == 0) return 0;
  uint32_t pick = (uint32_t)cel_random_int(&chosen, 0, flights.n - 1);
  const state *lane = &states[flights.at[pick].id];
  uint32_t first = flights.n;
  for (uint32_t i = flights.n; i-- > 0;) {
    state *s = &states[flights.at[i].id];
    if (!same_lane(s, lane)) continue;
    first = i;
    pick = s->ran ? pick : i;
  }
  uint64_t id = flights.at[pick].id;
  if (!states[id].ran && all_ran(id)) states[id].ran = true;
  id = flights.at[first].id;
  if (!states[id].ran || cel_random_chance(&chosen, 40)) return 0;
  late += !all_done(id);
  memmove(flights.at + first, flights.at + first + 1,
          (--flights.n - first) * sizeof *flights.at);
  *out = (cel_done){.ticket = id};
  come_back(id);
  if (is_failing == NULL || !is_failing(id)) return 1;
  out->error = cel_alloc_zero(sizeof *out->error);
  out->error->code = CEL_E_TASK;
  return 1;
}

static uint32_t poll_backend(cel_backend *b, cel_done *out, uint32_t max) {
  (void)b;
  uint32_t n = 0;
  while (n < max && n < 3 && take_one(&out[n]) > 0) ++n;
  return n;
}

/* A chained one waits for what is in lanes there, once it is handed out. */
static void post(void *self, const cel_posted *message) {
  (void)self;
  static const state somewhere = {.device = 0, .lane = KERNEL_LANES};
  uint64_t id = cel_ticket_id(message->ticket);
  if (message->chained != is_chained(id)) wrong("chained, or not", id);
  if (message->chained) {
    check_issue(id, &somewhere);
    check_priority(id);
    states[id].posted = true;
    cel_vec_push(&posted, (flight){id, -1, -1});
    return;
  }
  if (under_way[id]++ == 0) note_issue(id, &nowhere);
  cel_vec_push(&messages, message->ticket);
}

static uint32_t hand_out(cel_transport *t, cel_chained *out, uint32_t max) {
  (void)t;
  if (max == 0 || posted.n == 0 || cel_random_chance(&chosen, 40)) return 0;
  uint32_t i = (uint32_t)cel_random_int(&chosen, 0, posted.n - 1);
  *out = (cel_chained){.ticket = posted.at[i].id};
  cel_vec_swap_out(&posted, i);
  ++handed;
  return 1;
}

static void let_go(void *self, void *context) {
  (void)self, (void)context;
}

static uint32_t poll_transport(cel_transport *t, cel_done *out, uint32_t max) {
  (void)t;
  if (max == 0 || messages.n == 0 || cel_random_chance(&chosen, 40)) return 0;
  uint32_t i = (uint32_t)cel_random_int(&chosen, 0, messages.n - 1);
  *out = (cel_done){.ticket = messages.at[i]};
  uint64_t id = cel_ticket_id(out->ticket);
  if (--under_way[id] == 0) come_back(id);
  cel_vec_swap_out(&messages, i);
  return 1;
}

static cel_status run_host(const cel_work *work, const cel_call *call) {
  (void)work;
  uint64_t id = (uint64_t)call->chunk.min[0];
  check_issue(id, &nowhere);
  states[id].issued = states[id].done = true;
  return CEL_E_OK;
}

static void completed(void *context, const cel_instr *instr) {
  (void)context;
  if (!all_done(instr->id)) wrong("reached too early", instr->id);
  states[instr->id].issued = states[instr->id].done = true;
  reached = instr->id;
}

static void failed(void *context, const cel_instr *instr,
                   const cel_error *error) {
  (void)context;
  if (failed_id != 0) wrong("reported after a failure", instr->id);
  if (refuse != CEL_E_OK && strcmp(error->text, "buffer b: there is none") != 0)
    wrong("does not name the buffer", instr->id);
  failed_id = instr->id;
}

/* ---- random graphs ------------------------------------------------------- */

static cel_work work = {.references = 1, .fn = run_host};
static cel_task task = {.id = 1, .work = &work};

static void add_dep(cel_instr *instr, uint64_t on) {
  for (uint32_t i = 0; i < instr->deps; ++i)
    if (instr->dep[i].id == on) return;
  if (instr->deps < MOST_DEPS)
    deps[instr->id][instr->deps++] = (cel_dep){on, CEL_DEP_TRUE};
}

static void depend(cel_instr *instr, uint64_t floor) {
  int n = (int)cel_random_int(&chosen, 0, MOST_DEPS - 2);
  for (int i = 0; i < n && instr->id > 1; ++i) {
    uint64_t low = instr->id > 8 ? instr->id - 8 : 1;
    if (low < floor) low = floor;
    add_dep(instr, (uint64_t)cel_random_int(&chosen, (int64_t)low,
                                            (int64_t)instr->id - 1));
  }
}

static void add_messages(cel_instr *receive) {
  cel_sent *last = &receive->message;
  for (int64_t n = cel_random_int(&chosen, 0, 3), i = 0; i < n; ++i) {
    more[receive->id][i] = (cel_sent){.peer = i + 1, .bytes = 1};
    last->next = &more[receive->id][i];
    last = &more[receive->id][i];
  }
}

/* Instruction k touches nothing; only its place in the graph matters. */
static void make_instr(uint64_t id, uint64_t floor) {
  static const cel_instr_kind kinds[] = {
      CEL_INSTR_KERNEL, CEL_INSTR_KERNEL, CEL_INSTR_KERNEL,  CEL_INSTR_COPY,
      CEL_INSTR_COPY,   CEL_INSTR_HOST,   CEL_INSTR_SEND,    CEL_INSTR_RECEIVE,
      CEL_INSTR_ALLOC,  CEL_INSTR_COMMIT, CEL_INSTR_DECOMMIT};
  enum { KINDS = sizeof kinds / sizeof kinds[0] };
  cel_instr *instr = &instrs[id];
  static cel_allocation none = {.buffer = &buffer, .memory = 1};
  none.address = &none;
  *instr = (cel_instr){.id = id, .task = &task, .dep = deps[id]};
  instr->kind = kinds[cel_random_int(&chosen, 0, KINDS - 1)];
  instr->priority = (int32_t)cel_random_int(&chosen, 0, 2);
  instr->device = (int32_t)cel_random_int(&chosen, 0, DEVICES - 1);
  if (instr->kind == CEL_INSTR_COPY && cel_random_chance(&chosen, 30))
    instr->device = -1;
  if (instr->kind == CEL_INSTR_COPY) {
    instr->copy.from = instr->copy.to = &none;
  } else if (instr->kind == CEL_INSTR_ALLOC) {
    allocations[id] = (cel_allocation){.buffer = &buffer, .reserve = 8};
    instr->memory.allocation = &allocations[id];
  } else if (instr->kind == CEL_INSTR_COMMIT ||
             instr->kind == CEL_INSTR_DECOMMIT) {
    instr->memory.allocation = &none;
    instr->memory.begin = id;
    instr->memory.end = id + 1;
  } else if (instr->kind <= CEL_INSTR_HOST) {
    instr->run.chunk = (cel_box){{(int64_t)id, 0, 0}, {(int64_t)id + 1, 1, 1}};
  }
  if (cel_instr_lane_of(instr->kind) == CEL_LANE_COMM) {
    instr->message.bytes = 1;
    instr->message.direct = cel_random_chance(&chosen, 60);
    if (instr->kind == CEL_INSTR_RECEIVE && !instr->message.direct)
      add_messages(instr);
  }
  depend(instr, floor);
}

/* A horizon after everything since the last one. */
static void make_horizon(uint64_t id, uint64_t last) {
  static cel_dep front[MOST + 1];
  instrs[id] = (cel_instr){.id = id, .kind = CEL_INSTR_HORIZON, .task = &task};
  instrs[id].dep = front + last;
  for (uint64_t k = last; k < id; ++k)
    front[last + instrs[id].deps++] = (cel_dep){k, CEL_DEP_ORDER};
}

static void make_graph(void) {
  uint64_t last = 1, floor = 1;
  memset(states, 0, sizeof states);
  count = (int)cel_random_int(&chosen, 20, MOST);
  for (uint64_t id = 1; id <= (uint64_t)count; ++id) {
    bool bound = id - last > 20 && cel_random_chance(&chosen, 20);
    if (bound || (int)id == count) {
      make_horizon(id, last);
      floor = last;
      last = id;
    } else {
      make_instr(id, floor);
    }
  }
}

/* ---- runs ---------------------------------------------------------------- */

static cel_executor *make_executor(cel_host_lanes **host) {
  backend = (cel_backend){.devices = DEVICES,
                          .kernel_lanes = KERNEL_LANES,
                          .copy_lanes = COPY_LANES,
                          .chains = cel_random_chance(&chosen, 70),
                          .puts = true,
                          .reserve = reserve,
                          .release = release,
                          .commit = commit,
                          .decommit = decommit,
                          .submit = submit,
                          .poll = poll_backend};
  depth = cel_random_chance(&chosen, 50)
              ? 0
              : (uint32_t)cel_random_int(&chosen, 1, 4);
  memset(submitted, 0, sizeof submitted);
  transport = (cel_transport){
      .messages = {.send = post,
                   .receive = post,
                   .chain_bytes = cel_random_chance(&chosen, 80),
                   .carry = let_go,
                   .unchain = let_go},
      .poll = poll_transport,
      .chained = hand_out};
  cel_host_config lanes = {
      .lanes = 1, .simulated = true, .seed = cel_random_next(&chosen)};
  *host = cel_host_lanes_create(&lanes);
  cel_executor_config config = {.ranks = 1,
                                .backend = &backend,
                                .host = *host,
                                .transport = &transport,
                                .lane_depth = depth,
                                .completed = completed,
                                .failed = failed};
  added = reached = failed_id = 0;
  flights.n = messages.n = posted.n = 0;
  memset(under_way, 0, sizeof under_way);
  return cel_executor_create(&config);
}

static void run_graph(void) {
  cel_host_lanes *host;
  make_graph();
  cel_executor *e = make_executor(&host);
  for (int idle = 0; reached < (uint64_t)count; ++idle) {
    if (idle > 100000) wrong("never reached", reached + 1);
    int64_t more = cel_random_int(&chosen, 0, 12);
    for (; more > 0 && added < (uint64_t)count; --more)
      cel_executor_add(e, &instrs[++added]);
    cel_executor_step(e);
    cel_executor_check(e);
    check_busy();
  }
  if (!cel_executor_quiet(e)) wrong("done, but not quiet", reached);
  cel_executor_destroy(e);
  cel_host_lanes_destroy(host);
}

static uint64_t issued(void) {
  uint64_t n = 0;
  for (int k = 1; k <= count; ++k) n += states[k].issued;
  return n;
}

/* Each makes the next one ready at once; still a step comes to an end, so that
 * completions and messages get their turn. */
static void check_bound(void) {
  cel_host_lanes *host;
  memset(states, 0, sizeof states);
  count = MOST;
  for (uint64_t id = 1; id <= MOST; ++id) {
    instrs[id] = (cel_instr){.id = id, .kind = CEL_INSTR_ALLOC, .task = &task};
    allocations[id] = (cel_allocation){.buffer = &buffer, .reserve = 8};
    instrs[id].memory.allocation = &allocations[id];
    instrs[id].dep = deps[id];
    if (id > 1) add_dep(&instrs[id], id - 1);
  }
  cel_executor *e = make_executor(&host);
  while (added < MOST) cel_executor_add(e, &instrs[++added]);
  for (uint64_t before = 0; before < MOST; before = issued()) {
    cel_executor_step(e);
    cel_executor_check(e);
    if (issued() == before) wrong("waits for nothing", before + 1);
    if (issued() - before > 256) wrong("too much in one step", issued());
  }
  cel_executor_destroy(e);
  cel_host_lanes_destroy(host);
}

static int check_issues(int n) {
  for (int seed = 1; seed <= n; ++seed) {
    chosen.state = (uint64_t)seed;
    run_graph();
  }
  check_bound();
  /* The lanes have to have done some of the waiting. */
  if (eager < n) wrong("eager issues are rare", (uint64_t)eager);
  if (chained < n) wrong("chained issues are rare", (uint64_t)chained);
  if (spared < n / 2) wrong("what it knows is rare", (uint64_t)spared);
  if (handed < n) wrong("chained messages are rare", (uint64_t)handed);
  if (late < n) wrong("what was waited for is never late", (uint64_t)late);
  if (crowded < n) wrong("full lanes are rare", (uint64_t)crowded);
  printf("%d graphs\n", n);
  return 0;
}

static bool fails_half(uint64_t id) {
  return id >= (uint64_t)count / 2;
}

/* After a failure nothing is issued, no host lane begins anything, and what
 * runs comes back. */
static int check_failure(void) {
  int failures = 0;
  for (int seed = 1; seed <= 200; ++seed) {
    cel_host_lanes *host;
    chosen.state = (uint64_t)seed;
    make_graph();
    cel_executor *e = make_executor(&host);
    is_failing = seed % 2 == 0 ? fails_half : NULL;
    refuse = seed % 2 == 0   ? CEL_E_OK
             : seed % 4 == 1 ? CEL_E_MEMORY
                             : CEL_E_FAULT; /* told when all jobs are back */
    refused_from = refuse == CEL_E_FAULT ? (uint64_t)count / 2 : 0;
    while (added < (uint64_t)count) cel_executor_add(e, &instrs[++added]);
    for (int i = 0; i < 100000 && failed_id == 0; ++i) {
      cel_executor_step(e);
      cel_executor_check(e);
    }
    if (failed_id == 0 && reached < (uint64_t)count)
      wrong("should have failed", (uint64_t)count);
    failures += failed_id != 0;
    uint64_t before = issued();
    for (int i = 0; i < 10000 && !cel_executor_quiet(e); ++i) {
      cel_executor_step(e);
      cel_executor_check(e);
    }
    if (before != issued()) wrong("issued after a failure", failed_id);
    if (!cel_executor_quiet(e)) wrong("not quiet after a failure", failed_id);
    cel_executor_destroy(e);
    cel_host_lanes_destroy(host);
  }
  if (failures < 100) wrong("failures are rare", (uint64_t)failures);
  printf("200 graphs\n");
  return 0;
}

static void add_memory(cel_executor *e, cel_instr_kind kind, uint64_t which,
                       uint64_t on) {
  uint64_t id = ++added;
  instrs[id] = (cel_instr){.id = id, .kind = kind, .task = &task};
  instrs[id].memory.allocation = &allocations[which];
  instrs[id].dep = deps[id];
  if (on > 0) add_dep(&instrs[id], on);
  cel_executor_add(e, &instrs[id]);
}

static cel_status reserve_any(cel_backend *b, int32_t memory, uint64_t bytes,
                              void **out) {
  (void)b, (void)memory;
  *out = cel_alloc(bytes);
  return CEL_E_OK;
}

/* An ALLOC that waits for the FREE of as much takes its memory over, one of
 * several; one of another size or another memory does not. */
static int check_memory(void) {
  cel_host_lanes *host;
  memset(states, 0, sizeof states);
  count = MOST;
  cel_executor *e = make_executor(&host);
  backend.reserve = reserve_any;
  for (int i = 1; i < 9; ++i)
    allocations[i] = (cel_allocation){.buffer = &buffer, .reserve = 8};
  allocations[3].reserve = 16;
  allocations[4].memory = 1;
  add_memory(e, CEL_INSTR_ALLOC, 1, 0);
  cel_executor_step(e);
  const void *first = allocations[1].address;
  add_memory(e, CEL_INSTR_FREE, 1, 1);
  add_memory(e, CEL_INSTR_ALLOC, 3, 2);
  add_memory(e, CEL_INSTR_ALLOC, 4, 2);
  add_memory(e, CEL_INSTR_ALLOC, 5, 2);
  add_memory(e, CEL_INSTR_ALLOC, 6, 2);
  while (!cel_executor_idle(e)) cel_executor_step(e);
  cel_executor_counts counts;
  cel_executor_count(e, &counts);
  bool by_one =
      (allocations[5].address == first) + (allocations[6].address == first) ==
      1;
  if (first == NULL || allocations[1].address != NULL || !by_one)
    wrong("is not handed on to one", 2);
  if (allocations[3].address == NULL || allocations[4].address == NULL)
    wrong("has no memory", 3);
  if (counts.allocations != 4) wrong("counts what is handed on", 2);
  /* Nobody waits: it goes, and comes anew. */
  add_memory(e, CEL_INSTR_FREE, 5, 5);
  add_memory(e, CEL_INSTR_FREE, 6, 6);
  cel_executor_step(e);
  add_memory(e, CEL_INSTR_ALLOC, 8, 7);
  while (!cel_executor_idle(e)) cel_executor_step(e);
  cel_executor_count(e, &counts);
  if (counts.allocations != 5) wrong("is still there", 7);
  cel_executor_destroy(e);
  cel_host_lanes_destroy(host);
  printf("5 allocations\n");
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "issue") == 0)
    return check_issues(argc > 2 ? atoi(argv[2]) : 300);
  if (strcmp(what, "failure") == 0) return check_failure();
  if (strcmp(what, "memory") == 0) return check_memory();
  fprintf(stderr, "executor_check issue [COUNT] | failure | memory\n");
  return 2;
}
