/* layouts.h -- disjoint layouts of one buffer in one memory; internal to
 * instr/.
 *
 * Layouts take all of dimension 0, so they differ in the others; programs that
 * touch one column at a time have thousands. They are kept in ascending order
 * of min[1], and no layout is wider in dimension 1 than `widest`: what may meet
 * a box is a short run.
 *
 *   cel__layouts_each(i, layouts, &box)
 *     if (cel_box_meets(&layouts->at[i].layout, &box)) ...
 *
 * Invariants: layouts are disjoint; ascending min[1].
 * Cost: O(log n + those that meet in dimension 1) to look, O(n) moves of small
 * items to change. Confined. Pure.
 */
#ifndef CEL_INSTR_LAYOUTS_H
#define CEL_INSTR_LAYOUTS_H

#include "base/vec.h"
#include "region/box.h"

struct cel__record;

typedef struct cel__layout_entry {
  cel_box layout;
  struct cel__record *record; /* null for a layout that is only wanted */
} cel__layout_entry;

typedef struct cel__layouts {
  cel__layout_entry *at; /* a CEL_VEC */
  uint32_t n, cap;
  int64_t widest; /* in dimension 1; shrinks only when all are gone */
} cel__layouts;

/* Index of the first that may meet `box`. */
uint32_t cel__layouts_first(const cel__layouts *layouts, const cel_box *box);
/* `layout` meets none of them. */
void cel__layouts_insert(cel__layouts *layouts, const cel_box *layout,
                         struct cel__record *record);
void cel__layouts_remove(cel__layouts *layouts, uint32_t i);
/* All that `layout` covers, at once. */
void cel__layouts_remove_covered(cel__layouts *layouts, const cel_box *layout);
void cel__layouts_clear(cel__layouts *layouts);

#define cel__layouts_each(i, layouts, box)                                     \
  for (uint32_t i = cel__layouts_first(layouts, box);                          \
       i < (layouts)->n && (layouts)->at[i].layout.min[1] < (box)->max[1];     \
       ++i)

#endif
