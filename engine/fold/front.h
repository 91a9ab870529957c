/* front.h -- how far steps have come in an array, and so how far the next one
 * has to stay behind them ("time skewing").
 *
 * Steps go over the same rows in bands: a band of all of them, then the next
 * one. A step reads what has been computed, and overwrites nothing that is
 * still to be read, if it stays behind by the largest cel_front_lag of what it
 * touches. Then each front that it touches advances. `ahead` is how far it
 * reads beyond its rows in the direction of the bands, `back` how far behind.
 */
#ifndef CEL_FOLD_FRONT_H
#define CEL_FOLD_FRONT_H

#include <stdbool.h>
#include <stdint.h>

/* Rows that steps are behind the first one, at most. */
typedef struct cel_front {
  int64_t written, read; /* -1: nobody did */
} cel_front;

#define CEL_FRONT_NONE ((cel_front){.written = -1, .read = -1})

/* How far a step has to stay behind, of one access. Thread: any. */
int64_t cel_front_lag(const cel_front *front, bool writes, int64_t ahead);
/* What a step's access makes of it, if the step stays `lag` behind. Thread:
 * any. */
void cel_front_advance(cel_front *front, bool reads, bool writes, int64_t lag,
                       int64_t back);

#endif
