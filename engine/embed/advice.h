/* advice.h -- warnings of what makes a script slow, or ranks differ: once each,
 * on stderr, from rank 0; none with `--advice off` or `--log error`.
 *
 *   waits      a line that waited WAITS times, less than WAIT_NS apart
 *   pairs      a submission, a capture, a new buffer or host object in a loop
 *              over pairs, whose order is not the same on all ranks
 *   cores      ranks with GPUs that the launcher bound to one core or two
 *   mappers    a line that has an opaque mapper called anew in each step
 *              (lua/celer/mapper/opaque.lua)
 *
 * Others come from the engine: memory that grows often (instr/memory.c), tasks
 * that come too slowly (runtime/idle.h).
 * Thread: main.
 */
#ifndef CEL_EMBED_ADVICE_H
#define CEL_EMBED_ADVICE_H

#include <lua.h>

#include "embed/session.h"

/* The line waits for all that was submitted, or for a capture that is not there
 * yet and with which all is done. */
void cel_advice_waited(const cel_session *session, cel_location location);
/* The line submits or makes what all ranks must have in one order. Costs a look
 * at a table, and at the stack while the line has not been seen often. */
void cel_advice_submitted(lua_State *L, cel_location location);
/* Its two halves, for who has no stack at hand in the first: whether to look at
 * it this time; and the look. */
bool cel_advice_wants_look(const cel_session *session, cel_location location);
void cel_advice_look(lua_State *L, cel_location location);
/* What a Lua module of ours has found out, once. */
void cel_advice_give(const cel_session *session, cel_location location,
                     const char *text);
/* Once topology and devices are known. */
void cel_advice_bound(const cel_session *session);

#endif
