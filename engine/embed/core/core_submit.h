/* core_submit.h -- what the ways to submit a command group share. */
#ifndef CEL_EMBED_CORE_CORE_SUBMIT_H
#define CEL_EMBED_CORE_CORE_SUBMIT_H

#include "embed/core/core.h"

/* How an access is spelt in group.lua: a cel_mode, or reading of which the user
 * says that it is disjoint. */
enum { CEL__READ_DISJOINT = CEL_MODE_READ_WRITE + 1 };
static inline cel_mode cel__mode_of(int spelt) {
  return spelt == CEL__READ_DISJOINT ? CEL_MODE_READ : (cel_mode)spelt;
}

/* How a group is divided, from the arguments at `index` and behind it:
 * dimensions that may be cut; nil | {granularity of 3 dimensions, runs,
 * weights | nil, rank | nil, buffer | nil, min..., max...}. With a rank, or a
 * box of a buffer, it is not divided: `home`, which the group borrows. */
void cel__read_division(lua_State *L, int index, cel_group *group,
                        cel_home *home);

/* Submits the group with this work, which it takes over; pushes a core
 * function's results, of which there are so many. */
int cel__submit(lua_State *L, cel_group *group, cel_work *work);

/* Whether a row or plane of a buffer takes a stride that an int cannot hold. */
bool cel__is_wide(const cel_access *access, uint32_t n);

#endif
