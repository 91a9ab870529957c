#include "region/split.h"

#include "base/status.h"

cel_cut cel_cut_even(int64_t lo, int64_t N, int64_t pieces,
                     int64_t granularity) {
  cel_assert(pieces >= 1 && granularity >= 1);
  if (N < 0) N = 0;
  /* Not (N + g - 1) / g: that sum may overflow. */
  int64_t units = N / granularity + (N % granularity != 0);
  int64_t P = pieces < units ? pieces : units;
  if (P < 1) P = 1;
  return (cel_cut){
      .lo = lo,
      .N = N,
      .P = P,
      .A = granularity * (units / P),
      .G = granularity,
      .n = units % P,
  };
}

int64_t cel_cut_at(const cel_cut *cut, int64_t i) {
  cel_assert(i >= 0 && i <= cut->P);
  if (i >= cut->P) return cut->lo + cut->N;
  return cut->lo + cut->A * i + cut->G * (i < cut->n ? i : cut->n);
}

int64_t cel_cut_find(const cel_cut *cut, int64_t x) {
  cel_assert(x >= cut->lo && x - cut->lo < cut->N);
  int64_t at = x - cut->lo;
  int64_t longer = (cut->A + cut->G) * cut->n;
  if (at < longer) return at / (cut->A + cut->G);
  /* The last piece may be cut short, but never reaches beyond A. */
  return cut->n + (at - longer) / cut->A;
}

/* Both cuts are linear between their breaks n, so two that agree at the breaks
 * and at the ends agree everywhere. */
bool cel_cut_equal(const cel_cut *a, const cel_cut *b) {
  if (a->lo != b->lo || a->N != b->N || a->P != b->P) return false;
  int64_t last = a->P - 1;
  int64_t breaks[3] = {a->n < last ? a->n : last, b->n < last ? b->n : last,
                       last};
  for (int i = 0; i < 3; ++i)
    if (cel_cut_at(a, breaks[i]) != cel_cut_at(b, breaks[i])) return false;
  return true;
}

cel_split cel_split_1d(const cel_box *range, int64_t pieces,
                       int64_t granularity) {
  cel_split split = {.stride = {1, 1, 1}};
  for (int d = 0; d < CEL_DIMS; ++d) {
    bool cut_here = d == 0;
    split.cut[d] =
        cel_cut_even(range->min[d], range->max[d] - range->min[d],
                     cut_here ? pieces : 1, cut_here ? granularity : 1);
  }
  split.n = cel_box_is_empty(range) ? 0 : split.cut[0].P;
  return split;
}

cel_split cel_split_none(const cel_box *range) {
  return cel_split_1d(range, 1, 1);
}

bool cel_split_chunk(const cel_split *split, int64_t k, cel_box *out) {
  if (k < 0 || k >= split->n) return false;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t i = k / split->stride[d] % split->cut[d].P;
    out->min[d] = cel_cut_at(&split->cut[d], i);
    out->max[d] = cel_cut_at(&split->cut[d], i + 1);
  }
  return true;
}
