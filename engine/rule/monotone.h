/* monotone.h -- internal to rule/: what is known of boxes whose bounds are
 * monotone but not linear, such as [floor(min / 2), floor((max + 1) / 2)).
 *
 * A bound is enclosed between two linear forms over one denominator, and
 * watched for which variables it rises and falls with. Two chunks that touch
 * then unite where one bound follows the outer end of each, and the inner ends
 * leave no gap; bounds are whole numbers, so a gap has at least width one.
 * Pure. Thread: any.
 */
#ifndef CEL_RULE_MONOTONE_H
#define CEL_RULE_MONOTONE_H

#include "rule/units.h"

/* True only if box b of the union of two chunks that touch along a dimension
 * that is cut is the union of their boxes b. */
bool cel__monotone_unites(const cel_rule_use *use, const cel_units *units,
                          int b);
/* True only if the boxes of the family b touch each other along every chunk of
 * the range, in one dimension: the box of a chunk then reaches from that of its
 * first index to that of its last or, where they fall, back. */
bool cel__monotone_joins(const cel_rule_use *use, const cel_units *units, int b,
                         bool *falls);
/* True only if box b of a chunk holds box b of each part of the chunk. */
bool cel__monotone_grows(const cel_rule_use *use, const cel_units *units,
                         int b);

#endif
