#include "embed/embedded.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Written by cmake/embed.cmake, in assembly. */
_Static_assert(sizeof(cel_embedded) == 24, "three 8-byte words per row");
extern const cel_embedded cel__embedded_files[];
extern const uint64_t cel__embedded_count;

static int compare(const void *name, const void *row) {
  return strcmp(name, ((const cel_embedded *)row)->name);
}

const cel_embedded *cel_embedded_find(const char *name) {
  return bsearch(name, cel__embedded_files, cel__embedded_count,
                 sizeof *cel__embedded_files, compare);
}
