/* crew.h -- threads that carry out the jobs of in-order lanes.
 *
 * A lane is a queue. One thread at a time owns a lane and runs its head; a
 * large kernel or copy is cut into blocks along its slowest dimensions, and
 * threads that have nothing better to do help with them. A job counts as large
 * when what is left of it would take its owner longer than waking a helper, and
 * as many are woken as that is worth: to wake sixty for a job of a hundred
 * microseconds takes longer than the job. Until then its owner joins blocks, as
 * each costs something. What a call usually takes (usual.h) spares the trial:
 * one that is light is not cut, of one that is heavy others have blocks at
 * once. Each thread begins with a range of blocks of its own, the same in every
 * job over the same box, so that it finds what it had touched in its cache and
 * in memory near it; then it helps with the others' ranges.
 *
 * Invariants (under crew->lock): a lane is `active` iff it has jobs, and then
 * it is either in the list of runnable lanes or owned by a thread; a lane's
 * completions are pushed in the order of its jobs; a share is linked only
 * while it may have blocks left; a lane that `failed` hands its jobs over
 * without running them.
 * Cost: submit and completion take the lock once each; a helper takes it twice
 * per job. Memory is taken once for each lane, for its cursors; for a call that
 * reduces, for its rows and the views of each block; and for an error.
 */
#ifndef CEL_DEVICE_CPU_CREW_H
#define CEL_DEVICE_CPU_CREW_H

#ifndef CEL_CDEF
#include <pthread.h>
#include <stdatomic.h>

#include "device/aside.h"
#include "device/finished.h"
#include "device/topology.h"

/* Which block of a range is next; each on a cache line of its own. */
typedef struct cel_cursor {
  _Atomic(int64_t) next;
  char rest_of_line[56];
} cel_cursor;

/* A job cut into blocks. */
typedef struct cel_share {
  struct cel_share *next; /* linked: others may help */
  cel_entry *entry;
  cel_box box;
  int32_t group[CEL_DIMS];
  int64_t cuts[CEL_DIMS], blocks;
  int32_t ranges;             /* of blocks, about equal: one for each thread */
  int64_t grain;              /* how many are taken at a time */
  cel_cursor *cursor;         /* of each; owned; null before the first job */
  _Atomic(cel_error *) error; /* the first; owned until completion */
  struct cel__partial *partial; /* of a reducing call; owned; else null */
  const cel_job *reducing;      /* that one, the last of its jobs; else null */
  int64_t band; /* where there are jobs before that: items of each at a time */
  struct cel__folded *folded; /* of a fold; owned; else null */
  int32_t jobs;               /* of the lane that it is, from the head on */
  int64_t worth_ns; /* what is left when linked, less those who were called */
  int32_t inside;   /* threads at work on it */
  bool linked;
} cel_share;

typedef struct cel_lane {
  cel_entry *head, *tail;
  struct cel_lane *next; /* while runnable */
  bool active;
  bool failed;      /* a job has: no later one is run */
  int64_t quiet_ns; /* since when nobody was woken; 0: at the last one */
  cel_share share;  /* of the head */
} cel_lane;

typedef struct cel_crew cel_crew;

typedef struct cel_worker {
  cel_crew *crew;
  struct cel_worker *next_idle;
  bool idle;
  int32_t index;
  pthread_t thread;
  cel_park park;
} cel_worker;

struct cel_crew {
  pthread_mutex_t lock;
  cel_lane *runnable, *last_runnable;
  /* What the brief heads of runnable lanes are expected to take in all, each
   * more than 0: the executor looks without the lock. */
  _Atomic(int64_t) brief_ns;
  cel_share *shares;
  cel_worker *idle;
  bool stop;
  bool timed;        /* jobs are told when they began and ended */
  bool folds_always; /* as cel_backend_config's */
  int32_t threads;   /* started */
  cel_finished *finished;
  cel_topology topology; /* cores 0: threads are not pinned */
  const char *name;
  cel_worker worker[];
};

/* Starts the threads. `topology` pins them, and may be null. The caller owns
 * *out. Thread: main. */
cel_status cel_crew_create(const char *name, int32_t threads,
                           const cel_topology *topology, cel_finished *finished,
                           cel_crew **out);
/* Waits for the jobs that run and drops the rest. Thread: main. */
void cel_crew_destroy(cel_crew *crew);
/* Frees what the lane holds and the jobs in it; its crew is no more. Thread:
 * executor. */
void cel_lane_release(cel_lane *lane);
/* What is brief is for cel_crew_assist, which somebody calls before it sleeps.
 * Thread: executor. */
void cel_crew_submit(cel_crew *crew, cel_lane *lane, cel_entry *entry);
/* See cel_backend. Thread: executor. */
void cel_crew_hush(cel_crew *crew, cel_job *job, bool quiet);
/* Carries out brief calls, for about CEL_TUNE_BRIEF_NS; whether there were any,
 * or one that lasted so long that another thread is the executor. Thread:
 * executor. */
cel_step cel_crew_assist(cel_crew *crew, cel_aside *aside);

/* How a box is cut into at most about `want` blocks of whole work groups (0
 * counts as 1), which have about `least` items at least; returns how many.
 * Thread: any. */
int64_t cel__crew_cut(const cel_box *box, const int32_t group[3], int64_t want,
                      int64_t least, int64_t cuts[3]);
/* The i-th of them; blocks are disjoint and cover the box. Thread: any. */
cel_box cel__crew_block(const cel_box *box, const int32_t group[3],
                        const int64_t cuts[3], int64_t i);
/* Asserts the invariants of the crew and of `lanes` of its lanes. Takes the
 * lock. Thread: executor. */
void cel_crew_check(cel_crew *crew, const cel_lane *lane, int32_t lanes);
#endif

#endif
