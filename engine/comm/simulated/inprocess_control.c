/* Beside the data of the simulated cluster: agreements, texts, a broadcast. */
#include <string.h>

#include "comm/simulated/inprocess_state.h"

void cel__inprocess_agree(void *self, const cel_agreement *mine) {
  endpoint *e = enter(self);
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

cel_agreed cel__inprocess_agreed(void *self, uint64_t *index) {
  endpoint *e = enter(self);
  cluster *c = e->cluster;
  cel_agreed answer = CEL_AGREED_PENDING;
  if (e->agreed < e->started) {
    slot *s = &c->slots.at[e->agreed - c->slot0];
    if (s->arrived == c->ranks && !is_torn(c) && chance(c, 50)) {
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

void cel__inprocess_tell(void *self, int64_t peer, int32_t kind,
                         const void *data, uint32_t size) {
  cel_told *told = cel_alloc(sizeof *told + size);
  int64_t me = ((endpoint *)self)->base.rank;
  *told = (cel_told){.peer = me, .kind = kind, .size = size};
  if (size > 0) memcpy(told->data, data, size);
  endpoint *e = enter(self);
  endpoint *to = &e->cluster->end[peer];
  cel_vec_push(&to->told, told);
  wake(to);
  leave(e);
}

/* What one peer tells stays in order; between peers the seed decides. */
cel_told *cel__inprocess_told(void *self) {
  endpoint *e = enter(self);
  cel_told *first = NULL;
  if (e->told.n > 0 && chance(e->cluster, 50)) {
    int64_t picked =
        e->cluster->threads
            ? 0
            : cel_random_int(&e->cluster->random, 0, (int64_t)e->told.n - 1);
    uint32_t i = 0;
    while (e->told.at[i]->peer != e->told.at[picked]->peer) ++i;
    if (!is_cut(e->cluster, e->base.rank, e->told.at[i]->peer)) {
      first = e->told.at[i];
      memmove(e->told.at + i, e->told.at + i + 1,
              (--e->told.n - i) * sizeof first);
    }
  }
  leave(e);
  return first;
}

cel_status cel__inprocess_broadcast(void *self, void **data, uint64_t *size) {
  endpoint *e = enter(self);
  cluster *c = e->cluster;
  cel_status status = CEL_E_OK;
  if (e->base.rank == 0) {
    while (c->broadcast_reads > 0 && c->threads)
      pthread_cond_wait(&c->broadcast_came, &c->lock);
    cel_free(c->broadcast);
    c->broadcast = cel_alloc(*size > 0 ? *size : 1);
    if (*size > 0) memcpy(c->broadcast, *data, *size);
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
      if (*size > 0) memcpy(*data, c->broadcast, *size);
    }
  }
  pthread_cond_broadcast(&c->broadcast_came);
  leave(e);
  return status;
}
