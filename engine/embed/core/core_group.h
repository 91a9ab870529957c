/* core_group.h -- where a command group runs, as Lua hands it over.
 *
 * ffi.cdef reads this header as it stands (lua/celer/structs.lua), so it
 * includes nothing of the engine.
 */
#ifndef CEL_EMBED_CORE_CORE_GROUP_H
#define CEL_EMBED_CORE_CORE_GROUP_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

/* An index space. Scalars alone: LuaJIT compiles no initialisers of arrays. */
typedef struct cel_lua_range {
  int32_t dims;
  int64_t min0, min1, min2, max0, max1, max2;
} cel_lua_range;

/* How the work of a command group is divided. Groups that are
 * divided alike share one, so nobody changes one that has been handed over. */
typedef struct cel_lua_division {
  int32_t placement; /* cel_placement */
  int32_t cuts;      /* how many dimensions may be cut, from the first on */
  int32_t runs;      /* that each device's chunk is cut into */
  int32_t fold;      /* steps of one at most */
  int64_t granularity0, granularity1, granularity2;
  int32_t group[3];    /* items of a work group; 0: none */
  uint32_t collective; /* the group of a collective task; 0: none */
  /* Of ONCE: the rank; or, with a buffer, where most of this box lies. */
  bool home;
  int64_t rank;
  int64_t min[3], max[3];
} cel_lua_division;

#endif
