/* box.h -- half-open boxes of integer coordinates, three dimensions always.
 *
 * A d-dimensional box keeps [0, 1) in dimensions d and above, so that one code
 * path serves 0 to 3 dimensions. Dimension 0 is the slowest.
 *
 * Invariant: a box is empty iff some min >= max; every function that returns an
 * empty box returns the all-zero one, so that empty boxes compare equal.
 * Pure. Thread: any.
 */
#ifndef CEL_REGION_BOX_H
#define CEL_REGION_BOX_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

enum { CEL_DIMS = 3 };

typedef struct cel_box {
  int64_t min[3];
  int64_t max[3];
} cel_box;

#ifndef CEL_CDEF
/* [0, a) x [0, b) x [0, c). */
static inline cel_box cel_box_sized(int64_t a, int64_t b, int64_t c) {
  return (cel_box){{0, 0, 0}, {a, b, c}};
}

static inline bool cel_box_is_empty(const cel_box *b) {
  return b->min[0] >= b->max[0] || b->min[1] >= b->max[1] ||
         b->min[2] >= b->max[2];
}

static inline bool cel_box_equal(const cel_box *a, const cel_box *b) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->min[d] != b->min[d] || a->max[d] != b->max[d]) return false;
  return true;
}

/* False, and *out the zero box, when they do not meet. `out` may be a or b. */
static inline bool cel_box_intersect(const cel_box *a, const cel_box *b,
                                     cel_box *out) {
  cel_box r;
  for (int d = 0; d < CEL_DIMS; ++d) {
    r.min[d] = a->min[d] > b->min[d] ? a->min[d] : b->min[d];
    r.max[d] = a->max[d] < b->max[d] ? a->max[d] : b->max[d];
  }
  bool meets = !cel_box_is_empty(&r);
  *out = meets ? r : (cel_box){{0}, {0}};
  return meets;
}

static inline bool cel_box_meets(const cel_box *a, const cel_box *b) {
  cel_box ignored;
  return cel_box_intersect(a, b, &ignored);
}

/* Whether `a` covers `b`; an empty b is covered by all. */
static inline bool cel_box_covers(const cel_box *a, const cel_box *b) {
  if (cel_box_is_empty(b)) return true;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (b->min[d] < a->min[d] || b->max[d] > a->max[d]) return false;
  return true;
}

/* The smallest box around both; an empty one does not count. */
static inline cel_box cel_box_hull(const cel_box *a, const cel_box *b) {
  if (cel_box_is_empty(a)) return *b;
  if (cel_box_is_empty(b)) return *a;
  cel_box r;
  for (int d = 0; d < CEL_DIMS; ++d) {
    r.min[d] = a->min[d] < b->min[d] ? a->min[d] : b->min[d];
    r.max[d] = a->max[d] > b->max[d] ? a->max[d] : b->max[d];
  }
  return r;
}

/* Parts of a box that may leave `ring`, whose ends meet: what lies beyond one
 * of them lies at the other. They lie in the ring, and do not overlap; how
 * many. In dimensions that it does not leave a box stays as it is. */
enum { CEL_BOX_PARTS = 8 };
static inline int32_t cel_box_on_ring(const cel_box *box, const cel_box *ring,
                                      cel_box out[CEL_BOX_PARTS]) {
  int32_t n = 1;
  out[0] = *box;
  if (cel_box_is_empty(box) || cel_box_covers(ring, box)) return n;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t low = ring->min[d], high = ring->max[d], size = high - low;
    int64_t min = box->min[d], max = box->max[d], beyond;
    if (min >= low && max <= high) continue;
    if (max - min >= size) min = low, max = high;
    while (min < low) min += size, max += size;
    while (min >= high) min -= size, max -= size;
    beyond = max > high ? max - high : 0;
    for (int32_t i = 0; i < n; ++i) {
      out[i].min[d] = min;
      out[i].max[d] = max - beyond;
      if (beyond == 0) continue;
      out[n + i] = out[i];
      out[n + i].min[d] = low;
      out[n + i].max[d] = low + beyond;
    }
    if (beyond > 0) n *= 2;
  }
  return n;
}

/* Number of points; the caller keeps it below 2^63. */
static inline int64_t cel_box_volume(const cel_box *b) {
  if (cel_box_is_empty(b)) return 0;
  return (b->max[0] - b->min[0]) * (b->max[1] - b->min[1]) *
         (b->max[2] - b->min[2]);
}

/* Order of boxes in canonical lists: by min, then by max, dimension 0 first. */
static inline int cel_box_compare(const cel_box *a, const cel_box *b) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->min[d] != b->min[d]) return a->min[d] < b->min[d] ? -1 : 1;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->max[d] != b->max[d]) return a->max[d] < b->max[d] ? -1 : 1;
  return 0;
}
#endif

/* a - b as at most six disjoint boxes, cut in dimension order (so the same on
 * every rank); returns how many. `out` has room for six. */
int cel_box_subtract(const cel_box *a, const cel_box *b, cel_box *out);

/* Cuts a box, not an empty one, of elements of `size` bytes into parts of at
 * most `bytes` each, or of one element: slices of the slowest dimension, as
 * many as go into a part, and where one is too long, slices of that. Returns
 * how many parts there are; *step gets the points of one along each dimension.
 */
int64_t cel_box_pieces(const cel_box *box, uint64_t size, uint64_t bytes,
                       int64_t step[3]);
/* Part i of them, in row-major order. */
cel_box cel_box_piece(const cel_box *box, const int64_t step[3], int64_t i);

/* Writes "[0, 4) x [2, 3)" for the first `dims` dimensions; returns the length
 * that it takes (as snprintf). */
int cel_box_print(const cel_box *box, int dims, char *text, int size);
/* The same for the point "(0, 2)". */
int cel_box_print_point(const int64_t point[3], int dims, char *text, int size);

#endif
