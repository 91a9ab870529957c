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

#ifndef CEL_CDEF
/* The same of a few numbers, one by one, where each task has some: no two words
 * give one result from the same hash. */
static inline uint64_t cel_hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}
#endif

#endif
