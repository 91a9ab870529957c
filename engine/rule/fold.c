#include "rule/fold.h"

#include <string.h>

#include "rule/eval.h"
#include "rule/linear.h"

/* A value on the stack: the program that lies at `at`, up to the next value's,
 * plus c. Where there is no program it is c. */
typedef struct operand {
  int at;
  bool program;
  int64_t c;
} operand;

typedef struct folding {
  int64_t *out;
  int n; /* words in `out` */
  operand stack[CEL_RULE_DEPTH];
  int top;
} folding;

/* Makes a program of the whole of an operand, whose program ends at `end`. */
static void settle(folding *f, operand *x, int end) {
  if (x->program && x->c == 0) return;
  bool less = x->program && x->c < 0;
  int64_t words[] = {CEL_RULE_CONST, less ? -x->c : x->c,
                     less ? CEL_RULE_SUB : CEL_RULE_ADD};
  int n = x->program ? 3 : 2;
  memmove(f->out + end + n, f->out + end,
          (size_t)(f->n - end) * sizeof *f->out);
  memcpy(f->out + end, words, (size_t)n * sizeof *words);
  f->n += n;
  x->program = true;
  x->c = 0;
}

/* x + c becomes one operand; false where it must stay a sum of two. */
static bool gather(operand *a, const operand *b, int64_t op) {
  bool less = op == CEL_RULE_SUB;
  if (b->program && (a->program || less)) return false;
  int64_t c = less ? a->c - b->c : a->c + b->c;
  if (!cel__in_limit(c)) return false;
  a->program = a->program || b->program;
  a->c = c;
  return true;
}

/* Whether a op b is a: a factor or a divisor of one. */
static bool is_idle(const operand *b, int64_t op) {
  return (op == CEL_RULE_MUL || op == CEL_RULE_FLOORDIV) && !b->program &&
         b->c == 1;
}

static void combine(folding *f, int64_t op) {
  operand *b = &f->stack[--f->top], *a = &f->stack[f->top - 1];
  int64_t c;
  if (!a->program && !b->program &&
      cel__binary_eval(op, a->c, b->c, &c) == CEL_RULE_FINE) {
    a->c = c;
    return;
  }
  if ((op == CEL_RULE_ADD || op == CEL_RULE_SUB) && gather(a, b, op)) return;
  if (is_idle(b, op)) return;
  if (op == CEL_RULE_MUL && is_idle(a, op)) {
    *a = (operand){a->at, b->program, b->c};
    return;
  }
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
    f.stack[f.top++] = (operand){f.n, program, program ? 0 : word};
    if (!program) continue;
    f.out[f.n++] = op;
    f.out[f.n++] = word;
  }
  settle(&f, &f.stack[0], f.n);
  return f.n;
}
