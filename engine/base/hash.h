/* hash.h -- 64-bit content hashes (XXH3), equal on every rank.
 *
 * Never feed an address: ranks must agree. Thread: any.
 */
#ifndef CEL_BASE_HASH_H
#define CEL_BASE_HASH_H

#ifndef CEL_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

/* Hash of `size` bytes at `data`, chained from `seed` (0 to begin). */
uint64_t cel_hash(const void *data, size_t size, uint64_t seed);

#endif
