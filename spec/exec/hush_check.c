/* hush_check -- whom a host lane wakes, and when: an executor over threads.
 *
 * Jobs wait for gates, so that what is behind them is in the lane already when
 * they are done. Nothing here depends on how fast anything is. Run by
 * host_spec.lua.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exec/executor.h"

enum { CHAIN = 20, PATIENCE_US = 120000000 };

static cel_park gates, news;
static _Atomic(int64_t) open_until; /* jobs below are let through */
static cel_instr instrs[CHAIN + 2];
static cel_dep deps[CHAIN + 2];
static uint64_t reached;

static void wrong(const char *what, uint64_t n) {
  printf("%s: %llu\n", what, (unsigned long long)n);
  exit(1);
}

static cel_status run(const cel_work *work, const cel_call *call) {
  (void)work;
  for (;;) {
    uint32_t seen = cel_park_look(&gates);
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

static void completed(void *context, const cel_instr *instr) {
  (void)context;
  reached = instr->id;
}

static cel_work work = {.references = 1, .fn = run};
static cel_task task = {.id = 1, .work = &work};
static cel_backend backend = {.devices = 1, .poll = poll_backend};
static cel_transport transport = {.ranks = 1, .poll = poll_transport};

/* Instruction `id`, after `after` if that is not 0. */
static const cel_instr *make(uint64_t id, cel_instr_kind kind, uint64_t after) {
  deps[id] = (cel_dep){after, CEL_DEP_TRUE};
  instrs[id] = (cel_instr){.id = id,
                           .kind = kind,
                           .task = &task,
                           .dep = &deps[id],
                           .deps = after != 0,
                           .run.chunk = cel_box_sized(1, 1, 1)};
  instrs[id].run.chunk.min[0] = (int64_t)id;
  instrs[id].run.chunk.max[0] = (int64_t)id + 1;
  return &instrs[id];
}

static cel_executor *begin(cel_host_lanes **host) {
  cel_host_config lanes = {
      .lanes = 2, .park = &news, .quiet_ns = INT64_MAX}; /* only when it must */
  *host = cel_host_lanes_create(&lanes);
  cel_executor_config config = {.ranks = 1,
                                .backend = &backend,
                                .host = *host,
                                .transport = &transport,
                                .completed = completed};
  reached = 0;
  open_until = 0;
  return cel_executor_create(&config);
}

static void end(cel_executor *e, cel_host_lanes *host) {
  cel_executor_destroy(e);
  cel_host_lanes_destroy(host);
}

/* Until there was another wake than those before `seen`. */
static void await(uint32_t seen, const char *what) {
  cel_park_wait(&news, seen, PATIENCE_US);
  if (cel_park_look(&news) == seen) wrong(what, 0);
}

/* A chain is told of once. */
static void check_chain(void) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  for (uint64_t id = 1; id <= CHAIN; ++id) {
    cel_executor_add(e, make(id, CEL_INSTR_HOST, id - 1));
    cel_executor_step(e);
  }
  cel_executor_add(e, make(CHAIN + 1, CEL_INSTR_HORIZON, CHAIN));
  uint32_t before = cel_park_look(&news);
  let_through(CHAIN + 1);
  await(before, "a chain is not told of");
  while (cel_executor_step(e)) {
  }
  if (reached != CHAIN + 1) wrong("told of too early, after", reached);
  end(e, host);
  uint32_t wakes = cel_park_look(&news) - before;
  if (wakes != 1) wrong("wakes of a chain", wakes);
}

/* What is behind a job runs on while something else waits for that: it is told
 * of at once. `late`: that comes when the other is in the lane. */
static void check_other(bool late) {
  cel_host_lanes *host;
  cel_executor *e = begin(&host);
  cel_executor_add(e, make(1, CEL_INSTR_HOST, 0));
  if (!late) cel_executor_add(e, make(2, CEL_INSTR_JOIN, 1));
  cel_executor_add(e, make(2 + !late, CEL_INSTR_HOST, 1));
  while (cel_executor_step(e)) {
  }
  if (late) cel_executor_add(e, make(3, CEL_INSTR_JOIN, 1));
  uint32_t seen = cel_park_look(&news);
  let_through(2);
  await(seen, "a job that something waits for is not told of");
  if (!cel_executor_step(e)) wrong("woken for nothing", 0);
  seen = cel_park_look(&news);
  let_through(4);
  await(seen, "the last job is not told of");
  cel_executor_step(e);
  if (!cel_executor_idle(e)) wrong("something is left", 0);
  end(e, host);
}

int main(void) {
  cel_park_init(&gates);
  cel_park_init(&news);
  check_chain();
  check_other(false);
  check_other(true);
  printf("told\n");
  return 0;
}
