#include "embed/core.h"

#include <stdio.h>
#include <string.h>

#include "embed/code.h"

cel_status cel__core_engine(lua_State *L, cel_engine **out) {
  cel_session *session = cel__session_of(L);
  CEL_TRY(cel_session_start(session));
  *out = session->engine;
  return CEL_E_OK;
}

bool cel__is_lost(lua_State *L, uint32_t era) {
  return era != cel__session_of(L)->era;
}

/* Without celer's own place, which luaL_error would give. */
void cel__check_era(lua_State *L, uint32_t era, const char *what) {
  if (!cel__is_lost(L, era)) return;
  lua_pushfstring(L, "%s went with the work that failed; make it anew", what);
  lua_error(L);
}

cel_box cel__check_box(lua_State *L, int index) {
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    box.min[d] = (int64_t)luaL_checknumber(L, index + d);
    box.max[d] = (int64_t)luaL_checknumber(L, index + CEL_DIMS + d);
  }
  return box;
}

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

cel_place cel__check_place(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return (cel_place){0};
  return (cel_place){keep_name(L, index),
                     (int32_t)luaL_optinteger(L, index + 1, 0)};
}

bool cel__is_users(lua_State *L, lua_Debug *frame) {
  lua_getinfo(L, "Sl", frame);
  return *frame->what != 'C' && strncmp(frame->source, "=celer/", 7) != 0;
}

bool cel__find_user(lua_State *L, lua_Debug *frame) {
  for (int level = 1; lua_getstack(L, level, frame); ++level)
    if (cel__is_users(L, frame)) return true;
  return false;
}

const char *cel__file_of(const lua_Debug *frame) {
  return frame->source[0] == '@' ? frame->source + 1 : frame->short_src;
}

cel_place cel__user_place(lua_State *L) {
  lua_Debug frame;
  if (!cel__find_user(L, &frame)) return (cel_place){0};
  lua_pushstring(L, cel__file_of(&frame));
  cel_place place = {keep_name(L, lua_gettop(L)), frame.currentline};
  lua_pop(L, 1);
  return place;
}

static void add_functions(lua_State *L, const luaL_Reg *functions) {
  for (; functions->name != NULL; ++functions) {
    lua_pushcfunction(L, functions->func);
    lua_setfield(L, -2, functions->name);
  }
}

int cel__open_core(lua_State *L) {
  cel__clock_start();
  cel__code_learn(L);
  lua_newtable(L);
  add_functions(L, cel__core_both);
  add_functions(L, cel__core_buffer);
  add_functions(L, cel__core_object);
  add_functions(L, cel__core_submit);
  add_functions(L, cel__core_again);
  add_functions(L, cel__core_listing);
  add_functions(L, cel__core_weights);
  add_functions(L, cel__core_kernel);
  add_functions(L, cel__core_run);
  add_functions(L, cel__core_check);
  add_functions(L, cel__core_dry);
  add_functions(L, cel__core_see);
  add_functions(L, cel__core_line);
  add_functions(L, cel__core_cache);
  return 1;
}

int cel__open_lanecore(lua_State *L) {
  lua_newtable(L);
  add_functions(L, cel__core_both);
  add_functions(L, cel__core_lane);
  add_functions(L, cel__core_lane_object);
  return 1;
}
