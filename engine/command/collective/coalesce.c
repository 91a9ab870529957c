#include "command/collective/coalesce.h"

#include <string.h>

/* What it takes to pack it, or more. */
static uint64_t bytes_of(const cel__together *t) {
  uint64_t size = t->buffer->element_size;
  uint64_t most = (uint64_t)t->choice.most;
  if (t->choice.some) return UINT64_MAX; /* who does not read has no room */
  return most > UINT64_MAX / size ? UINT64_MAX : most * size;
}

/* Whether all get all of it. */
static bool is_to_all(const cel__choice *choice) {
  return !choice->pairs && (choice->pattern == CEL_PATTERN_BROADCAST ||
                            choice->pattern == CEL_PATTERN_ALL_GATHER);
}

static bool meets_one(const cel__together *first, uint32_t n,
                      const cel__together *other) {
  for (uint32_t i = 0; i < n; ++i)
    if (first[i].buffer == other->buffer &&
        cel_box_meets(&first[i].box, &other->box))
      return true;
  return false;
}

/* What is from one root stays that; else each has a part, or goes in pairs. */
static void agree(cel__together *first, uint32_t n) {
  bool to_all = is_to_all(&first->choice), one_root = true;
  for (uint32_t i = 0; i < n; ++i)
    one_root &= first[i].choice.pattern == CEL_PATTERN_BROADCAST &&
                first[i].choice.root == first->choice.root;
  for (uint32_t i = 0; i < n; ++i) {
    first[i].coalesced = i > 0;
    if (!to_all)
      first[i].choice.pairs = true;
    else if (!one_root)
      first[i].choice.pattern = CEL_PATTERN_ALL_GATHER;
  }
}

void cel__coalesce(cel__traffic *traffic, const cel__own *own, uint64_t small,
                   uint64_t large) {
  cel__together *t = traffic->together.at;
  uint32_t all = traffic->together.n;
  uint64_t most = (uint64_t)own->count_most;
  if (own->collective.devices > 0) return;
  if (large < most) most = large;
  for (uint32_t n, first = 0; first < all; first += n) {
    uint64_t sum = bytes_of(&t[first]);
    n = 1;
    if (sum > small) continue;
    for (uint32_t i = first + 1; i < all; ++i) {
      uint64_t more = bytes_of(&t[i]);
      if (more > small || more > most || sum > most - more ||
          is_to_all(&t[i].choice) != is_to_all(&t[first].choice) ||
          meets_one(&t[first], n, &t[i]))
        continue;
      sum += more;
      cel__together moved = t[i]; /* the ones between move up */
      uint32_t at = first + n++;
      memmove(&t[at + 1], &t[at], (i - at) * sizeof *t);
      t[at] = moved;
    }
    if (n > 1) agree(&t[first], n);
  }
}
