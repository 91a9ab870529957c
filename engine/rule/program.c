#include "rule/program.h"

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
  case CEL_RULE_ITEM: /* of a chunk of one index there */
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
