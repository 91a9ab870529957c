#include <string.h>

#include "base/vec.h"
#include "comm/transport.h"

/* One rank of several that are imagined. What it sends has arrived at once, and
 * what it receives is there; the others agree with all that it says, and say
 * nothing. */
typedef struct dry {
  cel_transport base;
  uint64_t agreed, started; /* agreements reported, started */
  CEL_VEC(uint64_t) posted; /* tickets that have not been given back */
  cel_dry_traffic traffic;
  uint64_t *peers; /* a bit per rank */
} dry;

static void note_peer(dry *d, int64_t peer) {
  cel_assert(peer >= 0 && peer < d->base.ranks && peer != d->base.rank);
  uint64_t *word = &d->peers[peer / 64], bit = 1ull << peer % 64;
  d->traffic.peers += (*word & bit) == 0;
  *word |= bit;
}

static void send_dry(void *self, const cel_posted *message) {
  dry *d = self;
  note_peer(d, message->peer);
  d->traffic.sent++;
  d->traffic.bytes_sent += message->bytes;
  cel_vec_push(&d->posted, message->ticket);
}

static void receive_dry(void *self, const cel_posted *message) {
  dry *d = self;
  note_peer(d, message->peer);
  d->traffic.received++;
  d->traffic.bytes_received += message->bytes;
  cel_vec_push(&d->posted, message->ticket);
}

static void exchange_dry(void *self, const cel_collective *collective) {
  dry *d = self;
  d->traffic.collectives++;
  d->traffic.bytes_shared += collective->bytes;
  cel_vec_push(&d->posted, collective->ticket);
}

static uint32_t poll_dry(cel_transport *t, cel_done *out, uint32_t max) {
  dry *d = (dry *)t;
  uint32_t n = 0;
  while (n < max && d->posted.n > 0)
    out[n++] = (cel_done){.ticket = cel_vec_pop(&d->posted)};
  return n;
}

static bool busy_dry(cel_transport *t) {
  return ((dry *)t)->posted.n > 0;
}

static void agree_dry(void *self, const cel_agreement *mine) {
  dry *d = self;
  cel_assert(mine->index == d->started);
  d->started = mine->index + 1;
}

static cel_agreed agreed_dry(void *self, uint64_t *index) {
  dry *d = self;
  if (d->agreed == d->started) return CEL_AGREED_PENDING;
  *index = d->agreed++;
  return CEL_AGREED_SAME;
}

static void tell_nobody(void *self, int64_t peer, int32_t kind,
                        const void *data, uint32_t size) {
  (void)self, (void)peer, (void)kind, (void)data, (void)size;
}

static cel_told *told_nothing(void *self) {
  (void)self;
  return NULL;
}

static cel_status broadcast_dry(void *self, void **data, uint64_t *size) {
  (void)self, (void)data, (void)size;
  return CEL_E_OK;
}

static cel_status gather_dry(void *self, const void *mine, uint32_t size,
                             void *all) {
  (void)self;
  memcpy(all, mine, size);
  return CEL_E_OK;
}

static void abort_nobody(void *self, int status) {
  (void)self, (void)status;
}

static void destroy_dry(cel_transport *t) {
  dry *d = (dry *)t;
  cel_vec_release(&d->posted);
  cel_free(d->peers);
  cel_free(d);
}

cel_status cel_transport_dry(int64_t rank, int64_t ranks, cel_transport **out) {
  if (ranks < 1 || ranks > CEL_DRY_RANKS)
    return cel_fail(CEL_E_RANGE, "1 to %d ranks, not %lld", (int)CEL_DRY_RANKS,
                    (long long)ranks);
  if (rank < 0 || rank >= ranks)
    return cel_fail(CEL_E_RANGE, "there is no rank %lld of %lld",
                    (long long)rank, (long long)ranks);
  dry *d = cel_alloc_zero(sizeof *d);
  d->peers = cel_alloc_zero((size_t)(ranks + 63) / 64 * sizeof *d->peers);
  d->base = (cel_transport){
      .name = "a dry run",
      .dry = true,
      .rank = rank,
      .ranks = ranks,
      .local_ranks = 1,
      .messages = {.self = d, .send = send_dry, .receive = receive_dry},
      .collectives = {.self = d, .exchange = exchange_dry},
      .control = {.self = d,
                  .agree = agree_dry,
                  .agreed = agreed_dry,
                  .tell = tell_nobody,
                  .told = told_nothing,
                  .broadcast = broadcast_dry,
                  .gather = gather_dry,
                  .abort = abort_nobody},
      .poll = poll_dry,
      .busy = busy_dry,
      .destroy = destroy_dry};
  *out = &d->base;
  return CEL_E_OK;
}

void cel_transport_dry_count(const cel_transport *t, cel_dry_traffic *out) {
  cel_assert(t->dry);
  *out = ((const dry *)t)->traffic;
}
