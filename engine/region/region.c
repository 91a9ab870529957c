#include "region/region.h"

#include <string.h>

#include "base/status.h"
#include "region/slab.h"

/* Results up to this many boxes are made on the stack when they may not be
 * made in place. */
enum { ON_STACK = 48 };

void cel_region_release(cel_region *r) {
  cel_free(r->at);
  *r = (cel_region){0};
}

void cel_region_clear(cel_region *r) {
  r->n = 0;
}

static void set(cel_region *r, const cel_box *boxes, uint32_t n) {
  if (n > r->cap) {
    cel_free(r->at);
    r->at = cel_alloc(n * sizeof *r->at);
    r->cap = n;
  }
  if (n) memmove(r->at, boxes, n * sizeof *boxes);
  r->n = n;
}

static void set_one(cel_region *r, cel_box box) {
  set(r, &box, !cel_box_is_empty(&box));
}

static cel_slab_sink sink_into(cel_region *r) {
  return (cel_slab_sink){.at = r->at, .cap = r->cap};
}

bool cel_region_assign_most(cel_region *r, const cel_box *boxes, uint32_t n,
                            uint32_t most) {
  if (n <= 1) {
    set(r, boxes, n == 1 && !cel_box_is_empty(boxes));
    return true;
  }
  cel_slab_sink sink = sink_into(r);
  sink.most = most;
  cel__slab_build(boxes, n, &sink);
  *r = (cel_region){sink.at, sink.n, sink.cap};
  if (r->n <= most) return true;
  r->n = 0;
  return false;
}

void cel_region_assign(cel_region *r, const cel_box *boxes, uint32_t n) {
  cel_region_assign_most(r, boxes, n, UINT32_MAX);
}

void cel_region_copy(cel_region *out, const cel_region *a) {
  if (out != a) set(out, a->at, a->n);
}

static void combine(cel_slab_op op, cel_region *out, const cel_box *a,
                    uint32_t na, const cel_box *b, uint32_t nb) {
  if (out->at == NULL || (a != out->at && b != out->at)) {
    cel_slab_sink sink = sink_into(out);
    cel__slab_combine(op, a, na, b, nb, &sink);
    *out = (cel_region){sink.at, sink.n, sink.cap};
    return;
  }
  cel_box room[ON_STACK];
  cel_slab_sink sink = {.at = room, .cap = ON_STACK, .borrowed = true};
  cel__slab_combine(op, a, na, b, nb, &sink);
  if (sink.borrowed) {
    set(out, sink.at, sink.n);
    return;
  }
  cel_free(out->at);
  *out = (cel_region){sink.at, sink.n, sink.cap};
}

void cel_region_unite(cel_region *out, const cel_region *a,
                      const cel_region *b) {
  if (a == b || b->n == 0)
    cel_region_copy(out, a);
  else if (a->n == 0)
    cel_region_copy(out, b);
  else if (a->n == 1 && b->n == 1 && cel_box_covers(a->at, b->at))
    set_one(out, a->at[0]);
  else if (a->n == 1 && b->n == 1 && cel_box_covers(b->at, a->at))
    set_one(out, b->at[0]);
  else
    combine(CEL__UNITE, out, a->at, a->n, b->at, b->n);
}

void cel_region_intersect(cel_region *out, const cel_region *a,
                          const cel_region *b) {
  if (a == b) {
    cel_region_copy(out, a);
  } else if (a->n == 1 && b->n == 1) {
    cel_box meet;
    cel_box_intersect(a->at, b->at, &meet);
    set_one(out, meet);
  } else if (a->n == 0 || b->n == 0) {
    out->n = 0;
  } else {
    combine(CEL__INTERSECT, out, a->at, a->n, b->at, b->n);
  }
}

void cel_region_subtract(cel_region *out, const cel_region *a,
                         const cel_region *b) {
  if (a == b || a->n == 0)
    out->n = 0;
  else if (b->n == 0)
    cel_region_copy(out, a);
  else
    combine(CEL__SUBTRACT, out, a->at, a->n, b->at, b->n);
}

void cel_region_add(cel_region *r, const cel_box *box) {
  if (cel_box_is_empty(box)) return;
  if (r->n == 0 || (r->n == 1 && cel_box_covers(box, r->at)))
    set_one(r, *box);
  else if (!(r->n == 1 && cel_box_covers(r->at, box)))
    combine(CEL__UNITE, r, r->at, r->n, box, 1);
}

void cel_region_clip(cel_region *r, const cel_box *box) {
  if (r->n == 1) {
    r->n = cel_box_intersect(r->at, box, r->at);
  } else if (cel_box_is_empty(box)) {
    r->n = 0;
  } else if (r->n > 1) {
    cel_box hull = cel_region_hull(r);
    if (!cel_box_covers(box, &hull))
      combine(CEL__INTERSECT, r, r->at, r->n, box, 1);
  }
}

void cel_region_remove(cel_region *r, const cel_box *box) {
  if (!cel_region_meets_box(r, box)) return;
  if (r->n == 1 && cel_box_covers(box, r->at))
    r->n = 0;
  else
    combine(CEL__SUBTRACT, r, r->at, r->n, box, 1);
}

bool cel_region_equal(const cel_region *a, const cel_region *b) {
  return a->n == b->n &&
         (a->n == 0 || memcmp(a->at, b->at, a->n * sizeof *a->at) == 0);
}

/* The first box that ends beyond `x` in dimension 0; max[0] never falls along
 * a canonical list. */
static uint32_t first_beyond(const cel_region *r, int64_t x) {
  uint32_t lo = 0, hi = r->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (r->at[mid].max[0] > x)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

/* Whether the canonical list [at, end) covers `box` in dimensions d and up:
 * slabs must follow each other without a gap, and each must cover it too. No
 * volumes, which may overflow for unbounded boxes. */
static bool covers(const cel_box *at, const cel_box *end, const cel_box *box,
                   int d) {
  int64_t reached = box->min[d];
  while (at < end && reached < box->max[d] && at->min[d] <= reached) {
    const cel_box *slab = at;
    while (at < end && at->min[d] == slab->min[d]) ++at;
    if (slab->max[d] <= reached) continue;
    if (d + 1 < CEL_DIMS && !covers(slab, at, box, d + 1)) return false;
    reached = slab->max[d];
  }
  return reached >= box->max[d];
}

bool cel_region_covers_box(const cel_region *r, const cel_box *box) {
  if (cel_box_is_empty(box)) return true;
  if (r->n == 1) return cel_box_covers(r->at, box);
  uint32_t first = first_beyond(r, box->min[0]);
  return covers(r->at + first, r->at + r->n, box, 0);
}

bool cel_region_meets_box(const cel_region *r, const cel_box *box) {
  uint32_t i = r->n > 8 ? first_beyond(r, box->min[0]) : 0;
  for (; i < r->n && r->at[i].min[0] < box->max[0]; ++i)
    if (cel_box_meets(&r->at[i], box)) return true;
  return false;
}

cel_box cel_region_hull(const cel_region *r) {
  if (r->n == 0) return (cel_box){{0}, {0}};
  cel_box hull = r->at[0];
  for (uint32_t i = 1; i < r->n; ++i) hull = cel_box_hull(&hull, &r->at[i]);
  return hull;
}

int64_t cel_region_volume(const cel_region *r) {
  int64_t volume = 0;
  for (uint32_t i = 0; i < r->n; ++i) volume += cel_box_volume(&r->at[i]);
  return volume;
}

/* The canonical form of a point set is unique, so rebuilding the list from its
 * own boxes must change nothing. */
void cel_region_check(const cel_region *r) {
  cel_assert(r->n <= r->cap);
  cel_region again = {0};
  cel_region_assign(&again, r->at, r->n);
  cel_assert(cel_region_equal(&again, r));
  cel_region_release(&again);
}
