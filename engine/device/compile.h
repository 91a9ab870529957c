/* compile.h -- from a source to machine code, by way of the cache. */
#ifndef CEL_DEVICE_COMPILE_H
#define CEL_DEVICE_COMPILE_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "device/source.h"

/* Where compiled kernels are kept, and by what compilers, is looked up once.
 * Thread: main, before those below. */
void cel_compile_prepare(void);

/* Finds or compiles `unit`, the assembled text of `source`, and loads it; the
 * caller owns *out (dlclose). CEL_E_COMPILE, CEL_E_MISSING, CEL_E_IO.
 * Thread: any. */
cel_status cel_compile_cpu(const cel_source *source, const cel_text *unit,
                           void **out);

typedef struct cel_cuda_target {
  int32_t architecture; /* 90: sm_90 */
  bool wide;            /* strides of 2^31 elements and more */
  int32_t items;        /* of a work group at most: 512 or 1024, else 256 */
} cel_cuda_target;

/* Finds or compiles it likewise, by NVRTC; the module's bytes
 * into *out, which is empty.
 * Errors as above. Thread: any. */
cel_status cel_compile_cuda(const cel_source *source, const cel_text *unit,
                            cel_cuda_target target, cel_text *out);

/* CEL_E_COMPILE with what a compiler said, cleaned, at the user's line. */
cel_status cel__compile_fail(const cel_source *source, const char *said);
#endif

#endif
