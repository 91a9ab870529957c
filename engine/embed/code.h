/* code.h -- which code a Lua function runs.
 *
 * Closures that are made anew in every step of a loop share their code; Lua
 * has no call that tells so. string.dump gives equal text for equal code, but
 * takes as long as all else that is done to recognise a closure.
 * Cost: one load. Thread: main.
 */
#ifndef CEL_EMBED_CODE_H
#define CEL_EMBED_CODE_H

#include <lua.h>
#include <stdbool.h>

/* Finds out where this LuaJIT keeps it, by functions of which it is known. */
void cel__code_learn(lua_State *L);
/* Whether that could be found out; else all command groups take the long way,
 * which `celer info` and `--log info` say. */
bool cel__code_is_known(void);
/* Equal for functions that run the same code, as long as one of them lives;
 * null for a function in C, and where it could not be found out. */
const void *cel__code_of(lua_State *L, int index);

#endif
