#include "rule/monotone.h"

/* low <= den * x <= high, where the value is x or, `clamped`, the larger or the
 * smaller of x and a constant, perhaps repeatedly. Clamps do no harm: where
 * [lo, hi) unites, so do its intersection with [c, ...) and its union with
 * [c, hi), which are what a clamp makes of it. */
typedef struct enclosed {
  cel_linear low, high;
  int64_t den;
  unsigned rises, falls; /* bit per variable that it may rise, fall with */
  bool clamped;
} enclosed;

/* Of the index of a family, which goes through a chunk however that is cut:
 * what rises and falls with it alone neither gains nor loses. */
enum { ITEM_BIT = 1u << (2 * CEL_DIMS) };

static enclosed exactly(cel_linear form) {
  return (enclosed){.low = form, .high = form, .den = 1};
}

static bool is_constant(const enclosed *x, int64_t *out) {
  *out = x->low.c;
  return !x->rises && !x->falls;
}

static bool variable(const cel_rule_use *use, const cel_units *units,
                     int64_t op, int64_t word, enclosed *out) {
  cel_linear r = {0};
  bool item = op == CEL_RULE_ITEM;
  bool varies =
      (op == CEL_RULE_MIN || op == CEL_RULE_MAX) && units->count[word] > 1;
  if (varies || item)
    r.k[word += op == CEL_RULE_MAX ? 3 : 0] = 1;
  else
    r.c = cel__variable_eval(use, &use->range, op, word);
  *out = exactly(r);
  out->rises = item ? ITEM_BIT : varies ? 1u << word : 0;
  return r.c <= CEL_RULE_LIMIT && r.c >= -CEL_RULE_LIMIT;
}

/* by * x, by != 0. */
static bool scale(const enclosed *x, int64_t by, enclosed *out) {
  cel_linear zero = {0};
  enclosed r = *x;
  bool up = by > 0;
  if (!cel__linear_mix(up ? &x->low : &x->high, by, &zero, 0, &r.low) ||
      !cel__linear_mix(up ? &x->high : &x->low, by, &zero, 0, &r.high))
    return false;
  if (!up) {
    r.rises = x->falls, r.falls = x->rises;
  }
  *out = r;
  return true;
}

static bool add(const enclosed *a, const enclosed *b, enclosed *out) {
  int64_t c;
  enclosed r = {.clamped = a->clamped || b->clamped};
  if (r.clamped && !is_constant(a, &c) && !is_constant(b, &c)) return false;
  r.rises = a->rises | b->rises;
  r.falls = a->falls | b->falls;
  if (__builtin_mul_overflow(a->den, b->den, &r.den) ||
      r.den > CEL_RULE_LIMIT ||
      !cel__linear_mix(&a->low, b->den, &b->low, a->den, &r.low) ||
      !cel__linear_mix(&a->high, b->den, &b->high, a->den, &r.high))
    return false;
  *out = r;
  return true;
}

/* floor(x / by) lies in [(x - by + 1) / by, x / by] for whole x. */
static bool divide(const enclosed *x, int64_t by, enclosed *out) {
  int64_t c, less;
  if (by < 1) return false;
  enclosed r = *x;
  if (is_constant(x, &c)) {
    *out = exactly((cel_linear){.c = cel__floor_div(c, by)});
    return true;
  }
  if (__builtin_mul_overflow(x->den, by, &r.den) || r.den > CEL_RULE_LIMIT)
    return false;
  less = x->den * (by - 1);
  cel_linear slack = {.c = less};
  if (!cel__linear_mix(&x->low, 1, &slack, -1, &r.low)) return false;
  *out = r;
  return true;
}

/* min or max with a constant is a clamp; other choices are not enclosed. */
static bool choose(enclosed a, enclosed b, bool larger, enclosed *out) {
  int64_t c, k;
  if (is_constant(&a, &c)) {
    enclosed swap = a;
    a = b, b = swap;
  }
  if (!is_constant(&b, &c)) return false;
  if (is_constant(&a, &k)) {
    *out = (k > c) == larger ? a : b;
    return true;
  }
  a.clamped = true;
  *out = a;
  return true;
}

static bool binary(int64_t op, const enclosed *a, const enclosed *b,
                   enclosed *out) {
  int64_t c;
  enclosed minus;
  switch (op) {
  case CEL_RULE_ADD: return add(a, b, out);
  case CEL_RULE_SUB: return scale(b, -1, &minus) && add(a, &minus, out);
  case CEL_RULE_MUL:
    if (is_constant(a, &c))
      a = b;
    else if (!is_constant(b, &c))
      return false;
    if (c != 0) return scale(a, c, out);
    *out = exactly((cel_linear){0});
    return true;
  case CEL_RULE_FLOORDIV: return is_constant(b, &c) && divide(a, c, out);
  default: return choose(*a, *b, op == CEL_RULE_HIGH, out);
  }
}

static bool enclose(const cel_rule_use *use, const cel_units *units, int b,
                    int j, int upper, enclosed *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  const int64_t *code = desc->code + desc->box[b].start[j][upper];
  enclosed stack[CEL_RULE_DEPTH], r;
  int top = 0;
  for (int i = 0; i < desc->box[b].length[j][upper]; ++i) {
    if (code[i] >= CEL_RULE_ADD) {
      if (!binary(code[i], &stack[top - 2], &stack[top - 1], &r)) return false;
      stack[--top - 1] = r;
    } else {
      if (!variable(use, units, code[i], code[i + 1], &stack[top++]))
        return false;
      ++i;
    }
  }
  *out = stack[0];
  return true;
}

/* ---- two chunks that touch at x in dimension d --------------------------- */

/* Whether hi >= lo where the end of the one chunk and the beginning of the
 * other, whichever the bounds follow, are the same x. */
static bool no_gap(const enclosed *lo, const enclosed *hi,
                   const cel_units *units, int d) {
  cel_linear width;
  int64_t whole;
  if (__builtin_mul_overflow(lo->den, hi->den, &whole) ||
      !cel__linear_mix(&hi->low, lo->den, &lo->high, -hi->den, &width))
    return false;
  width.k[d] += width.k[3 + d];
  width.k[3 + d] = 0;
  cel_domain domain;
  cel__domain_whole(&units->range, &domain);
  ++domain.low[d]; /* x lies between two items */
  return cel__linear_least(&width, &domain) > -(cel_wide)whole;
}

/* `begin` and `end`: the bits of chunk.min and chunk.max of dimension d. */
static bool bounds_unite(const enclosed *lo, const enclosed *hi,
                         const cel_units *units, int d) {
  unsigned begin = 1u << d, end = 8u << d, both = begin | end;
  bool rising = !(lo->rises & end) && !(lo->falls & both) &&
                !(hi->rises & begin) && !(hi->falls & both);
  bool falling = !(lo->rises & both) && !(lo->falls & begin) &&
                 !(hi->rises & both) && !(hi->falls & end);
  return (rising || falling) && no_gap(lo, hi, units, d);
}

bool cel__monotone_unites(const cel_rule_use *use, const cel_units *units,
                          int b) {
  enclosed lo[3], hi[3];
  int dims = use->rule->desc.buffer_dims;
  for (int j = 0; j < dims; ++j)
    if (!enclose(use, units, b, j, 0, &lo[j]) ||
        !enclose(use, units, b, j, 1, &hi[j]))
      return false;
  for (int d = 0; d < CEL_DIMS; ++d) {
    unsigned both = 9u << d;
    int joined = 0;
    if (units->count[d] == 1) continue;
    for (int j = 0; j < dims; ++j) {
      unsigned touched = lo[j].rises | lo[j].falls | hi[j].rises | hi[j].falls;
      if (!(touched & both)) continue;
      if (++joined > 1 || !bounds_unite(&lo[j], &hi[j], units, d)) return false;
    }
  }
  return true;
}

/* Whether no index leaves a gap to the next, which both bounds follow upwards
 * or (falls) downwards by dimension d of the chunk. */
static bool indices_touch(const enclosed *lo, const enclosed *hi,
                          const cel_units *units, int d, bool falls) {
  cel_linear width;
  int64_t whole, by;
  if (__builtin_mul_overflow(lo->den, hi->den, &whole) ||
      !cel__linear_mix(&hi->low, lo->den, &lo->high, -hi->den, &width) ||
      __builtin_mul_overflow(falls ? hi->low.k[d] : -lo->high.k[d],
                             falls ? lo->den : hi->den, &by) ||
      __builtin_add_overflow(width.c, by, &width.c))
    return false;
  cel_domain domain;
  cel__domain_whole(&units->range, &domain);
  return cel__linear_least(&width, &domain) > -(cel_wide)whole;
}

bool cel__monotone_joins(const cel_rule_use *use, const cel_units *units, int b,
                         bool *falls) {
  int moves = 0, d = use->rule->desc.box[b].each - 1;
  for (int j = 0; j < use->rule->desc.buffer_dims; ++j) {
    enclosed lo, hi;
    if (!enclose(use, units, b, j, 0, &lo) ||
        !enclose(use, units, b, j, 1, &hi))
      return false;
    bool up = ((lo.rises | hi.rises) & ITEM_BIT) != 0;
    bool down = ((lo.falls | hi.falls) & ITEM_BIT) != 0;
    if (!up && !down) continue;
    if ((up && down) || ++moves > 1 || !indices_touch(&lo, &hi, units, d, down))
      return false;
    *falls = down;
  }
  return true;
}

bool cel__monotone_grows(const cel_rule_use *use, const cel_units *units,
                         int b) {
  const unsigned begin = 7u, end = 7u << CEL_DIMS; /* bits as of enclosed */
  enclosed lo, hi;
  for (int j = 0; j < use->rule->desc.buffer_dims; ++j) {
    if (!enclose(use, units, b, j, 0, &lo) ||
        !enclose(use, units, b, j, 1, &hi) || (lo.rises & end) ||
        (lo.falls & begin) || (hi.rises & begin) || (hi.falls & end))
      return false;
  }
  return true;
}
