/* split.h -- division of an index space over ranks or devices, near-equal or by
 * weights.
 *
 * A cut divides [lo, lo + N) into P pieces at multiples of the granularity g
 * (relative to lo), the longer pieces first:
 *
 *   at(i) = lo + A*i + G*min(i, n) for i < P,   at(P) = lo + N
 *
 * with U = ceil(N/g) units, P = max(1, min(pieces asked, U)), A = g*floor(U/P),
 * G = g, n = U mod P. Every piece is non-empty unless N is 0. A cut is O(1) to
 * make and to evaluate, for any number of pieces.
 *
 * A weighted cut borrows the sums s of the pieces' weights, 0 = s[0] <= ... <=
 * s[P], 0 < s[P]:
 *
 *   at(i) = lo + min(N, g * round(U * s[i] / s[P])) for i < P
 *
 * Its pieces may be empty. It is O(1) to make and to evaluate; to find a piece
 * is O(log P). The sums belong to whoever made the split, and are needed as
 * long as it is.
 *
 * A split is one cut per dimension; chunk k has coordinate
 * (k / stride[d]) % P[d] in dimension d, row-major; k >= n has no chunk, nor
 * has one whose piece is empty.
 * Pure. Thread: any.
 */
#ifndef CEL_REGION_SPLIT_H
#define CEL_REGION_SPLIT_H

#include "region/box.h"

typedef struct cel_cut {
  int64_t lo, N; /* what is cut */
  int64_t P;     /* pieces */
  int64_t A, G, n;
  const int64_t *sums; /* weighted: A is U then, and n is 0; else null */
} cel_cut;

typedef struct cel_split {
  cel_cut cut[3];
  int64_t stride[3];
  int64_t n; /* chunks: product of P; 0 for an empty index space */
} cel_split;

/* `pieces` >= 1, granularity >= 1. */
cel_cut cel_cut_even(int64_t lo, int64_t N, int64_t pieces,
                     int64_t granularity);
/* `pieces` >= 1, granularity >= 1; sums[0] to sums[pieces] as above. */
cel_cut cel_cut_weighted(int64_t lo, int64_t N, int64_t pieces,
                         const int64_t *sums, int64_t granularity);
int64_t cel_cut_at(const cel_cut *cut, int64_t i);
/* The piece that holds x, lo <= x < lo + N. O(1), or O(log P) by weights. */
int64_t cel_cut_find(const cel_cut *cut, int64_t x);
bool cel_cut_equal(const cel_cut *a, const cel_cut *b);

/* Cuts `range` along dimension 0 alone into at most `pieces` chunks. */
cel_split cel_split_1d(const cel_box *range, int64_t pieces,
                       int64_t granularity);
/* No cut at all: one chunk (none when the range is empty). */
cel_split cel_split_none(const cel_box *range);
/* False when chunk k does not exist or is empty. */
bool cel_split_chunk(const cel_split *split, int64_t k, cel_box *out);

#endif
