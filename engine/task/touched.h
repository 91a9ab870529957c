/* touched.h -- what a work touched of one view, element by element: for
 * `celer check`.
 *
 * Whoever runs the work makes one per view, with a byte for each element of the
 * view's box, in which what the mapper promised is marked; the work marks what
 * it touches, and notes what it was not promised. Several threads may mark at
 * once: each stores the same byte.
 */
#ifndef CEL_TASK_TOUCHED_H
#define CEL_TASK_TOUCHED_H

#include "region/box.h"

enum { CEL_PROMISED = 1, CEL_TOUCHED = 2 };
#define CEL_SEVERAL_ITEMS UINT64_MAX

/* celer::touched, in kernels/mark.cuh. */
typedef struct cel_touched {
  unsigned char *map; /* row by row */
  /* Accesses to what was not promised; which of them was the first is noted by
   * whoever finds `set` 0 and makes it 1. */
  int64_t outside;
  int32_t set, item_dims; /* item_dims 0: there is no item */
  int64_t at[3], item[3];
  /* Null; or, for each element, which item of the chunk touched it: its number
   * in the chunk, row by row, plus 1; 0: none; CEL_SEVERAL_ITEMS. */
  uint64_t *who;
  cel_box chunk;
} cel_touched;

#ifndef CEL_CDEF
/* The byte of an element of the view's box. */
static inline unsigned char *cel_touched_byte(const cel_touched *touched,
                                              const cel_box *box, int64_t i,
                                              int64_t j, int64_t k) {
  int64_t e1 = box->max[1] - box->min[1], e2 = box->max[2] - box->min[2];
  return touched->map + ((i - box->min[0]) * e1 + (j - box->min[1])) * e2 +
         (k - box->min[2]);
}
#endif

#endif
