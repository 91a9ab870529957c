#include "comm/spread.h"

#include <string.h>

#include "base/hash.h"
#include "base/vec.h"

enum { GAP = 24, UNTOUCHED = 0x5a };

static uint8_t byte_of(uint64_t nth, uint64_t at) {
  uint64_t key[] = {nth, at};
  return (uint8_t)cel_hash(key, sizeof key, 0);
}

static bool broadcasts(const spread *s) {
  return s->joint.pattern == CEL_PATTERN_BROADCAST;
}

static bool of_member(const spread *s, int64_t member, uint64_t row) {
  return row >= s->start[member] && row < s->start[member] + s->count[member];
}

static bool whole(const spread *s) {
  return broadcasts(s) || s->joint.pattern == CEL_PATTERN_ALL_GATHER ||
         s->joint.root == s->member;
}

static bool has_at_first(const spread *s, uint64_t row) {
  bool from_root = broadcasts(s) || s->joint.pattern == CEL_PATTERN_SCATTER;
  return from_root ? s->joint.root == s->member : of_member(s, s->member, row);
}

/* What all know of it. */
static void plan(spread *s, cel_random *shared) {
  bool even = cel_random_chance(shared, 40);
  int64_t top = cel_random_chance(shared, 15) ? 3000 : 12;
  uint64_t all = (uint64_t)cel_random_int(shared, 1, 20);
  s->joint.pattern = (cel_pattern)cel_random_int(shared, CEL_PATTERN_BROADCAST,
                                                 CEL_PATTERN_ALL_GATHER);
  s->run = (uint64_t)cel_random_int(shared, 1, top);
  for (int64_t k = 0; k < s->members; ++k) {
    s->count[k] = cel_random_chance(shared, 20)
                      ? 0
                      : (uint64_t)cel_random_int(shared, 1, 20);
    if (even) s->count[k] = all;
  }
  s->count[0] += s->count[0] == 0 && cel_random_chance(shared, 50);
  for (int64_t k = 0; k < s->members; ++k) {
    s->start[k] = s->rows;
    s->rows += s->count[k];
  }
  if (s->rows == 0) s->rows = s->count[s->members - 1] = 1;
  s->joint.root = cel_random_int(shared, 0, s->members - 1);
  s->joint.bytes = s->rows * s->run;
  s->joint.even = even;
}

/* Rows in one plane, or in several where there is one more gap. */
static cel_strided rows_at(const spread *s, uint64_t first, uint64_t n) {
  uint8_t *base = s->memory + first * s->stride;
  if (s->stride == s->run)
    return (cel_strided){.base = base, .count = {1, 1}, .run = n * s->run};
  return (cel_strided){.base = base,
                       .count = {1, n},
                       .stride = {n * s->stride, s->stride},
                       .run = s->run};
}

void spread_make(spread *s, uint64_t nth, int64_t member, int32_t devices,
                 int64_t members, cel_random *shared, cel_random *own) {
  size_t n = (size_t)members;
  *s = (spread){.member = member, .members = members};
  s->joint.nth = nth;
  s->joint.device = (int32_t)(member % devices);
  s->count = cel_alloc_zero(n * sizeof *s->count);
  s->start = cel_alloc_zero(n * sizeof *s->start);
  s->piece = cel_alloc_zero(n * sizeof *s->piece);
  plan(s, shared);
  s->stride = s->run;
  if (cel_random_chance(own, 40))
    s->stride += (uint64_t)cel_random_int(own, 1, GAP);
}

uint64_t spread_room(const spread *s) {
  return s->rows * s->stride;
}

void spread_fill(spread *s, uint8_t *memory) {
  s->memory = memory;
  memset(memory, UNTOUCHED, spread_room(s));
  if (broadcasts(s)) s->piece[0] = rows_at(s, 0, s->rows);
  for (int64_t k = 0; k < s->members && !broadcasts(s); ++k)
    if (s->count[k] > 0 && (whole(s) || k == s->member))
      s->piece[k] = rows_at(s, s->start[k], s->count[k]);
  s->joint.pieces = broadcasts(s) ? 1 : (uint32_t)s->members;
  s->joint.piece = s->piece;
  for (uint64_t row = 0; row < s->rows; ++row)
    for (uint64_t i = 0; i < s->run && has_at_first(s, row); ++i)
      memory[row * s->stride + i] = byte_of(s->joint.nth, row * s->run + i);
}

uint64_t spread_check(const spread *s) {
  uint64_t wrong = 0;
  for (uint64_t row = 0; row < s->rows; ++row)
    for (uint64_t i = 0; i < s->stride; ++i) {
      bool here =
          has_at_first(s, row) || whole(s) || of_member(s, s->member, row);
      uint8_t want = here && i < s->run
                         ? byte_of(s->joint.nth, row * s->run + i)
                         : UNTOUCHED;
      wrong += s->memory[row * s->stride + i] != want;
    }
  return wrong;
}

void spread_release(spread *s) {
  cel_free(s->count);
  cel_free(s->start);
  cel_free(s->piece);
}
