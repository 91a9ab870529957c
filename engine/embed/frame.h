/* frame.h -- which lines of Lua are the user's, and places of them.
 *
 * Thread: that of the state.
 */
#ifndef CEL_EMBED_FRAME_H
#define CEL_EMBED_FRAME_H

#include <lua.h>
#include <stdbool.h>

#include "task/location.h"

/* A place from file and line at `index`, `index + 1`; the file name is kept
 * for the life of the state. */
cel_location cel__check_location(lua_State *L, int index);

/* Whether a frame is the user's: neither C nor one of celer's own files. */
bool cel__is_users(lua_State *L, lua_Debug *frame);
/* The innermost frame that is the user's, from `level` on: 1 is what called the
 * C function that asks. False where there is none. */
bool cel__find_user(lua_State *L, int level, lua_Debug *frame);
/* Its file, as the script was named, in full. */
const char *cel__file_of(const lua_Debug *frame);
/* Pushes where the function that it lies in was called, as cel_location has it,
 * or nil. A function that is written where it is given to celer counts as a
 * part of the one that gives it. */
void cel__push_callers(lua_State *L);
/* From now on places have their callers, for which each submission looks
 * through the stack. */
void cel__want_callers(void);
bool cel__wants_callers(void);
/* Where that frame is, as cel__check_location. */
cel_location cel__user_location(lua_State *L);
/* The same where frames below `level` are known to be celer's: to look at one
 * costs 350 instructions. */
cel_location cel__user_location_from(lua_State *L, int level);

#endif
