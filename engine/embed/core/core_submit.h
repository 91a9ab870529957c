/* core_submit.h -- what the ways to submit a command group share. */
#ifndef CEL_EMBED_CORE_CORE_SUBMIT_H
#define CEL_EMBED_CORE_CORE_SUBMIT_H

#include "embed/core/core.h"
#include "embed/core/core_group.h"

/* Of a command group, at most; and of one that has a plan. */
enum {
  CEL__ACCESSES = 64,
  CEL__EFFECTS = 32,
  CEL__PARAMETERS = 256, /* numbers that its mappers captured */
  CEL__VALUES = 4096,    /* bytes of its kernel's */
  CEL__RUNS = 256,
  CEL__PLAN_ACCESSES = 8,
  CEL__PLAN_ARGUMENTS = 24
};

/* Where group.lua has what belongs to an access, which is an array. */
enum {
  CEL__ACCESS_BUFFER = 1,
  CEL__ACCESS_SPELT,
  CEL__ACCESS_MAP,
  CEL__ACCESS_OWNER,
  CEL__ACCESS_HANDLE /* the buffer's; not where it is reduced into */
};

/* How an access is spelt in group.lua: a cel_mode, or reading of which the user
 * says that it is disjoint. */
enum { CEL__READ_DISJOINT = CEL_MODE_READ_WRITE + 1 };
static inline cel_mode cel__mode_of(int spelt) {
  return spelt == CEL__READ_DISJOINT ? CEL_MODE_READ : (cel_mode)spelt;
}

/* The index space, from the cel_lua_range at `index`. */
void cel__read_range(lua_State *L, int index, cel_group *group);
/* How a group is divided, from two arguments at `index`: a cel_lua_division,
 * which is returned; nil | {weights | nil, buffer | nil}. With a home it is not
 * divided: `home`, which the group borrows. */
const cel_lua_division *cel__read_division(lua_State *L, int index,
                                           cel_group *group, cel_home *home);

/* A group's accesses, off a Lua array: per access buffer, mode, rule, then its
 * parameters; of what is reduced into the identity as a string in place of a
 * rule, which the table keeps, and a cel_op. */
typedef struct cel__access_list {
  cel_access access[CEL__ACCESSES];
  const char *identity[CEL__ACCESSES]; /* null: nothing is reduced */
  cel_op op[CEL__ACCESSES];
  int64_t params[CEL__PARAMETERS];
  uint32_t n, used;
} cel__access_list;

void cel__read_accesses(lua_State *L, int index, const cel_box *range,
                        cel__access_list *out);

/* What a work of a kernel is made of, besides its accesses. */
typedef struct cel__kernel_call {
  cel_module *module;
  int32_t kernel;
  const int32_t *group; /* items of a work group in each dimension, or 0 */
  const unsigned char *values;
  uint32_t size;
  const char *const *identity; /* by access, as in the list */
  const cel_op *op;
} cel__kernel_call;

/* The work, of a module that was suited; puts reducers into the accesses. The
 * caller owns it. */
cel_work *cel__kernel_work(const cel__kernel_call *call, cel_access *access,
                           uint32_t accesses, int32_t fold);

/* Items of its work groups; 0: without. */
int32_t cel__items_of(const cel_lua_division *division);

/* Submits the group with this work, which it takes over; pushes a core
 * function's results, of which there are so many. */
int cel__submit(lua_State *L, cel_group *group, cel_work *work);

/* What works of the module for this group must stand; `items` of a work group,
 * or 0. */
cel_suits cel__suits(const cel_module *module, const cel_group *group,
                     int32_t items);

#endif
