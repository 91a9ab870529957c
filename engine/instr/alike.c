/* What several devices need alike: a read of all of a buffer.
 *
 * Left to itself each device would copy what it lacks from whoever has it, and
 * one device or the host would be asked by all. So that as much leaves each of
 * them, it is cut into pieces, each with an owner that sends it to all others:
 * where devices have parts of it, these; where one has all of it, or the host,
 * slices for each device that lacks it, which gets them first, and hands one
 * on while the next one comes.
 *
 * What leaves a device leaves in turn, first to the device before it in a
 * circle. Parts come in turn, too. Else one that is late meets another at its
 * receiver, both take twice as long, and the next are later still: four GPUs
 * that sent 64 MiB each to all others took 580 us at first, and 830 after some
 * hundred times. Slices come as their owners get them. */
#include "command/collective/member.h"
#include "instr/coherence.h"
#include "instr/coherence_state.h"
#include "tuning.h"

/* The memories of the devices whose parts need, by access a, just what the
 * first of them does; 0 where one needs something else. */
static uint64_t who_needs(const cel__plan *plan, uint32_t a) {
  uint32_t accesses = plan->command->task->accesses;
  const cel__touch *first = &plan->touches.at[a];
  uint64_t who = 0;
  if (!first->consumes || first->region.n == 0) return 0;
  for (uint32_t i = a; i < plan->used; i += accesses) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->memory == CEL_MEMORY_HOST ||
        !cel_box_equal(&touch->hull, &first->hull) ||
        !cel_region_equal(&touch->region, &first->region))
      return 0;
    who |= 1ull << touch->memory;
  }
  return who;
}

static bool is_one(uint64_t set) {
  return set != 0 && (set & (set - 1)) == 0;
}

/* Whether different devices have parts that no other device has. */
static bool comes_from_several(const cel_map_entries *entries) {
  uint64_t from = 0;
  for (uint32_t i = 0; i < entries->n; ++i) {
    uint64_t devices = cel__devices_of(entries->at[i].value);
    if (is_one(devices)) from |= devices;
  }
  return from != 0 && !is_one(from);
}

static void fetch_box(cel__coherence *all, const cel_buffer *buffer,
                      cel_box box, int32_t memory, const cel__manner *manner) {
  cel_region region = {.at = &box, .n = 1};
  cel__coherence_bring(all, buffer, memory, &region, manner);
}

/* Pieces of so many bytes for each of those who lack the box, which they get.
 * Messages may be as short as a byte: half of one is not divided by. */
static void slice(cel__coherence *all, const cel_buffer *buffer,
                  const cel_box *box, uint64_t bytes, uint64_t takers,
                  const cel__manner *manner) {
  int64_t n = __builtin_popcountll(takers);
  uint64_t each = 2 * bytes / (uint64_t)n / all->config->large_bytes;
  n *= each < 1                       ? 1
       : each < CEL_TUNE_ALIKE_SLICES ? (int64_t)each
                                      : CEL_TUNE_ALIKE_SLICES;
  int32_t m = 0;
  for (int64_t i = 0; i < n; ++i) {
    do m = (m + 1) % all->count;
    while ((takers >> m & 1) == 0);
    cel__slice piece = {cel_member_cut(box, i, n), m};
    if (cel_box_is_empty(&piece.box)) continue;
    fetch_box(all, buffer, piece.box, m, manner);
    cel_vec_push(&all->alike.cut, piece);
  }
}

/* So much is worth it. */
static uint64_t least_bytes(const cel__coherence *all) {
  return all->config->large_bytes / CEL_TUNE_ALIKE_SHARE;
}

/* Pieces of an entry, if it is worth it. */
static void cut(cel__coherence *all, const cel_buffer *buffer,
                const cel_map_entry *at, uint64_t who, bool several,
                const cel__manner *manner) {
  uint64_t devices = cel__devices_of(at->value), takers = who & ~at->value;
  uint64_t bytes = (uint64_t)cel_box_volume(&at->box) * buffer->element_size;
  if (at->value == 0 || takers == 0 || is_one(takers) ||
      bytes < least_bytes(all))
    return;
  if (is_one(devices) && several)
    cel_vec_push(&all->alike.owned,
                 (cel__slice){at->box, __builtin_ctzll(devices)});
  else if (devices == 0 || is_one(devices))
    slice(all, buffer, &at->box, bytes, takers, manner);
}

/* How many of `set` come before `memory`. */
static int32_t place_in(uint64_t set, int32_t memory) {
  return __builtin_popcountll(set & ((1ull << memory) - 1));
}

/* Of `who`, the ith from the first on, in a circle. */
static int32_t at_place(uint64_t who, int32_t i) {
  for (i %= __builtin_popcountll(who); i > 0; --i) who &= who - 1;
  return __builtin_ctzll(who);
}

static void send(cel__coherence *all, const cel_buffer *buffer,
                 const cel__slice *piece, int32_t to,
                 const cel__manner *manner) {
  cel__manner from_owner = *manner;
  from_owner.from = 1ull << piece->owner;
  fetch_box(all, buffer, piece->box, to, &from_owner);
}

/* Each part to one device before the first goes to the next; owners begin with
 * one device each, as far as there are enough. */
static void exchange(cel__coherence *all, const cel_buffer *buffer,
                     uint64_t who, const cel__manner *manner) {
  uint64_t last_in[CEL_MEMORIES] = {0}, owners = 0;
  cel__manner in_turn = *manner;
  in_turn.last_in = last_in;
  for (uint32_t i = 0; i < all->alike.owned.n; ++i)
    owners |= 1ull << all->alike.owned.at[i].owner;
  for (int32_t k = __builtin_popcountll(who); k-- > 0;)
    for (uint32_t i = 0; i < all->alike.owned.n; ++i) {
      const cel__slice *part = &all->alike.owned.at[i];
      int32_t place = place_in(owners, part->owner) + k;
      send(all, buffer, part, at_place(who, place), &in_turn);
    }
}

/* Each slice to all others before the next one. */
static void hand_on(cel__coherence *all, const cel_buffer *buffer, uint64_t who,
                    const cel__manner *manner) {
  for (uint32_t i = 0; i < all->alike.cut.n; ++i) {
    const cel__slice *piece = &all->alike.cut.at[i];
    for (int32_t k = __builtin_popcountll(who); k-- > 0;) {
      int32_t place = place_in(who, piece->owner) + k;
      send(all, buffer, piece, at_place(who, place), manner);
    }
  }
}

static void fetch(cel__coherence *all, const cel__touch *touch, uint64_t who,
                  int32_t priority) {
  const cel_buffer *buffer = touch->buffer;
  uint64_t most = (uint64_t)cel_box_volume(&touch->hull) * buffer->element_size;
  if (most < least_bytes(all)) return;
  cel__coherence_stage(all, buffer, touch->memory, &touch->region, priority);
  cel_vec_clear(&all->alike.owned);
  cel_vec_clear(&all->alike.cut);
  uint64_t last_out[CEL_MEMORIES] = {0};
  cel__manner manner = {.priority = priority, .last_out = last_out};
  for (uint32_t b = 0; b < touch->region.n; ++b) {
    cel_map_query(cel__coherence_of(all, buffer), &touch->region.at[b],
                  &all->alike.found);
    bool several = comes_from_several(&all->alike.found);
    for (uint32_t i = 0; i < all->alike.found.n; ++i)
      cut(all, buffer, &all->alike.found.at[i], who, several, &manner);
  }
  exchange(all, buffer, who, &manner);
  hand_on(all, buffer, who, &manner);
}

void cel__alike_fetch(cel__coherence *all, int32_t priority) {
  const cel__plan *plan = all->plan;
  if (plan->command->kind != CEL_COMMAND_EXECUTE || plan->parts.n < 2 ||
      all->config->devices < 2)
    return;
  for (uint32_t a = 0; a < plan->command->task->accesses; ++a) {
    uint64_t who = who_needs(plan, a);
    if (who != 0 && !is_one(who))
      fetch(all, &plan->touches.at[a], who, priority);
  }
}
