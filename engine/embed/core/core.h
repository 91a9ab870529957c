/* core.h -- what the parts of the Lua binding share (core_*.c).
 *
 * Every core function either returns its results or nil, text, file, line,
 * code, task (cel__push_failure): raising at the user's line is Lua's business.
 * Arguments come from our own Lua modules, which have checked them; what would
 * crash C is checked again by luaL_check*.
 * Thread: main (the driver's state).
 */
#ifndef CEL_EMBED_CORE_CORE_H
#define CEL_EMBED_CORE_CORE_H

#include <lauxlib.h>

#include "device/kernel.h"
#include "embed/frame.h"
#include "embed/lua_state.h"

/* Starts the engine when it is not running; raises nothing, returns a status.
 */
cel_status cel__core_engine(lua_State *L, cel_engine **out);

/* A cleared full userdata of a type whose __gc is `collect`, on the stack. */
void *cel__new_handle(lua_State *L, size_t size, const char *type,
                      lua_CFunction collect);

/* Memory behind a handle, of which Lua's collector knows nothing. */
typedef struct cel_backing {
  uint64_t bytes;
} cel_backing;

/* A handle on the stack has it from now on. When as much has come since the
 * last time as a collection is worth, and the script has not stopped it, what
 * nobody uses any more is collected now: other handles end in here. */
void cel__backing_add(lua_State *L, cel_backing *what, uint64_t bytes);
/* It is given back; more than once does nothing. */
void cel__backing_drop(lua_State *L, cel_backing *what);

/* Whether what a handle of this era names went with an engine that failed. */
bool cel__is_lost(lua_State *L, uint32_t era);
/* Raises if so: "`what` went with ...". */
void cel__check_era(lua_State *L, uint32_t era, const char *what);

/* A buffer handle at `index`; raises when it is none or was freed. */
const cel_buffer *cel__check_buffer(lua_State *L, int index);
/* The metatable of such handles, on the stack. */
void cel__push_buffer_type(lua_State *L);
/* The buffer of a handle that is known to be one; null when it was freed or
 * went with a failure. */
const cel_buffer *cel__buffer_of(lua_State *L, const void *handle);
const cel_buffer *cel__buffer_in(const cel_session *session,
                                 const void *handle);

/* A handle of weights at `index`; raises when it is none. */
const cel_weights *cel__check_weights(lua_State *L, int index);

/* A rule handle at `index`; raises when it is none. */
const cel_rule *cel__check_rule(lua_State *L, int index);
/* What an access by it is late by, and from which word on; null: it is not. */
cel_late *cel__check_late(lua_State *L, int index, int64_t *at);
/* A fence handle at `index`; raises when it is none. */
cel_fence *cel__check_fence(lua_State *L, int index);
/* An empty one, on the stack, for a rule with a reference. */
const cel_rule **cel__new_rule(lua_State *L);

/* A box from six integers starting at `index`: min, then max. */
cel_box cel__check_box(lua_State *L, int index);

/* Fields of the table on top of the stack. */
void cel__set_text(lua_State *L, const char *key, const char *text);
void cel__set_number(lua_State *L, const char *key, lua_Number value);
void cel__set_integer(lua_State *L, const char *key, lua_Integer value);

/* What Lua calls core.facts (core_facts.h), on the stack. */
void cel__push_facts(lua_State *L);

/* Where time() counts from, before any lane runs. */
void cel__clock_start(void);

/* A work that runs a form's function with these packed values (core_form.h) in
 * a thread with a Lua state, a host lane or for an interop task a GPU's. */
struct cel_form;
cel_work *cel__lua_work(struct cel_form *form, const char *values, size_t size);
/* What the end of a host object takes, for lanes: the encoded function, called
 * with `object`. */
cel_work *cel__lua_release(const char *blob, size_t size, const void *object);
/* What a host object holds, as the encoded function gives it: bytes that
 * lua/celer/host/lane.lua encodes. `objects`: it lives where Lua objects do. */
cel_taking *cel__lua_taking(const char *blob, size_t size, uint64_t hash,
                            bool objects);
/* A host object's handle at `index`; raises when it is none or was freed. */
const cel_object *cel__check_object(lua_State *L, int index);
/* Pushes what a call's first effect is on: id, memory | nil; two nils where it
 * has none. Returns 2. Thread: worker. */
int cel__push_first_effect(lua_State *L, const cel_call *call);
/* Initial contents from an encoded Lua function. `fd` is a file that it reads,
 * closed with the last use of the contents; -1 is none. */
cel_init *cel__lua_init(const char *blob, size_t size, int fd);
/* Initial contents copied from dense memory of the whole `extent`. */
cel_init *cel__data_init(const void *data, const cel_box *extent,
                         uint32_t element_size);

extern const luaL_Reg cel__core_weights[], cel__core_buffer[],
    cel__core_submit[], cel__core_form[], cel__core_replay[],
    cel__core_prepared[], cel__core_recall[], cel__core_listing[],
    cel__core_kernel[], cel__core_run[], cel__core_lane[], cel__core_both[],
    cel__core_object[], cel__core_lane_object[], cel__core_dry[],
    cel__core_see[], cel__core_line[], cel__core_cache[], cel__core_check[],
    cel__core_child[];

#endif
