#include "comm/several.h"

/* So that each box has bytes of its own. */
static uint64_t number_of(const cel_collective *collective, int box) {
  return collective->nth + ((uint64_t)box << 32);
}

static bool in_pairs(const cel_collective *collective) {
  return collective->pattern == CEL_PATTERN_ALL_TO_ALL;
}

/* Of a broadcast all rows are the root's. */
static void plan_whole(several *s, int i, cel_pattern pattern, int64_t ranks,
                       int64_t root, cel_random *shared) {
  pairs_end *e = &s->whole[i];
  s->run[i] = (uint64_t)cel_random_int(shared, 1, 8);
  e->rows = cel_alloc_zero((size_t)ranks * sizeof *e->rows);
  for (int64_t k = 0; k < ranks; ++k)
    if (pattern == CEL_PATTERN_BROADCAST ? k == root
                                         : cel_random_chance(shared, 80))
      e->rows[k] = (int32_t)cel_random_int(shared, 1, 20);
}

void several_plan(several *s, cel_pattern pattern, int64_t ranks, int64_t root,
                  cel_random *shared) {
  s->boxes = (int)cel_random_int(shared, 2, SEVERAL_MOST);
  for (int i = 0; i < s->boxes; ++i) {
    if (pattern == CEL_PATTERN_ALL_TO_ALL)
      pairs_plan(&s->pairs[i], ranks, shared);
    else
      plan_whole(s, i, pattern, ranks, root, shared);
    s->pairs[i].wide = false;
  }
}

/* Bytes of each rank's parts of all boxes, one rank behind the other. */
static void add_up(several *s, int end, int64_t ranks) {
  int32_t *count = cel_alloc_zero((size_t)ranks * sizeof *count);
  int32_t *start = cel_alloc_zero((size_t)ranks * sizeof *start);
  int32_t sum = 0;
  for (int64_t k = 0; k < ranks; ++k) {
    start[k] = sum;
    for (int i = 0; i < s->boxes; ++i) {
      const cel_collective_parts *p = &s->each[end][i];
      count[k] +=
          p->parts->count[k] * (int32_t)p->parts->unit * (int32_t)p->stride[2];
    }
    sum += count[k];
  }
  s->sum[end] =
      (cel_parts){.ranks = ranks, .unit = 1, .count = count, .start = start};
}

static void lay_out_pairs(several *s, const cel_transport *t, cel_random *own,
                          cel_collective *collective) {
  uint64_t bytes = 0;
  for (int i = 0; i < s->boxes; ++i) {
    cel_collective one = {.nth = number_of(collective, i)};
    pairs_lay_out(&s->pairs[i], t, own, &one);
    s->each[0][i] = one.to;
    s->each[1][i] = one.from;
    bytes += one.bytes;
  }
  collective->bytes = bytes;
  for (int end = 0; end < 2; ++end) add_up(s, end, t->ranks);
  collective->to = collective->from =
      (cel_collective_parts){.stride = {1, 1, 1}};
  collective->to.parts = &s->sum[0];
  collective->from.parts = &s->sum[1];
  collective->each[0] = s->each[0];
  collective->each[1] = s->each[1];
}

static void lay_out_wholes(several *s, const cel_transport *t, cel_random *own,
                           cel_collective *collective) {
  bool counts = collective->pattern != CEL_PATTERN_BROADCAST;
  int64_t mine = counts ? t->rank : collective->root;
  collective->bytes = 0;
  for (int i = 0; i < s->boxes; ++i) {
    pairs_end *e = &s->whole[i];
    s->each[0][i] = pairs_end_make(e, s->run[i], 1, t->ranks, own);
    if (t->rank == mine)
      pairs_end_fill(e, mine, number_of(collective, i), mine, 0);
    collective->bytes += e->all * e->run;
    if (!counts) s->each[0][i].parts = NULL;
  }
  collective->each[0] = collective->each[1] = s->each[0];
  collective->unit = 1;
  if (!counts) return;
  add_up(s, 0, t->ranks);
  collective->count = s->sum[0].count;
  collective->start = s->sum[0].start;
}

void several_lay_out(several *s, const cel_transport *t, cel_random *own,
                     cel_collective *collective) {
  if (in_pairs(collective))
    lay_out_pairs(s, t, own, collective);
  else
    lay_out_wholes(s, t, own, collective);
  collective->several = (uint32_t)s->boxes;
}

uint64_t several_check(const several *s, const cel_transport *t,
                       const cel_collective *collective) {
  uint64_t wrong = 0;
  for (int i = 0; i < s->boxes; ++i) {
    if (in_pairs(collective))
      wrong += pairs_check(&s->pairs[i], t, number_of(collective, i));
    for (int64_t k = 0; k < t->ranks && !in_pairs(collective); ++k)
      wrong += pairs_end_check(&s->whole[i], k, number_of(collective, i), k, 0);
  }
  return wrong;
}

void several_release(several *s) {
  for (int i = 0; i < s->boxes; ++i) {
    pairs_release(&s->pairs[i]);
    pairs_end_release(&s->whole[i]);
  }
  for (int end = 0; end < 2; ++end) {
    cel_free((void *)(uintptr_t)s->sum[end].count);
    cel_free((void *)(uintptr_t)s->sum[end].start);
  }
}
