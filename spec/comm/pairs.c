#include "comm/pairs.h"

#include <string.h>

#include "base/hash.h"

enum { GAP = 24, UNTOUCHED = 0x5a };

void pairs_plan(pairs *p, int64_t ranks, cel_random *shared) {
  p->element = (uint64_t)cel_random_int(shared, 1, 5);
  p->run = p->element * (uint64_t)cel_random_int(shared, 1, 8);
  p->wide = cel_random_chance(shared, 30);
  p->rows = cel_alloc_zero((size_t)(ranks * ranks) * sizeof *p->rows);
  for (int64_t i = 0; i < ranks * ranks; ++i)
    if (i / ranks != i % ranks && cel_random_chance(shared, 80))
      p->rows[i] = (int32_t)cel_random_int(shared, 1, 20);
}

static uint8_t byte_of(uint64_t nth, int64_t from, int64_t to, uint64_t at) {
  uint64_t key[] = {nth, (uint64_t)from, (uint64_t)to, at};
  return (uint8_t)cel_hash(key, sizeof key, 0);
}

/* By slices of rows of so many elements, or by boxes of those. */
static void tell_parts(pairs_end *e, int64_t ranks, int64_t width, bool boxes) {
  size_t n = (size_t)ranks;
  int64_t unit = boxes ? 1 : width, each = width / unit;
  e->count = cel_alloc(n * sizeof *e->count);
  e->start = cel_alloc(n * sizeof *e->start);
  e->box = boxes ? cel_alloc(n * sizeof *e->box) : NULL;
  for (size_t k = 0; k < n; ++k) {
    e->count[k] = (int32_t)(e->rows[k] * each);
    e->start[k] = (int32_t)(e->first[k] * each);
    if (boxes)
      e->box[k] =
          (cel_box){{e->first[k], 0, 0}, {e->first[k] + e->rows[k], 1, width}};
  }
  e->parts = (cel_parts){.ranks = ranks,
                         .unit = unit,
                         .along = boxes ? -1 : 0,
                         .count = e->count,
                         .start = e->start,
                         .box = e->box};
}

cel_collective_parts pairs_end_make(pairs_end *e, uint64_t run,
                                    uint64_t element, int64_t ranks,
                                    cel_random *own) {
  uint64_t width = run / element;
  e->run = e->stride = run;
  if (cel_random_chance(own, 50))
    e->stride += (uint64_t)cel_random_int(own, 1, GAP);
  e->first = cel_alloc((size_t)ranks * sizeof *e->first);
  for (int64_t k = 0; k < ranks; ++k) {
    e->first[k] = (int32_t)e->all;
    e->all += (uint64_t)e->rows[k];
  }
  e->memory = cel_alloc(e->all * e->stride + 1);
  memset(e->memory, UNTOUCHED, e->all * e->stride + 1);
  tell_parts(e, ranks, (int64_t)width, cel_random_chance(own, 50));
  return (cel_collective_parts){.parts = &e->parts,
                                .base = e->all > 0 ? e->memory : NULL,
                                .extent = {e->all, 1, width},
                                .stride = {e->stride, e->stride, element}};
}

void pairs_lay_out(pairs *p, const cel_transport *t, cel_random *own,
                   cel_collective *collective) {
  int64_t me = t->rank, n = t->ranks;
  p->given.rows = cel_alloc((size_t)n * sizeof *p->given.rows);
  p->got.rows = cel_alloc((size_t)n * sizeof *p->got.rows);
  uint64_t sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    p->given.rows[k] = p->rows[me * n + k];
    p->got.rows[k] = p->rows[k * n + me];
  }
  for (int64_t i = 0; i < n * n; ++i) sum += (uint64_t)p->rows[i];
  collective->bytes = sum * p->run;
  collective->wide = p->wide;
  collective->to = pairs_end_make(&p->given, p->run, p->element, n, own);
  collective->from = pairs_end_make(&p->got, p->run, p->element, n, own);
  for (int64_t k = 0; k < n; ++k)
    pairs_end_fill(&p->given, k, collective->nth, me, k);
}

void pairs_end_fill(pairs_end *e, int64_t k, uint64_t nth, int64_t from,
                    int64_t to) {
  for (uint64_t i = 0; i < (uint64_t)e->rows[k] * e->run; ++i)
    e->memory[((uint64_t)e->first[k] + i / e->run) * e->stride + i % e->run] =
        byte_of(nth, from, to, i);
}

uint64_t pairs_end_check(const pairs_end *e, int64_t k, uint64_t nth,
                         int64_t from, int64_t to) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < (uint64_t)e->rows[k] * e->stride; ++i) {
    uint64_t row = i / e->stride, at = i % e->stride;
    uint8_t want =
        at < e->run ? byte_of(nth, from, to, row * e->run + at) : UNTOUCHED;
    wrong += e->memory[(uint64_t)e->first[k] * e->stride + i] != want;
  }
  return wrong;
}

uint64_t pairs_check(const pairs *p, const cel_transport *t, uint64_t nth) {
  uint64_t wrong = 0;
  for (int64_t k = 0; k < t->ranks; ++k)
    wrong += pairs_end_check(&p->got, k, nth, k, t->rank);
  return wrong;
}

void pairs_end_release(pairs_end *e) {
  cel_free(e->count);
  cel_free(e->start);
  cel_free(e->rows);
  cel_free(e->first);
  cel_free(e->box);
  cel_free(e->memory);
}

void pairs_release(pairs *p) {
  cel_free(p->rows);
  pairs_end_release(&p->given);
  pairs_end_release(&p->got);
}
