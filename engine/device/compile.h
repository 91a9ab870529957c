/* compile.h -- from a source to a loaded library, by way of the cache. */
#ifndef CEL_DEVICE_COMPILE_H
#define CEL_DEVICE_COMPILE_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "device/source.h"

/* Finds or compiles `unit`, the assembled text of `source`, and loads it; the
 * caller owns *out (dlclose). CEL_E_COMPILE, CEL_E_MISSING, CEL_E_IO.
 * Thread: main. */
cel_status cel_compile_cpu(const cel_source *source, const cel_text *unit,
                           void **out);
#endif

#endif
