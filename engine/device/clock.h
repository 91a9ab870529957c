/* clock.h -- the time that spans are measured in: ns of CLOCK_MONOTONIC, which
 * all processes of a host share. Thread: any. */
#ifndef CEL_DEVICE_CLOCK_H
#define CEL_DEVICE_CLOCK_H

#ifndef CEL_CDEF
#include <stdint.h>
#include <time.h>

static inline int64_t cel_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
#endif

#endif
