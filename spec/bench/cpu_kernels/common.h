/* common.h -- what the plain C programs share: the clock, memory that its
 * threads touch first, and the line with the result, as measure.lua prints it.
 */
#ifndef SPEC_BENCH_COMMON_H
#define SPEC_BENCH_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int number(int argc, char **argv, int i, int otherwise) {
  return argc > i ? atoi(argv[i]) : otherwise;
}

/* In huge pages, as celer's buffers are. */
static inline float *room(size_t elements) {
  size_t bytes = elements * sizeof(float);
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

static inline void report(double prepare, double seconds, double checksum) {
  printf("{\"prepare\": %.6f, \"seconds\": %.9f, \"checksum\": %.17g}\n",
         prepare, seconds, checksum);
}

#endif
