/* core_kernel.h -- compiled modules as core_submit.c needs them. */
#ifndef CEL_EMBED_CORE_CORE_KERNEL_H
#define CEL_EMBED_CORE_CORE_KERNEL_H

#include "embed/core/core.h"

/* The module handle at `index`; raises when it is none. */
cel_module *cel__check_module(lua_State *L, int index);

/* As cel__push_failure, of what a module failed with: where a GPU has been
 * lost, the failure of what was at fault. */
int cel__push_module_failure(lua_State *L);

/* Packs the value on top of the stack, which fits, as a VALUE parameter wants
 * it. */
void cel__pack_value(lua_State *L, const cel_param *param, unsigned char *out);

/* Packs the array of values at `index` as the kernel's VALUE parameters want
 * them; returns the bytes used, raises when `room` is too small. */
uint32_t cel__pack_values(lua_State *L, int index, const cel_module *module,
                          int32_t kernel, unsigned char *out, uint32_t room);

#endif
