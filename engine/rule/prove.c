#include <string.h>

#include "rule/family.h"
#include "rule/listing.h"
#include "rule/monotone.h"
#include "rule/search.h"
#include "rule/units.h"

/* Both proofs reduce to "this linear form is nowhere negative" over the unit
 * coordinates of the chunks involved. In one dimension those form a chain,
 * each at least a given gap above the one before, so a linear form takes its
 * least value where some first ones are as low as can be and the rest as high.
 */

/* No such chunks exist: everything holds of them. */
#define NONE ((cel_wide)1 << 120)

/* Least sum of k[i] * x[i] over low <= x[0], x[i] + gap[i] <= x[i + 1],
 * x[n - 1] <= high. */
static cel_wide chain_least(int n, const int64_t *k, const int *gap,
                            int64_t low, int64_t high) {
  cel_wide least = NONE;
  int64_t slack = high - low;
  for (int i = 0; i + 1 < n; ++i) slack -= gap[i];
  if (slack < 0) return NONE;
  for (int risen = 0; risen <= n; ++risen) { /* how many stay low */
    cel_wide sum = 0;
    int64_t x = low;
    for (int i = 0; i < n; ++i) {
      sum += (cel_wide)k[i] * (i < risen ? x : x + slack);
      x += i + 1 < n ? gap[i] : 0;
    }
    if (sum < least) least = sum;
  }
  return least;
}

/* What most mappers are: `lo` begins with the chunk in dimension d and `hi`
 * ends with it, both by the same factor and by nothing else. */
static bool spans(const cel_linear *lo, const cel_linear *hi, int d) {
  for (int i = 0; i < 2 * CEL_DIMS; ++i)
    if ((i != d && lo->k[i] != 0) || (i != 3 + d && hi->k[i] != 0))
      return false;
  return lo->k[d] > 0 && lo->k[d] == hi->k[3 + d];
}

static const int one_chunk[] = {1};

/* What dimension d of one chunk adds to the least value of sign * form. */
static cel_wide chunk_least(const cel_linear *form, int64_t sign, int d,
                            const cel_domain *domain) {
  int64_t k[2] = {sign * form->k[d], sign * form->k[3 + d]};
  return chain_least(2, k, one_chunk, domain->low[d], domain->high[d]);
}

/* ---- a rule in units ----------------------------------------------------- */

/* Chunks of a family's dimension count in indices: there are more of them than
 * are permitted, and what holds of all holds of those. Dimensions that are not
 * cut too, as indices differ there as well. */
static void refine(cel_units *units, const cel_rule_use *use) {
  for (int b = 0; b < use->rule->desc.boxes; ++b) {
    int d = cel__family_dim(use, b);
    if (d < 0) continue;
    units->g[d] = 1;
    units->count[d] = units->range.max[d] - units->range.min[d];
    units->ragged[d] = false;
  }
}

/* Every box that is linear, for every set of ragged dimensions in which a chunk
 * is at the end; sets that are not subsets of the ragged ones are left out. The
 * holder owns it: unit_rule_init ... unit_rule_release. */
typedef struct unit_rule {
  const cel_rule_use *use;
  unsigned ragged;
  int boxes;
  cel_domain domain[8];
  cel_linear_box *box[8]; /* by set: `boxes` of them; only the first is owned */
  bool linear[CEL_RULE_BOXES], all_linear;
} unit_rule;

/* Whether box b is empty for every chunk: asked last, as few are. */
static bool is_empty(const unit_rule *rule, unsigned at_end, int b) {
  const cel_linear_box *box = &rule->box[at_end][b];
  const cel_domain *domain = &rule->domain[at_end];
  if (cel_box_is_empty(&box->clip)) return true;
  for (int j = 0; j < CEL_DIMS; ++j) {
    cel_linear width;
    if (cel__linear_sub(&box->lo[j], &box->hi[j], &width) &&
        cel__linear_least(&width, domain) >= 0)
      return true;
  }
  return false;
}

static void unit_rule_init(const cel_rule_use *use, const cel_units *units,
                           unit_rule *out) {
  out->use = use;
  out->ragged = cel__units_ragged(units);
  out->boxes = use->rule->desc.boxes;
  out->all_linear = true;
  for (int b = 0; b < out->boxes; ++b) out->linear[b] = true;
  size_t sets = out->ragged + 1; /* as numbers they go up to `ragged` */
  out->box[0] = cel_alloc(sets * (size_t)out->boxes * sizeof *out->box[0] + 1);
  for (unsigned at_end = 0; at_end < 8; ++at_end) {
    if (at_end & ~out->ragged) continue;
    cel_domain *domain = &out->domain[at_end];
    out->box[at_end] = out->box[0] + (size_t)at_end * (size_t)out->boxes;
    cel__units_domain(units, at_end, domain);
    for (int b = 0; b < out->boxes; ++b) {
      cel_linear_box *box = &out->box[at_end][b];
      out->linear[b] = out->linear[b] && cel__box_linear(use, domain, b, box);
      out->all_linear = out->all_linear && out->linear[b];
    }
  }
}

static void unit_rule_release(unit_rule *rule) {
  cel_free(rule->box[0]);
}

/* ---- non-overlap --------------------------------------------------------- */

/* Two chunks, `below` before `above` in dimension d and anywhere in others. */
typedef struct chunk_pair {
  int d;
  const cel_domain *below, *above;
} chunk_pair;

/* Least value of s * (y(above) - x(below)). */
static cel_wide pair_least(const chunk_pair *pair, const cel_linear *y,
                           const cel_linear *x, int64_t s) {
  static const int gap[] = {1, 0, 1};
  cel_wide sum = ((cel_wide)y->c - x->c) * s;
  for (int e = 0; e < CEL_DIMS; ++e) {
    if (e != pair->d) {
      sum += chunk_least(x, -s, e, pair->below);
      sum += chunk_least(y, s, e, pair->above);
      continue;
    }
    int64_t k[4] = {-s * x->k[e], -s * x->k[3 + e], s * y->k[e],
                    s * y->k[3 + e]};
    sum += chain_least(4, k, gap, pair->above->low[e], pair->above->high[e]);
  }
  return sum;
}

/* Whether `lo` or `clip_lo` is at or above `hi` or `clip_hi` for every pair;
 * s is 1 where lo belongs to the chunk above, and -1 where hi does. */
static bool separates(const chunk_pair *pair, const cel_linear *lo,
                      int64_t clip_lo, const cel_linear *hi, int64_t clip_hi,
                      int64_t s) {
  if (clip_lo >= clip_hi) return true;
  cel_linear c_lo = {.c = clip_lo}, c_hi = {.c = clip_hi};
  const cel_linear *los[2] = {lo, &c_lo}, *his[2] = {hi, &c_hi};
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 2; ++k) {
      const cel_linear *above = s > 0 ? los[i] : his[k];
      const cel_linear *below = s > 0 ? his[k] : los[i];
      if (pair_least(pair, above, below, s) >= 0) return true;
    }
  return false;
}

/* Whether box x of the chunk below never meets box y of the chunk above. */
static bool never_meet(const chunk_pair *pair, const cel_linear_box *x,
                       const cel_linear_box *y) {
  for (int j = 0; j < CEL_DIMS; ++j)
    if (y->lo[j].c >= x->hi[j].c && spans(&y->lo[j], &x->hi[j], pair->d))
      return true;
  for (int j = 0; j < CEL_DIMS; ++j)
    if (separates(pair, &y->lo[j], y->clip.min[j], &x->hi[j], x->clip.max[j],
                  1) ||
        separates(pair, &x->lo[j], x->clip.min[j], &y->hi[j], y->clip.max[j],
                  -1))
      return true;
  return false;
}

/* Whether what `low` gives for the chunk below is disjoint from what `high`
 * gives for the one above. */
static bool disjoint_along(const unit_rule *low, const unit_rule *high, int d) {
  for (unsigned m = 0; m < 8; ++m)
    for (unsigned n = 0; n < 8; ++n) {
      if ((m & ~low->ragged) || (n & ~low->ragged) || (m >> d & 1)) continue;
      chunk_pair pair = {d, &low->domain[m], &low->domain[n]};
      for (int x = 0; x < low->boxes; ++x)
        for (int y = 0; y < high->boxes; ++y)
          if (!never_meet(&pair, &low->box[m][x], &high->box[n][y]) &&
              !is_empty(low, m, x) && !is_empty(high, n, y))
            return false;
    }
  return true;
}

bool cel_rule_plainly_disjoint(const cel_rule_use *use,
                               const cel_split_kind *kind) {
  const cel_rule *rule = use->rule;
  unsigned cut = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t n = use->range.max[d] - use->range.min[d];
    cut |= (unsigned)(kind->cut[d] && n > 1 && n > kind->granularity[d]) << d;
  }
  for (int j = 0; j < CEL_DIMS; ++j)
    if (rule->follows[j] >= 0) cut &= ~(1u << rule->follows[j]);
  return rule->plain && cut == 0;
}

cel_proof cel_rule_prove_disjoint(const cel_rule_use *use,
                                  const cel_split_kind *kind,
                                  cel_counter_example *why) {
  cel_units units;
  unit_rule rule;
  if (cel_box_is_empty(&use->range) || cel_rule_plainly_disjoint(use, kind))
    return CEL_PROVED;
  cel__units_init(&use->range, kind, &units);
  if (use->rule->listing != NULL) return CEL_UNKNOWN;
  cel_units fine = units;
  refine(&fine, use);
  unit_rule_init(use, &fine, &rule);
  bool proved = rule.all_linear;
  for (int d = 0; d < CEL_DIMS && proved; ++d)
    proved = units.count[d] == 1 || disjoint_along(&rule, &rule, d);
  unit_rule_release(&rule);
  if (proved) return CEL_PROVED;
  return cel__search_disjoint(use, &units, why);
}

/* Appends the programs of `from` to those in *to, whose code and boxes have
 * room. A rule of the store holds its programs one after the other, so its code
 * can be walked as a whole. */
static void append(cel_rule_desc *to, int64_t *code, cel_rule_box *box,
                   const cel_rule_desc *from) {
  int32_t at = to->code_length;
  for (int32_t b = 0; b < from->boxes; ++b) {
    box[to->boxes + b] = from->box[b];
    for (int j = 0; j < from->buffer_dims; ++j)
      for (int upper = 0; upper < 2; ++upper)
        box[to->boxes + b].start[j][upper] += at;
  }
  for (int32_t i = 0; i < from->code_length; ++i) {
    int64_t op = code[at + i] = from->code[i];
    if (op >= CEL_RULE_ADD) continue;
    ++i;
    code[at + i] = from->code[i] + (op == CEL_RULE_PARAM ? to->params : 0);
  }
  to->boxes += from->boxes;
  to->params += from->params;
  to->code_length += from->code_length;
}

cel_proof cel_rule_prove_pair_disjoint(const cel_rule_use *a,
                                       const cel_rule_use *b,
                                       const cel_split_kind *kind,
                                       cel_counter_example *why) {
  const cel_rule_desc *x = &a->rule->desc, *y = &b->rule->desc;
  if (a->rule->listing != NULL || b->rule->listing != NULL) return CEL_UNKNOWN;
  if (x->task_dims != y->task_dims || x->buffer_dims != y->buffer_dims ||
      x->boxes + y->boxes > CEL_RULE_BOXES ||
      x->params + y->params > CEL_RULE_PARAMS)
    return CEL_UNKNOWN;
  cel_rule both = {
      .desc = {.task_dims = x->task_dims, .buffer_dims = x->buffer_dims},
      .families = a->rule->families || b->rule->families};
  int64_t params[CEL_RULE_PARAMS];
  size_t words = (size_t)x->code_length + (size_t)y->code_length;
  int64_t *code = cel_alloc(words * sizeof *code + 1);
  cel_rule_box *box =
      cel_alloc((size_t)(x->boxes + y->boxes) * sizeof *box + 1);
  both.desc.code = code;
  both.desc.box = box;
  if (x->params > 0)
    memcpy(params, a->params, (size_t)x->params * sizeof *params);
  if (y->params > 0)
    memcpy(params + x->params, b->params, (size_t)y->params * sizeof *params);
  append(&both.desc, code, box, x);
  append(&both.desc, code, box, y);
  cel_rule_use use = {&both, params, a->range, a->extent};
  cel_proof proof = cel_rule_prove_disjoint(&use, kind, why);
  cel_free(code);
  cel_free(box);
  return proof;
}

cel_proof cel_rule_prove_uncrossed(const cel_rule_use *reads,
                                   const cel_rule_use *writes,
                                   const cel_split_kind *kind,
                                   cel_counter_example *why) {
  cel_units units;
  unit_rule in, out;
  if (reads->rule->listing != NULL || writes->rule->listing != NULL)
    return CEL_UNKNOWN;
  if (cel_box_is_empty(&reads->range)) return CEL_PROVED;
  cel__units_init(&reads->range, kind, &units);
  cel_units fine = units;
  refine(&fine, reads);
  refine(&fine, writes);
  unit_rule_init(reads, &fine, &in);
  unit_rule_init(writes, &fine, &out);
  bool proved = in.all_linear && out.all_linear;
  for (int d = 0; d < CEL_DIMS && proved; ++d)
    proved = units.count[d] == 1 ||
             (disjoint_along(&in, &out, d) && disjoint_along(&out, &in, d));
  unit_rule_release(&in);
  unit_rule_release(&out);
  if (proved) return CEL_PROVED;
  return cel__search_uncrossed(reads, writes, &units, why);
}

/* ---- union homomorphism -------------------------------------------------- */

/* Two chunks that touch in dimension d, and their union; in units of d they
 * are [m, x), [x, M) and [m, M), elsewhere alike. */
typedef struct touching {
  int d;
  const cel_domain *domain; /* of the union */
} touching;

enum { FIRST, SECOND, BOTH };

/* The form over (m, x, M) instead of a chunk's own (min, max) in dimension
 * d. */
static void spread(const cel_linear *form, int d, int which, int64_t sign,
                   int64_t *k) {
  k[which == SECOND ? 1 : 0] += sign * form->k[d];
  k[which == FIRST ? 1 : 2] += sign * form->k[3 + d];
}

/* Least value of a(chunk i) - b(chunk k). */
static cel_wide touch_least(const touching *t, const cel_linear *a, int i,
                            const cel_linear *b, int k) {
  static const int gap[] = {1, 1};
  cel_linear difference;
  if (!cel__linear_sub(a, b, &difference)) return -1;
  cel_wide sum = difference.c;
  for (int e = 0; e < CEL_DIMS; ++e)
    if (e != t->d) sum += chunk_least(&difference, 1, e, t->domain);
  int64_t c[3] = {0};
  spread(a, t->d, i, 1, c);
  spread(b, t->d, k, -1, c);
  return sum +
         chain_least(3, c, gap, t->domain->low[t->d], t->domain->high[t->d]);
}

/* Whether a(chunk i) is b(chunk k): as one sees where what equal forms follow
 * in dimension d is at the same place for both chunks. */
static bool same(const touching *t, const cel_linear *a, int i,
                 const cel_linear *b, int k) {
  bool one_min = (i == SECOND) == (k == SECOND) || a->k[t->d] == 0;
  bool one_max = (i == FIRST) == (k == FIRST) || a->k[3 + t->d] == 0;
  if (one_min && one_max && memcmp(a, b, sizeof *a) == 0) return true;
  return touch_least(t, a, i, b, k) >= 0 && touch_least(t, b, k, a, i) >= 0;
}

/* Whether a bound of the union is that of chunk i. */
static bool taken_from(const touching *t, const cel_linear *const f[3], int i) {
  return same(t, f[BOTH], BOTH, f[i], i);
}

/* Whether the intervals of the two chunks, the lower one being chunk i, join
 * without a gap to that of their union. */
static bool joins(const touching *t, const cel_linear *const lo[3],
                  const cel_linear *const hi[3], int i) {
  int k = 1 - i;
  return taken_from(t, lo, i) && taken_from(t, hi, k) &&
         touch_least(t, lo[k], k, lo[i], i) >= 0 &&
         touch_least(t, hi[k], k, hi[i], i) >= 0 &&
         touch_least(t, hi[i], i, lo[k], k) >= 0;
}

/* Whether they do by looking at them: there is no gap where chunks touch. */
static bool plainly_joins(int d, const cel_linear *const lo[3],
                          const cel_linear *const hi[3]) {
  return lo[0]->c <= hi[0]->c && spans(lo[0], hi[0], d) &&
         memcmp(lo[0], lo[1], sizeof *lo[0]) == 0 &&
         memcmp(hi[0], hi[1], sizeof *hi[0]) == 0;
}

/* Whether box `first` of a chunk and box `second` of the chunk after it (and
 * of the union) unite to that of the union: in all dimensions but one they are
 * equal, and there they join. */
static bool box_unites(const touching *t, const cel_linear_box *first,
                       const cel_linear_box *second) {
  int joined = 0;
  if (!cel_box_equal(&first->clip, &second->clip)) return false;
  for (int j = 0; j < CEL_DIMS; ++j) {
    const cel_linear *lo[3] = {&first->lo[j], &second->lo[j], &second->lo[j]};
    const cel_linear *hi[3] = {&first->hi[j], &second->hi[j], &second->hi[j]};
    if (plainly_joins(t->d, lo, hi)) {
      if (++joined > 1) return false;
      continue;
    }
    if (taken_from(t, lo, 0) && taken_from(t, lo, 1) && taken_from(t, hi, 0) &&
        taken_from(t, hi, 1))
      continue;
    if (++joined > 1) return false;
    if (!joins(t, lo, hi, 0) && !joins(t, lo, hi, 1)) return false;
  }
  return true;
}

static bool unites_along(const unit_rule *rule, int b, int d) {
  for (unsigned n = 0; n < 8; ++n) {
    if (n & ~rule->ragged) continue;
    unsigned m = n & ~(1u << d); /* the first chunk is not at the end */
    touching t = {d, &rule->domain[n]};
    if (!box_unites(&t, &rule->box[m][b], &rule->box[n][b]) &&
        !(is_empty(rule, m, b) && is_empty(rule, n, b)))
      return false;
  }
  return true;
}

/* A family does so along its own dimension. */
static bool unites(const unit_rule *rule, const cel_units *units, int b) {
  bool proved = rule->linear[b];
  for (int d = 0; d < CEL_DIMS && proved; ++d)
    proved = units->count[d] == 1 || d == cel__family_dim(rule->use, b) ||
             unites_along(rule, b, d);
  return proved;
}

cel_proof cel_rule_prove_union(const cel_rule_use *use,
                               const cel_split_kind *kind,
                               cel_counter_example *why) {
  cel_units units;
  unit_rule rule;
  if (cel_box_is_empty(&use->range) || use->rule->plain) return CEL_PROVED;
  cel__units_init(&use->range, kind, &units);
  if (use->rule->listing != NULL)
    return cel__listing_union(use->rule->listing, CEL__EXACTLY, why);
  cel_units fine = units;
  refine(&fine, use);
  unit_rule_init(use, &fine, &rule);
  bool proved = true;
  for (int b = 0; b < rule.boxes && proved; ++b)
    proved = unites(&rule, &units, b) || cel__monotone_unites(use, &units, b);
  unit_rule_release(&rule);
  if (proved) return CEL_PROVED;
  return cel__search_union(use, &units, why);
}

cel_proof cel_rule_prove_hull(const cel_rule_use *use,
                              const cel_split_kind *kind,
                              cel_counter_example *why) {
  cel_units units;
  if (cel_box_is_empty(&use->range) || use->rule->plain) return CEL_PROVED;
  if (use->rule->listing != NULL)
    return cel__listing_union(use->rule->listing, CEL__AROUND, why);
  cel__units_init(&use->range, kind, &units);
  return cel__search_hull(use, &units, why);
}

bool cel_rule_grows(const cel_rule_use *use, const cel_split_kind *kind) {
  cel_units units;
  if (use->rule->listing != NULL) return false;
  cel__units_init(&use->range, kind, &units);
  for (int b = 0; b < use->rule->desc.boxes; ++b)
    if (!cel__monotone_grows(use, &units, b)) return false;
  return true;
}
