#include "command/member.h"

#include "region/split.h"

static cel_box none(void) {
  return (cel_box){{0}, {0}};
}

cel_box cel_exchange_part(const cel_exchange *exchange, int64_t rank) {
  const cel_exchange *x = exchange;
  const cel_parts *parts = x->parts;
  cel_box part = x->box;
  if (parts->count[rank] == 0) return none();
  for (int d = 0; d < CEL_DIMS && parts->box != NULL; ++d) {
    part.min[d] = x->box.min[d] + parts->box[rank].min[d];
    part.max[d] = x->box.min[d] + parts->box[rank].max[d];
  }
  if (parts->box == NULL) {
    int d = parts->along;
    part.min[d] = x->box.min[d] + parts->start[rank];
    part.max[d] = part.min[d] + parts->count[rank];
  }
  return part;
}

/* The first that can be cut: a share of what is dense is dense. */
static int dimension_of(const cel_box *part) {
  int d = 0;
  while (d < CEL_DIMS - 1 && part->max[d] - part->min[d] == 1) ++d;
  return d;
}

int64_t cel_member_root(const cel_exchange *exchange) {
  return exchange->root * exchange->devices;
}

cel_box cel_member_cut(const cel_box *box, int64_t i, int64_t n) {
  cel_box slice = *box;
  int d = dimension_of(box);
  cel_cut cut = cel_cut_even(box->min[d], box->max[d] - box->min[d], n, 1);
  if (i >= cut.P) return none();
  slice.min[d] = cel_cut_at(&cut, i);
  slice.max[d] = cel_cut_at(&cut, i + 1);
  return slice;
}

cel_box cel_member_share(const cel_exchange *exchange, int64_t member) {
  int64_t devices = exchange->devices;
  cel_box part = cel_exchange_part(exchange, member / devices);
  if (devices == 1 || cel_box_is_empty(&part)) return part;
  return cel_member_cut(&part, member % devices, devices);
}

void cel_member_side(const cel_exchange *exchange, int64_t member,
                     cel_member *out) {
  const cel_exchange *x = exchange;
  bool root = member == cel_member_root(x);
  bool sees_part = cel_pattern_is_by_parts(x->pattern) && !root;
  cel_box share = x->parts != NULL ? cel_member_share(x, member) : none();
  *out = (cel_member){.place = sees_part ? share : x->box};
  if (!cel_pattern_is_from_root(x->pattern))
    out->mine = share;
  else if (root)
    out->mine = x->box;
  if (!cel_box_is_empty(&out->place))
    out->gets = (uint32_t)cel_box_subtract(&out->place, &out->mine, out->get);
}
