/* Opaque mappers for Lua: which chunks they are asked about, and what they
 * gave. */
#include "embed/core/core.h"
#include "embed/core/core_submit.h"

static const char chunks_type[] = "celer.core.chunks";

static int chunks_collect(lua_State *L) {
  cel_chunks_release(luaL_checkudata(L, 1, chunks_type));
  return 0;
}

static void push_boxes(lua_State *L, const cel_chunks *chunks) {
  int at = 1;
  lua_createtable(L, (int)chunks->chunk.n * 2 * CEL_DIMS, 0);
  for (uint32_t i = 0; i < chunks->chunk.n; ++i) {
    const cel_box *box = &chunks->chunk.at[i];
    for (int d = 0; d < CEL_DIMS; ++d) {
      lua_pushnumber(L, (lua_Number)box->min[d]);
      lua_rawseti(L, -2, at++);
    }
    for (int d = 0; d < CEL_DIMS; ++d) {
      lua_pushnumber(L, (lua_Number)box->max[d]);
      lua_rawseti(L, -2, at++);
    }
  }
}

/* chunks(range, division, handles, whether it is for devices, whether it has
 * effects, whether it reduces, other numbers of ranks that are tried, as bits)
 * -> handle, how many, {min..., max... of each}. The first as submit_kernel
 * has them. */
static int chunks_new(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  cel_group group = {
      .kind = lua_toboolean(L, 4) ? CEL_TASK_KERNEL : CEL_TASK_HOST,
      .effects = lua_toboolean(L, 5) ? 1 : 0,
  };
  cel_home home;
  cel__read_range(L, 1, &group);
  cel__read_division(L, 2, &group, &home);
  cel_chunks *chunks =
      cel__new_handle(L, sizeof *chunks, chunks_type, chunks_collect);
  cel_engine_chunks(engine, &group, lua_toboolean(L, 6),
                    (uint32_t)luaL_checkinteger(L, 7), chunks);
  lua_pushnumber(L, (lua_Number)chunks->chunk.n);
  push_boxes(L, chunks);
  return 3;
}

static int64_t number_at(lua_State *L, int index, int at) {
  lua_rawgeti(L, index, at);
  int64_t number = (int64_t)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return number;
}

/* list(chunks, task_dims, buffer_dims, how many boxes each chunk has,
 * {min..., max... of each}) -> rule */
static int list_new(lua_State *L) {
  cel_chunks *chunks = luaL_checkudata(L, 1, chunks_type);
  int32_t task_dims = (int32_t)luaL_checkinteger(L, 2);
  int32_t buffer_dims = (int32_t)luaL_checkinteger(L, 3);
  uint32_t n = chunks->chunk.n;
  int32_t *start = lua_newuserdata(L, (n + 1) * sizeof *start);
  start[0] = 0;
  for (uint32_t i = 0; i < n; ++i)
    start[i + 1] = start[i] + (int32_t)number_at(L, 4, (int)i + 1);
  cel_box *box = lua_newuserdata(L, ((size_t)start[n] + 1) * sizeof *box);
  int at = 1;
  for (int32_t i = 0; i < start[n]; ++i) {
    for (int d = 0; d < CEL_DIMS; ++d) box[i].min[d] = number_at(L, 5, at++);
    for (int d = 0; d < CEL_DIMS; ++d) box[i].max[d] = number_at(L, 5, at++);
  }
  cel_listing listing = cel_chunks_list(chunks, start, box);
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  const cel_rule **h = cel__new_rule(L);
  cel_rules_list(cel_engine_rules(engine), task_dims, buffer_dims, &listing, h);
  return 1;
}

const luaL_Reg cel__core_listing[] = {
    {"chunks", chunks_new},
    {"list", list_new},
    {NULL, NULL},
};
