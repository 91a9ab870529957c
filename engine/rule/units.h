/* units.h -- internal to rule/: chunks of permitted splits, counted in units.
 *
 * In a dimension that may be cut, a chunk runs from unit m to unit M,
 * 0 <= m < M <= count, where unit u begins at range.min + g * u and the last
 * may be cut short (the dimension is then *ragged*). A dimension that is not
 * cut, or that is one unit long, has one unit: all of it.
 * Pure. Thread: any.
 */
#ifndef CEL_RULE_UNITS_H
#define CEL_RULE_UNITS_H

#include "rule/linear.h"

typedef struct cel_units {
  cel_box range;
  int64_t g[3], count[3];
  bool ragged[3];
} cel_units;

void cel__units_init(const cel_box *range, const cel_split_kind *kind,
                     cel_units *out);

/* Where unit u begins in dimension d, or the end for u == count. */
int64_t cel__units_at(const cel_units *units, int d, int64_t u);

/* The chunks that end, in the ragged dimensions of the bit set `at_end`, with
 * the last unit, and in the other ragged ones before it: within this domain
 * chunk.min and chunk.max are linear in m and M. */
void cel__units_domain(const cel_units *units, unsigned at_end,
                       cel_domain *out);

/* Bit set of the ragged dimensions. */
unsigned cel__units_ragged(const cel_units *units);

#endif
