/* stock.h -- what is in the cache of compiled kernels, for whoever tidies it.
 *
 * Files of one stem belong together: a stem is the hash that names an entry
 * (`.so`, `.cubin`), or what is remembered of a source (`.needs`, `.by`, and
 * the `.lock` under which it is compiled). Files that are not the cache's own
 * are neither listed nor removed: the folder may be one that the user named.
 * Removing is safe at any time: whoever misses an entry compiles it again.
 * Thread: main.
 */
#ifndef CEL_DEVICE_COMPILE_STOCK_H
#define CEL_DEVICE_COMPILE_STOCK_H

#include "base/status.h"

#ifndef CEL_CDEF
#include "base/vec.h"

typedef struct cel_stock_file {
  char name[80]; /* in the folder */
  bool leftover; /* of a compile: under way, or one that was killed */
  uint64_t bytes;
  int64_t age; /* seconds since it was last used, to about a day */
} cel_stock_file;

typedef CEL_VEC(cel_stock_file) cel_stock_list;

/* Appends the cache's own files; the caller releases *out. CEL_E_IO. */
cel_status cel_stock_find(cel_stock_list *out);
/* Removes one that was listed. False when it is still there. */
bool cel_stock_remove(const char *name);
#endif

#endif
