/* include.h -- which files a source includes, for the keys of a compiler that
 * does not tell (NVRTC).
 *
 * Read by eye, whatever #if says: so the files found are those that a compile
 * may read, and the key changes whenever the result can. `#include MACRO` is
 * beyond it.
 */
#ifndef CEL_DEVICE_COMPILE_INCLUDE_H
#define CEL_DEVICE_COMPILE_INCLUDE_H

#include "base/status.h"

#ifndef CEL_CDEF
#include "device/compile/cache.h"

typedef struct cel_includes {
  const char *beside; /* where "..." of the text itself is looked for first */
  const char *const *folder; /* then there, as <...> */
  int32_t folders;
  /* Of the folders, from this one on: files that belong to the compiler. They
   * count by their path, and are not read. */
  int32_t of_compiler;
} cel_includes;

/* Chains path and content of every file that `text` includes, and that these
 * include, into the key; of one that is not found the name. False where that
 * cannot be told. Thread: any. */
bool cel_include_key(cel_key *key, const char *text, const cel_includes *where);
#endif

#endif
