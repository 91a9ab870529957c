/* eval.h -- internal to rule/: evaluation that says what failed, in no words.
 *
 * The public functions of rule.h add the text; the search for counter-examples
 * evaluates thousands of chunks and wants none. Pure. Thread: any.
 */
#ifndef CEL_RULE_EVAL_H
#define CEL_RULE_EVAL_H

#include "rule/program.h"

/* Of a box that is no family, *raw becomes it before it is clipped, also when
 * it LEAVES; *out the box clipped. */
cel_rule_fault cel__box_eval(const cel_rule_use *use, int b,
                             const cel_box *chunk, cel_box *raw, cel_box *out);
/* *out becomes the union; untouched unless FINE. */
cel_rule_fault cel__rule_eval(const cel_rule_use *use, const cel_box *chunk,
                              cel_region *out);

#endif
