#include "task/assignment.h"

#include <string.h>

/* How good a grid of pieces is: more chunks first, then less surface between
 * them, which is what neighbours exchange. */
typedef struct grid {
  int64_t pieces[3];
  int64_t chunks;
  double surface;
} grid;

/* What is cut, and where it may be. */
typedef struct plate {
  cel_box box;
  bool cut[3];
  int64_t granularity[3];
} plate;

static void consider(const plate *what, const int64_t pieces[3], grid *best) {
  grid g = {.chunks = 1};
  double area = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t size = what->box.max[d] - what->box.min[d];
    int64_t step = what->granularity[d];
    int64_t units = size / step + (size % step != 0);
    g.pieces[d] = pieces[d] < units ? pieces[d] : units;
    g.chunks *= g.pieces[d];
    area += (double)(g.pieces[d] - 1) / (double)size;
  }
  g.surface = area;
  bool better = g.chunks > best->chunks ||
                (g.chunks == best->chunks && g.surface < best->surface);
  if (better) *best = g;
}

static bool cuts_after(const plate *what, int d) {
  for (int e = d + 1; e < CEL_DIMS; ++e)
    if (what->cut[e]) return true;
  return false;
}

/* Tries each divisor of `left` as the number of pieces in dimension d and the
 * quotient in later ones; the last dimension takes what is left. Every rank
 * visits the same grids in the same order. O(sqrt(ranks)) for two dimensions.
 */
static void search(const plate *what, int d, int64_t left, int64_t pieces[3],
                   grid *best) {
  if (d == CEL_DIMS) {
    consider(what, pieces, best);
    return;
  }
  if (!what->cut[d] || !cuts_after(what, d)) {
    pieces[d] = what->cut[d] ? left : 1;
    search(what, d + 1, what->cut[d] ? 1 : left, pieces, best);
    return;
  }
  for (int64_t q = 1; q * q <= left; ++q) {
    if (left % q != 0) continue;
    pieces[d] = left / q;
    search(what, d + 1, q, pieces, best);
    if (q * q == left) continue;
    pieces[d] = q;
    search(what, d + 1, left / q, pieces, best);
  }
}

/* The sums of the weights of the slices of a grid along dimension d, into
 * `sums`; false where the slices weigh the same. */
static bool weigh(const cel_split *split, int d, const int64_t *weight,
                  int64_t *sums) {
  int64_t P = split->cut[d].P;
  memset(sums, 0, (size_t)(P + 1) * sizeof *sums);
  for (int64_t k = 0; k < split->n; ++k)
    sums[k / split->stride[d] % P + 1] += weight[k];
  bool alike = true;
  for (int64_t i = 2; i <= P; ++i) alike = alike && sums[i] == sums[1];
  for (int64_t i = 2; i <= P; ++i) sums[i] += sums[i - 1];
  return !alike && sums[P] > 0;
}

static cel_split split_grid(const plate *what, const int64_t pieces[3],
                            const int64_t *weight, int64_t *room) {
  cel_split split = {.n = 1};
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    split.cut[d].P = pieces[d];
    split.stride[d] = split.n;
    split.n *= pieces[d];
  }
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t lo = what->box.min[d], N = what->box.max[d] - lo;
    int64_t g = what->granularity[d];
    if (weight != NULL && pieces[d] > 1 && weigh(&split, d, weight, room)) {
      split.cut[d] = cel_cut_weighted(lo, N, pieces[d], room, g);
      room += pieces[d] + 1;
    } else {
      split.cut[d] = cel_cut_even(lo, N, pieces[d], g);
    }
  }
  return split;
}

static bool all_alike(const int64_t *weight, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (weight[i] != weight[0]) return false;
  return true;
}

/* Which dimension alone is cut; -1: none or several. */
static int only_cut(const plate *what) {
  int only = -1, cuts = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    if (!what->cut[d]) continue;
    only = d;
    ++cuts;
  }
  return cuts == 1 ? only : -1;
}

cel_split cel_task_cut(const cel_task *task, const cel_box *chunk,
                       int64_t pieces, const int64_t *weight, int64_t *room) {
  if (pieces <= 1 || cel_box_is_empty(chunk)) return cel_split_none(chunk);
  plate what = {.box = *chunk};
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t g = task->permitted.granularity[d];
    what.cut[d] = task->permitted.cut[d];
    what.granularity[d] = g < 1 ? 1 : g;
  }
  if (weight != NULL && all_alike(weight, pieces)) weight = NULL;
  int only = only_cut(&what);
  if (only == 0 && weight == NULL)
    return cel_split_1d(chunk, pieces, what.granularity[0]);
  int64_t tried[3];
  grid best = {.pieces = {1, 1, 1}};
  /* By weights even the last of many may be the one that gets the few units
   * that there are. */
  if (only >= 0 && weight != NULL)
    best.pieces[only] = pieces;
  else
    search(&what, 0, pieces, tried, &best);
  return split_grid(&what, best.pieces, weight, room);
}

cel_split cel_task_split(const cel_task *task, int64_t ranks) {
  if (task->split != NULL) return *task->split;
  if (task->placement == CEL_PLACE_EACH)
    return cel_split_1d(&task->range, ranks, 1);
  if (task->placement == CEL_PLACE_ALL) {
    cel_box each = cel_box_sized(ranks, 1, 1);
    return cel_split_1d(&each, ranks, 1);
  }
  if (task->placement == CEL_PLACE_ONCE) return cel_split_none(&task->range);
  return cel_task_cut(task, &task->range, ranks, NULL, NULL);
}

int64_t *cel_task_alone(int64_t ranks) {
  int64_t *alone = cel_alloc_zero(((size_t)ranks + 1) * sizeof *alone);
  alone[ranks] = 1;
  return alone;
}

cel_split cel_task_split_at(const cel_box *range, int64_t home, int64_t ranks,
                            const int64_t *alone) {
  cel_assert(home >= 0 && home < ranks && alone[ranks] == 1);
  cel_split split = cel_split_none(range);
  if (home == 0 || split.n == 0) return split;
  cel_cut *cut = &split.cut[0];
  split.n = home + 1;
  *cut = cel_cut_weighted(cut->lo, cut->N, split.n, alone + ranks - split.n, 1);
  return split;
}

cel_split cel_task_runs(const cel_task *task, const cel_box *chunk) {
  int64_t g = task->permitted.granularity[0];
  bool several = task->oversubscribe > 1 && task->permitted.cut[0] &&
                 task->placement == CEL_PLACE_SPLIT && task->effects == 0;
  return cel_split_1d(chunk, several ? task->oversubscribe : 1, g < 1 ? 1 : g);
}
