#include "base/sort.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { RUN_LEAST = 8 }; /* elements in a run, on average, that merging takes */

typedef struct sorting {
  size_t n, size;
  int (*compare)(const void *, const void *);
} sorting;

/* The end of the ascending run that begins at `from`. */
static size_t run_end(const sorting *s, const char *at, size_t from) {
  size_t i = from + 1;
  const char *x = at + i * s->size;
  while (i < s->n && s->compare(x - s->size, x) <= 0) ++i, x += s->size;
  return i;
}

static void swap(char *a, char *b, size_t size) {
  uint64_t word; /* all that is sorted consists of words */
  for (size_t i = 0; i < size; i += sizeof word) {
    memcpy(&word, a + i, sizeof word);
    memcpy(a + i, b + i, sizeof word);
    memcpy(b + i, &word, sizeof word);
  }
}

/* Turns the descending run that begins at `from`, if one does; returns the end
 * of the run. Equal elements end it, so their order stays. */
static size_t make_run(const sorting *s, char *at, size_t from) {
  size_t i = from + 1;
  const char *x = at + i * s->size;
  while (i < s->n && s->compare(x - s->size, x) > 0) ++i, x += s->size;
  if (i == from + 1) return run_end(s, at, from);
  for (size_t a = from, b = i - 1; a < b; ++a, --b)
    swap(at + a * s->size, at + b * s->size, s->size);
  return i;
}

/* Merges the first run with the second, the third with the fourth, ... */
static void merge_runs(const sorting *s, const char *from, char *to) {
  for (size_t begin = 0; begin < s->n;) {
    size_t middle = run_end(s, from, begin);
    size_t end = middle < s->n ? run_end(s, from, middle) : middle;
    const char *a = from + begin * s->size, *b = from + middle * s->size;
    const char *a_end = b, *b_end = from + end * s->size;
    for (; a < a_end && b < b_end; to += s->size) {
      const char **least = s->compare(a, b) <= 0 ? &a : &b;
      memcpy(to, *least, s->size);
      *least += s->size;
    }
    memcpy(to, a, (size_t)(a_end - a));
    to += a_end - a;
    memcpy(to, b, (size_t)(b_end - b));
    to += b_end - b;
    begin = end;
  }
}

void cel_sort(void *at, size_t n, size_t size,
              int (*compare)(const void *, const void *)) {
  sorting s = {n, size, compare};
  cel_assert(size % sizeof(uint64_t) == 0);
  size_t runs = 0;
  for (size_t i = 0; i < n; ++runs) i = make_run(&s, at, i);
  if (runs <= 1) return;
  if (runs * RUN_LEAST > n) {
    qsort(at, n, size, compare);
    return;
  }
  char *room = cel_alloc(n * size), *from = at, *to = room;
  for (; runs > 1; runs = (runs + 1) / 2) {
    merge_runs(&s, from, to);
    char *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != at) memcpy(at, from, n * size);
  cel_free(room);
}
