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

/* Whether half of the ranks at least have a part of the box. */
static bool concerns_half(const cel__own *own, uint32_t parts,
                          const cel_box *box) {
  cel__ranks it;
  if (!cel__ranks_first(&it, cel__rep_at(&own->reps, parts), box)) return false;
  int64_t n = 1;
  for (int32_t i = 0; i < it.axes; ++i) n *= it.axis[i].to - it.axis[i].from;
  return 2 * n >= own->ranks;
}

/* What the choice brings to rank k. */
static int64_t brought(const cel__own *own, const cel__version *v,
                       const cel__choice *choice, int64_t k,
                       const cel_box *box) {
  cel_box part;
  bool scatter = choice->pattern == CEL_PATTERN_SCATTER;
  if (!scatter && choice->pattern != CEL_PATTERN_ALL_TO_ALL)
    return cel_box_volume(box) - owned(own, v, k, box);
  if (scatter && k == choice->root) return 0;
  const cel__rep *reads =
      cel__rep_at(&own->reps, scatter ? choice->parts : choice->reads);
  if (!cel__rep_box(reads, k, box, &part)) return 0;
  return cel_box_volume(&part) - (scatter ? 0 : owned(own, v, k, &part));
}

/* Whether enough of what a collective would bring is missing. */
static bool pays(cel__own *own, const cel__version *v, uint32_t read,
                 const cel__choice *choice, const cel_box *box) {
  if (v->reps == 0) return true;
  int64_t lacked = 0, all = 0;
  const int64_t asked[] = {0, own->ranks / 2, own->ranks - 1};
  for (int i = 0; i < (choice->pattern == CEL_PATTERN_GATHER ? 1 : 3); ++i) {
    lacked += cel__own_lacked(own, v, read, asked[i], box);
    all += brought(own, v, choice, asked[i], box);
  }
  return lacked > 0 && 2 * lacked >= all;
}

static bool cuts(const cel__rep *rep, int d) {
  return rep->end[d][CEL__LO].open || rep->end[d][CEL__HI].open;
}

/* Whether whoever reads reads some of each part. */
static bool crosses(const cel__rep *parts, const cel__rep *read) {
  if (parts->list != NULL || read->list != NULL) return false;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (cuts(parts, d) && cuts(read, d)) return false;
  return !cel__rep_is_full(parts) && !cel__rep_is_full(read);
}

/* By the forms of the two functions alone. */
static cel__choice match(const cel__own *own, const cel__version *v,
                         uint32_t read, bool tiles, const cel_box *box) {
  const cel__rep *rep = cel__rep_at(&own->reps, read);
  int64_t root = sole_owner(own, v, box);
  if (cel__rep_is_full(rep) && rep->n == own->ranks && root >= 0)
    return (cel__choice){.pattern = CEL_PATTERN_BROADCAST, .root = root};
  if (cel__rep_is_full(rep) && rep->n == own->ranks)
    return (cel__choice){CEL_PATTERN_ALL_GATHER, 0, v->owner, CEL__NO_ID};
  if (cel__rep_is_full(rep) && rep->n == 1 && root < 0 &&
      concerns_half(own, v->owner, box))
    return (cel__choice){CEL_PATTERN_GATHER, 0, v->owner, CEL__NO_ID};
  if (tiles && rep->n > 1 && !cel__rep_is_full(rep) && root >= 0 &&
      concerns_half(own, read, box))
    return (cel__choice){CEL_PATTERN_SCATTER, root, read, CEL__NO_ID};
  if (root < 0 && crosses(cel__rep_at(&own->reps, v->owner), rep) &&
      concerns_half(own, v->owner, box) && concerns_half(own, read, box))
    return (cel__choice){CEL_PATTERN_ALL_TO_ALL, 0, v->owner, read};
  return (cel__choice){.pattern = CEL_PATTERN_NONE};
}

/* Counts are ints to those who carry it out. */
static bool countable(const cel__own *own, const cel__choice *choice,
                      const cel_box *box) {
  if (choice->pattern != CEL_PATTERN_ALL_TO_ALL)
    return cel_box_volume(box) <= INT32_MAX;
  const cel__reps *reps = &own->reps;
  return cel__rep_most(cel__rep_at(reps, choice->parts), box) <= INT32_MAX &&
         cel__rep_most(cel__rep_at(reps, choice->reads), box) <= INT32_MAX;
}

cel__choice cel__pattern_choose(cel__own *own, const cel__version *v,
                                uint32_t read, bool tiles, const cel_box *box) {
  cel__choice none = {.pattern = CEL_PATTERN_NONE};
  cel__choice choice = match(own, v, read, tiles, box);
  if (choice.pattern == CEL_PATTERN_NONE || !countable(own, &choice, box))
    return none;
  return pays(own, v, read, &choice, box) ? choice : none;
}
