#include "rule/eval.h"

#include "rule/listing.h"

/* The operands are within the limit, so only a product can leave 64 bits. */
cel_rule_fault cel__binary_eval(int64_t op, int64_t a, int64_t b,
                                int64_t *out) {
  int64_t r;
  switch (op) {
  case CEL_RULE_ADD: r = a + b; break;
  case CEL_RULE_SUB: r = a - b; break;
  case CEL_RULE_MUL:
    if (__builtin_mul_overflow(a, b, &r)) return CEL_RULE_OVERFLOWS;
    break;
  case CEL_RULE_FLOORDIV:
    if (b < 1) return CEL_RULE_DIVIDES;
    r = cel__floor_div(a, b);
    break;
  case CEL_RULE_LOW: r = a < b ? a : b; break;
  case CEL_RULE_HIGH: r = a > b ? a : b; break;
  default: cel_bug("rule op %lld is not binary", (long long)op);
  }
  if (r > CEL_RULE_LIMIT || r < -CEL_RULE_LIMIT) return CEL_RULE_OVERFLOWS;
  *out = r;
  return CEL_RULE_FINE;
}

int64_t cel__variable_eval(const cel_rule_use *use, const cel_box *chunk,
                           int64_t op, int64_t word) {
  switch (op) {
  case CEL_RULE_CONST: return word;
  case CEL_RULE_PARAM: return use->params[word];
  case CEL_RULE_MIN: return chunk->min[word];
  case CEL_RULE_MAX: return chunk->max[word];
  case CEL_RULE_GLOBAL_MIN: return use->range.min[word];
  case CEL_RULE_GLOBAL_MAX: return use->range.max[word];
  case CEL_RULE_BUFFER: return use->extent.max[word] - use->extent.min[word];
  default: cel_bug("rule op %lld is no variable", (long long)op);
  }
}

cel_rule_fault cel__program_eval(const cel_rule_use *use, const int64_t *code,
                                 int length, const cel_box *chunk,
                                 int64_t *out) {
  int64_t stack[CEL_RULE_DEPTH];
  int top = 0;
  if (length == 2) { /* a lone variable, as most are */
    int64_t value = cel__variable_eval(use, chunk, code[0], code[1]);
    if (value > CEL_RULE_LIMIT || value < -CEL_RULE_LIMIT)
      return CEL_RULE_OVERFLOWS;
    *out = value;
    return CEL_RULE_FINE;
  }
  for (int i = 0; i < length; ++i) {
    int64_t op = code[i];
    if (op >= CEL_RULE_ADD) {
      cel_rule_fault fault =
          cel__binary_eval(op, stack[top - 2], stack[top - 1], &stack[top - 2]);
      if (fault) return fault;
      --top;
    } else {
      int64_t value = cel__variable_eval(use, chunk, op, code[++i]);
      if (value > CEL_RULE_LIMIT || value < -CEL_RULE_LIMIT)
        return CEL_RULE_OVERFLOWS;
      stack[top++] = value;
    }
  }
  *out = stack[0];
  return CEL_RULE_FINE;
}

cel_rule_fault cel__box_eval(const cel_rule_use *use, int b,
                             const cel_box *chunk, cel_box *raw, cel_box *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  cel_box r = cel_box_sized(1, 1, 1);
  if (!cel_box_is_empty(chunk)) {
    for (int j = 0; j < desc->buffer_dims; ++j)
      for (int upper = 0; upper < 2; ++upper) {
        cel_rule_fault fault =
            cel__program_eval(use, desc->code + desc->box[b].start[j][upper],
                              desc->box[b].length[j][upper], chunk,
                              upper ? &r.max[j] : &r.min[j]);
        if (fault) return fault;
      }
  } else {
    r.max[0] = 0;
  }
  *raw = r;
  if (!desc->box[b].clamp && !cel_box_covers(&use->extent, &r))
    return CEL_RULE_LEAVES;
  cel_box_intersect(&r, &use->extent, out);
  return CEL_RULE_FINE;
}

static cel_rule_fault look_up(const cel_rule_use *use, const cel_box *chunk,
                              cel_region *out) {
  const cel_box *box;
  int32_t n;
  if (!cel__listing_find(use->rule->listing, chunk, &box, &n))
    return CEL_RULE_UNLISTED;
  cel_region_assign(out, box, (uint32_t)n);
  return CEL_RULE_FINE;
}

/* Box 0 of a plain rule, raw, for a chunk that is not empty; false where a
 * number is out of bounds. */
static bool eval_plain(const cel_rule_use *use, const cel_box *chunk,
                       cel_box *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  cel_box r = cel_box_sized(1, 1, 1);
  for (int j = 0; j < desc->buffer_dims; ++j) {
    int d = use->rule->follows[j];
    if (d < 0) {
      for (int upper = 0; upper < 2; ++upper)
        if (cel__program_eval(use, desc->code + desc->box[0].start[j][upper],
                              desc->box[0].length[j][upper], chunk,
                              upper ? &r.max[j] : &r.min[j]) != CEL_RULE_FINE)
          return false;
      continue;
    }
    if (chunk->min[d] < -CEL_RULE_LIMIT || chunk->max[d] > CEL_RULE_LIMIT)
      return false;
    r.min[j] = chunk->min[d];
    r.max[j] = chunk->max[d];
  }
  *out = r;
  return true;
}

cel_rule_fault cel__rule_eval(const cel_rule_use *use, const cel_box *chunk,
                              cel_region *out) {
  if (use->rule->listing != NULL) return look_up(use, chunk, out);
  cel_box box;
  if (use->rule->plain && !cel_box_is_empty(chunk) &&
      eval_plain(use, chunk, &box) &&
      (use->rule->desc.box[0].clamp || cel_box_covers(&use->extent, &box))) {
    cel_box_intersect(&box, &use->extent, &box);
    cel_region_assign(out, &box, 1);
    return CEL_RULE_FINE;
  }
  cel_box boxes[CEL_RULE_BOXES], raw;
  int n = use->rule->desc.boxes;
  for (int b = 0; b < n; ++b) {
    cel_rule_fault fault = cel__box_eval(use, b, chunk, &raw, &boxes[b]);
    if (fault) return fault;
  }
  cel_region_assign(out, boxes, (uint32_t)n);
  return CEL_RULE_FINE;
}

/* Words for the fault that box b has for the chunk. */
static cel_status explain(const cel_rule_use *use, int b,
                          const cel_box *chunk) {
  const cel_rule_desc *desc = &use->rule->desc;
  char c[128], r[128], e[128];
  cel_box raw, clipped;
  cel_box_print(chunk, desc->task_dims, c, sizeof c);
  if (use->rule->listing != NULL)
    return cel_fail(CEL_E_RANGE,
                    "the range mapper was not evaluated for the chunk %s", c);
  cel_rule_fault fault = cel__box_eval(use, b, chunk, &raw, &clipped);
  if (fault == CEL_RULE_DIVIDES)
    return cel_fail(CEL_E_RANGE,
                    "the range mapper divides by less than 1 for"
                    " the chunk %s",
                    c);
  if (fault == CEL_RULE_OVERFLOWS)
    return cel_fail(CEL_E_RANGE,
                    "the range mapper leaves the integers up to"
                    " 2^53 for the chunk %s",
                    c);
  cel_box_print(&raw, desc->buffer_dims, r, sizeof r);
  cel_box_print(&use->extent, desc->buffer_dims, e, sizeof e);
  return cel_fail(CEL_E_RANGE,
                  "the range mapper gives the box %s for the chunk %s, which"
                  " leaves the buffer %s",
                  r, c, e);
}

cel_status cel_rule_eval(const cel_rule_use *use, const cel_box *chunk,
                         cel_region *out) {
  if (cel__rule_eval(use, chunk, out) == CEL_RULE_FINE) return CEL_E_OK;
  cel_box raw, clipped;
  int b = 0;
  if (use->rule->listing != NULL) return explain(use, b, chunk);
  while (cel__box_eval(use, b, chunk, &raw, &clipped) == CEL_RULE_FINE) ++b;
  return explain(use, b, chunk);
}

cel_status cel_rule_eval_box(const cel_rule_use *use, int b,
                             const cel_box *chunk, cel_box *out) {
  cel_box raw;
  if (cel__box_eval(use, b, chunk, &raw, out) == CEL_RULE_FINE) return CEL_E_OK;
  return explain(use, b, chunk);
}
