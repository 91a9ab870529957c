/* program.h -- internal to rule/: one bound, evaluated.
 *
 * Says what failed, in no words: the public functions of rule.h add the text.
 * Pure. Thread: any.
 */
#ifndef CEL_RULE_PROGRAM_H
#define CEL_RULE_PROGRAM_H

#include "rule/rule.h"

/* Integers that the Lua side can hold exactly: |x| <= 2^53. */
#define CEL_RULE_LIMIT ((int64_t)1 << 53)

/* At most: words of code in one rule; of the stack of a program; runs of a
 * family in one chunk, and boxes of families before they are one region. */
enum {
  CEL_RULE_WORDS = 1 << 14,
  CEL_RULE_DEPTH = 32,
  CEL_RULE_RUNS = 1 << 18,
  CEL_RULE_GATHERED = 1 << 18
};

/* The largest whole number not above a / b; b is positive. */
static inline int64_t cel__floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && a < 0);
}

static inline bool cel__in_limit(int64_t x) {
  return x <= CEL_RULE_LIMIT && x >= -CEL_RULE_LIMIT;
}

typedef enum cel_rule_fault {
  CEL_RULE_FINE,
  CEL_RULE_OVERFLOWS, /* beyond 2^53 */
  CEL_RULE_DIVIDES,   /* by less than one */
  CEL_RULE_LEAVES,    /* the buffer, and is not clamped to it */
  CEL_RULE_MANY,      /* boxes of families */
  CEL_RULE_TURNS,     /* bounds of a family that are no lines, too often */
  CEL_RULE_UNLISTED   /* an opaque mapper was not asked about the chunk */
} cel_rule_fault;

/* What pushes a word onto the stack: a constant, a parameter, or an end of the
 * chunk, the range or the buffer. */
int64_t cel__variable_eval(const cel_rule_use *use, const cel_box *chunk,
                           int64_t op, int64_t word);
/* a op b for an operation of two operands within the limit; *out untouched
 * unless FINE. */
cel_rule_fault cel__binary_eval(int64_t op, int64_t a, int64_t b, int64_t *out);
/* One program for one chunk; *out untouched unless FINE. */
cel_rule_fault cel__program_eval(const cel_rule_use *use, const int64_t *code,
                                 int length, const cel_box *chunk,
                                 int64_t *out);

#endif
