/* Command groups that were prepared by q:group, for Lua.
 *
 * lua/celer/submit/prepared.lua finds out which argument of the function goes
 * where, and that it only declares. What it came to is kept with the group's
 * plan, and is submitted again with other buffers and numbers as long as the
 * function captured the same.
 *
 * Cost: the engine's for the task, and some 100 instructions for each captured
 * variable and each buffer.
 */
#include <string.h>

#include "embed/core/core_replay.h"

enum {
  CHECKS = 48, /* captured variables of a prepared group, at most */
  /* Its table: what it keeps, beside constants. */
  KEPT_PLAN = 1,
  KEPT_LABEL,
  KEPT_DIVISION,
  KEPT_HANDLES,
  KEPT_WEAK, /* a table of what it does not keep alive */
  KEPT_CONSTANTS
};

static const char prepared_type[] = "celer.core.prepared";

/* A captured variable of its function, or of one that this calls; or an element
 * of a table. */
typedef struct captured {
  uint16_t owner, value; /* slots of the weak table */
  uint8_t index;
  bool is_nil;
} captured;

/* A group that was submitted before, by which others are that differ in
 * arguments alone. */
typedef struct prepared {
  cel__given given; /* but for buffers and places on the stack */
  cel_location location;
  int arguments;
  uint32_t checks;
  captured check[CHECKS];
  uint8_t
      buffer[CEL__PLAN_ACCESSES]; /* which argument it is, from 1; 0: a slot, */
  uint16_t handle[CEL__PLAN_ACCESSES];
  uint8_t value[CEL__PLAN_ARGUMENTS];     /* the same, */
  uint16_t constant[CEL__PLAN_ARGUMENTS]; /* of its table */
} prepared;

/* The number at `at` of the array that is field `key` of the table at `index`.
 */
static int listed(lua_State *L, int index, const char *key, uint32_t at) {
  lua_getfield(L, index, key);
  lua_rawgeti(L, -1, (int)at + 1);
  int n = (int)lua_tointeger(L, -1);
  lua_pop(L, 2);
  return n;
}

/* Variables of the array {owner, index, value, ...} on top, with its length;
 * those of one owner come together. */
static bool read_captured(lua_State *L, int weak, int *slots, prepared *r) {
  int list = lua_gettop(L);
  lua_getfield(L, list, "n");
  int n = (int)lua_tointeger(L, -1);
  if (n > 3 * CHECKS) return false;
  const void *last = NULL;
  for (int i = 0; i < n; i += 3) {
    captured *c = &r->check[r->checks++];
    lua_rawgeti(L, list, i + 1);
    if (lua_topointer(L, -1) != last) ++*slots;
    last = lua_topointer(L, -1);
    lua_rawseti(L, weak, c->owner = (uint16_t)*slots);
    c->value = (uint16_t)(CHECKS + i);
    lua_rawgeti(L, list, i + 2);
    c->index = (uint8_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_rawgeti(L, list, i + 3);
    c->is_nil = lua_isnil(L, -1);
    lua_rawseti(L, weak, c->value);
  }
  *slots = CHECKS + n;
  return true;
}

/* An empty table on the stack, which keeps no object alive. */
static void push_weak(lua_State *L) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

/* prepare(plans, label, division, handles, group, range, ...) -> prepared | nil
 * As replay, of a group like one that was submitted; the group has in a field
 * `prepared` what prepared.lua says. False where places have their callers,
 * which a prepared group has none of. */
int cel__prepare(lua_State *L) {
  cel__given g;
  int last = lua_gettop(L), slots = 0;
  if (cel__wants_callers()) {
    lua_pushboolean(L, 0);
    return 1;
  }
  cel__group_plan *p = cel__plan_match(L, &g);
  if (p == NULL) return 0;
  int found = lua_gettop(L) - 1; /* the plan, then its table */
  lua_getfield(L, CEL__REPLAY_GROUP, "prepared");
  int how = lua_gettop(L);
  prepared *r = lua_newuserdata(L, sizeof *r);
  memset(r, 0, sizeof *r);
  lua_newtable(L);
  int own = lua_gettop(L);
  lua_pushvalue(L, found);
  lua_rawseti(L, own, KEPT_PLAN);
  for (int i = CEL__REPLAY_LABEL; i <= CEL__REPLAY_HANDLES; ++i) {
    lua_pushvalue(L, i);
    lua_rawseti(L, own, KEPT_LABEL + i - CEL__REPLAY_LABEL);
  }
  push_weak(L);
  int weak = lua_gettop(L);
  r->given = g;
  lua_getfield(L, how, "arguments");
  r->arguments = (int)lua_tointeger(L, -1);
  lua_settop(L, weak);
  lua_getfield(L, how, "file");
  lua_getfield(L, how, "line");
  r->location = cel__check_location(L, weak + 1);
  lua_getfield(L, how, "captured");
  if (!read_captured(L, weak, &slots, r)) return 0;
  uint32_t access = 0, value = 0;
  for (int i = CEL__REPLAY_FIRST; i <= last; ++i) {
    if ((g.is_access >> (i - CEL__REPLAY_FIRST) & 1) != 0) {
      r->buffer[access] = (uint8_t)listed(L, how, "buffers", access);
      lua_rawgeti(L, i, CEL__ACCESS_HANDLE);
      lua_rawseti(L, weak, r->handle[access++] = (uint16_t)++slots);
    } else {
      r->value[value] = (uint8_t)listed(L, how, "values", value);
      lua_pushvalue(L, i);
      r->constant[value] = (uint16_t)(KEPT_CONSTANTS + value);
      lua_rawseti(L, own, r->constant[value++]);
    }
  }
  lua_pushvalue(L, weak);
  lua_rawseti(L, own, KEPT_WEAK);
  lua_settop(L, own);
  lua_setfenv(L, -2);
  luaL_newmetatable(L, prepared_type);
  lua_setmetatable(L, -2);
  return 1;
}

/* Whether the table on top is plain and has so many keys. */
static bool has_keys(lua_State *L, int n) {
  if (lua_getmetatable(L, -1)) return false;
  int found = 0;
  lua_pushnil(L);
  for (; found <= n && lua_next(L, -2) != 0; ++found) lua_pop(L, 1);
  if (found > n) lua_pop(L, 1);
  return found == n;
}

/* Pushes what a variable of the function on top holds, or an element of the
 * table there; false where there is neither. Behind a table's last element it
 * has no other. */
static bool push_captured(lua_State *L, const captured *c) {
  if (lua_istable(L, -1)) {
    if (c->is_nil && !has_keys(L, c->index - 1)) return false;
    lua_rawgeti(L, -1, c->index);
    return true;
  }
  return lua_isfunction(L, -1) && lua_getupvalue(L, -1, c->index) != NULL;
}

/* Whether the variables hold what they held. */
static bool captures_the_same(lua_State *L, const prepared *r, int weak) {
  int owner = 0;
  bool same = true;
  lua_pushnil(L);
  for (uint32_t i = 0; same && i < r->checks; ++i) {
    const captured *c = &r->check[i];
    if (c->owner != owner) {
      owner = c->owner;
      lua_settop(L, weak);
      lua_rawgeti(L, weak, owner);
    }
    same = push_captured(L, c);
    lua_rawgeti(L, weak, c->value);
    same = same && c->is_nil == lua_isnil(L, -1) && lua_rawequal(L, -1, -2);
    lua_settop(L, weak + 1);
  }
  lua_settop(L, weak);
  return same;
}

/* The buffer of a handle on top; null where it is none. */
static const cel_buffer *live_buffer(lua_State *L) {
  bool is = lua_getmetatable(L, -1) &&
            lua_rawequal(L, -1, lua_upvalueindex(CEL__PREPARED_HANDLE_TYPE));
  return is ? cel__buffer_of(L, lua_touserdata(L, -2)) : NULL;
}

/* Puts the buffers of now into `g`; leaves the stack as it is. */
static bool fill_buffers(lua_State *L, const prepared *r,
                         const cel__group_plan *p, int weak, cel__given *g) {
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const cel__planned_access *m = &p->access[i];
    const cel_buffer *buffer = NULL;
    if (r->buffer[i] == 0) { /* a handle, or nil where it was collected */
      lua_rawgeti(L, weak, r->handle[i]);
      if (!lua_isnil(L, -1)) buffer = cel__buffer_of(L, lua_touserdata(L, -1));
    } else if (lua_istable(L, 1 + r->buffer[i])) {
      lua_pushvalue(L, lua_upvalueindex(CEL__PREPARED_HANDLE));
      lua_rawget(L, 1 + r->buffer[i]);
      buffer = live_buffer(L);
    }
    lua_settop(L, weak);
    if (buffer == NULL || m->type != buffer->type || m->dims != buffer->dims ||
        !cel_box_equal(&m->extent, &buffer->extent))
      return false;
    g->access[i].buffer = buffer;
  }
  return true;
}

/* Arguments are numbers: others may have let its function take another course.
 */
static bool fill_values(lua_State *L, const prepared *r, int own,
                        cel__given *g) {
  for (uint32_t i = 0; i < g->values; ++i) {
    if (r->value[i] == 0) {
      lua_rawgeti(L, own, r->constant[i]);
      g->value[i] = lua_gettop(L);
    } else {
      g->value[i] = 1 + r->value[i];
      if (lua_type(L, g->value[i]) != LUA_TNUMBER) return false;
    }
  }
  return true;
}

/* submit_prepared(prepared, ...) -> false where it is not for these arguments,
 * or for what its function captured now; else as submit_kernel. */
int cel__submit_prepared(lua_State *L) {
  _Alignas(16) unsigned char values[CEL__PLAN_VALUES];
  uint32_t size;
  const prepared *r = lua_touserdata(L, 1);
  bool is_for = lua_gettop(L) - 1 == r->arguments;
  lua_settop(L, 1 + r->arguments);
  luaL_checkstack(L, CEL__PLAN_ARGUMENTS + 16, NULL);
  lua_getfenv(L, 1);
  int own = lua_gettop(L), weak = own + 1;
  lua_rawgeti(L, own, KEPT_WEAK);
  lua_rawgeti(L, own, KEPT_PLAN);
  const cel__group_plan *p = lua_touserdata(L, -1);
  lua_settop(L, weak);
  cel__given g = r->given;
  if (!is_for || !captures_the_same(L, r, weak) ||
      !fill_buffers(L, r, p, weak, &g) || !fill_values(L, r, own, &g) ||
      !cel__plan_pack(L, p, &g, values, &size)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  int texts = lua_gettop(L) + 1;
  lua_rawgeti(L, own, KEPT_LABEL);
  lua_rawgeti(L, own, KEPT_DIVISION);
  lua_rawgeti(L, own, KEPT_HANDLES);
  return cel__plan_submit(L, p, &g, texts, r->location, values, size);
}
