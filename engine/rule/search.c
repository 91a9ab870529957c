#include "rule/search.h"

#include <string.h>

#include "rule/eval.h"
#include "rule/family.h"

enum {
  ALL_BELOW = 12, /* units up to which every chunk is tried */
  MOST_MARKS = ALL_BELOW + 1,
  MOST_PIECES = 8,    /* of the even splits that are tried */
  MOST_INDICES = 1024 /* of families, for which more than halves are tried */
};

typedef struct search {
  const cel_rule_use *use;
  const cel_rule_use *writes; /* of what `use` reads; else null */
  const cel_units *units;
  /* Unit boundaries to cut at, ascending, per dimension. */
  int64_t mark[3][MOST_MARKS];
  int marks[3];
  bool all;     /* they are all there are, and one dimension is cut */
  bool faulted; /* some chunk could not be evaluated */
  bool more;    /* than the halves are being tried */
  cel_region a, b, c;
  cel_counter_example *why;
} search;

static void marks_init(search *s, int d, int dims_cut) {
  int64_t n = s->units->count[d], h = (n + 1) / 2;
  if (n <= ALL_BELOW && dims_cut <= 1) {
    for (int64_t u = 0; u <= n; ++u) s->mark[d][u] = u;
    s->marks[d] = (int)n + 1;
    return;
  }
  s->all = false;
  const int64_t wide[] = {0, 1, 2, 3, h - 1, h, h + 1, n - 2, n - 1, n};
  const int64_t narrow[] = {0, 1, 2, h, n - 1, n};
  const int64_t *from = dims_cut > 1 ? narrow : wide;
  int count = dims_cut > 1 ? 6 : 10;
  for (int i = 0; i < count; ++i) {
    int k = s->marks[d];
    if (from[i] <= n && (k == 0 || from[i] > s->mark[d][k - 1]))
      s->mark[d][s->marks[d]++] = from[i];
  }
}

static void search_init(search *s, const cel_rule_use *use,
                        const cel_units *units, cel_counter_example *why) {
  memset(s, 0, sizeof *s);
  s->use = use;
  s->units = units;
  s->why = why;
  s->all = true;
  int dims_cut = 0;
  for (int d = 0; d < CEL_DIMS; ++d) dims_cut += units->count[d] > 1;
  for (int d = 0; d < CEL_DIMS; ++d) marks_init(s, d, dims_cut);
  s->all = s->all && dims_cut <= 1;
}

static void search_release(search *s) {
  cel_region_release(&s->a);
  cel_region_release(&s->b);
  cel_region_release(&s->c);
}

static void set(const search *s, cel_box *chunk, int d, int64_t m, int64_t M) {
  chunk->min[d] = cel__units_at(s->units, d, m);
  chunk->max[d] = cel__units_at(s->units, d, M);
}

/* Whether it would take long: families of many indices, of which the first
 * pairs of chunks are tried all the same. */
static bool is_slow(const search *s, const cel_rule_use *use,
                    const cel_box *chunk) {
  if (!use->rule->families) return false;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (chunk->max[d] - chunk->min[d] > MOST_INDICES) return s->more;
  return false;
}

static bool image_of(search *s, const cel_rule_use *use, const cel_box *chunk,
                     cel_region *out) {
  if (!is_slow(s, use, chunk) &&
      cel__rule_eval(use, chunk, out) == CEL_RULE_FINE)
    return true;
  s->faulted = true;
  return false;
}

static bool image(search *s, const cel_box *chunk, cel_region *out) {
  return image_of(s, s->use, chunk, out);
}

static bool found(search *s, const cel_box *a, const cel_box *b,
                  const cel_region *where) {
  if (where->n == 0) return false;
  s->why->a = *a;
  s->why->b = *b;
  memcpy(s->why->point, where->at[0].min, sizeof s->why->point);
  return true;
}

/* ---- the properties, for one pair of chunks ------------------------------ */

typedef bool try_pair(search *s, const cel_box *a, const cel_box *b);

/* Whether what a maps to meets what b maps to under `other`. */
static bool meet(search *s, const cel_box *a, const cel_rule_use *other,
                 const cel_box *b) {
  if (!image(s, a, &s->a) || !image_of(s, other, b, &s->b)) return false;
  cel_region_intersect(&s->a, &s->a, &s->b);
  return found(s, a, b, &s->a);
}

static bool overlap(search *s, const cel_box *a, const cel_box *b) {
  return meet(s, a, s->use, b);
}

/* One reads what the other writes. */
static bool cross(search *s, const cel_box *a, const cel_box *b) {
  return meet(s, a, s->writes, b) || meet(s, b, s->writes, a);
}

/* Puts what the two map to into s->a, and what their union does into s->c. */
static bool images(search *s, const cel_box *a, const cel_box *b) {
  cel_box both = cel_box_hull(a, b);
  if (!image(s, a, &s->a) || !image(s, b, &s->b) || !image(s, &both, &s->c))
    return false;
  cel_region_unite(&s->a, &s->a, &s->b);
  return true;
}

/* Widens *hull by what a chunk maps to, also by boxes outside the buffer. */
static void widen(const search *s, const cel_box *chunk, cel_box *hull) {
  cel_box raw, clipped;
  for (int b = 0; b < s->use->rule->desc.boxes; ++b) {
    if (cel__family_dim(s->use, b) >= 0)
      cel__family_around(s->use, b, chunk, &raw, &clipped);
    else
      cel__box_eval(s->use, b, chunk, &raw, &clipped);
    if (!cel_box_is_empty(&raw)) *hull = cel_box_hull(hull, &raw);
  }
}

/* The union maps to less than the two, or beyond the box around that. */
static bool strays(search *s, const cel_box *a, const cel_box *b) {
  if (!images(s, a, b)) return false;
  cel_region_subtract(&s->b, &s->a, &s->c);
  if (found(s, a, b, &s->b)) return true;
  cel_box hull = {{0}, {0}};
  widen(s, a, &hull);
  widen(s, b, &hull);
  cel_region_assign(&s->a, &hull, 1);
  cel_region_subtract(&s->b, &s->c, &s->a);
  return found(s, a, b, &s->b);
}

static bool disagree(search *s, const cel_box *a, const cel_box *b) {
  if (!images(s, a, b)) return false;
  cel_region_subtract(&s->b, &s->c, &s->a);
  if (found(s, a, b, &s->b)) return true;
  cel_region_subtract(&s->b, &s->a, &s->c);
  return found(s, a, b, &s->b);
}

/* ---- pairs --------------------------------------------------------------- */

/* Pairs that are disjoint in dimension d, all else given. With `touching` the
 * second begins where the first ends. */
static bool try_disjoint(search *s, int d, bool touching, try_pair *pair,
                         cel_box a, cel_box b) {
  const int64_t *at = s->mark[d];
  int n = s->marks[d];
  for (int i = 0; i < n - 1; ++i)
    for (int j = i + 1; j < n; ++j)
      for (int k = j; k < n - 1; ++k) {
        if (touching && k > j) break;
        for (int l = k + 1; l < n; ++l) {
          set(s, &a, d, at[i], at[j]);
          set(s, &b, d, at[k], at[l]);
          if (pair(s, &a, &b)) return true;
        }
      }
  return false;
}

/* Fills in the dimensions from e on but d, and tries what is disjoint in d.
 * There the chunks are alike (all, the ends, the halves) or, unless they must
 * touch, disjoint as well: the first two units, and the halves, either way. */
static bool try_others(search *s, int e, int d, bool touching, try_pair *pair,
                       cel_box a, cel_box b) {
  if (e == CEL_DIMS) return try_disjoint(s, d, touching, pair, a, b);
  int64_t n = s->units->count[e], h = (n + 1) / 2;
  const int64_t of[9][4] = {{0, n, 0, n}, {0, 1, 0, 1}, {n - 1, n, n - 1, n},
                            {0, h, 0, h}, {h, n, h, n}, {0, 1, 1, 2},
                            {1, 2, 0, 1}, {0, h, h, n}, {h, n, 0, h}};
  int tries = n == 1 || e == d ? 1 : touching ? 5 : 9;
  for (int i = 0; i < tries; ++i) {
    set(s, &a, e, of[i][0], of[i][1]);
    set(s, &b, e, of[i][2], of[i][3]);
    if (try_others(s, e + 1, d, touching, pair, a, b)) return true;
  }
  return false;
}

/* The split in two along d comes first: the smallest case to show. */
static bool try_halves(search *s, int d, try_pair *pair) {
  cel_box a = s->units->range, b = a;
  int64_t n = s->units->count[d], h = (n + 1) / 2;
  set(s, &a, d, 0, h);
  set(s, &b, d, h, n);
  return pair(s, &a, &b);
}

/* Whether two chunks overlap of an even split in p along d. */
static bool try_split(search *s, int d, int64_t p) {
  cel_cut cut = cel_cut_even(0, s->units->count[d], p, 1);
  cel_box a = s->units->range, b = a;
  cel_region_clear(&s->c);
  for (int64_t i = 0; i < p; ++i) {
    set(s, &b, d, cel_cut_at(&cut, i), cel_cut_at(&cut, i + 1));
    if (!image(s, &b, &s->b)) continue;
    cel_region_intersect(&s->a, &s->b, &s->c);
    for (int64_t j = 0; j < i && s->a.n > 0; ++j) {
      set(s, &a, d, cel_cut_at(&cut, j), cel_cut_at(&cut, j + 1));
      if (overlap(s, &a, &b)) return true;
    }
    cel_region_unite(&s->c, &s->c, &s->b);
  }
  return false;
}

/* Splits of other numbers of ranks than two: what they would refuse. */
static bool try_splits(search *s) {
  for (int d = 0; d < CEL_DIMS; ++d)
    for (int64_t p = 3; p <= MOST_PIECES && p <= s->units->count[d]; ++p)
      if (try_split(s, d, p)) return true;
  return false;
}

static cel_proof run(const cel_rule_use *use, const cel_rule_use *writes,
                     const cel_units *units, bool touching, try_pair *pair,
                     cel_counter_example *why) {
  search s;
  search_init(&s, use, units, why);
  s.writes = writes;
  bool hit = false;
  for (int d = 0; d < CEL_DIMS && !hit; ++d)
    hit = units->count[d] > 1 && try_halves(&s, d, pair);
  s.more = true;
  for (int d = 0; d < CEL_DIMS && !hit; ++d)
    hit = units->count[d] > 1 &&
          try_others(&s, 0, d, touching, pair, units->range, units->range);
  if (!hit && pair == overlap && !s.all) hit = try_splits(&s);
  search_release(&s);
  if (hit) return CEL_REFUTED;
  return s.all && !s.faulted ? CEL_PROVED : CEL_UNKNOWN;
}

cel_proof cel__search_disjoint(const cel_rule_use *use, const cel_units *units,
                               cel_counter_example *why) {
  return run(use, NULL, units, false, overlap, why);
}

cel_proof cel__search_union(const cel_rule_use *use, const cel_units *units,
                            cel_counter_example *why) {
  return run(use, NULL, units, true, disagree, why);
}

cel_proof cel__search_hull(const cel_rule_use *use, const cel_units *units,
                           cel_counter_example *why) {
  return run(use, NULL, units, true, strays, why);
}

cel_proof cel__search_uncrossed(const cel_rule_use *reads,
                                const cel_rule_use *writes,
                                const cel_units *units,
                                cel_counter_example *why) {
  return run(reads, writes, units, false, cross, why);
}
