#include <string.h>

#include "rule/rule.h"

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

static bool fits(const cel_rule_desc *a, const cel_rule_desc *b) {
  return a->task_dims == b->task_dims && a->buffer_dims == b->buffer_dims &&
         a->boxes + b->boxes <= CEL_RULE_BOXES &&
         a->params + b->params <= CEL_RULE_PARAMS;
}

cel_proof cel_rule_prove_apart(const cel_rule_use *a, const cel_rule_use *b,
                               const cel_split_kind *kind,
                               cel_counter_example *why) {
  const cel_rule_desc *x = &a->rule->desc, *y = &b->rule->desc;
  if (a->rule->listing != NULL || b->rule->listing != NULL) return CEL_UNKNOWN;
  if (!fits(x, y)) return CEL_UNKNOWN;
  cel_rule both = {
      .desc = {.task_dims = x->task_dims, .buffer_dims = x->buffer_dims}};
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
