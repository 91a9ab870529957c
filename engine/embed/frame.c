#include "embed/frame.h"

#include <lauxlib.h>
#include <string.h>

static const char files_key;

/* Lua strings are interned: once anchored, equal names are one pointer. */
static const char *keep_name(lua_State *L, int index) {
  static const char *last;
  const char *name = luaL_checkstring(L, index);
  if (name == last) return name;
  lua_pushlightuserdata(L, (void *)&files_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushlightuserdata(L, (void *)&files_key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
  }
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  last = name;
  return name;
}

cel_location cel__check_location(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return (cel_location){0};
  return (cel_location){.file = keep_name(L, index),
                        .line = (int32_t)luaL_optinteger(L, index + 1, 0)};
}

bool cel__is_users(lua_State *L, lua_Debug *frame) {
  lua_getinfo(L, "Sl", frame);
  return *frame->what != 'C' && strncmp(frame->source, "=celer/", 7) != 0;
}

bool cel__find_user(lua_State *L, int level, lua_Debug *frame) {
  for (; lua_getstack(L, level, frame); ++level)
    if (cel__is_users(L, frame)) return true;
  return false;
}

const char *cel__file_of(const lua_Debug *frame) {
  return frame->source[0] == '@' ? frame->source + 1 : frame->short_src;
}

/* Whether the function of `inner` was written where `outer` calls it, or calls
 * what calls it: as that which q:submit is given mostly is. */
static bool is_written_there(lua_State *L, lua_Debug *inner, lua_Debug *outer) {
  lua_getinfo(L, "S", inner);
  lua_getinfo(L, "S", outer);
  return strcmp(inner->source, outer->source) == 0 &&
         outer->currentline <= inner->linedefined &&
         (*outer->what == 'm' || inner->linedefined <= outer->lastlinedefined);
}

void cel__push_callers(lua_State *L) {
  enum { MOST = 4 };
  lua_Debug inner, frame;
  bool of_celer = false; /* the frame before was celer's */
  int level = 1, found = 0, top = lua_gettop(L);
  while (lua_getstack(L, level, &inner) && !cel__is_users(L, &inner)) ++level;
  while (found < MOST && lua_getstack(L, ++level, &frame)) {
    if (!cel__is_users(L, &frame)) {
      of_celer |= *frame.what != 'C';
      continue;
    }
    if (!of_celer || !is_written_there(L, &inner, &frame))
      lua_pushfstring(L, "%s%s:%d", found++ > 0 ? ", " : "",
                      cel__file_of(&frame), frame.currentline);
    of_celer = false;
    inner = frame;
  }
  if (found == 0) lua_pushnil(L);
  lua_concat(L, lua_gettop(L) - top);
}

static bool wants_callers;

void cel__want_callers(void) {
  wants_callers = true;
}

bool cel__wants_callers(void) {
  return wants_callers;
}

static const char *callers_of(lua_State *L) {
  if (!wants_callers) return NULL;
  cel__push_callers(L);
  const char *text = lua_isnil(L, -1) ? NULL : keep_name(L, lua_gettop(L));
  lua_pop(L, 1);
  return text;
}

cel_location cel__user_location(lua_State *L) {
  return cel__user_location_from(L, 1);
}

cel_location cel__user_location_from(lua_State *L, int level) {
  static const char *source, *name; /* of a file before; kept */
  lua_Debug frame;
  if (!cel__find_user(L, level, &frame)) return (cel_location){0};
  int32_t line = frame.currentline;
  const char *callers = callers_of(L);
  if (frame.source == source) return (cel_location){name, line, callers};
  lua_pushstring(L, cel__file_of(&frame));
  const char *file = keep_name(L, lua_gettop(L));
  lua_pop(L, 1);
  /* The source of what is no file is its text, which is not to be kept. */
  if (*frame.source != '@') return (cel_location){file, line, callers};
  lua_pushstring(L, frame.source);
  source = keep_name(L, lua_gettop(L));
  lua_pop(L, 1);
  name = file;
  return (cel_location){file, line, callers};
}
