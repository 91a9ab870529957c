/* edge.h -- one end of a box as a function of the rank, in closed form.
 *
 * Rank k stands at coordinate p = (k / stride) % P of one axis of the split;
 * a*chunk.{min|max} + c is then piecewise linear in p: `bigs` steps of `big`,
 * the rest of `small`, the last one possibly odd (where the granularity does
 * not divide the index space). The extreme end, where the box touches the hull
 * of the whole access, may be *open*: infinite, for the entry cuts there
 * anyway.
 *
 * A weighted cut gives any monotone numbers. Where they are not of this form a
 * edge has a table of them, which its holder interns (rep.h).
 *
 * Invariant: canonical. With the same (stride, P, open) two edges are the same
 * function iff they are equal byte for byte; cuts, offsets and scales that give
 * the same numbers cannot be told apart.
 * Units: coordinates of the buffer; finite values stay within CEL__FAR.
 * Cost: O(1), and where() O(log P); with a table at_most() is O(P). Pure.
 * Thread: any.
 */
#ifndef CEL_COMMAND_OWN_EDGE_H
#define CEL_COMMAND_OWN_EDGE_H

#include "rule/rule.h"

#define CEL__FAR ((int64_t)1 << 60)

typedef enum cel__open {
  CEL__UNBOUNDED, /* no edge at all: the others are zero */
  CEL__CLOSED,
  CEL__OPEN_FIRST, /* infinite at p = 0 */
  CEL__OPEN_LAST   /* infinite at p = P - 1 */
} cel__open;

typedef struct cel__edge {
  int64_t stride, P;
  const int64_t *table; /* value by p, 0 where that is infinite; or null */
  int64_t first;        /* value at the first finite p */
  int64_t big, small, bigs;
  int64_t last; /* value at P - 1 where that step is odd */
  int32_t odd, open;
} cel__edge;

/* Which end of a box: decides what infinite means. */
typedef enum cel__side { CEL__LO, CEL__HI } cel__side;

static inline int64_t cel__infinite(cel__side side) {
  return side == CEL__LO ? INT64_MIN : INT64_MAX;
}

/* Value at coordinate p, infinite at an open end. */
static inline int64_t cel__edge_at(const cel__edge *b, int64_t p,
                                   cel__side side) {
  int64_t i = p;
  if (b->open == CEL__OPEN_FIRST && i-- == 0) return cel__infinite(side);
  if (p == b->P - 1) {
    if (b->open == CEL__OPEN_LAST) return cel__infinite(side);
    if (b->odd) return b->last;
  }
  if (b->table != NULL) return b->table[p];
  return b->first + b->small * i +
         (b->big - b->small) * (i < b->bigs ? i : b->bigs);
}

static inline int64_t cel__edge_of_rank(const cel__edge *b, int64_t rank,
                                        cel__side side) {
  return cel__edge_at(b, rank / b->stride % b->P, side);
}

bool cel__edge_equal(const cel__edge *a, const cel__edge *b);
/* Whether f(k) <= g(k) for every rank; exact for edges of one axis, false for
 * others. Unbounded counts as infinite. */
bool cel__edge_at_most(const cel__edge *f, cel__side f_side, const cel__edge *g,
                       cel__side g_side);
/* The most that `hi` is above `lo` where neither is infinite, or INT64_MAX
 * where that is not seen: edges of several axes. With a table O(P). */
int64_t cel__edges_width(const cel__edge *lo, const cel__edge *hi);
/* Coordinates [*from, *to) where the edge is below `limit` (CEL__LO) or above
 * it (CEL__HI): where that end leaves room for the box that `limit` ends. */
void cel__edge_where(const cel__edge *b, cel__side side, int64_t limit,
                     int64_t *from, int64_t *to);

/* An edge on a split: still knows its value at the open end. */
typedef struct cel__line {
  const cel_cut *cut; /* borrowed from the split; null for a constant */
  int64_t stride, a, c;
  int64_t extreme; /* value at the end that the whole access has in common */
  int32_t end;     /* 1 when it follows chunk.max */
  int32_t open;    /* CEL__UNBOUNDED: the constant `extreme` */
} cel__line;

/* False when its numbers leave CEL__FAR. */
bool cel__line_make(const cel_affine *affine, const cel_split *split,
                    cel__side side, cel__line *out);
cel__edge cel__line_edge(const cel__line *line, bool closed);
/* A line of a weighted cut: values[p] becomes its value at p, 0 where the edge
 * is infinite, and the edge has a closed form or is to get a table of them. */
bool cel__line_weighted(const cel__line *line);
cel__edge cel__line_values(const cel__line *line, bool closed, int64_t *values,
                           bool *tabled);
/* Its value on a rank. */
static inline int64_t cel__line_of_rank(const cel__line *line, int64_t rank) {
  if (line->open == CEL__UNBOUNDED) return line->extreme;
  int64_t p = rank / line->stride % line->cut->P;
  return line->a * cel_cut_at(line->cut, p + line->end) + line->c;
}

#endif
