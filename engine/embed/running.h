/* running.h -- which line of the user's Lua a thread runs, for signal handlers.
 *
 * A fault, or a call of exit(), stops a thread in the middle of a C function
 * that Lua has called, or of a compiled loop. LuaJIT has no call that tells
 * which coroutine runs, or in which frame a compiled loop has begun. Both are
 * read off its state, at offsets that are found at the start. In a LuaJIT that
 * keeps them elsewhere, no line is known.
 */
#ifndef CEL_EMBED_RUNNING_H
#define CEL_EMBED_RUNNING_H

#include <lua.h>
#include <stdbool.h>

#include "task/location.h"

/* Finds the offsets, of all states. Thread: main, before there are others. */
void cel__running_learn(lua_State *L);

/* From now on the calling thread runs that state; null: none. */
void cel__running_set(lua_State *L);

/* The line that the calling thread runs; false where there is none. Of a
 * compiled loop it is a line of the loop, or one from which that was called.
 * *out is good as long as nothing of the state runs. Thread: any, but one at a
 * time; for signal handlers, where the process ends. */
bool cel__running_location(cel_location *out);

#endif
