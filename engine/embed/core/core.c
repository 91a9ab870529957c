#include "embed/core/core.h"

#include <string.h>

#include "embed/code.h"
#include "embed/running.h"

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

void cel__set_text(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

void cel__set_number(lua_State *L, const char *key, lua_Number value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

void cel__set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static void add_functions(lua_State *L, const luaL_Reg *functions) {
  for (; functions->name != NULL; ++functions) {
    lua_pushcfunction(L, functions->func);
    lua_setfield(L, -2, functions->name);
  }
}

/* A module with what the driver and lanes both have. */
static void push_both(lua_State *L) {
  lua_newtable(L);
  add_functions(L, cel__core_both);
  cel__push_facts(L);
  lua_setfield(L, -2, "facts");
}

int cel__open_core(lua_State *L) {
  cel__clock_start();
  cel__code_learn(L);
  cel__running_learn(L);
  push_both(L);
  add_functions(L, cel__core_buffer);
  add_functions(L, cel__core_object);
  add_functions(L, cel__core_submit);
  add_functions(L, cel__core_form);
  add_functions(L, cel__core_replay);
  add_functions(L, cel__core_prepared);
  add_functions(L, cel__core_recall);
  add_functions(L, cel__core_listing);
  add_functions(L, cel__core_weights);
  add_functions(L, cel__core_kernel);
  add_functions(L, cel__core_run);
  add_functions(L, cel__core_check);
  add_functions(L, cel__core_dry);
  add_functions(L, cel__core_see);
  add_functions(L, cel__core_line);
  add_functions(L, cel__core_cache);
  add_functions(L, cel__core_child);
  return 1;
}

int cel__open_lanecore(lua_State *L) {
  push_both(L);
  add_functions(L, cel__core_lane);
  add_functions(L, cel__core_lane_object);
  return 1;
}
