/* embedded.h -- the Lua sources, their bytecode and the kernel headers, carried
 * inside libceler.
 *
 * So that one library and one command are a whole installation. Names are paths
 * from the project root: "lua/celer/init.lua", "kernels/celer.cuh"; bytecode
 * has "lua/celer/init.bc".
 *
 * Invariants: names are sorted and unique; `data` has a zero byte after its
 * `size` bytes; all of it is static.
 * The build writes the table: cmake/embed.cmake.
 */
#ifndef CEL_EMBED_EMBEDDED_H
#define CEL_EMBED_EMBEDDED_H

#ifndef CEL_CDEF
#include <stddef.h>
#endif

typedef struct cel_embedded {
  const char *name;
  const char *data;
  size_t size;
} cel_embedded;

/* The file of that name, or null. Thread: any. */
const cel_embedded *cel_embedded_find(const char *name);

#endif
