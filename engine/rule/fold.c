#include "rule/fold.h"

#include <string.h>

#include "rule/eval.h"

/* A value on the stack: the program that lies at `at`, up to the next value's,
 * or minus that, plus c. Where there is no program it is c. */
typedef struct operand {
  int at;
  bool program, minus;
  int64_t c;
} operand;

typedef struct folding {
  int64_t *out;
  int n; /* words in `out` */
  operand stack[CEL_RULE_DEPTH];
  int top;
} folding;

/* Adds "op c" to the program of an operand, which ends at *end, or begins it
 * with c. */
static void insert(folding *f, operand *x, int *end, int64_t op, int64_t c) {
  int64_t words[] = {CEL_RULE_CONST, c, op};
  int n = x->program ? 3 : 2;
  memmove(f->out + *end + n, f->out + *end,
          (size_t)(f->n - *end) * sizeof *f->out);
  memcpy(f->out + *end, words, (size_t)n * sizeof *words);
  f->n += n;
  *end += n;
  x->program = true;
}

/* Makes a program of the whole of an operand, whose program ends at `end`. */
static void settle(folding *f, operand *x, int end) {
  if (x->minus) insert(f, x, &end, CEL_RULE_MUL, -1);
  if (!x->program || x->c > 0)
    insert(f, x, &end, CEL_RULE_ADD, x->c);
  else if (x->c < 0)
    insert(f, x, &end, CEL_RULE_SUB, -x->c);
  x->minus = false;
  x->c = 0;
}

/* A sum with a constant becomes one operand; false where it must stay one of
 * two. */
static bool gather(operand *a, const operand *b, bool less) {
  if (b->program && (a->program || less)) return false;
  int64_t c = less ? a->c - b->c : a->c + b->c;
  if (!cel__in_limit(c)) return false;
  if (b->program) a->minus = b->minus;
  a->program = a->program || b->program;
  a->c = c;
  return true;
}

static bool is_constant(const operand *x, int64_t c) {
  return !x->program && x->c == c;
}

/* x * 0, x * 1, x * -1, in either order. */
static bool scale(folding *f, operand *a, const operand *b) {
  bool first = !a->program;
  const operand *by = first ? a : b, *x = first ? b : a;
  if (is_constant(by, 0)) {
    f->n = a->at;
    *a = (operand){.at = a->at};
    return true;
  }
  if (!is_constant(by, 1) && !is_constant(by, -1)) return false;
  bool minus = by->c < 0;
  *a = (operand){a->at, x->program, x->minus != minus, minus ? -x->c : x->c};
  return true;
}

static void combine(folding *f, int64_t op) {
  operand *b = &f->stack[--f->top], *a = &f->stack[f->top - 1];
  int64_t c;
  if (!a->program && !b->program &&
      cel__binary_eval(op, a->c, b->c, &c) == CEL_RULE_FINE) {
    a->c = c;
    return;
  }
  if (op == CEL_RULE_ADD || op == CEL_RULE_SUB) {
    if (b->minus) { /* a + (c - x) is a - (x - c) */
      op = op == CEL_RULE_ADD ? CEL_RULE_SUB : CEL_RULE_ADD;
      b->minus = false;
      b->c = -b->c;
    }
    if (gather(a, b, op == CEL_RULE_SUB)) return;
  }
  if (op == CEL_RULE_MUL && scale(f, a, b)) return;
  if (op == CEL_RULE_FLOORDIV && is_constant(b, 1)) return;
  settle(f, a, b->at); /* b moves along: it is the last */
  settle(f, b, f->n);
  f->out[f->n++] = op;
}

int cel__program_fold(const int64_t *code, int length, const int64_t *params,
                      int64_t *out) {
  folding f = {.out = out};
  for (int i = 0; i < length; ++i) {
    if (code[i] >= CEL_RULE_ADD) {
      combine(&f, code[i]);
      continue;
    }
    int64_t op = code[i], word = code[++i];
    if (op == CEL_RULE_PARAM && params != NULL) {
      op = CEL_RULE_CONST;
      word = params[word];
    }
    bool program = op != CEL_RULE_CONST || !cel__in_limit(word);
    f.stack[f.top++] = (operand){f.n, program, false, program ? 0 : word};
    if (!program) continue;
    f.out[f.n++] = op;
    f.out[f.n++] = word;
  }
  settle(&f, &f.stack[0], f.n);
  return f.n;
}
