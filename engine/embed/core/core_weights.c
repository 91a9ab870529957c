/* Weights of ranks and devices for Lua. */
#include "base/hash.h"
#include "embed/core/core.h"
#include "embed/interrupt.h"
#include "embed/session.h"

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

/* measure() -> true: kernels are timed from now on */
static int weights_measure(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  cel_session_measure(cel__session_of(L));
  lua_pushboolean(L, true);
  return 1;
}

static void push_rows(lua_State *L, const double *row, uint64_t ranks) {
  lua_createtable(L, (int)ranks, 0);
  for (uint64_t k = 0; k < ranks; ++k, row += CEL_PACE_NUMBERS) {
    lua_createtable(L, CEL_PACE_NUMBERS - 1, 1);
    lua_pushnumber(L, row[0]);
    lua_setfield(L, -2, "devices");
    for (int i = 1; i < CEL_PACE_NUMBERS; ++i) {
      lua_pushnumber(L, row[i]);
      lua_rawseti(L, -2, i);
    }
    lua_rawseti(L, -2, (int)k + 1);
  }
}

/* paces(file, line) -> {{items, seconds, items, seconds, ..., devices = 2},
 * ...}: by rank, of each device that there may be, since the last time. After a
 * wait. */
static int weights_paces(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  cel_fence *fence;
  const void *data;
  uint64_t size;
  if (cel_engine_paces(engine, cel__check_location(L, 1), &fence) != CEL_E_OK)
    return cel__push_failure(L);
  cel_status status =
      cel_engine_fence_get(engine, fence, cel_interrupted, &data, &size);
  if (status == CEL_E_OK)
    push_rows(L, data, size / sizeof(double) / CEL_PACE_NUMBERS);
  cel_fence_destroy(fence);
  return status == CEL_E_OK ? 1 : cel__push_failure(L);
}

/* follow(weights | nil): tasks that ask for no weights have these from now on,
 * so their kernels are counted. */
static int weights_follow(lua_State *L) {
  cel_session *session = cel__session_of(L);
  uint64_t hash = lua_isnoneornil(L, 1) ? 0 : cel__check_weights(L, 1)->hash;
  if (session->pace != NULL) cel_pace_follow(session->pace, hash);
  return 0;
}

const luaL_Reg cel__core_weights[] = {
    {"weights", weights_new},
    {"measure", weights_measure},
    {"paces", weights_paces},
    {"follow", weights_follow},
    {NULL, NULL},
};
