/* core_prepared.h -- a prepared group, as Lua calls it.
 *
 * ffi.cdef reads this header as it stands (lua/celer/structs.lua), so it
 * includes nothing of the engine. What LuaJIT compiles calls the function
 * without leaving its machine code.
 */
#ifndef CEL_EMBED_CORE_CORE_PREPARED_H
#define CEL_EMBED_CORE_CORE_PREPARED_H

#ifndef CEL_CDEF
#include <stdint.h>
#endif

/* What Lua fills in before each call: it begins a prepared group. In the order
 * of accesses and of the kernel's values; 8 is CEL__PLAN_ACCESSES, 24 is
 * CEL__PLAN_ARGUMENTS. */
typedef struct cel_lua_prepared {
  const void *buffer[8]; /* handles, alive */
  double value[24];      /* those that are arguments */
} cel_lua_prepared;

/* What has come of a call: nothing, as it is not for these buffers and numbers;
 * a task; or what finish_prepared goes on with. */
typedef enum cel_prepared_end {
  CEL_PREPARED_NOT,
  CEL_PREPARED_DONE,
  CEL_PREPARED_LOOK,         /* advice wants the stack first */
  CEL_PREPARED_FAILED,       /* with the thread's error record */
  CEL_PREPARED_MODULE_FAILED /* the same, in its kernel */
} cel_prepared_end;

/* Submits it. Touches nothing of Lua's. Thread: main. */
int32_t cel_prepared_submit(cel_lua_prepared *prepared);

#endif
