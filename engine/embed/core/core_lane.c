/* Host tasks, interop tasks and initial contents written in Lua: the side of
 * the thread that runs them.
 *
 * A function travels as a blob that lua/celer/host/capture.lua encodes and
 * lua/celer/host/lane.lua decodes; that of a task in two parts, see
 * core_form.h. Thread: worker. */
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "embed/core/core.h"
#include "embed/core/core_form.h"
#include "task/touched.h"

typedef struct blob {
  int fd; /* owned; -1: none */
  size_t size;
  char data[];
} blob;

static blob *blob_new(const char *data, size_t size) {
  blob *b = cel_alloc(sizeof *b + size);
  b->fd = -1;
  b->size = size;
  memcpy(b->data, data, size);
  return b;
}

/* celer.host.lane, which the state's registry keeps; else what went wrong. */
static bool push_lane(lua_State *L) {
  static const char key[] = "celer.lane";
  lua_getfield(L, LUA_REGISTRYINDEX, key);
  if (!lua_isnil(L, -1)) return true;
  lua_settop(L, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "celer.host.lane");
  if (lua_pcall(L, 1, 1, 0) != 0) return false;
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, key);
  return true;
}

/* Calls function `name` of celer.host.lane with the blob and `n` light
 * userdata; leaves its result on the stack of *out if that is not null. */
static cel_status ask_lane(const blob *b, const char *name, int n,
                           const void *const *arguments, lua_State **out) {
  lua_State *L = cel_host_lane_state();
  if (L == NULL) return cel_fail(CEL_E_MEMORY, "no memory for a Lua state");
  lua_settop(L, 0);
  if (push_lane(L)) {
    lua_getfield(L, -1, name);
    lua_pushlstring(L, b->data, b->size);
    for (int i = 0; i < n; ++i) lua_pushlightuserdata(L, (void *)arguments[i]);
    if (cel__state_call(L, 1 + n, out != NULL ? 1 : 0)) {
      if (out != NULL) *out = L;
      return CEL_E_OK;
    }
  }
  return cel_fail(CEL_E_TASK, "%s", cel__state_text(L));
}

static cel_status call_lane(const blob *b, const char *name, int n,
                            const void *const *arguments) {
  return ask_lane(b, name, n, arguments, NULL);
}

/* A task's: a form, of which it holds a reference, and values. */
typedef struct lua_task {
  cel_form *form;
  size_t size;
  char values[];
} lua_task;

static void push_box(lua_State *L, const cel_box *box) {
  for (int d = 0; d < CEL_DIMS; ++d) lua_pushnumber(L, (lua_Number)box->min[d]);
  for (int d = 0; d < CEL_DIMS; ++d) lua_pushnumber(L, (lua_Number)box->max[d]);
}

/* The chunk, and the extents of the range. */
static int push_part(lua_State *L, const cel_call *call) {
  const cel_box *range = &call->range;
  push_box(L, &call->chunk);
  for (int d = 0; d < CEL_DIMS; ++d)
    lua_pushnumber(L, (lua_Number)(range->max[d] - range->min[d]));
  return 3 * CEL_DIMS;
}

/* As an array. */
static int push_values(lua_State *L, const lua_task *task) {
  int n = (int)task->form->values, at = lua_gettop(L) + 1;
  lua_createtable(L, n, 0);
  cel__push_values(L, task->values, task->size);
  for (int i = n; i > 0; --i) lua_rawseti(L, at, i);
  return 1;
}

/* Of the form on top: a function that is alone is the same one in each call.
 * Where it has set globals, or has got others, it gets new ones. */
static void renew_globals(lua_State *L) {
  enum { ALONE = 1, NOW, OPEN }; /* as lane.lua has them */
  int form = lua_gettop(L), alone = form + 1, now = form + 2, open = form + 4;
  lua_rawgeti(L, form, ALONE);
  if (lua_isnil(L, alone)) {
    lua_settop(L, form);
    return;
  }
  lua_getfenv(L, alone);
  lua_rawgeti(L, form, NOW);
  lua_rawgeti(L, form, OPEN);
  bool same = lua_rawequal(L, now, now + 1) && lua_getmetatable(L, now) != 0 &&
              lua_rawequal(L, -1, open);
  lua_settop(L, open);
  lua_pushnil(L);
  if (!same || lua_next(L, now) != 0) {
    lua_newtable(L);
    int made = lua_gettop(L);
    lua_pushvalue(L, open);
    lua_setmetatable(L, made);
    lua_pushvalue(L, made);
    lua_rawseti(L, form, NOW);
    lua_setfenv(L, alone);
  }
  lua_settop(L, form);
}

/* Pushes the arguments of celer.host.lane's `run`, which is below them; returns
 * how many there are. */
static int push_task(lua_State *L, const lua_task *task, const cel_call *call) {
  const cel_form *form = task->form;
  luaL_checkstack(L, (int)form->values + 24, NULL);
  lua_getfield(L, -2, "known");
  lua_pushnumber(L, (lua_Number)form->number);
  lua_pushvalue(L, -1);
  lua_rawget(L, -3);
  lua_remove(L, -3);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushlstring(L, form->text, form->size);
  } else {
    renew_globals(L);
  }
  lua_pushlightuserdata(L, (void *)(uintptr_t)call);
  int n = 3 + push_part(L, call) + cel__push_first_effect(L, call);
  return form->values > 0 ? n + push_values(L, task) : n;
}

static cel_status run_work(const cel_work *work, const cel_call *call) {
  lua_State *L = cel_host_lane_state();
  if (L == NULL) return cel_fail(CEL_E_MEMORY, "no memory for a Lua state");
  lua_settop(L, 0);
  if (push_lane(L)) {
    lua_getfield(L, -1, "run");
    if (cel__state_call(L, push_task(L, work->context, call), 0)) {
      fflush(stdout); /* what it has printed */
      return CEL_E_OK;
    }
  }
  return cel_fail(CEL_E_TASK, "%s", cel__state_text(L));
}

static void destroy_task(cel_work *work) {
  cel__form_release(((lua_task *)work->context)->form);
  cel_free(work->context);
  cel_free(work);
}

cel_work *cel__lua_work(cel_form *form, const char *values, size_t size) {
  cel_work *work = cel_alloc_zero(sizeof *work);
  lua_task *task = cel_alloc(sizeof *task + size);
  cel__form_retain(form);
  task->form = form;
  task->size = size;
  memcpy(task->values, values, size);
  *work = (cel_work){
      .references = 1,
      .fn = run_work,
      .destroy = destroy_task,
      .hash = cel_hash(values, size, form->hash),
      .lua = true,
      .context = task,
  };
  return work;
}

static void destroy_work(cel_work *work) {
  cel_free(work->context);
  cel_free(work);
}

/* The context is the encoded function. */
typedef struct release_work {
  cel_work work;
  const void *object;
} release_work;

static cel_status run_release(const cel_work *work, const cel_call *call) {
  const void *arguments[] = {((const release_work *)work)->object};
  (void)call;
  return call_lane(work->context, "release", 1, arguments);
}

cel_work *cel__lua_release(const char *data, size_t size, const void *object) {
  release_work *release = cel_alloc_zero(sizeof *release);
  release->object = object;
  release->work = (cel_work){
      .references = 1,
      .fn = run_release,
      .destroy = destroy_work,
      .lua = true,
      .context = blob_new(data, size),
  };
  return &release->work;
}

/* What a host object holds, as the function of a blob gives it. */
typedef struct lua_taking {
  cel_taking taking;
  blob *blob;
} lua_taking;

static cel_status take_lua(const cel_taking *taking, const cel_call *call,
                           void **data, uint64_t *size) {
  const void *arguments[] = {call};
  lua_State *L;
  CEL_TRY(ask_lane(((const lua_taking *)taking)->blob, "capture", 1, arguments,
                   &L));
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  void *copy = malloc(length + 1);
  if (copy == NULL)
    return cel_fail(CEL_E_MEMORY, "no memory for a snapshot of %zu bytes",
                    length);
  memcpy(copy, text, length);
  lua_settop(L, 0);
  *data = copy;
  *size = length;
  return CEL_E_OK;
}

static void destroy_taking(cel_taking *taking) {
  cel_free(((lua_taking *)taking)->blob);
  cel_free(taking);
}

cel_taking *cel__lua_taking(const char *data, size_t size, uint64_t hash,
                            bool objects) {
  lua_taking *made = cel_alloc(sizeof *made);
  *made = (lua_taking){.taking = {.take = take_lua,
                                  .destroy = destroy_taking,
                                  .lua = true,
                                  .objects = objects,
                                  .hash = hash},
                       .blob = blob_new(data, size)};
  return &made->taking;
}

static cel_status fill_lua(const cel_init *init, const cel_box *box,
                           void *out) {
  const void *arguments[] = {box, out};
  return call_lane(init->context, "fill", 2, arguments);
}

static void destroy_init(cel_init *init) {
  cel_free(init->context);
  cel_free(init);
}

static void destroy_lua_init(cel_init *init) {
  const blob *b = init->context;
  if (b->fd >= 0) close(b->fd);
  destroy_init(init);
}

cel_init *cel__lua_init(const char *data, size_t size, int fd) {
  cel_init *init = cel_alloc_zero(sizeof *init);
  blob *b = blob_new(data, size);
  b->fd = fd;
  *init = (cel_init){
      .fill = fill_lua, .destroy = destroy_lua_init, .lua = true, .context = b};
  return init;
}

typedef struct dense {
  cel_box extent;
  uint32_t element_size;
  _Alignas(16) char data[];
} dense;

static cel_status fill_data(const cel_init *init, const cel_box *box,
                            void *out) {
  dense *d = init->context;
  cel_layout from = {d->data, d->extent}, to = {out, *box};
  cel_copy_box(&from, &to, box, d->element_size);
  return CEL_E_OK;
}

cel_init *cel__data_init(const void *data, const cel_box *extent,
                         uint32_t element_size) {
  size_t size = (size_t)cel_box_volume(extent) * element_size;
  dense *d = cel_alloc(sizeof *d + size);
  d->extent = *extent;
  d->element_size = element_size;
  if (size > 0) memcpy(d->data, data, size);
  cel_init *init = cel_alloc_zero(sizeof *init);
  *init = (cel_init){.fill = fill_data, .destroy = destroy_init, .context = d};
  return init;
}

/* view(call, i) -> base, layout (6 numbers), box (6 numbers), what marks are
 * for (`touch`) | nil; i from 1 */
static int lane_view(lua_State *L) {
  const cel_call *call = lua_touserdata(L, 1);
  const cel_view *view = &call->view[luaL_checkinteger(L, 2) - 1];
  lua_pushlightuserdata(L, view->base);
  push_box(L, &view->layout);
  push_box(L, &view->box);
  if (view->touched == NULL) return 13;
  lua_pushlightuserdata(L, (void *)view);
  return 14;
}

/* The view's box and its elements' number, and of one of them the place. */
static int64_t place_of(const cel_view *view, int64_t offset, int64_t at[3]) {
  const cel_box *l = &view->layout, *b = &view->box;
  int64_t e1 = l->max[1] - l->min[1], e2 = l->max[2] - l->min[2];
  at[0] = l->min[0] + offset / (e1 * e2);
  at[1] = l->min[1] + offset / e2 % e1;
  at[2] = l->min[2] + offset % e2;
  return ((at[0] - b->min[0]) * (b->max[1] - b->min[1]) + at[1] - b->min[1]) *
             (b->max[2] - b->min[2]) +
         at[2] - b->min[2];
}

static void note_outside(cel_touched *touched, const int64_t at[3]) {
  if (touched->outside++ == 0) memcpy(touched->at, at, sizeof touched->at);
}

/* touch(view, offset in elements from its base) -> whether that element of its
 * box was promised, and is now marked. */
static int lane_touch(lua_State *L) {
  const cel_view *view = lua_touserdata(L, 1);
  int64_t at[3];
  int64_t place = place_of(view, (int64_t)luaL_checknumber(L, 2), at);
  bool promised = view->touched->map[place] != 0;
  if (promised)
    view->touched->map[place] |= CEL_TOUCHED;
  else
    note_outside(view->touched, at);
  lua_pushboolean(L, promised);
  return 1;
}

/* touch_outside(view, i, j, k): an element outside its box; 0 for what the
 * buffer has no dimension for. */
static int lane_touch_outside(lua_State *L) {
  const cel_view *view = lua_touserdata(L, 1);
  int64_t at[3];
  for (int d = 0; d < 3; ++d) at[d] = (int64_t)luaL_checknumber(L, d + 2);
  note_outside(view->touched, at);
  return 0;
}

/* touch_all(view): it may be that all is touched. */
static int lane_touch_all(lua_State *L) {
  const cel_view *view = lua_touserdata(L, 1);
  int64_t n = cel_box_volume(&view->box);
  for (int64_t i = 0; i < n; ++i)
    if (view->touched->map[i] != 0) view->touched->map[i] |= CEL_TOUCHED;
  return 0;
}

/* device(call) -> number, stream | nil */
static int lane_device(lua_State *L) {
  const cel_call *call = lua_touserdata(L, 1);
  lua_pushinteger(L, call->device);
  if (call->stream == NULL) return 1;
  lua_pushlightuserdata(L, call->stream);
  return 2;
}

/* comm(call) -> a collective task's communicator */
static int lane_comm(lua_State *L) {
  const cel_call *call = lua_touserdata(L, 1);
  lua_pushlightuserdata(L, call->comm);
  return 1;
}

/* box(pointer) -> 6 numbers */
static int lane_box(lua_State *L) {
  push_box(L, lua_touserdata(L, 1));
  return 6;
}

const luaL_Reg cel__core_lane[] = {
    {"view", lane_view},
    {"device", lane_device},
    {"comm", lane_comm},
    {"box", lane_box},
    {"touch", lane_touch},
    {"touch_all", lane_touch_all},
    {"touch_outside", lane_touch_outside},
    {NULL, NULL},
};
