#include "comm/simulated/simulated_comm.h"

#include <pthread.h>
#include <string.h>

#include "base/vec.h"

/* One call of all ranks. */
typedef struct exchange {
  uint32_t group;
  uint64_t nth; /* of the group's calls */
  char **data;  /* by rank; null until it has come */
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

/* Keeps `bytes` of `mine`, behind as many of `head`. */
static void arrive(cel_simulated_comms *m, exchange *e, int64_t rank,
                   const void *head, uint64_t head_bytes, const void *mine,
                   uint64_t bytes) {
  if (e->data[rank] != NULL) return; /* when it was run before */
  char *data = cel_alloc(head_bytes + bytes + 1);
  if (head_bytes > 0) memcpy(data, head, head_bytes);
  if (bytes > 0) memcpy(data + head_bytes, mine, bytes);
  e->data[rank] = data;
  pthread_cond_broadcast(&m->news);
}

/* Whether all have come of whom there are bytes to get; null: of all. */
static bool complete(const cel_simulated_comms *m, const exchange *e,
                     const uint64_t *get) {
  for (int64_t k = 0; k < m->ranks; ++k)
    if (e->data[k] == NULL && (get == NULL || get[k] > 0)) return false;
  return true;
}

/* The lock is held. */
static cel_status await(cel_simulated_comms *m, const exchange *e,
                        const uint64_t *get) {
  while (m->threads && !m->over && !complete(m, e, get))
    pthread_cond_wait(&m->news, &m->lock);
  if (complete(m, e, get)) return CEL_E_OK;
  if (m->over) return cel_fail(CEL_E_CANCELLED, "the other ranks have ended");
  return cel_fail(CEL_E_AGAIN, "not all ranks have come");
}

static cel_status gather(cel_comm *c, const void *mine, uint64_t bytes,
                         void *all, int64_t root) {
  cel_simulated_comms *m = ((member *)c)->comms;
  pthread_mutex_lock(&m->lock);
  exchange *e = find(m, c->group, c->calls++);
  arrive(m, e, c->rank, NULL, 0, mine, bytes);
  cel_status status = await(m, e, NULL);
  if (status == CEL_E_OK && bytes > 0 &&
      (root == CEL_COMM_ALL || root == c->rank))
    for (int64_t k = 0; k < m->ranks; ++k)
      memcpy((char *)all + (size_t)k * bytes, e->data[k], bytes);
  pthread_mutex_unlock(&m->lock);
  return status;
}

static cel_status all_to_all(cel_comm *c, const void *mine, uint64_t bytes,
                             void *all) {
  cel_simulated_comms *m = ((member *)c)->comms;
  uint64_t me = (uint64_t)c->rank * bytes;
  pthread_mutex_lock(&m->lock);
  exchange *e = find(m, c->group, c->calls++);
  arrive(m, e, c->rank, NULL, 0, mine, (uint64_t)m->ranks * bytes);
  cel_status status = await(m, e, NULL);
  for (int64_t k = 0; status == CEL_E_OK && k < m->ranks; ++k)
    memcpy((char *)all + (size_t)k * bytes, e->data[k] + me, bytes);
  pthread_mutex_unlock(&m->lock);
  return status;
}

static cel_status notify(cel_comm *c, const void *mine, uint64_t bytes,
                         const bool *is_sent, void *all) {
  cel_simulated_comms *m = ((member *)c)->comms;
  uint64_t head = (uint64_t)m->ranks * sizeof *is_sent;
  pthread_mutex_lock(&m->lock);
  exchange *e = find(m, c->group, c->calls++);
  arrive(m, e, c->rank, is_sent, head, mine, (uint64_t)m->ranks * bytes);
  cel_status status = await(m, e, NULL);
  for (int64_t k = 0; status == CEL_E_OK && k < m->ranks; ++k)
    if (((const bool *)e->data[k])[c->rank])
      memcpy((char *)all + (size_t)k * bytes,
             e->data[k] + head + (uint64_t)c->rank * bytes, bytes);
  pthread_mutex_unlock(&m->lock);
  return status;
}

static uint64_t sum_of(const uint64_t *bytes, int64_t n) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += bytes[k];
  return sum;
}

/* What a rank has given this one, where it gives it so much. */
static const char *part_of(const exchange *e, int64_t from, int64_t me,
                           int64_t ranks, uint64_t bytes) {
  const uint64_t *give = (const uint64_t *)(const void *)e->data[from];
  if (give[me] != bytes) return NULL;
  return (const char *)(give + ranks) + sum_of(give, me);
}

/* What there is to get; ranks that have nothing for this one may come later. */
static cel_status take_parts(const exchange *e, const cel_comm *c, char *all,
                             const uint64_t *get) {
  for (int64_t k = 0; k < c->ranks; ++k) {
    if (get[k] == 0) continue;
    const char *part = part_of(e, k, c->rank, c->ranks, get[k]);
    if (part == NULL)
      return cel_fail(CEL_E_COMM, "rank %lld gives not what is to be got",
                      (long long)k);
    memcpy(all, part, get[k]);
    all += get[k];
  }
  return CEL_E_OK;
}

static cel_status all_to_allv(cel_comm *c, const void *mine,
                              const uint64_t *give, void *all,
                              const uint64_t *get) {
  cel_simulated_comms *m = ((member *)c)->comms;
  pthread_mutex_lock(&m->lock);
  exchange *e = find(m, c->group, c->calls++);
  arrive(m, e, c->rank, give, (uint64_t)m->ranks * sizeof *give, mine,
         sum_of(give, m->ranks));
  cel_status status = await(m, e, get);
  if (status == CEL_E_OK) status = take_parts(e, c, all, get);
  pthread_mutex_unlock(&m->lock);
  return status;
}

static cel_status barrier(cel_comm *c) {
  return gather(c, NULL, 0, NULL, CEL_COMM_ALL);
}

static void destroy(cel_comm *c) {
  cel_free(c);
}

static const cel_comm table = {.barrier = barrier,
                               .gather = gather,
                               .all_to_all = all_to_all,
                               .notify = notify,
                               .all_to_allv = all_to_allv,
                               .destroy = destroy};

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
