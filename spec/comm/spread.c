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
  return s->collective.pattern == CEL_PATTERN_BROADCAST;
}

static bool in_pairs(const spread *s) {
  return s->collective.pattern == CEL_PATTERN_ALL_TO_ALL;
}

static bool is_reduced(const spread *s) {
  return s->collective.pattern == CEL_PATTERN_ALL_REDUCE;
}

static bool of_member(const spread *s, int64_t member, uint64_t row) {
  return row >= s->start[member] && row < s->start[member] + s->count[member];
}

static bool whole(const spread *s) {
  return broadcasts(s) || s->collective.pattern == CEL_PATTERN_ALL_GATHER ||
         s->collective.root == s->member;
}

static bool has_at_first(const spread *s, uint64_t row) {
  bool from_root =
      broadcasts(s) || s->collective.pattern == CEL_PATTERN_SCATTER;
  return from_root ? s->collective.root == s->member
                   : of_member(s, s->member, row);
}

/* ---- what all know of it ------------------------------------------------- */

static uint64_t *pair_of(const spread *s, int64_t giver, int64_t getter) {
  return &s->pair[giver * s->members + getter];
}

/* Rows that one gives to another; to all alike, or to nobody. */
static void plan_pairs(spread *s, cel_random *shared) {
  uint64_t all = 0;
  s->alike = cel_random_chance(shared, 30);
  for (int64_t a = 0; a < s->members; ++a) {
    uint64_t same = (uint64_t)cel_random_int(shared, 1, 20);
    for (int64_t b = 0; b < s->members; ++b) {
      uint64_t n = (uint64_t)cel_random_int(shared, 1, 20);
      bool none = cel_random_chance(shared, 25) || a == b;
      *pair_of(s, a, b) = none ? 0 : s->alike ? same : n;
      all += *pair_of(s, a, b);
    }
  }
  s->collective.bytes = all * s->run;
}

static void plan_parts(spread *s, cel_random *shared) {
  bool even = cel_random_chance(shared, 40);
  uint64_t all = (uint64_t)cel_random_int(shared, 1, 20);
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
  s->collective.root = cel_random_int(shared, 0, s->members - 1);
  s->collective.bytes = s->rows * s->run;
  s->collective.even = even;
}

/* By one of those that are for GPUs, of rows of one number. */
static void plan_reduction(spread *s, cel_random *shared) {
  static const uint32_t sizes[] = {1, 4, 8};
  static const int32_t classes[] = {'i', 'u', 'b'};
  cel_operator *by = &s->collective.by;
  do {
    by->op = (cel_op)cel_random_int(shared, CEL_OP_SUM, CEL_OP_OR);
    by->class_ = classes[cel_random_int(shared, 0, 2)];
    by->size = by->class_ == 'b' ? 1 : sizes[cel_random_int(shared, 0, 2)];
  } while (!cel_operator_is_for_gpus(by));
  s->run = by->size;
  s->rows = (uint64_t)cel_random_int(shared, 1, 900);
  s->collective.bytes = s->rows * s->run;
  s->collective.zero = by->op == CEL_OP_SUM && s->collective.device > 0;
}

static void plan(spread *s, cel_random *shared) {
  int64_t top = cel_random_chance(shared, 15) ? 3000 : 12;
  s->collective.pattern = (cel_pattern)cel_random_int(
      shared, CEL_PATTERN_BROADCAST, CEL_PATTERN_ALL_REDUCE);
  s->run = (uint64_t)cel_random_int(shared, 1, top);
  if (in_pairs(s))
    plan_pairs(s, shared);
  else if (is_reduced(s))
    plan_reduction(s, shared);
  else
    plan_parts(s, shared);
}

/* ---- where it is in memory ----------------------------------------------- */

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

/* Without memory yet it says how many rows there are. */
static void place_pairs(spread *s) {
  uint64_t row = 0, last = 0;
  bool here = s->memory != NULL;
  for (int64_t b = 0; b < s->members; ++b) {
    uint64_t n = *pair_of(s, s->member, b);
    if (n > 0 && here) s->piece[b] = rows_at(s, row, n);
    if (n > 0) last = row + n;
    if (!s->alike) row += n;
  }
  row = last;
  for (int64_t a = 0; a < s->members; ++a) {
    uint64_t n = *pair_of(s, a, s->member);
    if (n > 0 && here) s->piece[s->members + a] = rows_at(s, row, n);
    row += n;
  }
  s->rows = row;
}

static void place(spread *s) {
  bool one = broadcasts(s) || is_reduced(s);
  if (in_pairs(s)) place_pairs(s);
  if (one) s->piece[0] = rows_at(s, 0, s->rows);
  for (int64_t k = 0; k < s->members && !one && !in_pairs(s); ++k)
    if (s->count[k] > 0 && (whole(s) || k == s->member))
      s->piece[k] = rows_at(s, s->start[k], s->count[k]);
}

void spread_make(spread *s, uint64_t nth, int64_t member, int32_t devices,
                 int64_t members, cel_random *shared, cel_random *own) {
  size_t n = (size_t)members;
  *s = (spread){.member = member, .members = members};
  s->collective.nth = nth;
  s->collective.device = (int32_t)(member % devices);
  s->devices = (uint32_t)devices;
  s->count = cel_alloc_zero(n * sizeof *s->count);
  s->start = cel_alloc_zero(n * sizeof *s->start);
  s->pair = cel_alloc_zero(n * n * sizeof *s->pair);
  s->piece = cel_alloc_zero(2 * n * sizeof *s->piece);
  plan(s, shared);
  s->stride = s->run;
  if (cel_random_chance(own, 40) && !is_reduced(s))
    s->stride += (uint64_t)cel_random_int(own, 1, GAP);
  if (in_pairs(s)) place_pairs(s);
}

uint64_t spread_room(const spread *s) {
  return s->rows * s->stride + 1;
}

/* ---- contents ------------------------------------------------------------ */

/* The bytes of a piece within `image`, as giver and getter know them. */
static void write_pair(const spread *s, uint8_t *image, const cel_strided *at,
                       int64_t giver, int64_t getter) {
  uint64_t n = *pair_of(s, giver, getter), of = (uint64_t)giver * 64;
  if (!s->alike) of += (uint64_t)getter;
  if (n > 0) image += (uint8_t *)at->base - s->memory;
  for (uint64_t i = 0; i < n * s->run; ++i)
    image[i / s->run * s->stride + i % s->run] =
        byte_of(s->collective.nth, of << 32 | i);
}

static void write_pairs(const spread *s, uint8_t *image, bool after) {
  for (int64_t k = 0; k < s->members; ++k) {
    write_pair(s, image, &s->piece[k], s->member, k);
    if (after) write_pair(s, image, &s->piece[s->members + k], k, s->member);
  }
}

/* A rank's devices have the same; truth values are 0 and 1. */
static void write_numbers(const spread *s, uint8_t *image, int64_t member) {
  uint64_t rank = (uint64_t)member / s->devices;
  bool truth = s->collective.by.class_ == 'b';
  for (uint64_t i = 0; i < s->collective.bytes; ++i)
    image[i] = byte_of(s->collective.nth, rank << 32 | i) & (truth ? 1 : 0xff);
}

static void write_reduced(const spread *s, uint8_t *image) {
  uint8_t *one = cel_alloc(s->collective.bytes);
  write_numbers(s, image, 0);
  for (int64_t k = s->devices; k < s->members; k += s->devices) {
    write_numbers(s, one, k);
    cel_operator_fold(&s->collective.by, image, one, s->collective.bytes);
  }
  cel_free(one);
}

/* What is there before, or after. */
static void write_all(const spread *s, uint8_t *image, bool after) {
  memset(image, UNTOUCHED, spread_room(s));
  if (in_pairs(s)) {
    write_pairs(s, image, after);
    return;
  }
  if (is_reduced(s)) {
    if (after)
      write_reduced(s, image);
    else if (!s->collective.zero)
      write_numbers(s, image, s->member);
    return;
  }
  for (uint64_t row = 0; row < s->rows; ++row) {
    bool got = after && (whole(s) || of_member(s, s->member, row));
    for (uint64_t i = 0; i < s->run && (got || has_at_first(s, row)); ++i)
      image[row * s->stride + i] = byte_of(s->collective.nth, row * s->run + i);
  }
}

void spread_fill(spread *s, uint8_t *memory) {
  s->memory = memory;
  place(s);
  s->collective.pieces =
      broadcasts(s) || is_reduced(s) ? 1 : (uint32_t)s->members;
  s->collective.piece = s->piece;
  s->collective.from = s->piece + s->members;
  write_all(s, memory, false);
}

uint64_t spread_check(spread *s) {
  uint64_t wrong = 0, n = spread_room(s);
  place(s); /* where the host sees it */
  uint8_t *wanted = cel_alloc(n);
  write_all(s, wanted, true);
  for (uint64_t i = 0; i < n; ++i) wrong += s->memory[i] != wanted[i];
  cel_free(wanted);
  return wrong;
}

void spread_release(spread *s) {
  cel_free(s->count);
  cel_free(s->start);
  cel_free(s->pair);
  cel_free(s->piece);
}
