/* Collectives of random programs: whether all ranks mean the same, and what
 * they do, point by point. */
#include <stdio.h>
#include <string.h>

#include "command/fuzz.h"

typedef const cel_exchange exchange;

static bool same(exchange *a, exchange *b) {
  if (a->pattern != b->pattern || a->nth != b->nth || a->root != b->root ||
      a->buffer != b->buffer || !cel_box_equal(&a->box, &b->box))
    return false;
  if ((a->parts == NULL) != (b->parts == NULL)) return false;
  if (a->parts == NULL) return true;
  const cel_parts *p = a->parts, *q = b->parts;
  size_t n = (size_t)p->ranks;
  if (p->ranks != q->ranks || p->unit != q->unit ||
      (p->box == NULL) != (q->box == NULL))
    return false;
  return memcmp(p->count, q->count, n * sizeof *p->count) == 0 &&
         memcmp(p->start, q->start, n * sizeof *p->start) == 0 &&
         (p->box == NULL || memcmp(p->box, q->box, n * sizeof *p->box) == 0);
}

/* Where a point of the whole is in row-major order. */
static int64_t place_of(const cel_box *whole, const int64_t *at) {
  int64_t place = 0;
  for (int d = 0; d < 3; ++d)
    place = place * (whole->max[d] - whole->min[d]) + at[d] - whole->min[d];
  return place;
}

static bool in(const cel_box *box, const int64_t *at) {
  for (int d = 0; d < 3; ++d)
    if (at[d] < box->min[d] || at[d] >= box->max[d]) return false;
  return true;
}

/* Whether the parts say that rank k has the point. */
static bool says(exchange *e, int k, const int64_t *at) {
  const cel_parts *p = e->parts;
  if (p->box == NULL) {
    int64_t from = p->start[k] * p->unit, n = p->count[k] * p->unit;
    int64_t place = place_of(&e->box, at);
    return place >= from && place < from + n;
  }
  int64_t moved[3];
  for (int d = 0; d < 3; ++d) moved[d] = at[d] - e->box.min[d];
  return in(&p->box[k], moved);
}

static bool gets(exchange *e, const int64_t *at) {
  bool got = false;
  for (uint32_t i = 0; i < e->gets; ++i) got |= in(&e->get[i], at);
  return got;
}

static bool is_part(exchange *e) {
  return e->pattern == CEL_PATTERN_GATHER || e->pattern == CEL_PATTERN_SCATTER;
}

/* Whether rank k, who does not own the point, is to get it. */
static bool should_get(exchange *e, int k, const int64_t *at) {
  if (e->pattern == CEL_PATTERN_SCATTER) return k != e->root && says(e, k, at);
  return e->pattern != CEL_PATTERN_GATHER || k == e->root;
}

static const char *check_point(exchange *const *of, int ranks, int owner,
                               const int64_t *at) {
  bool by_owner = of[0]->parts != NULL && of[0]->pattern != CEL_PATTERN_SCATTER;
  for (int k = 0; k < ranks; ++k) {
    if (in(&of[k]->mine, at) != (owner == k))
      return "a rank gives what another wrote";
    if (by_owner && says(of[k], k, at) != (owner == k))
      return "the parts are not what the ranks give";
    if (gets(of[k], at) != (owner != k && should_get(of[k], k, at)))
      return "a rank gets what it should not, or not what it should";
    if (is_part(of[k]) && k != of[k]->root &&
        in(&of[k]->place, at) != says(of[k], k, at))
      return "a part is not where it should be";
  }
  return NULL;
}

static const char *check_starts(exchange *e) {
  const cel_parts *p = e->parts;
  int64_t sum = 0;
  for (int64_t k = 0; p != NULL && p->box != NULL && k < p->ranks; ++k) {
    if (p->start[k] != sum || p->count[k] != cel_box_volume(&p->box[k]))
      return "parts do not lie one behind the other";
    sum += p->count[k];
  }
  return NULL;
}

const char *fuzz_exchange_check(exchange *const *of, int ranks, int64_t nth,
                                const int64_t *ext, const int *owner) {
  const cel_box *box = &of[0]->box;
  for (int k = 0; k < ranks; ++k)
    if (!same(of[0], of[k])) return "two ranks mean different collectives";
  if (of[0]->nth != (uint64_t)nth) return "a wrong number";
  if ((of[0]->pattern == CEL_PATTERN_BROADCAST) != (of[0]->parts == NULL))
    return "parts of a broadcast, or none of another collective";
  const char *fault = check_starts(of[0]);
  int64_t at[3];
  for (at[0] = box->min[0]; at[0] < box->max[0]; ++at[0])
    for (at[1] = box->min[1]; at[1] < box->max[1]; ++at[1])
      for (at[2] = box->min[2]; at[2] < box->max[2] && !fault; ++at[2])
        fault = check_point(
            of, ranks, owner[(at[0] * ext[1] + at[1]) * ext[2] + at[2]], at);
  return fault;
}
