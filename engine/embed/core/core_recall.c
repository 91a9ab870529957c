/* Command groups of functions that q:submit has run before, for Lua.
 *
 * lua/celer/submit/recalled.lua finds out what such a function reads, and
 * prepares its group (core_prepared.c). A closure of the same code comes to
 * the same group where all that it reads is the same: its variables, those of
 * functions that it captured, and fields of tables. Variables that change from
 * one closure to the next, buffers and numbers, may be the group's arguments.
 *
 * Cost: some 30 instructions for each of what is compared.
 */
#include <math.h>
#include <string.h>

#include "embed/code.h"
#include "embed/core/core.h"
#include "embed/core/core_prepared.h"
#include "embed/core/core_recall.h"
#include "embed/core/core_replay.h"

/* Something that the function reads. Slots are of two tables in the
 * environment: `seen` holds functions and tables weakly, `kept` the rest. */
typedef struct check {
  cel__recall_way way;
  int owner; /* slot in seen of the function or table that has it */
  int key;   /* a variable's number, or a field's name, a slot in kept */
  int value; /* slot of what it was; 0: nil */
  bool weak; /* which is in seen */
} check;

/* A userdata; its environment keeps what pointers are to. */
typedef struct recalled {
  cel_lua_prepared *prepared;
  int checks, variables, buffers, values;
  check check[CEL__RECALL_CHECKS];
  uint8_t variable[CEL__PLAN_ARGUMENTS]; /* numbers of those that may change */
  bool is_buffer[CEL__PLAN_ARGUMENTS];   /* by variable; else a number */
  int buffer[CEL__PLAN_ACCESSES]; /* of variable k: k + 1; else -slot in seen */
  uint8_t value[CEL__PLAN_ARGUMENTS]; /* the same; 0: as it was prepared */
} recalled;

enum { KEPT_PREPARED = 1, KEPT_CODE, KEPT_VALUES, KEPT_SEEN };

/* What recall's closure has. */
enum { BUFFER = 1, HANDLE_TYPE, HANDLE };

/* ---- making one ---------------------------------------------------------- */

static int number_at(lua_State *L, int list, int i) {
  lua_rawgeti(L, list, i);
  int n = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* remember(prepared, code, kept, seen, checks, variables, buffers, values)
 *   -> what recall takes
 * Lists of numbers, as recalled.lua has them. */
static int remember(lua_State *L) {
  enum { CHECKS = 5, VARIABLES, BUFFERS, VALUES, FIELDS = 5 };
  recalled *r = lua_newuserdata(L, sizeof *r);
  memset(r, 0, sizeof *r);
  r->prepared = lua_touserdata(L, 1);
  r->checks = (int)lua_objlen(L, CHECKS) / FIELDS;
  r->variables = (int)lua_objlen(L, VARIABLES) / 2;
  r->buffers = (int)lua_objlen(L, BUFFERS);
  r->values = (int)lua_objlen(L, VALUES);
  if (r->checks > CEL__RECALL_CHECKS || r->variables > CEL__PLAN_ARGUMENTS ||
      r->buffers > CEL__PLAN_ACCESSES || r->values > CEL__PLAN_ARGUMENTS)
    return 0;
  for (int i = 0; i < r->checks; ++i) {
    int at = i * FIELDS;
    r->check[i] = (check){.way = (cel__recall_way)number_at(L, CHECKS, at + 1),
                          .owner = number_at(L, CHECKS, at + 2),
                          .key = number_at(L, CHECKS, at + 3),
                          .value = number_at(L, CHECKS, at + 4),
                          .weak = number_at(L, CHECKS, at + 5) != 0};
  }
  for (int i = 0; i < r->variables; ++i) {
    r->variable[i] = (uint8_t)number_at(L, VARIABLES, 2 * i + 1);
    r->is_buffer[i] = number_at(L, VARIABLES, 2 * i + 2) != 0;
  }
  for (int i = 0; i < r->buffers; ++i)
    r->buffer[i] = number_at(L, BUFFERS, i + 1);
  for (int i = 0; i < r->values; ++i)
    r->value[i] = (uint8_t)number_at(L, VALUES, i + 1);
  lua_newtable(L);
  for (int i = KEPT_PREPARED; i <= KEPT_SEEN; ++i) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  lua_setfenv(L, -2);
  return 1;
}

/* ---- comparing ----------------------------------------------------------- */

/* The value on top is what it was: also a zero's sign. */
static bool is_the_same(lua_State *L, const check *c, int kept, int seen) {
  if (c->value == 0) return lua_isnil(L, -1);
  lua_rawgeti(L, c->weak ? seen : kept, c->value);
  if (lua_type(L, -1) != LUA_TNUMBER)
    return !lua_isnil(L, -1) && lua_rawequal(L, -1, -2);
  if (lua_type(L, -2) != LUA_TNUMBER) return false;
  lua_Number was = lua_tonumber(L, -1), is = lua_tonumber(L, -2);
  return was == is && signbit(was) == signbit(is);
}

/* The table on top has no metatable, and n keys. */
static bool has_keys(lua_State *L, int n) {
  if (lua_getmetatable(L, -1)) return false;
  int table = lua_gettop(L);
  lua_pushnil(L);
  for (; lua_next(L, table) != 0; --n) lua_pop(L, 1);
  return n == 0;
}

/* Pushes a field of the table on top, without its metatable. */
static void push_field(lua_State *L, int kept, int key) {
  lua_rawgeti(L, kept, key);
  lua_rawget(L, -2);
}

/* Pushes what is read now; false where that is gone, or found otherwise. */
static bool push_read(lua_State *L, const check *c, int f, int kept, int seen) {
  if (c->way == CEL__RECALL_OWN) return lua_getupvalue(L, f, c->key) != NULL;
  lua_rawgeti(L, seen, c->owner);
  if (c->way == CEL__RECALL_VARIABLE)
    return lua_isfunction(L, -1) && lua_getupvalue(L, -1, c->key) != NULL;
  if (!lua_istable(L, -1)) return false;
  push_field(L, kept, c->key);
  if (c->way == CEL__RECALL_FIELD) return true;
  if (!lua_isnil(L, -1)) return false;
  lua_pop(L, 1);
  lua_rawgeti(L, kept, c->key);
  lua_gettable(L, -2); /* by its metatable */
  return true;
}

static bool holds(lua_State *L, const recalled *r, int f, int kept, int seen) {
  int top = lua_gettop(L);
  bool same = true;
  for (int i = 0; same && i < r->checks; ++i) {
    const check *c = &r->check[i];
    if (c->way == CEL__RECALL_KEYS) {
      lua_rawgeti(L, seen, c->owner);
      same = lua_istable(L, -1) && has_keys(L, c->key);
    } else {
      same = push_read(L, c, f, kept, seen) && is_the_same(L, c, kept, seen);
    }
    lua_settop(L, top);
  }
  return same;
}

/* The handle of the buffer on top; null where that is none. */
static const void *handle_of(lua_State *L) {
  if (!lua_istable(L, -1) || !lua_getmetatable(L, -1) ||
      !lua_rawequal(L, -1, lua_upvalueindex(BUFFER)))
    return NULL;
  lua_pop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(HANDLE));
  lua_rawget(L, -2);
  bool is = lua_getmetatable(L, -1) &&
            lua_rawequal(L, -1, lua_upvalueindex(HANDLE_TYPE));
  return is ? lua_touserdata(L, -2) : NULL;
}

/* Puts buffers and numbers of now where the prepared group has them. False
 * where a variable is neither, unlike before. */
static bool fill(lua_State *L, recalled *r, int f, int seen) {
  int top = lua_gettop(L);
  const void *handle[CEL__PLAN_ARGUMENTS];
  double number[CEL__PLAN_ARGUMENTS];
  for (int k = 0; k < r->variables; ++k) {
    lua_settop(L, top);
    if (lua_getupvalue(L, f, r->variable[k]) == NULL) return false;
    handle[k] = r->is_buffer[k] ? handle_of(L) : NULL;
    number[k] = r->is_buffer[k] ? 0 : lua_tonumber(L, -1);
    if (r->is_buffer[k] ? handle[k] == NULL : lua_type(L, -1) != LUA_TNUMBER)
      return false;
  }
  for (int i = 0; i < r->buffers; ++i) {
    lua_settop(L, top);
    if (r->buffer[i] > 0) {
      r->prepared->buffer[i] = handle[r->buffer[i] - 1];
      continue;
    }
    lua_rawgeti(L, seen, -r->buffer[i]);
    r->prepared->buffer[i] = lua_touserdata(L, -1);
    if (r->prepared->buffer[i] == NULL) return false;
  }
  for (int i = 0; i < r->values; ++i)
    if (r->value[i] > 0) r->prepared->value[i] = number[r->value[i] - 1];
  lua_settop(L, top);
  return true;
}

/* recall(sets by code, function) -> true: it was submitted; false: it is one
 * that is always run; nil: nothing was done; or what finish_prepared goes on
 * with. Sets have at 0 whether one of them was submitted. */
static int recall(lua_State *L) {
  enum { SETS = 1, FUNCTION };
  lua_settop(L, FUNCTION);
  const void *code = cel__code_of(L, FUNCTION);
  if (code == NULL) return 0;
  lua_pushlightuserdata(L, (void *)code);
  lua_rawget(L, SETS);
  if (!lua_istable(L, -1)) return 1; /* false or nil */
  int list = lua_gettop(L);
  for (int i = 1;; ++i) {
    lua_settop(L, list);
    lua_rawgeti(L, list, i);
    recalled *r = lua_touserdata(L, -1);
    if (r == NULL) return 0;
    lua_getfenv(L, -1);
    int own = lua_gettop(L), kept = own + 1, seen = own + 2;
    lua_rawgeti(L, own, KEPT_VALUES);
    lua_rawgeti(L, own, KEPT_SEEN);
    if (!holds(L, r, FUNCTION, kept, seen) || !fill(L, r, FUNCTION, seen))
      continue;
    int32_t end = cel_prepared_submit(r->prepared);
    if (end == CEL_PREPARED_NOT) continue;
    lua_pushboolean(L, true);
    lua_rawseti(L, list, 0);
    if (end == CEL_PREPARED_DONE) {
      lua_pushboolean(L, true);
      return 1;
    }
    lua_rawgeti(L, own, KEPT_PREPARED);
    lua_pushinteger(L, end);
    return 2;
  }
}

/* code_of(function) -> the address of its code; nil where there is none */
static int code_of(lua_State *L) {
  const void *code = cel__code_of(L, 1);
  if (code == NULL) return 0;
  lua_pushlightuserdata(L, (void *)code);
  return 1;
}

/* recall_with(metatable of buffers) -> recall */
static int recall_with(lua_State *L) {
  lua_settop(L, 1);
  cel__push_buffer_type(L);
  lua_pushliteral(L, "handle");
  lua_pushcclosure(L, recall, HANDLE);
  return 1;
}

const luaL_Reg cel__core_recall[] = {
    {"recall_with", recall_with},
    {"remember", remember},
    {"code_of", code_of},
    {NULL, NULL},
};
