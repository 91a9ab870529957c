#include "comm/simulated/simulated_comm.h"

#include <pthread.h>
#include <string.h>

#include "base/vec.h"

/* One call of all ranks. */
typedef struct exchange {
  uint32_t group;
  uint64_t nth; /* of the group's calls */
  int64_t arrived;
  uint64_t bytes;
  char **data; /* by rank; null until it has come */
} exchange;

/* `lock` guards all. */
struct cel_simulated_comms {
  pthread_mutex_t lock;
  pthread_cond_t news;
  int64_t ranks;
  bool threads, over;
  CEL_VEC(exchange *) exchanges;
};

typedef struct member {
  cel_comm base;
  cel_simulated_comms *comms;
} member;

static exchange *find(cel_simulated_comms *m, uint32_t group, uint64_t nth) {
  for (uint32_t i = m->exchanges.n; i-- > 0;)
    if (m->exchanges.at[i]->group == group && m->exchanges.at[i]->nth == nth)
      return m->exchanges.at[i];
  exchange *e = cel_alloc_zero(sizeof *e);
  *e = (exchange){.group = group, .nth = nth};
  e->data = cel_alloc_zero((size_t)m->ranks * sizeof *e->data);
  cel_vec_push(&m->exchanges, e);
  return e;
}

static void arrive(cel_simulated_comms *m, exchange *e, int64_t rank,
                   const void *mine, uint64_t bytes) {
  if (e->data[rank] != NULL) return; /* when it was run before */
  cel_assert(e->arrived == 0 || e->bytes == bytes);
  e->bytes = bytes;
  e->data[rank] = cel_alloc(bytes > 0 ? bytes : 1);
  if (bytes > 0) memcpy(e->data[rank], mine, bytes);
  if (++e->arrived == m->ranks) pthread_cond_broadcast(&m->news);
}

/* The lock is held. */
static cel_status await(cel_simulated_comms *m, const exchange *e) {
  while (m->threads && !m->over && e->arrived < m->ranks)
    pthread_cond_wait(&m->news, &m->lock);
  if (e->arrived == m->ranks) return CEL_E_OK;
  if (m->over) return cel_fail(CEL_E_CANCELLED, "the other ranks have ended");
  return cel_fail(CEL_E_AGAIN, "not all ranks have come");
}

static cel_status gather(cel_comm *c, const void *mine, uint64_t bytes,
                         void *all, int64_t root) {
  member *self = (member *)c;
  cel_simulated_comms *m = self->comms;
  pthread_mutex_lock(&m->lock);
  exchange *e = find(m, c->group, c->calls++);
  arrive(m, e, c->rank, mine, bytes);
  cel_status status = await(m, e);
  if (status == CEL_E_OK && bytes > 0 &&
      (root == CEL_COMM_ALL || root == c->rank))
    for (int64_t k = 0; k < m->ranks; ++k)
      memcpy((char *)all + (size_t)k * bytes, e->data[k], bytes);
  pthread_mutex_unlock(&m->lock);
  return status;
}

static cel_status barrier(cel_comm *c) {
  return gather(c, NULL, 0, NULL, CEL_COMM_ALL);
}

static void destroy(cel_comm *c) {
  cel_free(c);
}

static const cel_comm table = {
    .barrier = barrier, .gather = gather, .destroy = destroy};

cel_comm *cel_simulated_comms_join(cel_simulated_comms *comms, int64_t rank,
                                   uint32_t group) {
  member *self = cel_alloc_zero(sizeof *self);
  *self = (member){.base = table, .comms = comms};
  self->base.group = group;
  self->base.rank = rank;
  self->base.ranks = comms->ranks;
  return &self->base;
}

void cel_simulated_comms_end(cel_simulated_comms *comms) {
  pthread_mutex_lock(&comms->lock);
  comms->over = true;
  pthread_cond_broadcast(&comms->news);
  pthread_mutex_unlock(&comms->lock);
}

cel_simulated_comms *cel_simulated_comms_create(int64_t ranks, bool threads) {
  cel_simulated_comms *m = cel_alloc_zero(sizeof *m);
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->news, NULL);
  m->ranks = ranks;
  m->threads = threads;
  return m;
}

void cel_simulated_comms_destroy(cel_simulated_comms *comms) {
  cel_simulated_comms *m = comms;
  for (uint32_t i = 0; i < m->exchanges.n; ++i) {
    exchange *e = m->exchanges.at[i];
    for (int64_t k = 0; k < m->ranks; ++k) cel_free(e->data[k]);
    cel_free(e->data);
    cel_free(e);
  }
  cel_vec_release(&m->exchanges);
  pthread_cond_destroy(&m->news);
  pthread_mutex_destroy(&m->lock);
  cel_free(m);
}
