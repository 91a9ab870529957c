#define _GNU_SOURCE
#include "device/compile/background.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/park.h"
#include "device/compile/leftover.h"
#include "device/thread.h"

enum {
  MOST = 64, /* threads */
  LOOK_NS = 20000000,
  SECOND_NS = 1000000000
};

enum { NEW, QUEUED, RUNNING, DONE };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER; /* or all ends */
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
/* The lock's. */
static cel_chore *queue; /* to be begun, in order */
static int32_t threads, idle;
static bool stops, left;
static pthread_t thread[MOST];
static int32_t limit; /* main's until there are threads */

void cel_background_limit(int32_t n) {
  limit = n < 1 ? 1 : n < MOST ? n : MOST;
}

/* Lock held, but for the time that it takes. What a compiler came to that was
 * ended nobody is to hear of. */
static void carry_out(cel_chore *chore) {
  chore->state = RUNNING;
  pthread_mutex_unlock(&lock);
  cel_park_occupy(1);
  chore->run(chore);
  cel_park_occupy(-1);
  pthread_mutex_lock(&lock);
  if (!cel_leftover_ending()) chore->state = DONE;
  pthread_cond_broadcast(&done);
}

static void *thread_main(void *unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "compile");
  pthread_mutex_lock(&lock);
  while (!stops) {
    cel_chore *chore = queue;
    if (chore != NULL) {
      queue = chore->next;
      carry_out(chore);
    } else {
      ++idle;
      pthread_cond_wait(&given, &lock);
      --idle;
    }
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* Lock held. Signals are for main; a refusal by the system is not an error, as
 * main does then what nobody else does. */
static void add_thread(void) {
  sigset_t old;
  cel_thread_block_signals(&old);
  if (pthread_create(&thread[threads], NULL, thread_main, NULL) == 0) ++threads;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Lock held. `at`: where it comes in the queue. */
static void give(cel_chore *chore, cel_chore **at, int32_t most) {
  cel_assert(chore->state == NEW);
  chore->next = *at;
  *at = chore;
  chore->state = QUEUED;
  int32_t waiting = 0;
  for (cel_chore *c = queue; c != NULL; c = c->next) ++waiting;
  if (idle < waiting && threads < most && !stops) add_thread();
  pthread_cond_signal(&given);
}

void cel_background_start(cel_chore *chore) {
  if (limit == 0) cel_background_limit(cel_park_cores());
  pthread_mutex_lock(&lock);
  cel_chore **last = &queue;
  while (*last != NULL) last = &(*last)->next;
  give(chore, last, limit);
  pthread_mutex_unlock(&lock);
}

void cel_background_start_beside(cel_chore *chore) {
  pthread_mutex_lock(&lock);
  give(chore, &queue, limit < MOST ? limit + 1 : MOST);
  pthread_mutex_unlock(&lock);
}

/* Lock held. Others have time to look whether they were interrupted. */
static void wait_a_little(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += LOOK_NS;
  if (until.tv_nsec >= SECOND_NS) ++until.tv_sec, until.tv_nsec -= SECOND_NS;
  pthread_cond_timedwait(&done, &lock, &until);
}

bool cel_background_wait(cel_chore *chore, bool (*interrupted)(void)) {
  pthread_mutex_lock(&lock);
  cel_assert(chore->state != NEW);
  if (chore->state == QUEUED && !stops) {
    cel_chore **at = &queue;
    while (*at != chore) at = &(*at)->next;
    *at = chore->next;
    if (threads == 0) {
      carry_out(chore);
    } else {
      chore->next = queue;
      queue = chore;
    }
  }
  while (stops ||
         (chore->state != DONE && !(interrupted != NULL && interrupted())))
    wait_a_little();
  bool is = chore->state == DONE;
  pthread_mutex_unlock(&lock);
  return is;
}

bool cel_background_done(const cel_chore *chore) {
  pthread_mutex_lock(&lock);
  bool is = chore->state == DONE;
  pthread_mutex_unlock(&lock);
  return is;
}

void cel_background_stop(void) {
  pthread_mutex_lock(&lock);
  int32_t n = stops ? 0 : threads; /* whoever comes second waits for none */
  stops = true;
  queue = NULL;
  pthread_cond_broadcast(&given);
  pthread_mutex_unlock(&lock);
  cel_leftover_end_children();
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  ++until.tv_sec;
  for (int32_t i = 0; i < n; ++i)
    if (pthread_timedjoin_np(thread[i], NULL, &until) != 0) left = true;
}

bool cel_background_left(void) {
  return left;
}
