#include "comm/communicator.h"

#include <string.h>

static const uint8_t sizes[] = {
#define SIZE(NAME, type, size) sizeof(type),
    CEL_COMM_TYPES(SIZE)
#undef SIZE
};

#define CHECK_SIZE(NAME, type, size)                                           \
  _Static_assert(sizeof(type) == (size), "size of " #type);
CEL_COMM_TYPES(CHECK_SIZE)
#undef CHECK_SIZE

static cel_status check_root(const cel_comm *c, int64_t root) {
  if (root >= CEL_COMM_ALL && root < c->ranks) return CEL_E_OK;
  return cel_fail(CEL_E_ARGUMENT, "there is no rank %lld, of %lld",
                  (long long)root, (long long)c->ranks);
}

cel_status cel_comm_barrier(cel_comm *c) {
  return c->ranks == 1 ? CEL_E_OK : c->barrier(c);
}

cel_status cel_comm_broadcast(cel_comm *c, void *data, uint64_t bytes,
                              int64_t root) {
  CEL_TRY(check_root(c, root));
  cel_assert(root >= 0);
  return c->ranks == 1 ? CEL_E_OK : c->broadcast(c, data, bytes, root);
}

cel_status cel_comm_gather(cel_comm *c, const void *mine, uint64_t bytes,
                           void *all, int64_t root) {
  CEL_TRY(check_root(c, root));
  if (c->ranks > 1) return c->gather(c, mine, bytes, all, root);
  if (bytes > 0) memcpy(all, mine, bytes);
  return CEL_E_OK;
}

cel_status cel_comm_reduce(cel_comm *c, cel_comm_op op, cel_comm_type type,
                           const void *mine, void *out, uint64_t count,
                           int64_t root) {
  cel_comm_sum what = {op, type, count};
  CEL_TRY(check_root(c, root));
  if (c->ranks > 1) return c->reduce(c, &what, mine, out, root);
  if (count > 0 && mine != NULL) memcpy(out, mine, count * sizes[type]);
  return CEL_E_OK;
}

cel_status cel_comm_handle(cel_comm *c, void *out) {
  return c->handle(c, out);
}

void cel_comm_destroy(cel_comm *c) {
  if (c != NULL) c->destroy(c);
}
