/* The interactive session, for Lua. */
#include <string.h>

#include "embed/core/core.h"
#include "embed/interrupt.h"
#include "embed/line.h"

/* `L` is the state that reads, while it does. */
static struct {
  cel_line *line;
  lua_State *L;
} editor;

static const char completer_key;

/* Calls what line_open was given; leaves both of its results on the stack,
 * where they stay until the line is read. */
static const char *complete(void *context, const char *before, size_t size,
                            const char **choices) {
  lua_State *L = editor.L;
  (void)context;
  lua_settop(L, 1);
  lua_pushlightuserdata(L, (void *)&completer_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_pushlstring(L, before, size);
  if (lua_pcall(L, 1, 2, 0) != 0) return NULL;
  *choices = lua_tostring(L, -1);
  return lua_tostring(L, -2);
}

/* line_open(path of the history | nil, function(text before the cursor) -> text
 * to insert | nil, choices to show | nil) -> true, why the history is not kept
 */
static int line_open(lua_State *L) {
  const char *why;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushlightuserdata(L, (void *)&completer_key);
  lua_pushvalue(L, 2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  if (cel_line_open(luaL_optstring(L, 1, NULL), complete, NULL, &why,
                    &editor.line) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  lua_pushstring(L, why);
  return 2;
}

/* line_read(prompt) -> text; nil, whether it was given up: else there is no
 * more */
static int line_read(lua_State *L) {
  const char *prompt = luaL_checkstring(L, 1), *text;
  luaL_argcheck(L, editor.line != NULL, 1, "no line was opened");
  lua_settop(L, 1);
  editor.L = L;
  cel_line_event event = cel_line_read(editor.line, prompt, &text);
  if (event == CEL_LINE_TEXT) {
    lua_pushstring(L, text);
    return 1;
  }
  lua_pushnil(L);
  lua_pushboolean(L, event == CEL_LINE_CANCELLED);
  return 2;
}

/* line_remember(entry) */
static int line_remember(lua_State *L) {
  const char *entry = luaL_checkstring(L, 1);
  if (editor.line != NULL) cel_line_remember(editor.line, entry);
  return 0;
}

static int line_close(lua_State *L) {
  (void)L;
  if (editor.line != NULL) cel_line_close(editor.line);
  editor.line = NULL;
  return 0;
}

/* attempt(f, ...) -> true, results of f(...); false, message. Ctrl-C ends it.
 * What is held back to become a fold does not wait for the next line. */
static int attempt(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  const cel_session *session = cel__session_of(L);
  cel_hub *hub = session->hub;
  cel_interrupt_begin();
  if (hub != NULL) cel_hub_begin(hub);
  bool ok = cel__state_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (session->engine != NULL) cel_engine_unhold(session->engine);
  if (hub != NULL) cel_hub_over(hub);
  bool cut = cel_interrupted();
  cel_interrupt_end();
  lua_pushboolean(L, ok);
  lua_insert(L, 1);
  if (ok) return lua_gettop(L);
  if (lua_istable(L, 2))
    lua_getfield(L, 2, "message");
  else
    lua_pushvalue(L, 2);
  if (cut && (!lua_isstring(L, -1) ||
              strstr(lua_tostring(L, -1), "interrupted") == NULL))
    lua_pushliteral(L, "interrupted"); /* what failed because of it */
  lua_replace(L, 2);
  lua_settop(L, 2);
  return 2;
}

/* finally(f, after) -> results of f(). However f ends, after() runs, which
 * Ctrl-C does not end: it puts back what f has changed for a while. */
static int finally(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  int failed = lua_pcall(L, 0, LUA_MULTRET, 0);
  bool before = cel_interrupt_hold(true);
  lua_pushvalue(L, 2);
  int lost = lua_pcall(L, 0, 0, 0);
  cel_interrupt_hold(before);
  if (failed != 0 || lost != 0) return lua_error(L);
  return lua_gettop(L) - 2;
}

/* mishap() -> true; or what a host task has failed with since it was asked */
static int mishap(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  if (engine != NULL && cel_engine_mishap(engine) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* broken() -> nil; or what has failed, as a core function fails: buffers and
 * host objects are of no use any more */
static int broken(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  if (session->engine == NULL ||
      cel_engine_check(session->engine) == CEL_E_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  return cel__push_failure(L);
}

/* give_up() -> true: they are gone, and others may follow. Collective. */
static int give_up(lua_State *L) {
  if (cel_session_give_up(cel__session_of(L)) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- several ranks -------------------------------------------------------
 */

/* assemble() -> true. Collective. */
static int assemble(lua_State *L) {
  if (cel_session_assemble(cel__session_of(L)) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* give(text, whether it is a line) -> true. Rank 0. */
static int give(lua_State *L) {
  cel_hub *hub = cel__session_of(L)->hub;
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  bool line = lua_toboolean(L, 2);
  if (cel_hub_give(hub, line, text, size) != CEL_E_OK)
    return cel__push_failure(L);
  if (line) cel_interrupt_ask(cel_hub_bell(hub));
  lua_pushboolean(L, 1);
  return 1;
}

/* take() -> what rank 0 gives next. The other ranks. */
static int take(lua_State *L) {
  void *text;
  uint64_t size;
  if (cel_hub_take(cel__session_of(L)->hub, &text, &size) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushlstring(L, text, size);
  cel_free(text);
  return 1;
}

/* tell(whether the line has failed, text) -> true */
static int tell(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  if (cel_hub_tell(cel__session_of(L)->hub, lua_toboolean(L, 1), text, size) !=
      CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* hear_all() -> an array of what the ranks have told, and whether all have
 * submitted as much. Rank 0. */
static int hear_all(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  const cel_hub_end *end;
  bool alike = true;
  cel_status status = cel_hub_gather(session->hub, &end);
  cel_interrupt_ask(-1);
  if (status != CEL_E_OK) return cel__push_failure(L);
  lua_createtable(L, (int)session->transport->ranks, 0);
  for (int64_t k = 0; k < session->transport->ranks; ++k) {
    alike = alike && end[k].passed == end[0].passed;
    lua_pushlstring(L, end[k].said, end[k].size);
    lua_rawseti(L, -2, (int)k + 1);
  }
  lua_pushboolean(L, alike);
  return 2;
}

const luaL_Reg cel__core_line[] = {
    {"line_open", line_open},
    {"line_read", line_read},
    {"line_remember", line_remember},
    {"line_close", line_close},
    {"attempt", attempt},
    {"finally", finally},
    {"mishap", mishap},
    {"broken", broken},
    {"give_up", give_up},
    {"assemble", assemble},
    {"give", give},
    {"take", take},
    {"tell", tell},
    {"hear_all", hear_all},
    {NULL, NULL},
};
