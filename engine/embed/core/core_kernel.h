/* core_kernel.h -- compiled modules as core_submit.c needs them. */
#ifndef CEL_EMBED_CORE_CORE_KERNEL_H
#define CEL_EMBED_CORE_CORE_KERNEL_H

#include "embed/core/core.h"

enum { CEL__ENTRIES = 64 }; /* defines or options of a source, at most */

/* The module handle at `index`; raises when it is none. */
cel_module *cel__check_module(lua_State *L, int index);

/* As cel__push_failure, of what a module failed with: where a GPU has been
 * lost, the failure of what was at fault. */
int cel__push_module_failure(lua_State *L);

/* Class as in cel_param, bytes, the least whole number that they hold and the
 * first that is too large. The one table for kernels' values and for elements,
 * here and in Lua (lua/celer/data/types.lua). */
#define CEL__WHOLES(_)                                                         \
  _(i, 1, -0x1p7, 0x1p7)                                                       \
  _(i, 2, -0x1p15, 0x1p15)                                                     \
  _(i, 4, -0x1p31, 0x1p31)                                                     \
  _(i, 8, -0x1p63, 0x1p63)                                                     \
  _(u, 1, 0, 0x1p8)                                                            \
  _(u, 2, 0, 0x1p16)                                                           \
  _(u, 4, 0, 0x1p32)                                                           \
  _(u, 8, 0, 0x1p64)

/* A number without a fraction that int64_t and Lua's numbers both hold. */
bool cel__is_whole(lua_State *L, int index, int64_t *out);

/* Whether the value at `index` is one that a parameter of this class and size
 * takes, and needs no more than packing: no struct, no boxed integer. */
bool cel__value_fits(lua_State *L, int index, int32_t class_, int32_t size);

/* The same of a number, for a class that takes some. */
bool cel__number_fits(double n, int32_t class_, int32_t size);
void cel__pack_number(double n, const cel_param *param, unsigned char *out);

/* Packs the value on top of the stack, which fits, as a VALUE parameter wants
 * it. */
void cel__pack_value(lua_State *L, const cel_param *param, unsigned char *out);

/* Packs the array of values at `index` as the kernel's VALUE parameters want
 * them; returns the bytes used, raises when `room` is too small. */
uint32_t cel__pack_values(lua_State *L, int index, const cel_module *module,
                          int32_t kernel, unsigned char *out, uint32_t room);

#endif
