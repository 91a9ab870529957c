#define _GNU_SOURCE /* pthread_setname_np */
#include "embed/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/park.h"
#include "device/clock.h"
#include "device/thread.h"
#include "runtime/engine.h"

enum {
  TICK_US = 200000,
  REST_MS = 300, /* after something else was written */
  LINE_TICKS = 50,
  RATES = 10, /* ticks that a rate is taken over, in which something was done */
  FIRST_MS = 500,
  MS = 1000000
};

static struct {
  const cel_engine *engine;
  int64_t ranks, begin;
  bool terminal, started;
  pthread_t thread;
  cel_park park;
  _Atomic(bool) stop;
  _Atomic(bool) on;     /* there may be a line to hide */
  pthread_mutex_t lock; /* of what is below */
  bool shown, broken;   /* the line; another that has no end yet */
  int64_t rest;         /* nothing is drawn before */
  bool compiling;
  cel_progress_loop loop;
} p = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what it says -------------------------------------------------------- */

/* Steps of the loop that have been executed, as far as tasks tell: what counts
 * is what a step submits on average. */
static double steps_done(const cel_progress_state *s) {
  const cel_progress_loop *l = &s->loop;
  uint64_t submitted = l->at_task - l->first_task;
  if (l->measured || l->step == 0 || submitted == 0) return (double)l->step;
  if (s->done <= l->first_task) return 0;
  double part = (double)(s->done - l->first_task) / (double)submitted;
  return (double)l->step * (part < 1 ? part : 1);
}

/* Also one that the script has left, while some of it is to be executed. */
static bool in_loop(const cel_progress_state *s) {
  const cel_progress_loop *l = &s->loop;
  return l->steps > 0 &&
         (l->step < l->steps || (!l->measured && s->done < l->at_task));
}

double cel_progress_left(const cel_progress_state *state) {
  double done = steps_done(state), first = (double)state->loop.first;
  if (!in_loop(state) || done <= first) return -1;
  double took = (double)(state->now - state->loop.begin) * 1e-9;
  return took * ((double)state->loop.steps - done) / (done - first);
}

static void say_time(double seconds, char *text, size_t size) {
  long s = (long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(text, size, ", %ld h %02ld min left", s / 3600, s % 3600 / 60);
  else if (s >= 60)
    snprintf(text, size, ", %ld min %02ld s left", s / 60, s % 60);
  else
    snprintf(text, size, ", %ld s left", s);
}

void cel_progress_text(const cel_progress_state *state, char *text,
                       size_t size) {
  char bytes[CEL_AMOUNT_TEXT], rate[32] = "", loop[64] = "", left[48] = "";
  double seconds = cel_progress_left(state);
  if (state->compiling && state->tasks == 0) {
    snprintf(text, size, "compiling kernels");
    return;
  }
  cel_amount_text(state->bytes, bytes, sizeof bytes);
  int digits = state->rate >= 10                        ? 0
               : state->rate >= 0.1 || state->rate == 0 ? 1
                                                        : 2;
  if (state->rate >= 0)
    snprintf(rate, sizeof rate, ", %.*f/s", digits, state->rate);
  if (in_loop(state) && state->loop.measured)
    snprintf(loop, sizeof loop, ", %.1f %%",
             100 * steps_done(state) / (double)state->loop.steps);
  else if (in_loop(state))
    snprintf(loop, sizeof loop, ", step %.0f of %llu", steps_done(state),
             (unsigned long long)state->loop.steps);
  if (seconds >= 0) say_time(seconds, left, sizeof left);
  snprintf(text, size, "%llu of %llu tasks%s, %s moved%s%s%s",
           (unsigned long long)state->done, (unsigned long long)state->tasks,
           rate, bytes, loop, left,
           state->compiling ? ", compiling kernels" : "");
}

/* ---- drawing ------------------------------------------------------------- */

typedef struct past {
  int64_t at;
  uint64_t done;
} past;

typedef struct rates {
  past all[RATES]; /* in a circle */
  int n, ticks;
} rates;

/* Over the last few ticks in which something was done: tasks may take longer
 * than a tick, or many. */
static void set_rate(cel_progress_state *s, rates *r) {
  const past *old = &r->all[r->n >= RATES ? r->n % RATES : 0];
  s->rate = -1;
  ++r->ticks;
  if (r->n > 0 && s->now > old->at)
    s->rate =
        (double)(s->done - old->done) / ((double)(s->now - old->at) * 1e-9);
  if (r->n == 0 || s->done > r->all[(r->n - 1) % RATES].done)
    r->all[r->n++ % RATES] = (past){s->now, s->done};
}

static void look(cel_progress_state *s) {
  cel_engine_counts counts;
  cel_engine_count(p.engine, &counts);
  *s = (cel_progress_state){.done = counts.done,
                            .bytes = counts.bytes_copied + counts.bytes_sent,
                            .now = cel_now_ns(),
                            .compiling = p.compiling,
                            .loop = p.loop};
  /* A horizon may be executed between the two counts. */
  s->tasks = counts.tasks - counts.horizons;
  if (s->done > s->tasks) s->done = s->tasks;
}

static size_t columns(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10
             ? size.ws_col
             : 80;
}

/* In one piece: others write to the terminal, too. */
static void put(const char *before, const char *text, const char *after) {
  char all[400];
  size_t most = p.terminal ? columns() - 1 : sizeof all - 16;
  if (most > sizeof all - 16) most = sizeof all - 16;
  int n = snprintf(all, sizeof all, "%s%.*s%s", before, (int)most, text, after);
  ssize_t written = write(STDERR_FILENO, all, (size_t)n);
  (void)written; /* nobody is told less for it */
}

static void draw(rates *r) {
  char text[300];
  cel_progress_state s;
  pthread_mutex_lock(&p.lock);
  look(&s);
  set_rate(&s, r);
  bool due =
      p.terminal ? !p.broken && s.now >= p.rest : r->ticks % LINE_TICKS == 0;
  if (due && s.now - p.begin >= (int64_t)FIRST_MS * MS) {
    char said[200], who[40] = "";
    cel_progress_text(&s, said, sizeof said);
    if (p.ranks > 1)
      snprintf(who, sizeof who, "rank 0 of %lld: ", (long long)p.ranks);
    snprintf(text, sizeof text, "celer: %s%s", who, said);
    put(p.terminal ? "\r" : "", text, p.terminal ? "\033[K" : "\n");
    p.shown = p.terminal;
  }
  pthread_mutex_unlock(&p.lock);
}

static void *draw_main(void *nothing) {
  rates r = {.n = 0};
  (void)nothing;
  pthread_setname_np(pthread_self(), "progress");
  while (!atomic_load(&p.stop)) {
    uint32_t seen = cel_park_prepare(&p.park);
    draw(&r);
    if (!atomic_load(&p.stop)) cel_park_wait(&p.park, seen, TICK_US);
  }
  return NULL;
}

/* The lock is held. */
static void erase(void) {
  if (p.shown) put("\r", "", "\033[K");
  p.shown = false;
}

void cel_progress_hide(bool whole) {
  if (!atomic_load_explicit(&p.on, memory_order_acquire)) return;
  pthread_mutex_lock(&p.lock);
  erase();
  p.broken = !whole;
  p.rest = cel_now_ns() + (int64_t)REST_MS * MS;
  pthread_mutex_unlock(&p.lock);
}

void cel_progress_set_compiling(bool compiling) {
  pthread_mutex_lock(&p.lock);
  p.compiling = compiling;
  pthread_mutex_unlock(&p.lock);
}

void cel_progress_set_loop(const cel_progress_loop *loop) {
  pthread_mutex_lock(&p.lock);
  p.loop = *loop;
  pthread_mutex_unlock(&p.lock);
}

/* ---- life ---------------------------------------------------------------- */

cel_status cel_progress_start(const cel_engine *engine, int64_t ranks,
                              bool terminal) {
  if (p.started) return CEL_E_OK;
  p.engine = engine;
  p.ranks = ranks;
  p.begin = cel_now_ns();
  p.terminal = terminal;
  atomic_store(&p.stop, false);
  cel_park_init(&p.park);
  CEL_TRY(cel_thread_start(&p.thread, draw_main, NULL, "the progress line"));
  atomic_store(&p.on, terminal);
  p.started = true;
  return CEL_E_OK;
}

void cel_progress_stop(void) {
  if (!p.started) return;
  atomic_store(&p.stop, true);
  cel_park_wake(&p.park);
  pthread_join(p.thread, NULL);
  atomic_store(&p.on, false);
  pthread_mutex_lock(&p.lock);
  erase();
  pthread_mutex_unlock(&p.lock);
  p.started = false;
}
