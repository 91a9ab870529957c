#include "region/slab.h"

#include <string.h>

#include "base/status.h"

enum { SMALL = 32 };

typedef struct span {
  const cel_box *at;
  uint32_t n;
} span;

typedef struct job {
  cel_slab_sink *sink;
  int last; /* all boxes have the same bounds in the dimensions above */
  cel_slab_op op;
  const cel_box **open[2]; /* build: boxes over the current slab, per level */
} job;

/* `last` says it all; the other half tells the compiler how deep it goes. */
static inline bool is_last(const job *j, int d) {
  return d == j->last || d == CEL_DIMS - 1;
}

void cel__slab_grow(cel_slab_sink *sink, uint32_t more) {
  uint32_t cap = sink->cap * 2 < 8 ? 8 : sink->cap * 2;
  if (cap < sink->n + more) cap = sink->n + more;
  if (sink->borrowed) {
    cel_box *own = cel_alloc(cap * sizeof *own);
    if (sink->n) memcpy(own, sink->at, sink->n * sizeof *own);
    sink->at = own;
    sink->borrowed = false;
  } else {
    sink->at = cel_realloc(sink->at, cap * sizeof *sink->at);
  }
  sink->cap = cap;
}

static inline cel_box *push(cel_slab_sink *sink, const cel_box *box) {
  if (sink->n == sink->cap) cel__slab_grow(sink, 1);
  sink->at[sink->n] = *box;
  return &sink->at[sink->n++];
}

static void append(cel_slab_sink *sink, span s) {
  if (s.n > sink->cap - sink->n) cel__slab_grow(sink, s.n);
  memcpy(sink->at + sink->n, s.at, s.n * sizeof *s.at);
  sink->n += s.n;
}

/* The highest dimension in which two of the boxes differ, at least `last`. */
static int last_cut(const cel_box *first, span s, int last) {
  for (int d = CEL_DIMS - 1; d > last; --d)
    for (uint32_t i = 0; i < s.n; ++i)
      if (s.at[i].min[d] != first->min[d] || s.at[i].max[d] != first->max[d])
        return d;
  return last;
}

/* Boxes [from, n) of the sink are a cross-section: gives them the bounds
 * [lo, hi) in dimension d, or widens the slab [previous, from) by them. Returns
 * where the last slab begins. */
static uint32_t close_slab(job *j, int d, uint32_t previous, uint32_t from,
                           int64_t lo, int64_t hi) {
  cel_slab_sink *sink = j->sink;
  uint32_t n = sink->n - from;
  cel_box *old = sink->at + previous, *new = sink->at + from;
  if (n == 0) return previous;
  bool fuse = from - previous == n && old->max[d] == lo;
  for (uint32_t i = 0; fuse && i < n; ++i)
    for (int e = d + 1; e <= j->last; ++e)
      if (old[i].min[e] != new[i].min[e] || old[i].max[e] != new[i].max[e])
        fuse = false;
  if (fuse) {
    for (uint32_t i = 0; i < n; ++i) old[i].max[d] = hi;
    sink->n = from;
    return previous;
  }
  for (uint32_t i = 0; i < n; ++i) {
    new[i].min[d] = lo;
    new[i].max[d] = hi;
  }
  return from;
}

/* ------------------------------------------------------------- combining */

static void unite_lines(job *j, int d, span a, span b) {
  const cel_box *ae = a.at + a.n, *be = b.at + b.n;
  cel_box *open = NULL;
  while (a.at < ae || b.at < be) {
    bool take_a = b.at == be || (a.at < ae && a.at->min[d] <= b.at->min[d]);
    const cel_box *next = take_a ? a.at++ : b.at++;
    if (!open || next->min[d] > open->max[d])
      open = push(j->sink, next);
    else if (next->max[d] > open->max[d])
      open->max[d] = next->max[d];
  }
}

static void intersect_lines(job *j, int d, span a, span b) {
  const cel_box *ae = a.at + a.n, *be = b.at + b.n;
  while (a.at < ae && b.at < be) {
    int64_t lo = a.at->min[d] > b.at->min[d] ? a.at->min[d] : b.at->min[d];
    bool a_first = a.at->max[d] < b.at->max[d];
    int64_t hi = a_first ? a.at->max[d] : b.at->max[d];
    if (lo < hi) {
      cel_box *box = push(j->sink, a.at);
      box->min[d] = lo;
      box->max[d] = hi;
    }
    if (a_first)
      ++a.at;
    else
      ++b.at;
  }
}

static void subtract_lines(job *j, int d, span a, span b) {
  const cel_box *be = b.at + b.n;
  for (uint32_t i = 0; i < a.n; ++i) {
    int64_t lo = a.at[i].min[d], hi = a.at[i].max[d];
    while (b.at < be && b.at->max[d] <= lo) ++b.at;
    /* One b may reach into the next a as well: it is not consumed. */
    for (const cel_box *c = b.at; c < be && c->min[d] < hi; ++c) {
      if (c->min[d] > lo) {
        cel_box *box = push(j->sink, &a.at[i]);
        box->min[d] = lo;
        box->max[d] = c->min[d];
      }
      lo = c->max[d];
    }
    if (lo < hi) push(j->sink, &a.at[i])->min[d] = lo;
  }
}

static inline span first_slab(int d, const cel_box *at, const cel_box *end) {
  const cel_box *e = at;
  while (e < end && e->min[d] == at->min[d]) ++e;
  return (span){at, (uint32_t)(e - at)};
}

/* Whether the slab lies over `at`; *hi becomes at most where that changes. */
static inline bool over(span slab, int d, int64_t at, int64_t *hi) {
  if (slab.n == 0) return false;
  bool inside = slab.at->min[d] <= at;
  int64_t change = inside ? slab.at->max[d] : slab.at->min[d];
  if (change < *hi) *hi = change;
  return inside;
}

static void combine(job *j, int d, span a, span b);

/* Only where both lie over something; the general sweep stops more often. */
static void intersect_slabs(job *j, int d, span a, span b) {
  const cel_box *ae = a.at + a.n, *be = b.at + b.n;
  uint32_t previous = j->sink->n;
  a = first_slab(d, a.at, ae);
  b = first_slab(d, b.at, be);
  while (a.n && b.n) {
    int64_t a_hi = a.at->max[d], b_hi = b.at->max[d];
    int64_t lo = a.at->min[d] > b.at->min[d] ? a.at->min[d] : b.at->min[d];
    int64_t hi = a_hi < b_hi ? a_hi : b_hi;
    if (lo < hi) {
      uint32_t from = j->sink->n;
      combine(j, d + 1, a, b);
      previous = close_slab(j, d, previous, from, lo, hi);
    }
    if (a_hi == hi) a = first_slab(d, a.at + a.n, ae);
    if (b_hi == hi) b = first_slab(d, b.at + b.n, be);
  }
}

static void combine(job *j, int d, span a, span b) {
  if (a.n == 0 || b.n == 0) {
    if (j->op == CEL__UNITE && b.n) append(j->sink, b);
    if (j->op != CEL__INTERSECT && a.n) append(j->sink, a);
    return;
  }
  if (is_last(j, d)) {
    (j->op == CEL__UNITE       ? unite_lines
     : j->op == CEL__INTERSECT ? intersect_lines
                               : subtract_lines)(j, d, a, b);
    return;
  }
  if (j->op == CEL__INTERSECT) {
    intersect_slabs(j, d, a, b);
    return;
  }
  const cel_box *ae = a.at + a.n, *be = b.at + b.n;
  uint32_t previous = j->sink->n;
  a = first_slab(d, a.at, ae);
  b = first_slab(d, b.at, be);
  int64_t at = a.at->min[d] < b.at->min[d] ? a.at->min[d] : b.at->min[d];
  while (a.n || (j->op == CEL__UNITE && b.n)) {
    int64_t hi = INT64_MAX;
    bool in_a = over(a, d, at, &hi), in_b = over(b, d, at, &hi);
    if (in_a || in_b) {
      uint32_t from = j->sink->n;
      combine(j, d + 1, in_a ? a : (span){0}, in_b ? b : (span){0});
      previous = close_slab(j, d, previous, from, at, hi);
    }
    if (in_a && a.at->max[d] == hi) a = first_slab(d, a.at + a.n, ae);
    if (in_b && b.at->max[d] == hi) b = first_slab(d, b.at + b.n, be);
    at = hi;
  }
}

void cel__slab_combine(cel_slab_op op, const cel_box *a, uint32_t na,
                       const cel_box *b, uint32_t nb, cel_slab_sink *sink) {
  job j = {.sink = sink, .op = op};
  if (na && nb) {
    j.last = last_cut(a, (span){a, na}, 0);
    j.last = last_cut(a, (span){b, nb}, j.last);
    /* Above `last` all bounds agree, so those of `a` serve for both. */
  }
  combine(&j, 0, (span){a, na}, (span){b, nb});
}

/* -------------------------------------------------------------- building */

/* Merge sort by min[d]; `room` holds as many. Hot, so not qsort. */
static void sort(const cel_box **in, const cel_box **room, uint32_t n, int d) {
  if (n <= 12) {
    for (uint32_t i = 1; i < n; ++i) {
      const cel_box *x = in[i];
      uint32_t k = i;
      for (; k > 0 && in[k - 1]->min[d] > x->min[d]; --k) in[k] = in[k - 1];
      in[k] = x;
    }
    return;
  }
  uint32_t half = n / 2, i = 0, k = half, o = 0;
  sort(in, room, half, d);
  sort(in + half, room, n - half, d);
  if (in[half - 1]->min[d] <= in[half]->min[d]) return;
  memcpy(room, in, half * sizeof *in);
  while (i < half && k < n)
    in[o++] = in[k]->min[d] < room[i]->min[d] ? in[k++] : room[i++];
  while (i < half) in[o++] = room[i++];
}

static void insert(const cel_box **list, uint32_t n, const cel_box *x, int d) {
  for (; n > 0 && list[n - 1]->min[d] > x->min[d]; --n) list[n] = list[n - 1];
  list[n] = x;
}

static void build_lines(job *j, int d, const cel_box **in, uint32_t n) {
  cel_box *open = push(j->sink, in[0]);
  for (uint32_t i = 1; i < n; ++i) {
    if (in[i]->min[d] > open->max[d])
      open = push(j->sink, in[i]);
    else if (in[i]->max[d] > open->max[d])
      open->max[d] = in[i]->max[d];
  }
}

/* `in` ascends by min[d]. */
static void build(job *j, int d, const cel_box **in, uint32_t n) {
  if (n == 1) {
    push(j->sink, in[0]);
    return;
  }
  if (is_last(j, d)) {
    build_lines(j, d, in, n);
    return;
  }
  const cel_box **open = j->open[d];
  uint32_t base = j->sink->n, previous = base, count = 0, next = 0;
  int64_t at = in[0]->min[d];
  /* What is in the sink may only become part of the slab before it that is as
   * many boxes. */
  while ((count || next < n) && j->sink->n - base <= j->sink->most) {
    if (count == 0) at = in[next]->min[d];
    while (next < n && in[next]->min[d] == at)
      insert(open, count++, in[next++], d + 1);
    int64_t hi = next < n ? in[next]->min[d] : INT64_MAX;
    for (uint32_t i = 0; i < count; ++i)
      if (open[i]->max[d] < hi) hi = open[i]->max[d];
    uint32_t from = j->sink->n, kept = 0;
    build(j, d + 1, open, count);
    previous = close_slab(j, d, previous, from, at, hi);
    for (uint32_t i = 0; i < count; ++i)
      if (open[i]->max[d] > hi) open[kept++] = open[i];
    count = kept;
    at = hi;
  }
}

void cel__slab_build(const cel_box *boxes, uint32_t n, cel_slab_sink *sink) {
  const cel_box *small[3 * SMALL], **in = small;
  if (n > SMALL) in = cel_alloc(3 * (size_t)n * sizeof *in);
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; ++i)
    if (!cel_box_is_empty(&boxes[i])) in[m++] = &boxes[i];
  if (m > 0) {
    job j = {.sink = sink, .open = {in + m, in + 2 * (size_t)m}};
    for (int d = CEL_DIMS - 1; d > 0 && j.last == 0; --d)
      for (uint32_t i = 1; i < m && j.last == 0; ++i)
        if (in[i]->min[d] != in[0]->min[d] || in[i]->max[d] != in[0]->max[d])
          j.last = d;
    sort(in, j.open[0], m, 0);
    build(&j, 0, in, m);
  }
  if (in != small) cel_free(in);
}
