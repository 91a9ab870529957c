/* Kernels of command groups that are submitted again, for Lua.
 *
 * Lua finds out that a group comes to the same task but for buffers and numbers
 * (prepared.lua, recalled.lua, again.lua, kept.lua). What it came to is
 * kept here as a whole group, of which a call replaces the buffers, which must
 * be alive and of the same shapes, and those numbers.
 *
 * Cost: the engine's for the task, and some 200 instructions.
 */
#include <string.h>

#include "embed/advice.h"
#include "embed/core/core_kernel.h"
#include "embed/core/core_prepared.h"
#include "embed/core/core_submit.h"
#include "task/known.h"

enum { MOST_PARAMS = 64 }; /* numbers of all mappers; else none is prepared */

/* What an access's buffer must be, besides its extent. */
typedef struct shape {
  uint64_t type;
  int32_t dims;
} shape;

/* A number that may be another one. */
typedef struct number {
  uint8_t value; /* which of the kernel's */
  uint16_t start;
  const cel_param *param; /* the module's */
} number;

/* A userdata; its environment keeps what pointers are to, and no buffer. */
typedef struct prepared {
  cel_lua_prepared given; /* first */
  const cel_session *session;
  cel_group group;
  cel_access access[CEL__PLAN_ACCESSES];
  shape shape[CEL__PLAN_ACCESSES];
  const char *identity[CEL__PLAN_ACCESSES]; /* null: nothing is reduced */
  cel_op op[CEL__PLAN_ACCESSES];
  int64_t params[MOST_PARAMS];
  cel_home home;
  const void *home_handle; /* of the buffer where it runs; or null */
  int32_t work_group[CEL_DIMS];
  cel__kernel_call call;
  cel_suits suits;
  unsigned char values[CEL__VALUES];
  uint32_t numbers;
  number number[CEL__PLAN_ARGUMENTS];
  cel_known known; /* what the last one came to */
} prepared;

_Static_assert(sizeof((prepared *)0)->given.buffer ==
                       CEL__PLAN_ACCESSES * sizeof(void *) &&
                   sizeof((prepared *)0)->given.value ==
                       CEL__PLAN_ARGUMENTS * sizeof(double),
               "core_prepared.h says the same");

/* Arguments of prepare; the first eight as of submit_kernel. */
enum {
  RANGE = 1,
  DIVISION,
  HANDLES,
  ACCESSES,
  LABEL,
  MODULE,
  KERNEL,
  VALUES,
  CHANGES,
  PLACE_FILE,
  PLACE_LINE
};

/* Those values that may change, by the list at CHANGES: 0 for one that may not;
 * without a list all. False where there are too many. */
static bool read_numbers(lua_State *L, prepared *r) {
  const cel_param *param;
  int32_t n = cel_module_params(r->call.module, r->call.kernel, &param);
  uint32_t at = 0, next = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (param[i].kind != CEL_PARAM_VALUE) continue;
    uint32_t align = (uint32_t)param[i].align;
    uint32_t start = (at + align - 1) & ~(align - 1);
    at = start + (uint32_t)param[i].size;
    if (param[i].dims != 0) continue; /* of the view before it */
    if (next == CEL__PLAN_ARGUMENTS) return false;
    bool changes = true;
    if (lua_istable(L, CHANGES)) {
      lua_rawgeti(L, CHANGES, (int)next + 1);
      changes = lua_tointeger(L, -1) > 0;
      lua_pop(L, 1);
    }
    if (changes)
      r->number[r->numbers++] = (number){
          .value = (uint8_t)next, .start = (uint16_t)start, .param = &param[i]};
    ++next;
  }
  return true;
}

/* False where there are too many. */
static bool read_accesses(lua_State *L, prepared *r) {
  cel__access_list list;
  cel__read_accesses(L, ACCESSES, &r->group.range, &list);
  if (list.n > CEL__PLAN_ACCESSES || list.used > MOST_PARAMS) return false;
  memcpy(r->params, list.params, sizeof r->params);
  for (uint32_t i = 0; i < list.n; ++i) {
    cel_access *a = &r->access[i];
    *a = list.access[i];
    a->use.params = r->params + (a->use.params - list.params);
    r->shape[i] = (shape){a->buffer->type, a->buffer->dims};
    r->identity[i] = list.identity[i];
    r->op[i] = list.op[i];
  }
  r->group.accesses = list.n;
  r->group.access = r->access;
  return true;
}

static void divide(lua_State *L, prepared *r) {
  const cel_lua_division *division =
      cel__read_division(L, DIVISION, &r->group, &r->home);
  memcpy(r->work_group, division->group, sizeof r->work_group);
  r->suits = cel__suits(r->call.module, &r->group, cel__items_of(division));
  if (r->group.home == NULL || r->home.buffer == NULL) return;
  lua_rawgeti(L, HANDLES, 2);
  r->home_handle = lua_touserdata(L, -1);
  lua_pop(L, 1);
}

/* Pushes a table of all that pointers are to: division, handles and label, and
 * the rule or identity of each access. */
static void push_kept(lua_State *L, const prepared *r) {
  lua_createtable(L, 3 + CEL__PLAN_ACCESSES, 0);
  int own = lua_gettop(L), n = 0, at = 1;
  static const int kept[] = {DIVISION, HANDLES, LABEL};
  for (int i = 0; i < 3; ++i) {
    lua_pushvalue(L, kept[i]);
    lua_rawseti(L, own, ++n);
  }
  for (uint32_t i = 0; i < r->group.accesses; ++i) {
    lua_rawgeti(L, ACCESSES, at + 2);
    lua_rawseti(L, own, ++n);
    at += 3 + (r->identity[i] != NULL ? 1 : r->access[i].use.rule->desc.params);
  }
}

/* prepare(range, division, handles, accesses, label, module, kernel, values,
 *         changes | nil, file | nil, line) -> prepared | nil
 * Without a file it is submitted at the user's line of then. False where places
 * have their callers, which a file and a line have none of. */
static int prepare(lua_State *L) {
  lua_settop(L, PLACE_LINE);
  if (cel__wants_callers() && !lua_isnil(L, PLACE_FILE)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  prepared *r = lua_newuserdata(L, sizeof *r);
  memset(r, 0, sizeof *r);
  r->session = cel__session_of(L);
  r->group.kind = CEL_TASK_KERNEL;
  cel__read_range(L, RANGE, &r->group);
  r->call = (cel__kernel_call){.module = cel__check_module(L, MODULE),
                               .kernel = (int32_t)luaL_checkinteger(L, KERNEL),
                               .group = r->work_group,
                               .values = r->values,
                               .identity = r->identity,
                               .op = r->op};
  if (!read_accesses(L, r) || !read_numbers(L, r)) return 0;
  r->call.size = cel__pack_values(L, VALUES, r->call.module, r->call.kernel,
                                  r->values, CEL__VALUES);
  r->group.known = &r->known;
  r->group.name = lua_tostring(L, LABEL);
  r->group.location = cel__check_location(L, PLACE_FILE);
  divide(L, r);
  push_kept(L, r);
  lua_setfenv(L, -2);
  return 1;
}

static bool fill_buffers(prepared *r) {
  if (r->home_handle != NULL) {
    r->home.buffer = cel__buffer_in(r->session, r->home_handle);
    if (r->home.buffer == NULL) return false;
  }
  for (uint32_t i = 0; i < r->group.accesses; ++i) {
    cel_access *a = &r->access[i];
    const cel_buffer *buffer = cel__buffer_in(r->session, r->given.buffer[i]);
    if (buffer == NULL || r->shape[i].type != buffer->type ||
        r->shape[i].dims != buffer->dims ||
        !cel_box_equal(&a->use.extent, &buffer->extent))
      return false;
    a->buffer = buffer;
  }
  return true;
}

static bool fill_numbers(prepared *r) {
  for (uint32_t k = 0; k < r->numbers; ++k) {
    const number *one = &r->number[k];
    double n = r->given.value[one->value];
    if (!cel__number_fits(n, one->param->class_, one->param->size))
      return false;
    cel__pack_number(n, one->param, r->values + one->start);
  }
  return true;
}

static cel_prepared_end submit(prepared *r) {
  if (cel_module_suit(r->call.module, r->call.kernel, &r->suits) != CEL_E_OK)
    return CEL_PREPARED_MODULE_FAILED;
  r->group.work =
      cel__kernel_work(&r->call, r->access, r->group.accesses, r->group.fold);
  cel_status status = cel_engine_submit(r->session->engine, &r->group);
  cel_work_release(r->group.work); /* the graph holds its own reference */
  return status == CEL_E_OK ? CEL_PREPARED_DONE : CEL_PREPARED_FAILED;
}

int32_t cel_prepared_submit(cel_lua_prepared *given) {
  prepared *r = (prepared *)given;
  if (r->session->engine == NULL || !fill_buffers(r) || !fill_numbers(r))
    return CEL_PREPARED_NOT;
  if (cel_advice_wants_look(r->session, r->group.location))
    return CEL_PREPARED_LOOK;
  return submit(r);
}

/* submit_again(prepared) -> as cel_prepared_submit, from the user's line of
 * now */
static int submit_again(lua_State *L) {
  enum { ABOVE = 2 }; /* a road of again.lua, which calls it */
  prepared *r = lua_touserdata(L, 1);
  r->group.location = cel__user_location_from(L, ABOVE);
  lua_pushinteger(L, cel_prepared_submit(&r->given));
  return 1;
}

/* finish_prepared(prepared, what cel_prepared_submit returned) -> as
 * submit_kernel */
static int finish_prepared(lua_State *L) {
  prepared *r = lua_touserdata(L, 1);
  cel_prepared_end end = (cel_prepared_end)luaL_checkinteger(L, 2);
  if (end == CEL_PREPARED_LOOK) {
    cel_advice_look(L, r->group.location);
    end = submit(r);
  }
  if (end == CEL_PREPARED_MODULE_FAILED) return cel__push_module_failure(L);
  if (end == CEL_PREPARED_FAILED) return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

const luaL_Reg cel__core_prepared[] = {
    {"prepare", prepare},
    {"submit_again", submit_again},
    {"finish_prepared", finish_prepared},
    {NULL, NULL},
};
