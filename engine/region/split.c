#include "region/split.h"

#include "base/status.h"

__extension__ typedef __int128 wide;

/* Not (N + g - 1) / g: that sum may overflow. */
static int64_t units_of(int64_t N, int64_t granularity) {
  return N / granularity + (N % granularity != 0);
}

cel_cut cel_cut_even(int64_t lo, int64_t N, int64_t pieces,
                     int64_t granularity) {
  cel_assert(pieces >= 1 && granularity >= 1);
  if (N < 0) N = 0;
  int64_t units = granularity == 1 ? N : units_of(N, granularity);
  int64_t P = pieces < units ? pieces : units;
  if (P <= 1) /* no division for what most dimensions are */
    return (cel_cut){
        .lo = lo, .N = N, .P = 1, .A = granularity * units, .G = granularity};
  return (cel_cut){
      .lo = lo,
      .N = N,
      .P = P,
      .A = granularity * (units / P),
      .G = granularity,
      .n = units % P,
  };
}

cel_cut cel_cut_weighted(int64_t lo, int64_t N, int64_t pieces,
                         const int64_t *sums, int64_t granularity) {
  cel_assert(pieces >= 1 && granularity >= 1 && sums[pieces] > 0);
  if (N < 0) N = 0;
  return (cel_cut){.lo = lo,
                   .N = N,
                   .P = pieces,
                   .A = units_of(N, granularity),
                   .G = granularity,
                   .sums = sums};
}

/* Where piece i begins, i < P, from lo on. */
static int64_t weighted_at(const cel_cut *cut, int64_t i) {
  wide all = cut->sums[cut->P];
  int64_t units = (int64_t)(((wide)cut->A * cut->sums[i] + all / 2) / all);
  /* The last unit may be cut short. */
  return units < cut->A ? units * cut->G : cut->N;
}

int64_t cel_cut_at(const cel_cut *cut, int64_t i) {
  cel_assert(i >= 0 && i <= cut->P);
  if (i >= cut->P) return cut->lo + cut->N;
  if (cut->sums != NULL) return cut->lo + weighted_at(cut, i);
  return cut->lo + cut->A * i + cut->G * (i < cut->n ? i : cut->n);
}

/* The last piece that begins at or before x, so that it is not empty. */
static int64_t weighted_find(const cel_cut *cut, int64_t x) {
  int64_t from = 0, to = cut->P; /* from begins there, `to` beyond */
  while (to - from > 1) {
    int64_t middle = from + (to - from) / 2;
    if (cel_cut_at(cut, middle) <= x)
      from = middle;
    else
      to = middle;
  }
  return from;
}

int64_t cel_cut_find(const cel_cut *cut, int64_t x) {
  cel_assert(x >= cut->lo && x - cut->lo < cut->N);
  if (cut->sums != NULL) return weighted_find(cut, x);
  int64_t at = x - cut->lo;
  int64_t longer = (cut->A + cut->G) * cut->n;
  if (at < longer) return at / (cut->A + cut->G);
  /* The last piece may be cut short, but never reaches beyond A. */
  return cut->n + (at - longer) / cut->A;
}

/* Even cuts are linear between their breaks n, so two that agree at the breaks
 * and at the ends agree everywhere. */
bool cel_cut_equal(const cel_cut *a, const cel_cut *b) {
  if (a->lo != b->lo || a->N != b->N || a->P != b->P) return false;
  if (a->sums == b->sums && a->A == b->A && a->G == b->G && a->n == b->n)
    return true;
  int64_t last = a->P - 1;
  int64_t breaks[3] = {a->n < last ? a->n : last, b->n < last ? b->n : last,
                       last};
  bool everywhere = a->sums != NULL || b->sums != NULL;
  for (int64_t i = 0; i < (everywhere ? a->P : 3); ++i) {
    int64_t at = everywhere ? i : breaks[i];
    if (cel_cut_at(a, at) != cel_cut_at(b, at)) return false;
  }
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
  cel_box chunk;
  for (int d = 0; d < CEL_DIMS; ++d) {
    const cel_cut *cut = &split->cut[d];
    int64_t i = cut->P == 1 ? 0 : k / split->stride[d] % cut->P;
    chunk.min[d] = cel_cut_at(cut, i);
    chunk.max[d] = cel_cut_at(cut, i + 1);
  }
  if (cel_box_is_empty(&chunk)) return false;
  *out = chunk;
  return true;
}
