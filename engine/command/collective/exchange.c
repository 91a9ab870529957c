#include "command/collective/exchange.h"

#include "command/collective/pattern.h"

static const cel_box nothing = {{0}, {0}};

/* What rank `me` has of the whole by a representation; where there is none, the
 * root has all. */
static cel_box part_of(const cel__own *own, const cel__choice *choice,
                       uint32_t rep, const cel_box *box) {
  cel_box part;
  if (rep == CEL__NO_ID) return choice->root == own->me ? *box : nothing;
  return cel__rep_box(cel__rep_at(&own->reps, rep), own->me, box, &part)
             ? part
             : nothing;
}

/* What it gets of a box: all that it does not give. */
static void take_rest(cel_exchange *x, const cel_box *box, cel_arena *arena) {
  cel_box rest[6];
  if (cel_box_is_empty(box)) return;
  x->gets = (uint32_t)cel_box_subtract(box, &x->mine, rest);
  if (x->gets > 0) x->get = cel_arena_copy(arena, rest, x->gets * sizeof *rest);
}

/* All of it is in one place, or this rank's part alone. */
static void take_side(const cel__own *own, const cel__together *t,
                      cel_exchange *x, cel_arena *arena) {
  cel_pattern pattern = t->choice.pattern;
  cel_box part =
      part_of(own, &t->choice, cel__choice_parts(&t->choice), &t->box);
  bool root = t->choice.root == own->me;
  if (t->choice.some && !root) {
    cel_box wanted = part_of(own, &t->choice, t->choice.read, &t->box);
    if (cel_box_is_empty(&wanted)) return;
  }
  x->hull = cel_pattern_is_by_parts(pattern) && !root ? part : t->box;
  if (!cel_pattern_is_from_root(pattern))
    x->mine = part;
  else if (root)
    x->mine = t->box;
  take_rest(x, &x->hull, arena);
}

/* The first dimension in which ranks have different parts, or -1. */
static int32_t first_cut(const cel__own *own, uint32_t id) {
  if (id == CEL__NO_ID) return -1;
  const cel__rep *rep = cel__rep_at(&own->reps, id);
  for (int d = 0; d < CEL_DIMS; ++d)
    if (cel__rep_cuts(rep, d)) return d;
  return -1;
}

/* What it gives to each is cut out of its part as they read, what it gets out
 * of what it reads as they have it; its own stays where it is. */
static void take_pairs(cel__parts_kept *kept, const cel__own *own,
                       const cel__together *t, cel_exchange *x,
                       cel_arena *arena) {
  const cel__choice *choice = &t->choice;
  cel__giver have = {choice->have, choice->root};
  cel__giver read = {choice->read, choice->root};
  x->mine = part_of(own, choice, choice->have, &t->box);
  x->wanted = part_of(own, choice, choice->read, &t->box);
  x->to = cel__parts_find(kept, &own->reps, read, &x->mine, own->me);
  x->from = cel__parts_find(kept, &own->reps, have, &x->wanted, own->me);
  x->hull = cel_box_hull(&x->mine, &x->wanted);
  x->wide = choice->wide;
  x->subgroup = choice->subgroup;
  x->give_along = first_cut(own, choice->have);
  x->get_along = first_cut(own, choice->read);
  take_rest(x, &x->wanted, arena);
}

static cel_exchange make(cel__parts_kept *kept, const cel__own *own,
                         const cel__together *t, uint64_t nth,
                         cel_arena *arena) {
  const cel__choice *choice = &t->choice;
  cel_exchange x = {.pattern = choice->pattern,
                    .nth = nth,
                    .root = choice->root,
                    .buffer = t->buffer,
                    .box = t->box,
                    .devices = own->collective.devices};
  if (choice->pairs) {
    take_pairs(kept, own, t, &x, arena);
    return x;
  }
  cel__giver parts = {cel__choice_parts(choice), choice->root};
  if (choice->pattern != CEL_PATTERN_BROADCAST)
    x.parts = cel__parts_find(kept, &own->reps, parts, &t->box, CEL__NO_RANK);
  take_side(own, t, &x, arena);
  return x;
}

/* Of BROADCASTs there are no counts. */
static void add_up(cel__parts_kept *kept, cel_exchange *x, uint32_t n) {
  bool pairs = x->to != NULL;
  if (!pairs && x->parts == NULL) return;
  cel__term *term = cel_alloc(n * sizeof *term);
  for (int end = 0; end < 1 + pairs; ++end) {
    for (uint32_t i = 0; i < n; ++i) {
      const cel_parts *of = !pairs     ? x[i].parts
                            : end == 0 ? x[i].to
                                       : x[i].from;
      term[i] = (cel__term){of, x[i].buffer->element_size};
    }
    x->sum[end] = cel__parts_sum(kept, term, n);
  }
  cel_free(term);
}

cel_exchange *cel__exchange_make(cel__parts_kept *kept, const cel__own *own,
                                 const cel__together *t, uint32_t n,
                                 uint64_t nth, cel_arena *arena) {
  cel_exchange *x = cel_arena_alloc(arena, n * sizeof *x);
  for (uint32_t i = 0; i < n; ++i) {
    x[i] = make(kept, own, &t[i], nth, arena);
    if (i > 0) x[i - 1].next = &x[i];
  }
  if (n > 1) add_up(kept, x, n);
  return x;
}

static uint64_t bytes_of(const cel_exchange *x, const cel_box *box) {
  return (uint64_t)cel_box_volume(box) * x->buffer->element_size;
}

uint64_t cel_exchange_bytes(const cel_exchange *exchange) {
  uint64_t sum = 0;
  for (const cel_exchange *x = exchange; x != NULL; x = x->next)
    sum += bytes_of(x, &x->box);
  return sum;
}

uint64_t cel_exchange_given(const cel_exchange *exchange) {
  uint64_t sum = 0;
  for (const cel_exchange *x = exchange; x != NULL; x = x->next)
    sum += bytes_of(x, &x->mine);
  return sum;
}
