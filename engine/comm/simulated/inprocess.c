#include <string.h>

#include "comm/simulated/inprocess_state.h"
#include "comm/strided.h"

/* ---- messages; the lock is held ----------------------------------------- */

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
    if (k == e->incoming.n || is_cut(e->cluster, e->base.rank, r->peer) ||
        !chance(e->cluster, 50))
      continue;
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

static void swap_with_delayed(cluster *c, flight *f, endpoint *to) {
  gather(f);
  gather(c->delayed);
  flight other = *c->delayed;
  c->delayed->sequence = f->sequence;
  c->delayed->direct = f->direct;
  f->sequence = other.sequence;
  f->direct = other.direct;
  cel_vec_push(&to->incoming, c->delayed);
  c->delayed = NULL;
}

/* Whether the message goes on its way; it is with the sender already. */
static bool pass_fault(cluster *c, flight *f, endpoint *to) {
  c->sent++;
  if (c->delayed != NULL && c->delayed->from == f->from &&
      c->fault_to == to->base.rank)
    swap_with_delayed(c, f, to);
  if (c->repeat != NULL && c->fault_from == f->from &&
      c->fault_to == to->base.rank) {
    gather(f);
    uint64_t n = f->bytes < c->repeat_bytes ? f->bytes : c->repeat_bytes;
    memcpy(f->transit, c->repeat, n);
    cel_free(c->repeat);
    c->repeat = NULL;
  }
  bool harmed = c->fault != CEL_FAULT_NONE && c->fault < CEL_FAULT_DEAD;
  if (!harmed || c->sent != c->fault_at) return true;
  gather(f);
  c->fault_from = f->from;
  c->fault_to = to->base.rank;
  if (c->fault == CEL_FAULT_DUPLICATE) {
    c->repeat_bytes = f->bytes;
    c->repeat = cel_alloc(f->bytes > 0 ? f->bytes : 1);
    memcpy(c->repeat, f->transit, f->bytes);
    return true;
  }
  if (c->fault == CEL_FAULT_SWAP)
    c->delayed = f;
  else
    f->delivered = true;
  return false;
}

/* ---- for the tables -------------------------------------------------------
 */

static void send_inprocess(void *self, const cel_posted *message) {
  endpoint *e = enter(self);
  cluster *c = e->cluster;
  cel_assert(message->peer >= 0 && message->peer < c->ranks);
  cel_assert(cel__strided_bytes(message->piece, message->pieces) ==
             message->bytes);
  endpoint *to = &c->end[message->peer];
  flight *f = cel_alloc_zero(sizeof *f);
  *f = (flight){.from = e->base.rank,
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

static void receive_inprocess(void *self, const cel_posted *message) {
  endpoint *e = enter(self);
  cel_assert(message->peer >= 0 && message->peer < e->cluster->ranks);
  cel_vec_push(&e->receives, message);
  if (e->cluster->threads) match(e);
  leave(e);
}

static void exchange_inprocess(void *self, const cel_collective *collective) {
  endpoint *e = enter(self);
  cluster *c = e->cluster;
  cel__simulated_collectives_post(c->collectives, e->base.rank, collective);
  for (int64_t k = 0; k < c->ranks; ++k) wake(&c->end[k]);
  leave(e);
}

static int64_t member_of(const endpoint *e, int32_t device) {
  return e->base.rank * e->base.collectives.limits.devices + device;
}

static void
exchange_devices_inprocess(void *self,
                           const cel_device_collective *collective) {
  endpoint *e = enter(self);
  cel__members_post(e->cluster->members, member_of(e, collective->device),
                    collective);
  leave(e);
}

static void unjoin_inprocess(void *self, void *context) {
  endpoint *e = enter(self);
  cel__members_unjoin(e->cluster->members, context);
  leave(e);
}

static void halt_inprocess(cel_transport *t) {
  endpoint *e = enter(t);
  for (int32_t d = 0; d < t->collectives.limits.devices; ++d)
    cel__members_halt(e->cluster->members, member_of(e, d));
  leave(e);
}

static bool moves(void *context) {
  return chance(context, 50);
}

/* Lets collectives move on, as far as the seed wants it. */
static void move_collectives(endpoint *e) {
  cluster *c = e->cluster;
  cel_done done;
  if (is_torn(c)) return;
  while (cel__simulated_collectives_step(c->collectives, e->base.rank, moves, c,
                                         &done))
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
  move_collectives(e);
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
  bool torn = is_torn(e->cluster);
  for (int32_t d = 0; d < t->collectives.limits.devices && n < max && !torn;
       ++d)
    if (chance(e->cluster, 50) &&
        cel__members_next(e->cluster->members, member_of(e, d), &out[n]))
      ++n;
  leave(e);
  return n;
}

static void carry_inprocess(void *self, void *context) {
  (void)self, (void)context;
}

static void unchain_inprocess(void *self, void *context) {
  endpoint *e = enter(self);
  flight *f = context;
  if (f->from == e->base.rank) {
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

static cel_status join_inprocess(void *self, uint32_t group, cel_comm **out) {
  const endpoint *e = self;
  *out = cel_simulated_comms_join(e->cluster->comms, e->base.rank, group);
  return CEL_E_OK;
}

static void abort_inprocess(void *self, int status) {
  (void)status;
  cel_simulated_comms_end(((endpoint *)self)->cluster->comms);
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
  if (c->delayed != NULL) release_flight(c->delayed);
  pthread_cond_destroy(&c->broadcast_came);
  pthread_mutex_destroy(&c->lock);
  cel_simulated_comms_destroy(c->comms);
  cel__simulated_collectives_destroy(c->collectives);
  cel__members_destroy(c->members);
  cel__simulated_heartbeat_destroy(c->heartbeat);
  cel_vec_release(&c->slots);
  cel_free(c->repeat);
  cel_free(c->broadcast);
  cel_free(c->end);
  cel_free(c);
}

static void fill_tables(endpoint *e) {
  e->base.messages = (cel_message_table){
      .self = e, .send = send_inprocess, .receive = receive_inprocess};
  e->base.collectives =
      (cel_collective_table){.self = e, .exchange = exchange_inprocess};
  e->base.control = (cel_control_table){.self = e,
                                        .agree = cel__inprocess_agree,
                                        .agreed = cel__inprocess_agreed,
                                        .tell = cel__inprocess_tell,
                                        .told = cel__inprocess_told,
                                        .broadcast = cel__inprocess_broadcast,
                                        .join = join_inprocess,
                                        .abort = abort_inprocess};
}

/* Of a cluster whose devices exchange what all exchange. */
static void join_devices(endpoint *e, const cel_collective_limits *limits) {
  e->base.collectives =
      (cel_collective_table){.self = e,
                             .limits = *limits,
                             .exchange_devices = exchange_devices_inprocess,
                             .unjoin = unjoin_inprocess};
  e->base.chained = chained_inprocess;
  e->base.halt = halt_inprocess;
}

/* Those of this rank's host, itself left out. */
static void find_near(endpoint *e, const cel_inprocess_config *config) {
  int64_t hosts = config->hosts > 0 ? config->hosts : 1;
  cel_transport *t = &e->base;
  t->local_rank = (int32_t)(t->rank / hosts);
  t->local_ranks = (int32_t)((t->ranks - t->rank % hosts - 1) / hosts + 1);
  t->messages.far_bytes = config->far_bytes;
  if (config->hosts == 0) return;
  e->near = cel_alloc((size_t)t->local_ranks * sizeof *e->near);
  for (int64_t k = t->rank % hosts; k < t->ranks; k += hosts)
    if (k != t->rank) e->near[t->messages.nears++] = k;
  t->messages.near = e->near;
  t->messages.direct_bytes = config->direct_bytes;
  bool harms =
      config->fault != CEL_FAULT_NONE && config->fault < CEL_FAULT_DEAD;
  if (config->threads || harms || config->chain_bytes == 0) return;
  t->messages.chain_bytes = config->chain_bytes;
  t->messages.carry = carry_inprocess;
  t->messages.unchain = unchain_inprocess;
  t->chained = chained_inprocess;
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
  c->comms = cel_simulated_comms_create(config->ranks, config->threads);
  c->collectives =
      cel__simulated_collectives_create(config->ranks, config->threads);
  if (config->collective.devices > 0 && !config->threads)
    c->members =
        cel__members_create(config->ranks * config->collective.devices);
  if (config->lost_ns > 0)
    c->heartbeat = cel__simulated_heartbeat_create(config);
  c->fault = config->fault;
  c->fault_at = config->fault_at;
  c->end = cel_alloc_zero((size_t)c->ranks * sizeof *c->end);
  for (int64_t k = 0; k < c->ranks; ++k) {
    endpoint *e = &c->end[k];
    e->base = (cel_transport){.name = "in-process",
                              .rank = k,
                              .ranks = c->ranks,
                              .poll = poll_inprocess,
                              .busy = busy_inprocess,
                              .destroy = destroy_inprocess};
    fill_tables(e);
    find_near(e, config);
    if (c->members != NULL) join_devices(e, &config->collective);
    e->cluster = c;
    e->park = config->park != NULL ? config->park[k] : NULL;
    out[k] = &e->base;
  }
  return CEL_E_OK;
}

/* ---- the heartbeat --------------------------------------------------------
 */

cel_inprocess_life cel_inprocess_life_of(cel_transport *t) {
  endpoint *e = enter(t);
  cel_inprocess_life life =
      cel__simulated_heartbeat_life(e->cluster->heartbeat, t->rank);
  leave(e);
  return life;
}

void cel_inprocess_pass(cel_transport *t, int64_t ns) {
  endpoint *e = enter(t);
  cel__simulated_heartbeat_pass(e->cluster->heartbeat, &e->cluster->random, ns);
  leave(e);
}
