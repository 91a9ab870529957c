#include "command/own/rep.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"

static bool equal(const cel__rep *a, const cel__rep *b) {
  if (a->n != b->n || (a->list == NULL) != (b->list == NULL)) return false;
  if (a->list == NULL)
    return a->who == b->who && memcmp(a->end, b->end, sizeof a->end) == 0;
  size_t starts = ((size_t)a->n + 1) * sizeof *a->list->start;
  if (memcmp(a->list->start, b->list->start, starts) != 0) return false;
  size_t boxes = a->list->start[a->n] * sizeof *a->list->box;
  return boxes == 0 || memcmp(a->list->box, b->list->box, boxes) == 0;
}

static size_t list_size(const cel__rep *rep) {
  if (rep->list == NULL) return 0;
  return sizeof *rep->list + ((size_t)rep->n + 1) * sizeof *rep->list->start +
         2 * (size_t)rep->n * sizeof *rep->list->ends +
         rep->list->start[rep->n] * sizeof *rep->list->box;
}

/* ---- searching a list ------------------------------------------------------
 */

/* The boxes of a rank are canonical: they ascend along the first dimension in
 * which they differ, with equal ends in those before. */
static int32_t sorted_by(const cel__list *list, int64_t n) {
  int32_t least = CEL_DIMS - 1;
  for (int64_t k = 0; k < n; ++k)
    for (uint64_t i = list->start[k] + 1; i < list->start[k + 1]; ++i)
      for (int32_t d = 0; d < least; ++d)
        if (list->box[i].min[d] != list->box[i - 1].min[d] ||
            list->box[i].max[d] != list->box[i - 1].max[d])
          least = d;
  return least;
}

/* Fills in where ranks begin and end along dimension j; false where they do not
 * all lead the same way. */
static bool lead_along(cel__list *list, int64_t n, int j, bool down) {
  int64_t lo = down ? INT64_MAX : INT64_MIN, hi = lo;
  for (int64_t k = 0; k < n; ++k) {
    uint64_t from = list->start[k], to = list->start[k + 1];
    if (from < to) {
      int64_t min = INT64_MAX, max = INT64_MIN;
      for (uint64_t i = from; i < to; ++i) {
        if (list->box[i].min[j] < min) min = list->box[i].min[j];
        if (list->box[i].max[j] > max) max = list->box[i].max[j];
      }
      if (down ? min > lo || max > hi : min < lo || max < hi) return false;
      lo = min;
      hi = max;
    }
    list->ends[2 * k] = lo;
    list->ends[2 * k + 1] = hi;
  }
  return n > 0 && list->ends[1] != list->ends[2 * n - 1];
}

static void make_searchable(cel__list *list, int64_t n) {
  list->ends = cel_alloc((2 * (size_t)n + 1) * sizeof *list->ends);
  list->sorted = sorted_by(list, n);
  list->along = -1;
  for (int i = 0; i < 2 * CEL_DIMS && list->along < 0; ++i) {
    list->down = i % 2 == 1;
    if (lead_along(list, n, i / 2, list->down)) list->along = i / 2;
  }
}

/* The first rank, of n, that is beyond what lies before `box` as ranks lead. */
static int64_t first_rank(const cel__list *list, int64_t n,
                          const cel_box *box) {
  int j = list->along;
  int64_t lo = 0, hi = n;
  if (j < 0) return 0;
  while (lo < hi) {
    int64_t k = lo + (hi - lo) / 2;
    bool before = list->down ? list->ends[2 * k] >= box->max[j]
                             : list->ends[2 * k + 1] <= box->min[j];
    if (before)
      lo = k + 1;
    else
      hi = k;
  }
  return lo;
}

/* Whether rank k and all after it lie behind `box`. */
static bool is_behind(const cel__list *list, int64_t k, const cel_box *box) {
  int j = list->along;
  return j >= 0 && (list->down ? list->ends[2 * k + 1] <= box->min[j]
                               : list->ends[2 * k] >= box->max[j]);
}

/* The first box of rank k that does not end before `box` begins. */
static uint64_t first_box(const cel__list *list, int64_t k,
                          const cel_box *box) {
  int j = list->sorted;
  uint64_t lo = list->start[k], hi = list->start[k + 1];
  while (lo < hi) {
    uint64_t i = lo + (hi - lo) / 2;
    if (list->box[i].max[j] <= box->min[j])
      lo = i + 1;
    else
      hi = i;
  }
  return lo;
}

/* ---- interning -------------------------------------------------------------
 */

static uint32_t intern(cel__reps *reps, const cel__rep *rep, uint64_t hash) {
  uint32_t id = cel__interner_first(&reps->in, hash);
  while (id != CEL__NO_ID && !equal(cel__rep_at(reps, id), rep))
    id = cel__interner_next(&reps->in, id, hash);
  if (id != CEL__NO_ID) return id;
  cel__rep *made = cel_alloc(sizeof *made);
  *made = *rep;
  for (int d = 0; d < CEL_DIMS && rep->list == NULL; ++d)
    made->width[d] =
        cel__edges_width(&rep->end[d][CEL__LO], &rep->end[d][CEL__HI]);
  reps->bytes += sizeof *made + list_size(made);
  return cel__interner_add(&reps->in, &made->head, hash);
}

uint32_t cel__reps_intern(cel__reps *reps, const cel__rep *rep) {
  uint64_t hash = (uint64_t)rep->n;
  for (int i = 0; i < 2 * CEL_DIMS; ++i) {
    const cel__edge *b = &rep->end[i / 2][i % 2];
    if (b->open != CEL__UNBOUNDED)
      hash = cel_hash(b, sizeof *b, hash + (uint64_t)i);
  }
  return intern(reps, rep, hash);
}

uint32_t cel__reps_intern_list(cel__reps *reps, int64_t n, cel__list *list) {
  cel__rep rep = {.n = n, .list = list};
  make_searchable(list, n);
  uint64_t boxes = list->start[n];
  uint64_t hash =
      cel_hash(list->start, ((size_t)n + 1) * sizeof *list->start, (uint64_t)n);
  if (boxes > 0) hash = cel_hash(list->box, boxes * sizeof *list->box, hash);
  uint32_t id = intern(reps, &rep, hash);
  if (cel__rep_at(reps, id)->list != list) cel__list_destroy(list);
  return id;
}

void cel__list_destroy(cel__list *list) {
  if (list == NULL) return;
  cel_free(list->box);
  cel_free(list->start);
  cel_free(list->ends);
  cel_free(list);
}

/* ---- tables ---------------------------------------------------------------
 */

static size_t table_size(const cel__table_of *table) {
  return sizeof *table + (size_t)table->n * sizeof *table->value;
}

/* The interned table of the same contents; takes `made` over. */
static const int64_t *intern_table(cel__reps *reps, cel__table_of *made) {
  cel__interner *in = &reps->tables;
  size_t size = (size_t)made->n * sizeof *made->value;
  uint64_t hash = cel_hash(made->value, size, (uint64_t)made->n);
  uint32_t id = cel__interner_first(in, hash);
  for (; id != CEL__NO_ID; id = cel__interner_next(in, id, hash)) {
    const cel__table_of *old = cel__interner_at(in, id);
    if (old->n != made->n || memcmp(old->value, made->value, size) != 0)
      continue;
    cel_free(made);
    return old->value;
  }
  reps->bytes += table_size(made);
  cel__interner_add(in, &made->head, hash);
  return made->value;
}

cel__edge cel__reps_edge(cel__reps *reps, const cel__line *line, bool closed) {
  if (!cel__line_weighted(line)) return cel__line_edge(line, closed);
  int64_t n = line->cut->P;
  cel__table_of *made =
      cel_alloc_zero(sizeof *made + (size_t)n * sizeof *made->value);
  made->n = n;
  bool tabled;
  cel__edge edge = cel__line_values(line, closed, made->value, &tabled);
  if (tabled)
    edge.table = intern_table(reps, made);
  else
    cel_free(made);
  return edge;
}

/* By weights some may have none, though others after them do. An edge evaluated
 * there is some box, and the rank has none. */
const int64_t *cel__reps_who(cel__reps *reps, const cel_split *split) {
  bool weighted = false;
  for (int d = 0; d < CEL_DIMS; ++d) weighted |= split->cut[d].sums != NULL;
  if (!weighted) return NULL;
  size_t n = (size_t)split->n + 1;
  cel__table_of *made = cel_alloc_zero(sizeof *made + n * sizeof *made->value);
  made->n = (int64_t)n;
  cel_box chunk;
  for (int64_t k = 0; k < split->n; ++k)
    made->value[k + 1] = made->value[k] + cel_split_chunk(split, k, &chunk);
  if (made->value[split->n] < split->n) return intern_table(reps, made);
  cel_free(made);
  return NULL;
}

static void mark_table(const int64_t *value) {
  const char *at = (const char *)value - offsetof(cel__table_of, value);
  ((cel__interned *)(uintptr_t)at)->mark = 1;
}

static void drop_table(cel__interned *object) {
  cel_free(object);
}

/* Drops those that no representation has. */
static void sweep_tables(cel__reps *reps) {
  for (uint32_t id = 1; id < reps->in.object.n; ++id) {
    const cel__rep *rep = cel__rep_at(reps, id);
    if (rep != NULL && rep->who != NULL) mark_table(rep->who);
    for (int i = 0; rep != NULL && i < 2 * CEL_DIMS; ++i)
      if (rep->end[i / 2][i % 2].table != NULL)
        mark_table(rep->end[i / 2][i % 2].table);
  }
  cel__interner_sweep(&reps->tables, drop_table);
  for (uint32_t id = 1; id < reps->tables.object.n; ++id) {
    const cel__table_of *table = cel__interner_at(&reps->tables, id);
    if (table != NULL) reps->bytes += table_size(table);
  }
}

/* ---- life -----------------------------------------------------------------
 */

static void drop(cel__interned *object) {
  cel__rep *rep = (cel__rep *)object;
  cel__list_destroy(rep->list);
  cel_free(rep);
}

void cel__reps_sweep(cel__reps *reps) {
  cel__interner_sweep(&reps->in, drop);
  reps->bytes = 0;
  for (uint32_t id = 1; id < reps->in.object.n; ++id) {
    const cel__rep *rep = cel__rep_at(reps, id);
    if (rep != NULL) reps->bytes += sizeof *rep + list_size(rep);
  }
  sweep_tables(reps);
}

void cel__reps_release(cel__reps *reps) {
  cel__interner_release(&reps->in, drop);
  cel__interner_release(&reps->tables, drop_table);
  reps->bytes = 0;
}

static const cel__edge *end(const cel__rep *rep, int j, cel__side side) {
  return &rep->end[j][side];
}

bool cel__rep_is_full(const cel__rep *rep) {
  if (rep->list != NULL) return false;
  for (int j = 0; j < CEL_DIMS; ++j)
    if (end(rep, j, CEL__LO)->open || end(rep, j, CEL__HI)->open) return false;
  return true;
}

bool cel__rep_box(const cel__rep *rep, int64_t k, const cel_box *clip,
                  cel_box *out) {
  if (k >= rep->n || cel__rep_leaves_out(rep, k)) return false;
  cel_box box = *clip;
  for (int j = 0; j < CEL_DIMS; ++j) {
    const cel__edge *lo = end(rep, j, CEL__LO), *hi = end(rep, j, CEL__HI);
    if (lo->open) {
      int64_t v = cel__edge_of_rank(lo, k, CEL__LO);
      if (v > box.min[j]) box.min[j] = v;
    }
    if (hi->open) {
      int64_t v = cel__edge_of_rank(hi, k, CEL__HI);
      if (v < box.max[j]) box.max[j] = v;
    }
    if (box.min[j] >= box.max[j]) return false;
  }
  *out = box;
  return true;
}

/* Its ends within `clip` may be wider than what lies between. */
static int64_t widest(const cel__rep *rep, int d, const cel_box *clip) {
  const cel__edge *lo = end(rep, d, CEL__LO), *hi = end(rep, d, CEL__HI);
  int64_t all = clip->max[d] - clip->min[d];
  int64_t most = rep->width[d];
  if (most == INT64_MAX) return all;
  const int64_t p[] = {0, lo->P - 1};
  for (int i = 0; i < 2; ++i) {
    int64_t from = cel__edge_at(lo, p[i], CEL__LO);
    int64_t to = cel__edge_at(hi, p[i], CEL__HI);
    if (from < clip->min[d]) from = clip->min[d];
    if (to > clip->max[d]) to = clip->max[d];
    if (to - from > most) most = to - from;
  }
  return most < all ? most : all;
}

void cel__rep_widths(const cel__rep *rep, const cel_box *clip,
                     int64_t width[CEL_DIMS]) {
  for (int d = 0; d < CEL_DIMS; ++d)
    width[d] = rep == NULL || rep->list != NULL ? clip->max[d] - clip->min[d]
                                                : widest(rep, d, clip);
}

void cel__rep_boxes(const cel__rep *rep, int64_t k, const cel_box *clip,
                    cel__boxes *out) {
  const cel__list *list = rep->list;
  cel_box box;
  if (list == NULL) {
    if (cel__rep_box(rep, k, clip, &box)) cel_vec_push(out, box);
    return;
  }
  if (k >= rep->n) return;
  for (uint64_t i = first_box(list, k, clip); i < list->start[k + 1]; ++i) {
    if (list->box[i].min[list->sorted] >= clip->max[list->sorted]) break;
    if (cel_box_intersect(&list->box[i], clip, &box)) cel_vec_push(out, box);
  }
}

bool cel__rep_within(const cel__rep *a, const cel__rep *b) {
  if (a == b) return true;
  if (a->list != NULL || b->list != NULL || a->n > b->n) return false;
  if (b->who != NULL && a->who != b->who) return false;
  for (int j = 0; j < CEL_DIMS; ++j) {
    if (!cel__edge_at_most(end(b, j, CEL__LO), CEL__LO, end(a, j, CEL__LO),
                           CEL__LO) ||
        !cel__edge_at_most(end(a, j, CEL__HI), CEL__HI, end(b, j, CEL__HI),
                           CEL__HI))
      return false;
  }
  return true;
}

/* Whether x followed by y, in dimension j, leaves no gap on any rank. */
static bool follows(const cel__rep *x, const cel__rep *y, int j) {
  return cel__edge_at_most(end(x, j, CEL__LO), CEL__LO, end(y, j, CEL__LO),
                           CEL__LO) &&
         cel__edge_at_most(end(y, j, CEL__LO), CEL__LO, end(x, j, CEL__HI),
                           CEL__HI) &&
         cel__edge_at_most(end(x, j, CEL__HI), CEL__HI, end(y, j, CEL__HI),
                           CEL__HI);
}

uint32_t cel__rep_union(cel__reps *reps, uint32_t a_id, uint32_t b_id) {
  if (a_id == b_id) return a_id;
  const cel__rep *a = cel__rep_at(reps, a_id), *b = cel__rep_at(reps, b_id);
  if (a->list != NULL || b->list != NULL || a->n != b->n || a->who != b->who)
    return CEL__NO_ID;
  int j = -1; /* the one dimension in which they differ */
  for (int i = 0; i < CEL_DIMS; ++i) {
    if (memcmp(a->end[i], b->end[i], sizeof a->end[i]) == 0) continue;
    if (j >= 0) return CEL__NO_ID;
    j = i;
  }
  if (follows(b, a, j)) {
    const cel__rep *swap = a;
    a = b;
    b = swap;
  } else if (!follows(a, b, j)) {
    return CEL__NO_ID;
  }
  cel__rep both = {.n = a->n, .who = a->who};
  memcpy(both.end, a->end, sizeof both.end);
  both.end[j][CEL__HI] = b->end[j][CEL__HI];
  return cel__reps_intern(reps, &both);
}

/* ---- the ranks that a box concerns ----------------------------------------
 */

/* Narrows the axis of `b`, making it if need be; axes stay sorted. */
static bool narrow(cel__ranks *it, const cel__edge *b, cel__side side,
                   int64_t limit) {
  int64_t from, to;
  cel__edge_where(b, side, limit, &from, &to);
  int i = 0;
  while (i < it->axes && it->axis[i].stride > b->stride) ++i;
  if (i < it->axes && it->axis[i].stride == b->stride) {
    if (from > it->axis[i].from) it->axis[i].from = from;
    if (to < it->axis[i].to) it->axis[i].to = to;
  } else {
    memmove(&it->axis[i + 1], &it->axis[i],
            (size_t)(it->axes++ - i) * sizeof it->axis[0]);
    it->axis[i].stride = b->stride;
    it->axis[i].P = b->P;
    it->axis[i].from = from;
    it->axis[i].to = to;
  }
  return it->axis[i].from < it->axis[i].to;
}

/* What no edge follows is all of it: axes between, above and below. */
static void fill_gaps(cel__ranks *it, int64_t n) {
  int64_t above = n; /* product of all sizes below the axis last seen */
  for (int i = 0; i <= it->axes; ++i) {
    int64_t stride = i < it->axes ? it->axis[i].stride * it->axis[i].P : 1;
    if (above > stride) {
      memmove(&it->axis[i + 1], &it->axis[i],
              (size_t)(it->axes++ - i) * sizeof it->axis[0]);
      it->axis[i].stride = stride;
      it->axis[i].P = it->axis[i].to = above / stride;
      it->axis[i].from = 0;
      ++i;
    }
    if (i < it->axes) above = it->axis[i].stride;
  }
}

static bool next_listed(cel__ranks *it) {
  const cel__list *list = it->rep->list;
  int j = list->sorted;
  for (; it->rank < it->rep->n; ++it->rank) {
    if (is_behind(list, it->rank, &it->box)) return false;
    for (uint64_t i = first_box(list, it->rank, &it->box);
         i < list->start[it->rank + 1] && list->box[i].min[j] < it->box.max[j];
         ++i)
      if (cel_box_meets(&list->box[i], &it->box)) return true;
  }
  return false;
}

static bool next_of_grid(cel__ranks *it) {
  for (int i = it->axes; i-- > 0;) {
    if (++it->axis[i].at < it->axis[i].to) {
      it->rank += it->axis[i].stride;
      return true;
    }
    it->rank -= (it->axis[i].at - 1 - it->axis[i].from) * it->axis[i].stride;
    it->axis[i].at = it->axis[i].from;
  }
  return false;
}

static bool next_with_chunk(cel__ranks *it, bool more) {
  while (more && cel__rep_leaves_out(it->rep, it->rank))
    more = next_of_grid(it);
  return more;
}

bool cel__ranks_first(cel__ranks *it, const cel__rep *rep, const cel_box *box) {
  it->axes = 0;
  it->rank = 0;
  it->rep = rep;
  if (rep->list != NULL) {
    it->box = *box;
    it->rank = first_rank(rep->list, rep->n, box);
    return cel_box_meets(&rep->list->hull, box) && next_listed(it);
  }
  for (int j = 0; j < CEL_DIMS; ++j) {
    const cel__edge *lo = end(rep, j, CEL__LO), *hi = end(rep, j, CEL__HI);
    if (lo->open && !narrow(it, lo, CEL__LO, box->max[j])) return false;
    if (hi->open && !narrow(it, hi, CEL__HI, box->min[j])) return false;
  }
  fill_gaps(it, rep->n);
  for (int i = 0; i < it->axes; ++i) {
    it->axis[i].at = it->axis[i].from;
    it->rank += it->axis[i].from * it->axis[i].stride;
  }
  return next_with_chunk(it, rep->n > 0);
}

bool cel__ranks_next(cel__ranks *it) {
  if (it->rep->list == NULL) return next_with_chunk(it, next_of_grid(it));
  ++it->rank;
  return next_listed(it);
}
