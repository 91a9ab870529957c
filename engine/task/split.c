/* split.c -- which ranks compute which chunks of a task. */
#include "task/graph.h"

/* How good a grid of pieces is: more chunks first, then less surface between
 * them, which is what neighbours exchange. */
typedef struct grid {
  int64_t pieces[3];
  int64_t chunks;
  double surface;
} grid;

static int64_t units_of(const cel_task *task, int d) {
  int64_t size = task->range.max[d] - task->range.min[d];
  int64_t g = task->permitted.granularity[d];
  if (g < 1) g = 1;
  return size / g + (size % g != 0);
}

static void consider(const cel_task *task, const int64_t pieces[3],
                     grid *best) {
  grid g = {.chunks = 1};
  double area = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t units = units_of(task, d);
    g.pieces[d] = pieces[d] < units ? pieces[d] : units;
    g.chunks *= g.pieces[d];
    double size = (double)(task->range.max[d] - task->range.min[d]);
    area += (double)(g.pieces[d] - 1) / size;
  }
  g.surface = area;
  bool better = g.chunks > best->chunks ||
                (g.chunks == best->chunks && g.surface < best->surface);
  if (better) *best = g;
}

static bool cuts_after(const cel_task *task, int d) {
  for (int e = d + 1; e < CEL_DIMS; ++e)
    if (task->permitted.cut[e]) return true;
  return false;
}

/* Tries each divisor of `left` as the number of pieces in dimension d and the
 * quotient in later ones; the last dimension takes what is left. Every rank
 * visits the same grids in the same order. O(sqrt(ranks)) for two dimensions.
 */
static void search(const cel_task *task, int d, int64_t left, int64_t pieces[3],
                   grid *best) {
  if (d == CEL_DIMS) {
    consider(task, pieces, best);
    return;
  }
  if (!task->permitted.cut[d] || !cuts_after(task, d)) {
    pieces[d] = task->permitted.cut[d] ? left : 1;
    search(task, d + 1, task->permitted.cut[d] ? 1 : left, pieces, best);
    return;
  }
  for (int64_t q = 1; q * q <= left; ++q) {
    if (left % q != 0) continue;
    pieces[d] = left / q;
    search(task, d + 1, q, pieces, best);
    if (q * q == left) continue;
    pieces[d] = q;
    search(task, d + 1, left / q, pieces, best);
  }
}

static cel_split split_grid(const cel_task *task, int64_t ranks) {
  int64_t pieces[3];
  grid best = {.pieces = {1, 1, 1}};
  search(task, 0, ranks, pieces, &best);
  cel_split split;
  int64_t stride = 1;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t g = task->permitted.granularity[d];
    split.cut[d] = cel_cut_even(task->range.min[d],
                                task->range.max[d] - task->range.min[d],
                                best.pieces[d], g < 1 ? 1 : g);
    split.stride[d] = stride;
    stride *= split.cut[d].P;
  }
  split.n = stride;
  return split;
}

cel_split cel_task_split(const cel_task *task, int64_t ranks) {
  if (task->placement == CEL_PLACE_EACH)
    return cel_split_1d(&task->range, ranks, 1);
  if (task->placement == CEL_PLACE_ONCE || cel_box_is_empty(&task->range))
    return cel_split_none(&task->range);
  const bool *cut = task->permitted.cut;
  int64_t g = task->permitted.granularity[0];
  if (cut[0] && !cut[1] && !cut[2])
    return cel_split_1d(&task->range, ranks, g < 1 ? 1 : g);
  return split_grid(task, ranks);
}
