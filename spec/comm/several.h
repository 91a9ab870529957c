/* several.h -- collectives of several boxes, for share.h: broadcasts,
 * all-gathers and all-to-alls, each box with parts and a layout of its own.
 */
#ifndef SPEC_COMM_SEVERAL_H
#define SPEC_COMM_SEVERAL_H

#include "comm/pairs.h"

enum { SEVERAL_MOST = 3 };

typedef struct several {
  int boxes; /* 0: it is not one of these */
  pairs pairs[SEVERAL_MOST];
  /* Of all but an ALL_TO_ALL: the whole, rows by rank. */
  pairs_end whole[SEVERAL_MOST];
  uint64_t run[SEVERAL_MOST];
  cel_collective_parts each[2][SEVERAL_MOST];
  cel_parts sum[2];
} several;

/* What all ranks know of it; then `collective`, of that pattern and root, as
 * this rank posts it. */
void several_plan(several *s, cel_pattern pattern, int64_t ranks, int64_t root,
                  cel_random *shared);
void several_lay_out(several *s, const cel_transport *t, cel_random *own,
                     cel_collective *collective);
/* How many bytes are wrong. */
uint64_t several_check(const several *s, const cel_transport *t,
                       const cel_collective *collective);
void several_release(several *s);

#endif
