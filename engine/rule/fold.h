/* fold.h -- internal to rule/: the constants of a program, computed ahead.
 *
 * What is made of constants alone becomes one constant, and constants that are
 * added one after the other become one: x - 1 + 4 - 1 is x + 2, x + y * -1 is
 * x - y, and x * 0 is 0. A sum is not taken apart otherwise. So what stayed
 * within 2^53 still does, and a value that there was is the same.
 * Cost: one pass. Pure. Thread: any.
 */
#ifndef CEL_RULE_FOLD_H
#define CEL_RULE_FOLD_H

#include "rule/rule.h"

/* Writes what a well-formed program folds to into `out`, which has room for
 * `length` words; returns how many it takes. `params`: null, or values that
 * stand for the parameters. */
int cel__program_fold(const int64_t *code, int length, const int64_t *params,
                      int64_t *out);

#endif
