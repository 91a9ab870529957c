#include "task/check.h"

#include <string.h>

#include "base/hash.h"
#include "region/map.h"
#include "rule/eval.h"
#include "rule/listing.h"

enum {
  SLOTS = 256,
  PAIRS = 64,
  KEPT = 1024, /* boxes of an image that is kept: others are evaluated again */
  BOX_TEXT = 160
};

/* All that a verdict depends on. Compared as bytes: cleared before filling. */
typedef struct key {
  uint64_t rule; /* its id: a rule that is gone has none */
  cel_box range, extent;
  int64_t granularity[3];
  bool cut[3], consumes, produces, device;
  int32_t placement, params;
  int64_t param[CEL_RULE_PARAMS];
} key;

typedef struct slot {
  key key;
  cel_region image; /* none where it is more than KEPT boxes */
  bool exact, disjoint, kept;
} slot;

/* Two accesses of one buffer that were looked at together; compared as bytes.
 */
typedef struct pair {
  uint64_t rule[2];
  cel_box range, extent;
  int64_t granularity[3];
  bool cut[3], reads; /* the first reads, the second writes; else both write */
  int32_t placement;
  int64_t param[2][CEL_RULE_PARAMS];
} pair;

struct cel__checks {
  int64_t ranks;
  uint64_t hash[SLOTS];      /* 0: the slot holds no verdict */
  slot *slots[SLOTS];        /* null until it is used */
  pair *pairs;               /* null until a task has two such accesses */
  bool pair_disjoint[PAIRS]; /* writes: proved; a read and a write: not refuted
                              */
};

cel__checks *cel__checks_create(int64_t ranks) {
  cel__checks *checks = cel_alloc_zero(sizeof *checks);
  checks->ranks = ranks;
  return checks;
}

void cel__checks_destroy(cel__checks *checks) {
  for (int i = 0; i < SLOTS; ++i) {
    if (checks->slots[i] == NULL) continue;
    cel_region_release(&checks->slots[i]->image);
    cel_free(checks->slots[i]);
  }
  cel_free(checks->pairs);
  cel_free(checks);
}

size_t cel__checks_bytes(const cel__checks *checks) {
  size_t sum = sizeof *checks;
  if (checks->pairs != NULL) sum += PAIRS * sizeof(pair);
  for (int i = 0; i < SLOTS; ++i)
    if (checks->slots[i] != NULL)
      sum += sizeof(slot) + checks->slots[i]->image.cap * sizeof(cel_box);
  return sum;
}

/* ---- texts --------------------------------------------------------------- */

/* A counter-example in words. */
typedef struct shown {
  char a[BOX_TEXT], b[BOX_TEXT], point[BOX_TEXT];
} shown;

static shown show(const cel_group *group, const cel_access *access,
                  const cel_counter_example *why) {
  shown s;
  cel_box_print(&why->a, group->dims, s.a, sizeof s.a);
  cel_box_print(&why->b, group->dims, s.b, sizeof s.b);
  cel_box_print_point(why->point, access->buffer->dims, s.point,
                      sizeof s.point);
  return s;
}

static cel_status fail_left(const cel_group *group, const cel_access *access,
                            bool left) {
  const cel_error *inner = cel_error_last();
  cel_fail(inner->code,
           "task '%s': the mapper of its %s access to buffer '%s' %s: %s%s",
           cel__name_of(group->name), cel_mode_name(access->mode),
           cel__name_of(access->buffer->name),
           left ? "does not stay within the buffer" : "cannot be evaluated",
           inner->text,
           left ? "; clamp it to the buffer or shrink the task's range" : "");
  return cel_fail_at(group->location.file, group->location.line);
}

static cel_status fail_overlap(const cel_group *group, const cel_access *access,
                               const cel_counter_example *why) {
  shown s = show(group, access, why);
  cel_fail(CEL_E_OVERLAP,
           "task '%s': its %s access to buffer '%s' overlaps: chunks %s and %s "
           "both write element %s; map every chunk to elements of its own, "
           "permit only splits that keep them apart, or reduce into it",
           cel__name_of(group->name), cel_mode_name(access->mode),
           cel__name_of(access->buffer->name), s.a, s.b, s.point);
  return cel_fail_at(group->location.file, group->location.line);
}

static cel_status fail_pair(const cel_group *group, uint32_t i, uint32_t j,
                            const cel_counter_example *why) {
  const cel_access *x = &group->access[i], *y = &group->access[j];
  shown s = show(group, x, why);
  cel_fail(
      CEL_E_OVERLAP,
      "task '%s': its accesses %u (%s) and %u (%s) to buffer '%s' overlap: "
      "chunks %s and %s both write element %s, each by one of them; map "
      "every chunk to elements of its own in all accesses together, or "
      "permit only splits that keep them apart",
      cel__name_of(group->name), i + 1, cel_mode_name(x->mode), j + 1,
      cel_mode_name(y->mode), cel__name_of(x->buffer->name), s.a, s.b, s.point);
  return cel_fail_at(group->location.file, group->location.line);
}

static const char *or_around(const cel_access *access) {
  return cel_mode_produces(access->mode) ? "" : ", or a box around that";
}

static cel_status fail_union(const cel_group *group, const cel_access *access,
                             const cel_counter_example *why) {
  shown s = show(group, access, why);
  cel_fail(CEL_E_ARGUMENT,
           "task '%s': the mapper of its %s access to buffer '%s' depends on "
           "how the range is split: chunks %s and %s together do not map to "
           "what their union maps to, see element %s; a mapper must give for a "
           "chunk what it gives for the chunk's parts%s",
           cel__name_of(group->name), cel_mode_name(access->mode),
           cel__name_of(access->buffer->name), s.a, s.b, s.point,
           or_around(access));
  return cel_fail_at(group->location.file, group->location.line);
}

static cel_status fail_parts(const cel_group *group, const cel_access *access,
                             const cel_counter_example *why) {
  shown s = show(group, access, why);
  cel_fail(
      CEL_E_ARGUMENT,
      "task '%s': the mapper of its %s access to buffer '%s' depends on how "
      "the range is split: it does not give for the chunk %s what it gives for "
      "parts of it such as %s, see element %s; a mapper must give for a chunk "
      "what it gives for the chunk's parts%s",
      cel__name_of(group->name), cel_mode_name(access->mode),
      cel__name_of(access->buffer->name), s.b, s.a, s.point, or_around(access));
  return cel_fail_at(group->location.file, group->location.line);
}

/* ---- verdicts ------------------------------------------------------------ */

bool cel__writes_apart(const cel_access *access) {
  return access->buffer->apart && cel_mode_produces(access->mode);
}

bool cel__is_cut(const cel_group *group) {
  return group->placement == CEL_PLACE_SPLIT ||
         ((group->placement == CEL_PLACE_ONCE ||
           group->placement == CEL_PLACE_ALL) &&
          group->kind == CEL_TASK_KERNEL);
}

/* Whether there may be several chunks. */
static bool has_chunks(const cel_group *group) {
  return cel__is_cut(group) || group->placement == CEL_PLACE_EACH;
}

cel_split_kind cel__splits_of(const cel_group *group) {
  cel_split_kind splits = group->permitted;
  if (group->placement == CEL_PLACE_EACH)
    splits = (cel_split_kind){.cut = {true}};
  for (int d = 0; d < CEL_DIMS; ++d)
    if (splits.granularity[d] < 1) splits.granularity[d] = 1;
  return splits;
}

/* The chunk in corner `corner` (bit d: at the far end of dimension d) of the
 * finest permitted split. */
static cel_box corner_chunk(const cel_box *range, const cel_split_kind *splits,
                            int corner) {
  cel_box chunk = *range;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = range->max[d] - range->min[d], g = splits->granularity[d];
    if (!splits->cut[d] || g >= size) continue;
    if ((corner >> d & 1) != 0)
      chunk.min[d] = range->min[d] + (size - 1) / g * g;
    else
      chunk.max[d] = range->min[d] + g;
  }
  return chunk;
}

/* The same as cel_rule_eval; *left: as the mapper leaves the buffer. */
static cel_status evaluate(const cel_access *access, const cel_box *chunk,
                           cel_region *image, bool *left) {
  cel_rule_fault fault = cel__rule_eval(&access->use, chunk, image);
  *left = fault == CEL_RULE_LEAVES;
  return fault == CEL_RULE_FINE ? CEL_E_OK
                                : cel_rule_eval(&access->use, chunk, image);
}

/* Whether the mapper stays within the buffer at the extremes, which is where a
 * monotone one would leave it. */
static cel_status check_within(const cel_group *group, const cel_access *access,
                               cel_region *image, bool *left) {
  cel_split_kind splits = cel__splits_of(group);
  const cel_rule_desc *desc = &access->use.rule->desc;
  bool may_leave = false;
  for (int32_t b = 0; b < desc->boxes; ++b) may_leave |= !desc->box[b].clamp;
  bool look = may_leave && has_chunks(group);
  for (int corner = 0; look && corner < 1 << CEL_DIMS; ++corner) {
    bool fresh = true;
    for (int d = 0; d < CEL_DIMS; ++d)
      fresh &= splits.cut[d] || (corner >> d & 1) == 0;
    if (!fresh) continue;
    cel_box chunk = corner_chunk(&group->range, &splits, corner);
    CEL_TRY(evaluate(access, &chunk, image, left));
  }
  /* The whole range is no chunk there, unless there is one rank. */
  if (group->placement == CEL_PLACE_EACH) return CEL_E_OK;
  return evaluate(access, &group->range, image, left);
}

/* Chunks of one split: some of a listing's, or, where there is none, those of
 * the ranks of a task that each does once. */
typedef struct some_chunks {
  int64_t n;
  const cel_box *chunk;
  const int32_t *which; /* null: the first of them */
} some_chunks;

static cel_box chunk_at(const some_chunks *of, int64_t k) {
  if (of->chunk == NULL) return (cel_box){{k, 0, 0}, {k + 1, 1, 1}};
  return of->chunk[of->which != NULL ? of->which[k] : k];
}

/* What chunk k writes, into a map of the chunks, plus 1, that write a point. */
static cel_proof enter(cel_map *map, const cel_region *image,
                       const some_chunks *of, int64_t k, cel_map_entries *met,
                       cel_counter_example *why) {
  for (uint32_t b = 0; b < image->n; ++b) {
    cel_map_query(map, &image->at[b], met);
    for (uint32_t i = 0; i < met->n; ++i) {
      int64_t other = (int64_t)met->at[i].value - 1;
      if (other < 0 || other == k) continue;
      why->a = chunk_at(of, other);
      why->b = chunk_at(of, k);
      memcpy(why->point, met->at[i].box.min, sizeof why->point);
      return CEL_REFUTED;
    }
    cel_map_update(map, &image->at[b], (uint64_t)k + 1);
  }
  return CEL_PROVED;
}

/* Whether chunks keep apart in what they write by these accesses of one buffer
 * together. A mapper that fails for some chunk, or was not asked about it, is
 * left to whoever has that. */
static cel_proof try_chunks(const some_chunks *of, const cel_access *const *at,
                            int n, cel_counter_example *why) {
  cel_map *map = cel_map_create(&at[0]->buffer->extent, 0);
  cel_map_entries met = {0};
  cel_region image = {0};
  cel_proof proof = CEL_PROVED;
  for (int64_t k = 0; k < of->n && proof == CEL_PROVED; ++k)
    for (int i = 0; i < n && proof == CEL_PROVED; ++i) {
      cel_box chunk = chunk_at(of, k);
      if (cel__rule_eval(&at[i]->use, &chunk, &image) == CEL_RULE_FINE)
        proof = enter(map, &image, of, k, &met, why);
    }
  cel_region_release(&image);
  cel_map_entries_release(&met);
  cel_map_destroy(map);
  return proof;
}

/* The same of what an opaque mapper was asked about: first the splits that all
 * ranks know, so that all say the same, then what the ranks have. */
static cel_proof try_listed(const cel_listing *listing,
                            const cel_access *const *at, int n,
                            cel_counter_example *why) {
  some_chunks of = {.chunk = listing->chunk};
  int32_t next = 0;
  while ((of.n = cel__listing_split(listing, &next, &of.which)) > 0)
    if (try_chunks(&of, at, n, why) == CEL_REFUTED) return CEL_REFUTED;
  of = (some_chunks){.n = listing->ranks, .chunk = listing->chunk};
  return try_chunks(&of, at, n, why) == CEL_REFUTED ? CEL_REFUTED : CEL_UNKNOWN;
}

/* Whether chunks keep apart in what they write by one or two accesses of one
 * buffer together. */
static cel_proof prove_disjoint(const cel_group *group,
                                const cel_access *const *at, int n,
                                cel_counter_example *why) {
  cel_split_kind splits = cel__splits_of(group);
  for (int i = 0; i < n; ++i)
    if (at[i]->use.rule->listing != NULL)
      return try_listed(at[i]->use.rule->listing, at, n, why);
  cel_proof proof = n == 1 ? cel_rule_prove_disjoint(&at[0]->use, &splits, why)
                           : cel_rule_prove_pair_disjoint(
                                 &at[0]->use, &at[1]->use, &splits, why);
  if (proof == CEL_PROVED || group->placement != CEL_PLACE_EACH) return proof;
  some_chunks ranks = {.n = group->range.max[0]};
  return try_chunks(&ranks, at, n, why);
}

/* Whether a chunk maps to what its parts map to. What is also written must do
 * so exactly: else a rank would own what no part of its chunk writes. What is
 * read may be a box around that. */
static cel_status check_union(const cel_group *group, const cel_access *access,
                              cel_proof *proof) {
  cel_counter_example why = {0};
  cel_split_kind splits = cel__splits_of(group);
  *proof = cel_rule_prove_union(&access->use, &splits, &why);
  if (*proof != CEL_REFUTED || !cel__is_cut(group) ||
      !cel_mode_consumes(access->mode))
    return CEL_E_OK;
  if (!cel_mode_produces(access->mode) &&
      cel_rule_prove_hull(&access->use, &splits, &why) != CEL_REFUTED)
    return CEL_E_OK;
  if (access->use.rule->listing != NULL) return fail_parts(group, access, &why);
  return fail_union(group, access, &why);
}

static cel_status check_splits(const cel_group *group, const cel_access *access,
                               bool *exact, bool *disjoint) {
  cel_counter_example why = {0};
  cel_proof whole;
  *exact = *disjoint = true;
  if (!has_chunks(group)) return CEL_E_OK;
  CEL_TRY(check_union(group, access, &whole));
  *exact = whole == CEL_PROVED;
  if (!cel_mode_produces(access->mode)) return CEL_E_OK;
  cel_proof proof = prove_disjoint(group, &access, 1, &why);
  *disjoint = proof == CEL_PROVED;
  if (proof == CEL_REFUTED) return fail_overlap(group, access, &why);
  return CEL_E_OK;
}

/* What an access comes to for the whole range, where that can be evaluated. */
static cel_status image_of_range(const cel_group *group,
                                 const cel_access *access, cel_region *image) {
  const cel_listing *listing = access->use.rule->listing;
  if (listing == NULL) return cel_rule_eval(&access->use, &group->range, image);
  cel_region_assign(image, listing->box,
                    (uint32_t)listing->start[listing->ranks]);
  return CEL_E_OK;
}

/* Of an opaque mapper: for the chunks that there are, and for some that there
 * are not. The binding has seen to it that it stays within. */
static cel_status judge_listed(const cel_group *group, const cel_access *access,
                               cel_region *image, bool *exact, bool *disjoint) {
  const cel_listing *listing = access->use.rule->listing;
  cel_counter_example why = {0};
  bool consumes = cel_mode_consumes(access->mode);
  bool produces = cel_mode_produces(access->mode);
  cel_proof whole;
  CEL_TRY(image_of_range(group, access, image));
  *exact = true;
  *disjoint = !produces;
  if (consumes) CEL_TRY(check_union(group, access, &whole));
  if (produces && prove_disjoint(group, &access, 1, &why) == CEL_REFUTED)
    return fail_overlap(group, access, &why);
  /* Of what is discarded some may stay unwritten. */
  cel__made_of made_of = !consumes  ? CEL__AT_LEAST
                         : produces ? CEL__EXACTLY
                                    : CEL__AROUND;
  if (listing->mine >= 0 &&
      cel__listing_compare(listing, listing->mine, listing->part,
                           listing->parts, made_of, &why) == CEL_REFUTED)
    return fail_parts(group, access, &why);
  return CEL_E_OK;
}

static cel_status judge(const cel_group *group, const cel_access *access,
                        cel_region *image, bool *exact, bool *disjoint) {
  if (access->use.rule->listing != NULL)
    return judge_listed(group, access, image, exact, disjoint);
  bool left;
  if (check_within(group, access, image, &left) != CEL_E_OK)
    return fail_left(group, access, left);
  CEL_TRY(check_splits(group, access, exact, disjoint));
  if (group->placement == CEL_PLACE_EACH) {
    *exact =
        *exact && cel_rule_eval(&access->use, &group->range, image) == CEL_E_OK;
    if (!*exact) cel_region_assign(image, &access->buffer->extent, 1);
    return CEL_E_OK;
  }
  cel_split_kind splits = cel__splits_of(group);
  if (!*exact && !cel_rule_grows(&access->use, &splits))
    cel_region_assign(image, &access->buffer->extent, 1);
  return CEL_E_OK;
}

/* What a plain mapper gives is known as soon as it is evaluated: it is exact,
 * and stays within the buffer for each chunk if it does for all of the range.
 * False where that does not say all. */
static bool judge_plain(const cel_group *group, const cel_access *access,
                        cel_region *image) {
  if (!access->use.rule->plain || group->placement == CEL_PLACE_EACH)
    return false;
  if (cel_mode_produces(access->mode) && has_chunks(group) &&
      !cel_rule_plainly_disjoint(&access->use, &group->permitted))
    return false;
  return cel__rule_eval(&access->use, &group->range, image) == CEL_RULE_FINE;
}

/* Returns the bytes of *out that count. */
static size_t make_key(const cel_group *group, const cel_access *access,
                       key *out) {
  const cel_rule *rule = access->use.rule;
  int32_t params = rule->desc.params;
  size_t size = offsetof(key, param) + (size_t)params * sizeof(int64_t);
  memset(out, 0, size);
  out->rule = rule->id;
  out->range = group->range;
  out->extent = access->buffer->extent;
  for (int d = 0; d < CEL_DIMS; ++d) {
    out->cut[d] = group->permitted.cut[d];
    out->granularity[d] = group->permitted.granularity[d];
  }
  out->consumes = cel_mode_consumes(access->mode);
  out->produces = cel_mode_produces(access->mode);
  out->device = group->kind == CEL_TASK_KERNEL;
  out->placement = group->placement;
  out->params = params;
  if (params > 0)
    memcpy(out->param, access->use.params, (size_t)params * sizeof(int64_t));
  return size;
}

/* Of what differs between the accesses of one program; the rest of the key
 * only has to be equal. */
static uint64_t hash_key(const key *k) {
  struct {
    uint64_t rule;
    int64_t range[2], extent[2];
    uint64_t modes;
  } what = {.rule = k->rule,
            .range = {k->range.max[0], k->range.max[1]},
            .extent = {k->extent.max[0], k->extent.max[1]},
            .modes = (uint64_t)k->consumes << 1 | (uint64_t)k->produces};
  uint64_t seed = 0;
  if (k->params > 0)
    seed = cel_hash(k->param, (size_t)k->params * sizeof(int64_t), 0);
  return cel_hash(&what, sizeof what, seed) | 1;
}

cel_status cel__check_access(cel__checks *checks, const cel_group *group,
                             uint32_t i, cel_region *image, bool *exact,
                             bool *disjoint) {
  const cel_access *access = &group->access[i];
  key wanted;
  *exact = true;
  if (judge_plain(group, access, image)) return CEL_E_OK;
  size_t size = make_key(group, access, &wanted);
  uint64_t hash = hash_key(&wanted);
  uint32_t n = (uint32_t)(hash >> 1) % SLOTS;
  slot *s = checks->slots[n];
  if (s == NULL) {
    s = checks->slots[n] = cel_alloc(sizeof *s);
    s->image = (cel_region){0};
  }
  if (checks->hash[n] != hash || memcmp(&s->key, &wanted, size) != 0) {
    checks->hash[n] = 0;
    CEL_TRY(judge(group, access, image, &s->exact, &s->disjoint));
    s->kept = image->n <= KEPT;
    if (s->kept) cel_region_copy(&s->image, image);
    memcpy(&s->key, &wanted, size);
    checks->hash[n] = hash;
  } else if (s->kept) {
    cel_region_copy(image, &s->image);
  } else {
    CEL_TRY(image_of_range(group, access, image));
  }
  *exact = s->exact;
  *disjoint = *disjoint && s->disjoint;
  return CEL_E_OK;
}

/* ---- writes of one buffer by several accesses ---------------------------- */

static void make_pair(const cel_group *group, const cel_access *const at[2],
                      const cel_split_kind *splits, pair *out) {
  memset(out, 0, sizeof *out);
  out->range = group->range;
  out->extent = at[0]->buffer->extent;
  out->placement = group->placement;
  out->reads = !cel_mode_produces(at[0]->mode);
  for (int d = 0; d < CEL_DIMS; ++d) {
    out->cut[d] = splits->cut[d];
    out->granularity[d] = splits->granularity[d];
  }
  for (int k = 0; k < 2; ++k) {
    const cel_rule *rule = at[k]->use.rule;
    out->rule[k] = rule->id;
    if (rule->desc.params > 0)
      memcpy(out->param[k], at[k]->use.params,
             (size_t)rule->desc.params * sizeof(int64_t));
  }
}

/* The slot of a pair, and whether its verdict is there. */
static uint64_t find_pair(cel__checks *checks, const pair *wanted,
                          bool *known) {
  if (checks->pairs == NULL)
    checks->pairs = cel_alloc_zero(PAIRS * sizeof(pair));
  uint64_t n = cel_hash(wanted, sizeof *wanted, 0) % PAIRS;
  /* make_pair zeroes the padding too. */
  /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
  *known = memcmp(&checks->pairs[n], wanted, sizeof *wanted) == 0;
  return n;
}

/* What is unknown is left to those who see the actual chunks. */
static cel_status check_pair(cel__checks *checks, const cel_group *group,
                             uint32_t i, uint32_t j, bool *disjoint) {
  const cel_access *at[2] = {&group->access[i], &group->access[j]};
  cel_split_kind splits = cel__splits_of(group);
  cel_counter_example why = {0};
  pair wanted;
  bool known;
  make_pair(group, at, &splits, &wanted);
  uint64_t n = find_pair(checks, &wanted, &known);
  if (!known) {
    cel_proof proof = prove_disjoint(group, at, 2, &why);
    if (proof == CEL_REFUTED) return fail_pair(group, i, j, &why);
    memcpy(&checks->pairs[n], &wanted, sizeof wanted);
    checks->pair_disjoint[n] = proof == CEL_PROVED;
  }
  *disjoint = *disjoint && checks->pair_disjoint[n];
  return CEL_E_OK;
}

cel_status cel__check_writes(cel__checks *checks, const cel_group *group,
                             bool *disjoint) {
  const cel_access *access = group->access;
  if (!has_chunks(group)) return CEL_E_OK;
  for (uint32_t j = 1; j < group->accesses; ++j) {
    if (!cel_mode_produces(access[j].mode)) continue;
    for (uint32_t i = 0; i < j; ++i)
      if (access[i].buffer == access[j].buffer &&
          cel_mode_produces(access[i].mode) && !access[i].buffer->apart)
        CEL_TRY(check_pair(checks, group, i, j, disjoint));
  }
  return CEL_E_OK;
}

/* Items of a kernel are computed side by side, also within a chunk, but for
 * those of a work group, which may wait for each other. */
static cel_split_kind items_of(const cel_group *group) {
  cel_split_kind splits = cel__splits_of(group);
  if (group->kind != CEL_TASK_KERNEL || group->work == NULL || group->work->lua)
    return splits;
  for (int d = 0; d < group->dims; ++d) {
    int64_t g = group->work->work_group[d];
    if (splits.cut[d]) continue;
    splits.cut[d] = true;
    splits.granularity[d] = g > 0 ? g : 1;
  }
  return splits;
}

/* Of what opaque mappers were asked about: whether chunks of one split read
 * what others write. */
static cel_proof try_crossing(const some_chunks *of,
                              const cel_access *const at[2],
                              cel_counter_example *why) {
  cel_map *map = cel_map_create(&at[0]->buffer->extent, 0);
  cel_map_entries met = {0};
  cel_region image = {0};
  cel_proof proof = CEL_UNKNOWN;
  for (int writes = 1; writes >= 0; --writes)
    for (int64_t k = 0; k < of->n && proof != CEL_REFUTED; ++k) {
      cel_box chunk = chunk_at(of, k);
      if (cel__rule_eval(&at[writes]->use, &chunk, &image) != CEL_RULE_FINE)
        continue;
      for (uint32_t b = 0; writes && b < image.n; ++b)
        cel_map_update(map, &image.at[b], (uint64_t)k + 1);
      if (!writes && enter(map, &image, of, k, &met, why) == CEL_REFUTED) {
        cel_box writer = why->a;
        why->a = why->b;
        why->b = writer;
        proof = CEL_REFUTED;
      }
    }
  cel_region_release(&image);
  cel_map_entries_release(&met);
  cel_map_destroy(map);
  return proof;
}

static cel_proof prove_uncrossed(const cel_group *group,
                                 const cel_access *const at[2],
                                 cel_counter_example *why) {
  cel_split_kind items = items_of(group);
  const cel_listing *listing = at[0]->use.rule->listing;
  if (listing == NULL) listing = at[1]->use.rule->listing;
  if (listing == NULL)
    return cel_rule_prove_uncrossed(&at[0]->use, &at[1]->use, &items, why);
  some_chunks of = {.chunk = listing->chunk};
  int32_t next = 0;
  while ((of.n = cel__listing_split(listing, &next, &of.which)) > 0)
    if (try_crossing(&of, at, why) == CEL_REFUTED) return CEL_REFUTED;
  return CEL_UNKNOWN;
}

static bool crosses(cel__checks *checks, const cel_group *group, uint32_t i,
                    uint32_t j) {
  const cel_access *at[2] = {&group->access[i], &group->access[j]};
  cel_split_kind items = items_of(group);
  cel_counter_example why = {0};
  pair wanted;
  bool known;
  make_pair(group, at, &items, &wanted);
  uint64_t n = find_pair(checks, &wanted, &known);
  if (!known) {
    checks->pair_disjoint[n] = prove_uncrossed(group, at, &why) != CEL_REFUTED;
    memcpy(&checks->pairs[n], &wanted, sizeof wanted);
  }
  return !checks->pair_disjoint[n];
}

cel_counter_example cel__show_crossing(const cel_group *group,
                                       const cel__crossing *crossing) {
  const cel_access *at[2] = {&group->access[crossing->reads],
                             &group->access[crossing->writes]};
  cel_counter_example why = {0};
  prove_uncrossed(group, at, &why);
  return why;
}

bool cel__check_crossing(cel__checks *checks, const cel_group *group,
                         cel__crossing *out) {
  const cel_access *access = group->access;
  if (!cel__is_cut(group)) return false;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    if (access[i].mode != CEL_MODE_READ || access[i].disjoint ||
        access[i].buffer->apart)
      continue;
    for (uint32_t j = 0; j < group->accesses; ++j)
      if (access[j].buffer == access[i].buffer &&
          cel_mode_produces(access[j].mode) && access[j].reducer == NULL &&
          crosses(checks, group, i, j)) {
        *out = (cel__crossing){i, j};
        return true;
      }
  }
  return false;
}

static cel_status refuse(const cel_group *group, const char *why) {
  cel_fail(CEL_E_ARGUMENT, "task '%s': %s", cel__name_of(group->name), why);
  return cel_fail_at(group->location.file, group->location.line);
}

/* What computes on devices has no way to an object of the host. */
static cel_status check_effects(const cel_group *group) {
  if (group->effects > 0 && group->kind != CEL_TASK_HOST)
    return refuse(group, "only a host task has side effects");
  for (uint32_t i = 0; i < group->effects; ++i)
    for (uint32_t k = 0; k < i; ++k)
      if (group->effect[i].object == group->effect[k].object)
        return refuse(group, "it has two side effects on one host object");
  return CEL_E_OK;
}

/* What lies apart is one rank's own, and a task that writes it has one chunk
 * there: a kernel if the rank has one device, which its caller sees to. */
static cel_status check_apart(const cel_group *group) {
  if (group->home != NULL && group->home->buffer != NULL &&
      group->home->buffer->apart)
    return refuse(group, "a buffer that is apart lies nowhere");
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *access = &group->access[i];
    if (!access->buffer->apart) continue;
    if (access->reducer != NULL)
      return refuse(group, "nothing is reduced into a buffer that is apart");
    if (cel__writes_apart(access) && group->placement == CEL_PLACE_SPLIT &&
        group->oversubscribe > 1 && group->effects == 0)
      return refuse(group,
                    "a buffer that is apart is written by tasks that are "
                    "not cut into runs");
  }
  return CEL_E_OK;
}

cel_status cel__check_group(const cel__checks *checks, const cel_group *group) {
  if (group->kind != CEL_TASK_KERNEL && group->kind != CEL_TASK_HOST)
    return refuse(group, "a group is a kernel or a host task");
  if (group->collective_group != 0 &&
      (group->kind != CEL_TASK_HOST || group->placement != CEL_PLACE_EACH))
    return refuse(group, "a collective task is a host task of every rank");
  CEL_TRY(check_effects(group));
  CEL_TRY(check_apart(group));
  if (group->placement != CEL_PLACE_EACH) return CEL_E_OK;
  cel_box all = cel_box_sized(checks->ranks, 1, 1);
  if (!cel_box_equal(&group->range, &all))
    return refuse(group, "what every rank does once ranges over the ranks");
  return CEL_E_OK;
}
