/* Seeing what happens, for Lua. */
#include "embed/core.h"

/* trace(path): see cel_session_trace. */
static int see_trace(lua_State *L) {
  if (cel_session_trace(cel__session_of(L), luaL_checkstring(L, 1)) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

const luaL_Reg cel__core_see[] = {
    {"trace", see_trace},
    {NULL, NULL},
};
