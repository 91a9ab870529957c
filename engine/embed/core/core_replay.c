/* Command groups that are like one before, for Lua.
 *
 * A loop submits one kernel in each step, with closures made anew as range
 * mappers. What such a group came to is a plan (replay.lua makes it of what
 * known.lua knows). A group that is like it but for its range, buffers of the
 * same shape, numbers that mappers captured and values is submitted from here
 * without a look at Lua's tables of all that; whatever else differs, and
 * whatever is wrong, is left to the long way.
 *
 * Cost: about as much as the engine takes for the task. Nothing is allocated,
 * but where a mapper is asked about numbers or a range that it has not had.
 */
#include <string.h>

#include "embed/advice.h"
#include "embed/code.h"
#include "embed/core/core_replay.h"

static const double most = 0x1p53; /* a bound, and the items of a range */

static const char plan_type[] = "celer.core.plan";

/* ---- making one ---------------------------------------------------------- */

static lua_Number field_number(lua_State *L, int index, const char *key) {
  lua_getfield(L, index, key);
  lua_Number n = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return n;
}

static bool field_is_true(lua_State *L, int index, const char *key) {
  lua_getfield(L, index, key);
  bool is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

/* Puts the value on top of the stack into the plan's table. */
static uint16_t keep(lua_State *L, int kept, cel__group_plan *p) {
  lua_rawseti(L, kept, ++p->slots);
  return p->slots;
}

/* The same for a field; false and nil are slot 0. */
static uint16_t keep_field(lua_State *L, int index, const char *key, int kept,
                           cel__group_plan *p) {
  lua_getfield(L, index, key);
  if (lua_toboolean(L, -1)) return keep(L, kept, p);
  lua_pop(L, 1);
  return 0;
}

/* A position, or CEL__PLAN_NONE. */
static uint8_t field_position(lua_State *L, int index, const char *key) {
  lua_getfield(L, index, key);
  uint8_t at = lua_isnil(L, -1) ? CEL__PLAN_NONE : (uint8_t)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return at;
}

/* The code of a function that is known by it. */
static const void *field_code(lua_State *L, int index) {
  lua_getfield(L, index, "code");
  lua_getfield(L, index, "value");
  const void *code = lua_isnil(L, -2) ? NULL : cel__code_of(L, -1);
  lua_pop(L, 2);
  return code;
}

static uint16_t keep_value(lua_State *L, int index, int kept,
                           cel__group_plan *p) {
  lua_getfield(L, index, "value");
  return keep(L, kept, p); /* nil and false, too */
}

/* Variables of the mapper described at `index`, as known.lua has them. False
 * where there are too many. */
static bool read_variables(lua_State *L, int index, int kept,
                           cel__group_plan *p, cel__planned_access *m) {
  lua_getfield(L, index, "variables");
  int list = lua_gettop(L), n = (int)lua_objlen(L, list);
  bool fits = m->first + n <= CEL__PLAN_VARIABLES;
  for (int i = 1; fits && i <= n; ++i) {
    lua_rawgeti(L, list, i);
    int at = lua_gettop(L);
    p->variables[m->first + m->variables++] =
        (cel__plan_variable){.code = field_code(L, at),
                             .value = keep_value(L, at, kept, p),
                             .name = keep_field(L, at, "name", kept, p),
                             .library = keep_field(L, at, "library", kept, p),
                             .owner = field_position(L, at, "owner"),
                             .same = field_position(L, at, "same"),
                             .index = (uint8_t)field_number(L, at, "index"),
                             .param = (uint8_t)field_number(L, at, "param")};
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return fits;
}

/* What is known of it: its numbers under the range at hand. */
static bool read_params(lua_State *L, int index, const cel_box *range,
                        cel__group_plan *p, cel__planned_access *m) {
  lua_getfield(L, index, "params");
  uint32_t n = (uint32_t)m->rule->desc.params;
  bool fits = p->params + n <= CEL__PLAN_PARAMS;
  m->param = (uint8_t)p->params;
  m->word = p->words;
  m->words = (uint16_t)(CEL__PLAN_BOUNDS + n);
  memcpy(&p->seen[0][m->word], range, CEL__PLAN_BOUNDS * sizeof(int64_t));
  for (uint32_t i = 0; fits && i < n; ++i) {
    lua_rawgeti(L, -1, (int)i + 1);
    p->seen[0][m->word + CEL__PLAN_BOUNDS + i] = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  p->params += n;
  p->words += m->words;
  m->known = 1;
  lua_pop(L, 1);
  return fits;
}

/* Of the table at `index`: see replay.lua. */
static bool read_planned(lua_State *L, int index, int kept,
                         const cel_box *range, cel__group_plan *p) {
  if (p->accesses == CEL__PLAN_ACCESSES) return false;
  cel__planned_access *m = &p->access[p->accesses++];
  if (p->accesses > 1) m->first = (uint8_t)(m[-1].first + m[-1].variables);
  m->as = (int32_t)field_number(L, index, "as");
  m->exact = field_is_true(L, index, "exact");
  lua_getfield(L, index, "mode");
  m->mode = luaL_checkstring(L, -1);
  lua_getfield(L, index, "map");
  m->code = m->exact ? lua_topointer(L, -1) : cel__code_of(L, -1);
  lua_getfield(L, index, "edge");
  m->edge = lua_isnil(L, -1) ? NULL : lua_topointer(L, -1);
  lua_pop(L, 1);
  lua_getfield(L, index, "rule");
  m->rule = cel__check_rule(L, -1);
  m->late = cel__check_late(L, -1, &m->late_at);
  lua_getfield(L, index, "handle");
  const cel_buffer *buffer = cel__check_buffer(L, -1);
  m->type = buffer->type;
  m->dims = buffer->dims;
  m->extent = buffer->extent;
  lua_pop(L, 4);
  lua_pushnil(L); /* a plan keeps no buffer alive */
  lua_setfield(L, index, "handle");
  m->check = keep_field(L, index, "check", kept, p);
  return m->code != NULL && read_variables(L, index, kept, p, m) &&
         read_params(L, index, range, p, m);
}

/* plan(a cel_lua_range, module, kernel from 0, arguments) -> plan | nil
 * arguments: false for a value, for an access what replay.lua says of it. */
static int plan_new(lua_State *L) {
  enum { GIVEN = 4 };
  cel_group group;
  cel__read_range(L, 1, &group);
  cel__group_plan *p = lua_newuserdata(L, sizeof *p);
  memset(p, 0, sizeof *p);
  p->dims = group.dims;
  p->module = cel__check_module(L, 2);
  p->kernel = (int32_t)luaL_checkinteger(L, 3);
  p->arguments = (uint32_t)lua_objlen(L, GIVEN);
  lua_newtable(L);
  int kept = lua_gettop(L);
  lua_pushvalue(L, GIVEN); /* keeps all that pointers are to */
  keep(L, kept, p);
  bool fits = p->arguments <= CEL__PLAN_ARGUMENTS;
  for (uint32_t i = 0; fits && i < p->arguments; ++i) {
    lua_rawgeti(L, GIVEN, (int)i + 1);
    if (lua_istable(L, -1)) {
      p->is_access |= UINT32_C(1) << i;
      fits = read_planned(L, lua_gettop(L), kept, &group.range, p);
    }
    lua_settop(L, kept);
  }
  lua_setfenv(L, -2);
  if (!fits) return 0;
  luaL_newmetatable(L, plan_type);
  lua_setmetatable(L, -2);
  return 1;
}

/* ---- the group at hand --------------------------------------------------- */

/* What its closure has: metatables, and names of fields. */
enum { BOX = 1, CHUNK, HANDLE_TYPE, COUNT, DIMS, MIN, MAX };

/* Pops a number that is a bound. */
static bool read_bound(lua_State *L, int64_t *out) {
  bool is = lua_type(L, -1) == LUA_TNUMBER;
  lua_Number n = lua_tonumber(L, -1);
  lua_pop(L, 1);
  if (!is || !(n >= -most && n <= most)) return false;
  *out = (int64_t)n;
  return (lua_Number)*out == n;
}

/* The field of the table at `index` that an upvalue names, on the stack. */
static void push_field(lua_State *L, int index, int upvalue) {
  lua_pushvalue(L, lua_upvalueindex(upvalue));
  lua_rawget(L, index);
}

/* An array of numbers and nothing else. */
static bool read_extents(lua_State *L, cel__given *g) {
  for (; g->dims < CEL_DIMS; ++g->dims) {
    lua_rawgeti(L, CEL__REPLAY_RANGE, g->dims + 1);
    if (!read_bound(L, &g->range.max[g->dims])) break;
  }
  if (g->dims == 0) return false;
  lua_pushinteger(L, g->dims);
  bool more = lua_next(L, CEL__REPLAY_RANGE) != 0;
  if (more) lua_pop(L, 2);
  return !more;
}

/* One side of a box. */
static bool read_corner(lua_State *L, int field, int32_t dims, int64_t *out) {
  push_field(L, CEL__REPLAY_RANGE, field);
  bool fits = lua_istable(L, -1);
  for (int32_t d = 0; fits && d < dims; ++d) {
    lua_rawgeti(L, -1, d);
    fits = read_bound(L, &out[d]);
  }
  lua_pop(L, 1);
  return fits;
}

/* The metatable is on the stack. */
static bool read_box(lua_State *L, cel__given *g) {
  int64_t dims;
  bool is = lua_rawequal(L, -1, lua_upvalueindex(BOX)) ||
            lua_rawequal(L, -1, lua_upvalueindex(CHUNK));
  lua_pop(L, 1);
  if (!is) return false;
  push_field(L, CEL__REPLAY_RANGE, DIMS);
  if (!read_bound(L, &dims) || dims < 0 || dims > CEL_DIMS) return false;
  g->dims = (int32_t)dims;
  return read_corner(L, MIN, g->dims, g->range.min) &&
         read_corner(L, MAX, g->dims, g->range.max);
}

/* A range with items, and not too many. */
static bool read_range(lua_State *L, cel__given *g) {
  g->range = cel_box_sized(1, 1, 1);
  bool fits = false;
  if (lua_type(L, CEL__REPLAY_RANGE) == LUA_TNUMBER) {
    g->dims = 1;
    lua_pushvalue(L, CEL__REPLAY_RANGE);
    fits = read_bound(L, &g->range.max[0]);
  } else if (lua_istable(L, CEL__REPLAY_RANGE)) {
    fits = lua_getmetatable(L, CEL__REPLAY_RANGE) ? read_box(L, g)
                                                  : read_extents(L, g);
  }
  double items = 1;
  for (int d = 0; fits && d < g->dims; ++d) {
    fits = g->range.max[d] > g->range.min[d];
    items *= (double)(g->range.max[d] - g->range.min[d]);
  }
  return fits && g->dims > 0 && items <= most;
}

/* Leaves the mapper on the stack. */
static bool read_access(lua_State *L, int index, cel__given_access *a) {
  int top = lua_gettop(L);
  lua_rawgeti(L, index, CEL__ACCESS_SPELT);
  a->mode = lua_tostring(L, -1);
  lua_rawgeti(L, index, CEL__ACCESS_HANDLE);
  bool is = lua_getmetatable(L, -1) &&
            lua_rawequal(L, -1, lua_upvalueindex(HANDLE_TYPE));
  a->buffer = is ? cel__buffer_of(L, lua_touserdata(L, top + 2)) : NULL;
  lua_settop(L, top);
  lua_rawgeti(L, index, CEL__ACCESS_MAP);
  a->map = top + 1;
  return a->buffer != NULL && lua_isfunction(L, -1);
}

/* Accesses that the group has declared, each of which is to be an argument.
 * They and their mappers are on the stack then, behind `last`. */
static bool read_arguments(lua_State *L, int last, cel__given *g) {
  const void *declared[CEL__PLAN_ACCESSES];
  uint32_t n = 0, taken = 0;
  push_field(L, CEL__REPLAY_GROUP, COUNT);
  lua_Number count = lua_tonumber(L, -1);
  if (!(count >= 0 && count <= CEL__PLAN_ACCESSES)) return false;
  for (; n < (uint32_t)count; ++n) {
    lua_rawgeti(L, CEL__REPLAY_GROUP, (int)n + 1);
    if (!lua_istable(L, -1)) return false;
    declared[n] = lua_topointer(L, -1);
  }
  int first = last + 2;
  for (int index = CEL__REPLAY_FIRST; index <= last; ++index) {
    if (g->arguments == CEL__PLAN_ARGUMENTS) return false;
    if (lua_istable(L, index)) {
      const void *table = lua_topointer(L, index);
      uint32_t k = 0;
      while (k < n && declared[k] != table) ++k;
      if (k == n || (taken >> k & 1) != 0) return false;
      taken |= UINT32_C(1) << k;
      g->is_access |= UINT32_C(1) << g->arguments;
      if (!read_access(L, first + (int)k, &g->access[g->accesses++]))
        return false;
    } else {
      g->value[g->values++] = index;
    }
    g->arguments++;
  }
  return g->accesses == n;
}

/* ---- comparing ----------------------------------------------------------- */

/* Pushes what is seen now. `base`: where the first variable is on the stack. */
static void push_seen(lua_State *L, const cel__plan_variable *v, int map,
                      int base, int kept) {
  int owner = v->owner == 0 ? map : base + v->owner - 1;
  if (v->library != 0) {
    lua_rawgeti(L, kept, v->library);
    lua_rawgeti(L, kept, v->name);
    lua_rawget(L, -2);
    lua_replace(L, -2);
    return;
  }
  if (v->name == 0) {
    if (lua_getupvalue(L, owner, v->index) == NULL) lua_pushnil(L);
    return;
  }
  lua_getfenv(L, owner);
  lua_rawgeti(L, kept, v->name);
  lua_gettable(L, -2);
  lua_replace(L, -2);
}

/* Whether the value on top is what a variable was. */
static bool is_unchanged(lua_State *L, const cel__plan_variable *v, int kept) {
  if (v->code != NULL && lua_isfunction(L, -1) &&
      cel__code_of(L, -1) == v->code)
    return true;
  lua_rawgeti(L, kept, v->value);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 1);
  return same;
}

/* Whether a mapper sees what it saw, but for numbers, which it puts where the
 * rule's are. */
static bool sees_the_same(lua_State *L, const cel__group_plan *p,
                          const cel__planned_access *m, int map, int kept,
                          int64_t *param) {
  int base = lua_gettop(L) + 1;
  bool same = true;
  for (int i = 0; same && i < m->variables; ++i) {
    const cel__plan_variable *v = &p->variables[m->first + i];
    push_seen(L, v, map, base, kept);
    if (v->same != CEL__PLAN_NONE)
      same = lua_rawequal(L, -1, v->same == 0 ? map : base + v->same - 1);
    else if (v->param != 0)
      same = cel__is_whole(L, -1, &param[m->param + v->param - 1]);
    else
      same = is_unchanged(L, v, kept);
  }
  lua_settop(L, base - 1);
  return same;
}

static bool is_like(lua_State *L, const cel__group_plan *p, cel__given *g,
                    int kept) {
  if (p->dims != g->dims || p->arguments != g->arguments ||
      p->is_access != g->is_access)
    return false;
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const cel__planned_access *m = &p->access[i];
    const cel__given_access *a = &g->access[i];
    if (m->mode != a->mode || m->type != a->buffer->type ||
        m->dims != a->buffer->dims ||
        !cel_box_equal(&m->extent, &a->buffer->extent) ||
        m->code !=
            (m->exact ? lua_topointer(L, a->map) : cel__code_of(L, a->map)))
      return false;
  }
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const cel__planned_access *m = &p->access[i];
    if (m->variables > 0 &&
        !sees_the_same(L, p, m, g->access[i].map, kept, g->param))
      return false;
  }
  return true;
}

/* ---- numbers and ranges that have changed -------------------------------- */

/* Asks the mapper of an access whether its rule holds for them. */
static bool asks(lua_State *L, const cel__planned_access *m,
                 const cel__given *g, int map, int kept) {
  lua_rawgeti(L, kept, m->check);
  lua_pushvalue(L, map);
  lua_createtable(L, m->rule->desc.params, 0);
  for (int k = 0; k < m->rule->desc.params; ++k) {
    lua_pushnumber(L, (lua_Number)g->param[m->param + k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_pushinteger(L, g->dims);
  for (int d = 0; d < CEL_DIMS; ++d)
    lua_pushnumber(L, (lua_Number)g->range.min[d]);
  for (int d = 0; d < CEL_DIMS; ++d)
    lua_pushnumber(L, (lua_Number)g->range.max[d]);
  lua_call(L, 3 + CEL__PLAN_BOUNDS, 1);
  bool holds = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return holds;
}

static bool is_set(const int64_t *set, const cel__planned_access *m,
                   const cel__given *g) {
  size_t numbers = (size_t)(m->words - CEL__PLAN_BOUNDS) * sizeof *set;
  return memcmp(set, &g->range, CEL__PLAN_BOUNDS * sizeof *set) == 0 &&
         memcmp(set + CEL__PLAN_BOUNDS, &g->param[m->param], numbers) == 0;
}

/* Whether the rule of an access holds for the range and for the numbers that
 * its mapper captured now. A loop may go through a few sets of them. */
static bool holds(lua_State *L, cel__group_plan *p, cel__planned_access *m,
                  const cel__given *g, int map, int kept) {
  if (m->check == 0) return true;
  for (uint16_t k = 0; k < m->known; ++k) {
    uint16_t at = (uint16_t)((m->latest + k) % m->known);
    if (!is_set(&p->seen[at][m->word], m, g)) continue;
    m->latest = at;
    return true;
  }
  if (!asks(L, m, g, map, kept)) return false;
  m->latest = m->known < CEL__PLAN_KNOWN
                  ? m->known++
                  : (uint16_t)((m->latest + 1) % CEL__PLAN_KNOWN);
  int64_t *set = &p->seen[m->latest][m->word];
  memcpy(set, &g->range, CEL__PLAN_BOUNDS * sizeof *set);
  memcpy(set + CEL__PLAN_BOUNDS, &g->param[m->param],
         (size_t)(m->words - CEL__PLAN_BOUNDS) * sizeof *set);
  return true;
}

static bool follows(lua_State *L, cel__group_plan *p, const cel__given *g,
                    int kept) {
  for (uint32_t i = 0; i < p->accesses; ++i)
    if (!holds(L, p, &p->access[i], g, g->access[i].map, kept)) return false;
  return true;
}

/* ---- values -------------------------------------------------------------- */

/* The next value that is given, at `out`; false where it does not fit. */
static bool pack_given(lua_State *L, const cel__given *g, uint32_t next,
                       const cel_param *param, unsigned char *out) {
  if (next == g->values ||
      !cel__value_fits(L, g->value[next], param->class_, param->size))
    return false;
  lua_pushvalue(L, g->value[next]);
  cel__pack_value(L, param, out);
  lua_pop(L, 1);
  return true;
}

/* Packs the values that `g` says where to find on the stack; false where one
 * does not fit, or there are too many or too few. */
static bool pack(lua_State *L, const cel__group_plan *p, const cel__given *g,
                 cel__packed_values *out) {
  const cel_param *param;
  int32_t n = cel_module_params(p->module, p->kernel, &param);
  uint32_t next = 0, at = 0, views = 0;
  for (int32_t i = 0; i < n; ++i) {
    views += cel__param_is_view(&param[i]);
    if (param[i].kind != CEL_PARAM_VALUE) continue;
    uint32_t align = (uint32_t)param[i].align, size = (uint32_t)param[i].size;
    uint32_t start = (at + align - 1) & ~(align - 1);
    if (start + size > CEL__PLAN_VALUES) return false;
    memset(out->bytes + at, 0, start - at);
    at = start + size;
    if (param[i].dims != 0) { /* of the view before it */
      memcpy(out->bytes + start, p->access[views - 1].edge, size);
      continue;
    }
    if (!pack_given(L, g, next++, &param[i], out->bytes + start)) return false;
  }
  out->size = at;
  return next == g->values;
}

/* ---- submitting ---------------------------------------------------------- */

static int submit_by_plan(lua_State *L, cel__group_plan *p, const cel__given *g,
                          const cel__packed_values *values) {
  enum { ABOVE = 2 }; /* Group:parallel_for, which calls replay */
  cel_access access[CEL__PLAN_ACCESSES];
  cel_home home;
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const cel__planned_access *m = &p->access[i];
    access[i] = (cel_access){.buffer = g->access[i].buffer,
                             .mode = cel__mode_of(m->as),
                             .disjoint = m->as == CEL__READ_DISJOINT,
                             .use = {.rule = m->rule,
                                     .params = g->param + m->param,
                                     .range = g->range,
                                     .extent = m->extent},
                             .late = m->late,
                             .late_at = m->late_at};
  }
  cel_group group = {.kind = CEL_TASK_KERNEL,
                     .known = &p->task,
                     .name = lua_tostring(L, CEL__REPLAY_LABEL),
                     .location = cel__user_location_from(L, ABOVE),
                     .dims = p->dims,
                     .range = g->range,
                     .accesses = p->accesses,
                     .access = access};
  cel_advice_submitted(L, group.location);
  cel__read_division(L, CEL__REPLAY_DIVISION, &group, &home);
  const cel_suits suits = cel__suits(p->module, &group, 0);
  if (cel_module_suit(p->module, p->kernel, &suits) != CEL_E_OK)
    return cel__push_module_failure(L);
  cel_work *work =
      cel_module_work(p->module, p->kernel, values->bytes, values->size);
  cel_module_walk(work, access, p->accesses);
  cel_module_sample(p->module, p->kernel, work, access, p->accesses,
                    group.fold);
  return cel__submit(L, &group, work);
}

/* The first plan that the group is like, and that follows it; on the stack,
 * with its table behind it. */
static cel__group_plan *find(lua_State *L, cel__given *g) {
  int top = lua_gettop(L);
  for (int i = 1;; ++i) {
    lua_rawgeti(L, CEL__REPLAY_PLANS, i);
    cel__group_plan *p = lua_touserdata(L, -1);
    if (p == NULL) return NULL;
    lua_getfenv(L, -1);
    if (is_like(L, p, g, lua_gettop(L)) && follows(L, p, g, lua_gettop(L)))
      return p;
    lua_settop(L, top);
  }
}

/* The plan for the group on the stack, which `g` describes then; null where
 * none is for it. It is left on the stack, with its table behind it. */
static cel__group_plan *match(lua_State *L, cel__given *g) {
  g->dims = 0;
  g->arguments = g->accesses = g->values = 0;
  g->is_access = 0;
  luaL_checkstack(L, 2 * CEL__PLAN_ACCESSES + CEL__PLAN_VARIABLES + 16, NULL);
  bool reads = read_range(L, g) && read_arguments(L, lua_gettop(L), g);
  return reads ? find(L, g) : NULL;
}

/* replay(plans, label, division, handles, group, range, ...) -> false where no
 * plan is for it: nothing has been done then; else as submit_kernel. That the
 * group is a group, has no work yet and no effects, and that plans are of its
 * kernel is checked in group.lua. Label, division and handles: as
 * submit_kernel's. */
static int replay(lua_State *L) {
  cel__packed_values values;
  cel__given g;
  cel__group_plan *p = match(L, &g);
  if (p != NULL && pack(L, p, &g, &values))
    return submit_by_plan(L, p, &g, &values);
  lua_pushboolean(L, 0);
  return 1;
}

/* replay_with(metatable of boxes, of chunks) -> replay */
static int replay_with(lua_State *L) {
  static const char *const fields[] = {"n", "dims", "min", "max"};
  lua_settop(L, 2);
  cel__push_buffer_type(L);
  for (int i = 0; i < (int)(sizeof fields / sizeof *fields); ++i)
    lua_pushstring(L, fields[i]);
  lua_pushcclosure(L, replay, MAX);
  return 1;
}

const luaL_Reg cel__core_replay[] = {
    {"plan", plan_new},
    {"replay_with", replay_with},
    {NULL, NULL},
};
