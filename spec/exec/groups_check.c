/* groups_check -- lanes of collective tasks, of two ranks of one process.
 *
 * A call that blocks in one group holds up neither another group nor ordinary
 * host tasks, on its own rank or elsewhere; each group has one thread, and
 * takes its jobs in order. Run by host_spec.lua; a lane that is held up hangs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/host.h"

enum { RANKS = 2, EACH = 200, MOST = 2000 };

typedef struct job {
  cel_job job; /* its ticket is its index */
  int64_t nth; /* of the group's */
  pthread_t ran;
} job;

typedef struct rank {
  cel_transport *transport;
  cel_host_lanes *lanes;
  cel_park park;
  job jobs[MOST];
  bool back[MOST];
  cel_status status[MOST];
  int submitted, done;
} rank;

static rank ranks[RANKS];

static void wrong(const char *what) {
  printf("%s\n", what);
  exit(1);
}

/* Tells the other ranks which job of the group this is. */
static cel_status run_job(const cel_work *work, const cel_call *call) {
  (void)work;
  job *j = (job *)(uintptr_t)call->values;
  int64_t mine = j->nth, all[RANKS];
  j->ran = pthread_self();
  if (j->job.collective_group == 0)
    return call->comm == NULL ? CEL_E_OK : cel_fail(CEL_E_TASK, "talks");
  CEL_TRY(cel_comm_barrier(call->comm));
  CEL_TRY(cel_comm_gather(call->comm, &mine, sizeof mine, all, CEL_COMM_ALL));
  for (int k = 0; k < RANKS; ++k)
    if (all[k] != mine) return cel_fail(CEL_E_TASK, "out of order");
  return CEL_E_OK;
}

static cel_work work = {.references = 1, .fn = run_job};

static int submit(rank *r, uint32_t group, int64_t nth) {
  job *j = &r->jobs[r->submitted];
  *j = (job){.nth = nth};
  j->job = (cel_job){.ticket = (uint64_t)r->submitted,
                     .kind = CEL_JOB_CALL,
                     .collective_group = group,
                     .work = &work};
  j->job.call = (cel_call){.chunk = {{0}, {1, 1, 1}}, .values = j};
  cel_host_lanes_submit(r->lanes, &j->job, -1);
  cel_host_lanes_begin(r->lanes);
  return r->submitted++;
}

/* Until all but `left` of the rank's jobs are back. */
static void collect(rank *r, int left) {
  while (r->done < r->submitted - left) {
    cel_done done[16];
    uint32_t look = cel_park_prepare(&r->park);
    uint32_t n = cel_host_lanes_poll(r->lanes, done, 16);
    for (uint32_t i = 0; i < n; ++i) {
      r->back[done[i].ticket] = true;
      r->status[done[i].ticket] =
          done[i].error != NULL ? done[i].error->code : CEL_E_OK;
      cel_free(done[i].error);
    }
    r->done += (int)n;
    if (n == 0) cel_park_wait(&r->park, look, UINT32_MAX);
  }
}

static void start(void) {
  cel_transport *transports[RANKS];
  cel_inprocess_config config = {.ranks = RANKS, .threads = true};
  if (cel_transport_inprocess(&config, transports) != CEL_E_OK)
    wrong("no transport");
  for (int k = 0; k < RANKS; ++k) {
    rank *r = &ranks[k];
    memset(r, 0, sizeof *r);
    cel_park_init(&r->park);
    r->transport = transports[k];
    cel_host_config host = {
        .lanes = 1, .park = &r->park, .transport = r->transport};
    r->lanes = cel_host_lanes_create(&host);
  }
}

static void stop(void) {
  for (int k = 0; k < RANKS; ++k) cel_host_lanes_destroy(ranks[k].lanes);
  for (int k = 0; k < RANKS; ++k)
    ranks[k].transport->destroy(ranks[k].transport);
}

/* All jobs of a group ran in one thread, which ran nothing else. */
static void check_threads(const rank *r) {
  for (int i = 0; i < r->submitted; ++i)
    for (int k = 0; k < i; ++k) {
      const job *a = &r->jobs[i], *b = &r->jobs[k];
      bool same = pthread_equal(a->ran, b->ran) != 0;
      if (same != (a->job.collective_group == b->job.collective_group))
        wrong("jobs run in the wrong threads");
    }
}

/* Group 1 waits on rank 0 for rank 1, all the while that others work. */
static void check_apart(void) {
  start();
  int blocked = submit(&ranks[0], 1, 0);
  for (int i = 0; i < EACH; ++i)
    for (int k = 0; k < RANKS; ++k) {
      submit(&ranks[k], 2, i);
      submit(&ranks[k], 7, i);
      submit(&ranks[k], 0, i);
    }
  collect(&ranks[0], 1);
  collect(&ranks[1], 0);
  if (ranks[0].back[blocked]) wrong("a barrier let a rank through alone");
  submit(&ranks[1], 1, 0);
  collect(&ranks[0], 0);
  collect(&ranks[1], 0);
  for (int k = 0; k < RANKS; ++k) {
    for (int i = 0; i < ranks[k].submitted; ++i)
      if (ranks[k].status[i] != CEL_E_OK) wrong("a job failed");
    check_threads(&ranks[k]);
  }
  stop();
}

/* What a group has not begun is dropped; what waits for a rank that has ended
 * is let go. */
static void check_end(void) {
  start();
  rank *r = &ranks[0];
  int blocked = submit(r, 3, 0), behind = submit(r, 3, 1);
  cel_host_lanes_drop(r->lanes);
  r->transport->control.abort(r->transport->control.self, 1);
  collect(r, 0);
  if (r->status[behind] != CEL_E_OK) wrong("what was dropped has failed");
  /* The lane may have been too slow to begin even the first. */
  if (r->status[blocked] != CEL_E_CANCELLED && r->status[blocked] != CEL_E_OK)
    wrong("what waited failed otherwise");
  stop();
}

int main(void) {
  check_apart();
  check_end();
  printf("3 groups\n");
  return 0;
}
