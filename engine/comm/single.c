#include <string.h>

#include "base/vec.h"
#include "comm/transport.h"

/* One rank alone, which has nobody to send messages to. Agreements hold at
 * once; what it tells itself comes back in order. */
typedef struct single {
  cel_transport base;
  uint64_t agreed, started; /* agreements reported, started */
  CEL_VEC(cel_told *) told; /* oldest first */
} single;

static uint32_t poll_none(cel_transport *t, cel_done *out, uint32_t max) {
  (void)t, (void)out, (void)max;
  return 0;
}

static bool never_busy(cel_transport *t) {
  (void)t;
  return false;
}

/* In a session engines may follow each other, and each counts from 0. */
static void agree_alone(void *self, const cel_agreement *mine) {
  single *s = self;
  if (mine->index == 0) s->agreed = s->started = 0;
  cel_assert(mine->index == s->started);
  s->started = mine->index + 1;
}

static cel_agreed agreed_alone(void *self, uint64_t *index) {
  single *s = self;
  if (s->agreed == s->started) return CEL_AGREED_PENDING;
  *index = s->agreed++;
  return CEL_AGREED_SAME;
}

static void tell_self(void *self, int64_t peer, int32_t kind, const void *data,
                      uint32_t size) {
  single *s = self;
  cel_assert(peer == 0);
  cel_told *told = cel_alloc(sizeof *told + size);
  *told = (cel_told){.peer = peer, .kind = kind, .size = size};
  if (size > 0) memcpy(told->data, data, size);
  cel_vec_push(&s->told, told);
}

static cel_told *told_self(void *self) {
  single *s = self;
  if (s->told.n == 0) return NULL;
  cel_told *first = s->told.at[0];
  s->told.n--;
  memmove(s->told.at, s->told.at + 1, s->told.n * sizeof first);
  return first;
}

static cel_status broadcast_alone(void *self, void **data, uint64_t *size) {
  (void)self, (void)data, (void)size;
  return CEL_E_OK;
}

static cel_status gather_alone(void *self, const void *mine, uint32_t size,
                               void *all) {
  (void)self;
  memcpy(all, mine, size);
  return CEL_E_OK;
}

static cel_status join_alone(void *self, uint32_t group, cel_comm **out) {
  (void)self;
  return cel_comm_alone(group, out);
}

static void abort_nobody(void *self, int status) {
  (void)self, (void)status;
}

static void destroy_single(cel_transport *t) {
  single *s = (single *)t;
  for (uint32_t i = 0; i < s->told.n; ++i) cel_free(s->told.at[i]);
  cel_vec_release(&s->told);
  cel_free(s);
  cel_mpi_alone_end();
}

cel_status cel_transport_single(cel_transport **out) {
  single *s = cel_alloc_zero(sizeof *s);
  s->base = (cel_transport){.name = "single",
                            .ranks = 1,
                            .local_ranks = 1,
                            .control = {.self = s,
                                        .agree = agree_alone,
                                        .agreed = agreed_alone,
                                        .tell = tell_self,
                                        .told = told_self,
                                        .broadcast = broadcast_alone,
                                        .gather = gather_alone,
                                        .join = join_alone,
                                        .abort = abort_nobody},
                            .poll = poll_none,
                            .busy = never_busy,
                            .destroy = destroy_single};
  *out = &s->base;
  return CEL_E_OK;
}
