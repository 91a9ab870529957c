#include "command/collective/parts.h"
#include "tuning.h"

void cel__parts_init(cel__parts_kept *kept, int64_t ranks, cel_eras *eras) {
  *kept = (cel__parts_kept){
      .ranks = ranks, .eras = eras, .most = CEL_TUNE_PARTS_MOST};
  if (ranks * CEL_TUNE_PARTS_MOST > CEL_TUNE_PARTS_ENTRIES)
    kept->most = (uint32_t)(CEL_TUNE_PARTS_ENTRIES / ranks);
  if (kept->most < CEL_TUNE_PARTS_LEAST) kept->most = CEL_TUNE_PARTS_LEAST;
}

void cel__parts_destroy(void *parts) {
  cel__known_parts *known = parts;
  cel_free((void *)(uintptr_t)known->parts.count);
  cel_free((void *)(uintptr_t)known->parts.start);
  cel_free((void *)(uintptr_t)known->parts.wide_count);
  cel_free((void *)(uintptr_t)known->parts.wide_start);
  cel_free((void *)(uintptr_t)known->parts.box);
  cel_free(known->summed);
  cel_free(known);
}

void cel__parts_clear(cel__parts_kept *kept) {
  for (uint32_t i = 0; i < kept->known.n; ++i)
    cel_eras_keep(kept->eras, kept->known.at[i]);
  cel_vec_clear(&kept->known);
  kept->oldest = 0;
}

void cel__parts_release(cel__parts_kept *kept) {
  for (uint32_t i = 0; i < kept->known.n; ++i)
    cel__parts_destroy(kept->known.at[i]);
  cel_vec_release(&kept->known);
}

/* ---- making them -----------------------------------------------------------
 */

typedef struct owner {
  const cel__rep *rep; /* or null: */
  int64_t rank, but;
} owner;

/* The part of rank k, as if the whole began at 0; empty where it has none. */
static cel_box part_of(const owner *of, int64_t k, const cel_box *whole) {
  cel_box part = *whole;
  bool some =
      of->rep == NULL ? k == of->rank : cel__rep_box(of->rep, k, whole, &part);
  if (!some || k == of->but || cel_box_is_empty(&part))
    return (cel_box){{0}, {0}};
  for (int d = 0; d < CEL_DIMS; ++d) {
    part.min[d] -= whole->min[d];
    part.max[d] -= whole->min[d];
  }
  return part;
}

/* The one dimension along which the parts lie one behind the other in row-major
 * order: the first of several coordinates, and none after it is cut. Or -1. */
static int dimension_of(const cel__rep *rep, const cel_box *whole) {
  int first = 0;
  while (first < CEL_DIMS - 1 && whole->max[first] - whole->min[first] == 1)
    ++first;
  for (int d = first + 1; d < CEL_DIMS; ++d)
    if (rep != NULL && cel__rep_cuts(rep, d)) return -1;
  return first;
}

static bool fit(const int64_t *value, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (value[i] > INT32_MAX) return false;
  return true;
}

/* The numbers as 32 bits; they are freed. */
static const int32_t *narrowed(int64_t *value, size_t n) {
  int32_t *out = cel_alloc(n * sizeof *out);
  for (size_t i = 0; i < n; ++i) out[i] = (int32_t)value[i];
  cel_free(value);
  return out;
}

static void set_counts(cel_parts *parts, int64_t *count, int64_t *start) {
  size_t n = (size_t)parts->ranks;
  if (!fit(count, n) || !fit(start, n)) {
    parts->wide_count = count;
    parts->wide_start = start;
    return;
  }
  parts->count = narrowed(count, n);
  parts->start = narrowed(start, n);
}

static void write_out(cel_parts *parts, const owner *of, const cel_box *whole) {
  size_t n = (size_t)parts->ranks;
  int64_t *count = cel_alloc(n * sizeof *count);
  int64_t *start = cel_alloc(n * sizeof *start);
  int along = dimension_of(of->rep, whole);
  cel_box *box = along < 0 ? cel_alloc(n * sizeof *box) : NULL;
  parts->along = along;
  parts->unit = 1;
  for (int d = along < 0 ? CEL_DIMS : along + 1; d < CEL_DIMS; ++d)
    parts->unit *= whole->max[d] - whole->min[d];
  if (parts->unit < 1) parts->unit = 1; /* of nothing */
  int64_t sum = 0;
  for (int64_t k = 0; k < parts->ranks; ++k) {
    cel_box part = part_of(of, k, whole);
    count[k] = cel_box_volume(&part) / parts->unit;
    start[k] = along < 0 ? sum : part.min[along];
    if (box != NULL) box[k] = part;
    sum += count[k];
  }
  set_counts(parts, count, start);
  parts->box = box;
}

/* ---- finding them ----------------------------------------------------------
 */

/* Where nobody cuts it matters how long the box is, not where it begins. */
static cel_box without_offset(const cel__rep *rep, const cel_box *box) {
  cel_box out = *box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    if (rep != NULL && cel__rep_cuts(rep, d)) continue;
    out.max[d] -= out.min[d];
    out.min[d] = 0;
  }
  return out;
}

static void keep(cel__parts_kept *kept, cel__known_parts *made) {
  made->serial = ++kept->serials;
  if (kept->known.n < kept->most) {
    cel_vec_push(&kept->known, made);
    return;
  }
  kept->oldest %= kept->known.n;
  cel_eras_keep(kept->eras, kept->known.at[kept->oldest]);
  kept->known.at[kept->oldest++] = made;
}

const cel_parts *cel__parts_find(cel__parts_kept *kept, const cel__reps *reps,
                                 cel__giver of, const cel_box *box,
                                 int64_t but) {
  owner who = {NULL, of.rank, but};
  if (of.rep != CEL__NO_ID) who.rep = cel__rep_at(reps, of.rep);
  if (of.rep != CEL__NO_ID) of.rank = CEL__NO_RANK;
  cel_box key = without_offset(who.rep, box);
  for (uint32_t i = 0; i < kept->known.n; ++i) {
    const cel__known_parts *known = kept->known.at[i];
    if (known->summed == NULL && known->of.rep == of.rep &&
        known->of.rank == of.rank && known->but == but &&
        cel_box_equal(&known->box, &key))
      return &known->parts;
  }
  cel__known_parts *made = cel_alloc(sizeof *made);
  *made = (cel__known_parts){
      .parts = {.ranks = kept->ranks}, .of = of, .but = but, .box = key};
  write_out(&made->parts, &who, &key);
  keep(kept, made);
  return &made->parts;
}

/* ---- sums ------------------------------------------------------------------
 */

static void write_sum(cel_parts *parts, const cel__term *term, uint32_t terms) {
  size_t n = (size_t)parts->ranks;
  int64_t *count = cel_alloc(n * sizeof *count);
  int64_t *start = cel_alloc(n * sizeof *start);
  int64_t sum = 0;
  for (int64_t k = 0; k < parts->ranks; ++k) {
    count[k] = 0;
    start[k] = sum;
    for (uint32_t i = 0; i < terms; ++i)
      count[k] += cel_parts_count(term[i].parts, k) * term[i].parts->unit *
                  (int64_t)term[i].size;
    sum += count[k];
  }
  parts->unit = 1;
  parts->along = -1;
  set_counts(parts, count, start);
}

static uint64_t serial_of(const cel__term *term) {
  return ((const cel__known_parts *)term->parts)->serial;
}

static bool is_sum(const cel__known_parts *known, const cel__term *term,
                   uint32_t terms) {
  bool same = known->summed != NULL && known->terms == terms;
  for (uint32_t i = 0; i < terms && same; ++i)
    same = known->summed[i].serial == serial_of(&term[i]) &&
           known->summed[i].size == term[i].size;
  return same;
}

const cel_parts *cel__parts_sum(cel__parts_kept *kept, const cel__term *term,
                                uint32_t terms) {
  for (uint32_t i = 0; i < kept->known.n; ++i)
    if (is_sum(kept->known.at[i], term, terms))
      return &kept->known.at[i]->parts;
  cel__known_parts *made = cel_alloc_zero(sizeof *made);
  made->parts.ranks = kept->ranks;
  made->terms = terms;
  made->summed = cel_alloc(terms * sizeof *made->summed);
  for (uint32_t i = 0; i < terms; ++i)
    made->summed[i] = (cel__summed){serial_of(&term[i]), term[i].size};
  write_sum(&made->parts, term, terms);
  keep(kept, made);
  return &made->parts;
}
