/* turn_check -- what main, held back by horizons, waits for: a real engine.
 *
 * A chain of host tasks in one lane, with a horizon after each. The first ends
 * when main waits for its turn and nothing else happens, and the second when
 * main has got it: so the horizon after the first has to be told of although
 * the lane goes on. Run by turn_spec.lua.
 */
#include "bench/engine/alone.h"
#include "device/clock.h"
#include "runtime/internal.h"

enum { TASKS = 4, LOOKS = 4, NAP_NS = 100000 };

static const int64_t patience_ns = 60000000000;

static alone a;
static int64_t began;
static _Atomic(bool) has_turn;
static _Atomic(int) looks;

static bool is_late(void) {
  return cel_now_ns() - began > patience_ns;
}

/* Asked for whenever main wakes, and now and then. Something seems to move:
 * else it would come to suspect ranks of waiting, and wake the executor. */
static bool look(void) {
  ++looks;
  atomic_fetch_add(&a.engine->moves, 1);
  return false;
}

/* What main has submitted is in the lane: nobody has anything to do. The
 * scheduler has flushed, too, after which it wakes the executor once more. */
static bool is_still(void) {
  const cel_engine *e = a.engine;
  return looks >= LOOKS && atomic_load(&e->awaits_turn) &&
         cel_ring_empty(e->tasks) && cel_ring_empty(e->instrs) &&
         cel_park_asleep(&e->scheduler_park) && cel_park_asleep(&a.park);
}

static bool has_got_it(void) {
  return has_turn;
}

typedef struct held {
  cel_work work; /* first */
  bool (*until)(void);
} held;

static cel_status hold(const cel_work *work, const cel_call *call) {
  const held *h = (const held *)work;
  (void)call;
  while (!h->until() && !is_late())
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
  return CEL_E_OK;
}

int main(void) {
  cel_work work = {.references = 1, .fn = hold, .destroy = alone_keep};
  held first = {work, is_still}, others = {work, has_got_it};
  alone_open(&a, &(cel_engine_config){
                     .horizon_step = 1, .laps_ahead = 2, .interrupted = look});
  cel_object what = {.scope = CEL_SCOPE_RANK};
  cel_effect effect = {cel_engine_object(a.engine, &what),
                       CEL_ORDER_SEQUENTIAL};
  began = cel_now_ns();
  for (int i = 0; i < TASKS; ++i) {
    cel_group group = {.kind = CEL_TASK_HOST,
                       .range = cel_box_sized(1, 1, 1),
                       .permitted = {{false}, {1, 1, 1}},
                       .effects = 1,
                       .effect = &effect,
                       .work = i == 0 ? &first.work : &others.work};
    must(cel_engine_submit(a.engine, &group));
  }
  bool late = is_late();
  has_turn = true;
  must(cel_engine_barrier(a.engine, (cel_location){0}, NULL));
  alone_close(&a);
  puts(late ? "main waits for what the lane does next" : "main has its turn");
  return 0;
}
