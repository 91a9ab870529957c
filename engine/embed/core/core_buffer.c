/* Buffers and fences for Lua. */
#include <string.h>

#include "base/hash.h"
#include "embed/advice.h"
#include "embed/core/core.h"
#include "embed/interrupt.h"

static const char buffer_type[] = "celer.core.buffer";
static const char fence_type[] = "celer.core.fence";

typedef struct buffer_handle {
  const cel_buffer *buffer; /* null once freed */
  uint32_t era;
  cel_backing backing; /* as much as if each rank had its part */
} buffer_handle;

typedef struct fence_handle {
  cel_fence *fence;
  uint32_t era;
  cel_backing backing;
} fence_handle;

const cel_buffer *cel__check_buffer(lua_State *L, int index) {
  buffer_handle *h = luaL_checkudata(L, index, buffer_type);
  if (h->buffer == NULL) luaL_error(L, "the buffer was freed");
  cel__check_era(L, h->era, "the buffer");
  return h->buffer;
}

const cel_buffer *cel__buffer_of(lua_State *L, const void *handle) {
  return cel__buffer_in(cel__session_of(L), handle);
}

const cel_buffer *cel__buffer_in(const cel_session *session,
                                 const void *handle) {
  const buffer_handle *h = handle;
  return h->era == session->era ? h->buffer : NULL;
}

/* Frees once; also the collector's. */
static int buffer_free(lua_State *L) {
  buffer_handle *h = luaL_checkudata(L, 1, buffer_type);
  cel_session *session = cel__session_of(L);
  if (h->buffer != NULL && session->engine != NULL && !cel__is_lost(L, h->era))
    cel_engine_buffer_free(session->engine, h->buffer);
  h->buffer = NULL;
  cel__backing_drop(L, &h->backing);
  return 0;
}

static int buffer_freed(lua_State *L) {
  buffer_handle *h = luaL_checkudata(L, 1, buffer_type);
  lua_pushboolean(L, h->buffer == NULL);
  return 1;
}

/* buffer_changes(buffer) -> how many groups were submitted that may have
 * changed it */
static int buffer_changes(lua_State *L) {
  lua_pushnumber(L, (lua_Number)*cel__check_buffer(L, 1)->changes);
  return 1;
}

static void push_type(lua_State *L, const char *type, lua_CFunction collect) {
  if (!luaL_newmetatable(L, type)) return;
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
}

void *cel__new_handle(lua_State *L, size_t size, const char *type,
                      lua_CFunction collect) {
  void *handle = lua_newuserdata(L, size);
  memset(handle, 0, size);
  push_type(L, type, collect);
  lua_setmetatable(L, -2);
  return handle;
}

void cel__push_buffer_type(lua_State *L) {
  push_type(L, buffer_type, buffer_free);
}

/* Bytes of one rank's part. */
static uint64_t part_of(lua_State *L, const cel_buffer *buffer) {
  return (uint64_t)cel_box_volume(&buffer->extent) * buffer->element_size /
         (uint64_t)cel__session_of(L)->transport->ranks;
}

/* buffer(element_size, its type in words, dims, e0, e1, e2, name | nil, init
 * kind, init, what ranks must agree on of it, fd | nil, whether it is apart,
 * the bounds of what there is to be room for | nil) init kind: nil, "data"
 * (cdata of the whole buffer) or "lua" (encoded). Ranks agree on data as it is.
 * The file becomes the buffer's. */
static int buffer_new(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  cel_advice_submitted(L, cel__user_location(L));
  lua_settop(L, 18);
  uint32_t element_size = (uint32_t)luaL_checkinteger(L, 1);
  size_t said;
  const char *type = luaL_checklstring(L, 2, &said);
  int32_t dims = (int32_t)luaL_checkinteger(L, 3);
  int64_t extent[3];
  for (int d = 0; d < CEL_DIMS; ++d)
    extent[d] = (int64_t)luaL_checknumber(L, 4 + d);
  const char *name = luaL_optstring(L, 7, NULL);
  const char *kind = luaL_optstring(L, 8, NULL);
  buffer_handle *h = cel__new_handle(L, sizeof *h, buffer_type, buffer_free);
  h->era = cel__session_of(L)->era;
  cel_init *init = NULL;
  if (kind != NULL && strcmp(kind, "data") == 0) {
    cel_box box = cel_box_sized(extent[0], extent[1], extent[2]);
    const void *data = lua_topointer(L, 9);
    init = cel__data_init(data, &box, element_size);
    init->hash = cel_hash(data, cel_box_volume(&box) * element_size, 0);
  } else if (kind != NULL) {
    size_t size, length;
    const char *blob = luaL_checklstring(L, 9, &size);
    const char *identity = luaL_checklstring(L, 10, &length);
    init = cel__lua_init(blob, size, (int)luaL_optinteger(L, 11, -1));
    init->hash = cel_hash(identity, length, 0);
  }
  h->buffer = cel_engine_buffer(engine, dims, extent, element_size,
                                cel_hash(type, said, 0), name, init,
                                lua_toboolean(L, 12));
  if (!lua_isnoneornil(L, 13)) {
    cel_box box = cel__check_box(L, 13);
    cel_engine_buffer_reserve(engine, h->buffer, &box);
  }
  cel__backing_add(L, &h->backing, part_of(L, h->buffer));
  return 1;
}

static int fence_collect(lua_State *L) {
  fence_handle *h = luaL_checkudata(L, 1, fence_type);
  if (h->fence != NULL && cel__session_of(L)->engine != NULL)
    cel_fence_destroy(h->fence);
  h->fence = NULL;
  cel__backing_drop(L, &h->backing);
  return 0;
}

cel_fence *cel__check_fence(lua_State *L, int index) {
  return ((fence_handle *)luaL_checkudata(L, index, fence_type))->fence;
}

static fence_handle *new_fence(lua_State *L) {
  fence_handle *h = cel__new_handle(L, sizeof *h, fence_type, fence_collect);
  h->era = cel__session_of(L)->era;
  return h;
}

static void hold_copy(lua_State *L, fence_handle *h, const cel_buffer *buffer) {
  uint64_t elements = (uint64_t)cel_box_volume(cel_fence_box(h->fence));
  cel__backing_add(L, &h->backing, elements * buffer->element_size);
}

/* fence(buffer, min..., max..., file, line) */
static int fence_new(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  const cel_buffer *buffer = cel__check_buffer(L, 1);
  cel_box box = cel__check_box(L, 2);
  cel_location location = cel__check_location(L, 8);
  cel_advice_submitted(L, location);
  fence_handle *h = new_fence(L);
  if (cel_engine_fence(engine, buffer, &box, location, &h->fence) != CEL_E_OK)
    return cel__push_failure(L);
  hold_copy(L, h, buffer);
  return 1;
}

/* fence_each(buffer, rule, parameters, file, line) -> fence, min..., max... of
 * this rank's box */
static int fence_each(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  const cel_buffer *buffer = cel__check_buffer(L, 1);
  const cel_rule *rule = cel__check_rule(L, 2);
  int64_t params[CEL_RULE_PARAMS];
  for (int32_t p = 0; p < rule->desc.params; ++p) {
    lua_rawgeti(L, 3, p + 1);
    params[p] = (int64_t)luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
  cel_location location = cel__check_location(L, 4);
  cel_advice_submitted(L, location);
  fence_handle *h = new_fence(L);
  if (cel_engine_fence_each(engine, buffer, rule, params, location,
                            &h->fence) != CEL_E_OK)
    return cel__push_failure(L);
  hold_copy(L, h, buffer);
  const cel_box *box = cel_fence_box(h->fence);
  for (int d = 0; d < CEL_DIMS; ++d) lua_pushnumber(L, (lua_Number)box->min[d]);
  for (int d = 0; d < CEL_DIMS; ++d) lua_pushnumber(L, (lua_Number)box->max[d]);
  return 1 + 2 * CEL_DIMS;
}

/* fence_object(object, encoded function, what ranks must agree on of it,
 * whether it lives where Lua objects do, file, line) */
static int fence_object(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  const cel_object *object = cel__check_object(L, 1);
  size_t size, length;
  const char *blob = luaL_checklstring(L, 2, &size);
  const char *identity = luaL_checklstring(L, 3, &length);
  cel_location location = cel__check_location(L, 5);
  cel_advice_submitted(L, location);
  fence_handle *h = new_fence(L);
  cel_taking *taking = cel__lua_taking(
      blob, size, cel_hash(identity, length, 0), lua_toboolean(L, 4));
  if (cel_engine_fence_object(engine, object, taking, location, &h->fence) !=
      CEL_E_OK)
    return cel__push_failure(L);
  return 1;
}

static int fence_ready(lua_State *L) {
  fence_handle *h = luaL_checkudata(L, 1, fence_type);
  lua_pushboolean(L, cel_fence_ready(h->fence));
  return 1;
}

/* fence_get(fence, whether that is no business of the line's)
 * Waits; returns the address of the data (the fence's) and its bytes. */
static int fence_get(lua_State *L) {
  fence_handle *h = luaL_checkudata(L, 1, fence_type);
  const void *data;
  uint64_t size;
  cel__check_era(L, h->era, "what the future is of");
  cel_engine *engine = cel__session_of(L)->engine;
  if (!cel_fence_ready(h->fence) && cel_fence_is_last(engine, h->fence) &&
      !lua_toboolean(L, 2))
    cel_advice_waited(cel__session_of(L), cel__user_location(L));
  if (cel_engine_fence_get(engine, h->fence, cel_interrupted, &data, &size) !=
          CEL_E_OK ||
      cel_engine_mishap(engine) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushlightuserdata(L, (void *)data);
  lua_pushnumber(L, (lua_Number)size);
  return 2;
}

const luaL_Reg cel__core_buffer[] = {
    {"buffer", buffer_new},         {"buffer_free", buffer_free},
    {"buffer_freed", buffer_freed}, {"buffer_changes", buffer_changes},
    {"fence", fence_new},           {"fence_object", fence_object},
    {"fence_each", fence_each},     {"fence_ready", fence_ready},
    {"fence_get", fence_get},       {NULL, NULL},
};
