#define _GNU_SOURCE /* dl_iterate_phdr, RTLD_NODELETE */
#include "embed/lua_state.h"

#include <dlfcn.h>
#include <lauxlib.h>
#include <link.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "embed/embedded.h"
#include "embed/running.h"

static lua_State *driver;

static int end_unprotected(lua_State *L);

static const char session_key, transport_key;

static void set_registry(lua_State *L, const char *key, const void *value) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)key);
  lua_pushlightuserdata(L, (void *)(uintptr_t)value);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

static void *get_registry(lua_State *L, const char *key) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  void *value = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return value;
}

/* Of the driver's state alone; asked for several times in each submission. */
static cel_session *the_session;

cel_session *cel__session_of(lua_State *L) {
  cel_assert(get_registry(L, &session_key) == the_session);
  (void)L;
  if (the_session == NULL) cel_bug("a lane's state has no session");
  return the_session;
}

const cel_transport *cel__transport_of(lua_State *L) {
  const cel_session *session = get_registry(L, &session_key);
  return session != NULL ? session->transport : get_registry(L, &transport_key);
}

/* Whether LuaJIT is the one that compiled the library's bytecode, and not one
 * that was installed since. */
static bool takes_bytecode(lua_State *L) {
  static const char own[] = "return jit.version .. ' ' .. jit.arch .. ' ' .. "
                            "tostring(require 'ffi'.abi 'gc64')";
  bool same = luaL_dostring(L, own) == 0 &&
              strcmp(lua_tostring(L, -1), CEL_LUAJIT) == 0;
  lua_pop(L, 1);
  return same;
}

/* package.loaders entry: modules inside the library. "celer.x.y" is
 * lua/celer/x/y.lua, "celer" is lua/celer/init.lua; or their bytecode. */
static int search_embedded(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  const bool compiled = lua_toboolean(L, lua_upvalueindex(1));
  const bool whole = strcmp(name, "celer") == 0;
  if (!whole && strncmp(name, "celer.", 6) != 0) return 0;
  luaL_gsub(L, whole ? "celer.init" : name, ".", "/");
  const char *module = lua_tostring(L, -1);
  const cel_embedded *file = cel_embedded_find(
      lua_pushfstring(L, "lua/%s.%s", module, compiled ? "bc" : "lua"));
  if (file == NULL) {
    lua_pushfstring(L, "\n\tno module '%s' in celer", name);
    return 1;
  }
  if (luaL_loadbuffer(L, file->data, file->size,
                      lua_pushfstring(L, "=%s.lua", module)) != 0)
    return lua_error(L);
  return 1;
}

static void add_searcher(lua_State *L, lua_CFunction open_core) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  int n = (int)lua_objlen(L, -1);
  for (int i = n; i >= 2; --i) { /* after preload, before the disk */
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushboolean(L, takes_bytecode(L));
  lua_pushcclosure(L, search_embedded, 1);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 1);
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "celer.core");
  lua_pop(L, 2);
}

/* Says what getmetatable gives of a file: what it gives anyway. Where nothing
 * says so and the call is compiled, LuaJIT before September 2024 takes whatever
 * its stack holds for the table (its issue 1279). */
static void say_metatable_of_files(lua_State *L) {
  lua_getglobal(L, "io");
  lua_getfield(L, -1, "stdout");
  if (lua_getmetatable(L, -1)) {
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

static lua_State *create(const cel_transport *transport,
                         lua_CFunction open_core) {
  lua_State *L = luaL_newstate();
  if (L == NULL) return NULL;
  lua_atpanic(L, end_unprotected);
  luaL_openlibs(L);
  say_metatable_of_files(L);
  set_registry(L, &transport_key, transport);
  add_searcher(L, open_core);
  cel__running_set(L);
  return L;
}

lua_State *cel__state_create_driver(cel_session *session) {
  driver = create(NULL, cel__open_core);
  if (driver != NULL) set_registry(driver, &session_key, session);
  the_session = session;
  return driver;
}

lua_State *cel__state_create_lane(const cel_transport *transport) {
  return create(transport, cel__open_lanecore);
}

typedef CEL_VEC(char *) names;

static int note_name(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  names *all = context;
  if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0')
    cel_vec_push(all, cel_strdup(info->dlpi_name));
  return 0;
}

/* A state that is closed unloads the libraries that it has loaded. MPI_Finalize
 * may still call into them: parallel HDF5 asks it to. */
static void keep_libraries(void) {
  names all = {0};
  dl_iterate_phdr(note_name, &all);
  for (uint32_t i = 0; i < all.n; ++i) {
    dlopen(all.at[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    cel_free(all.at[i]);
  }
  cel_vec_release(&all);
}

void cel__state_destroy(lua_State *L) {
  if (L == driver) driver = NULL;
  cel__running_set(NULL);
  keep_libraries();
  lua_close(L);
}

/* What comes behind a place in celer's own Lua; null where the message does not
 * begin with one. */
static const char *after_own(const char *text) {
  const char *end = strstr(text, ".lua:");
  char path[256];
  if (strncmp(text, "celer/", 6) != 0 || end == NULL) return NULL;
  snprintf(path, sizeof path, "lua/%.*s.lua", (int)(end - text), text);
  const char *after = strstr(end, ": ");
  return after != NULL && cel_embedded_find(path) != NULL ? after + 2 : NULL;
}

/* Where a C function raises that celer has called, it is mostly the user's, or
 * has what the user gave: celer's line says nothing then. "attempt to index"
 * and the like are faults of celer, whose line belongs into a report. */
static const char *without_own(const char *text) {
  const char *after = after_own(text);
  bool tells = after == NULL || strncmp(after, "attempt to ", 11) == 0;
  return tells ? text : after;
}

/* Whether a message begins with a place, "file:12: ", that is the user's. */
static bool has_place(const char *text) {
  if (after_own(text) != NULL) return false;
  for (const char *c = strchr(text, ':'); c != NULL; c = strchr(c + 1, ':')) {
    size_t digits = strspn(c + 1, "0123456789");
    if (digits > 0 && c[1 + digits] == ':') return true;
  }
  return false;
}

/* The innermost frame, from `level` on, that is not celer's own, as place.lua
 * has it; returns its file, or null where there is none. */
static const char *find_user_location(lua_State *L, int level, lua_Debug *at) {
  for (; lua_getstack(L, level, at); ++level) {
    lua_getinfo(L, "Sl", at);
    if (at->currentline > 0 && strncmp(at->source, "=celer/", 7) != 0)
      return at->source[0] == '@' ? at->source + 1 : at->short_src;
  }
  return NULL;
}

/* "file:line: " or "", for what error and assert leave without one. */
static void push_user_location(lua_State *L, int level) {
  lua_Debug at;
  const char *file = find_user_location(L, level, &at);
  if (file != NULL)
    lua_pushfstring(L, "%s:%d: ", file, at.currentline);
  else
    lua_pushliteral(L, "");
}

void cel__state_place(char *text, size_t size) {
  lua_Debug at;
  const char *file = driver != NULL ? find_user_location(driver, 0, &at) : NULL;
  if (file != NULL) snprintf(text, size, "%s:%d: ", file, at.currentline);
}

/* Where no call of ours protects it, which then could not go on. */
static int end_unprotected(lua_State *L) {
  cel_refused("%s", cel__state_text(L));
}

/* At every step from then on, so that no pcall of the line's goes on. */
static void raise_interrupt(lua_State *L, lua_Debug *where) {
  (void)where;
  push_user_location(L, 0);
  lua_pushliteral(L, "interrupted");
  lua_concat(L, 2);
  lua_error(L);
}

void cel__state_interrupt(void) {
  if (driver != NULL)
    lua_sethook(driver, raise_interrupt,
                LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

void cel__state_go_on(void) {
  if (driver != NULL) lua_sethook(driver, NULL, 0, 0);
}

/* What Lua says where a script takes buffers for numbers, or for arrays of
 * other libraries: it calls none of ours for that. */
#define COMPARES                                                               \
  "; of a buffer or scalar u, u() is the value to compare, and u:lt(x) a "     \
  "condition where the data are"
#define COMBINES                                                               \
  "; the elements of a buffer u are combined by t:reduce(\"sum\", u), of a "   \
  "scalar t"
static const char *explain(const char *message) {
  static const char *const known[][2] = {
      {"attempt to compare table with number", COMPARES},
      {"attempt to compare number with table", COMPARES},
      {"attempt to call method 'sum'", COMBINES},
      {"attempt to call method 'mean'", COMBINES},
      {"attempt to call method 'min'", COMBINES},
      {"attempt to call method 'max'", COMBINES}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i)
    if (strstr(message, known[i][0])) return known[i][1];
  return "";
}

int cel__state_message(lua_State *L) {
  if (lua_istable(L, 1)) {
    lua_getfield(L, 1, "message");
    bool is_message = lua_isstring(L, -1);
    lua_pop(L, 1);
    if (is_message) {
      lua_settop(L, 1);
      return 1;
    }
  }
  if (!luaL_callmeta(L, 1, "__tostring")) lua_pushvalue(L, 1);
  const char *message = lua_tostring(L, -1);
  if (message == NULL)
    message = lua_pushfstring(L, "the error is %s%s",
                              lua_isnil(L, 1) ? "" : "a ", luaL_typename(L, 1));
  message = without_own(message);
  if (!has_place(message)) {
    push_user_location(L, 1);
    message = lua_pushfstring(L, "%s%s", lua_tostring(L, -1), message);
  }
  lua_createtable(L, 0, 1);
  lua_pushfstring(L, "%s%s", message, explain(message));
  lua_setfield(L, -2, "message");
  return 1;
}

bool cel__state_call(lua_State *L, int arguments, int results) {
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, cel__state_message);
  lua_insert(L, base);
  int code = lua_pcall(L, arguments, results, base);
  lua_remove(L, base);
  return code == 0;
}

const char *cel__state_text(lua_State *L) {
  if (lua_istable(L, -1)) lua_getfield(L, -1, "message");
  const char *text = lua_tostring(L, -1);
  if (text == NULL) return "unknown error";
  if (strcmp(text, "not enough memory") != 0) return text;
  return "out of memory: the system refuses what Lua asks for; keep less in "
         "tables and strings, or raise the limit (ulimit -v, or that of the "
         "container or batch job)";
}

int cel__push_failure(lua_State *L) {
  const cel_error *e = cel_error_last();
  lua_pushnil(L);
  lua_pushstring(L, e->text);
  lua_pushstring(L, e->file);
  lua_pushinteger(L, e->line);
  lua_pushstring(L, cel_status_name(e->code));
  lua_pushstring(L, e->task);
  return 6;
}
