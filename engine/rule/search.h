/* search.h -- internal to rule/: counter-examples, by trying chunks.
 *
 * Tries the even split in two, then small chunks at the beginning, the middle
 * and the end of each dimension that may be cut (every chunk where one short
 * dimension is cut), then, of what is to be disjoint, the even splits in up to
 * eight, and evaluates the rule for them: what is found is true,
 * whatever the proofs believe. Pairs of chunks are such as one split can hold:
 * in each dimension they are equal or disjoint.
 * Cost: at most some thousand evaluations. Pure. Thread: any.
 */
#ifndef CEL_RULE_SEARCH_H
#define CEL_RULE_SEARCH_H

#include "rule/units.h"

/* REFUTED and *why filled in; PROVED when every case there is was tried and
 * could be evaluated; else UNKNOWN. */
cel_proof cel__search_disjoint(const cel_rule_use *use, const cel_units *units,
                               cel_counter_example *why);
cel_proof cel__search_union(const cel_rule_use *use, const cel_units *units,
                            cel_counter_example *why);
cel_proof cel__search_uncrossed(const cel_rule_use *reads,
                                const cel_rule_use *writes,
                                const cel_units *units,
                                cel_counter_example *why);
cel_proof cel__search_hull(const cel_rule_use *use, const cel_units *units,
                           cel_counter_example *why);

#endif
