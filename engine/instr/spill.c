#include <stdio.h>
#include <stdlib.h>

#include "base/amount.h"
#include "instr/memory.h"
#include "instr/memory_state.h"
#include "tuning.h"

static cel__room *room_of(cel__memories *all, const cel__record *record) {
  return &all->room[record->tracked.made.memory];
}

/* The grains that bytes lie in. */
static cel_box grains_of(const cel__memories *all, uint64_t begin,
                         uint64_t end) {
  uint64_t grain = all->config->grain;
  return (cel_box){{(int64_t)(begin / grain), 0, 0},
                   {(int64_t)((end + grain - 1) / grain), 1, 1}};
}

/* ---- life ---------------------------------------------------------------- */

void cel__rooms_init(cel__memories *all) {
  const cel_instr_graph_config *c = all->config;
  cel_assert(c->capacity[CEL_MEMORY_HOST] == 0);
  for (int32_t m = 1; m < all->count; ++m) {
    all->room[m].capacity = c->capacity[m];
    all->eviction.limited |= c->capacity[m] != 0;
  }
  cel_assert(!all->eviction.limited || c->grain == 0 ||
             (c->block >= c->grain && c->block % c->grain == 0));
  all->eviction.now = 1;
}

void cel__rooms_release(cel__memories *all) {
  for (int32_t m = 0; m < all->count; ++m) {
    cel_vec_release(&all->room[m].leaving);
    cel_vec_release(&all->room[m].records);
    cel_vec_release(&all->room[m].freed);
  }
  cel_map_entries_release(&all->eviction.grains);
  cel_vec_release(&all->eviction.victims);
}

void cel__room_enter(cel__memories *all, cel__record *record) {
  cel__room *room = room_of(all, record);
  if (room->capacity == 0) return;
  record->index = room->records.n;
  record->used_at = all->eviction.now;
  cel_vec_push(&room->records, record);
  if (record->whole) return;
  cel_box whole = grains_of(all, 0, record->tracked.made.reserve);
  record->grains = cel_map_create(&whole, 0);
}

/* ---- what leaves --------------------------------------------------------- */

static void note_leaving(cel__room *room, uint64_t bytes, uint64_t id,
                         uint64_t used_at) {
  if (bytes == 0) return;
  cel_assert(room->used >= bytes);
  room->used -= bytes;
  room->going += bytes;
  if (used_at != 0) room->awaited += bytes;
  cel_vec_push(&room->leaving, (cel__leaving){id, bytes, used_at});
}

/* As a tracker would: what is older than the floor counts as the floor. */
static void apply_floor(cel__room *room, uint64_t floor) {
  uint32_t old = 0;
  uint64_t bytes = 0;
  for (; old < room->leaving.n && room->leaving.at[old].id <= floor; ++old)
    bytes += room->leaving.at[old].bytes;
  if (old == 0) return;
  cel_vec_drop_first(&room->leaving, old - 1);
  room->leaving.at[0] = (cel__leaving){floor, bytes, 0};
}

void cel__memory_settle(cel__memories *all) {
  for (int32_t m = 0; m < all->count; ++m) {
    cel_vec_clear(&all->room[m].leaving);
    all->room[m].going = 0;
  }
}

void cel__room_leave(cel__memories *all, cel__record *record, uint64_t id) {
  cel__room *room = room_of(all, record);
  if (room->capacity == 0) return;
  bool told =
      all->eviction.told != NULL && record->used_at == all->eviction.now;
  note_leaving(room, record->bytes, id, told ? all->eviction.now : 0);
  cel_vec_swap_out(&room->records, record->index);
  if (record->index < room->records.n)
    room->records.at[record->index]->index = record->index;
}

/* ---- what buffers leave that end ----------------------------------------- */

void cel__room_freed(cel__memories *all, const cel__record *record,
                     uint64_t id) {
  const cel_allocation *a = &record->tracked.made;
  uint64_t rows = (uint64_t)(record->used.max[0] - record->used.min[0]);
  uint64_t bytes = rows * cel__memory_row(a->buffer, &a->layout);
  cel_vec_push(&room_of(all, record)->freed,
               (cel__freed){id, bytes, a->reserve});
}

/* Forgets those up to the floor, and counts what the others have. */
static uint64_t count_freed(cel__room *room, uint64_t floor) {
  uint64_t bytes = 0;
  uint32_t old = 0;
  while (old < room->freed.n && room->freed.at[old].id <= floor) ++old;
  cel_vec_drop_first(&room->freed, old);
  for (uint32_t i = 0; i < room->freed.n; ++i) bytes += room->freed.at[i].bytes;
  return bytes;
}

/* After the floor all that is older has gone. A FREE of as much as is allocated
 * goes first: its very memory serves again, which has pages already. */
void cel__room_follow(cel__memories *all, const cel__record *record) {
  cel__room *room = room_of(all, record);
  uint64_t floor = cel__emission_floor(all->emission);
  uint64_t most = room->capacity / CEL_TUNE_FREED_SHARE;
  if (most < all->config->freed_bytes) most = all->config->freed_bytes;
  uint64_t there = count_freed(room, floor);
  cel__emit_after(all->emission, floor, CEL_DEP_ORDER);
  if (there <= most) return;
  for (uint32_t i = 0; i < room->freed.n; ++i) {
    cel__freed *at = &room->freed.at[i];
    if (at->reserve != record->tracked.made.reserve) continue;
    cel__emit_after(all->emission, at->id, CEL_DEP_ANTI);
    there -= at->bytes;
    *at = (cel__freed){.id = at->id};
    break;
  }
  for (uint32_t i = 0; there > most; ++i) {
    const cel__freed *at = &room->freed.at[i];
    if (at->bytes == 0) continue;
    cel__emit_after(all->emission, at->id, CEL_DEP_ANTI);
    there -= at->bytes;
  }
}

/* ---- what comes ---------------------------------------------------------- */

uint64_t cel__room_lacks(cel__memories *all, const cel__record *record,
                         uint64_t begin, uint64_t end) {
  if (record->whole)
    return record->bytes != 0 ? 0 : record->tracked.made.reserve;
  cel_box grains = grains_of(all, begin, end);
  cel_map_query(record->grains, &grains, &all->eviction.grains);
  int64_t n = 0;
  for (uint32_t i = 0; i < all->eviction.grains.n; ++i)
    if (all->eviction.grains.at[i].value == 0)
      n += cel_box_volume(&all->eviction.grains.at[i].box);
  return (uint64_t)n * all->config->grain;
}

/* The instruction being made comes after as much of what leaves as it takes
 * until all the rest could still be there; not after messages of its task. */
static void wait_for_room(cel__memories *all, cel__room *room) {
  apply_floor(room, cel__emission_floor(all->emission));
  uint64_t there = room->used + room->going;
  for (uint32_t i = 0; there > room->capacity && i < room->leaving.n; ++i) {
    const cel__leaving *at = &room->leaving.at[i];
    if (all->eviction.told != NULL && at->used_at == all->eviction.now)
      continue;
    cel__emit_after(all->emission, at->id, CEL_DEP_ANTI);
    there -= at->bytes;
  }
}

void cel__room_take(cel__memories *all, cel__record *record, uint64_t begin,
                    uint64_t end) {
  cel__room *room = room_of(all, record);
  if (room->capacity == 0) return;
  uint64_t bytes = cel__room_lacks(all, record, begin, end);
  room->used += bytes;
  record->bytes += bytes;
  cel_assert(room->used <= room->capacity);
  wait_for_room(all, room);
  if (record->whole) return;
  cel_box grains = grains_of(all, begin, end);
  cel_map_update(record->grains, &grains, all->eviction.now);
}

void cel__room_give(cel__memories *all, cel__record *record, uint64_t begin,
                    uint64_t end, uint64_t id) {
  cel_box grains = grains_of(all, begin, end);
  uint64_t bytes = (uint64_t)cel_box_volume(&grains) * all->config->grain -
                   cel__room_lacks(all, record, begin, end);
  record->bytes -= bytes;
  note_leaving(room_of(all, record), bytes, id, 0);
  cel_map_update(record->grains, &grains, 0);
}

bool cel__room_has(const cel__memories *all, int32_t memory, uint64_t bytes) {
  const cel__room *room = &all->room[memory];
  uint64_t used = room->used + room->awaited;
  return room->capacity == 0 ||
         (bytes <= room->capacity && used <= room->capacity - bytes);
}

/* ---- use ----------------------------------------------------------------- */

static void touch_rows(cel__memories *all, cel__record *record,
                       const cel_box *box) {
  const cel_allocation *a = &record->tracked.made;
  uint64_t row = cel__memory_row(a->buffer, &a->layout);
  cel_box grains =
      grains_of(all, (uint64_t)(box->min[0] - a->layout.min[0]) * row,
                (uint64_t)(box->max[0] - a->layout.min[0]) * row);
  cel_map_query(record->grains, &grains, &all->eviction.grains);
  for (uint32_t i = 0; i < all->eviction.grains.n; ++i) {
    const cel_map_entry *at = &all->eviction.grains.at[i];
    if (at->value != 0 && at->value != all->eviction.now)
      cel_map_update(record->grains, &at->box, all->eviction.now);
  }
}

void cel__room_touch(cel__memories *all, int32_t memory) {
  const cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->memory != memory || cel_box_is_empty(&touch->hull)) continue;
    cel__record *record =
        cel__record_find(all, touch->buffer, memory, &touch->hull);
    if (record == NULL) continue;
    record->used_at = all->eviction.now;
    for (uint32_t b = 0; b < touch->region.n && !record->whole; ++b)
      touch_rows(all, record, &touch->region.at[b]);
  }
}

/* ---- victims ------------------------------------------------------------- */

/* Blocks of a record, in ascending order. One that two entries share counts as
 * used when the later of them was. */
static void add_victim(cel__memories *all, cel__victim victim) {
  while (all->eviction.victims.n > 0) {
    cel__victim *last = &cel_vec_last(&all->eviction.victims);
    uint64_t end = last->first + last->count;
    if (last->record != victim.record || end < victim.first) break;
    if (end == victim.first) {
      if (last->used_at != victim.used_at) break;
      last->count += victim.count;
      return;
    }
    if (victim.used_at > last->used_at) {
      if (--last->count == 0) all->eviction.victims.n--;
    } else {
      ++victim.first;
      if (--victim.count == 0) return;
    }
  }
  cel_vec_push(&all->eviction.victims, victim);
}

static void add_blocks(cel__memories *all, cel__record *record) {
  int64_t per_block = (int64_t)(all->config->block / all->config->grain);
  cel_box whole = grains_of(all, 0, record->tracked.made.reserve);
  cel_map_query(record->grains, &whole, &all->eviction.grains);
  for (uint32_t i = 0; i < all->eviction.grains.n; ++i) {
    const cel_map_entry *at = &all->eviction.grains.at[i];
    if (at->value == 0) continue;
    int64_t first = at->box.min[0] / per_block;
    int64_t end = (at->box.max[0] - 1) / per_block + 1;
    add_victim(all, (cel__victim){record, (uint64_t)first,
                                  (uint64_t)(end - first), at->value});
  }
}

/* The one used least lately first, of such the one that was made first, and of
 * its blocks the last: programs begin with the first. */
static int compare_victims(const void *left, const void *right) {
  const cel__victim *a = left, *b = right;
  if (a->used_at != b->used_at) return a->used_at < b->used_at ? -1 : 1;
  uint64_t x = a->record->tracked.made.id, y = b->record->tracked.made.id;
  if (x != y) return x < y ? -1 : 1;
  return a->first > b->first ? -1 : a->first < b->first;
}

/* All that is not used now, in the order in which it should go. */
static void find_victims(cel__memories *all, int32_t memory) {
  cel__room *room = &all->room[memory];
  cel_vec_clear(&all->eviction.victims);
  for (uint32_t i = 0; i < room->records.n; ++i) {
    cel__record *record = room->records.at[i];
    if (record->whole)
      add_victim(all, (cel__victim){record, 0, 1, record->used_at});
    else
      add_blocks(all, record);
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < all->eviction.victims.n; ++i)
    if (all->eviction.victims.at[i].used_at < all->eviction.now)
      all->eviction.victims.at[n++] = all->eviction.victims.at[i];
  all->eviction.victims.n = n;
  if (n > 1)
    qsort(all->eviction.victims.at, n, sizeof *all->eviction.victims.at,
          compare_victims);
}

/* ---- spilling ------------------------------------------------------------ */

static void warn(cel__memories *all, const cel__record *record,
                 uint64_t bytes) {
  if (all->eviction.warned || all->config->warn == NULL) return;
  all->eviction.warned = true;
  const char *name = record->tracked.made.buffer->name;
  char text[512], amount[CEL_AMOUNT_TEXT], most[CEL_AMOUNT_TEXT];
  cel_amount_text(bytes, amount, sizeof amount);
  cel_amount_text(room_of(all, record)->capacity, most, sizeof most);
  snprintf(text, sizeof text,
           "the memory of device %d is full (%s): %s of buffer %s go to host "
           "memory until they are needed, and whatever is used least lately "
           "after that; the run goes on, more slowly",
           cel__device_in(all->config, record->tracked.made.memory), most,
           amount, name != NULL ? name : "unnamed");
  all->config->warn(all->config->context, all->plan->command->task, text);
}

/* `count` blocks from `first` on. */
static void spill_blocks(cel__memories *all, cel__record *record,
                         uint64_t first, uint64_t count) {
  const cel_allocation *a = &record->tracked.made;
  uint64_t block = all->config->block, begin = first * block;
  uint64_t end = begin + count * block;
  if (end > a->reserve) end = a->reserve;
  uint64_t row = cel__memory_row(a->buffer, &a->layout);
  cel_box rows = a->layout;
  rows.min[0] = a->layout.min[0] + (int64_t)(begin / row);
  rows.max[0] = a->layout.min[0] + (int64_t)((end + row - 1) / row);
  warn(all, record, end - begin);
  cel_box box;
  if (cel_box_intersect(&record->used, &rows, &box))
    all->keeper->save(all->keeper->context, &record->tracked, &box);
  cel__record_decommit(all, record, begin, end);
}

/* Lets so much of the victim go that there is room for `bytes`, or all. */
static void spill(cel__memories *all, const cel__victim *victim,
                  uint64_t bytes) {
  cel__room *room = room_of(all, victim->record);
  if (victim->record->whole) {
    warn(all, victim->record, victim->record->tracked.made.reserve);
    cel__record_spill(all, victim->record);
    return;
  }
  for (uint64_t left = victim->count; left > 0;) {
    uint64_t used = room->used + room->awaited;
    if (used + bytes <= room->capacity) break;
    uint64_t over = used + bytes - room->capacity;
    uint64_t n = (over + all->config->block - 1) / all->config->block;
    if (n > left) n = left;
    left -= n;
    spill_blocks(all, victim->record, victim->first + left, n);
  }
}

bool cel__room_make(cel__memories *all, int32_t memory, uint64_t bytes) {
  if (cel__room_has(all, memory, bytes)) return true;
  if (bytes > all->room[memory].capacity) return false;
  cel__room_touch(all, memory);
  find_victims(all, memory);
  for (uint32_t i = 0; i < all->eviction.victims.n; ++i) {
    if (cel__room_has(all, memory, bytes)) break;
    spill(all, &all->eviction.victims.at[i], bytes);
  }
  return cel__room_has(all, memory, bytes);
}

void cel__rooms_check(const cel__memories *all) {
  for (int32_t m = 0; m < all->count; ++m) {
    const cel__room *room = &all->room[m];
    uint64_t used = 0, going = 0, last = 0;
    if (room->capacity == 0) continue;
    for (uint32_t i = 0; i < room->records.n; ++i) {
      const cel__record *record = room->records.at[i];
      uint64_t grain = record->whole ? 1 : all->config->grain;
      cel_assert(record->index == i && record->used_at <= all->eviction.now);
      cel_assert(record->bytes < record->tracked.made.reserve + grain);
      used += record->bytes;
      (void)grain;
    }
    for (uint32_t i = 0; i < room->leaving.n; ++i) {
      cel_assert(room->leaving.at[i].id >= last);
      last = room->leaving.at[i].id;
      going += room->leaving.at[i].bytes;
    }
    cel_assert(room->used == used && room->going == going);
    cel_assert(room->used <= room->capacity);
    cel_assert(room->awaited <= room->going || room->leaving.n == 0);
    (void)used, (void)going, (void)last;
  }
}
