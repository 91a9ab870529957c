/* Command groups that are like one before, for Lua.
 *
 * A loop submits one kernel over one range in each step, with closures made
 * anew as range mappers. What such a group came to is a plan (replay.lua makes
 * it of what known.lua knows). A group that is like it but for buffers of the
 * same shape, numbers that mappers captured and values is submitted from here
 * without a look at Lua's tables of all that; whatever else differs, and
 * whatever is wrong, is left to the long way.
 *
 * Cost: about as much as the engine takes for the task. Nothing is allocated.
 */
#include <string.h>

#include "embed/advice.h"
#include "embed/code.h"
#include "embed/core/core_kernel.h"
#include "embed/core/core_submit.h"

/* At most; a group that has more has no plan. */
enum {
  ACCESSES = CEL__PLAN_ACCESSES,
  ARGUMENTS = CEL__PLAN_ARGUMENTS,
  VARIABLES = 32, /* that mappers captured, and globals */
  PARAMS = 16,    /* numbers of all mappers */
  KNOWN = 8,      /* sets of them for which the rules hold */
  VALUES = 1024
};

static const char plan_type[] = "celer.core.plan";

/* A variable that a mapper saw: its own, or of a function that it calls. Slots
 * are of the plan's table. */
typedef struct variable {
  uint16_t owner; /* slot of that function; 0: the mapper itself */
  uint16_t value; /* slot of what it was, but for numbers of the rule */
  uint16_t name;  /* slot of the name of a global; 0: it is captured */
  uint8_t index;  /* of what is captured */
  uint8_t param;  /* which number of the rule it is, from 1; 0: none */
} variable;

/* An access and its mapper. Pointers are to what the plan's table keeps. */
typedef struct planned_access {
  const char *mode; /* how it is spelt: a string of Lua's, */
  int32_t as;       /* and as core_submit.h has it */
  const void *type; /* of the buffer's elements */
  int32_t dims;     /* of the buffer; extents do not tell {n} from {n, 1} */
  cel_box extent;
  const void *code; /* the mapper's; the mapper where it is always the same */
  bool exact;
  uint8_t first, variables; /* in plan.variables */
  uint8_t param;            /* the first in plan.param */
  uint16_t check; /* slot of what tells whether the rule holds for a number */
  const cel_rule *rule;
} planned_access;

typedef struct plan {
  int32_t dims;
  int64_t hi[CEL_DIMS];
  cel_module *module;
  int32_t kernel;
  uint32_t arguments, accesses, params;
  uint32_t is_access; /* bits, by argument */
  uint16_t slots;     /* of its table that are taken */
  planned_access access[ACCESSES];
  variable variables[VARIABLES];
  uint32_t known, next; /* sets that are known; how many were forgotten */
  int64_t param[KNOWN][PARAMS];
} plan;

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
static uint16_t keep(lua_State *L, int kept, plan *p) {
  lua_rawseti(L, kept, ++p->slots);
  return p->slots;
}

/* The same for a field; false and nil are slot 0. */
static uint16_t keep_field(lua_State *L, int index, const char *key, int kept,
                           plan *p) {
  lua_getfield(L, index, key);
  if (lua_toboolean(L, -1)) return keep(L, kept, p);
  lua_pop(L, 1);
  return 0;
}

static uint16_t keep_value(lua_State *L, int index, int kept, plan *p) {
  lua_getfield(L, index, "value");
  return keep(L, kept, p); /* nil and false, too */
}

/* Variables of the mapper described at `index`, an array of tables {owner =,
 * value =, name = | index =, param = | nil}. False where there are too many. */
static bool read_variables(lua_State *L, int index, int kept, plan *p,
                           planned_access *m) {
  lua_getfield(L, index, "variables");
  int list = lua_gettop(L), n = (int)lua_objlen(L, list);
  bool fits = m->first + n <= VARIABLES;
  for (int i = 1; fits && i <= n; ++i) {
    lua_rawgeti(L, list, i);
    int at = lua_gettop(L);
    p->variables[m->first + m->variables++] =
        (variable){.owner = keep_field(L, at, "owner", kept, p),
                   .value = keep_value(L, at, kept, p),
                   .name = keep_field(L, at, "name", kept, p),
                   .index = (uint8_t)field_number(L, at, "index"),
                   .param = (uint8_t)field_number(L, at, "param")};
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return fits;
}

static bool read_params(lua_State *L, int index, plan *p, planned_access *m) {
  lua_getfield(L, index, "params");
  uint32_t n = (uint32_t)m->rule->desc.params;
  bool fits = p->params + n <= PARAMS;
  m->param = (uint8_t)p->params;
  for (uint32_t i = 0; fits && i < n; ++i) {
    lua_rawgeti(L, -1, (int)i + 1);
    p->param[0][p->params++] = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return fits;
}

/* Of the table at `index`: see replay.lua. */
static bool read_planned(lua_State *L, int index, int kept, plan *p) {
  if (p->accesses == ACCESSES) return false;
  planned_access *m = &p->access[p->accesses++];
  if (p->accesses > 1) m->first = (uint8_t)(m[-1].first + m[-1].variables);
  m->as = (int32_t)field_number(L, index, "as");
  m->exact = field_is_true(L, index, "exact");
  lua_getfield(L, index, "mode");
  m->mode = luaL_checkstring(L, -1);
  lua_getfield(L, index, "type");
  m->type = lua_topointer(L, -1);
  lua_getfield(L, index, "map");
  m->code = m->exact ? lua_topointer(L, -1) : cel__code_of(L, -1);
  lua_getfield(L, index, "rule");
  m->rule = cel__check_rule(L, -1);
  lua_getfield(L, index, "handle");
  const cel_buffer *buffer = cel__check_buffer(L, -1);
  m->dims = buffer->dims;
  m->extent = buffer->extent;
  lua_pop(L, 5);
  lua_pushnil(L); /* a plan keeps no buffer alive */
  lua_setfield(L, index, "handle");
  m->check = keep_field(L, index, "check", kept, p);
  return m->code != NULL && read_variables(L, index, kept, p, m) &&
         read_params(L, index, p, m);
}

/* plan(dims, extents..., module, kernel from 0, arguments) -> plan | nil
 * arguments: false for a value, for an access what replay.lua says of it. */
static int plan_new(lua_State *L) {
  enum { GIVEN = 7 };
  plan *p = lua_newuserdata(L, sizeof *p);
  memset(p, 0, sizeof *p);
  p->dims = (int32_t)luaL_checkinteger(L, 1);
  for (int d = 0; d < CEL_DIMS; ++d)
    p->hi[d] = (int64_t)luaL_optnumber(L, 2 + d, 1);
  p->module = cel__check_module(L, 5);
  p->kernel = (int32_t)luaL_checkinteger(L, 6);
  p->arguments = (uint32_t)lua_objlen(L, GIVEN);
  lua_newtable(L);
  int kept = lua_gettop(L);
  lua_pushvalue(L, GIVEN); /* keeps all that pointers are to */
  keep(L, kept, p);
  bool fits = p->arguments <= ARGUMENTS;
  for (uint32_t i = 0; fits && i < p->arguments; ++i) {
    lua_rawgeti(L, GIVEN, (int)i + 1);
    if (lua_istable(L, -1)) {
      p->is_access |= UINT32_C(1) << i;
      fits = read_planned(L, lua_gettop(L), kept, p);
    }
    lua_settop(L, kept);
  }
  lua_setfenv(L, -2);
  p->known = 1;
  if (!fits) return 0;
  luaL_newmetatable(L, plan_type);
  lua_setmetatable(L, -2);
  return 1;
}

/* ---- the group at hand --------------------------------------------------- */

/* replay(plans, label, division, handles, group, range, ...) */
enum { PLANS = 1, LABEL, DIVISION, HANDLES, GROUP, RANGE, FIRST };
/* What its closure has. */
enum { CLASS = 1, HANDLE_TYPE, HANDLE, TYPE, COUNT };

typedef struct given_access {
  const void *table;
  const cel_buffer *buffer;
  const char *mode;
  const void *type;
  int map; /* where it is on the stack */
} given_access;

typedef struct given {
  int32_t dims;
  int64_t hi[CEL_DIMS];
  uint32_t arguments, accesses, values;
  given_access access[ACCESSES];
  int value[ARGUMENTS]; /* where it is on the stack */
  uint32_t is_access;   /* bits, by argument */
  int64_t param[PARAMS];
} given;

static bool read_extent(lua_State *L, int64_t *out) {
  if (lua_type(L, -1) != LUA_TNUMBER) return false;
  lua_Number n = lua_tonumber(L, -1);
  *out = (int64_t)n;
  return (lua_Number)*out == n;
}

/* A number, or an array of numbers and nothing else. */
static bool read_range(lua_State *L, given *g) {
  for (int d = 0; d < CEL_DIMS; ++d) g->hi[d] = 1;
  if (lua_type(L, RANGE) == LUA_TNUMBER) {
    lua_pushvalue(L, RANGE);
    g->dims = 1;
    bool fits = read_extent(L, &g->hi[0]);
    lua_pop(L, 1);
    return fits;
  }
  if (!lua_istable(L, RANGE) || lua_getmetatable(L, RANGE)) return false;
  for (; g->dims < CEL_DIMS; ++g->dims) {
    lua_rawgeti(L, RANGE, g->dims + 1);
    bool fits = read_extent(L, &g->hi[g->dims]);
    lua_pop(L, 1);
    if (!fits) break;
  }
  if (g->dims == 0) return false;
  lua_pushinteger(L, g->dims);
  bool more = lua_next(L, RANGE) != 0;
  if (more) lua_pop(L, 2);
  return !more;
}

/* The field of the table at `index` that an upvalue names, on the stack. */
static void push_field(lua_State *L, int index, int upvalue) {
  lua_pushvalue(L, lua_upvalueindex(upvalue));
  lua_rawget(L, index);
}

/* Of the buffer on top of the stack. */
static bool read_buffer(lua_State *L, given_access *a) {
  int buffer = lua_gettop(L);
  push_field(L, buffer, TYPE);
  a->type = lua_topointer(L, -1);
  push_field(L, buffer, HANDLE);
  bool is = lua_getmetatable(L, -1) &&
            lua_rawequal(L, -1, lua_upvalueindex(HANDLE_TYPE));
  a->buffer = is ? cel__buffer_of(L, lua_touserdata(L, buffer + 2)) : NULL;
  lua_settop(L, buffer - 1);
  return a->buffer != NULL;
}

/* Leaves the mapper on the stack. */
static bool read_access(lua_State *L, int index, given *g) {
  if (g->accesses == ACCESSES) return false;
  given_access *a = &g->access[g->accesses++];
  a->table = lua_topointer(L, index);
  for (uint32_t i = 0; i + 1 < g->accesses; ++i)
    if (g->access[i].table == a->table) return false;
  lua_rawgeti(L, index, CEL__ACCESS_OWNER);
  bool ours = lua_rawequal(L, -1, GROUP);
  lua_rawgeti(L, index, CEL__ACCESS_SPELT);
  a->mode = lua_tostring(L, -1);
  lua_pop(L, 2);
  lua_rawgeti(L, index, CEL__ACCESS_BUFFER);
  if (!ours || !lua_istable(L, -1) || !read_buffer(L, a)) return false;
  lua_rawgeti(L, index, CEL__ACCESS_MAP);
  a->map = lua_gettop(L);
  return lua_isfunction(L, -1);
}

static bool is_access(lua_State *L, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return false;
  bool is = lua_rawequal(L, -1, lua_upvalueindex(CLASS));
  lua_pop(L, 1);
  return is;
}

/* Mappers of accesses are on the stack then, behind `last`. */
static bool read_arguments(lua_State *L, int last, given *g) {
  for (int index = FIRST; index <= last; ++index) {
    if (g->arguments == ARGUMENTS) return false;
    if (is_access(L, index)) {
      g->is_access |= UINT32_C(1) << g->arguments;
      if (!read_access(L, index, g)) return false;
    } else {
      g->value[g->values++] = index;
    }
    g->arguments++;
  }
  push_field(L, GROUP, COUNT);
  bool all = lua_tonumber(L, -1) == (lua_Number)g->accesses;
  lua_pop(L, 1);
  return all;
}

/* ---- comparing ----------------------------------------------------------- */

/* Pushes what is seen now. */
static void push_seen(lua_State *L, const variable *v, int map, int kept) {
  int owner = map;
  if (v->owner != 0) {
    lua_rawgeti(L, kept, v->owner);
    owner = lua_gettop(L);
  }
  if (v->name == 0) {
    if (lua_getupvalue(L, owner, v->index) == NULL) lua_pushnil(L);
  } else {
    lua_getfenv(L, owner);
    lua_rawgeti(L, kept, v->name);
    lua_gettable(L, -2);
    lua_replace(L, -2);
  }
  if (v->owner != 0) lua_remove(L, owner);
}

/* Whether a mapper sees what it saw, but for numbers, which it puts where the
 * rule's are. */
static bool sees_the_same(lua_State *L, const plan *p, const planned_access *m,
                          int map, int kept, int64_t *param) {
  for (int i = 0; i < m->variables; ++i) {
    const variable *v = &p->variables[m->first + i];
    bool same;
    push_seen(L, v, map, kept);
    if (v->param != 0) {
      same = cel__is_whole(L, -1, &param[m->param + v->param - 1]);
    } else {
      lua_rawgeti(L, kept, v->value);
      same = lua_rawequal(L, -1, -2);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (!same) return false;
  }
  return true;
}

static bool is_like(lua_State *L, const plan *p, given *g, int kept) {
  if (p->dims != g->dims || p->arguments != g->arguments ||
      p->is_access != g->is_access || memcmp(p->hi, g->hi, sizeof p->hi) != 0)
    return false;
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const planned_access *m = &p->access[i];
    const given_access *a = &g->access[i];
    if (m->mode != a->mode || m->type != a->type ||
        m->dims != a->buffer->dims ||
        !cel_box_equal(&m->extent, &a->buffer->extent) ||
        m->code !=
            (m->exact ? lua_topointer(L, a->map) : cel__code_of(L, a->map)))
      return false;
  }
  memcpy(g->param, p->param[0], p->params * sizeof *g->param);
  for (uint32_t i = 0; i < p->accesses; ++i)
    if (!sees_the_same(L, p, &p->access[i], g->access[i].map, kept, g->param))
      return false;
  return true;
}

/* ---- numbers that have changed ------------------------------------------- */

/* Whether the rule of an access holds for them. */
static bool holds(lua_State *L, const planned_access *m, const given *g,
                  int map, int kept) {
  if (m->check == 0) return false;
  lua_rawgeti(L, kept, m->check);
  lua_pushvalue(L, map);
  lua_createtable(L, m->rule->desc.params, 0);
  for (int k = 0; k < m->rule->desc.params; ++k) {
    lua_pushnumber(L, (lua_Number)g->param[m->param + k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_call(L, 2, 1);
  bool holds = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return holds;
}

/* Whether an access has numbers that it has had before. */
static bool holds_as_known(const plan *p, const planned_access *m,
                           const given *g) {
  size_t size = (size_t)m->rule->desc.params * sizeof *g->param;
  for (uint32_t k = 0; k < p->known; ++k)
    if (memcmp(&p->param[k][m->param], &g->param[m->param], size) == 0)
      return true;
  return false;
}

/* Whether the rules hold for the numbers that mappers captured now. A loop may
 * go through a few sets of them. */
static bool follows(lua_State *L, plan *p, const given *g, int kept) {
  size_t size = p->params * sizeof *g->param;
  for (uint32_t k = 0; k < p->known; ++k)
    if (memcmp(p->param[k], g->param, size) == 0) return true;
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const planned_access *m = &p->access[i];
    if (!holds_as_known(p, m, g) && !holds(L, m, g, g->access[i].map, kept))
      return false;
  }
  uint32_t k = p->known < KNOWN ? p->known++ : 1 + p->next++ % (KNOWN - 1);
  memcpy(p->param[k], g->param, size);
  return true;
}

/* ---- values -------------------------------------------------------------- */

static bool pack(lua_State *L, const plan *p, const given *g,
                 unsigned char out[VALUES], uint32_t *size) {
  const cel_param *param;
  int32_t n = cel_module_params(p->module, p->kernel, &param);
  uint32_t next = 0, at = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (param[i].kind != CEL_PARAM_VALUE) continue;
    uint32_t align = (uint32_t)param[i].align;
    uint32_t start = (at + align - 1) & ~(align - 1);
    if (next == g->values || start + (uint32_t)param[i].size > VALUES ||
        !cel__value_fits(L, g->value[next], param[i].class_, param[i].size))
      return false;
    memset(out + at, 0, start - at);
    lua_pushvalue(L, g->value[next++]);
    cel__pack_value(L, &param[i], out + start);
    lua_pop(L, 1);
    at = start + (uint32_t)param[i].size;
  }
  *size = at;
  return next == g->values;
}

/* ---- submitting ---------------------------------------------------------- */

static int submit(lua_State *L, const plan *p, const given *g,
                  const void *values, uint32_t size) {
  cel_access access[ACCESSES];
  cel_box range = cel_box_sized(p->hi[0], p->hi[1], p->hi[2]);
  for (uint32_t i = 0; i < p->accesses; ++i) {
    const planned_access *m = &p->access[i];
    access[i] = (cel_access){.buffer = g->access[i].buffer,
                             .mode = cel__mode_of(m->as),
                             .disjoint = m->as == CEL__READ_DISJOINT,
                             .use = {.rule = m->rule,
                                     .params = g->param + m->param,
                                     .range = range,
                                     .extent = m->extent}};
  }
  cel_group group = {.kind = CEL_TASK_KERNEL,
                     .dims = p->dims,
                     .range = range,
                     .name = lua_tostring(L, LABEL),
                     .location = cel__user_location(L),
                     .accesses = p->accesses,
                     .access = access};
  cel_advice_submitted(L, group.location);
  cel_home home;
  cel__read_division(L, DIVISION, &group, &home);
  if (cel_module_suit(p->module, p->kernel, cel__is_wide(access, p->accesses),
                      0) != CEL_E_OK)
    return cel__push_module_failure(L);
  cel_work *work = cel_module_work(p->module, p->kernel, values, size);
  cel_module_sample(p->module, p->kernel, work, access, p->accesses);
  return cel__submit(L, &group, work);
}

/* The first plan that the group is like, and that follows it; on the stack,
 * with its table behind it. */
static plan *find(lua_State *L, given *g) {
  int top = lua_gettop(L);
  for (int i = 1;; ++i) {
    lua_rawgeti(L, PLANS, i);
    plan *p = lua_touserdata(L, -1);
    if (p == NULL) return NULL;
    lua_getfenv(L, -1);
    if (is_like(L, p, g, lua_gettop(L)) && follows(L, p, g, lua_gettop(L)))
      return p;
    lua_settop(L, top);
  }
}

/* replay(plans, label, division, handles, group, range, ...) -> false where no
 * plan is for it: nothing has been done then; else as submit_kernel. That the
 * group is a group, has no work yet and no effects, and that plans are of its
 * kernel is checked in group.lua. Label, division and handles: as
 * submit_kernel's. */
static int replay(lua_State *L) {
  _Alignas(16) unsigned char values[VALUES];
  given g;
  g.dims = 0;
  g.arguments = g.accesses = g.values = 0;
  g.is_access = 0;
  uint32_t size = 0;
  luaL_checkstack(L, ACCESSES + 16, NULL);
  plan *p = NULL;
  if (read_range(L, &g) && read_arguments(L, lua_gettop(L), &g))
    p = find(L, &g);
  if (p != NULL && pack(L, p, &g, values, &size))
    return submit(L, p, &g, values, size);
  lua_pushboolean(L, 0);
  return 1;
}

/* replay_with(the metatable of accesses) -> replay */
static int replay_with(lua_State *L) {
  static const char *const fields[] = {"handle", "type", "n"};
  lua_settop(L, 1);
  cel__push_buffer_type(L);
  for (int i = 0; i < (int)(sizeof fields / sizeof *fields); ++i)
    lua_pushstring(L, fields[i]);
  lua_pushcclosure(L, replay, lua_gettop(L));
  return 1;
}

const luaL_Reg cel__core_replay[] = {
    {"plan", plan_new},
    {"replay_with", replay_with},
    {NULL, NULL},
};
