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
 */
static int attempt(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  cel_interrupt_begin();
  bool ok = cel__state_call(L, lua_gettop(L) - 1, LUA_MULTRET);
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

/* mishap() -> true; or what a host task has failed with since it was asked */
static int mishap(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  if (engine != NULL && cel_engine_mishap(engine) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* recover() -> true; or what has failed, once: buffers and host objects are
 * gone with it */
static int recover(lua_State *L) {
  cel_session *session = cel__session_of(L);
  if (session->engine == NULL ||
      cel_engine_check(session->engine) == CEL_E_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  int results = cel__push_failure(L);
  cel_session_give_up(session);
  return results;
}

const luaL_Reg cel__core_line[] = {
    {"line_open", line_open},
    {"line_read", line_read},
    {"line_remember", line_remember},
    {"line_close", line_close},
    {"attempt", attempt},
    {"mishap", mishap},
    {"recover", recover},
    {NULL, NULL},
};
