/* park_check -- no wake is lost, whoever comes between.
 *
 *   park_check [ROUNDS]
 *
 * Some threads have news for one, over and over, each when its last was taken;
 * so does it for them, each with a park of its own. Then it has news for all of
 * them at once, who wait in one park, and the next when all have taken it;
 * every other time they spin before they wait. Meanwhile cores are occupied and
 * free again. Nobody waits with a limit: a wake that is lost ends everything.
 * Run by park_spec.lua.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/park.h"

enum { TELLERS = 3 };

typedef struct teller {
  pthread_t thread;
  cel_park park;
  _Atomic(int64_t) told, taken;
} teller;

static teller tellers[TELLERS];
static cel_park news;
static int64_t rounds = 60000;

static void *tell(void *argument) {
  teller *t = argument;
  for (int64_t i = 1; i <= rounds; ++i) {
    atomic_store(&t->told, i);
    if (i % 64 == 0) cel_park_occupy(i % 128 == 0 ? -3 : 3);
    cel_park_wake(&news);
    for (;;) {
      uint32_t seen = cel_park_prepare(&t->park);
      if (atomic_load(&t->taken) == i) break;
      cel_park_wait(&t->park, seen, UINT32_MAX);
    }
  }
  return NULL;
}

static int take(void) {
  int n = 0;
  for (int i = 0; i < TELLERS; ++i) {
    int64_t told = atomic_load(&tellers[i].told);
    if (told == atomic_load(&tellers[i].taken)) continue;
    atomic_store(&tellers[i].taken, told);
    cel_park_wake(&tellers[i].park);
    ++n;
  }
  return n;
}

static cel_park crowd;
static _Atomic(int64_t) round_of_all;

static void *join_in(void *argument) {
  teller *t = argument;
  for (int64_t i = 1; i <= rounds; ++i) {
    for (;;) {
      uint32_t seen = cel_park_prepare(&crowd);
      if (atomic_load(&round_of_all) == i) break;
      if (i % 2 == 0 || !cel_park_spin(&crowd, seen, 2000))
        cel_park_wait(&crowd, seen, UINT32_MAX);
    }
    atomic_store(&t->taken, i);
    cel_park_wake(&news);
  }
  return NULL;
}

static bool all_took(int64_t round) {
  for (int i = 0; i < TELLERS; ++i)
    if (atomic_load(&tellers[i].taken) != round) return false;
  return true;
}

static void begin(void *(*run)(void *)) {
  for (int i = 0; i < TELLERS; ++i) {
    atomic_store(&tellers[i].taken, 0);
    if (pthread_create(&tellers[i].thread, NULL, run, &tellers[i]) != 0)
      exit(1);
  }
}

static void end(void) {
  for (int i = 0; i < TELLERS; ++i) pthread_join(tellers[i].thread, NULL);
}

static void check_each(void) {
  begin(tell);
  for (int64_t left = TELLERS * rounds; left > 0;) {
    uint32_t seen = cel_park_prepare(&news);
    int n = take();
    left -= n;
    if (n == 0) cel_park_wait(&news, seen, UINT32_MAX);
  }
  end();
}

static void check_crowd(void) {
  begin(join_in);
  for (int64_t i = 1; i <= rounds; ++i) {
    atomic_store(&round_of_all, i);
    cel_park_wake(&crowd);
    for (;;) {
      uint32_t seen = cel_park_prepare(&news);
      if (all_took(i)) break;
      cel_park_wait(&news, seen, UINT32_MAX);
    }
  }
  end();
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = atoll(argv[1]);
  cel_park_init(&news);
  cel_park_init(&crowd);
  for (int i = 0; i < TELLERS; ++i) cel_park_init(&tellers[i].park);
  check_each();
  check_crowd();
  printf("%lld rounds\n", (long long)rounds);
  return 0;
}
