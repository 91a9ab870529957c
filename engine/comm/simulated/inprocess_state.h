/* inprocess_state.h -- the simulated cluster's inside, shared by inprocess.c
 * (messages, collectives, life) and inprocess_control.c (agreements, texts, a
 * broadcast).
 *
 * Guard: the cluster's lock, which whoever is asked enters.
 */
#ifndef CEL_COMM_SIMULATED_INPROCESS_STATE_H
#define CEL_COMM_SIMULATED_INPROCESS_STATE_H

#include <pthread.h>

#include "base/park.h"
#include "base/random.h"
#include "base/vec.h"
#include "comm/simulated/simulated_collectives.h"
#include "comm/simulated/simulated_comm.h"
#include "comm/simulated/simulated_heartbeat.h"
#include "comm/simulated/simulated_members.h"

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
  cel_simulated_comms *comms;
  cel__simulated_collectives *collectives;
  cel__simulated_heartbeat *heartbeat; /* null: none */
  cel__members *members; /* null: no collectives between devices */
  void *broadcast;
  uint64_t broadcast_size, broadcasts, broadcast_reads;
  cel_fault fault;
  uint64_t fault_at, sent;
  flight *delayed; /* FAULT_SWAP: waits for its partner */
  char *repeat;    /* FAULT_DUPLICATE: what is to come once more */
  uint64_t repeat_bytes;
  int64_t fault_from, fault_to;
} cluster;

/* `self` of all tables is the endpoint. */
static inline endpoint *enter(void *self) {
  endpoint *e = self;
  pthread_mutex_lock(&e->cluster->lock);
  return e;
}

static inline void leave(endpoint *e) {
  pthread_mutex_unlock(&e->cluster->lock);
}

static inline bool chance(cluster *c, int percent) {
  return c->threads || cel_random_chance(&c->random, percent);
}

/* Whether a link between two ranks is silent; or one of all. */
static inline bool is_cut(const cluster *c, int64_t a, int64_t b) {
  return cel__simulated_heartbeat_cut(c->heartbeat, a, b);
}

static inline bool is_torn(const cluster *c) {
  return cel__simulated_heartbeat_cuts(c->heartbeat);
}

static inline void wake(endpoint *e) {
  if (e->park != NULL) cel_park_wake(e->park);
}

/* inprocess_control.c; see transport.h */
void cel__inprocess_agree(void *self, const cel_agreement *mine);
cel_agreed cel__inprocess_agreed(void *self, uint64_t *index);
void cel__inprocess_tell(void *self, int64_t peer, int32_t kind,
                         const void *data, uint32_t size);
cel_told *cel__inprocess_told(void *self);
cel_status cel__inprocess_broadcast(void *self, void **data, uint64_t *size);

#endif
