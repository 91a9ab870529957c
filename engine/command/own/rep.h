/* rep.h -- functions from a rank to boxes, normalised to buffer space.
 *
 * What the ranks below `n` own, hold or read of an entry is a function of the
 * rank, here called a representation: per buffer dimension a lower and an upper
 * edge, so that rep(k) within the entry is a box. A *listed* one, for rules
 * that have no closed form, holds the boxes of each rank. Both are interned:
 * equal functions have one id, whichever rule and split they came from.
 *
 * Invariant: closed forms over equal axes and n are equal iff their ids are.
 * The number of ranks is part of the function, and so is which of them have a
 * chunk, where a split by weights leaves some out. Tables of edges (weighted
 * cuts), and of who has a chunk, are interned too: equal ones have one address
 * while one is in use.
 * Cost: O(1), invert O(log ranks) and then O(ranks found); listed ones O(boxes)
 * to make, and to invert O(n) where ranks do not ascend along the buffer, else
 * O(log ranks + log boxes) a rank; a table O(n) to make. Confined.
 */
#ifndef CEL_COMMAND_OWN_REP_H
#define CEL_COMMAND_OWN_REP_H

#include "command/own/edge.h"
#include "command/own/intern.h"

typedef CEL_VEC(cel_box) cel__boxes;

/* Boxes of rank k: box[start[k]] to box[start[k + 1]], canonical. Most mappers
 * lead along the buffer as ranks ascend: then those whose boxes may meet a box
 * are found by halving. Interning makes what that takes. */
typedef struct cel__list {
  cel_box hull;
  cel_box *box;
  uint64_t *start; /* n + 1 of them */
  /* Along dimension `along` no rank begins or ends before the one below it, or
   * (down) above it; -1: there is no such dimension. Rank k's boxes lie between
   * ends[2 * k] and ends[2 * k + 1], one without any where the last one did. */
  int32_t along;
  bool down;
  int64_t *ends;
  int32_t sorted; /* the dimension along which the boxes of a rank ascend */
} cel__list;

typedef struct cel__rep {
  cel__interned head;
  int64_t n; /* ranks with a chunk: 0 .. n - 1 */
  /* Null, or how many of the ranks below k have a chunk: n + 1 numbers. Others
   * have nothing, whatever the edges say. Not of a listed one. */
  const int64_t *who;
  cel__edge end[3][2]; /* [dimension][cel__side] */
  /* By dimension, the most that its ends are apart. Not of a
   * listed one. */
  int64_t width[CEL_DIMS];
  cel__list *list; /* listed: the edges are then unbounded */
} cel__rep;

/* A table of an edge, or of who has a chunk. */
typedef struct cel__table_of {
  cel__interned head;
  int64_t n;
  int64_t value[];
} cel__table_of;

typedef struct cel__reps {
  cel__interner in;
  cel__interner tables;
  uint64_t bytes; /* of both */
} cel__reps;

static inline const cel__rep *cel__rep_at(const cel__reps *reps, uint32_t id) {
  return cel__interner_at(&reps->in, id);
}

static inline bool cel__rep_leaves_out(const cel__rep *rep, int64_t k) {
  return rep->who != NULL && rep->who[k] == rep->who[k + 1];
}

/* Whether ranks may have different parts along a dimension. Not of a listed
 * one. */
static inline bool cel__rep_cuts(const cel__rep *rep, int d) {
  return rep->end[d][CEL__LO].open || rep->end[d][CEL__HI].open;
}

/* The id of the function that `rep` (n, who and edges) describes. */
uint32_t cel__reps_intern(cel__reps *reps, const cel__rep *rep);
/* The same for a list of n ranks, taken over. */
uint32_t cel__reps_intern_list(cel__reps *reps, int64_t n, cel__list *list);
void cel__list_destroy(cel__list *list);
/* The edge that a line is, with its table if it takes one: to be interned as
 * part of a representation before the next sweep. */
cel__edge cel__reps_edge(cel__reps *reps, const cel__line *line, bool closed);
/* Who has a chunk in a split: null where the ranks below n do, else a table, to
 * be interned likewise. O(n). */
const int64_t *cel__reps_who(cel__reps *reps, const cel_split *split);
void cel__reps_sweep(cel__reps *reps);
void cel__reps_release(cel__reps *reps);

/* Whether every rank that has a chunk gets all of the entry. */
bool cel__rep_is_full(const cel__rep *rep);
/* How many have one, of one that is not listed. */
static inline int64_t cel__rep_ranks(const cel__rep *rep) {
  return rep->who != NULL ? rep->who[rep->n] : rep->n;
}
/* rep(k) within `clip`, of one that is not listed; false when it is empty. */
bool cel__rep_box(const cel__rep *rep, int64_t k, const cel_box *clip,
                  cel_box *out);
/* rep(k) within `clip`, appended to `out`. */
void cel__rep_boxes(const cel__rep *rep, int64_t k, const cel_box *clip,
                    cel__boxes *out);
/* No rank has more within `clip` along each dimension; O(1). Of none: a rank
 * has all of it. */
void cel__rep_widths(const cel__rep *rep, const cel_box *clip,
                     int64_t width[CEL_DIMS]);
/* Whether a(k) lies within b(k) for every rank k: true is certain. */
bool cel__rep_within(const cel__rep *a, const cel__rep *b);
/* The id of a(k) u b(k) where that is one box for every rank, else CEL__NO_ID.
 */
uint32_t cel__rep_union(cel__reps *reps, uint32_t a, uint32_t b);

/* The ranks whose rep(k) may meet a box, ascending:
 *
 *   cel__ranks it;
 *   for (bool more = cel__ranks_first(&it, rep, &box); more;
 *        more = cel__ranks_next(&it))
 *     use(it.rank);
 */
typedef struct cel__ranks {
  int64_t rank;
  int32_t axes;
  struct {
    int64_t stride, P, from, to, at;
  } axis[7]; /* of descending stride */
  const cel__rep *rep;
  cel_box box; /* of a listed one */
} cel__ranks;

bool cel__ranks_first(cel__ranks *it, const cel__rep *rep, const cel_box *box);
bool cel__ranks_next(cel__ranks *it);

#endif
