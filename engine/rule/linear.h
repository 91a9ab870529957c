/* linear.h -- internal to rule/: bounds as linear forms over a chunk.
 *
 * affine.c, prove.c and monotone.c look at a bound as
 *
 *   min(max(sum of k[i] * v[i] + c, low), high)
 *
 * over six integer variables v: v[d] stands for chunk.min[d] and v[3 + d] for
 * chunk.max[d], each of them possibly in units of the granularity (a *domain*
 * says how). What cannot be written so is not linear. The index of a family
 * along d stands for v[d]: its box is that of a chunk of one index, and the
 * domain must have the indices there, not larger units.
 *
 * Invariant: |c|, |k[i]| <= CEL_RULE_LIMIT; low <= high.
 * Pure. Thread: any.
 */
#ifndef CEL_RULE_LINEAR_H
#define CEL_RULE_LINEAR_H

#include "rule/program.h"

/* Beyond every bound. */
#define CEL_RULE_FAR ((int64_t)1 << 60)

__extension__ typedef __int128 cel_wide;

typedef struct cel_linear {
  int64_t c, k[6];
} cel_linear;

typedef struct cel_clamped {
  cel_linear form;
  int64_t low, high; /* -FAR and FAR where there is none */
} cel_clamped;

/* What the chunk can be: chunk.min[d] = scale[d] * v[d] + offset[d], likewise
 * chunk.max[d] with 3 + d; low[d] <= v[d] < v[3 + d] <= high[d]. A variable
 * that is fixed has scale 0. */
typedef struct cel_domain {
  int64_t scale[6], offset[6];
  int64_t low[3], high[3];
} cel_domain;

/* Every non-empty chunk within `range`, cut anywhere. */
void cel__domain_whole(const cel_box *range, cel_domain *out);

/* Extremes of a form over a domain that is not empty; exact. */
cel_wide cel__linear_least(const cel_linear *form, const cel_domain *domain);
cel_wide cel__linear_most(const cel_linear *form, const cel_domain *domain);

/* x * a + y * b; false when it overflows. */
bool cel__linear_mix(const cel_linear *a, int64_t x, const cel_linear *b,
                     int64_t y, cel_linear *out);
/* a - b; false when it overflows. */
bool cel__linear_sub(const cel_linear *a, const cel_linear *b, cel_linear *out);
bool cel__linear_is_constant(const cel_linear *form);

/* Brings the program of bound `upper` of box b in dimension j to linear form.
 * False when it has none. */
bool cel__bound_linear(const cel_rule_use *use, const cel_domain *domain, int b,
                       int j, int upper, cel_clamped *out);

/* Box b with every bound linear and the clamps of its bounds drawn into a
 * clip: for every chunk of the domain, box b meets the buffer in
 * [lo, hi) within clip. False when some bound resists. */
typedef struct cel_linear_box {
  cel_linear lo[3], hi[3];
  cel_box clip;
} cel_linear_box;

bool cel__box_linear(const cel_rule_use *use, const cel_domain *domain, int b,
                     cel_linear_box *out);

/* Whether the boxes of a family along d touch each other for every chunk of a
 * domain of indices: *box, the box of an index, becomes that of a chunk. */
bool cel__family_join(int d, const cel_domain *domain, cel_linear_box *box);

#endif
