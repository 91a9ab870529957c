#include "comm/wrapper.h"

static cel_transport *inner_of(cel_transport *t) {
  return ((cel_wrapper *)t)->inner;
}

static void send(cel_transport *t, const cel_posted *message) {
  inner_of(t)->send(inner_of(t), message);
}

static void receive(cel_transport *t, const cel_posted *message) {
  inner_of(t)->receive(inner_of(t), message);
}

static void exchange(cel_transport *t, const cel_collective *collective) {
  inner_of(t)->exchange(inner_of(t), collective);
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  uint32_t n = inner_of(t)->poll(inner_of(t), out, max);
  t->broken = inner_of(t)->broken;
  return n;
}

static bool busy(cel_transport *t) {
  return inner_of(t)->busy(inner_of(t));
}

static void agree(cel_transport *t, const cel_agreement *mine) {
  inner_of(t)->agree(inner_of(t), mine);
  t->broken = inner_of(t)->broken;
}

static cel_agreed agreed(cel_transport *t, uint64_t *index) {
  return inner_of(t)->agreed(inner_of(t), index);
}

static void tell(cel_transport *t, int64_t peer, int32_t kind, const void *data,
                 uint32_t size) {
  inner_of(t)->tell(inner_of(t), peer, kind, data, size);
}

static cel_told *told(cel_transport *t) {
  return inner_of(t)->told(inner_of(t));
}

static cel_status broadcast(cel_transport *t, void **data, uint64_t *size) {
  return inner_of(t)->broadcast(inner_of(t), data, size);
}

static cel_status gather(cel_transport *t, const void *mine, uint32_t size,
                         void *all) {
  return inner_of(t)->gather(inner_of(t), mine, size, all);
}

static cel_status all_reduce_max(cel_transport *t, int64_t *n) {
  return inner_of(t)->all_reduce_max(inner_of(t), n);
}

static void attend(cel_transport *t) {
  inner_of(t)->attend(inner_of(t));
}

static void declare_group(cel_transport *t, uint32_t group) {
  inner_of(t)->declare_group(inner_of(t), group);
}

static cel_status join(cel_transport *t, uint32_t group, cel_comm **out) {
  return inner_of(t)->join(inner_of(t), group, out);
}

static void end_all(cel_transport *t, int status) {
  inner_of(t)->abort(inner_of(t), status);
}

static void destroy(cel_transport *t) {
  inner_of(t)->destroy(inner_of(t));
}

void cel_wrapper_init(cel_wrapper *around, cel_transport *inner,
                      const char *name) {
  around->inner = inner;
  around->base = (cel_transport){
      .name = name,
      .rank = inner->rank,
      .ranks = inner->ranks,
      .local_rank = inner->local_rank,
      .local_ranks = inner->local_ranks,
      .near = inner->near,
      .nears = inner->nears,
      .direct_bytes = inner->direct_bytes,
      .broken = inner->broken,
      .no_groups = inner->no_groups,
      .send = send,
      .receive = receive,
      .exchange = exchange,
      .poll = poll,
      .busy = busy,
      .agree = agree,
      .agreed = agreed,
      .tell = tell,
      .told = told,
      .broadcast = broadcast,
      .gather = gather,
      .all_reduce_max = inner->all_reduce_max != NULL ? all_reduce_max : NULL,
      .attend = inner->attend != NULL ? attend : NULL,
      .declare_group = inner->declare_group != NULL ? declare_group : NULL,
      .join = join,
      .abort = end_all,
      .destroy = destroy};
}
