/* Weights of ranks and devices for Lua. */
#include "base/hash.h"
#include "embed/core.h"

static const char weights_type[] = "celer.core.weights";

enum { MOST_DEVICES = 64 };

/* Followed by the numbers that it points to. */
typedef struct weights_handle {
  cel_weights weights;
  int64_t number[];
} weights_handle;

static int weights_collect(lua_State *L) {
  (void)L; /* Lua frees it all */
  return 0;
}

static void read_numbers(lua_State *L, int index, size_t n, int64_t *out) {
  for (size_t i = 0; i < n; ++i) {
    lua_rawgeti(L, index, (int)i + 1);
    out[i] = (int64_t)luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
}

/* weights(ranks, devices | nil, identity) -> weights
 * ranks: a whole number for each, not all 0; devices: the same for those of
 * this rank; identity: a text that tells all of it, of all ranks. */
static int weights_new(lua_State *L) {
  size_t length, ranks = lua_objlen(L, 1);
  size_t devices = lua_istable(L, 2) ? lua_objlen(L, 2) : 0;
  const char *identity = luaL_checklstring(L, 3, &length);
  luaL_argcheck(L, devices <= MOST_DEVICES, 2, "too many devices");
  size_t size = (ranks + devices) * sizeof(int64_t);
  weights_handle *h =
      cel__new_handle(L, sizeof *h + size, weights_type, weights_collect);
  read_numbers(L, 1, ranks, h->number);
  read_numbers(L, 2, devices, h->number + ranks);
  h->weights = (cel_weights){.rank = h->number,
                             .device = devices > 0 ? h->number + ranks : NULL,
                             .devices = (int32_t)devices,
                             .hash = cel_hash(identity, length, 0) | 1};
  return 1;
}

const cel_weights *cel__check_weights(lua_State *L, int index) {
  const weights_handle *h = luaL_checkudata(L, index, weights_type);
  return &h->weights;
}

const luaL_Reg cel__core_weights[] = {
    {"weights", weights_new},
    {NULL, NULL},
};
