/* pairs.h -- what each rank gives to each other one, for share.h: an all-to-all
 * of random sizes, as one rank has it.
 *
 * Rows of some bytes; both ends lie in memory dense or with gaps, and say where
 * by slices of rows or by boxes.
 */
#ifndef SPEC_COMM_PAIRS_H
#define SPEC_COMM_PAIRS_H

#include "base/random.h"
#include "comm/transport.h"

typedef struct pairs_end {
  cel_parts parts;
  int32_t *count, *start, *rows, *first; /* by rank; the last two in rows */
  cel_box *box;
  uint8_t *memory;
  uint64_t all, run, stride;
} pairs_end;

typedef struct pairs {
  int32_t *rows;         /* from rank s to rank d: [s * ranks + d] */
  uint64_t run, element; /* bytes */
  bool wide;
  pairs_end given, got;
} pairs;

/* Room for what it has of each rank, `rows` of so many bytes by rank, which it
 * owns from then on; nothing is in there. */
cel_collective_parts pairs_end_make(pairs_end *end, uint64_t run,
                                    uint64_t element, int64_t ranks,
                                    cel_random *own);
void pairs_end_release(pairs_end *end);
/* The bytes of the rows of rank k become those that `from` gives `to`, or how
 * many are not. */
void pairs_end_fill(pairs_end *end, int64_t k, uint64_t nth, int64_t from,
                    int64_t to);
uint64_t pairs_end_check(const pairs_end *end, int64_t k, uint64_t nth,
                         int64_t from, int64_t to);

/* What all ranks know of it; then `collective` as this rank posts it. */
void pairs_plan(pairs *p, int64_t ranks, cel_random *shared);
void pairs_lay_out(pairs *p, const cel_transport *t, cel_random *own,
                   cel_collective *collective);
/* How many bytes are wrong. */
uint64_t pairs_check(const pairs *p, const cel_transport *t, uint64_t nth);
void pairs_release(pairs *p);

#endif
