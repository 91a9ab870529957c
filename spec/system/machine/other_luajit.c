/* Preloaded: a LuaJIT that keeps a function's code where this one does not: in
 * place of a function one sees nothing but zeros. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <lua.h>

const void *lua_topointer(lua_State *L, int index) {
  static const char nothing[64];
  const void *(*real)(lua_State *, int) =
      (const void *(*)(lua_State *, int))dlsym(RTLD_NEXT, "lua_topointer");
  if (lua_isfunction(L, index) && !lua_iscfunction(L, index)) return nothing;
  return real(L, index);
}
