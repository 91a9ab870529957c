/* park_check -- no wake is lost, whoever comes between.
 *
 *   park_check [ROUNDS]
 *
 * Some threads have news for one, over and over, each when its last was taken;
 * so does it for them, each with a park of its own. Nobody waits with a limit:
 * a wake that is lost ends everything. Run by park_spec.lua.
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
    cel_park_wake(&news);
    for (;;) {
      uint32_t seen = cel_park_look(&t->park);
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

int main(int argc, char **argv) {
  if (argc > 1) rounds = atoll(argv[1]);
  cel_park_init(&news);
  for (int i = 0; i < TELLERS; ++i) cel_park_init(&tellers[i].park);
  for (int i = 0; i < TELLERS; ++i)
    if (pthread_create(&tellers[i].thread, NULL, tell, &tellers[i]) != 0)
      return 1;
  for (int64_t left = TELLERS * rounds; left > 0;) {
    uint32_t seen = cel_park_look(&news);
    int n = take();
    left -= n;
    if (n == 0) cel_park_wait(&news, seen, UINT32_MAX);
  }
  for (int i = 0; i < TELLERS; ++i) pthread_join(tellers[i].thread, NULL);
  printf("%lld rounds\n", (long long)rounds);
  return 0;
}
