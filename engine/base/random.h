/* random.h -- a small seeded generator (splitmix64), the same everywhere.
 *
 * For simulated orders and random programs; not for cryptography.
 * Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014.
 */
#ifndef CEL_BASE_RANDOM_H
#define CEL_BASE_RANDOM_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

typedef struct cel_random {
  uint64_t state;
} cel_random;

#ifndef CEL_CDEF
static inline uint64_t cel_random_next(cel_random *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Uniform in [lo, hi], lo <= hi. */
static inline int64_t cel_random_int(cel_random *r, int64_t lo, int64_t hi) {
  uint64_t span = (uint64_t)(hi - lo) + 1;
  return span == 0 ? (int64_t)cel_random_next(r)
                   : lo + (int64_t)(cel_random_next(r) % span);
}

/* True in `percent` of 100 cases. */
static inline bool cel_random_chance(cel_random *r, int percent) {
  return cel_random_int(r, 0, 99) < percent;
}
#endif

#endif
