/* host.h -- host lanes: threads that run host tasks and initial contents.
 *
 * Each lane is one thread; a job with `work->lua` (or `init->lua`) runs in a
 * lane whose own lua_State the `enter` hook made. So does a kernel's work with
 * `lua` where the backend takes no such works. Jobs go to the least loaded
 * lane; those whose work has `objects` to one more, all to the same, where Lua
 * host objects live; and each group of collective tasks has a lane of its own,
 * which nothing else goes to, since what it runs may block until other ranks
 * come along.
 *
 * The simulated form has no threads and runs a job inside poll, in an order
 * chosen by the seed. A collective task that would block fails with CEL_E_AGAIN
 * there, and is run again later. Where threads could run two jobs at once whose
 * effects exclude each other, that is a bug there.
 */
#ifndef CEL_EXEC_HOST_H
#define CEL_EXEC_HOST_H

#include "comm/transport.h"

typedef struct cel_host_lanes cel_host_lanes;

typedef struct cel_host_config {
  int32_t lanes; /* threads; started when first needed, as are all others */
  bool simulated;
  uint64_t seed;
  /* Nothing is run: a job is complete once it has been submitted, and its
   * work's stand-in has been called. */
  bool dry;
  cel_park *park; /* woken at completions, see cel_host_lanes_hush */
  /* Whose communicators groups join, each in its own lane before its first
   * task; outlives the lanes. Null where there are no collective tasks. */
  cel_transport *transport;
  bool forgiving;   /* what follows a job that fails is run all the same */
  bool timed;       /* fills in begin and end of its jobs, see cel_job */
  int64_t quiet_ns; /* see cel_host_lanes_hush; 0: some 50 us */
  /* Makes and frees what a lane keeps for itself (a lua_State); both run in
   * the lane's thread; may be null. A work's fn finds it by
   * cel_host_lane_state(). */
  void *(*enter)(void *context);
  void (*leave)(void *context, void *state);
  void *context;
} cel_host_config;

cel_host_lanes *cel_host_lanes_create(const cel_host_config *config);
/* Waits for the jobs that run; drops the rest. */
void cel_host_lanes_destroy(cel_host_lanes *lanes);
/* Hands a job over, to lane `after` if that is not -1. Returns its lane, -1 if
 * nothing can follow it there; each lane runs its jobs in the order in which
 * they came, and after one that failed none that follows. Thread: executor. */
int32_t cel_host_lanes_submit(cel_host_lanes *lanes, cel_job *job,
                              int32_t after);
/* Where threads share cores, jobs may lie in lanes that sleep until this is
 * called: a lane that was woken for the first would take the core. Thread:
 * executor. */
void cel_host_lanes_begin(cel_host_lanes *lanes);
/* Whether a job of that work, number `own`, is to go into the lane of job
 * `ticket` while that is under way, to begin after it: where it must go anyway,
 * or where nobody else does. Thread: executor. */
bool cel_host_lanes_follow(cel_host_lanes *lanes, const cel_work *work,
                           int32_t after, uint64_t ticket, uint64_t own);
/* Whether all that waits for a job is behind it in its lane; or, with
 * `holds_horizon`, but for horizons and epochs. Then nobody is woken when it is
 * done, as long as the lane goes on with another and quiet_ns have not passed
 * since somebody was: it comes back with the next. What a chain costs is that
 * of its jobs, and not a switch of threads for each. Thread: executor. */
void cel_host_lanes_hush(cel_host_lanes *lanes, cel_job *job, bool quiet,
                         bool holds_horizon);
/* Whether main waits for horizons: then jobs that those wait for are told of at
 * once, too, however long the next in their lane takes. What had been done by
 * then may not have been told of: true, and the caller wakes the executor.
 * Thread: main. */
bool cel_host_lanes_expect(cel_host_lanes *lanes, bool horizons);
/* Jobs that no lane has begun come back without having been run. Thread:
 * executor. */
void cel_host_lanes_drop(cel_host_lanes *lanes);
uint32_t cel_host_lanes_poll(cel_host_lanes *lanes, cel_done *out,
                             uint32_t max);
/* The calling lane's state, null outside a lane. Thread: worker. */
void *cel_host_lane_state(void);
/* Makes `state` that of a thread which is no host lane: a device's, see
 * cel_backend_config. Thread: worker. */
void cel_host_lane_adopt(void *state);
#endif
