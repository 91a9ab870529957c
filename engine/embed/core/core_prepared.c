/* Command groups that were prepared by q:group, for Lua.
 *
 * lua/celer/submit/prepared.lua finds out which argument of the function goes
 * where, and that it only declares; and compares what the function captured.
 * What it came to is kept here as a whole group, of which a call replaces the
 * buffers and the numbers that are arguments.
 *
 * Cost: the engine's for the task, and some 200 instructions.
 */
#include <string.h>

#include "embed/advice.h"
#include "embed/core/core_prepared.h"
#include "embed/core/core_replay.h"

enum { KEPT_PLAN = 1, KEPT_LABEL, KEPT_DIVISION, KEPT_HANDLES };

/* A userdata; its environment keeps the plan, and what the group refers to. */
typedef struct prepared {
  cel_lua_prepared given; /* first */
  const cel_session *session;
  cel__group_plan *plan;
  cel__given g; /* its numbers */
  cel_group group;
  cel_access access[CEL__PLAN_ACCESSES];
  cel_home home;
  const void *home_handle; /* of the buffer where it runs; or null */
  cel_suits suits;
  cel__packed_values values;
  uint32_t numbers; /* that are arguments: */
  uint8_t number[CEL__PLAN_ARGUMENTS];
} prepared;

_Static_assert(sizeof((prepared *)0)->given.buffer ==
                       CEL__PLAN_ACCESSES * sizeof(void *) &&
                   sizeof((prepared *)0)->given.value ==
                       CEL__PLAN_ARGUMENTS * sizeof(double),
               "core_prepared.h says the same");

/* Keeps arguments [first, last] in the environment on top. */
static void keep(lua_State *L, int first, int last, int slot) {
  int own = lua_gettop(L);
  for (int i = first; i <= last; ++i) {
    lua_pushvalue(L, i);
    lua_rawseti(L, own, slot++);
  }
}

/* Which values are arguments: the field `values` of the table at `how`, 0 for
 * those that are not. */
static void read_numbers(lua_State *L, int how, prepared *r) {
  lua_getfield(L, how, "values");
  for (uint32_t i = 0; i < r->g.values; ++i) {
    lua_rawgeti(L, -1, (int)i + 1);
    if (lua_tointeger(L, -1) > 0) r->number[r->numbers++] = (uint8_t)i;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void divide(lua_State *L, prepared *r) {
  cel__read_division(L, CEL__REPLAY_DIVISION, &r->group, &r->home);
  if (r->group.home == NULL || r->home.buffer == NULL) return;
  lua_rawgeti(L, CEL__REPLAY_HANDLES, 2);
  r->home_handle = lua_touserdata(L, -1);
  lua_pop(L, 1);
}

/* prepare(plans, label, division, handles, group, range, ...) -> prepared | nil
 * As replay, of a group like one that was submitted; the group has in a field
 * `prepared` what prepared.lua says. False where places have their callers,
 * which a prepared group has none of. */
int cel__prepare(lua_State *L) {
  cel__given g;
  cel__packed_values values;
  if (cel__wants_callers()) {
    lua_pushboolean(L, 0);
    return 1;
  }
  cel__group_plan *p = cel__plan_match(L, &g);
  if (p == NULL || !cel__plan_pack(L, p, &g, &values)) return 0;
  int found = lua_gettop(L) - 1; /* the plan, then its table */
  prepared *r = lua_newuserdata(L, sizeof *r);
  memset(r, 0, sizeof *r);
  r->session = cel__session_of(L);
  r->plan = p;
  r->g = g;
  r->values = values;
  cel__plan_group(p, &r->g, r->access, &r->group);
  r->group.known = &p->task;
  r->group.name = lua_tostring(L, CEL__REPLAY_LABEL);
  r->suits = cel__suits(p->module, &r->group, 0);
  divide(L, r);
  lua_newtable(L);
  keep(L, found, found, KEPT_PLAN);
  keep(L, CEL__REPLAY_LABEL, CEL__REPLAY_HANDLES, KEPT_LABEL);
  lua_setfenv(L, -2);
  lua_getfield(L, CEL__REPLAY_GROUP, "prepared");
  int how = lua_gettop(L);
  read_numbers(L, how, r);
  lua_getfield(L, how, "file");
  lua_getfield(L, how, "line");
  r->group.location = cel__check_location(L, how + 1);
  lua_settop(L, how - 1);
  return 1;
}

static bool fill_buffers(prepared *r) {
  if (r->home_handle != NULL) {
    r->home.buffer = cel__buffer_in(r->session, r->home_handle);
    if (r->home.buffer == NULL) return false;
  }
  for (uint32_t i = 0; i < r->plan->accesses; ++i) {
    const cel__planned_access *m = &r->plan->access[i];
    const cel_buffer *buffer = cel__buffer_in(r->session, r->given.buffer[i]);
    if (buffer == NULL || m->type != buffer->type || m->dims != buffer->dims ||
        !cel_box_equal(&m->extent, &buffer->extent))
      return false;
    r->access[i].buffer = buffer;
  }
  return true;
}

static bool fill_numbers(prepared *r) {
  for (uint32_t k = 0; k < r->numbers; ++k) {
    uint8_t i = r->number[k];
    const cel_param *param = r->values.param[i];
    double n = r->given.value[i];
    if (!cel__number_fits(n, param->class_, param->size)) return false;
    cel__pack_number(n, param, r->values.bytes + r->values.start[i]);
  }
  return true;
}

static cel_prepared_end submit(prepared *r) {
  const cel__group_plan *p = r->plan;
  if (cel_module_suit(p->module, p->kernel, &r->suits) != CEL_E_OK)
    return CEL_PREPARED_MODULE_FAILED;
  cel_work *work =
      cel_module_work(p->module, p->kernel, r->values.bytes, r->values.size);
  cel_module_walk(work, r->access, p->accesses);
  cel_module_sample(p->module, p->kernel, work, r->access, p->accesses);
  r->group.work = work;
  cel_status status = cel_engine_submit(r->session->engine, &r->group);
  cel_work_release(work); /* the graph holds its own reference */
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
int cel__submit_again(lua_State *L) {
  enum { ABOVE = 2 }; /* a road of again.lua, which calls it */
  prepared *r = lua_touserdata(L, 1);
  r->group.location = cel__user_location_from(L, ABOVE);
  lua_pushinteger(L, cel_prepared_submit(&r->given));
  return 1;
}

/* finish_prepared(prepared, what cel_prepared_submit returned) -> as
 * submit_kernel */
int cel__finish_prepared(lua_State *L) {
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
