#include "command/own/edge.h"

#include <string.h>

bool cel__edge_equal(const cel__edge *a, const cel__edge *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* Where the slope of b changes, besides the two points at each end. */
static int64_t bend(const cel__edge *b) {
  return b->bigs + (b->open == CEL__OPEN_FIRST);
}

/* Both are linear between the points tried, so their difference is too; unless
 * one has a table. */
bool cel__edge_at_most(const cel__edge *f, cel__side f_side, const cel__edge *g,
                       cel__side g_side) {
  bool f_free = f->open == CEL__UNBOUNDED, g_free = g->open == CEL__UNBOUNDED;
  if (f_free) return f_side == CEL__LO || (g_free && g_side == CEL__HI);
  if (g_free) return g_side == CEL__HI;
  if (f->stride != g->stride || f->P != g->P) return false;
  const int64_t points[] = {0, 1, f->P - 2, f->P - 1, bend(f), bend(g)};
  bool all = f->table != NULL || g->table != NULL;
  int64_t n = all ? f->P : (int64_t)(sizeof points / sizeof *points);
  for (int64_t i = 0; i < n; ++i) {
    int64_t p = all ? i : points[i];
    if (p >= 0 && p < f->P &&
        cel__edge_at(f, p, f_side) > cel__edge_at(g, p, g_side))
      return false;
  }
  return true;
}

/* Again the difference is linear between the points tried. */
int64_t cel__edges_width(const cel__edge *lo, const cel__edge *hi) {
  if (lo->open == CEL__UNBOUNDED || hi->open == CEL__UNBOUNDED ||
      lo->stride != hi->stride || lo->P != hi->P)
    return INT64_MAX;
  int64_t most = 0;
  const int64_t points[] = {0, 1, lo->P - 2, lo->P - 1, bend(lo), bend(hi)};
  bool all = lo->table != NULL || hi->table != NULL;
  int64_t n = all ? lo->P : (int64_t)(sizeof points / sizeof *points);
  for (int64_t i = 0; i < n; ++i) {
    int64_t p = all ? i : points[i];
    if (p < 0 || p >= lo->P) continue;
    int64_t from = cel__edge_at(lo, p, CEL__LO);
    int64_t to = cel__edge_at(hi, p, CEL__HI);
    if (from == INT64_MIN || to == INT64_MAX) continue;
    if (to - from > most) most = to - from;
  }
  return most;
}

static bool leaves_room(const cel__edge *b, cel__side side, int64_t limit,
                        int64_t p) {
  int64_t v = cel__edge_at(b, p, side);
  return side == CEL__LO ? v < limit : v > limit;
}

/* Where the edge would pass `limit` if it were a straight line: where to look
 * first. What it is off by costs steps, never the result. */
static int64_t estimate(const cel__edge *b, cel__side side, int64_t limit) {
  int64_t from = b->open == CEL__OPEN_FIRST;
  int64_t to = b->P - 1 - (b->open == CEL__OPEN_LAST);
  double low = (double)cel__edge_at(b, from, side);
  double high = (double)cel__edge_at(b, to, side);
  if (low == high) return from;
  double part = ((double)limit - low) / (high - low);
  if (!(part > 0)) return from;
  return part < 1 ? from + (int64_t)(part * (double)(to - from)) : to;
}

void cel__edge_where(const cel__edge *b, cel__side side, int64_t limit,
                     int64_t *from, int64_t *to) {
  bool head = leaves_room(b, side, limit, 0);
  bool tail = leaves_room(b, side, limit, b->P - 1);
  *from = 0;
  *to = head && tail ? b->P : 0;
  if (head == tail) return;
  int64_t same = 0, other = b->P - 1; /* as at 0; as at the end */
  int64_t near = other - same > 4 ? estimate(b, side, limit) : 0;
  for (int try = 0; other - same > 1; ++try) {
    int64_t at = try == 0 ? near - 1 : try == 1 ? near + 2 : 0;
    if (at <= same || at >= other) at = same + (other - same) / 2;
    if (leaves_room(b, side, limit, at) == head)
      same = at;
    else
      other = at;
  }
  *from = head ? 0 : other;
  *to = head ? other : b->P;
}

static int64_t line_at(const cel__line *line, int64_t p) {
  return line->a * cel_cut_at(line->cut, p + line->end) + line->c;
}

static bool fits(int64_t a, int64_t x, int64_t c) {
  int64_t v;
  if (__builtin_mul_overflow(a, x, &v) || __builtin_add_overflow(v, c, &v))
    return false;
  return v > -CEL__FAR && v < CEL__FAR;
}

bool cel__line_make(const cel_affine *affine, const cel_split *split,
                    cel__side side, cel__line *out) {
  cel__line line = {.a = affine->a, .c = affine->c, .end = affine->of_max};
  if (line.a == 0) {
    line.extreme = line.c;
    *out = line;
    return fits(0, 0, line.c);
  }
  line.cut = &split->cut[affine->dim];
  line.stride = split->stride[affine->dim];
  if (!fits(line.a, line.cut->lo, line.c) ||
      !fits(line.a, line.cut->lo + line.cut->N, line.c))
    return false;
  if (line.cut->P > 1) /* the lowest lower end, the highest upper end */
    line.open =
        (line.a > 0) == (side == CEL__LO) ? CEL__OPEN_FIRST : CEL__OPEN_LAST;
  line.extreme =
      line_at(&line, line.open == CEL__OPEN_LAST ? line.cut->P - 1 : 0);
  *out = line;
  return true;
}

/* `steps` steps from the first value on, of which the first `bigs` are longer,
 * in the one form that describes them. */
static void set_steps(cel__edge *b, int64_t steps, int64_t big, int64_t small,
                      int64_t bigs) {
  if (bigs < 0) bigs = 0;
  if (bigs >= steps) {
    small = steps > 0 ? big : 0;
    bigs = 0;
  }
  b->small = small;
  b->big = bigs == 0 ? small : big;
  b->bigs = bigs;
}

cel__edge cel__line_edge(const cel__line *line, bool closed) {
  cel__edge b = {.open = closed && line->open ? CEL__CLOSED : line->open};
  if (b.open == CEL__UNBOUNDED) return b;
  const cel_cut *cut = line->cut;
  b.stride = line->stride;
  b.P = cut->P;
  int64_t from = b.open == CEL__OPEN_FIRST;
  int64_t to = cut->P - 1 - (b.open == CEL__OPEN_LAST);
  b.first = line_at(line, from);
  /* The step that ends at the end of the index space may be cut short. */
  bool to_end = to + line->end == cut->P;
  int64_t steps = to - from, regular = steps - to_end;
  if (regular <= 0) {
    int64_t step = steps > 0 ? line_at(line, to) - b.first : 0;
    set_steps(&b, steps, step, step, 0);
    return b;
  }
  set_steps(&b, regular, line->a * (cut->A + cut->G), line->a * cut->A,
            cut->n - from - line->end);
  if (!to_end) return b;
  int64_t last = line_at(line, to);
  int64_t step = last - line_at(line, to - 1);
  if (step == b.small) return b;
  if (b.bigs == 0) {
    set_steps(&b, steps, b.small, step, regular);
  } else {
    b.odd = 1;
    b.last = last;
  }
  return b;
}

/* ---- by weights -----------------------------------------------------------
 */

bool cel__line_weighted(const cel__line *line) {
  return line->open != CEL__UNBOUNDED && line->cut->sums != NULL;
}

static int64_t run_length(const int64_t *value, int64_t from, int64_t to) {
  int64_t at = from + 1;
  while (at < to && value[at + 1] - value[at] == value[from + 1] - value[from])
    ++at;
  return at - from;
}

/* The form of value[from] to value[to], as cel__line_edge would choose it;
 * false when they have none. */
static bool fit(const int64_t *value, int64_t from, int64_t to, cel__edge *b) {
  int64_t steps = to - from;
  b->first = value[from];
  if (steps <= 0) {
    set_steps(b, steps, 0, 0, 0);
    return true;
  }
  int64_t big = value[from + 1] - value[from];
  int64_t bigs = run_length(value, from, to);
  if (bigs == steps) {
    set_steps(b, steps, big, big, 0);
    return true;
  }
  int64_t then = from + bigs;
  int64_t small = value[then + 1] - value[then];
  int64_t smalls = run_length(value, then, to);
  bool odd = bigs + smalls == steps - 1 && to == b->P - 1;
  if (bigs + smalls < steps && !odd) return false;
  set_steps(b, steps, big, small, bigs);
  b->odd = odd;
  b->last = odd ? value[to] : 0;
  return true;
}

cel__edge cel__line_values(const cel__line *line, bool closed, int64_t *values,
                           bool *tabled) {
  cel__edge b = {.open = closed ? CEL__CLOSED : line->open,
                 .stride = line->stride,
                 .P = line->cut->P};
  int64_t from = b.open == CEL__OPEN_FIRST;
  int64_t to = b.P - 1 - (b.open == CEL__OPEN_LAST);
  values[0] = values[b.P - 1] = 0;
  for (int64_t p = from; p <= to; ++p) values[p] = line_at(line, p);
  *tabled = !fit(values, from, to, &b);
  if (*tabled) b.first = 0;
  return b;
}
