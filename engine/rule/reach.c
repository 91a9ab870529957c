#include "rule/reach.h"

#include <string.h>

#include "rule/eval.h"

/* A value on the stack: a constant, or an end of the chunk and a constant; and
 * what that constant is where nothing holds the value outwards, as it does `at`
 * a number. */
typedef struct value {
  bool follows, held;
  int64_t c, loose, at;
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
static bool hold(int64_t op, bool upper, int64_t at, int64_t last, value *x) {
  if (op == (upper ? CEL_RULE_LOW : CEL_RULE_HIGH)) return true;
  int64_t held = at - last, most = farther(upper, x->c, 0);
  if (farther(upper, most, held) != most) return false;
  x->at = x->held ? farther(upper, x->at, at) : at;
  x->held = true;
  x->c = farther(upper, x->c, held);
  return true;
}

static void move(value *x, int64_t by) {
  x->c += by;
  x->loose += by;
  x->at += by;
}

/* x op y of which at least one follows the chunk; false where that is no end of
 * the chunk and a constant, nor held near that. */
static bool combine(int64_t op, bool upper, int64_t last, value *x,
                    const value *y) {
  switch (op) {
  case CEL_RULE_ADD:
    if (x->follows && y->follows) return false;
    int64_t by = x->follows ? y->c : x->c;
    if (!x->follows) *x = *y;
    move(x, by);
    return true;
  case CEL_RULE_SUB:
    if (y->follows) return false;
    move(x, -y->c);
    return true;
  case CEL_RULE_LOW:
  case CEL_RULE_HIGH: {
    bool both = x->follows && y->follows;
    int64_t at = x->follows ? y->c : x->c;
    if (!x->follows) *x = *y;
    if (!both) return hold(op, upper, at, last, x);
    x->loose = x->c = farther(upper, x->c, y->c);
    x->held = false;
    return true;
  }
  default: return false;
  }
}

static bool end_of_chunk(int64_t op, int64_t word, int j, bool upper) {
  return op == (upper ? CEL_RULE_MAX : CEL_RULE_MIN) && word == j;
}

/* A bound of box b in dimension j; false where it neither follows its end of
 * the chunk nor is a constant. */
static bool bound_of(const cel_rule_use *use, int b, int j, bool upper,
                     value *out) {
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
    stack[top++] = (value){.follows = follows, .c = c, .loose = c};
  }
  *out = stack[0];
  return true;
}

static bool meets_ends(const cel_rule_use *use, int j) {
  const cel_box *range = &use->range, *extent = &use->extent;
  return range->min[j] == extent->min[j] && range->max[j] == extent->max[j];
}

/* Moves a box by an extent to where it is nearest to the item, if both ends of
 * the buffer are those of the range. */
static bool wrap(const cel_rule_use *use, int j, int64_t *low, int64_t *high) {
  const int64_t n = use->extent.max[j] - use->extent.min[j], turns[] = {-n, n};
  if (!meets_ends(use, j)) return false;
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

/* Whether a bound follows the chunk, and the other one is the end of the buffer
 * where what is read around it begins, as of u[(i + 1) % n]: the items that
 * leave the other end read from there on. So many of them. */
static bool begins_at_end(const cel_rule_use *use, int j, bool upper,
                          const value *follows, const value *fixed,
                          int64_t *beyond) {
  const cel_box *extent = &use->extent;
  const int64_t n = extent->max[j] - extent->min[j];
  const int64_t end = upper ? extent->min[j] : extent->max[j];
  if (!meets_ends(use, j) || !follows->follows || fixed->follows ||
      fixed->c != end)
    return false;
  *beyond = upper ? follows->c + n : n - follows->c;
  return *beyond >= 0 && *beyond <= n / 2;
}

/* How far box b reaches below the item and above it in dimension j. */
static bool offsets_of(const cel_rule_use *use, int b, int j, int64_t *low,
                       int64_t *high, bool *wraps) {
  value from, to;
  if (!bound_of(use, b, j, false, &from) || !bound_of(use, b, j, true, &to))
    return false;
  /* Where it is held there, the box has nothing of the buffer. */
  if (from.held && from.at >= use->extent.max[j]) from.c = from.loose;
  if (to.held && to.at <= use->extent.min[j]) to.c = to.loose;
  if (from.follows && to.follows) {
    *low = from.c;
    *high = to.c;
    *wraps = wrap(use, j, low, high);
    return true;
  }
  int64_t beyond;
  *wraps = true;
  *low = *high = 0;
  if (begins_at_end(use, j, true, &to, &from, &beyond))
    *high = beyond;
  else if (begins_at_end(use, j, false, &from, &to, &beyond))
    *low = -beyond;
  else
    return false;
  return true;
}

static bool reach_of(const cel_rule_use *use, cel_reach *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  cel_reach reach = {.along_axes = true};
  for (int b = 0; b < desc->boxes; ++b) {
    int beside = 0;
    for (int j = 0; j < desc->buffer_dims; ++j) {
      int64_t low, high;
      bool wraps;
      if (!offsets_of(use, b, j, &low, &high, &wraps)) return false;
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

/* ---- what was asked before ----------------------------------------------- */

/* Three threads ask for each step of a loop, some of them several times, and
 * what they ask for is the same in all steps. */
enum { KNOWN = 16, MOST_PARAMS = 8 };

typedef struct known {
  const cel_rule *rule; /* which may have ended, and another one be there */
  uint64_t hash;
  cel_box range, extent;
  int64_t params[MOST_PARAMS];
  bool has;
  cel_reach reach;
} known;

static _Thread_local known memo[KNOWN];

static bool is_known(const known *k, const cel_rule_use *use) {
  const cel_rule *rule = use->rule;
  return k->rule == rule && k->hash == rule->hash &&
         cel_box_equal(&k->extent, &use->extent) &&
         cel_box_equal(&k->range, &use->range) &&
         (rule->desc.params == 0 ||
          memcmp(k->params, use->params,
                 (size_t)rule->desc.params * sizeof *k->params) == 0);
}

static void learn(known *k, const cel_rule_use *use) {
  const cel_rule *rule = use->rule;
  *k = (known){.rule = rule,
               .hash = rule->hash,
               .range = use->range,
               .extent = use->extent};
  if (rule->desc.params > 0)
    memcpy(k->params, use->params,
           (size_t)rule->desc.params * sizeof *k->params);
  k->has = reach_of(use, &k->reach);
}

bool cel_rule_reach(const cel_rule_use *use, cel_reach *out) {
  const cel_rule *rule = use->rule;
  const cel_rule_desc *desc = &rule->desc;
  if (rule->listing != NULL || rule->families || desc->boxes == 0 ||
      desc->buffer_dims != desc->task_dims || desc->buffer_dims == 0)
    return false;
  if (desc->params > MOST_PARAMS) return reach_of(use, out);
  known *k = &memo[((uintptr_t)rule / sizeof *rule) % KNOWN];
  if (!is_known(k, use)) learn(k, use);
  if (k->has) *out = k->reach;
  return k->has;
}
