/* lanes_check -- host lanes, with threads: each job is done once, in a lane
 * that was entered. Run by host_spec.lua.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exec/host.h"

static void wrong(const char *what, uint64_t id) {
  printf("job %llu: %s\n", (unsigned long long)id, what);
  exit(1);
}

static _Atomic int entered, left, running, most_running, strange;

static void *enter_lane(void *context) {
  (void)context;
  ++entered;
  return cel_alloc(1);
}

static void leave_lane(void *context, void *kept) {
  (void)context;
  ++left;
  if (kept != cel_host_lane_state()) ++strange;
  cel_free(kept);
}

static cel_status run_lane(const cel_work *w, const cel_call *call) {
  (void)w;
  int now = ++running;
  if (now > most_running) most_running = now;
  if (cel_host_lane_state() == NULL) ++strange;
  for (volatile int i = 0; i < 2000; ++i) {
  }
  --running;
  return call->chunk.min[0] % 10 == 0 ? cel_fail(CEL_E_TASK, "tenth")
                                      : CEL_E_OK;
}

int main(void) {
  enum { JOBS = 2000, LANES = 3 };
  static cel_work lane_work = {.references = 1, .fn = run_lane};
  static cel_job jobs[JOBS];
  static int seen[JOBS];
  cel_park park;
  cel_park_init(&park);
  cel_host_config config = {
      .lanes = LANES, .park = &park, .enter = enter_lane, .leave = leave_lane};
  cel_host_lanes *lanes = cel_host_lanes_create(&config);
  for (int i = 0; i < JOBS; ++i) {
    jobs[i] = (cel_job){
        .ticket = (uint64_t)i, .kind = CEL_JOB_CALL, .work = &lane_work};
    jobs[i].call.chunk = (cel_box){{i, 0, 0}, {i + 1, 1, 1}};
    cel_host_lanes_submit(lanes, &jobs[i], -1);
    if (i % 7 == 0 || i == JOBS - 1) cel_host_lanes_begin(lanes);
  }
  for (int n = 0; n < JOBS;) {
    cel_done done[16];
    uint32_t look = cel_park_prepare(&park);
    uint32_t got = cel_host_lanes_poll(lanes, done, 16);
    for (uint32_t i = 0; i < got; ++i) {
      seen[done[i].ticket]++;
      if ((done[i].error != NULL) != (done[i].ticket % 10 == 0))
        wrong("has another outcome", done[i].ticket);
      cel_free(done[i].error);
    }
    n += (int)got;
    if (got == 0) cel_park_wait(&park, look, UINT32_MAX);
  }
  cel_host_lanes_destroy(lanes);
  for (int i = 0; i < JOBS; ++i)
    if (seen[i] != 1) wrong("not done once", (uint64_t)i);
  if (entered != left || entered < 1 || entered > LANES || strange > 0)
    wrong("lanes entered and left", (uint64_t)entered);
  if (most_running > LANES) wrong("too many at once", (uint64_t)most_running);
  printf("%d jobs\n", JOBS);
  return 0;
}
