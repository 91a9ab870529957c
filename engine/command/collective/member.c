#include "command/collective/member.h"

#include "region/split.h"

static cel_box none(void) {
  return (cel_box){{0}, {0}};
}

/* Part `rank` of a whole. */
static cel_box part_in(const cel_parts *parts, const cel_box *whole,
                       int64_t rank) {
  cel_box part = *whole;
  int64_t count = cel_parts_count(parts, rank);
  if (count == 0) return none();
  for (int d = 0; d < CEL_DIMS && parts->box != NULL; ++d) {
    part.min[d] = whole->min[d] + parts->box[rank].min[d];
    part.max[d] = whole->min[d] + parts->box[rank].max[d];
  }
  if (parts->box == NULL) {
    int d = parts->along;
    part.min[d] = whole->min[d] + cel_parts_start(parts, rank);
    part.max[d] = part.min[d] + count;
  }
  return part;
}

cel_box cel_exchange_part(const cel_exchange *exchange, int64_t rank) {
  return part_in(exchange->parts, &exchange->box, rank);
}

int64_t cel_member_root(const cel_exchange *exchange) {
  return exchange->root * exchange->devices;
}

/* Slice i of n along dimension d. */
static cel_box slice_of(const cel_box *box, int d, int64_t i, int64_t n) {
  cel_box slice = *box;
  cel_cut cut = cel_cut_even(box->min[d], box->max[d] - box->min[d], n, 1);
  if (i >= cut.P) return none();
  slice.min[d] = cel_cut_at(&cut, i);
  slice.max[d] = cel_cut_at(&cut, i + 1);
  return slice;
}

/* Along the first dimension that can be cut: a share of what is dense is
 * dense. */
cel_box cel_member_cut(const cel_box *box, int64_t i, int64_t n) {
  int d = 0;
  while (d < CEL_DIMS - 1 && box->max[d] - box->min[d] == 1) ++d;
  return slice_of(box, d, i, n);
}

cel_box cel_member_share(const cel_exchange *exchange, int64_t member) {
  int64_t devices = exchange->devices;
  cel_box part = cel_exchange_part(exchange, member / devices);
  if (devices == 1 || cel_box_is_empty(&part)) return part;
  return cel_member_cut(&part, member % devices, devices);
}

/* ---- in pairs ------------------------------------------------------------ */

/* Of what a rank gives, what its device does. */
static cel_box given_by(const cel_exchange *x, const cel_box *box,
                        int64_t device) {
  if (cel_box_is_empty(box)) return none();
  if (x->give_along < 0) return device == 0 ? *box : none();
  return slice_of(box, x->give_along, device, x->devices);
}

static cel_box got_by(const cel_exchange *x, const cel_box *box,
                      int64_t device) {
  if (cel_box_is_empty(box)) return none();
  if (x->get_along < 0) return *box;
  return slice_of(box, x->get_along, device, x->devices);
}

/* Of what one rank gives to another, what a device of the one gives to a device
 * of the other. */
static cel_box between(const cel_exchange *x, cel_box part, int64_t giver,
                       int64_t getter) {
  cel_box from = given_by(x, &part, giver), to = got_by(x, &part, getter), out;
  cel_box_intersect(&from, &to, &out);
  return out;
}

cel_box cel_member_gives(const cel_exchange *exchange, int32_t device,
                         int64_t member) {
  const cel_exchange *x = exchange;
  return between(x, part_in(x->to, &x->mine, member / x->devices), device,
                 member % x->devices);
}

cel_box cel_member_gets(const cel_exchange *exchange, int32_t device,
                        int64_t member) {
  const cel_exchange *x = exchange;
  return between(x, part_in(x->from, &x->wanted, member / x->devices),
                 member % x->devices, device);
}

static void side_in_pairs(const cel_exchange *x, int32_t device,
                          cel_member *out) {
  cel_box gets = got_by(x, &x->wanted, device), get;
  *out = (cel_member){.mine = given_by(x, &x->mine, device)};
  out->hull = cel_box_hull(&out->mine, &gets);
  for (uint32_t i = 0; i < x->gets; ++i)
    if (cel_box_intersect(&x->get[i], &gets, &get)) out->get[out->gets++] = get;
}

/* ---- all of them --------------------------------------------------------- */

void cel_member_side(const cel_exchange *exchange, int64_t rank, int32_t device,
                     cel_member *out) {
  const cel_exchange *x = exchange;
  if (x->to != NULL) {
    side_in_pairs(x, device, out);
    return;
  }
  if (x->pattern == CEL_PATTERN_ALL_REDUCE) {
    bool gives = device == 0 || x->by.op != CEL_OP_SUM;
    *out = (cel_member){.mine = gives ? x->box : none(),
                        .hull = x->box,
                        .gets = 1,
                        .get = {x->box}};
    return;
  }
  int64_t member = rank * x->devices + device;
  bool root = member == cel_member_root(x);
  bool sees_part = cel_pattern_is_by_parts(x->pattern) && !root;
  cel_box share = x->parts != NULL ? cel_member_share(x, member) : none();
  *out = (cel_member){.hull = sees_part ? share : x->box};
  if (!cel_pattern_is_from_root(x->pattern))
    out->mine = share;
  else if (root)
    out->mine = x->box;
  if (!cel_box_is_empty(&out->hull))
    out->gets = (uint32_t)cel_box_subtract(&out->hull, &out->mine, out->get);
}
