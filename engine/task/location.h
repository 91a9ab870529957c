/* location.h -- a file and line of the user's script.
 */
#ifndef CEL_TASK_LOCATION_H
#define CEL_TASK_LOCATION_H

#ifndef CEL_CDEF
#include <stdint.h>
#endif

typedef struct cel_location {
  const char *file; /* interned for the life of the run; may be null */
  int32_t line;
  /* Interned, too: the lines that called the function that this one lies in,
   * the innermost first, as "a.lua:4, b.lua:7". Null where there are none, or
   * nobody wants to know. */
  const char *callers;
} cel_location;

#endif
