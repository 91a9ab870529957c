/* particles.h -- what the programs of this folder share. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of processor time, which other programs take nothing of. */
static inline double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void *room(size_t bytes) {
  void *p = calloc(1, bytes);
  if (p == NULL) exit(3);
  return p;
}

/* celer.philox(seed, item, step), for small seeds: Philox4x32-10. */
static inline double uniform(uint32_t seed, uint64_t item, uint32_t step) {
  uint32_t c[4] = {0, step, (uint32_t)item, (uint32_t)(item >> 32)};
  uint32_t key0 = seed, key1 = 0;
  for (int r = 0; r < 10; ++r) {
    uint64_t a = (uint64_t)0xd2511f53 * c[0], b = (uint64_t)0xcd9e8d57 * c[2];
    uint32_t d[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key0, (uint32_t)b,
                     (uint32_t)(a >> 32) ^ c[3] ^ key1, (uint32_t)a};
    memcpy(c, d, sizeof c);
    key0 += 0x9e3779b9;
    key1 += 0xbb67ae85;
  }
  return ((double)(c[0] >> 5) * 67108864 + (double)(c[1] >> 6)) /
         9007199254740992.0;
}
