/* slab.h -- sweeps that make canonical box lists; internal to region/.
 *
 * One dimension at a time, a list is a row of slabs: runs of boxes with the
 * same bounds in that dimension, ascending and disjoint. A sweep walks along
 * the slabs, does the same to their cross-sections in the next dimension, and
 * fuses a slab with its predecessor if they touch and their cross-sections are
 * equal. That is the banded region of X11 (mi/miregion.c), one dimension up.
 *
 * Invariant: what a sink receives is in the canonical form of region.h.
 * Cost: combine is linear in the slabs' boxes read and written; build of n
 * boxes is O(n log n) plus the boxes open in each slab. Neither allocates while
 * the sink has room and n is at most 32. Confined. Pure.
 */
#ifndef CEL_REGION_SLAB_H
#define CEL_REGION_SLAB_H

#include "region/box.h"

typedef enum cel_slab_op {
  CEL__UNITE,
  CEL__INTERSECT,
  CEL__SUBTRACT
} cel_slab_op;

/* A growing list whose first room may be borrowed, from the stack say. */
typedef struct cel_slab_sink {
  cel_box *at;
  uint32_t n, cap;
  bool borrowed; /* `at` is not ours to free */
  uint32_t most; /* build gives up beyond so many */
} cel_slab_sink;

/* Appends op(a, b); both are canonical and not in the sink. */
void cel__slab_combine(cel_slab_op op, const cel_box *a, uint32_t na,
                       const cel_box *b, uint32_t nb, cel_slab_sink *sink);
/* Appends the canonical form of the union of any boxes. What is there is of no
 * use where it is more than sink->most. */
void cel__slab_build(const cel_box *boxes, uint32_t n, cel_slab_sink *sink);
/* Makes room for `more` boxes. */
void cel__slab_grow(cel_slab_sink *sink, uint32_t more);

#endif
