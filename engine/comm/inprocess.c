#include <pthread.h>
#include <string.h>

#include "base/park.h"
#include "base/random.h"
#include "base/vec.h"
#include "comm/joint.h"
#include "comm/meeting.h"
#include "comm/members.h"
#include "comm/strided.h"

/* A message on its way. Held by the receiver until delivered and, where the
 * sender has not been told yet, by the sender; the last one frees it. */
typedef struct flight {
  int64_t from;
  uint64_t sequence, bytes;
  bool direct;
  const cel_posted *posted; /* null once the sender has been told */
  char *transit;            /* the bytes, once they have left the sender */
  bool delivered;
  bool chained;                /* at the sender: it does the gathering */
  const cel_posted *receiving; /* chained at the receiver, which was told */
} flight;

typedef struct slot {
  int64_t arrived, reported;
  uint64_t hash, count;
  bool different;
} slot;

struct cluster;

typedef struct endpoint {
  cel_transport base;
  struct cluster *cluster;
  cel_park *park;
  int64_t *near;
  CEL_VEC(flight *) incoming;
  CEL_VEC(flight *) outgoing; /* sender not yet told */
  CEL_VEC(const cel_posted *) receives;
  CEL_VEC(cel_done) done;
  CEL_VEC(cel_chained) chained;
  CEL_VEC(cel_told *) told;
  uint64_t agreed; /* the next agreement to report */
  uint64_t started;
} endpoint;

/* All ranks of the process. `lock` guards everything in it and in its
 * endpoints; without threads nobody contends for it. */
typedef struct cluster {
  pthread_mutex_t lock;
  pthread_cond_t broadcast_came;
  bool threads;
  cel_random random;
  int64_t ranks, alive;
  endpoint *end;
  uint64_t slot0; /* index of slots.at[0] */
  CEL_VEC(slot) slots;
  cel_meeting *meeting;
  cel__joints *joints;
  cel__members *members; /* null: no collectives between devices */
  void *broadcast;
  uint64_t broadcast_size, broadcasts, broadcast_reads;
  cel_fault fault;
  uint64_t fault_at, sent;
  flight *held; /* FAULT_SWAP: waits for its partner */
  char *again;  /* FAULT_DUPLICATE: what is to come once more */
  uint64_t again_bytes;
  int64_t again_from, again_to;
} cluster;

/* ---- messages; the lock is held ----------------------------------------- */

static bool chance(cluster *c, int percent) {
  return c->threads || cel_random_chance(&c->random, percent);
}

static void wake(endpoint *e) {
  if (e->park != NULL) cel_park_wake(e->park);
}

static void report(endpoint *e, uint64_t ticket, cel_error *error) {
  cel_vec_push(&e->done, (cel_done){ticket, error});
  wake(e);
}

static void release_flight(flight *f) {
  cel_free(f->transit);
  cel_free(f);
}

static void gather(flight *f) {
  if (f->transit != NULL) return;
  f->transit = cel_alloc(f->bytes > 0 ? f->bytes : 1);
  cel__strided_gather(f->posted->piece, f->posted->pieces, f->transit);
}

/* The sender's memory is its own again. */
static void let_go(endpoint *sender, uint32_t i) {
  flight *f = sender->outgoing.at[i];
  gather(f);
  report(sender, f->posted->ticket, NULL);
  f->posted = NULL;
  cel_vec_swap_out(&sender->outgoing, i);
  if (f->delivered) release_flight(f);
}

static cel_error *mismatch(const endpoint *e, const cel_posted *r,
                           const flight *f) {
  cel_fail(CEL_E_COMM,
           "rank %lld expected %llu bytes as message %llu from rank %lld, "
           "which sent %llu",
           (long long)e->base.rank, (unsigned long long)r->bytes,
           (unsigned long long)r->sequence, (long long)r->peer,
           (unsigned long long)f->bytes);
  cel_error *error = cel_alloc(sizeof *error);
  *error = *cel_error_last();
  return error;
}

static void deliver(endpoint *e, uint32_t receive, uint32_t i) {
  const cel_posted *r = e->receives.at[receive];
  flight *f = e->incoming.at[i];
  gather(f);
  bool fits = r->bytes == f->bytes;
  if (fits) cel__strided_scatter(r->piece, r->pieces, f->transit);
  report(e, r->ticket, fits ? NULL : mismatch(e, r, f));
  cel_vec_swap_out(&e->receives, receive);
  cel_vec_swap_out(&e->incoming, i);
  f->delivered = true;
  if (f->posted == NULL) release_flight(f);
}

static uint32_t find_flight(const endpoint *e, const cel_posted *r) {
  uint32_t i = 0;
  while (i < e->incoming.n && (e->incoming.at[i]->from != r->peer ||
                               e->incoming.at[i]->direct != r->direct ||
                               e->incoming.at[i]->sequence != r->sequence))
    ++i;
  return i;
}

static cel_status put_out(void *context, void *stream) {
  (void)stream;
  gather(context);
  return CEL_E_OK;
}

static cel_status put_in(void *context, void *stream) {
  (void)stream;
  const flight *f = context;
  cel__strided_scatter(f->receiving->piece, f->receiving->pieces, f->transit);
  return CEL_E_OK;
}

/* Delivers what can be, or the part of it that the seed picks. */
static void match(endpoint *e) {
  for (uint32_t i = e->receives.n; i-- > 0;) {
    const cel_posted *r = e->receives.at[i];
    uint32_t k = find_flight(e, r);
    if (k == e->incoming.n || !chance(e->cluster, 50)) continue;
    flight *f = e->incoming.at[k];
    if (f->chained && f->transit == NULL) continue;
    if (!r->chained || r->bytes != f->bytes) {
      deliver(e, i, k);
      continue;
    }
    gather(f);
    f->receiving = r;
    cel_vec_push(&e->chained, (cel_chained){r->ticket, put_in, f});
    cel_vec_swap_out(&e->receives, i);
  }
}

/* ---- faults ----------------------------------------------------------------
 */

static void swap_with_held(cluster *c, flight *f, endpoint *to) {
  gather(f);
  gather(c->held);
  flight other = *c->held;
  c->held->sequence = f->sequence;
  c->held->direct = f->direct;
  f->sequence = other.sequence;
  f->direct = other.direct;
  cel_vec_push(&to->incoming, c->held);
  c->held = NULL;
}

/* Whether the message goes on its way; it is with the sender already. */
static bool pass_fault(cluster *c, flight *f, endpoint *to) {
  c->sent++;
  if (c->held != NULL && c->held->from == f->from &&
      c->again_to == to->base.rank)
    swap_with_held(c, f, to);
  if (c->again != NULL && c->again_from == f->from &&
      c->again_to == to->base.rank) {
    gather(f);
    uint64_t n = f->bytes < c->again_bytes ? f->bytes : c->again_bytes;
    memcpy(f->transit, c->again, n);
    cel_free(c->again);
    c->again = NULL;
  }
  if (c->fault == CEL_FAULT_NONE || c->sent != c->fault_at) return true;
  gather(f);
  c->again_from = f->from;
  c->again_to = to->base.rank;
  if (c->fault == CEL_FAULT_DUPLICATE) {
    c->again_bytes = f->bytes;
    c->again = cel_alloc(f->bytes > 0 ? f->bytes : 1);
    memcpy(c->again, f->transit, f->bytes);
    return true;
  }
  if (c->fault == CEL_FAULT_SWAP)
    c->held = f;
  else
    f->delivered = true;
  return false;
}

/* ---- the table --------------------------------------------------------------
 */

static endpoint *enter(cel_transport *t) {
  endpoint *e = (endpoint *)t;
  pthread_mutex_lock(&e->cluster->lock);
  return e;
}

static void leave(endpoint *e) {
  pthread_mutex_unlock(&e->cluster->lock);
}

static void send_inprocess(cel_transport *t, const cel_posted *message) {
  endpoint *e = enter(t);
  cluster *c = e->cluster;
  cel_assert(message->peer >= 0 && message->peer < c->ranks);
  cel_assert(cel__strided_bytes(message->piece, message->pieces) ==
             message->bytes);
  endpoint *to = &c->end[message->peer];
  flight *f = cel_alloc_zero(sizeof *f);
  *f = (flight){.from = t->rank,
                .sequence = message->sequence,
                .direct = message->direct,
                .bytes = message->bytes,
                .posted = message,
                .chained = message->chained};
  if (f->chained)
    cel_vec_push(&e->chained, (cel_chained){message->ticket, put_out, f});
  else
    cel_vec_push(&e->outgoing, f);
  if (pass_fault(c, f, to)) cel_vec_push(&to->incoming, f);
  if (c->threads) {
    let_go(e, e->outgoing.n - 1);
    match(to);
  }
  wake(to);
  leave(e);
}

static void receive_inprocess(cel_transport *t, const cel_posted *message) {
  endpoint *e = enter(t);
  cel_assert(message->peer >= 0 && message->peer < e->cluster->ranks);
  cel_vec_push(&e->receives, message);
  if (e->cluster->threads) match(e);
  leave(e);
}

static void exchange_inprocess(cel_transport *t, const cel_joint *joint) {
  endpoint *e = enter(t);
  cluster *c = e->cluster;
  cel__joints_post(c->joints, t->rank, joint);
  for (int64_t k = 0; k < c->ranks; ++k) wake(&c->end[k]);
  leave(e);
}

static int64_t member_of(const endpoint *e, int32_t device) {
  return e->base.rank * e->base.joint.devices + device;
}

static void exchange_devices_inprocess(cel_transport *t,
                                       const cel_device_joint *joint) {
  endpoint *e = enter(t);
  cel__members_post(e->cluster->members, member_of(e, joint->device), joint);
  leave(e);
}

static void unjoin_inprocess(cel_transport *t, void *context) {
  endpoint *e = enter(t);
  cel__members_unjoin(e->cluster->members, context);
  leave(e);
}

static void halt_inprocess(cel_transport *t) {
  endpoint *e = enter(t);
  for (int32_t d = 0; d < t->joint.devices; ++d)
    cel__members_halt(e->cluster->members, member_of(e, d));
  leave(e);
}

static bool moves(void *context) {
  return chance(context, 50);
}

/* Lets collectives move on, as far as the seed wants it. */
static void move_joints(endpoint *e) {
  cluster *c = e->cluster;
  cel_done done;
  while (cel__joints_step(c->joints, e->base.rank, moves, c, &done))
    cel_vec_push(&e->done, done);
}

static uint32_t take_done(endpoint *e, cel_done *out, uint32_t max) {
  uint32_t n = 0;
  while (n < max && e->done.n > 0) {
    int64_t last = e->done.n - 1;
    int64_t i = e->cluster->threads
                    ? last
                    : cel_random_int(&e->cluster->random, 0, last);
    out[n++] = e->done.at[i];
    cel_vec_swap_out(&e->done, i);
  }
  return n;
}

static uint32_t poll_inprocess(cel_transport *t, cel_done *out, uint32_t max) {
  endpoint *e = enter(t);
  if (!e->cluster->threads) {
    for (uint32_t i = e->outgoing.n; i-- > 0;)
      if (chance(e->cluster, 40)) let_go(e, i);
    match(e);
  }
  move_joints(e);
  uint32_t n = take_done(e, out, max);
  leave(e);
  return n;
}

static uint32_t chained_inprocess(cel_transport *t, cel_chained *out,
                                  uint32_t max) {
  endpoint *e = enter(t);
  uint32_t n = 0;
  for (uint32_t i = e->chained.n; i-- > 0 && n < max;) {
    if (!chance(e->cluster, 50)) continue;
    out[n++] = e->chained.at[i];
    cel_vec_swap_out(&e->chained, i);
  }
  for (int32_t d = 0; d < t->joint.devices && n < max; ++d)
    if (chance(e->cluster, 50) &&
        cel__members_next(e->cluster->members, member_of(e, d), &out[n]))
      ++n;
  leave(e);
  return n;
}

static void carry_inprocess(cel_transport *t, void *context) {
  (void)t, (void)context;
}

static void unchain_inprocess(cel_transport *t, void *context) {
  endpoint *e = enter(t);
  flight *f = context;
  if (f->from == t->rank) {
    f->posted = NULL;
  } else {
    uint32_t i = 0;
    while (e->incoming.at[i] != f) ++i;
    cel_vec_swap_out(&e->incoming, i);
    f->delivered = true;
  }
  if (f->posted == NULL && f->delivered) release_flight(f);
  leave(e);
}

/* Whoever has news wakes the park: nobody needs to nap. */
static bool busy_inprocess(cel_transport *t) {
  (void)t;
  return false;
}

/* ---- control plane ----------------------------------------------------------
 */

static void agree_inprocess(cel_transport *t, const cel_agreement *mine) {
  endpoint *e = enter(t);
  cluster *c = e->cluster;
  cel_assert(mine->index == e->started);
  e->started++;
  while (c->slot0 + c->slots.n <= mine->index)
    cel_vec_push(&c->slots, (slot){0});
  slot *s = &c->slots.at[mine->index - c->slot0];
  if (s->arrived++ == 0) {
    s->hash = mine->hash;
    s->count = mine->count;
  }
  if (s->hash != mine->hash || s->count != mine->count) s->different = true;
  if (s->arrived == c->ranks)
    for (int64_t k = 0; k < c->ranks; ++k) wake(&c->end[k]);
  leave(e);
}

static cel_agreed agreed_inprocess(cel_transport *t, uint64_t *index) {
  endpoint *e = enter(t);
  cluster *c = e->cluster;
  cel_agreed answer = CEL_AGREED_PENDING;
  if (e->agreed < e->started) {
    slot *s = &c->slots.at[e->agreed - c->slot0];
    if (s->arrived == c->ranks && chance(c, 50)) {
      answer = s->different ? CEL_AGREED_DIFFERENT : CEL_AGREED_SAME;
      *index = e->agreed++;
      s->reported++;
    }
  }
  while (c->slots.n > 0 && c->slots.at[0].reported == c->ranks) {
    memmove(c->slots.at, c->slots.at + 1, --c->slots.n * sizeof(slot));
    c->slot0++;
  }
  leave(e);
  return answer;
}

static void tell_inprocess(cel_transport *t, int64_t peer, int32_t kind,
                           const void *data, uint32_t size) {
  cel_told *told = cel_alloc(sizeof *told + size);
  *told = (cel_told){.peer = t->rank, .kind = kind, .size = size};
  if (size > 0) memcpy(told->data, data, size);
  endpoint *e = enter(t);
  endpoint *to = &e->cluster->end[peer];
  cel_vec_push(&to->told, told);
  wake(to);
  leave(e);
}

/* What one peer tells stays in order; between peers the seed decides. */
static cel_told *told_inprocess(cel_transport *t) {
  endpoint *e = enter(t);
  cel_told *first = NULL;
  if (e->told.n > 0 && chance(e->cluster, 50)) {
    int64_t picked =
        e->cluster->threads
            ? 0
            : cel_random_int(&e->cluster->random, 0, (int64_t)e->told.n - 1);
    uint32_t i = 0;
    while (e->told.at[i]->peer != e->told.at[picked]->peer) ++i;
    first = e->told.at[i];
    memmove(e->told.at + i, e->told.at + i + 1,
            (--e->told.n - i) * sizeof first);
  }
  leave(e);
  return first;
}

static cel_status broadcast_inprocess(cel_transport *t, void **data,
                                      uint64_t *size) {
  endpoint *e = enter(t);
  cluster *c = e->cluster;
  cel_status status = CEL_E_OK;
  if (t->rank == 0) {
    while (c->broadcast_reads > 0 && c->threads)
      pthread_cond_wait(&c->broadcast_came, &c->lock);
    cel_free(c->broadcast);
    c->broadcast = cel_alloc(*size > 0 ? *size : 1);
    memcpy(c->broadcast, *data, *size);
    c->broadcast_size = *size;
    c->broadcast_reads = (uint64_t)c->ranks - 1;
  } else {
    while (c->broadcast_reads == 0 && c->threads)
      pthread_cond_wait(&c->broadcast_came, &c->lock);
    if (c->broadcast_reads == 0) {
      status = cel_fail(CEL_E_COMM, "rank 0 has broadcast nothing yet");
    } else {
      c->broadcast_reads--;
      cel_free(*data);
      *size = c->broadcast_size;
      *data = cel_alloc(*size > 0 ? *size : 1);
      memcpy(*data, c->broadcast, *size);
    }
  }
  pthread_cond_broadcast(&c->broadcast_came);
  leave(e);
  return status;
}

/* One process has one set of devices: nobody asks. */
static cel_status gather_inprocess(cel_transport *t, const void *mine,
                                   uint32_t size, void *all) {
  (void)t, (void)mine, (void)size, (void)all;
  return cel_fail(CEL_E_COMM, "the in-process transport does not gather");
}

static cel_status join_inprocess(cel_transport *t, uint32_t group,
                                 cel_comm **out) {
  *out = cel_meeting_join(((endpoint *)t)->cluster->meeting, t->rank, group);
  return CEL_E_OK;
}

static void abort_inprocess(cel_transport *t, int status) {
  (void)status;
  cel_meeting_end(((endpoint *)t)->cluster->meeting);
}

/* ---- life --------------------------------------------------------------- */

static void release_endpoint(endpoint *e) {
  for (uint32_t i = 0; i < e->incoming.n; ++i) {
    flight *f = e->incoming.at[i];
    f->delivered = true;
    if (f->posted == NULL || f->chained) release_flight(f);
  }
  cel_vec_release(&e->incoming);
  cel_vec_release(&e->chained);
  for (uint32_t i = 0; i < e->outgoing.n; ++i) {
    e->outgoing.at[i]->posted = NULL;
    if (e->outgoing.at[i]->delivered) release_flight(e->outgoing.at[i]);
  }
  cel_vec_release(&e->outgoing);
  for (uint32_t i = 0; i < e->done.n; ++i) cel_free(e->done.at[i].error);
  cel_free(e->near);
  for (uint32_t i = 0; i < e->told.n; ++i) cel_free(e->told.at[i]);
  cel_vec_release(&e->done);
  cel_vec_release(&e->told);
  cel_vec_release(&e->receives);
}

static void destroy_inprocess(cel_transport *t) {
  endpoint *e = enter(t);
  cluster *c = e->cluster;
  e->receives.n = 0; /* their posters are gone */
  bool last = --c->alive == 0;
  leave(e);
  if (!last) return;
  for (int64_t k = 0; k < c->ranks; ++k) release_endpoint(&c->end[k]);
  if (c->held != NULL) release_flight(c->held);
  pthread_cond_destroy(&c->broadcast_came);
  pthread_mutex_destroy(&c->lock);
  cel_meeting_destroy(c->meeting);
  cel__joints_destroy(c->joints);
  cel__members_destroy(c->members);
  cel_vec_release(&c->slots);
  cel_free(c->again);
  cel_free(c->broadcast);
  cel_free(c->end);
  cel_free(c);
}

static const cel_transport inprocess_table = {.name = "in-process",
                                              .send = send_inprocess,
                                              .receive = receive_inprocess,
                                              .exchange = exchange_inprocess,
                                              .exchange_devices =
                                                  exchange_devices_inprocess,
                                              .poll = poll_inprocess,
                                              .chained = chained_inprocess,
                                              .carry = carry_inprocess,
                                              .unchain = unchain_inprocess,
                                              .unjoin = unjoin_inprocess,
                                              .halt = halt_inprocess,
                                              .busy = busy_inprocess,
                                              .agree = agree_inprocess,
                                              .agreed = agreed_inprocess,
                                              .tell = tell_inprocess,
                                              .told = told_inprocess,
                                              .broadcast = broadcast_inprocess,
                                              .gather = gather_inprocess,
                                              .join = join_inprocess,
                                              .abort = abort_inprocess,
                                              .destroy = destroy_inprocess};

/* Those of this rank's host, itself left out. */
static void find_near(endpoint *e, const cel_inprocess_config *config) {
  int64_t hosts = config->hosts > 0 ? config->hosts : 1;
  cel_transport *t = &e->base;
  t->local_rank = (int32_t)(t->rank / hosts);
  t->local_ranks = (int32_t)((t->ranks - t->rank % hosts - 1) / hosts + 1);
  if (config->hosts == 0) return;
  e->near = cel_alloc((size_t)t->local_ranks * sizeof *e->near);
  for (int64_t k = t->rank % hosts; k < t->ranks; k += hosts)
    if (k != t->rank) e->near[t->nears++] = k;
  t->near = e->near;
  t->direct_bytes = config->direct_bytes;
  if (!config->threads && config->fault == CEL_FAULT_NONE)
    t->chain_bytes = config->chain_bytes;
}

cel_status cel_transport_inprocess(const cel_inprocess_config *config,
                                   cel_transport **out) {
  if (config->ranks < 1)
    return cel_fail(CEL_E_ARGUMENT, "a cluster of %lld ranks",
                    (long long)config->ranks);
  cluster *c = cel_alloc_zero(sizeof *c);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->broadcast_came, NULL);
  c->threads = config->threads;
  c->random.state = config->seed;
  c->ranks = c->alive = config->ranks;
  c->meeting = cel_meeting_create(config->ranks, config->threads);
  c->joints = cel__joints_create(config->ranks, config->threads);
  if (config->joint.devices > 0 && !config->threads)
    c->members = cel__members_create(config->ranks * config->joint.devices);
  c->fault = config->fault;
  c->fault_at = config->fault_at;
  c->end = cel_alloc_zero((size_t)c->ranks * sizeof *c->end);
  for (int64_t k = 0; k < c->ranks; ++k) {
    endpoint *e = &c->end[k];
    e->base = inprocess_table;
    e->base.rank = k;
    e->base.ranks = c->ranks;
    find_near(e, config);
    if (c->members != NULL) e->base.joint = config->joint;
    e->cluster = c;
    e->park = config->park != NULL ? config->park[k] : NULL;
    out[k] = &e->base;
  }
  return CEL_E_OK;
}
