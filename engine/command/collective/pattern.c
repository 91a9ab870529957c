#include "command/collective/pattern.h"

#include "command/collective/bcast_tree.h"
#include "tuning.h"

const char *cel_pattern_name(cel_pattern pattern) {
  static const char *const names[] = {
#define CEL_PATTERN_TEXT(NAME, name, text) #name,
      CEL_PATTERNS(CEL_PATTERN_TEXT)
#undef CEL_PATTERN_TEXT
  };
  return names[pattern];
}

/* ---- who has it and who reads it ------------------------------------------
 */

/* How many ranks have a part of the box, or so many at most where weights leave
 * some out. */
static int64_t ranks_with(const cel__rep *parts, const cel_box *box) {
  cel__ranks it;
  if (!cel__ranks_first(&it, parts, box)) return 0;
  int64_t n = 1;
  for (int32_t i = 0; i < it.axes; ++i) n *= it.axis[i].to - it.axis[i].from;
  return n < cel__rep_ranks(parts) ? n : cel__rep_ranks(parts);
}

/* Whether half of the ranks at least do, or so many that to send messages to
 * all of them takes longer than to look through tables of all ranks. */
static bool concerns_many(const cel__own *own, uint32_t parts,
                          const cel_box *box) {
  int64_t n = ranks_with(cel__rep_at(&own->reps, parts), box);
  return 2 * n >= own->ranks || (n >= CEL_TUNE_COLLECTIVE_MANY &&
                                 CEL_TUNE_COLLECTIVE_MANY * n >= own->ranks);
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
  cel_box part, owned;
  if (!cel__rep_box(cel__rep_at(&own->reps, read), k, box, &part)) return 0;
  int64_t all = cel_box_volume(&part);
  return cel__own_part(own, v, k, &part, &owned) ? all - cel_box_volume(&owned)
                                                 : all;
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

static bool cut_alike(const cel__rep *a, const cel__rep *b, int d) {
  for (int side = CEL__LO; side <= CEL__HI; ++side)
    if (!cel__edge_equal(&a->end[d][side], &b->end[d][side])) return false;
  return true;
}

/* Dimension by dimension: what cuts both alike makes groups of ranks, of which
 * none exchanges anything with another; within a group what cuts the parts must
 * leave the reads whole. */
static cel_pattern match_subgroups(const cel__rep *parts, const cel__rep *read,
                                   bool *subgroups) {
  bool gathers = false, scatters = false;
  *subgroups = false;
  for (int d = 0; d < CEL_DIMS; ++d) {
    bool here = cel__rep_cuts(parts, d), there = cel__rep_cuts(read, d);
    if (here && there && !cut_alike(parts, read, d)) return CEL_PATTERN_NONE;
    *subgroups |= here && there;
    gathers |= here && !there;
    scatters |= there && !here;
  }
  if (!gathers) return CEL_PATTERN_NONE;
  return scatters ? CEL_PATTERN_ALL_TO_ALL : CEL_PATTERN_ALL_GATHER;
}

/* The most ranks that have something of what one reads, as far as three of them
 * tell. */
static int64_t subgroup_of(const cel__own *own, const cel__choice *choice,
                           const cel_box *box) {
  const cel__rep *have = cel__rep_at(&own->reps, choice->have);
  const cel__rep *read = cel__rep_at(&own->reps, choice->read);
  const int64_t asked[] = {0, own->ranks / 2, own->ranks - 1};
  int64_t most = 0;
  for (int i = 0; i < 3; ++i) {
    cel_box part;
    if (!cel__rep_box(read, asked[i], box, &part)) continue;
    int64_t n = ranks_with(have, &part);
    if (n > most) most = n;
  }
  return most;
}

/* One rank has it. */
static cel_pattern match_root(const cel__own *own, const cel__rep *read,
                              bool tiles, const cel_box *box,
                              cel__choice *out) {
  if (!concerns_many(own, out->read, box)) return CEL_PATTERN_NONE;
  if (cel__rep_is_full(read)) {
    out->some = cel__rep_ranks(read) < own->ranks;
    return CEL_PATTERN_BROADCAST;
  }
  out->pairs = !tiles;
  return CEL_PATTERN_SCATTER;
}

/* Each has a part. Where few have one that all read, each would send it to all,
 * and where few read all of which each has a part, each would get it from all:
 * that is worth a collective, other things are not then. */
static cel_pattern match_parts(const cel__own *own, const cel__rep *read,
                               const cel_box *box, cel__choice *out) {
  bool many = concerns_many(own, out->have, box);
  int64_t root = sole_reader(read, box);
  if (root >= 0) {
    out->root = root;
    return many ? CEL_PATTERN_GATHER : CEL_PATTERN_NONE;
  }
  bool full = cel__rep_is_full(read);
  bool read_by_many = concerns_many(own, out->read, box);
  if (full ? !many && !read_by_many : !many || !read_by_many)
    return CEL_PATTERN_NONE;
  if (full) {
    out->pairs = cel__rep_ranks(read) < own->ranks;
    return CEL_PATTERN_ALL_GATHER;
  }
  bool subgroups;
  cel_pattern pattern =
      match_subgroups(cel__rep_at(&own->reps, out->have), read, &subgroups);
  out->pairs = true;
  if (!subgroups || pattern == CEL_PATTERN_NONE) return pattern;
  out->subgroup = subgroup_of(own, out, box);
  return out->subgroup >= CEL_TUNE_COLLECTIVE_GROUP ||
                 2 * out->subgroup >= own->ranks
             ? pattern
             : CEL_PATTERN_NONE;
}

/* By the forms of the two functions alone. */
static cel__choice match(const cel__own *own, const cel__version *v,
                         uint32_t read_id, bool tiles, const cel_box *box) {
  const cel__rep *read = cel__rep_at(&own->reps, read_id);
  cel__choice out = {.read = read_id};
  if (read->list != NULL) return out;
  int64_t root = cel__own_sole(own, v, box);
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

/* ---- how much it is -------------------------------------------------------
 */

/* The most elements of a box that any rank has, reads, and gives to one other;
 * and how many read. */
typedef struct widest {
  int64_t has, reads, gives, readers;
} widest;

/* Of none, which means that a rank has all: null. */
static const cel__rep *rep_of(const cel__own *own, uint32_t id) {
  return id == CEL__NO_ID ? NULL : cel__rep_at(&own->reps, id);
}

static widest widest_of(const cel__own *own, const cel__choice *choice,
                        const cel_box *box) {
  int64_t width[2][CEL_DIMS];
  const cel__rep *read = cel__rep_at(&own->reps, choice->read);
  cel__rep_widths(rep_of(own, choice->have), box, width[0]);
  cel__rep_widths(read, box, width[1]);
  widest out = {1, 1, 1, read->n};
  for (int d = 0; d < CEL_DIMS; ++d) {
    out.has *= width[0][d];
    out.reads *= width[1][d];
    out.gives *= width[0][d] < width[1][d] ? width[0][d] : width[1][d];
  }
  return out;
}

static int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* What no rank counts more of: its own part, what it reads, all that it
 * gives. */
static int64_t most_counted(const cel__own *own, const cel__choice *choice,
                            bool tiles, const cel_box *box) {
  if (!choice->pairs) return cel_box_volume(box);
  widest w = widest_of(own, choice, box);
  int64_t held = greater(w.has, w.reads);
  if (tiles) return held;
  return w.gives > INT64_MAX / w.readers ? INT64_MAX
                                         : greater(held, w.gives * w.readers);
}

/* Whether what one gives to another may lie in rows of a device's memory with
 * gaps between them: unless it is of one coordinate, then of any, then of all
 * that the buffer has. In pairs it is what the one has and the other reads. */
static bool has_gaps(const cel__own *own, const cel__choice *choice,
                     const cel_box *box, const cel_box *extent) {
  uint32_t first = choice->pairs ? choice->have : cel__choice_parts(choice);
  const cel__rep *parts[] = {rep_of(own, first),
                             choice->pairs ? rep_of(own, choice->read) : NULL};
  int64_t width[2][CEL_DIMS];
  bool rows = true;
  for (int i = 0; i < 2; ++i) cel__rep_widths(parts[i], box, width[i]);
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    if (!rows && width[0][d] > 1 && width[1][d] > 1) return true;
    for (int i = 0; i < 2; ++i)
      rows = rows && (parts[i] == NULL || !cel__rep_cuts(parts[i], d));
    rows = rows && box->max[d] - box->min[d] == extent->max[d];
  }
  return false;
}

/* The most elements that a device may have to pack; what it gives to all alike
 * is packed once. */
static int64_t most_packed(const cel__own *own, const cel__choice *choice,
                           bool tiles, const cel_box *box,
                           const cel_box *extent) {
  if (!has_gaps(own, choice, box, extent)) return 0;
  if (!choice->pairs) return cel_box_volume(box);
  widest w = widest_of(own, choice, box);
  bool alike = tiles || choice->pattern == CEL_PATTERN_BROADCAST ||
               choice->pattern == CEL_PATTERN_ALL_GATHER;
  if (alike) return w.has + w.reads;
  return w.gives > INT64_MAX / 2 / w.readers ? INT64_MAX / 2
                                             : w.gives * w.readers + w.reads;
}

/* ---- whether it pays ------------------------------------------------------
 */

/* Between devices: what is packed takes memory that nobody else has then. */
static bool is_for_devices(const cel__own *own, const cel__choice *choice,
                           bool tiles, const cel_box *box,
                           const cel_buffer *buffer) {
  const cel_collective_limits *limits = &own->collective;
  uint64_t size = buffer->element_size;
  uint64_t bytes = (uint64_t)cel_box_volume(box) * size;
  if (!limits->pairs &&
      (choice->pairs || cel_pattern_is_by_parts(choice->pattern)))
    return false;
  bool alike = choice->pattern == CEL_PATTERN_BROADCAST ||
               choice->pattern == CEL_PATTERN_ALL_GATHER;
  return bytes >= (alike ? limits->least : limits->least_parts) &&
         bytes <= limits->most &&
         (uint64_t)most_packed(own, choice, tiles, box, &buffer->extent) <=
             limits->packed_most / size;
}

/* A broadcast of much goes by messages, from rank to rank if they are many: MPI
 * moves it in many parts, each of which waits until the ranks before look
 * again; unless they are many of whom some have it already, who cannot pass it
 * on. And those that do not read it have to find room for it, which is nothing
 * if it is small. */
static bool is_for_broadcast(const cel__own *own, const cel__version *v,
                             uint64_t bytes, cel__choice *choice) {
  int64_t readers = cel__rep_ranks(cel__rep_at(&own->reps, choice->read));
  bool passed = cel__bcast_tree_may(own, v, choice->read, bytes);
  if (bytes <= own->small && (2 * readers >= own->ranks || !passed))
    return true;
  choice->pairs = choice->some;
  choice->some = false;
  return readers >= own->tree_least && !passed;
}

/* Whether a collective pays for what any two ranks exchange: one saves what
 * messages cost, however small they are, and is no faster at moving what is
 * large. But that of which each has a part for all is the less for MPI to do.
 */
static bool is_for_collective(const cel__own *own, const cel__version *v,
                              cel__choice *choice, bool tiles,
                              const cel_box *box, const cel_buffer *buffer) {
  uint64_t size = buffer->element_size;
  if (own->collective.devices > 0) {
    choice->pairs |= choice->some;
    choice->some = false;
    return is_for_devices(own, choice, tiles, box, buffer);
  }
  if (choice->pattern == CEL_PATTERN_BROADCAST)
    return is_for_broadcast(own, v, (uint64_t)cel_box_volume(box) * size,
                            choice);
  if (choice->pattern == CEL_PATTERN_ALL_GATHER && !choice->pairs) return true;
  widest w = widest_of(own, choice, box);
  return (uint64_t)w.gives <= own->small / size;
}

cel__choice cel__pattern_choose(cel__own *own, const cel__version *v,
                                uint32_t read, bool tiles, const cel_box *box,
                                const cel_buffer *buffer) {
  cel__choice choice = match(own, v, read, tiles, box);
  if (choice.pattern == CEL_PATTERN_NONE ||
      !is_for_collective(own, v, &choice, tiles, box, buffer) ||
      !pays(own, v, &choice, box))
    return (cel__choice){.pattern = CEL_PATTERN_NONE};
  choice.most = most_counted(own, &choice, tiles, box);
  choice.wide = choice.most > own->count_most;
  if (own->collective.devices > 0 ||
      (choice.pattern == CEL_PATTERN_BROADCAST && !choice.pairs))
    choice.wide = false; /* it has no counts: only MPI counts */
  choice.pairs |= choice.wide;
  return choice;
}
