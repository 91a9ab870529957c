/* idle.h -- whether the executor is out of work because tasks come too slowly.
 *
 * A gap is a time in which the executor has nothing under way while main does
 * not wait. Many gaps that are most of the time since the first one: the script
 * does not submit as fast as its tasks are carried out. In a long gap it does
 * something else, as compiling kernels: these gaps, and their time, do not
 * count.
 * Threads: the executor's.
 */
#ifndef CEL_RUNTIME_IDLE_H
#define CEL_RUNTIME_IDLE_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* It takes so many gaps, so much time in them, and that share of all time (one
 * in so many). */
enum { CEL__IDLE_GAPS = 500, CEL__IDLE_SHARE = 2 };
#ifndef CEL_CDEF
#define CEL__IDLE_NS INT64_C(2000000000)
#define CEL__IDLE_LONG_NS INT64_C(100000000)
#endif

typedef struct cel_idle {
  int64_t first_ns; /* when the first gap began; 0: none did */
  int64_t since_ns; /* when this one did; 0: there is none */
  int64_t total_ns, gaps;
  bool told;
} cel_idle;

/* There is nothing to do; or no gap after all: main waits. */
void cel__idle_begin(cel_idle *idle, int64_t now_ns);
void cel__idle_forget(cel_idle *idle);
/* There is something to do. True when it is time to say what is in `text`. */
bool cel__idle_end(cel_idle *idle, int64_t now_ns, char *text, size_t size);

#endif
