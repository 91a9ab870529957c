/* reach.h -- how far around an item a rule reads: what stencils are known by.
 *
 * A rule reaches around where each of its boxes follows the chunk in every
 * dimension of the buffer, which are those of the task, but for constants:
 * [chunk.min[j] - below[j], chunk.max[j] + above[j]), and no further, whatever
 * it is clamped to; for chunks of use->range. A family does not. So it does not
 * matter what a user's mapper was made by.
 *
 * Where the range has all of the buffer in a dimension, its ends may meet there
 * (`wraps`): a box that lies an extent away counts as if it lay beyond the
 * other end, as the boxes of celer.periodic do; also one that begins there at
 * the end, as of u[(i + 1) % n].
 * Cost: a few ns per bound, and less where a thread asks for the same again.
 * Pure. Thread: any.
 */
#ifndef CEL_RULE_REACH_H
#define CEL_RULE_REACH_H

#include "rule/rule.h"

typedef struct cel_reach {
  int64_t below[3], above[3]; /* at least 0 */
  bool wraps[3];              /* around the ends, which meet */
  bool along_axes; /* what is read lies beside the item in one dimension */
} cel_reach;

#ifndef CEL_CDEF
/* Whether it goes beyond the item. */
static inline bool cel_reach_is_around(const cel_reach *reach) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (reach->below[d] > 0 || reach->above[d] > 0) return true;
  return false;
}
#endif

/* The hull of the rule's boxes and the item itself; false where it is none such
 * rule, or touches nothing. */
bool cel_rule_reach(const cel_rule_use *use, cel_reach *out);

#endif
