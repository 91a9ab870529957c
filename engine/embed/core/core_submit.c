/* Rules and command groups for Lua. */
#include <string.h>

#include "base/hash.h"
#include "embed/advice.h"
#include "embed/core/core.h"
#include "embed/core/core_form.h"
#include "embed/core/core_kernel.h"
#include "embed/core/core_submit.h"
#include "fold/shape.h"

static const char rule_type[] = "celer.core.rule";

/* What Lua holds is an address of the rule: celer.rule reads it by FFI. */
typedef struct rule_handle {
  const cel_rule *rule;
  cel_late *late; /* null; or what an access by it is late by: a reference */
  int64_t late_at;
} rule_handle;

const cel_rule *cel__check_rule(lua_State *L, int index) {
  return ((rule_handle *)luaL_checkudata(L, index, rule_type))->rule;
}

cel_late *cel__check_late(lua_State *L, int index, int64_t *at) {
  const rule_handle *h = luaL_checkudata(L, index, rule_type);
  *at = h->late_at;
  return h->late;
}

static int rule_collect(lua_State *L) {
  rule_handle *h = luaL_checkudata(L, 1, rule_type);
  if (h->rule != NULL && cel__session_of(L)->engine != NULL)
    cel_rule_release(h->rule);
  cel_late_release(h->late);
  *h = (rule_handle){0};
  return 0;
}

const cel_rule **cel__new_rule(lua_State *L) {
  rule_handle *h = cel__new_handle(L, sizeof *h, rule_type, rule_collect);
  return &h->rule;
}

/* late(rule, fence, word) -> the same rule, by which an access is late: the
 * words that the fence brings say from there on, counted from 0, what it
 * touches (task/late.h) */
static int rule_late(lua_State *L) {
  const cel_rule *rule = cel__check_rule(L, 1);
  cel_late *late = cel_fence_late(cel__check_fence(L, 2));
  rule_handle *h = (rule_handle *)(void *)cel__new_rule(L);
  *h = (rule_handle){rule, cel_late_retain(late), luaL_checkinteger(L, 3)};
  cel_rule_retain(rule);
  return 1;
}

/* rule(task_dims, buffer_dims, boxes, params, clamp, each, spans, code) -> rule
 * clamp: a boolean per box; each: as of cel_rule_box; spans: start and length
 * of each program, in order of box, dimension, lower then upper; code: the
 * words. Arrays of numbers. */
static int rule_intern(lua_State *L) {
  cel_rule_desc desc = {
      .task_dims = (int32_t)luaL_checkinteger(L, 1),
      .buffer_dims = (int32_t)luaL_checkinteger(L, 2),
      .boxes = (int32_t)luaL_checkinteger(L, 3),
      .params = (int32_t)luaL_checkinteger(L, 4),
  };
  luaL_argcheck(L, desc.boxes >= 0 && desc.boxes <= CEL_RULE_BOXES, 3,
                "too many boxes");
  luaL_argcheck(L, desc.buffer_dims >= 0 && desc.buffer_dims <= CEL_DIMS, 2,
                "0 to 3 dimensions");
  desc.code_length = (int32_t)lua_objlen(L, 8);
  int64_t *code = lua_newuserdata(L, (size_t)desc.code_length * 8 + 8);
  for (int32_t i = 0; i < desc.code_length; ++i) {
    lua_rawgeti(L, 8, i + 1);
    code[i] = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  desc.code = code;
  int at = 1;
  cel_rule_box box[CEL_RULE_BOXES];
  desc.box = box;
  for (int32_t b = 0; b < desc.boxes; ++b) {
    lua_rawgeti(L, 5, b + 1);
    box[b].clamp = lua_toboolean(L, -1);
    lua_rawgeti(L, 6, b + 1);
    box[b].each = (int32_t)lua_tointeger(L, -1);
    lua_pop(L, 2);
    for (int32_t j = 0; j < desc.buffer_dims; ++j) {
      for (int side = 0; side < 2; ++side) {
        lua_rawgeti(L, 7, at++);
        lua_rawgeti(L, 7, at++);
        box[b].start[j][side] = (int32_t)lua_tointeger(L, -2);
        box[b].length[j][side] = (int32_t)lua_tointeger(L, -1);
        lua_pop(L, 2);
      }
    }
  }
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  const cel_rule **h = cel__new_rule(L);
  if (cel_rules_intern(cel_engine_rules(engine), &desc, h) != CEL_E_OK)
    return cel__push_failure(L);
  return 1;
}

static int64_t read_number(lua_State *L, int index, int at) {
  lua_rawgeti(L, index, at);
  int64_t number = (int64_t)luaL_checknumber(L, -1);
  lua_pop(L, 1);
  return number;
}

void cel__read_accesses(lua_State *L, int index, const cel_box *range,
                        cel__access_list *out) {
  out->n = out->used = 0;
  for (int i = 1;;) {
    lua_rawgeti(L, index, i++);
    if (lua_isnoneornil(L, -1) ||
        (lua_isboolean(L, -1) && !lua_toboolean(L, -1)))
      break;
    if (out->n == CEL__ACCESSES)
      luaL_error(L, "more than %d accesses", CEL__ACCESSES);
    const char **identity = &out->identity[out->n];
    cel_access *a = &out->access[out->n++];
    lua_rawgeti(L, index, i++);
    lua_rawgeti(L, index, i++);
    const cel_buffer *buffer = cel__check_buffer(L, -3);
    int mode = (int)lua_tointeger(L, -2);
    *a = (cel_access){.buffer = buffer,
                      .mode = cel__mode_of(mode),
                      .disjoint = mode == CEL__READ_DISJOINT,
                      .use = {.params = out->params + out->used,
                              .range = *range,
                              .extent = buffer->extent}};
    *identity = lua_tostring(L, -1);
    if (*identity == NULL) {
      a->use.rule = cel__check_rule(L, -1);
      a->late = cel__check_late(L, -1, &a->late_at);
    } else if (lua_objlen(L, -1) != buffer->element_size) {
      luaL_error(L, "an identity has the size of an element");
    }
    lua_pop(L, 3);
    if (*identity != NULL) {
      out->op[out->n - 1] = (cel_op)read_number(L, index, i++);
      continue;
    }
    for (int32_t p = 0; p < a->use.rule->desc.params; ++p) {
      if (out->used == CEL__PARAMETERS)
        luaL_error(L, "too many captured numbers");
      lua_rawgeti(L, index, i++);
      out->params[out->used++] = (int64_t)lua_tonumber(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* A struct of FFI, whose type is none that lua.h names. */
static const void *check_struct(lua_State *L, int index, const char *what) {
  luaL_argcheck(L, lua_type(L, index) > LUA_TTHREAD, index, what);
  return lua_topointer(L, index);
}

_Static_assert(CEL_DIMS == 3, "core_group.h says the same");

void cel__read_range(lua_State *L, int index, cel_group *group) {
  const cel_lua_range *given = check_struct(L, index, "cel_lua_range");
  group->dims = given->dims;
  group->range = (cel_box){.min = {given->min0, given->min1, given->min2},
                           .max = {given->max0, given->max1, given->max2}};
}

/* The table keeps what is in it. */
static void read_handles(lua_State *L, int index, cel_group *group,
                         cel_home *home) {
  lua_rawgeti(L, index, 1);
  if (!lua_isnil(L, -1)) group->weights = cel__check_weights(L, -1);
  lua_rawgeti(L, index, 2);
  if (!lua_isnil(L, -1)) home->buffer = cel__check_buffer(L, -1);
  lua_pop(L, 2);
}

const cel_lua_division *cel__read_division(lua_State *L, int index,
                                           cel_group *group, cel_home *home) {
  const cel_lua_division *given = check_struct(L, index, "cel_lua_division");
  group->placement = (cel_placement)given->placement;
  int32_t cuts = given->cuts;
  group->permitted =
      (cel_split_kind){.cut = {cuts > 0, cuts > 1, cuts > 2},
                       .granularity = {given->granularity0, given->granularity1,
                                       given->granularity2}};
  group->oversubscribe = given->runs < CEL__RUNS ? given->runs : CEL__RUNS;
  group->fold = given->fold;
  *home = (cel_home){.rank = given->rank};
  if (lua_istable(L, index + 1)) read_handles(L, index + 1, group, home);
  if (!given->home) return given;
  memcpy(home->box.min, given->min, sizeof given->min);
  memcpy(home->box.max, given->max, sizeof given->max);
  group->home = home;
  return given;
}

/* The arguments that all kinds of group begin with:
 *   1 a cel_lua_range  2 a cel_lua_division  3 nil | handles, as of
 *   cel__read_division  4 accesses  5 name | nil */
static const cel_lua_division *read_group(lua_State *L, cel_group *group,
                                          cel__access_list *list,
                                          cel_home *home) {
  cel__read_range(L, 1, group);
  group->name = luaL_optstring(L, 5, NULL);
  group->location = cel__user_location(L);
  cel_advice_submitted(L, group->location);
  const cel_lua_division *division = cel__read_division(L, 2, group, home);
  cel__read_accesses(L, 4, &group->range, list);
  group->accesses = list->n;
  group->access = list->access;
  return division;
}

int cel__submit(lua_State *L, cel_group *group, cel_work *work) {
  group->work = work;
  cel_engine *engine; /* the first thing of all may be a task */
  cel_status status = cel__core_engine(L, &engine);
  if (status == CEL_E_OK) status = cel_engine_submit(engine, group);
  cel_work_release(work); /* the graph holds its own reference */
  if (status != CEL_E_OK) return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* Whether a row or plane of a buffer takes a stride that an int cannot hold. */
static bool is_wide(const cel_group *group) {
  bool wide = false;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_box *extent = &group->access[i].buffer->extent;
    int64_t row = extent->max[2] - extent->min[2];
    int64_t rows = extent->max[1] - extent->min[1];
    wide = wide || (row > 0 && rows > INT32_MAX / row) ||
           extent->max[0] - extent->min[0] > INT32_MAX;
  }
  return wide;
}

static bool is_beyond(const cel_group *group) {
  bool beyond = false;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_buffer *buffer = group->access[i].buffer;
    for (int32_t d = 0; d < group->dims && buffer->dims == group->dims; ++d)
      beyond = beyond || group->range.max[d] > buffer->extent.max[d];
  }
  return beyond;
}

cel_suits cel__suits(const cel_module *module, const cel_group *group,
                     int32_t items) {
  return (cel_suits){
      .row = group->range.max[group->dims > 0 ? group->dims - 1 : 0],
      .wide = is_wide(group),
      .beyond = is_beyond(group),
      .folds = cel_module_contracts_by_shape(module) &&
               cel_fold_has_shape(group->access, group->accesses),
      .items = items};
}

/* The accesses of a kernel come in the order of its views. */
cel_work *cel__kernel_work(const cel__kernel_call *call, cel_access *access,
                           uint32_t accesses, int32_t fold) {
  cel_work *work =
      cel_module_work(call->module, call->kernel, call->values, call->size);
  memcpy(work->work_group, call->group, sizeof work->work_group);
  if (call->group[0] > 0)
    work->hash = cel_hash(call->group, sizeof work->work_group, work->hash);
  for (uint32_t i = 0; i < accesses; ++i) {
    if (call->identity[i] != NULL)
      access[i].reducer =
          cel_module_reduce(work, (int32_t)i, &access[i].buffer->extent,
                            call->identity[i], call->op[i]);
  }
  cel_module_walk(work, access, accesses);
  cel_module_sample(call->module, call->kernel, work, access, accesses, fold);
  return work;
}

int32_t cel__items_of(const cel_lua_division *division) {
  const int32_t *shape = division->group;
  return shape[0] * shape[1] * shape[2];
}

/* ... 6 module  7 kernel, from 0  8 values */
static int submit_kernel(lua_State *L) {
  cel__access_list list;
  cel_home home;
  _Alignas(16) unsigned char values[CEL__VALUES];
  cel_group group = {.kind = CEL_TASK_KERNEL};
  const cel_lua_division *division = read_group(L, &group, &list, &home);
  cel__kernel_call call = {.module = cel__check_module(L, 6),
                           .kernel = (int32_t)luaL_checkinteger(L, 7),
                           .group = division->group,
                           .values = values,
                           .identity = list.identity,
                           .op = list.op};
  call.size =
      cel__pack_values(L, 8, call.module, call.kernel, values, CEL__VALUES);
  const cel_suits suits =
      cel__suits(call.module, &group, cel__items_of(division));
  if (cel_module_suit(call.module, call.kernel, &suits) != CEL_E_OK)
    return cel__push_module_failure(L);
  return cel__submit(L, &group,
                     cel__kernel_work(&call, list.access, list.n, group.fold));
}

/* Effects off a Lua array: object and order, object and order... */
static void read_effects(lua_State *L, int index, cel_effect *out,
                         uint32_t *n) {
  *n = lua_istable(L, index) ? (uint32_t)lua_objlen(L, index) / 2 : 0;
  if (*n > CEL__EFFECTS)
    luaL_error(L, "more than %d side effects", CEL__EFFECTS);
  for (uint32_t i = 0; i < *n; ++i) {
    lua_rawgeti(L, index, (int)(2 * i) + 1);
    lua_rawgeti(L, index, (int)(2 * i) + 2);
    out[i].object = cel__check_object(L, -2);
    out[i].order = (cel_order)lua_tointeger(L, -1);
    lua_pop(L, 2);
  }
}

/* ... 6 a form  7 its packed values (core_form.h)
 * 8 effects | nil  9 whether it must run where Lua objects live */
static int submit_lua(lua_State *L, cel_task_kind kind) {
  cel_effect effects[CEL__EFFECTS];
  cel__access_list list;
  cel_home home;
  cel_group group = {.kind = kind};
  group.collective_group = read_group(L, &group, &list, &home)->collective;
  size_t size;
  cel_form *form = cel__check_form(L, 6);
  const char *values = luaL_checklstring(L, 7, &size);
  read_effects(L, 8, effects, &group.effects);
  group.effect = effects;
  cel_work *work = cel__lua_work(form, values, size);
  work->objects = lua_toboolean(L, 9);
  work->marks = kind == CEL_TASK_HOST;
  return cel__submit(L, &group, work);
}

static int submit_host(lua_State *L) {
  return submit_lua(L, CEL_TASK_HOST);
}

/* submit_recalled(forms by code, key, division, handles, name, function,
 * arguments...) -> false where no form is for it: nothing has been done then;
 * else as submit_host, of a task without a range, accesses and effects */
static int submit_recalled(lua_State *L) {
  enum { FORMS = 1, KEY, DIVISION, HANDLES, LABEL, TASK };
  enum { ABOVE = 3 }; /* group.lua, which calls this by form.lua */
  cel_home home;
  const char *values;
  size_t size;
  cel_form *form = cel__find_form(L, FORMS, KEY, TASK, &values, &size);
  if (form == NULL) {
    lua_pushboolean(L, 0);
    return 1;
  }
  cel_group group = {.kind = CEL_TASK_HOST,
                     .range = cel_box_sized(1, 1, 1),
                     .name = lua_tostring(L, LABEL),
                     .location = cel__user_location_from(L, ABOVE)};
  cel_advice_submitted(L, group.location);
  cel__read_division(L, DIVISION, &group, &home);
  cel_work *work = cel__lua_work(form, values, size);
  work->marks = true;
  return cel__submit(L, &group, work);
}

static int submit_interop(lua_State *L) {
  return submit_lua(L, CEL_TASK_KERNEL);
}

const luaL_Reg cel__core_submit[] = {
    {"rule", rule_intern},
    {"late", rule_late},
    {"submit_kernel", submit_kernel},
    {"submit_host", submit_host},
    {"submit_recalled", submit_recalled},
    {"submit_interop", submit_interop},
    {NULL, NULL},
};
