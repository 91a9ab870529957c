/* lend_check -- main does the executor's work while it waits: a real engine.
 *
 * Epochs and small fences are waited for without a switch of threads. What main
 * leaves under way goes on without it, whichever thread was the executor when
 * the last news came. Run by lend_spec.lua.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <sys/resource.h>

#include "bench/engine/alone.h"
#include "device/clock.h"

enum { WAITS = 1000, ROUNDS = 200, NAP_NS = 20000 };

static const int64_t patience_ns = 60000000000;

static alone a;
static const cel_buffer *buffer, *other;
static const cel_rule *rule;
static int64_t began;
static _Atomic(int) let_go, done; /* rounds */

static bool is_late(void) {
  return cel_now_ns() - began > patience_ns;
}

static void wait_for(const _Atomic(int) *round, int least) {
  while (*round < least && !is_late())
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

typedef struct round_work {
  cel_work work; /* first */
  int round;
} round_work;

static cel_status hold(const cel_work *work, const cel_call *call) {
  (void)call;
  wait_for(&let_go, ((const round_work *)work)->round);
  return CEL_E_OK;
}

static cel_status end(const cel_work *work, const cel_call *call) {
  (void)call;
  done = ((const round_work *)work)->round;
  return CEL_E_OK;
}

/* Long enough that main sleeps, and its news find main in the executor's place.
 */
static cel_status add_one(const cel_work *work, const cel_call *call) {
  (void)work;
  nanosleep(&(struct timespec){0, 10 * NAP_NS}, NULL);
  ++*(int64_t *)call->view[0].base;
  return CEL_E_OK;
}

static void submit(cel_task_kind kind, const cel_buffer *of, cel_work *work) {
  cel_access access = {.buffer = of,
                       .mode = CEL_MODE_READ_WRITE,
                       .use = {rule, NULL, cel_box_sized(1, 1, 1), of->extent}};
  cel_group group = {.kind = kind,
                     .range = cel_box_sized(1, 1, 1),
                     .permitted = {{false}, {1, 1, 1}},
                     .accesses = 1,
                     .access = &access,
                     .work = work};
  must(cel_engine_submit(a.engine, &group));
}

static int64_t fetch(void) {
  cel_fence *fence;
  const void *data;
  uint64_t size;
  must(cel_engine_fence(a.engine, buffer, &buffer->extent, (cel_location){0},
                        &fence));
  must(cel_engine_fence_get(a.engine, fence, NULL, &data, &size));
  int64_t value = *(const int64_t *)data;
  cel_fence_destroy(fence);
  return value;
}

/* Times that main has gone to sleep. */
static long sleeps(void) {
  struct rusage use;
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_nvcsw;
}

static void check_sleeps(const char *what, long before) {
  /* Its thread may be at work when main looks; hardly ever. */
  long n = sleeps() - before;
  if (n > WAITS / 10) printf("main slept %ld times in %d %s\n", n, WAITS, what);
}

int main(void) {
  alone_open(&a, &(cel_engine_config){0});
  static cel_init init = {.fill = alone_zero};
  const int64_t extent[3] = {1, 1, 1};
  buffer = cel_engine_buffer(a.engine, 0, extent, 8, 0, "n", &init, false);
  other = cel_engine_buffer(a.engine, 0, extent, 8, 0, "m", &init, false);
  cel_rule_box box = {.clamp = false};
  cel_rule_desc desc = {.boxes = 1, .box = &box};
  must(cel_rules_intern(cel_engine_rules(a.engine), &desc, &rule));
  fetch();

  long before = sleeps();
  for (int i = 0; i < WAITS; ++i)
    must(cel_engine_barrier(a.engine, (cel_location){0}, NULL));
  check_sleeps("epochs", before);
  before = sleeps();
  for (int i = 0; i < WAITS; ++i) fetch();
  check_sleeps("fences", before);

  /* A job that goes on while main waits for others, and one that waits for it.
   * By the first of the others the thread finds that main is in its place. */
  cel_work one = {.references = 1, .fn = add_one, .destroy = alone_keep};
  round_work quick = {{.references = 1, .fn = end, .destroy = alone_keep},
                      ROUNDS};
  static round_work first[ROUNDS], second[ROUNDS];
  began = cel_now_ns();
  for (int i = 0; i < ROUNDS; ++i) {
    cel_work held = {.references = 1, .fn = hold, .destroy = alone_keep};
    cel_work last = {.references = 1, .fn = end, .destroy = alone_keep};
    first[i] = (round_work){held, i + 1};
    second[i] = (round_work){last, i + 1};
    submit(CEL_TASK_HOST, other, &first[i].work);
    for (int k = 0; k < 2; ++k) submit(CEL_TASK_KERNEL, buffer, &one);
    submit(CEL_TASK_KERNEL, other, &second[i].work);
    if (fetch() != 2 * (i + 1)) puts("a fence came too early");
    let_go = i + 1;
    wait_for(&done, i + 1);
  }
  if (is_late()) puts("what main had left stood still");
  began = cel_now_ns();
  for (int i = 0; i < 2 * WAITS && !is_late(); ++i) {
    submit(CEL_TASK_KERNEL, other, &quick.work);
    must(cel_engine_barrier(a.engine, (cel_location){0}, NULL));
  }
  if (is_late()) puts("main looks now and then instead of being woken");
  must(cel_engine_barrier(a.engine, (cel_location){0}, NULL));
  alone_close(&a);
  puts("all done");
  return 0;
}
