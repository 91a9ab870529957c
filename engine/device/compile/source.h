/* source.h -- a user's kernel source, made into one translation unit.
 *
 * header, then the user's text under its own file name and lines, then an
 * entry per kernel at the kernel's own line; with CELER_ONLY of the kernel that
 * has this number, from 1, alone. All that is read from the C++ is
 * where `kernel void name(`, `static` and directives stand outside comments and
 * strings.
 */
#ifndef CEL_DEVICE_COMPILE_SOURCE_H
#define CEL_DEVICE_COMPILE_SOURCE_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "base/text.h"
#include "device/compile/cache.h"

typedef struct cel_found {
  char *name;   /* owned by the list */
  int32_t line; /* in the user's file */
} cel_found;

typedef CEL_VEC(cel_found) cel_found_list;

/* Appends each kernel once, in order. Thread: any. */
void cel_source_scan(const cel_source *source, cel_found_list *out);
/* Whether there is a `__global__` in it. */
bool cel_source_is_plain(const cel_source *source);
/* Whether it declares variables that are `static` or `thread_local`, and no
 * constants. Thread: any. */
bool cel_source_has_variables(const char *text);
void cel_found_release(cel_found_list *list);
/* The first whose name is that of a function template that a compiler or celer
 * has; null if none. The same for all compilers. Thread: any. */
const cel_found *cel_found_taken(const cel_found_list *list);
/* Where parts of an assembled text begin. */
typedef struct cel_source_parts {
  uint32_t prelude;
  uint32_t text; /* the user's, with the defines; behind it none is left */
  uint32_t entries;
} cel_source_parts;

/* The whole text for a compiler, into *out, which is empty. Thread: any. */
void cel_source_assemble(const cel_source *source, const char *header,
                         size_t header_size, const cel_found_list *kernels,
                         cel_text *out, cel_source_parts *parts);
/* Whether what it compiles to may depend on where the text stands, its folder,
 * file and lines: it includes something, or names them, or options may. Thread:
 * any. */
bool cel_source_is_placed(const cel_source *source, const cel_text *assembled);
/* Chains all of an assembled text into the key that its result depends on.
 * Thread: any. */
void cel_source_key(const cel_source *source, const cel_text *assembled,
                    cel_key *key);
/* What a compiler said, without celer's own part in it. `*line` becomes the
 * first place in the user's file, if any. Thread: any. */
void cel_source_clean(const cel_source *source, const char *said, cel_text *out,
                      int32_t *line);
/* What NVRTC said, in the shape of the other compilers' messages, so that
 * cel_source_clean can read it. Thread: any. */
void cel_source_as_gnu(const char *said, cel_text *out);
/* What the names of celer's headers begin with in #line; cmake/flatten.awk and
 * lua/celer/kernel/reduce.lua say the same. */
#define CEL_SOURCE_HEADERS "<celer>/"
#endif

#endif
