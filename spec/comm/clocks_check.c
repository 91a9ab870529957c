/* clocks_check -- ranks in threads of one process, on hosts whose clocks
 * differ. Run by clocks_spec.lua. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/clocks.h"
#include "device/clock.h"

enum { RANKS = 22, HOSTS = 3, MOST_ASKED = 5 * 17 };

typedef struct rank {
  pthread_t thread;
  cel_transport *transport;
  int64_t skew;
  cel_clock clock;
  cel_clock_offset found;
  cel_status status;
  int told; /* texts to others */
} rank;

static rank ranks[RANKS];

static int64_t now_of(void *context) {
  const rank *r = context;
  return cel_now_ns() + r->skew;
}

static void (*tell)(void *, int64_t, int32_t, const void *, uint32_t);
static _Thread_local rank *mine;

static void count_tell(void *self, int64_t peer, int32_t kind, const void *data,
                       uint32_t size) {
  ++mine->told;
  tell(self, peer, kind, data, size);
}

static void *run(void *argument) {
  rank *r = mine = argument;
  r->status = cel_clocks_compare(r->transport, &r->clock, &r->found);
  return NULL;
}

static void check(const rank *r, int k) {
  int64_t ahead = ranks[0].skew - r->skew, wrong = r->found.ahead - ahead;
  if (r->status != CEL_E_OK) printf("rank %d failed\n", k);
  if (k % HOSTS == 0 && (r->found.ahead != 0 || r->found.within != 0))
    printf("rank %d: not the clock of rank 0's host\n", k);
  if (k % HOSTS != 0 && r->found.within <= 0)
    printf("rank %d: known too well\n", k);
  if (wrong > r->found.within || -wrong > r->found.within)
    printf("rank %d: wrong by %lld, within %lld\n", k, (long long)wrong,
           (long long)r->found.within);
  if (r->told > MOST_ASKED) printf("rank %d told %d texts\n", k, r->told);
}

int main(void) {
  cel_transport *all[RANKS];
  cel_inprocess_config config = {
      .ranks = RANKS, .hosts = HOSTS, .threads = true};
  if (cel_transport_inprocess(&config, all) != CEL_E_OK) return 1;
  tell = all[0]->control.tell;
  for (int k = 0; k < RANKS; ++k) {
    rank *r = &ranks[k];
    r->transport = all[k];
    all[k]->control.tell = count_tell;
    r->skew = (int64_t)(k % HOSTS) * 5000000000000 - 1000;
    r->clock = (cel_clock){.now = now_of, .context = r};
    snprintf(r->clock.host, sizeof r->clock.host, "host %d", k % HOSTS);
    if (pthread_create(&r->thread, NULL, run, r) != 0) return 1;
  }
  for (int k = 0; k < RANKS; ++k) pthread_join(ranks[k].thread, NULL);
  for (int k = 0; k < RANKS; ++k) check(&ranks[k], k);
  for (int k = 0; k < RANKS; ++k) all[k]->destroy(all[k]);
  printf("checked\n");
  return 0;
}
