/* family.h -- internal to rule/: boxes that are one for each index.
 *
 * A family along dimension d gives a box for each index i of a chunk in d: its
 * programs are evaluated for the chunk that has index i alone there, which ITEM
 * is the beginning of. Between the places where a floor, a min or a max turns,
 * all bounds are linear in i. Such a stretch of indices is a *run*: evaluated
 * once, it gives a box and by how much each bound moves from index to index.
 * A run whose boxes lie on each other, or side by side in one dimension, is one
 * box; any other, such as a diagonal of blocks, is a box for each index.
 *
 * A family whose boxes touch all along the range has an affine form (linear.h),
 * so that what looks at forms takes it for one box. Bounds with floors that are
 * seen to be monotone (monotone.h) are evaluated for the two ends of the chunk.
 *
 * Cost: O(runs + boxes) for a chunk, of some 100 ns each; joining O(1). Pure.
 * Thread: any.
 */
#ifndef CEL_RULE_FAMILY_H
#define CEL_RULE_FAMILY_H

#include "base/vec.h"
#include "rule/program.h"

/* The dimension along which box b is a family; -1: it is none. */
static inline int cel__family_dim(const cel_rule_use *use, int b) {
  return use->rule->desc.box[b].each - 1;
}

/* Boxes while they are gathered; the holder owns the list. */
typedef struct cel__gathered {
  CEL_VEC(cel_box) list;
  int64_t n; /* of families: more than it has where they are too many */
} cel__gathered;

/* Adds what box b, a family, comes to for a chunk that is not empty; MANY as
 * soon as families have come to more than `most`. */
cel_rule_fault cel__family_gather(const cel_rule_use *use, int b,
                                  const cel_box *chunk, int64_t most,
                                  cel__gathered *to);
/* Their union; false, and *out untouched, where that is more than
 * CEL_RULE_REGION boxes. */
bool cel__gathered_region(cel__gathered *all, cel_region *out);
/* What box b, a family, comes to for a chunk that is not empty: the box around,
 * raw and clipped. Where it leaves the buffer *raw is the box that does. */
cel_rule_fault cel__family_around(const cel_rule_use *use, int b,
                                  const cel_box *chunk, cel_box *raw,
                                  cel_box *out);

#endif
