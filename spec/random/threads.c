/* The cluster with free threads: each rank has a main, and its engine's. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random/program.h"

enum { HANG_SECONDS = 200 };

typedef struct threads {
  const program *program;
  rank ranks[MOST_RANKS];
  object_state shared[MOST_OBJECTS];
  pthread_t thread[MOST_RANKS];
  pthread_mutex_t lock; /* guards the rest */
  pthread_cond_t news;
  int ended;
  bool failed;
  char *text;
  size_t size;
} threads;

/* ---- one main thread ---------------------------------------------------- */

static bool wait_here(rank *r, const step *s) {
  const void *data;
  uint64_t size;
  if (s->dropped || !s->wait) return true;
  if (step_fences(s))
    return cel_engine_fence_get(r->engine, r->fence[r->pc], NULL, &data,
                                &size) == CEL_E_OK;
  return cel_engine_wait(r->engine, r->epoch, NULL) == CEL_E_OK;
}

static bool run_rank(rank *r, char *text, size_t size) {
  const program *p = r->program;
  for (; r->pc < p->steps; ++r->pc) {
    if (!rank_submit(r, text, size)) {
      if (program_troubled(p)) break;
      return false;
    }
    if (!wait_here(r, p->step[r->pc])) break;
  }
  if (program_troubled(p)) {
    cel_engine_finish(r->engine, (cel_location){0}, NULL);
    return rank_troubled(r, text, size);
  }
  if (r->pc == p->steps &&
      cel_engine_finish(r->engine, (cel_location){0}, NULL) == CEL_E_OK)
    return rank_verify(r, text, size);
  snprintf(text, size, "mismatch: rank %d at step %d: %s:%d: %.1500s", r->index,
           r->pc, cel_error_last()->file, cel_error_last()->line,
           cel_error_last()->text);
  return false;
}

typedef struct starting {
  threads *all;
  int index;
} starting;

static void *rank_main(void *argument) {
  starting *s = argument;
  threads *t = s->all;
  char text[4096] = "";
  bool passed = run_rank(&t->ranks[s->index], text, sizeof text);
  pthread_mutex_lock(&t->lock);
  if (!passed && !t->failed) snprintf(t->text, t->size, "%s", text);
  t->failed |= !passed;
  t->ended++;
  pthread_cond_signal(&t->news);
  pthread_mutex_unlock(&t->lock);
  cel_free(s);
  return NULL;
}

/* ---- life --------------------------------------------------------------- */

static void must(cel_status status) {
  if (status != CEL_E_OK) cel_bug("no cluster: %s", cel_error_last()->text);
}

static void start(threads *t) {
  const program *p = t->program;
  cel_transport *transports[MOST_RANKS];
  cel_park *parks[MOST_RANKS];
  for (int k = 0; k < p->ranks; ++k) {
    t->ranks[k] = (rank){.program = p, .index = k, .shared = t->shared};
    cel_park_init(&t->ranks[k].park);
    parks[k] = &t->ranks[k].park;
  }
  cel_inprocess_config config = {.ranks = p->ranks,
                                 .hosts = p->hosts,
                                 .direct_bytes = p->direct_bytes,
                                 .far_bytes = p->far_bytes,
                                 .threads = true,
                                 .park = parks};
  must(cel_transport_inprocess(&config, transports));
  for (int k = 0; k < p->ranks; ++k) {
    rank *r = &t->ranks[k];
    r->transport = transports[k];
    rank_backend(r);
    cel_host_config host = {
        .lanes = 2, .park = &r->park, .transport = r->transport};
    r->host = cel_host_lanes_create(&host);
    r->record = record_create();
    rank_start(r, true);
  }
  for (int k = 0; k < p->ranks; ++k) {
    starting *s = cel_alloc(sizeof *s);
    *s = (starting){t, k};
    if (pthread_create(&t->thread[k], NULL, rank_main, s) != 0)
      cel_bug("no thread for a rank");
  }
}

/* A hang cannot be cleaned up: says what it knows and ends the process. */
static void die_hanging(threads *t) {
  static char text[1 << 15];
  printf("seed %llu: hang: nothing for %d seconds\n",
         (unsigned long long)t->program->seed, HANG_SECONDS);
  for (int k = 0; k < t->program->ranks; ++k) {
    cel_engine_describe(t->ranks[k].engine, text, sizeof text);
    printf("main at step %d, %s", t->ranks[k].pc, text);
  }
  printf("0 passed, 1 failed\n");
  fflush(stdout);
  _Exit(1);
}

static void wait_for_all(threads *t) {
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += HANG_SECONDS;
  pthread_mutex_lock(&t->lock);
  while (t->ended < t->program->ranks)
    if (pthread_cond_timedwait(&t->news, &t->lock, &limit) == ETIMEDOUT)
      die_hanging(t);
  pthread_mutex_unlock(&t->lock);
  for (int k = 0; k < t->program->ranks; ++k) pthread_join(t->thread[k], NULL);
}

bool program_run_threads(const program *p, char *text, size_t size) {
  threads *t = cel_alloc_zero(sizeof *t);
  t->program = p;
  t->text = text;
  t->size = size;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->news, NULL);
  start(t);
  wait_for_all(t);
  /* Who waits for a rank that failed would wait for good. */
  for (int k = 0; k < p->ranks && program_troubled(p); ++k)
    t->ranks[k].transport->control.abort(t->ranks[k].transport->control.self,
                                         1);
  for (int k = 0; k < p->ranks; ++k) cel_engine_stop(t->ranks[k].engine);
  bool full = t->failed && program_lacks_room(p, t->ranks);
  record *records[MOST_RANKS];
  for (int k = 0; k < p->ranks; ++k) {
    records[k] = t->ranks[k].record;
    rank_release(&t->ranks[k]);
  }
  bool passed = full || (!t->failed && (program_troubled(p) ||
                                        records_check(p, records, text, size)));
  for (int k = 0; k < p->ranks; ++k) record_destroy(records[k]);
  pthread_cond_destroy(&t->news);
  pthread_mutex_destroy(&t->lock);
  cel_free(t);
  return passed;
}
