#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "rule/fold.h"

static void put(cel_text *t, const char *s) {
  cel_text_add(t, s, strlen(s));
}

static void put_at(cel_text *t, uint32_t at, const char *s) {
  uint32_t n = (uint32_t)strlen(s);
  cel_vec_reserve(t, n);
  memmove(t->at + at + n, t->at + at, t->n - at);
  memcpy(t->at + at, s, n);
  t->n += n;
}

static void put_number(cel_text *t, const char *name, int64_t n) {
  cel_text_format(t, "%s%" PRId64, name, n);
}

/* ---- expressions --------------------------------------------------------- */

enum { SUM = 1, PRODUCT, ATOM }; /* how tightly an expression binds */

/* One value on the stack: its text runs from `at` to the next value's, its
 * program from `word`. */
typedef struct operand {
  uint32_t at;
  int word, binds;
} operand;

static void put_variable(cel_text *t, int64_t op, int64_t word) {
  switch (op) {
  case CEL_RULE_CONST: put_number(t, "", word); break;
  case CEL_RULE_PARAM: put_number(t, "p", word); break;
  case CEL_RULE_MIN: put_number(t, "chunk.min", word); break;
  case CEL_RULE_MAX: put_number(t, "chunk.max", word); break;
  case CEL_RULE_GLOBAL_MIN: put_number(t, "global.min", word); break;
  case CEL_RULE_GLOBAL_MAX: put_number(t, "global.max", word); break;
  case CEL_RULE_BUFFER: put_number(t, "buffer.size", word); break;
  case CEL_RULE_ITEM: put_number(t, "i", word); break;
  default: cel_bug("rule op %lld is no variable", (long long)op);
  }
}

/* max - min of one dimension has a name of its own; null otherwise. */
static const char *size_name(const int64_t *code, const operand *a,
                             const operand *b, int end) {
  if (b->word - a->word != 2 || end - b->word != 2 ||
      code[a->word + 1] != code[b->word + 1])
    return NULL;
  if (code[a->word] == CEL_RULE_MAX && code[b->word] == CEL_RULE_MIN)
    return "chunk.size";
  if (code[a->word] == CEL_RULE_GLOBAL_MAX &&
      code[b->word] == CEL_RULE_GLOBAL_MIN)
    return "chunk.global";
  return NULL;
}

static void put_function(cel_text *t, const operand *a, const operand *b,
                         const char *open, const char *between) {
  put_at(t, b->at, between);
  put_at(t, a->at, open);
  put(t, ")");
}

/* a op b, in parentheses where an operand binds less tightly than it must. */
static void put_infix(cel_text *t, const operand *a, const operand *b,
                      const char *op, int left, int right) {
  bool negative = t->at[b->at] == '-';
  if (b->binds < right || negative) {
    put_at(t, b->at, "(");
    put(t, ")");
  }
  put_at(t, b->at, op);
  if (a->binds < left) {
    put_at(t, b->at, ")");
    put_at(t, a->at, "(");
  }
}

static int put_binary(cel_text *t, const int64_t *code, int64_t op,
                      const operand *a, const operand *b, int end) {
  const char *name;
  switch (op) {
  case CEL_RULE_SUB:
    if ((name = size_name(code, a, b, end))) {
      t->n = a->at;
      put_number(t, name, code[a->word + 1]);
      return ATOM;
    }
    put_infix(t, a, b, " - ", SUM, PRODUCT);
    return SUM;
  case CEL_RULE_ADD: put_infix(t, a, b, " + ", SUM, SUM); return SUM;
  case CEL_RULE_MUL:
    if (code[b->word] == CEL_RULE_CONST && code[b->word + 1] == -1) {
      t->n = b->at;
      if (a->binds < PRODUCT) put_function(t, a, a, "(", "");
      put_at(t, a->at, "-");
    } else {
      put_infix(t, a, b, " * ", PRODUCT, ATOM);
    }
    return PRODUCT;
  case CEL_RULE_FLOORDIV:
    put_infix(t, a, b, " / ", PRODUCT, ATOM);
    put_at(t, a->at, "floor(");
    put(t, ")");
    return ATOM;
  case CEL_RULE_LOW: put_function(t, a, b, "min(", ", "); return ATOM;
  default: put_function(t, a, b, "max(", ", "); return ATOM;
  }
}

static void put_program(cel_text *t, const int64_t *code, int length,
                        const int64_t *params) {
  CEL_VEC(operand) stack = {0};
  int64_t *folded = cel_alloc((size_t)length * sizeof *folded);
  length = cel__program_fold(code, length, params, folded);
  for (int i = 0; i < length; ++i) {
    if (folded[i] < CEL_RULE_ADD) {
      cel_vec_push(&stack, (operand){t->n, i, ATOM});
      put_variable(t, folded[i], folded[i + 1]);
      ++i;
      continue;
    }
    operand b = cel_vec_pop(&stack), *a = &cel_vec_last(&stack);
    a->binds = put_binary(t, folded, folded[i], a, &b, i);
  }
  cel_vec_release(&stack);
  cel_free(folded);
}

/* ---- rules --------------------------------------------------------------- */

static void put_box(cel_text *t, const cel_rule_desc *desc, int b,
                    const int64_t *params) {
  if (desc->buffer_dims == 0) put(t, "the element");
  for (int j = 0; j < desc->buffer_dims; ++j) {
    put(t, j ? " x [" : "[");
    for (int upper = 0; upper < 2; ++upper) {
      put_program(t, desc->code + desc->box[b].start[j][upper],
                  desc->box[b].length[j][upper], params);
      put(t, upper ? ")" : ", ");
    }
  }
  if (desc->box[b].each == 0) return;
  int d = desc->box[b].each - 1;
  cel_text_format(t, " for each i%d in [chunk.min%d, chunk.max%d)", d, d, d);
}

int cel_rule_print(const cel_rule *rule, const int64_t *params, char *text,
                   int size) {
  const cel_rule_desc *desc = &rule->desc;
  cel_text t = {0};
  int clamped = 0;
  for (int b = 0; b < desc->boxes; ++b) clamped += desc->box[b].clamp;
  for (int b = 0; b < desc->boxes; ++b) {
    if (b) put(&t, " and ");
    put_box(&t, desc, b, params);
    if (desc->box[b].clamp && clamped < desc->boxes) put(&t, " (clamped)");
  }
  if (rule->listing != NULL)
    put(&t, "opaque");
  else if (desc->boxes == 0)
    put(&t, "nothing");
  if (clamped == desc->boxes && clamped) put(&t, ", clamped to the buffer");
  int length = (int)t.n;
  if (size > 0) {
    int n = length < size ? length : size - 1;
    if (n) memcpy(text, t.at, (size_t)n);
    text[n] = '\0';
  }
  cel_vec_release(&t);
  return length;
}
