/* Host objects for Lua: made by a function, in the lane of objects when the
 * first task there touches one; or plain memory, which all lanes share. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "embed/advice.h"
#include "embed/core/core.h"

static const char object_type[] = "celer.core.object";

/* Of the cel_object, whose context it is. */
typedef struct lua_object {
  uint32_t id;
  void *memory; /* null: made by the function */
  size_t size;
  char constructor[]; /* encoded */
} lua_object;

typedef struct object_handle {
  const cel_object *object; /* null once freed */
  uint32_t era;
} object_handle;

static void destroy_object(cel_object *object) {
  lua_object *of = object->context;
  free(of->memory);
  cel_free(of);
}

const cel_object *cel__check_object(lua_State *L, int index) {
  object_handle *h = luaL_checkudata(L, index, object_type);
  if (h->object == NULL) luaL_error(L, "the host object was freed");
  cel__check_era(L, h->era, "the host object");
  return h->object;
}

/* Frees once; also the collector's. */
static int object_free(lua_State *L) {
  object_handle *h = luaL_checkudata(L, 1, object_type);
  cel_session *session = cel__session_of(L);
  if (h->object != NULL && session->engine != NULL && !cel__is_lost(L, h->era))
    cel_engine_object_free(session->engine, h->object);
  h->object = NULL;
  return 0;
}

static int object_freed(lua_State *L) {
  object_handle *h = luaL_checkudata(L, 1, object_type);
  lua_pushboolean(L, h->object == NULL || cel__is_lost(L, h->era));
  return 1;
}

/* Null without memory. */
static lua_object *make(const char *constructor, size_t length, size_t bytes) {
  enum { LINE = 64 };
  void *memory = NULL;
  if (bytes > 0) {
    bytes += (LINE - bytes % LINE) % LINE;
    memory = aligned_alloc(LINE, bytes);
    if (memory == NULL) {
      cel_fail(CEL_E_MEMORY, "no memory for a host object of %zu bytes", bytes);
      return NULL;
    }
    memset(memory, 0, bytes);
  }
  lua_object *of = cel_alloc(sizeof *of + length);
  of->memory = memory;
  of->size = length;
  memcpy(of->constructor, constructor, length);
  return of;
}

/* object(name, of the cluster?, constructor or "", bytes of memory or 0,
 *        what its end takes or nil, what ranks must agree on of it, file, line)
 */
static int object_new(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  cel_location location = cel__check_location(L, 7);
  cel_advice_submitted(L, location);
  size_t length, end, said;
  const char *constructor = luaL_checklstring(L, 3, &length);
  const char *release = luaL_optlstring(L, 5, NULL, &end);
  const char *identity = luaL_checklstring(L, 6, &said);
  object_handle *h = cel__new_handle(L, sizeof *h, object_type, object_free);
  h->era = cel__session_of(L)->era;
  lua_object *of = make(constructor, length, (size_t)luaL_checknumber(L, 4));
  if (of == NULL) return cel__push_failure(L);
  cel_object what = {
      .scope = lua_toboolean(L, 2) ? CEL_SCOPE_CLUSTER : CEL_SCOPE_RANK,
      .name = luaL_checkstring(L, 1),
      .location = location,
      .hash = cel_hash(identity, said, 0),
      .context = of,
      .destroy = destroy_object,
  };
  if (release != NULL) {
    what.release = cel__lua_release(release, end, of);
    what.release->objects = of->memory == NULL;
  }
  h->object = cel_engine_object(engine, &what);
  of->id = h->object->id;
  return 1;
}

const luaL_Reg cel__core_object[] = {
    {"object", object_new},
    {"object_free", object_free},
    {"object_freed", object_freed},
    {NULL, NULL},
};

/* ---- for lanes ----------------------------------------------------------- */

static int push_object(lua_State *L, const lua_object *of) {
  lua_pushinteger(L, (lua_Integer)of->id);
  if (of->memory == NULL) return 1;
  lua_pushlightuserdata(L, of->memory);
  return 2;
}

/* Of the i-th effect, from 1. */
static const lua_object *object_at(lua_State *L) {
  const cel_call *call = lua_touserdata(L, 1);
  return call->effect[luaL_checkinteger(L, 2) - 1].object->context;
}

int cel__push_first_effect(lua_State *L, const cel_call *call) {
  int n =
      call->effects > 0 ? push_object(L, call->effect[0].object->context) : 0;
  for (int i = n; i < 2; ++i) lua_pushnil(L);
  return 2;
}

/* effect(call, i) -> id, memory | nil */
static int lane_effect(lua_State *L) {
  return push_object(L, object_at(L));
}

/* constructor(call, i) -> the encoded function */
static int lane_constructor(lua_State *L) {
  const lua_object *of = object_at(L);
  lua_pushlstring(L, of->constructor, of->size);
  return 1;
}

/* ended(pointer) -> id, memory | nil */
static int lane_ended(lua_State *L) {
  return push_object(L, lua_touserdata(L, 1));
}

const luaL_Reg cel__core_lane_object[] = {
    {"effect", lane_effect},
    {"constructor", lane_constructor},
    {"ended", lane_ended},
    {NULL, NULL},
};
