#include "command/exchange.h"

static const cel_box nothing = {{0}, {0}};

/* What rank `me` has of the whole by a representation; empty where none. */
static cel_box part_of(const cel__own *own, uint32_t rep, const cel_box *box) {
  cel_box part;
  if (rep == CEL__NO_ID) return nothing;
  return cel__rep_box(cel__rep_at(&own->reps, rep), own->me, box, &part)
             ? part
             : nothing;
}

/* All of it is in one place, or this rank's part alone. */
static void take_side(const cel__own *own, const cel__together *t,
                      cel_exchange *x) {
  cel_box part = part_of(own, t->parts, &t->box);
  bool gives_all =
      t->pattern == CEL_PATTERN_BROADCAST || t->pattern == CEL_PATTERN_SCATTER;
  bool sees_part =
      t->pattern == CEL_PATTERN_SCATTER || t->pattern == CEL_PATTERN_GATHER;
  x->place = sees_part && t->root != own->me ? part : t->box;
  if (!gives_all)
    x->mine = part;
  else if (t->root == own->me)
    x->mine = t->box;
  if (!cel_box_is_empty(&x->place))
    x->gets = (uint32_t)cel_box_subtract(&x->place, &x->mine, x->get);
}

/* What it gives to each is cut out of its part as they read, what it gets out
 * of what it reads as they have it; its own stays where it is. */
static void take_both_sides(cel__parts_kept *kept, const cel__own *own,
                            const cel__together *t, cel_exchange *x) {
  x->mine = part_of(own, t->parts, &t->box);
  x->wanted = part_of(own, t->reads, &t->box);
  x->to = cel__parts_find(kept, &own->reps, t->reads, &x->mine, own->me);
  x->from = cel__parts_find(kept, &own->reps, t->parts, &x->wanted, own->me);
  x->place = cel_box_hull(&x->mine, &x->wanted);
  if (!cel_box_is_empty(&x->wanted))
    x->gets = (uint32_t)cel_box_subtract(&x->wanted, &x->mine, x->get);
}

cel_exchange cel__exchange_make(cel__parts_kept *kept, const cel__own *own,
                                const cel__together *t, uint64_t nth) {
  cel_exchange x = {.pattern = t->pattern,
                    .nth = nth,
                    .root = t->root,
                    .buffer = t->buffer,
                    .box = t->box};
  if (t->pattern == CEL_PATTERN_ALL_TO_ALL) {
    take_both_sides(kept, own, t, &x);
    return x;
  }
  if (t->parts != CEL__NO_ID)
    x.parts =
        cel__parts_find(kept, &own->reps, t->parts, &t->box, CEL__NO_RANK);
  take_side(own, t, &x);
  return x;
}
