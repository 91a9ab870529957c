#include "rule/family.h"

#include <stdlib.h>
#include <string.h>

#include "rule/monotone.h"

/* ---- runs ---------------------------------------------------------------- */

/* v + s * t for the index that lies t after the one at hand. */
typedef struct sloped {
  int64_t v, s;
} sloped;

/* Boxes of `n` indices, t = 0 .. n - 1, bound by bound. They are all empty, or
 * none is. */
typedef struct run {
  sloped bound[3][2];
  int64_t n;
  bool empty;
} run;

static void shorten(int64_t *n, int64_t to) {
  if (*n > to) *n = to;
}

/* For how many t from 0 on v + s * t >= 0 holds, where it does for t = 0. */
static int64_t while_not_negative(int64_t v, int64_t s) {
  return s >= 0 ? INT64_MAX : v / -s + 1;
}

static sloped less(sloped a, sloped b) {
  return (sloped){a.v - b.v, a.s - b.s};
}

static sloped scaled(sloped a, int64_t by, int64_t v, int64_t *n) {
  sloped r = {v, 0};
  if (__builtin_mul_overflow(a.s, by, &r.s)) *n = 1;
  return r;
}

static sloped floored(sloped a, int64_t by, int64_t v, int64_t *n) {
  if (a.s % by == 0) return (sloped){v, a.s / by};
  int64_t rest = a.v - v * by;
  shorten(n, a.s > 0 ? while_not_negative(by - 1 - rest, -a.s)
                     : while_not_negative(rest, a.s));
  return (sloped){v, 0};
}

/* The smaller one, or the larger; the other lies `gap` beyond. */
static sloped chosen(sloped a, sloped b, sloped gap, int64_t *n) {
  bool first = gap.v > 0 || (gap.v == 0 && gap.s >= 0);
  shorten(n, first ? while_not_negative(gap.v, gap.s)
                   : while_not_negative(-gap.v, -gap.s));
  return first ? a : b;
}

/* a op b of the value v, for as many of the *n indices as it stays linear, or
 * for the first one alone. */
static sloped combine(int64_t op, sloped a, sloped b, int64_t v, int64_t *n) {
  switch (op) {
  case CEL_RULE_ADD: return (sloped){v, a.s + b.s};
  case CEL_RULE_SUB: return less(a, b);
  case CEL_RULE_MUL:
    if (a.s == 0) return scaled(b, a.v, v, n);
    if (b.s == 0) return scaled(a, b.v, v, n);
    break;
  case CEL_RULE_FLOORDIV:
    if (b.s == 0) return floored(a, b.v, v, n);
    break;
  case CEL_RULE_LOW: return chosen(a, b, less(b, a), n);
  default: return chosen(a, b, less(a, b), n);
  }
  *n = 1;
  return (sloped){v, 0};
}

/* Ends the run before a value leaves the integers: the index that does then
 * begins one, and is found out. */
static void within_limit(sloped *x, int64_t *n) {
  if (!cel__in_limit(x->s)) {
    x->s = 0;
    *n = 1;
  }
  shorten(n, x->s > 0 ? while_not_negative(CEL_RULE_LIMIT - x->v, -x->s)
                      : while_not_negative(CEL_RULE_LIMIT + x->v, x->s));
}

/* One program for the indices that begin with that of `chunk`. */
static cel_rule_fault bound_run(const cel_rule_use *use, const int64_t *code,
                                int length, const cel_box *chunk, sloped *out,
                                int64_t *n) {
  sloped stack[CEL_RULE_DEPTH];
  int top = 0;
  for (int i = 0; i < length; ++i) {
    int64_t op = code[i];
    sloped r = {0};
    if (op >= CEL_RULE_ADD) {
      sloped a = stack[top - 2], b = stack[top - 1];
      cel_rule_fault fault = cel__binary_eval(op, a.v, b.v, &r.v);
      if (fault) return fault;
      r = combine(op, a, b, r.v, n);
      top -= 2;
    } else {
      r.v = cel__variable_eval(use, chunk, op, code[++i]);
      r.s = op == CEL_RULE_ITEM;
      if (!cel__in_limit(r.v)) return CEL_RULE_OVERFLOWS;
    }
    within_limit(&r, n);
    stack[top++] = r;
  }
  *out = stack[0];
  return CEL_RULE_FINE;
}

/* Ends the run where its boxes become empty, or cease to be. */
static void settle_empty(const cel_rule_desc *desc, run *r) {
  int64_t some = INT64_MAX, none = 0;
  for (int j = 0; j < desc->buffer_dims; ++j) {
    sloped width = less(r->bound[j][1], r->bound[j][0]);
    if (width.v > 0) {
      int64_t n = while_not_negative(width.v - 1, width.s);
      if (n < some) some = n;
    } else {
      int64_t n = while_not_negative(-width.v, -width.s);
      if (n > none) none = n;
    }
  }
  r->empty = none > 0;
  shorten(&r->n, r->empty ? none : some);
}

/* The run of box b that begins with index `at` of the chunk. */
static cel_rule_fault run_at(const cel_rule_use *use, int b,
                             const cel_box *chunk, int64_t at, run *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  const cel_rule_box *box = &desc->box[b];
  int d = cel__family_dim(use, b);
  cel_box one = *chunk;
  one.min[d] = at;
  one.max[d] = at + 1;
  out->n = chunk->max[d] - at;
  for (int j = 0; j < CEL_DIMS; ++j) {
    out->bound[j][0] = (sloped){0, 0};
    out->bound[j][1] = (sloped){1, 0};
  }
  for (int j = 0; j < desc->buffer_dims; ++j)
    for (int upper = 0; upper < 2; ++upper) {
      cel_rule_fault fault = bound_run(use, desc->code + box->start[j][upper],
                                       box->length[j][upper], &one,
                                       &out->bound[j][upper], &out->n);
      if (fault) return fault;
    }
  settle_empty(desc, out);
  return CEL_RULE_FINE;
}

static cel_box box_at(const run *r, int64_t t) {
  cel_box box;
  for (int j = 0; j < CEL_DIMS; ++j) {
    box.min[j] = r->bound[j][0].v + t * r->bound[j][0].s;
    box.max[j] = r->bound[j][1].v + t * r->bound[j][1].s;
  }
  return box;
}

/* The box around all of a run that is not empty: bounds are extreme at its
 * ends. */
static cel_box around(const run *r) {
  cel_box first = box_at(r, 0), last = box_at(r, r->n - 1);
  return cel_box_hull(&first, &last);
}

/* Whether that is what its boxes come to: they differ in one dimension at most,
 * and each touches the next. */
static bool is_one(const run *r) {
  int moves = 0, j = 0;
  for (int k = 0; k < CEL_DIMS; ++k) {
    if (r->bound[k][0].s == 0 && r->bound[k][1].s == 0) continue;
    ++moves;
    j = k;
  }
  if (moves == 0 || r->n == 1) return true;
  if (moves > 1) return false;
  sloped lo = r->bound[j][0], hi = r->bound[j][1], width = less(hi, lo);
  int64_t least = width.v;
  if (width.s < 0) least += (r->n - 2) * width.s;
  return least >= lo.s && least >= -hi.s;
}

/* ---- boxes of a chunk ---------------------------------------------------- */

/* Whether y lies beside or on x in one dimension, and is alike in the others:
 * *x becomes both. */
static bool joins(cel_box *x, const cel_box *y) {
  int j = -1;
  for (int k = 0; k < CEL_DIMS; ++k) {
    if (x->min[k] == y->min[k] && x->max[k] == y->max[k]) continue;
    if (j >= 0) return false;
    j = k;
  }
  if (j >= 0 && (y->min[j] > x->max[j] || x->min[j] > y->max[j])) return false;
  *x = cel_box_hull(x, y);
  return true;
}

static void put(cel__gathered *to, const cel_box *box) {
  if (to->list.n > 0 && joins(&cel_vec_last(&to->list), box)) return;
  if (++to->n <= CEL_RULE_GATHERED) cel_vec_push(&to->list, *box);
}

/* Indices [*from, *to) of a run whose boxes meet `clip`. */
static void within(const run *r, const cel_box *clip, int64_t *from,
                   int64_t *to) {
  *from = 0;
  *to = r->n;
  for (int j = 0; j < CEL_DIMS; ++j) {
    /* Neither may be negative, so it holds from or up to some index. */
    sloped in[2] = {{clip->max[j] - 1 - r->bound[j][0].v, -r->bound[j][0].s},
                    {r->bound[j][1].v - 1 - clip->min[j], r->bound[j][1].s}};
    for (int i = 0; i < 2; ++i) {
      if (in[i].v >= 0) {
        shorten(to, while_not_negative(in[i].v, in[i].s));
      } else if (in[i].s <= 0) {
        *to = 0;
      } else {
        int64_t first = (-in[i].v + in[i].s - 1) / in[i].s;
        if (first > *from) *from = first;
      }
    }
  }
}

static void put_run(cel__gathered *to, const run *r, const cel_box *extent) {
  cel_box box;
  if (is_one(r)) {
    box = around(r);
    if (cel_box_intersect(&box, extent, &box)) put(to, &box);
    return;
  }
  int64_t from, end;
  within(r, extent, &from, &end);
  for (; from < end && to->n <= CEL_RULE_GATHERED; ++from) {
    box = box_at(r, from);
    if (cel_box_intersect(&box, extent, &box)) put(to, &box);
  }
  if (from < end) to->n += end - from; /* counted, for whoever is told of it */
}

/* Whether a run leaves the buffer: *raw becomes the box at that end of it. */
static bool leaves(const run *r, const cel_box *extent, cel_box *raw) {
  cel_box all = around(r);
  if (cel_box_covers(extent, &all)) return false;
  *raw = box_at(r, 0);
  if (cel_box_covers(extent, raw)) *raw = box_at(r, r->n - 1);
  return true;
}

/* The next run of box b, from *at on, which moves behind it: one that leaves
 * the buffer is a fault. */
static cel_rule_fault next_run(const cel_rule_use *use, int b,
                               const cel_box *chunk, int64_t *at, run *out,
                               cel_box *raw) {
  cel_rule_fault fault = run_at(use, b, chunk, *at, out);
  if (fault) return fault;
  *at += out->n;
  bool checks = !out->empty && !use->rule->desc.box[b].clamp;
  return checks && leaves(out, &use->extent, raw) ? CEL_RULE_LEAVES
                                                  : CEL_RULE_FINE;
}

/* Whether box b comes to one box as its form says, which saves to look at each
 * run: *raw is that box then, unless it fails. */
static bool is_whole(const cel_rule_use *use, int b, const cel_box *chunk,
                     cel_box *raw, cel_rule_fault *fault) {
  static const cel_split_kind anywhere = {{true, true, true}, {1, 1, 1}};
  int d = cel__family_dim(use, b);
  cel_units units;
  run first, last;
  bool falls = false;
  *fault = run_at(use, b, chunk, chunk->min[d], &first);
  if (*fault) return true;
  if (first.n == chunk->max[d] - chunk->min[d]) return false;
  cel__units_init(&use->range, &anywhere, &units);
  if (!cel__monotone_joins(use, &units, b, &falls)) return false;
  *fault = run_at(use, b, chunk, chunk->max[d] - 1, &last);
  if (*fault) return true;
  cel_box from = box_at(&first, 0), to = box_at(&last, 0);
  for (int j = 0; j < CEL_DIMS; ++j) {
    raw->min[j] = falls ? to.min[j] : from.min[j];
    raw->max[j] = falls ? from.max[j] : to.max[j];
  }
  if (!use->rule->desc.box[b].clamp && !cel_box_covers(&use->extent, raw))
    *fault = CEL_RULE_LEAVES;
  return true;
}

cel_rule_fault cel__family_gather(const cel_rule_use *use, int b,
                                  const cel_box *chunk, int64_t most,
                                  cel__gathered *to) {
  int d = cel__family_dim(use, b), runs = 0;
  cel_box raw;
  cel_rule_fault fault;
  if (is_whole(use, b, chunk, &raw, &fault)) {
    if (!fault && cel_box_intersect(&raw, &use->extent, &raw)) put(to, &raw);
    return fault;
  }
  for (int64_t at = chunk->min[d]; at < chunk->max[d]; ++runs) {
    run r;
    if (runs == CEL_RULE_RUNS) return CEL_RULE_TURNS;
    fault = next_run(use, b, chunk, &at, &r, &raw);
    if (fault) return fault;
    if (!r.empty) put_run(to, &r, &use->extent);
    if (to->n > most) return CEL_RULE_MANY;
  }
  return CEL_RULE_FINE;
}

static int compare(const void *a, const void *b) {
  return cel_box_compare(a, b);
}

/* In an order in which a region is made fast. */
static void sort(cel__gathered *all) {
  uint32_t i = 1;
  while (i < all->list.n &&
         cel_box_compare(&all->list.at[i - 1], &all->list.at[i]) <= 0)
    ++i;
  if (i < all->list.n)
    qsort(all->list.at, all->list.n, sizeof *all->list.at, compare);
}

bool cel__gathered_region(cel__gathered *all, cel_region *out) {
  cel_region made = {0};
  sort(all);
  bool fits =
      cel_region_assign_most(&made, all->list.at, all->list.n, CEL_RULE_REGION);
  if (fits) {
    cel_region_release(out);
    *out = made;
  } else {
    cel_region_release(&made);
  }
  return fits;
}

cel_rule_fault cel__family_around(const cel_rule_use *use, int b,
                                  const cel_box *chunk, cel_box *raw,
                                  cel_box *out) {
  cel_box all = {{0}, {0}};
  int d = cel__family_dim(use, b), runs = 0;
  cel_rule_fault fault;
  if (is_whole(use, b, chunk, raw, &fault)) {
    if (!fault) cel_box_intersect(raw, &use->extent, out);
    return fault;
  }
  for (int64_t at = chunk->min[d]; at < chunk->max[d];) {
    run r;
    if (runs++ == CEL_RULE_RUNS) return CEL_RULE_TURNS;
    fault = next_run(use, b, chunk, &at, &r, raw);
    if (fault) return fault;
    if (r.empty) continue;
    cel_box one = around(&r);
    all = cel_box_hull(&all, &one);
  }
  *raw = all;
  cel_box_intersect(&all, &use->extent, out);
  return CEL_RULE_FINE;
}
