/* hush_check -- whom a lane wakes, and when: an executor over threads, of host
 * lanes or of the processor's.
 *
 * Jobs wait for gates, so that what is behind them is in the lane already when
 * they are done. Nothing here depends on how fast anything is. Run by
 * host_spec.lua.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exec/executor.h"

enum { CHAIN = 20, PATIENCE_US = 120000000 };

static cel_park gates, news, begins;
static _Atomic(int64_t) open_until; /* jobs below are let through */
static _Atomic(int64_t) begun;      /* the newest job that has */
static cel_instr instrs[CHAIN + 4];
static cel_dep deps[CHAIN + 4][2];
static uint64_t reached;

static void wrong(const char *what, uint64_t n) {
  printf("%s: %llu\n", what, (unsigned long long)n);
  exit(1);
}

static cel_status run(const cel_work *work, const cel_call *call) {
  (void)work;
  begun = call->chunk.min[0];
  cel_park_wake(&begins);
  for (;;) {
    uint32_t seen = cel_park_prepare(&gates);
    if (call->chunk.min[0] < open_until) return CEL_E_OK;
    cel_park_wait(&gates, seen, UINT32_MAX);
  }
}

static void let_through(int64_t n) {
  open_until = n;
  cel_park_wake(&gates);
}

static uint32_t poll_backend(cel_backend *b, cel_done *out, uint32_t max) {
  (void)b, (void)out, (void)max;
  return 0;
}

static uint32_t poll_transport(cel_transport *t, cel_done *out, uint32_t max) {
  (void)t, (void)out, (void)max;
  return 0;
}

static void decommit(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                     uint64_t end) {
  (void)b, (void)memory, (void)p, (void)begin, (void)end;
}

static void completed(void *context, const cel_instr *instr) {
  (void)context;
  reached = instr->id;
}

static cel_work work = {.references = 1, .fn = run};
static cel_task task = {.id = 1, .work = &work};
static cel_object object = {.id = 1, .scope = CEL_SCOPE_RANK};
static cel_effect exclusive = {&object, CEL_ORDER_EXCLUSIVE};
static cel_task alone = {
    .id = 2, .work = &work, .effects = 1, .effect = &exclusive};
static cel_backend backend = {
    .devices = 1, .poll = poll_backend, .decommit = decommit};
static cel_backend *processor; /* null: jobs are host tasks */
static cel_transport transport = {.ranks = 1, .poll = poll_transport};

/* Instruction `id`, after `after` if that is not 0, and so `also`. */
static cel_instr *make_after(uint64_t id, cel_instr_kind kind, uint64_t after,
                             uint64_t also) {
  deps[id][0] = (cel_dep){after, CEL_DEP_TRUE};
  deps[id][1] = (cel_dep){also, CEL_DEP_TRUE};
  instrs[id] = (cel_instr){.id = id,
                           .kind = kind,
                           .task = &task,
                           .dep = deps[id],
                           .deps = (after != 0) + (also != 0),
                           .run.chunk = cel_box_sized(1, 1, 1)};
  instrs[id].run.chunk.min[0] = (int64_t)id;
  instrs[id].run.chunk.max[0] = (int64_t)id + 1;
  return &instrs[id];
}

static cel_instr *make(uint64_t id, cel_instr_kind kind, uint64_t after) {
  return make_after(id, kind, after, 0);
}

/* What is done at once when its turn comes. */
static cel_instr *make_brief(uint64_t id, uint64_t after) {
  static cel_allocation nothing;
  cel_instr *instr = make(id, CEL_INSTR_DECOMMIT, after);
  instr->memory.allocation = &nothing;
  return instr;
}

static cel_instr_kind job_kind(void) {
  return processor != NULL ? CEL_INSTR_KERNEL : CEL_INSTR_HOST;
}

static void open_processor(void) {
  cel_backend_config config = {.devices = 1, .cores = 1, .park = &news};
  if (cel_backend_cpu(&config, &processor) != CEL_E_OK)
    wrong("there is no processor", 0);
  processor->decommit = decommit; /* see make_brief */
}

static void close_processor(void) {
  processor->destroy(processor);
  processor = NULL;
}

static cel_executor *begin(cel_host_lanes **host) {
  cel_host_config lanes = {
      .lanes = 2, .park = &news, .quiet_ns = INT64_MAX}; /* only when it must */
  *host = cel_host_lanes_create(&lanes);
  cel_executor_config config = {.ranks = 1,
                                .backend =
                                    processor != NULL ? processor : &backend,
                                .host = *host,
                                .transport = &transport,
                                .completed = completed};
  reached = 0;
  open_until = 0;
  begun = 0;
  return cel_executor_create(&config);
}

static void end(cel_executor *e, cel_host_lanes *host) {
  cel_executor_destroy(e);
  cel_host_lanes_destroy(host);
}

/* Until there was another wake than those before `seen`. */
static void await(uint32_t seen, const char *what) {
  cel_park_wait(&news, seen, PATIENCE_US);
  if (cel_park_prepare(&news) == seen) wrong(what, 0);
}

/* A chain is told of once, and horizons change nothing. */
static void check_chain(void) {
  enum { HALF = CHAIN / 2, BOUND = HALF + 1 };
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  for (uint64_t id = 1; id <= CHAIN + 1; ++id) {
    uint64_t after = id == BOUND + 1 ? HALF : id - 1;
    cel_executor_add(e, id == BOUND ? make(id, CEL_INSTR_HORIZON, HALF)
                                    : make(id, CEL_INSTR_HOST, after));
    cel_executor_step(e);
  }
  cel_executor_add(e,
                   make_after(CHAIN + 2, CEL_INSTR_HORIZON, CHAIN + 1, BOUND));
  cel_executor_add(e, make(CHAIN + 3, CEL_INSTR_EPOCH, CHAIN + 2));
  uint32_t before = cel_park_prepare(&news);
  let_through(CHAIN + 2);
  await(before, "a chain is not told of");
  while (cel_executor_step(e)) {
  }
  if (reached != CHAIN + 3) wrong("told of too early, after", reached);
  end(e, host);
  uint32_t wakes = cel_park_prepare(&news) - before;
  if (wakes != 1) wrong("wakes of a chain", wakes);
}

static void finish(cel_executor *e, cel_host_lanes *host) {
  let_through(CHAIN);
  for (;;) {
    uint32_t seen = cel_park_prepare(&news);
    if (cel_executor_step(e)) continue;
    if (cel_executor_idle(e)) break;
    await(seen, "the last job is not told of");
  }
  end(e, host);
}

/* What waits for a job through so many horizons alone waits for it, too. */
static void check_horizons(uint64_t horizons) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  uint64_t last = 1 + horizons;
  cel_executor_add(e, make(1, CEL_INSTR_HOST, 0));
  for (uint64_t id = 2; id <= last; ++id)
    cel_executor_add(e, make(id, CEL_INSTR_HORIZON, id - 1));
  cel_executor_add(e, make(last + 1, CEL_INSTR_HOST, 1));
  cel_executor_add(e, make_after(last + 2, CEL_INSTR_HORIZON, last, last + 1));
  while (cel_executor_step(e)) {
  }
  cel_executor_add(e, make_brief(last + 3, last));
  uint32_t seen = cel_park_prepare(&news);
  let_through(2);
  await(seen, "what something waits for through horizons is not told of");
  while (cel_executor_step(e)) {
  }
  if (reached != last) wrong("another horizon is reached", reached);
  finish(e, host);
}

/* Until the job has begun: what was before it in its lane is done. */
static void await_begin(int64_t id) {
  for (;;) {
    uint32_t seen = cel_park_prepare(&begins);
    if (begun == id) return;
    cel_park_wait(&begins, seen, PATIENCE_US);
    if (cel_park_prepare(&begins) == seen)
      wrong("does not begin", (uint64_t)id);
  }
}

/* Main waits for the horizon after a job which has another one behind it that
 * does not end: it begins to wait before the job is done, or `late`. */
static void check_expected(bool late) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  cel_executor_add(e, make(1, CEL_INSTR_HOST, 0));
  cel_executor_add(e, make(2, CEL_INSTR_HORIZON, 1));
  cel_executor_add(e, make(3, CEL_INSTR_HOST, 1));
  while (cel_executor_step(e)) {
  }
  uint32_t seen = cel_park_prepare(&news);
  if (!late && cel_host_lanes_expect(host, true)) wrong("what is done", 0);
  let_through(2);
  await_begin(3);
  if (!late) await(seen, "what main waits for is not told of");
  if (late && cel_park_prepare(&news) != seen) wrong("told of too early", 1);
  if (late && !cel_host_lanes_expect(host, true))
    wrong("main is not told of what is done", 1);
  while (cel_executor_step(e)) {
  }
  if (reached != 2) wrong("the horizon is not reached, but", reached);
  cel_host_lanes_expect(host, false);
  finish(e, host);
}

/* Of two that exclude each other the second begins when the first is done,
 * though that has something behind it. */
static void check_conflict(void) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  for (uint64_t id = 1; id <= 2; ++id) {
    cel_instr *instr = make(id, CEL_INSTR_HOST, 0);
    instr->task = &alone;
    cel_executor_add(e, instr);
  }
  while (cel_executor_step(e)) {
  }
  cel_executor_add(e, make(3, CEL_INSTR_HOST, 1));
  while (cel_executor_step(e)) {
  }
  uint32_t seen = cel_park_prepare(&news);
  let_through(2);
  await(seen, "what excludes another is not told of");
  finish(e, host);
}

/* What is behind a job runs on while something else waits for that: it is told
 * of at once. `late`: that comes when the other is in the lane. */
static void check_other(bool late) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  cel_executor_add(e, make(1, job_kind(), 0));
  if (!late) cel_executor_add(e, make_brief(2, 1));
  cel_executor_add(e, make(2 + !late, job_kind(), 1));
  while (cel_executor_step(e)) {
  }
  if (late) cel_executor_add(e, make_brief(3, 1));
  uint32_t seen = cel_park_prepare(&news);
  let_through(2);
  await(seen, "a job that something waits for is not told of");
  if (!cel_executor_step(e)) wrong("woken for nothing", 0);
  seen = cel_park_prepare(&news);
  let_through(4);
  await(seen, "the last job is not told of");
  cel_executor_step(e);
  if (!cel_executor_idle(e)) wrong("something is left", 0);
  end(e, host);
}

/* Of a chain of kernels, not each is told of. */
static void check_kernels(void) {
  cel_host_lanes *host;
  open_processor();
  cel_executor *e = begin(&host);
  for (uint64_t id = 1; id <= CHAIN; ++id)
    cel_executor_add(e, make(id, job_kind(), id - 1));
  while (cel_executor_step(e)) {
  }
  uint32_t before = cel_park_prepare(&news);
  let_through(CHAIN + 1);
  while (!cel_executor_idle(e)) {
    uint32_t seen = cel_park_prepare(&news);
    if (!cel_executor_step(e)) await(seen, "the last kernel is not told of");
  }
  uint32_t wakes = cel_park_prepare(&news) - before;
  if (wakes >= CHAIN) wrong("wakes of a chain of kernels", wakes);
  end(e, host);
  close_processor();
}

static void check_other_kernel(bool late) {
  open_processor();
  check_other(late);
  close_processor();
}

/* What comes back after a failure is still known to what is added then. */
static void check_failure(void) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  cel_executor_add(e, make(1, CEL_INSTR_HOST, 0));
  while (cel_executor_step(e)) {
  }
  await_begin(1);
  cel_executor_halt(e);
  let_through(2);
  while (!cel_executor_quiet(e)) {
    uint32_t seen = cel_park_prepare(&news);
    if (!cel_executor_step(e)) await(seen, "a job is not told of");
  }
  cel_executor_add(e, make(2, CEL_INSTR_HOST, 1));
  while (cel_executor_step(e)) {
  }
  if (begun != 1) wrong("begun after a failure", 2);
  end(e, host);
}

int main(void) {
  cel_park_init(&gates);
  cel_park_init(&news);
  cel_park_init(&begins);
  check_chain();
  check_other(false);
  check_other(true);
  check_kernels();
  check_other_kernel(false);
  check_other_kernel(true);
  for (uint64_t horizons = 1; horizons <= 3; ++horizons)
    check_horizons(horizons);
  check_expected(false);
  check_expected(true);
  check_conflict();
  check_failure();
  printf("told\n");
  return 0;
}
