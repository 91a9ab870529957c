#include "comm/share.h"

#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/vec.h"
#include "comm/several.h"

enum { AT_ONCE = 6, GAP = 24, UNTOUCHED = 0x5a };

/* One of them, as this rank sees it. Its bytes are in rows: each part is rows
 * of `run` bytes, which in memory lie `stride` apart. */
typedef struct share {
  cel_collective collective;
  uint64_t rows, run, stride;
  int32_t *count, *start; /* in units of one row */
  cel_strided *piece;
  uint8_t *memory;
  pairs pairs; /* of an ALL_TO_ALL */
  several several;
  bool ended;
} share;

static uint8_t byte_of(uint64_t nth, uint64_t at) {
  uint64_t key[] = {nth, at};
  return (uint8_t)cel_hash(key, sizeof key, 0);
}

static bool of_rank(const share *s, int64_t rank, uint64_t row) {
  return row >= (uint64_t)s->start[rank] &&
         row < (uint64_t)s->start[rank] + (uint64_t)s->count[rank];
}

static bool from_root(const share *s) {
  return s->collective.pattern == CEL_PATTERN_BROADCAST ||
         s->collective.pattern == CEL_PATTERN_SCATTER;
}

static bool mine(const cel_transport *t, const share *s, uint64_t row) {
  return from_root(s) ? s->collective.root == t->rank
                      : of_rank(s, t->rank, row);
}

/* Whether this rank sees all of it, not its part alone. */
static bool whole(const cel_transport *t, const share *s) {
  return s->collective.pattern == CEL_PATTERN_BROADCAST ||
         s->collective.pattern == CEL_PATTERN_ALL_GATHER ||
         s->collective.root == t->rank;
}

static cel_strided rows_at(const share *s, uint64_t first, uint64_t n) {
  return (cel_strided){.base = s->memory + first * s->stride,
                       .count = {1, n},
                       .stride = {n * s->stride, s->stride},
                       .run = s->run};
}

/* What all ranks know of it. */
static void plan(share *s, const cel_transport *t, cel_random *shared) {
  cel_pattern pattern = (cel_pattern)cel_random_int(
      shared, CEL_PATTERN_BROADCAST, CEL_PATTERN_ALL_TO_ALL);
  s->collective.pattern = pattern;
  bool to_root =
      pattern == CEL_PATTERN_GATHER || pattern == CEL_PATTERN_SCATTER;
  if (!to_root && cel_random_chance(shared, 30)) {
    s->collective.root = cel_random_int(shared, 0, t->ranks - 1);
    several_plan(&s->several, pattern, t->ranks, s->collective.root, shared);
    return;
  }
  if (pattern == CEL_PATTERN_ALL_TO_ALL) {
    pairs_plan(&s->pairs, t->ranks, shared);
    return;
  }
  int64_t top = cel_random_chance(shared, 15) ? 3000 : 12;
  s->run = (uint64_t)cel_random_int(shared, 1, top);
  s->count = cel_alloc_zero((size_t)t->ranks * sizeof *s->count);
  s->start = cel_alloc_zero((size_t)t->ranks * sizeof *s->start);
  for (int64_t k = 0; k < t->ranks; ++k) {
    s->start[k] = (int32_t)s->rows;
    s->count[k] = (int32_t)(cel_random_chance(shared, 20)
                                ? 0
                                : cel_random_int(shared, 1, 30));
    s->rows += (uint64_t)s->count[k];
  }
  if (s->rows == 0) s->rows = (uint64_t)(s->count[0] = 1);
  for (int64_t k = 1; k < t->ranks; ++k)
    s->start[k] = s->start[k - 1] + s->count[k - 1];
  s->collective =
      (cel_collective){.pattern = pattern,
                       .root = cel_random_int(shared, 0, t->ranks - 1),
                       .bytes = s->rows * s->run};
  if (pattern == CEL_PATTERN_BROADCAST) return;
  s->collective.unit = s->run;
  s->collective.count = s->count;
  s->collective.start = s->start;
}

/* Rows side by side are one. */
static cel_strided merged(const cel_strided *rows) {
  return (cel_strided){
      .base = rows->base, .count = {1, 1}, .run = rows->count[1] * rows->run};
}

/* How it lies in this rank's memory. */
static void lay_out(share *s, const cel_transport *t, cel_random *own) {
  if (s->several.boxes > 0) {
    several_lay_out(&s->several, t, own, &s->collective);
    return;
  }
  if (s->collective.pattern == CEL_PATTERN_ALL_TO_ALL) {
    pairs_lay_out(&s->pairs, t, own, &s->collective);
    return;
  }
  s->stride = s->run;
  bool gaps = cel_random_chance(own, 50);
  if (gaps) s->stride += (uint64_t)cel_random_int(own, 1, GAP);
  s->memory = cel_alloc(s->rows * s->stride);
  memset(s->memory, UNTOUCHED, s->rows * s->stride);
  bool parts =
      gaps && whole(t, s) && s->collective.pattern != CEL_PATTERN_BROADCAST;
  s->collective.pieces = parts ? (uint32_t)t->ranks : 1;
  s->piece = cel_alloc_zero((size_t)t->ranks * sizeof *s->piece);
  s->piece[0] = whole(t, s) ? rows_at(s, 0, s->rows)
                            : rows_at(s, (uint64_t)s->start[t->rank],
                                      (uint64_t)s->count[t->rank]);
  if (!gaps) s->piece[0] = merged(&s->piece[0]);
  for (uint32_t k = 0; k < s->collective.pieces && parts; ++k)
    s->piece[k] = rows_at(s, (uint64_t)s->start[k], (uint64_t)s->count[k]);
  s->collective.piece = s->piece;
  for (uint64_t row = 0; row < s->rows; ++row)
    for (uint64_t i = 0; i < s->run && mine(t, s, row); ++i)
      s->memory[row * s->stride + i] =
          byte_of(s->collective.nth, row * s->run + i);
}

static uint64_t check(const cel_transport *t, const share *s) {
  if (s->several.boxes > 0)
    return several_check(&s->several, t, &s->collective);
  if (s->collective.pattern == CEL_PATTERN_ALL_TO_ALL)
    return pairs_check(&s->pairs, t, s->collective.nth);
  uint64_t wrong = 0;
  for (uint64_t row = 0; row < s->rows; ++row)
    for (uint64_t i = 0; i < s->stride; ++i) {
      bool here = whole(t, s) || of_rank(s, t->rank, row);
      uint8_t want = here && i < s->run
                         ? byte_of(s->collective.nth, row * s->run + i)
                         : UNTOUCHED;
      wrong += s->memory[row * s->stride + i] != want;
    }
  return wrong;
}

static void release(share *s) {
  pairs_release(&s->pairs);
  several_release(&s->several);
  cel_free(s->count);
  cel_free(s->start);
  cel_free(s->piece);
  cel_free(s->memory);
}

uint64_t share_all(cel_transport *t, uint64_t seed, int64_t n) {
  cel_random shared = {seed}, own = {seed * 31 + (uint64_t)t->rank};
  share *all = cel_alloc_zero((size_t)n * sizeof *all);
  uint64_t wrong = 0;
  for (int64_t posted = 0, ended = 0; ended < n;) {
    if (posted < n && posted - ended < AT_ONCE && cel_random_chance(&own, 50)) {
      share *s = &all[posted];
      plan(s, t, &shared);
      s->collective.ticket = s->collective.nth = (uint64_t)posted++;
      lay_out(s, t, &own);
      t->collectives.exchange(t->collectives.self, &s->collective);
    }
    cel_done done;
    if (t->poll(t, &done, 1) == 0) continue;
    share *s = &all[done.ticket];
    wrong += s->ended || done.error != NULL || done.ticket >= (uint64_t)posted;
    cel_free(done.error);
    wrong += check(t, s);
    s->ended = true;
    ++ended;
    release(s);
  }
  cel_free(all);
  return wrong;
}
