/* counts.c -- what does not depend on the machine: how many commands,
 * instructions, messages and bytes the graphs of the topologies have, how often
 * memory is allocated for them, and how much of it they hold.
 *
 *   bench_counts
 *
 * One line of JSON for each topology and number of ranks, as a rank in the
 * middle, without threads: the same in every run. `allocations` counts calls of
 * malloc and its kin from the first rule to the last instruction, horizons
 * included; `held` is what of that is in use then, with nothing retired, in
 * bytes. Sanitizers have a malloc of their own: there both are null.
 * spec/bench/counts.lua compares it with what is expected.
 */
#include <inttypes.h>
#include <malloc.h>

#include "bench/engine/topologies.h"

/* ---- memory */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED false
static uint64_t allocations, held;
#else
#define COUNTED true
static uint64_t allocations, held; /* confined: there is one thread */

/* glibc's own, which these stand before. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

static void *counted(void *p) {
  ++allocations;
  held += malloc_usable_size(p);
  return p;
}

void *malloc(size_t size) {
  return counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size) {
  return counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size) {
  held -= malloc_usable_size(p);
  return counted(__libc_realloc(p, size));
}

void *aligned_alloc(size_t align, size_t size) {
  return counted(__libc_memalign(align, size));
}

void free(void *p) {
  held -= malloc_usable_size(p);
  __libc_free(p);
}
#endif

static void print_memory(uint64_t calls, uint64_t bytes) {
  if (COUNTED)
    printf("\"allocations\": %" PRIu64 ", \"held\": %" PRIu64, calls, bytes);
  else
    printf("\"allocations\": null, \"held\": null");
}

/* ---- cases */

enum { SOUP, CHAIN, EXPANDING, CONTRACTING, WAVE_SIM, JACOBI };

static void count(int topology, int64_t ranks, int32_t devices) {
  setup s = {.stage = INSTRS, .ranks = ranks, .devices = devices, .weak = true};
  uint64_t calls = allocations, bytes = held;
  run r;
  run_open(&r, &s, ranks / 2);
  topologies[topology].build(&r);
  cel_task_graph_epoch(r.tasks, (cel_location){0});
  calls = allocations - calls;
  bytes = held - bytes;
  printf("{\"name\": \"%s%s, %" PRId64 " ranks of %d\", \"tasks\": %" PRIu64
         ", \"commands\": %" PRIu64 ", \"instructions\": %" PRIu64
         ", \"collectives\": %" PRIu64 ", \"sends\": %" PRIu64
         ", \"bytes_sent\": %" PRIu64 ", \"receives\": %" PRIu64
         ", \"bytes_received\": %" PRIu64 ", ",
         topologies[topology].name, in_tiles ? " in tiles" : "", ranks,
         (int)devices, r.user_tasks, r.n_commands, r.n_instrs, r.n_collectives,
         r.n_sends, r.bytes_sent, r.n_receives, r.bytes_received);
  print_memory(calls, bytes);
  printf("}\n");
  run_close(&r);
}

int main(void) {
  static char line[1 << 12];
  setvbuf(stdout, line, _IOLBF, sizeof line); /* so that stdio has its buffer */
  for (int t = SOUP; t <= JACOBI; ++t) count(t, 4, 1);
  for (int t = SOUP; t <= JACOBI; ++t) count(t, 2, 4);
  count(JACOBI, 64, 1);
  for (int64_t ranks = 64; ranks <= 65536; ranks *= 32)
    count(WAVE_SIM, ranks, 1);
  count(SOUP, 65536, 1);
  in_tiles = true;
  for (int32_t devices = 4; devices <= 8; devices *= 2)
    count(WAVE_SIM, 1, devices);
  return 0;
}
