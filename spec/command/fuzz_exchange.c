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
  if ((a->parts == NULL) != (b->parts == NULL) ||
      (a->to == NULL) != (b->to == NULL) || a->wide != b->wide)
    return false;
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

/* Whether the parts of the box say that rank k has the point. */
static bool has(const cel_parts *p, const cel_box *box, int k,
                const int64_t *at) {
  if (!in(box, at)) return false;
  if (p->box == NULL) {
    int64_t from = p->start[k] * p->unit, n = p->count[k] * p->unit;
    int64_t place = place_of(box, at);
    return place >= from && place < from + n;
  }
  int64_t moved[3];
  for (int d = 0; d < 3; ++d) moved[d] = at[d] - box->min[d];
  return in(&p->box[k], moved);
}

static bool says(exchange *e, int k, const int64_t *at) {
  return has(e->parts, &e->box, k, at);
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
  if (e->pattern == CEL_PATTERN_BROADCAST && cel_box_is_empty(&e->hull))
    return false; /* it does not read it */
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
        in(&of[k]->hull, at) != says(of[k], k, at))
      return "a part is not where it should be";
  }
  return NULL;
}

/* Of what each pair exchanges both mean the same, which is what one has and the
 * other reads. */
static const char *check_pairs(exchange *const *of, int ranks, int owner,
                               const int64_t *at) {
  for (int k = 0; k < ranks; ++k) {
    bool reads = in(&of[k]->wanted, at);
    if (in(&of[k]->mine, at) != (owner == k))
      return "a rank gives what another wrote";
    if (gets(of[k], at) != (reads && owner != k))
      return "a rank gets what it should not, or not what it should";
    if ((reads || owner == k) && !in(&of[k]->hull, at))
      return "what a rank reads or gives is not where it should be";
    for (int s = 0; s < ranks; ++s) {
      bool travels = s == owner && k != owner && reads;
      if (has(of[s]->to, &of[s]->mine, k, at) != travels)
        return "a rank gives another what it should not, or not what it should";
      if (has(of[k]->from, &of[k]->wanted, s, at) != travels)
        return "a rank gets from another what it does not give";
    }
  }
  return NULL;
}

static const char *check_starts(const cel_parts *p) {
  int64_t sum = 0;
  for (int64_t k = 0; p != NULL && p->box != NULL && k < p->ranks; ++k) {
    if (p->start[k] != sum || p->count[k] != cel_box_volume(&p->box[k]))
      return "parts do not lie one behind the other";
    sum += p->count[k];
  }
  return NULL;
}

static const char *check_tables(exchange *const *of, int ranks) {
  bool pairs = of[0]->to != NULL;
  bool parts = !pairs && of[0]->pattern != CEL_PATTERN_BROADCAST;
  const char *fault = NULL;
  for (int k = 0; k < ranks && fault == NULL; ++k) {
    if ((of[k]->parts != NULL) != parts || (of[k]->from != NULL) != pairs ||
        (of[k]->to != NULL) != pairs)
      return "tables that it should not have, or none";
    fault = check_starts(of[k]->parts);
    if (fault == NULL) fault = check_starts(of[k]->from);
    if (fault == NULL) fault = check_starts(of[k]->to);
  }
  return fault;
}

const char *fuzz_exchange_check(exchange *const *of, int ranks, int64_t nth,
                                const int64_t *ext, const int *owner) {
  const cel_box *box = &of[0]->box;
  for (int k = 0; k < ranks; ++k)
    if (!same(of[0], of[k])) return "two ranks mean different collectives";
  if (of[0]->nth != (uint64_t)nth) return "a wrong number";
  const char *fault = check_tables(of, ranks);
  bool pairs = of[0]->to != NULL;
  int64_t at[3];
  for (at[0] = box->min[0]; at[0] < box->max[0]; ++at[0])
    for (at[1] = box->min[1]; at[1] < box->max[1]; ++at[1])
      for (at[2] = box->min[2]; at[2] < box->max[2] && !fault; ++at[2]) {
        int by = owner[(at[0] * ext[1] + at[1]) * ext[2] + at[2]];
        fault = (pairs ? check_pairs : check_point)(of, ranks, by, at);
      }
  return fault;
}

/* Bytes that the parts of a list give rank k: all of its, or in pairs what it
 * is given or gives. */
static int64_t bytes_of(exchange *list, bool to, int64_t k) {
  int64_t sum = 0;
  for (exchange *x = list; x != NULL; x = x->next) {
    const cel_parts *p = x->to == NULL ? x->parts : to ? x->to : x->from;
    sum += cel_parts_count(p, k) * p->unit * (int64_t)x->buffer->element_size;
  }
  return sum;
}

static bool meets_later(exchange *x) {
  for (exchange *y = x->next; y != NULL; y = y->next)
    if (x->buffer == y->buffer && cel_box_meets(&x->box, &y->box)) return true;
  return false;
}

static const char *check_list(exchange *list, int ranks) {
  bool pairs = list->to != NULL;
  bool parts = pairs || list->pattern != CEL_PATTERN_BROADCAST;
  for (exchange *x = list; x != NULL; x = x->next)
    if (meets_later(x)) return "boxes that meet are joined";
  for (exchange *x = list->next; x != NULL; x = x->next) {
    if ((x->to != NULL) != pairs || (!pairs && x->pattern != list->pattern))
      return "things of two kinds are joined";
    if (!parts && x->root != list->root) return "two roots are joined";
    if (x->wide || x->sum[0] != NULL) return "what may not be joined is";
  }
  if ((list->sum[0] != NULL) != (list->next != NULL && parts) ||
      (list->sum[1] != NULL) != (list->next != NULL && pairs))
    return "sums that it should not have, or none";
  int64_t start[2] = {0, 0};
  for (int k = 0; k < ranks; ++k)
    for (int end = 0; end < 2 && list->sum[end] != NULL; ++end) {
      const cel_parts *sum = list->sum[end];
      if (sum->unit != 1 || cel_parts_count(sum, k) != bytes_of(list, !end, k))
        return "a sum is not what its terms come to";
      if (cel_parts_start(sum, k) != start[end]) return "a gap in a sum";
      start[end] += cel_parts_count(sum, k);
    }
  return NULL;
}

const char *fuzz_exchange_sums(exchange *const *of, int ranks) {
  const char *fault = NULL;
  for (int k = 0; k < ranks && fault == NULL; ++k)
    fault = check_list(of[k], ranks);
  return fault;
}
