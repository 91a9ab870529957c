/* lua_state.h -- Lua states: the driver's and one per host lane, and one per
 * GPU for interop tasks, which counts as a lane here.
 *
 * Both find `require "celer"` and its modules in the library itself
 * (embedded.h), and the user's modules first in the bundle that rank 0 sent,
 * then on disk. The engine's functions are in the module "celer.core", which
 * offers a lane less than the driver.
 */
#ifndef CEL_EMBED_LUA_STATE_H
#define CEL_EMBED_LUA_STATE_H

#include <lua.h>

#include "embed/session.h"

/* The driver's state; at most one. Null without memory. The caller owns it. */
lua_State *cel__state_create_driver(cel_session *session);
/* A lane's; made in the lane's own thread. */
lua_State *cel__state_create_lane(const cel_transport *transport);
void cel__state_destroy(lua_State *L);
/* Raises "interrupted" in the driver's state at its next chance and at each
 * that follows, until it may go on. Safe in a signal handler of main's. */
void cel__state_interrupt(void);
void cel__state_go_on(void);

/* "file:line: " of what the script does, where that is known; allocates
 * nothing. Thread: main. */
void cel__state_place(char *text, size_t size);

/* The session of the driver's state. */
cel_session *cel__session_of(lua_State *L);
/* For its rank; of any state. */
const cel_transport *cel__transport_of(lua_State *L);

/* The encoded script and modules, for the lanes; copied. Before the first lane
 * starts. Thread: main. */
void cel__bundle_set(const char *text, size_t size);

/* Calls the function below `arguments` values; false leaves one value, the
 * error as a table with a `message`, on the stack. */
bool cel__state_call(lua_State *L, int arguments, int results);
/* The message of such an error, or of one that lua_pcall leaves, on top of the
 * stack: of one for want of memory that of Lua's says little. Valid while it is
 * there. */
const char *cel__state_text(lua_State *L);
/* A function of Lua, for xpcall: of an error such a table, whose message begins
 * with a place in the user's Lua where there is one. What has a message stays
 * as it is. */
int cel__state_message(lua_State *L);

/* Module openers; core_*.c. */
int cel__open_core(lua_State *L);
int cel__open_lanecore(lua_State *L);

/* Leaves nil, text, file, line, code and task of the thread's error record:
 * what every core function returns when it fails. */
int cel__push_failure(lua_State *L);

#endif
