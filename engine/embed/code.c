#include "embed/code.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

enum {
  WIDE_AT = 32,  /* where a function's code is named in LuaJIT with references
                    of 64 bits, and how many bytes it has before that */
  NARROW_AT = 16 /* the same with references of 32 bits */
};

static size_t place, size; /* main's; size 0: not known */

/* Two of each code, with one captured variable each. */
static const char twins[] =
    "local wide = require('ffi').abi('gc64')\n"
    "local function make(x)\n"
    "  return function() return x end, function() return x, x end\n"
    "end\n"
    "local a, b = make(1)\n"
    "local c, d = make(2)\n"
    "return wide, a, c, b, d\n";

static const void *word_of(lua_State *L, int index) {
  uintptr_t word = 0;
  memcpy(&word, (const char *)lua_topointer(L, index) + place, size);
  return (const void *)word;
}

void cel__code_learn(lua_State *L) {
  int top = lua_gettop(L);
  if (luaL_loadbuffer(L, twins, sizeof twins - 1, "=celer/code") != 0 ||
      lua_pcall(L, 0, 5, 0) != 0)
    lua_error(L); /* there is no FFI: nothing works */
  bool wide = lua_toboolean(L, top + 1);
  place = wide ? WIDE_AT : NARROW_AT;
  size = wide ? sizeof(uint64_t) : sizeof(uint32_t);
  const void *one = word_of(L, top + 2), *other = word_of(L, top + 4);
  if (one != word_of(L, top + 3) || other != word_of(L, top + 5) ||
      one == other || one == NULL || other == NULL)
    size = 0;
  lua_settop(L, top);
}

bool cel__code_is_known(void) {
  return size != 0;
}

const void *cel__code_of(lua_State *L, int index) {
  if (!cel__code_is_known() || lua_iscfunction(L, index)) return NULL;
  return word_of(L, index);
}
