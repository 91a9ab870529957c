#define _GNU_SOURCE /* pthread_setname_np */
#include "exec/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/confined.h"
#include "base/random.h"
#include "base/vec.h"
#include "device/clock.h"
#include "device/thread.h"
#include "tuning.h"

enum { MAX_LANES = 64 };

/* Jobs in the order in which they came; taken from `head`. */
typedef struct queue {
  CEL_VEC(cel_job *) jobs;
  uint32_t head;
} queue;

typedef struct lane lane;
struct lane {
  struct cel_host_lanes *lanes;
  pthread_t thread;
  cel_park news;
  queue queue;
  uint32_t load; /* queued and running */
  uint64_t last; /* newest ticket, or what is to follow it; the executor's */
  int64_t quiet; /* the thread's: since when it has woken nobody; 0: not yet */
  bool failed;   /* a job has, since then none that follows is begun */
  bool started;
  lane *next;     /* of those to be woken; the executor's */
  uint32_t group; /* the collective tasks that it is for; 0: all else */
  cel_comm *comm; /* the group's, joined by the first; of the lane's thread */
  bool called;    /* it is to be woken */
};

/* `lock` guards all but the configuration. */
struct cel_host_lanes {
  cel_host_config config;
  pthread_mutex_t lock;
  bool stop;
  bool horizons; /* are waited for, see cel_host_lanes_expect */
  bool crowded;  /* cel_park_crowded, for good */
  lane *called;  /* to be woken; the executor's */
  int32_t n;
  lane lane[MAX_LANES];
  lane objects;
  CEL_VEC(lane *) groups; /* by group; null: not needed yet */
  CEL_VEC(cel_done) done;
  _Atomic(uint32_t) finished; /* done.n, to look without the lock */
  /* Simulated: */
  cel_random random;
  CEL_VEC(cel_job *) waiting;     /* also those of groups; as they came */
  CEL_VEC(const cel_job *) begun; /* all that have not been given back */
  void *state;
  bool entered;
};

static _Thread_local void *lane_state;

void *cel_host_lane_state(void) {
  return lane_state;
}

void cel_host_lane_adopt(void *state) {
  lane_state = state;
}

static cel_error *copy_error(void) {
  cel_error *copy = cel_alloc(sizeof *copy);
  *copy = *cel_error_last();
  return copy;
}

/* With the lane's communicator, if the job is a group's. */
static cel_status carry_out(lane *l, cel_job *job) {
  if (l->group != 0 && l->comm == NULL) {
    const cel_control_table *control = &l->lanes->config.transport->control;
    if (control->join == NULL)
      cel_bug("group %u has no communicator by this transport", l->group);
    CEL_TRY(control->join(control->self, l->group, &l->comm));
  }
  if (l->group == 0) return cel_job_run(job);
  job->call.comm = l->comm;
  cel_status status = cel_job_run(job);
  cel_status rest = cel_comm_settle(l->comm, status != CEL_E_OK);
  return status != CEL_E_OK ? status : rest;
}

/* What follows others in its lane may have been to begin after a failure. */
static cel_done run(lane *l, cel_job *job) {
  cel_done done = {job->ticket, NULL};
  if (l->failed && job->follows) return done;
  bool timed = l->lanes->config.timed;
  if (timed) job->begin = cel_now_ns();
  if (carry_out(l, job) != CEL_E_OK) {
    done.error = copy_error();
    l->failed = l->group == 0 && !l->lanes->config.forgiving;
  }
  if (timed) job->end = cel_now_ns();
  return done;
}

/* ---- threads ---------------------------------------------------------------
 */

static void push(queue *q, cel_job *job) {
  if (q->head > 0 && q->jobs.n == q->jobs.cap) {
    q->jobs.n -= q->head;
    memmove(q->jobs.at, q->jobs.at + q->head, q->jobs.n * sizeof job);
    q->head = 0;
  }
  cel_vec_push(&q->jobs, job);
}

static cel_job *pop(queue *q) {
  if (q->head == q->jobs.n) return NULL;
  cel_job *job = q->jobs.at[q->head++];
  if (q->head == q->jobs.n) q->head = q->jobs.n = 0;
  return job;
}

/* A lane's next job; null when it is to end. */
static cel_job *next_job(lane *l) {
  struct cel_host_lanes *all = l->lanes;
  for (;;) {
    uint32_t seen = cel_park_prepare(&l->news);
    pthread_mutex_lock(&all->lock);
    bool stop = all->stop;
    cel_job *job = stop ? NULL : pop(&l->queue);
    pthread_mutex_unlock(&all->lock);
    if (stop || job != NULL) return job;
    cel_park_wait(&l->news, seen, UINT32_MAX);
  }
}

/* Whether the executor has to know now that it is done. */
static bool is_news(lane *l, const cel_job *job, const cel_done *done) {
  if (!job->quiet || (job->holds_horizon && l->lanes->horizons) ||
      done->error != NULL || l->queue.head == l->queue.jobs.n)
    return true;
  int64_t now = cel_now_ns();
  if (l->quiet == 0) l->quiet = now;
  return now - l->quiet > l->lanes->config.quiet_ns;
}

/* The job is the executor's again. */
static void give_back(lane *l, const cel_job *job, cel_done done) {
  struct cel_host_lanes *all = l->lanes;
  pthread_mutex_lock(&all->lock);
  bool news = is_news(l, job, &done);
  l->load--;
  cel_vec_push(&all->done, done);
  atomic_store_explicit(&all->finished, all->done.n, memory_order_release);
  pthread_mutex_unlock(&all->lock);
  if (!news || all->config.park == NULL) return;
  l->quiet = 0;
  cel_park_wake(all->config.park);
}

static void *lane_main(void *argument) {
  lane *l = argument;
  struct cel_host_lanes *all = l->lanes;
  const cel_host_config *c = &all->config;
  cel_overflow_room room;
  cel_overflow_prepare(&room);
  cel_thread_act(CEL_THREAD_WORKER);
  pthread_setname_np(pthread_self(),
                     l->group != 0 ? "host-group" : "host-lane");
  cel_park_defer();
  if (c->enter != NULL) lane_state = c->enter(c->context);
  for (cel_job *job; (job = next_job(l)) != NULL;) {
    cel_done done = run(l, job);
    give_back(l, job, done);
  }
  if (c->leave != NULL) c->leave(c->context, lane_state);
  cel_comm_destroy(l->comm);
  return NULL;
}

static void init_lane(cel_host_lanes *lanes, lane *l, uint32_t group) {
  *l = (lane){.lanes = lanes, .group = group};
  cel_park_init(&l->news);
  const cel_transport *t = lanes->config.transport;
  cel_park_linger(&l->news, t != NULL ? t->local_ranks : 1);
}

static lane *lane_of_group(cel_host_lanes *lanes, uint32_t group) {
  while (lanes->groups.n <= group) cel_vec_push(&lanes->groups, (lane *)NULL);
  lane **l = &lanes->groups.at[group];
  if (*l != NULL) return *l;
  *l = cel_alloc(sizeof **l);
  init_lane(lanes, *l, group);
  return *l;
}

static lane *least_loaded(cel_host_lanes *lanes) {
  lane *best = &lanes->lane[0];
  for (int32_t i = 1; i < lanes->n; ++i)
    if (lanes->lane[i].load < best->load) best = &lanes->lane[i];
  return best;
}

/* That of objects comes after the others. */
static lane *lane_at(cel_host_lanes *lanes, int32_t i) {
  return i == lanes->n ? &lanes->objects : &lanes->lane[i];
}

/* `after` is the lane of what it begins after, unless that is over. */
static lane *lane_for(cel_host_lanes *lanes, const cel_job *job,
                      int32_t after) {
  if (job->collective_group != 0)
    return lane_of_group(lanes, job->collective_group);
  if (job->kind == CEL_JOB_CALL && job->work->objects) return &lanes->objects;
  return after >= 0 ? lane_at(lanes, after) : least_loaded(lanes);
}

bool cel_host_lanes_follow(cel_host_lanes *lanes, const cel_work *work,
                           int32_t after, uint64_t ticket, uint64_t own) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  if (work->objects != (after == lanes->n)) return false;
  lane *l = lane_at(lanes, after);
  if (!work->objects && l->last != ticket) return false;
  l->last = own;
  return true;
}

static cel_status start(lane *l) {
  if (l->started) return CEL_E_OK;
  CEL_TRY(cel_thread_start(&l->thread, lane_main, l, "host tasks"));
  l->started = true;
  return CEL_E_OK;
}

/* ---- simulated -------------------------------------------------------------
 */

/* Any that is the first of its lane. */
static cel_job *take_any(cel_host_lanes *lanes) {
  uint32_t n = lanes->waiting.n, i = 0;
  cel_job **at = lanes->waiting.at;
  int32_t lane = at[cel_random_int(&lanes->random, 0, n - 1)]->lane;
  while (at[i]->lane != lane) ++i;
  cel_job *job = at[i];
  memmove(at + i, at + i + 1, (n - i - 1) * sizeof *at);
  --lanes->waiting.n;
  return job;
}

static void run_one(cel_host_lanes *lanes) {
  const cel_host_config *c = &lanes->config;
  cel_job *job = take_any(lanes);
  if (!lanes->entered && c->enter != NULL) lanes->state = c->enter(c->context);
  lanes->entered = true;
  lane *l = lane_for(lanes, job, job->lane);
  l->load--;
  uint64_t calls = l->comm != NULL ? l->comm->calls : 0;
  void *outer = lane_state;
  lane_state = lanes->state;
  cel_done done = run(l, job);
  lane_state = outer;
  if (done.error == NULL || done.error->code != CEL_E_AGAIN) {
    cel_vec_push(&lanes->done, done);
    return;
  }
  cel_free(done.error);
  l->comm->calls = calls;
  l->load++;
  cel_vec_push(&lanes->waiting, job);
}

static void begin(cel_host_lanes *lanes, const cel_job *job) {
  const cel_call *call = &job->call;
  for (uint32_t i = 0; i < lanes->begun.n; ++i) {
    const cel_call *other = &lanes->begun.at[i]->call;
    if (cel_effects_conflict(call->effect, (uint32_t)call->effects,
                             other->effect, (uint32_t)other->effects))
      cel_bug("two jobs are under way that exclude each other");
  }
  cel_vec_push(&lanes->begun, job);
}

static void end(cel_host_lanes *lanes, uint64_t ticket) {
  uint32_t i = 0;
  while (lanes->begun.at[i]->ticket != ticket) ++i;
  cel_vec_swap_out(&lanes->begun, i);
}

static uint32_t poll_simulated(cel_host_lanes *lanes, cel_done *out,
                               uint32_t max) {
  uint32_t n = 0;
  for (int64_t moves = cel_random_int(&lanes->random, 1, 3); moves > 0; --moves)
    if (lanes->waiting.n > 0 && cel_random_chance(&lanes->random, 60))
      run_one(lanes);
  while (n < max && lanes->done.n > 0 &&
         cel_random_chance(&lanes->random, 60)) {
    int64_t i = cel_random_int(&lanes->random, 0, lanes->done.n - 1);
    end(lanes, lanes->done.at[i].ticket);
    out[n++] = lanes->done.at[i];
    cel_vec_swap_out(&lanes->done, i);
  }
  return n;
}

/* ---- both ------------------------------------------------------------------
 */

cel_host_lanes *cel_host_lanes_create(const cel_host_config *config) {
  cel_host_lanes *lanes = cel_alloc_zero(sizeof *lanes);
  lanes->config = *config;
  lanes->random.state = config->seed;
  lanes->crowded = cel_park_crowded();
  lanes->n = config->lanes < 1 ? 1 : config->lanes;
  if (lanes->n > MAX_LANES) lanes->n = MAX_LANES;
  if (lanes->config.quiet_ns == 0) lanes->config.quiet_ns = CEL_TUNE_HUSH_NS;
  pthread_mutex_init(&lanes->lock, NULL);
  for (int32_t i = 0; i < lanes->n; ++i) init_lane(lanes, &lanes->lane[i], 0);
  init_lane(lanes, &lanes->objects, 0);
  return lanes;
}

static void end_lane(lane *l) {
  if (l->started) {
    cel_park_wake(&l->news);
    pthread_join(l->thread, NULL);
  } else {
    cel_comm_destroy(l->comm);
  }
  cel_vec_release(&l->queue.jobs);
}

void cel_host_lanes_destroy(cel_host_lanes *lanes) {
  pthread_mutex_lock(&lanes->lock);
  lanes->stop = true;
  pthread_mutex_unlock(&lanes->lock);
  for (int32_t i = 0; i < lanes->n; ++i) end_lane(&lanes->lane[i]);
  end_lane(&lanes->objects);
  for (uint32_t i = 0; i < lanes->groups.n; ++i) {
    if (lanes->groups.at[i] == NULL) continue;
    end_lane(lanes->groups.at[i]);
    cel_free(lanes->groups.at[i]);
  }
  const cel_host_config *c = &lanes->config;
  if (lanes->entered && c->leave != NULL) c->leave(c->context, lanes->state);
  for (uint32_t i = 0; i < lanes->done.n; ++i)
    cel_free(lanes->done.at[i].error);
  cel_vec_release(&lanes->done);
  cel_vec_release(&lanes->waiting);
  cel_vec_release(&lanes->groups);
  cel_vec_release(&lanes->begun);
  pthread_mutex_destroy(&lanes->lock);
  cel_free(lanes);
}

static int32_t number_of(const cel_host_lanes *lanes, const lane *l) {
  if (l->group != 0) return -1 - (int32_t)l->group;
  return l == &lanes->objects ? lanes->n : (int32_t)(l - lanes->lane);
}

/* Nothing in a lane comes before it, and the lane would have to be woken. */
static bool is_run_here(const cel_job *job, int32_t after) {
  return job->kind == CEL_JOB_CALL && job->work->tiny && after < 0;
}

/* By the executor itself. Its lane has had nothing to do with it. */
static void run_here(cel_host_lanes *lanes, cel_job *job) {
  lane none = {.lanes = lanes};
  cel_done done = run(&none, job);
  pthread_mutex_lock(&lanes->lock);
  cel_vec_push(&lanes->done, done);
  atomic_store_explicit(&lanes->finished, lanes->done.n, memory_order_release);
  pthread_mutex_unlock(&lanes->lock);
}

/* Where nothing is run; there are no threads then. */
static void pass_over(cel_host_lanes *lanes, const cel_job *job) {
  const cel_work *work = job->kind == CEL_JOB_CALL ? job->work : NULL;
  if (work != NULL && work->stand_in != NULL) work->stand_in(work, &job->call);
  cel_vec_push(&lanes->done, (cel_done){.ticket = job->ticket});
  atomic_store_explicit(&lanes->finished, lanes->done.n, memory_order_release);
}

static void call(cel_host_lanes *lanes, lane *l) {
  if (!lanes->crowded) {
    cel_park_wake(&l->news);
  } else if (!l->called) {
    l->called = true;
    l->next = lanes->called;
    lanes->called = l;
  }
}

int32_t cel_host_lanes_submit(cel_host_lanes *lanes, cel_job *job,
                              int32_t after) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  bool simulated = lanes->config.simulated;
  if (lanes->config.dry) {
    pass_over(lanes, job);
    return -1;
  }
  if (!simulated && is_run_here(job, after)) {
    run_here(lanes, job);
    return -1;
  }
  pthread_mutex_lock(&lanes->lock);
  lane *l = lane_for(lanes, job, after);
  bool runs = simulated || start(l) == CEL_E_OK;
  job->lane = number_of(lanes, l);
  job->follows = after >= 0;
  if (runs) {
    l->load++;
    l->last = job->ticket;
    if (!simulated) push(&l->queue, job);
  } else {
    cel_vec_push(&lanes->done,
                 ((cel_done){.ticket = job->ticket, .error = copy_error()}));
    atomic_store_explicit(&lanes->finished, lanes->done.n,
                          memory_order_release);
  }
  pthread_mutex_unlock(&lanes->lock);
  if (!runs) return -1;
  if (simulated) {
    begin(lanes, job);
    cel_vec_push(&lanes->waiting, job);
  } else {
    call(lanes, l);
  }
  return job->lane < 0 ? -1 : job->lane;
}

void cel_host_lanes_begin(cel_host_lanes *lanes) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  for (lane *l; (l = lanes->called) != NULL;) {
    lanes->called = l->next;
    l->called = false;
    cel_park_wake(&l->news);
  }
}

void cel_host_lanes_hush(cel_host_lanes *lanes, cel_job *job, bool quiet,
                         bool holds_horizon) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  pthread_mutex_lock(&lanes->lock);
  job->quiet = quiet;
  job->holds_horizon = holds_horizon;
  pthread_mutex_unlock(&lanes->lock);
}

bool cel_host_lanes_expect(cel_host_lanes *lanes, bool horizons) {
  cel_assert_thread(CEL_THREAD_MAIN);
  pthread_mutex_lock(&lanes->lock);
  lanes->horizons = horizons;
  bool done = lanes->done.n > 0;
  pthread_mutex_unlock(&lanes->lock);
  return done;
}

static void drop(cel_host_lanes *lanes, const cel_job *job) {
  cel_vec_push(&lanes->done, (cel_done){.ticket = job->ticket});
}

static void drop_all(lane *l) {
  for (cel_job *job; (job = pop(&l->queue)) != NULL; --l->load)
    drop(l->lanes, job);
}

void cel_host_lanes_drop(cel_host_lanes *lanes) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  pthread_mutex_lock(&lanes->lock);
  for (uint32_t i = 0; i < lanes->waiting.n; ++i)
    drop(lanes, lanes->waiting.at[i]);
  cel_vec_clear(&lanes->waiting);
  for (int32_t i = 0; i < lanes->n; ++i) drop_all(&lanes->lane[i]);
  drop_all(&lanes->objects);
  for (uint32_t i = 0; i < lanes->groups.n; ++i)
    if (lanes->groups.at[i] != NULL) drop_all(lanes->groups.at[i]);
  atomic_store_explicit(&lanes->finished, lanes->done.n, memory_order_release);
  pthread_mutex_unlock(&lanes->lock);
}

uint32_t cel_host_lanes_poll(cel_host_lanes *lanes, cel_done *out,
                             uint32_t max) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  if (lanes->config.simulated) return poll_simulated(lanes, out, max);
  if (atomic_load_explicit(&lanes->finished, memory_order_acquire) == 0)
    return 0;
  uint32_t n = 0;
  pthread_mutex_lock(&lanes->lock);
  while (n < max && n < lanes->done.n) {
    out[n] = lanes->done.at[n];
    ++n;
  }
  lanes->done.n -= n;
  memmove(lanes->done.at, lanes->done.at + n,
          lanes->done.n * sizeof *lanes->done.at);
  atomic_store_explicit(&lanes->finished, lanes->done.n, memory_order_release);
  pthread_mutex_unlock(&lanes->lock);
  return n;
}
