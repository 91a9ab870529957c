#include "command/pattern.h"

const char *cel_pattern_name(cel_pattern pattern) {
  static const char *const names[] = {
#define CEL_PATTERN_TEXT(NAME, name, text) #name,
      CEL_PATTERNS(CEL_PATTERN_TEXT)
#undef CEL_PATTERN_TEXT
  };
  return names[pattern];
}

/* Elements of `box` that rank k owns. */
static int64_t owned(const cel__own *own, const cel__version *v, int64_t k,
                     const cel_box *box) {
  cel_box part;
  if (v->owner_kind == CEL__ONE_RANK)
    return (int64_t)v->owner == k ? cel_box_volume(box) : 0;
  const cel__rep *parts = cel__rep_at(&own->reps, v->owner);
  return cel__rep_box(parts, k, box, &part) ? cel_box_volume(&part) : 0;
}

/* The rank that has all of it, or -1. An entry may lie within one rank's
 * part. */
static int64_t sole_owner(const cel__own *own, const cel__version *v,
                          const cel_box *box) {
  if (v->owner_kind == CEL__ONE_RANK) return v->owner;
  cel__ranks it;
  if (!cel__ranks_first(&it, cel__rep_at(&own->reps, v->owner), box)) return -1;
  return owned(own, v, it.rank, box) == cel_box_volume(box) ? it.rank : -1;
}

/* Whether enough of what a collective would bring is missing. */
static bool pays(cel__own *own, const cel__version *v, uint32_t read,
                 const cel_box *box) {
  if (v->reps == 0) return true;
  int64_t lacked = 0, brought = 0;
  const int64_t asked[] = {0, own->ranks / 2, own->ranks - 1};
  for (int i = 0; i < 3; ++i) {
    lacked += cel__own_lacked(own, v, read, asked[i], box);
    brought += cel_box_volume(box) - owned(own, v, asked[i], box);
  }
  return lacked > 0 && 2 * lacked >= brought;
}

cel__choice cel__pattern_choose(cel__own *own, const cel__version *v,
                                uint32_t read, const cel_box *box) {
  const cel__rep *rep = cel__rep_at(&own->reps, read);
  cel__choice none = {CEL_PATTERN_NONE, 0};
  if (!cel__rep_is_full(rep) || rep->n < own->ranks) return none;
  /* Counts are ints to those who carry it out. */
  if (cel_box_volume(box) > INT32_MAX) return none;
  if (!pays(own, v, read, box)) return none;
  int64_t root = sole_owner(own, v, box);
  if (root >= 0) return (cel__choice){CEL_PATTERN_BROADCAST, root};
  return (cel__choice){CEL_PATTERN_ALL_GATHER, 0};
}
