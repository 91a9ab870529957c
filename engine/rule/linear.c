#include "rule/linear.h"

#include <string.h>

/* ---- domains and extremes ------------------------------------------------ */

void cel__domain_whole(const cel_box *range, cel_domain *out) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    out->scale[d] = out->scale[3 + d] = 1;
    out->offset[d] = out->offset[3 + d] = 0;
    out->low[d] = range->min[d];
    out->high[d] = range->max[d];
  }
}

/* A linear form takes its extremes over low <= v < w <= high at one of the
 * three corners of that triangle. */
cel_wide cel__linear_least(const cel_linear *form, const cel_domain *domain) {
  cel_wide sum = form->c;
  for (int d = 0; d < CEL_DIMS; ++d) {
    cel_wide v = form->k[d], w = form->k[3 + d];
    cel_wide low = domain->low[d], high = domain->high[d];
    cel_wide x = v * low + w * (low + 1), y = v * low + w * high;
    cel_wide z = v * (high - 1) + w * high;
    if (y < x) x = y;
    sum += z < x ? z : x;
  }
  return sum;
}

cel_wide cel__linear_most(const cel_linear *form, const cel_domain *domain) {
  cel_linear minus = {.c = -form->c};
  for (int i = 0; i < 6; ++i) minus.k[i] = -form->k[i];
  return -cel__linear_least(&minus, domain);
}

/* ---- arithmetic on forms ------------------------------------------------- */

bool cel__linear_is_constant(const cel_linear *form) {
  for (int i = 0; i < 6; ++i)
    if (form->k[i]) return false;
  return true;
}

static bool product_fits(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out) && cel__in_limit(*out);
}

static bool mix(int64_t a, int64_t x, int64_t b, int64_t y, int64_t *out) {
  int64_t p, q;
  if (!product_fits(a, x, &p) || !product_fits(b, y, &q)) return false;
  *out = p + q;
  return cel__in_limit(*out);
}

bool cel__linear_mix(const cel_linear *a, int64_t x, const cel_linear *b,
                     int64_t y, cel_linear *out) {
  cel_linear r;
  if (!mix(a->c, x, b->c, y, &r.c)) return false;
  for (int i = 0; i < 6; ++i)
    if (!mix(a->k[i], x, b->k[i], y, &r.k[i])) return false;
  *out = r;
  return true;
}

bool cel__linear_sub(const cel_linear *a, const cel_linear *b,
                     cel_linear *out) {
  return cel__linear_mix(a, 1, b, -1, out);
}

/* ---- clamped forms ------------------------------------------------------- */

static cel_clamped unclamped(cel_linear form) {
  return (cel_clamped){form, -CEL_RULE_FAR, CEL_RULE_FAR};
}

static bool has_clamp(const cel_clamped *x) {
  return x->low > -CEL_RULE_FAR || x->high < CEL_RULE_FAR;
}

/* True, and *out its value, when x is the same for every chunk. */
static bool constant_of(const cel_clamped *x, int64_t *out) {
  if (!cel__linear_is_constant(&x->form) && x->low != x->high) return false;
  int64_t c = x->form.c;
  if (c < x->low) c = x->low;
  if (c > x->high) c = x->high;
  *out = c;
  return true;
}

/* Ends that are not there stay far away. */
static int64_t shift_end(int64_t end, int64_t by) {
  return end == CEL_RULE_FAR || end == -CEL_RULE_FAR ? end : end + by;
}

static bool add(const cel_clamped *a, const cel_clamped *b, int64_t sign,
                cel_clamped *out) {
  int64_t c;
  cel_clamped r = *a;
  if (!cel__linear_mix(&a->form, 1, &b->form, sign, &r.form)) return false;
  if (!has_clamp(a) && !has_clamp(b)) {
    *out = r;
    return true;
  }
  if (constant_of(b, &c)) { /* shift a */
    r.form = a->form;
    r.form.c += sign * c;
    r.low = shift_end(a->low, sign * c);
    r.high = shift_end(a->high, sign * c);
  } else if (constant_of(a, &c)) { /* shift b, or mirror and shift it */
    r.form = (cel_linear){0};
    if (!cel__linear_mix(&r.form, 1, &b->form, sign, &r.form)) return false;
    r.form.c += c;
    r.low = shift_end(sign > 0 ? b->low : -b->high, c);
    r.high = shift_end(sign > 0 ? b->high : -b->low, c);
  } else {
    return false;
  }
  *out = r;
  return cel__in_limit(r.form.c);
}

static bool scale_end(int64_t end, int64_t by, int64_t *out) {
  bool far = end == CEL_RULE_FAR || end == -CEL_RULE_FAR;
  if (!far) return product_fits(end, by, out);
  *out = by < 0 ? -end : end;
  return true;
}

static bool scale(const cel_clamped *a, int64_t by, cel_clamped *out) {
  cel_clamped r;
  if (by == 0) {
    *out = unclamped((cel_linear){0});
    return true;
  }
  if (!product_fits(a->form.c, by, &r.form.c)) return false;
  for (int i = 0; i < 6; ++i)
    if (!product_fits(a->form.k[i], by, &r.form.k[i])) return false;
  if (!scale_end(a->low, by, by > 0 ? &r.low : &r.high) ||
      !scale_end(a->high, by, by > 0 ? &r.high : &r.low))
    return false;
  *out = r;
  return true;
}

/* floor(a / by): exact where `by` divides what multiplies the chunk. The
 * clamps follow because floor is monotone. */
static bool divide(const cel_clamped *a, int64_t by, cel_clamped *out) {
  if (by < 1) return false;
  cel_clamped r = *a;
  for (int i = 0; i < 6; ++i) {
    if (a->form.k[i] % by) return false;
    r.form.k[i] = a->form.k[i] / by;
  }
  r.form.c = cel__floor_div(a->form.c, by);
  if (a->low > -CEL_RULE_FAR) r.low = cel__floor_div(a->low, by);
  if (a->high < CEL_RULE_FAR) r.high = cel__floor_div(a->high, by);
  *out = r;
  return true;
}

/* max(x, c) of min(max(x, low), high). */
static cel_clamped at_least(cel_clamped x, int64_t c) {
  if (x.low < c) x.low = c;
  if (x.high < c) x.high = c;
  return x;
}

static cel_clamped at_most(cel_clamped x, int64_t c) {
  if (x.low > c) x.low = c;
  if (x.high > c) x.high = c;
  return x;
}

/* Takes off clamps that no chunk of the domain reaches; where all are beyond
 * one it is a constant, so that more can be added to it. */
static cel_clamped loosen(cel_clamped x, const cel_domain *domain) {
  cel_wide least = cel__linear_least(&x.form, domain);
  cel_wide most = cel__linear_most(&x.form, domain);
  if (most <= x.low) return unclamped((cel_linear){.c = x.low});
  if (least >= x.high) return unclamped((cel_linear){.c = x.high});
  if (least >= x.low) x.low = -CEL_RULE_FAR;
  if (most <= x.high) x.high = CEL_RULE_FAR;
  return x;
}

/* min(a, b) or max(a, b): with a constant it is a clamp; else one of the two
 * must be the smaller for every chunk of the domain. */
static bool choose(const cel_clamped *a, const cel_clamped *b, bool larger,
                   const cel_domain *domain, cel_clamped *out) {
  int64_t c, other;
  if (constant_of(a, &c) && !constant_of(b, &other)) {
    *out = loosen(larger ? at_least(*b, c) : at_most(*b, c), domain);
    return true;
  }
  if (constant_of(b, &c)) {
    *out = loosen(larger ? at_least(*a, c) : at_most(*a, c), domain);
    return true;
  }
  cel_linear difference;
  if (a->low != b->low || a->high != b->high ||
      !cel__linear_sub(&a->form, &b->form, &difference))
    return false;
  if (cel__linear_least(&difference, domain) >= 0)
    *out = larger ? *a : *b;
  else if (cel__linear_most(&difference, domain) <= 0)
    *out = larger ? *b : *a;
  else
    return false;
  return true;
}

/* ---- programs ------------------------------------------------------------ */

static bool variable(const cel_rule_use *use, const cel_domain *domain,
                     int64_t op, int64_t word, cel_clamped *out) {
  cel_linear r = {0};
  if (op != CEL_RULE_MIN && op != CEL_RULE_MAX && op != CEL_RULE_ITEM) {
    r.c = cel__variable_eval(use, &use->range, op, word);
  } else {
    if (op == CEL_RULE_MAX) word += 3;
    r.c = domain->offset[word];
    r.k[word] = domain->scale[word];
  }
  *out = unclamped(r);
  return cel__in_limit(r.c);
}

static bool binary(int64_t op, const cel_clamped *a, const cel_clamped *b,
                   const cel_domain *domain, cel_clamped *out) {
  int64_t c;
  switch (op) {
  case CEL_RULE_ADD: return add(a, b, 1, out);
  case CEL_RULE_SUB: return add(a, b, -1, out);
  case CEL_RULE_MUL:
    if (constant_of(b, &c)) return scale(a, c, out);
    return constant_of(a, &c) && scale(b, c, out);
  case CEL_RULE_FLOORDIV: return constant_of(b, &c) && divide(a, c, out);
  default: return choose(a, b, op == CEL_RULE_HIGH, domain, out);
  }
}

bool cel__bound_linear(const cel_rule_use *use, const cel_domain *domain, int b,
                       int j, int upper, cel_clamped *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  const int64_t *code = desc->code + desc->box[b].start[j][upper];
  cel_clamped stack[CEL_RULE_DEPTH], r;
  int top = 0;
  for (int i = 0; i < desc->box[b].length[j][upper]; ++i) {
    if (code[i] >= CEL_RULE_ADD) {
      if (!binary(code[i], &stack[top - 2], &stack[top - 1], domain, &r))
        return false;
      stack[--top - 1] = r;
    } else {
      if (!variable(use, domain, code[i], code[i + 1], &stack[top++]))
        return false;
      ++i;
    }
  }
  *out = stack[0];
  if (out->low == out->high) *out = unclamped((cel_linear){.c = stack[0].low});
  return true;
}

/* ---- boxes --------------------------------------------------------------- */

/* Draws the clamps of both bounds in dimension j into the clip. A clamp on the
 * far side (a lower bound that is held down) only matters where it takes
 * effect inside the clip. */
static bool clip_bounds(const cel_clamped *lo, const cel_clamped *hi,
                        const cel_domain *domain, int64_t *min, int64_t *max) {
  if (*min < lo->low) *min = lo->low;
  if (*max > hi->high) *max = hi->high;
  if (lo->high < *max && cel__linear_most(&lo->form, domain) > lo->high)
    return false;
  if (hi->low > *min && cel__linear_least(&hi->form, domain) < hi->low)
    return false;
  return true;
}

bool cel__box_linear(const cel_rule_use *use, const cel_domain *domain, int b,
                     cel_linear_box *out) {
  cel_linear_box r;
  memset(&r, 0, sizeof r);
  r.clip = use->extent;
  for (int j = 0; j < CEL_DIMS; ++j) {
    cel_clamped lo, hi;
    if (j >= use->rule->desc.buffer_dims) {
      r.hi[j].c = 1;
      continue;
    }
    if (!cel__bound_linear(use, domain, b, j, 0, &lo) ||
        !cel__bound_linear(use, domain, b, j, 1, &hi) ||
        !clip_bounds(&lo, &hi, domain, &r.clip.min[j], &r.clip.max[j]))
      return false;
    r.lo[j] = lo.form;
    r.hi[j] = hi.form;
  }
  if (cel_box_is_empty(&r.clip)) r.clip = (cel_box){{0}, {0}};
  *out = r;
  return true;
}

bool cel__family_join(int d, const cel_domain *domain, cel_linear_box *box) {
  int moves = 0, j = 0;
  for (int k = 0; k < CEL_DIMS; ++k) {
    if (box->lo[k].k[d] == 0 && box->hi[k].k[d] == 0) continue;
    ++moves;
    j = k;
  }
  if (moves == 0) return true;
  cel_linear *lo = &box->lo[j], *hi = &box->hi[j], width;
  int64_t by = lo->k[d];
  if (moves > 1 || by != hi->k[d] || !cel__linear_sub(hi, lo, &width) ||
      cel__linear_least(&width, domain) < (by < 0 ? -(cel_wide)by : by))
    return false;
  cel_linear *end = by > 0 ? hi : lo; /* of the last index, max - 1 */
  end->k[d] = 0;
  end->k[3 + d] = by;
  end->c -= by;
  return cel__in_limit(end->c);
}
