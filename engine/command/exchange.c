#include "command/exchange.h"

#include "command/pattern.h"

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
  cel_pattern pattern = t->choice.pattern;
  cel_box part = part_of(own, cel__choice_parts(&t->choice), &t->box);
  bool root = t->choice.root == own->me;
  x->place = cel_pattern_is_by_parts(pattern) && !root ? part : t->box;
  if (!cel_pattern_is_from_root(pattern))
    x->mine = part;
  else if (root)
    x->mine = t->box;
  if (!cel_box_is_empty(&x->place))
    x->gets = (uint32_t)cel_box_subtract(&x->place, &x->mine, x->get);
}

/* The first dimension in which ranks have different parts, or -1. */
static int32_t first_cut(const cel__own *own, uint32_t id) {
  if (id == CEL__NO_ID) return -1;
  const cel__rep *rep = cel__rep_at(&own->reps, id);
  for (int d = 0; d < CEL_DIMS; ++d)
    if (rep->end[d][CEL__LO].open || rep->end[d][CEL__HI].open) return d;
  return -1;
}

/* What it gives to each is cut out of its part as they read, what it gets out
 * of what it reads as they have it; its own stays where it is. */
static void take_pairs(cel__parts_kept *kept, const cel__own *own,
                       const cel__together *t, cel_exchange *x) {
  const cel__choice *choice = &t->choice;
  cel__giver have = {choice->have, choice->root};
  cel__giver read = {choice->read, choice->root};
  if (choice->have != CEL__NO_ID)
    x->mine = part_of(own, choice->have, &t->box);
  else if (choice->root == own->me)
    x->mine = t->box;
  x->wanted = part_of(own, choice->read, &t->box);
  x->to = cel__parts_find(kept, &own->reps, read, &x->mine, own->me);
  x->from = cel__parts_find(kept, &own->reps, have, &x->wanted, own->me);
  x->place = cel_box_hull(&x->mine, &x->wanted);
  x->wide = choice->wide;
  x->group = choice->group;
  x->give_along = first_cut(own, choice->have);
  x->get_along = first_cut(own, choice->read);
  if (!cel_box_is_empty(&x->wanted))
    x->gets = (uint32_t)cel_box_subtract(&x->wanted, &x->mine, x->get);
}

cel_exchange cel__exchange_make(cel__parts_kept *kept, const cel__own *own,
                                const cel__together *t, uint64_t nth) {
  const cel__choice *choice = &t->choice;
  cel_exchange x = {.pattern = choice->pattern,
                    .nth = nth,
                    .root = choice->root,
                    .buffer = t->buffer,
                    .box = t->box};
  if (choice->pairs) {
    take_pairs(kept, own, t, &x);
    return x;
  }
  cel__giver parts = {cel__choice_parts(choice), choice->root};
  if (parts.rep != CEL__NO_ID)
    x.parts = cel__parts_find(kept, &own->reps, parts, &t->box, CEL__NO_RANK);
  take_side(own, t, &x);
  return x;
}
