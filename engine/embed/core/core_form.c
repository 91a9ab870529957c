/* Forms of tasks (core_form.h): how a task's function is found to be like one
 * before.
 *
 * What capture.lua looked at when it made a form is a list of steps. Here they
 * are gone through again for another function with the same code: where each
 * finds what it found then, but for values, the form is the task's. Nothing is
 * encoded. Whatever differs, and whatever is wrong, is left to capture.lua.
 *
 * Cost: one to three calls of Lua's interface per variable. Nothing is
 * allocated but the string of values, if that. Thread: main.
 */
#include "embed/core/core_form.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"
#include "embed/code.h"

/* Of one form, at most; one that has more is never found again. */
enum { FUNCTIONS = 32, CELLS = 64, STEPS = 256 };
/* What is more, or longer, capture.lua makes part of the form. */
enum { VALUES = 128, LONGEST = 4096 };

/* SOURCE, what capture.lua calls it: where a step finds what it looks at.
 * Functions count from 1 in the order of the steps that found them, places are
 * of the form's table of what it knows. */
#define SOURCES(_)                                                             \
  _(MAIN, main)               /* the task's function */                        \
  _(UPVALUE, upvalue)         /* of function a, number b, in no step before */ \
  _(SHARED, shared)           /* the same; it is the variable of step c */     \
  _(FIELD, field)             /* of the table at place a, with the key at b */ \
  _(GLOBAL, global)           /* the same; it is there */                      \
  _(ARGUMENT, argument)       /* number b */                                   \
  _(ENVIRONMENT, environment) /* of function a */

/* WHAT, what capture.lua calls it: what it must be. */
#define WHATS(_)                                                               \
  _(VALUE, value)       /* a number, string, boolean or nil: taken */          \
  _(FUNCTION, function) /* of code c, and none of those before */              \
  _(SAME, same)         /* function c */                                       \
  _(EXACT, exact)       /* what is at place c */                               \
  _(NOTHING, nothing)   /* nil */

#define NAME(upper, lower) upper,
enum { SOURCES(NAME) };
enum { WHATS(NAME) };
#undef NAME

typedef struct step {
  uint8_t source, what;
  uint16_t a, b, c;
  const void *code;
} step;

/* Its environment is {what it knows, held weakly; prototypes of all functions,
 * so that no other code comes to lie where theirs is}. */
typedef struct handle {
  cel_form *form; /* a reference */
  uint32_t steps; /* 0: it is never found again */
  uint32_t keys;  /* how many places hold the key */
  step step[];
} handle;

static const char form_type[] = "celer.core.form";

cel_form *cel__check_form(lua_State *L, int index) {
  return ((handle *)luaL_checkudata(L, index, form_type))->form;
}

void cel__form_retain(cel_form *form) {
  atomic_fetch_add_explicit(&form->references, 1, memory_order_relaxed);
}

void cel__form_release(cel_form *form) {
  if (atomic_fetch_sub_explicit(&form->references, 1, memory_order_acq_rel) ==
      1)
    cel_free(form);
}

static int collect(lua_State *L) {
  handle *h = lua_touserdata(L, 1);
  if (h->form != NULL) cel__form_release(h->form);
  h->form = NULL;
  return 0;
}

/* ---- values -------------------------------------------------------------- */

/* A value begins with its kind. Ranks agree on the bytes. */
enum { NIL = '-', NO = 'f', YES = 't', NUMBER = 'n', TEXT = 's' };

static CEL_VEC(char) packed; /* main's */

static void put(const void *data, size_t size) {
  cel_vec_reserve(&packed, size);
  memcpy(packed.at + packed.n, data, size);
  packed.n += (uint32_t)size;
}

static void put_kind(char kind) {
  put(&kind, 1);
}

static void put_value(lua_State *L, int index) {
  switch (lua_type(L, index)) {
  case LUA_TNUMBER: {
    double number = lua_tonumber(L, index);
    static const uint64_t nan = UINT64_C(0x7ff8) << 48; /* of many, one */
    put_kind(NUMBER);
    put(number == number ? (const void *)&number : &nan, sizeof number);
    break;
  }
  case LUA_TSTRING: {
    size_t size;
    const char *text = lua_tolstring(L, index, &size);
    put_kind(TEXT);
    put(&size, sizeof size);
    put(text, size);
    break;
  }
  case LUA_TBOOLEAN: put_kind(lua_toboolean(L, index) ? YES : NO); break;
  default: put_kind(NIL);
  }
}

int cel__push_values(lua_State *L, const char *from, size_t size) {
  int n = 0;
  for (const char *end = from + size; from < end; ++n) {
    char kind = *from++;
    if (kind == NUMBER) {
      double number;
      memcpy(&number, from, sizeof number);
      from += sizeof number;
      lua_pushnumber(L, number);
    } else if (kind == TEXT) {
      size_t length;
      memcpy(&length, from, sizeof length);
      from += sizeof length;
      lua_pushlstring(L, from, length);
      from += length;
    } else if (kind == NIL) {
      lua_pushnil(L);
    } else {
      lua_pushboolean(L, kind == YES);
    }
  }
  return n;
}

/* ---- making one ---------------------------------------------------------- */

static cel_form *form_new(lua_State *L, int index, bool again) {
  static uint64_t forms; /* main's */
  size_t size, length;
  const char *text = luaL_checklstring(L, index, &size);
  const char *identity = luaL_checklstring(L, index + 1, &length);
  cel_form *form = cel_alloc(sizeof *form + size);
  atomic_init(&form->references, 1);
  form->number = again ? ++forms : 0;
  form->hash = cel_hash(identity, length, 0);
  form->values = 0;
  form->size = size;
  memcpy(form->text, text, size);
  return form;
}

static uint16_t number_at(lua_State *L, int index, int at) {
  lua_rawgeti(L, index, at);
  uint16_t number = (uint16_t)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return number;
}

/* Steps off an array: source, a, b, what, c of each. */
static void read_steps(lua_State *L, int index, handle *h) {
  for (uint32_t i = 0; i < h->steps; ++i) {
    int at = 5 * (int)i + 1;
    step *s = &h->step[i];
    *s = (step){.source = (uint8_t)number_at(L, index, at),
                .a = number_at(L, index, at + 1),
                .b = number_at(L, index, at + 2),
                .what = (uint8_t)number_at(L, index, at + 3)};
    lua_rawgeti(L, index, at + 4);
    if (s->what == FUNCTION)
      s->code = lua_touserdata(L, -1);
    else
      s->c = (uint16_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
}

static bool fits(lua_State *L, int index, uint32_t steps) {
  uint32_t functions = 0, cells = 0;
  for (uint32_t i = 0; i < steps; ++i) {
    uint16_t what = number_at(L, index, 5 * (int)i + 4);
    cells += number_at(L, index, 5 * (int)i + 1) == UPVALUE;
    functions += what == FUNCTION;
  }
  return steps <= STEPS && cells <= CELLS && functions <= FUNCTIONS;
}

/* form(text, identity, values, how many, steps | false, environment, keys) ->
 * form, packed values, whether it may be found again. Without steps it may not.
 */
static int form_make(lua_State *L) {
  enum { TEXT_AT = 1, GIVEN = 3, COUNT, LIST, KNOWN, KEYS };
  uint32_t steps = lua_istable(L, LIST) ? (uint32_t)lua_objlen(L, LIST) / 5 : 0;
  if (steps > 0 && !fits(L, LIST, steps)) steps = 0;
  handle *h = lua_newuserdata(L, sizeof *h + steps * sizeof *h->step);
  *h = (handle){.steps = steps, .keys = (uint32_t)luaL_checkinteger(L, KEYS)};
  int made = lua_gettop(L);
  if (luaL_newmetatable(L, form_type)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, made);
  if (steps > 0) {
    read_steps(L, LIST, h);
    lua_pushvalue(L, KNOWN);
    lua_setfenv(L, made);
  }
  h->form = form_new(L, TEXT_AT, steps > 0);
  h->form->values = (uint32_t)luaL_checkinteger(L, COUNT);
  cel_vec_clear(&packed);
  for (uint32_t i = 1; i <= h->form->values; ++i) {
    lua_rawgeti(L, GIVEN, (int)i);
    put_value(L, -1);
    lua_pop(L, 1);
  }
  lua_pushlstring(L, packed.at, packed.n);
  lua_pushboolean(L, steps > 0);
  return 3;
}

/* ---- finding one --------------------------------------------------------- */

/* What a function is known by: its code, or for one in C itself. */
static const void *code_at(lua_State *L, int index) {
  return lua_iscfunction(L, index) ? lua_topointer(L, index)
                                   : cel__code_of(L, index);
}

/* code(function) -> what forms of it are kept by; nil where that is not known
 */
static int form_code(lua_State *L) {
  const void *code = code_at(L, 1);
  if (code == NULL) return 0;
  lua_pushlightuserdata(L, (void *)(uintptr_t)code);
  return 1;
}

/* What is asked for, and what was found so far: places on the stack. */
typedef struct found {
  int forms, key;
  int task;   /* its arguments follow, */
  int places; /* then what the form at hand knows */
  int function[FUNCTIONS + 1], value[VALUES];
  const void *cell[CELLS];
  uint32_t functions, values, cells;
} found;

static bool same_key(lua_State *L, const handle *h, const found *f) {
  for (int i = 1; i <= (int)h->keys; ++i) {
    lua_rawgeti(L, f->key, i);
    lua_rawgeti(L, f->places, i);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (!same) return false;
  }
  return lua_objlen(L, f->key) == h->keys;
}

static bool is_new_cell(const void *cell, found *f) {
  for (uint32_t i = 0; i < f->cells; ++i)
    if (f->cell[i] == cell) return false;
  f->cell[f->cells++] = cell;
  return true;
}

static bool push_field(lua_State *L, const step *s, const found *f) {
  lua_rawgeti(L, f->places, s->a);
  lua_rawgeti(L, f->places, s->b);
  if (!lua_istable(L, -2) || lua_isnil(L, -1)) return false;
  lua_rawget(L, -2);
  lua_replace(L, -2);
  return true;
}

/* Pushes what a step looks at. */
static bool look(lua_State *L, const step *s, found *f) {
  switch (s->source) {
  case MAIN: lua_pushvalue(L, f->task); return true;
  case UPVALUE:
    return lua_getupvalue(L, f->function[s->a], s->b) != NULL &&
           is_new_cell(lua_upvalueid(L, f->function[s->a], s->b), f);
  case FIELD: return push_field(L, s, f);
  case GLOBAL: return push_field(L, s, f) && !lua_isnil(L, -1);
  case ARGUMENT: lua_pushvalue(L, f->task + s->b); return true;
  default: lua_getfenv(L, f->function[s->a]); return true;
  }
}

static bool is_new_function(lua_State *L, const step *s, found *f) {
  if (!lua_isfunction(L, -1) || cel__code_of(L, -1) != s->code) return false;
  for (uint32_t i = 1; i <= f->functions; ++i)
    if (lua_rawequal(L, -1, f->function[i])) return false;
  f->function[++f->functions] = lua_gettop(L);
  return true;
}

static bool is_value(lua_State *L) {
  int type = lua_type(L, -1);
  return type == LUA_TNUMBER || type == LUA_TBOOLEAN || type == LUA_TNIL ||
         (type == LUA_TSTRING && lua_objlen(L, -1) <= LONGEST);
}

/* Whether what is on top of the stack is as it was. */
static bool is_as_known(lua_State *L, const step *s, found *f) {
  bool same;
  switch (s->what) {
  case VALUE: f->value[f->values++] = lua_gettop(L); return is_value(L);
  case FUNCTION: return is_new_function(L, s, f);
  case SAME: return lua_rawequal(L, -1, f->function[s->c]);
  case NOTHING: return lua_isnil(L, -1);
  default:
    lua_rawgeti(L, f->places, s->c);
    same = !lua_isnil(L, -1) && lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    return same;
  }
}

static bool is_like(lua_State *L, const handle *h, found *f) {
  f->functions = f->values = f->cells = 0;
  if (!same_key(L, h, f)) return false;
  for (uint32_t i = 0; i < h->steps; ++i) {
    const step *s = &h->step[i];
    if (s->source == SHARED) {
      if (lua_upvalueid(L, f->function[s->a], s->b) != f->cell[s->c - 1])
        return false;
    } else if (!look(L, s, f) || !is_as_known(L, s, f)) {
      return false;
    }
  }
  return true;
}

cel_form *cel__find_form(lua_State *L, int forms, int key, int task,
                         const char **values, size_t *size) {
  found f = {.forms = forms, .key = key, .task = task};
  const void *code = code_at(L, task);
  if (code == NULL) return NULL;
  lua_pushlightuserdata(L, (void *)(uintptr_t)code);
  lua_rawget(L, forms);
  int list = lua_gettop(L);
  if (!lua_istable(L, list)) return NULL;
  f.places = list + 2;
  const handle *h;
  for (int i = 1;; ++i) {
    lua_rawgeti(L, list, i);
    h = lua_touserdata(L, -1);
    if (h == NULL) return NULL;
    luaL_checkstack(L, (int)h->steps + 8, NULL);
    lua_getfenv(L, -1);
    lua_rawgeti(L, -1, 1);
    lua_replace(L, f.places);
    if (is_like(L, h, &f)) break;
    lua_settop(L, list);
  }
  cel_vec_clear(&packed);
  for (uint32_t i = 0; i < f.values; ++i) put_value(L, f.value[i]);
  lua_settop(L, list + 1);
  *values = packed.at;
  *size = packed.n;
  return h->form;
}

/* recall(forms by code, key, function, arguments...) -> form, packed values;
 * nil where none is for it */
static int form_recall(lua_State *L) {
  enum { FORMS = 1, KEY, TASK };
  const char *values;
  size_t size;
  if (cel__find_form(L, FORMS, KEY, TASK, &values, &size) == NULL) return 0;
  lua_pushlstring(L, values, size);
  return 2;
}

/* form_words() -> {main = 0, ...}, {value = 0, ...}: sources and whats; how
 * many values a form has at most, and how long a string is that is one */
static int form_words(lua_State *L) {
#define SET(upper, lower) cel__set_integer(L, #lower, upper);
  lua_newtable(L);
  SOURCES(SET)
  lua_newtable(L);
  WHATS(SET)
#undef SET
  lua_pushinteger(L, VALUES);
  lua_pushinteger(L, LONGEST);
  return 4;
}

const luaL_Reg cel__core_form[] = {
    {"form", form_make},        {"code", form_code}, {"recall", form_recall},
    {"form_words", form_words}, {NULL, NULL},
};
