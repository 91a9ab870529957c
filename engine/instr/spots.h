/* spots.h -- disjoint layouts of one buffer in one memory; internal to instr/.
 *
 * Layouts take all of dimension 0, so they differ in the others; programs that
 * touch one column at a time have thousands. They are kept in ascending order
 * of min[1], and no layout is wider in dimension 1 than `widest`: what may meet
 * a box is a short run.
 *
 *   cel__spots_each(i, spots, &box)
 *     if (cel_box_meets(&spots->at[i].layout, &box)) ...
 *
 * Invariants: layouts are disjoint; ascending min[1].
 * Cost: O(log n + those that meet in dimension 1) to look, O(n) moves of small
 * items to change. Confined. Pure.
 */
#ifndef CEL_INSTR_SPOTS_H
#define CEL_INSTR_SPOTS_H

#include "base/vec.h"
#include "region/box.h"

struct cel__record;

typedef struct cel__spot {
  cel_box layout;
  struct cel__record *record; /* null for a layout that is only wanted */
} cel__spot;

typedef struct cel__spots {
  cel__spot *at; /* a CEL_VEC */
  uint32_t n, cap;
  int64_t widest; /* in dimension 1; shrinks only when all are gone */
} cel__spots;

/* Index of the first that may meet `box`. */
uint32_t cel__spots_first(const cel__spots *spots, const cel_box *box);
/* `layout` meets none of them. */
void cel__spots_insert(cel__spots *spots, const cel_box *layout,
                       struct cel__record *record);
void cel__spots_remove(cel__spots *spots, uint32_t i);
/* All that `layout` covers, at once. */
void cel__spots_remove_covered(cel__spots *spots, const cel_box *layout);
void cel__spots_clear(cel__spots *spots);

#define cel__spots_each(i, spots, box)                                         \
  for (uint32_t i = cel__spots_first(spots, box);                              \
       i < (spots)->n && (spots)->at[i].layout.min[1] < (box)->max[1]; ++i)

#endif
