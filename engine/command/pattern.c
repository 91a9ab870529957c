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

/* The rank that reads all of it while nobody else reads any, or -1. */
static int64_t sole_reader(const cel__rep *read, const cel_box *box) {
  cel__ranks it;
  cel_box part;
  if (read->list != NULL || !cel__ranks_first(&it, read, box)) return -1;
  int64_t rank = it.rank;
  if (!cel__rep_box(read, rank, box, &part) || !cel_box_equal(&part, box))
    return -1;
  return cel__ranks_next(&it) ? -1 : rank;
}

/* What a collective brings to rank k. */
static int64_t brought(const cel__own *own, const cel__version *v,
                       uint32_t read, int64_t k, const cel_box *box) {
  cel_box part;
  if (!cel__rep_box(cel__rep_at(&own->reps, read), k, box, &part)) return 0;
  return cel_box_volume(&part) - owned(own, v, k, &part);
}

/* Whether enough of what a collective would bring is missing. */
static bool pays(cel__own *own, const cel__version *v,
                 const cel__choice *choice, const cel_box *box) {
  if (v->reps == 0) return true;
  bool one = choice->pattern == CEL_PATTERN_GATHER;
  int64_t lacked = 0, all = 0, last = own->ranks - 1;
  const int64_t asked[] = {one ? choice->root : 0, own->ranks / 2, last};
  for (int i = 0; i < (one ? 1 : 3); ++i) {
    lacked += cel__own_lacked(own, v, choice->read, asked[i], box);
    all += brought(own, v, choice->read, asked[i], box);
  }
  return lacked > 0 && 2 * lacked >= all;
}

static bool cuts(const cel__rep *rep, int d) {
  return rep->end[d][CEL__LO].open || rep->end[d][CEL__HI].open;
}

/* Whether whoever reads reads some of each part. */
static bool crosses(const cel__rep *parts, const cel__rep *read) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (cuts(parts, d) && cuts(read, d)) return false;
  return !cel__rep_is_full(parts) && !cel__rep_is_full(read);
}

/* One rank has it. */
static cel_pattern match_root(const cel__own *own, const cel__rep *read,
                              bool tiles, const cel_box *box,
                              cel__choice *out) {
  if (!concerns_half(own, out->read, box)) return CEL_PATTERN_NONE;
  if (cel__rep_is_full(read)) {
    out->pairs = read->n < own->ranks;
    return CEL_PATTERN_BROADCAST;
  }
  out->pairs = !tiles;
  return CEL_PATTERN_SCATTER;
}

/* Each has a part. Where few have one that all read, each would send it to all:
 * that is worth a collective, other things are not then. */
static cel_pattern match_parts(const cel__own *own, const cel__rep *read,
                               const cel_box *box, cel__choice *out) {
  bool half = concerns_half(own, out->have, box);
  int64_t root = sole_reader(read, box);
  if (root >= 0) {
    out->root = root;
    return half ? CEL_PATTERN_GATHER : CEL_PATTERN_NONE;
  }
  if (!half && !cel__rep_is_full(read)) return CEL_PATTERN_NONE;
  if (!concerns_half(own, out->read, box)) return CEL_PATTERN_NONE;
  if (cel__rep_is_full(read)) {
    out->pairs = read->n < own->ranks;
    return CEL_PATTERN_ALL_GATHER;
  }
  out->pairs = true;
  return crosses(cel__rep_at(&own->reps, out->have), read)
             ? CEL_PATTERN_ALL_TO_ALL
             : CEL_PATTERN_NONE;
}

/* By the forms of the two functions alone. */
static cel__choice match(const cel__own *own, const cel__version *v,
                         uint32_t read_id, bool tiles, const cel_box *box) {
  const cel__rep *read = cel__rep_at(&own->reps, read_id);
  cel__choice out = {.read = read_id};
  if (read->list != NULL) return out;
  int64_t root = sole_owner(own, v, box);
  if (root >= 0) {
    out.root = root;
    out.pattern = sole_reader(read, box) >= 0
                      ? CEL_PATTERN_NONE
                      : match_root(own, read, tiles, box, &out);
  } else {
    out.have = v->owner;
    out.pattern = match_parts(own, read, box, &out);
  }
  return out;
}

/* Whether what some rank counts may be more than `most`: its own part, what it
 * reads, all that it gives. */
static bool is_wide(const cel__own *own, const cel__choice *choice, bool tiles,
                    const cel_box *box) {
  int64_t most = own->count_most;
  if (!choice->pairs) return cel_box_volume(box) > most;
  int64_t width[2][CEL_DIMS], size[2] = {1, 1}, both = 1;
  const cel__rep *read = cel__rep_at(&own->reps, choice->read), *have = NULL;
  if (choice->have != CEL__NO_ID) have = cel__rep_at(&own->reps, choice->have);
  cel__rep_widths(have, box, width[0]);
  cel__rep_widths(read, box, width[1]);
  for (int d = 0; d < CEL_DIMS; ++d) {
    size[0] *= width[0][d];
    size[1] *= width[1][d];
    both *= width[0][d] < width[1][d] ? width[0][d] : width[1][d];
  }
  bool given = !tiles && both > most / read->n;
  return size[0] > most || size[1] > most || given;
}

cel__choice cel__pattern_choose(cel__own *own, const cel__version *v,
                                uint32_t read, bool tiles, const cel_box *box) {
  cel__choice choice = match(own, v, read, tiles, box);
  if (choice.pattern == CEL_PATTERN_NONE || !pays(own, v, &choice, box))
    return (cel__choice){.pattern = CEL_PATTERN_NONE};
  choice.wide = is_wide(own, &choice, tiles, box);
  if (choice.pattern == CEL_PATTERN_BROADCAST && !choice.pairs)
    choice.wide = false; /* it has no counts */
  choice.pairs |= choice.wide;
  return choice;
}
