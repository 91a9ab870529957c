/* atomic.h -- atomic operations for Lua, on numbers of 4 or 8 bytes.
 *
 * Integers pass as 64 bits; those of 4 bytes come back sign-extended. What
 * changes a number gives what it was. ffi.cdef reads this header as it stands
 * (lua/celer/data/host_memory.lua). Thread: any.
 */
#ifndef CEL_EMBED_ATOMIC_H
#define CEL_EMBED_ATOMIC_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

int64_t cel_atomic_load(const void *p, int32_t size);
void cel_atomic_store(void *p, int32_t size, int64_t value);
int64_t cel_atomic_add(void *p, int32_t size, int64_t value);
int64_t cel_atomic_exchange(void *p, int32_t size, int64_t value);
/* Whether it was `expected`, and is `desired` now. */
bool cel_atomic_compare(void *p, int32_t size, int64_t expected,
                        int64_t desired);
/* The same for float and double. */
double cel_atomic_load_real(const void *p, int32_t size);
void cel_atomic_store_real(void *p, int32_t size, double value);
double cel_atomic_add_real(void *p, int32_t size, double value);
double cel_atomic_exchange_real(void *p, int32_t size, double value);

#endif
