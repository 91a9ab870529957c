/* split.c -- which ranks, and which of their devices, compute which chunks of a
 * task. */
#include "task/graph.h"

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

static int64_t units_of(const plate *what, int d) {
  int64_t size = what->box.max[d] - what->box.min[d];
  int64_t g = what->granularity[d];
  return size / g + (size % g != 0);
}

static void consider(const plate *what, const int64_t pieces[3], grid *best) {
  grid g = {.chunks = 1};
  double area = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t units = units_of(what, d);
    g.pieces[d] = pieces[d] < units ? pieces[d] : units;
    g.chunks *= g.pieces[d];
    double size = (double)(what->box.max[d] - what->box.min[d]);
    area += (double)(g.pieces[d] - 1) / size;
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

static cel_split split_grid(const plate *what, int64_t chunks) {
  int64_t pieces[3];
  grid best = {.pieces = {1, 1, 1}};
  search(what, 0, chunks, pieces, &best);
  cel_split split;
  int64_t stride = 1;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    split.cut[d] =
        cel_cut_even(what->box.min[d], what->box.max[d] - what->box.min[d],
                     best.pieces[d], what->granularity[d]);
    split.stride[d] = stride;
    stride *= split.cut[d].P;
  }
  split.n = stride;
  return split;
}

cel_split cel_task_cut(const cel_task *task, const cel_box *chunk,
                       int64_t pieces) {
  if (pieces <= 1 || cel_box_is_empty(chunk)) return cel_split_none(chunk);
  plate what = {.box = *chunk};
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t g = task->permitted.granularity[d];
    what.cut[d] = task->permitted.cut[d];
    what.granularity[d] = g < 1 ? 1 : g;
  }
  if (what.cut[0] && !what.cut[1] && !what.cut[2])
    return cel_split_1d(chunk, pieces, what.granularity[0]);
  return split_grid(&what, pieces);
}

cel_split cel_task_split(const cel_task *task, int64_t ranks) {
  if (task->placement == CEL_PLACE_EACH)
    return cel_split_1d(&task->range, ranks, 1);
  if (task->placement == CEL_PLACE_ONCE) return cel_split_none(&task->range);
  return cel_task_cut(task, &task->range, ranks);
}
