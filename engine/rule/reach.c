#include "rule/reach.h"

#include "rule/eval.h"

/* A value on the stack: a constant, or an end of the chunk and a constant. */
typedef struct value {
  bool follows;
  int64_t c;
} value;

/* Which of two is further from the item, of a lower or upper bound. */
static int64_t farther(bool upper, int64_t a, int64_t b) {
  return (upper ? b > a : b < a) ? b : a;
}

/* An end of the chunk and `c`, held at a number. Held inwards it comes no
 * further. Held outwards it comes as far as the number is from `last`, the
 * chunk's end that is furthest from there: false where that is further than an
 * item and what it reads, as for u[math.min(i, 3)]. But where i is below n,
 * u[math.min(i + 1, n - 1)] is as near as u[i] or u[i + 1]. */
static bool hold(int64_t op, bool upper, int64_t at, int64_t last, int64_t *c) {
  if (op == (upper ? CEL_RULE_LOW : CEL_RULE_HIGH)) return true;
  int64_t held = at - last, most = farther(upper, *c, 0);
  if (farther(upper, most, held) != most) return false;
  *c = farther(upper, *c, held);
  return true;
}

/* x op y of which at least one follows the chunk; false where that is no end of
 * the chunk and a constant, nor held near that. */
static bool combine(int64_t op, bool upper, int64_t last, value *x,
                    const value *y) {
  switch (op) {
  case CEL_RULE_ADD:
    if (x->follows && y->follows) return false;
    *x = (value){true, x->c + y->c};
    return true;
  case CEL_RULE_SUB:
    if (y->follows) return false;
    x->c -= y->c;
    return true;
  case CEL_RULE_LOW:
  case CEL_RULE_HIGH: {
    bool both = x->follows && y->follows;
    int64_t at = x->follows ? y->c : x->c;
    if (!x->follows) *x = *y;
    if (!both) return hold(op, upper, at, last, &x->c);
    x->c = farther(upper, x->c, y->c);
    return true;
  }
  default: return false;
  }
}

static bool end_of_chunk(int64_t op, int64_t word, int j, bool upper) {
  return op == (upper ? CEL_RULE_MAX : CEL_RULE_MIN) && word == j;
}

/* The constant of a bound that follows its end of the chunk in dimension j. */
static bool offset_of(const cel_rule_use *use, int b, int j, bool upper,
                      int64_t *out) {
  const cel_rule_box *box = &use->rule->desc.box[b];
  const int64_t *code = use->rule->desc.code + box->start[j][upper];
  int64_t last = upper ? use->range.min[j] + 1 : use->range.max[j] - 1;
  value stack[CEL_RULE_DEPTH];
  int top = 0;
  for (int i = 0; i < box->length[j][upper]; ++i) {
    if (code[i] >= CEL_RULE_ADD) {
      value *x = &stack[top - 2], *y = &stack[top - 1];
      bool fine =
          x->follows || y->follows
              ? combine(code[i], upper, last, x, y)
              : cel__binary_eval(code[i], x->c, y->c, &x->c) == CEL_RULE_FINE;
      if (!fine || !cel__in_limit(x->c)) return false;
      --top;
      continue;
    }
    int64_t op = code[i], word = code[++i];
    bool follows = end_of_chunk(op, word, j, upper);
    bool varies = op == CEL_RULE_MIN || op == CEL_RULE_MAX;
    if (varies && !follows) return false;
    int64_t c = follows ? 0 : cel__variable_eval(use, &use->range, op, word);
    stack[top++] = (value){follows, c};
  }
  *out = stack[0].c;
  return stack[0].follows;
}

/* Moves a box by an extent to where it is nearest to the item, if both ends of
 * the buffer are those of the range. */
static bool wrap(const cel_rule_use *use, int j, int64_t *low, int64_t *high) {
  const cel_box *range = &use->range, *extent = &use->extent;
  const int64_t n = extent->max[j] - extent->min[j], turns[] = {-n, n};
  if (range->min[j] != extent->min[j] || range->max[j] != extent->max[j])
    return false;
  int64_t far = -*low > *high ? -*low : *high, by = 0;
  for (int i = 0; i < 2; ++i) {
    int64_t below = -(*low + turns[i]), above = *high + turns[i];
    int64_t most = below > above ? below : above;
    if (most >= far) continue;
    far = most;
    by = turns[i];
  }
  *low += by;
  *high += by;
  return by != 0;
}

bool cel_rule_reach(const cel_rule_use *use, cel_reach *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  if (use->rule->listing != NULL || use->rule->families || desc->boxes == 0 ||
      desc->buffer_dims != desc->task_dims || desc->buffer_dims == 0)
    return false;
  cel_reach reach = {.along_axes = true};
  for (int b = 0; b < desc->boxes; ++b) {
    int beside = 0;
    for (int j = 0; j < desc->buffer_dims; ++j) {
      int64_t low, high;
      if (!offset_of(use, b, j, false, &low) ||
          !offset_of(use, b, j, true, &high))
        return false;
      bool wraps = wrap(use, j, &low, &high);
      reach.wraps[j] = reach.wraps[j] || wraps;
      if (-low > reach.below[j]) reach.below[j] = -low;
      if (high > reach.above[j]) reach.above[j] = high;
      beside += low != 0 || high != 0;
    }
    reach.along_axes = reach.along_axes && beside <= 1;
  }
  for (int j = 0; j < desc->buffer_dims; ++j)
    if (reach.below[j] == 0 && reach.above[j] == 0) reach.wraps[j] = false;
  *out = reach;
  return true;
}
