#include "embed/state.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "embed/embedded.h"

static lua_State *driver;

static const char session_key;

cel_session *cel__session_of(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&session_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  cel_session *session = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (session == NULL)
    luaL_error(L, "only the driver can do this, a host task cannot");
  return session;
}

/* package.loaders entry: modules inside the library. "celer.x" is
 * lua/celer/x.lua, "celer" is lua/celer/init.lua. */
static int search_embedded(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  char path[256], chunk[260];
  if (strcmp(name, "celer") == 0)
    snprintf(path, sizeof path, "lua/celer/init.lua");
  else if (strncmp(name, "celer.", 6) == 0)
    snprintf(path, sizeof path, "lua/celer/%s.lua", name + 6);
  else
    return 0;
  const cel_embedded *file = cel_embedded_find(path);
  if (file == NULL) {
    lua_pushfstring(L, "\n\tno module '%s' in celer", name);
    return 1;
  }
  snprintf(chunk, sizeof chunk, "=%s", path + 4);
  if (luaL_loadbuffer(L, file->data, file->size, chunk) != 0)
    return lua_error(L);
  return 1;
}

static void add_searcher(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  int n = (int)lua_objlen(L, -1);
  for (int i = n; i >= 2; --i) { /* after preload, before the disk */
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, search_embedded);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 1);
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, cel__open_core);
  lua_setfield(L, -2, "celer.core");
  lua_pushcfunction(L, cel__open_lanecore);
  lua_setfield(L, -2, "celer.lanecore");
  lua_pop(L, 2);
}

static lua_State *create(cel_session *session) {
  lua_State *L = luaL_newstate();
  if (L == NULL) return NULL;
  luaL_openlibs(L);
  lua_pushlightuserdata(L, (void *)&session_key);
  lua_pushlightuserdata(L, session);
  lua_rawset(L, LUA_REGISTRYINDEX);
  add_searcher(L);
  return L;
}

lua_State *cel__state_create_driver(cel_session *session) {
  driver = create(session);
  return driver;
}

lua_State *cel__state_create_lane(void) {
  return create(NULL);
}

void cel__state_destroy(lua_State *L) {
  if (L == driver) driver = NULL;
  lua_close(L);
}

static void raise_interrupt(lua_State *L, lua_Debug *where) {
  (void)where;
  lua_sethook(L, NULL, 0, 0);
  cel_session_clear_interrupt();
  luaL_error(L, "interrupted");
}

void cel__state_interrupt(void) {
  if (driver != NULL)
    lua_sethook(driver, raise_interrupt,
                LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* Error values that are tables pass as they are; strings get a traceback in a
 * table {message =, traceback =}. */
static int add_traceback(lua_State *L) {
  if (lua_istable(L, 1)) return 1;
  const char *message = lua_tostring(L, 1);
  if (message == NULL)
    message =
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  lua_createtable(L, 0, 2);
  lua_pushstring(L, message);
  lua_setfield(L, -2, "message");
  luaL_traceback(L, L, NULL, 1);
  lua_setfield(L, -2, "traceback");
  return 1;
}

bool cel__state_call(lua_State *L, int arguments, int results) {
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  int code = lua_pcall(L, arguments, results, base);
  lua_remove(L, base);
  return code == 0;
}

int cel__push_failure(lua_State *L) {
  const cel_error *e = cel_error_last();
  lua_pushnil(L);
  lua_pushstring(L, e->text);
  lua_pushstring(L, e->file);
  lua_pushinteger(L, e->line);
  lua_pushstring(L, cel_status_name(e->code));
  return 5;
}
