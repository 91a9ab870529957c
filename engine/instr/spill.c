#include <stdio.h>
#include <stdlib.h>

#include "base/amount.h"
#include "instr/state.h"

static cel__room *room_of(const cel_instr_graph *graph,
                          const cel__record *record) {
  return &graph->rooms[record->made.memory];
}

static cel_box span(uint64_t begin, uint64_t end) {
  return (cel_box){{(int64_t)begin, 0, 0}, {(int64_t)end, 1, 1}};
}

/* The grains that bytes lie in. */
static cel_box grains_of(const cel_instr_graph *graph, uint64_t begin,
                         uint64_t end) {
  uint64_t grain = graph->config.grain;
  return span(begin / grain, (end + grain - 1) / grain);
}

/* ---- life ---------------------------------------------------------------- */

void cel__rooms_init(cel_instr_graph *graph) {
  const cel_instr_graph_config *c = &graph->config;
  graph->rooms = cel_alloc_zero((size_t)graph->memories * sizeof(cel__room));
  cel_assert(c->capacity[CEL_MEMORY_HOST] == 0);
  for (int32_t m = 1; m < graph->memories; ++m) {
    graph->rooms[m].capacity = c->capacity[m];
    graph->limited |= c->capacity[m] != 0;
  }
  cel_assert(!graph->limited || c->grain == 0 ||
             (c->block >= c->grain && c->block % c->grain == 0));
  graph->now = 1;
}

void cel__rooms_release(cel_instr_graph *graph) {
  for (int32_t m = 0; m < graph->memories; ++m) {
    cel_vec_release(&graph->rooms[m].leaving);
    cel_vec_release(&graph->rooms[m].records);
  }
  cel_free(graph->rooms);
}

void cel__room_enter(cel_instr_graph *graph, cel__record *record) {
  cel__room *room = room_of(graph, record);
  if (room->capacity == 0) return;
  record->place = room->records.n;
  record->used_at = graph->now;
  cel_vec_push(&room->records, record);
  if (record->whole) return;
  cel_box all = grains_of(graph, 0, record->made.reserve);
  record->grains = cel_map_create(&all, 0);
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

void cel__rooms_settle(cel_instr_graph *graph) {
  for (int32_t m = 0; m < graph->memories; ++m) {
    cel_vec_clear(&graph->rooms[m].leaving);
    graph->rooms[m].going = 0;
  }
}

void cel__rooms_move_on(cel_instr_graph *graph) {
  ++graph->now;
  for (int32_t m = 0; m < graph->memories; ++m) graph->rooms[m].awaited = 0;
}

void cel__room_leave(cel_instr_graph *graph, cel__record *record, uint64_t id) {
  cel__room *room = room_of(graph, record);
  if (room->capacity == 0) return;
  bool told = graph->told != NULL && record->used_at == graph->now;
  note_leaving(room, record->bytes, id, told ? graph->now : 0);
  cel_vec_swap_out(&room->records, record->place);
  if (record->place < room->records.n)
    room->records.at[record->place]->place = record->place;
}

/* ---- what comes ---------------------------------------------------------- */

uint64_t cel__room_lacks(cel_instr_graph *graph, const cel__record *record,
                         uint64_t begin, uint64_t end) {
  if (record->whole) return record->bytes != 0 ? 0 : record->made.reserve;
  cel_box grains = grains_of(graph, begin, end);
  cel_map_query(record->grains, &grains, &graph->grains);
  int64_t n = 0;
  for (uint32_t i = 0; i < graph->grains.n; ++i)
    if (graph->grains.at[i].value == 0)
      n += cel_box_volume(&graph->grains.at[i].box);
  return (uint64_t)n * graph->config.grain;
}

/* The instruction being made comes after as much of what leaves as it takes
 * until all the rest could still be there; not after messages of its task. */
static void wait_for_room(cel_instr_graph *graph, cel__room *room) {
  apply_floor(room, graph->front.floor);
  uint64_t there = room->used + room->going;
  for (uint32_t i = 0; there > room->capacity && i < room->leaving.n; ++i) {
    const cel__leaving *at = &room->leaving.at[i];
    if (graph->told != NULL && at->used_at == graph->now) continue;
    cel_deps_add(&graph->deps, at->id, CEL_DEP_ANTI);
    there -= at->bytes;
  }
}

void cel__room_take(cel_instr_graph *graph, cel__record *record, uint64_t begin,
                    uint64_t end) {
  cel__room *room = room_of(graph, record);
  if (room->capacity == 0) return;
  uint64_t bytes = cel__room_lacks(graph, record, begin, end);
  room->used += bytes;
  record->bytes += bytes;
  cel_assert(room->used <= room->capacity);
  wait_for_room(graph, room);
  if (record->whole) return;
  cel_box grains = grains_of(graph, begin, end);
  cel_map_update(record->grains, &grains, graph->now);
}

void cel__room_give(cel_instr_graph *graph, cel__record *record, uint64_t begin,
                    uint64_t end, uint64_t id) {
  cel_box grains = grains_of(graph, begin, end);
  uint64_t bytes = (uint64_t)cel_box_volume(&grains) * graph->config.grain -
                   cel__room_lacks(graph, record, begin, end);
  record->bytes -= bytes;
  note_leaving(room_of(graph, record), bytes, id, 0);
  cel_map_update(record->grains, &grains, 0);
}

bool cel__room_has(const cel_instr_graph *graph, int32_t memory,
                   uint64_t bytes) {
  const cel__room *room = &graph->rooms[memory];
  uint64_t used = room->used + room->awaited;
  return room->capacity == 0 ||
         (bytes <= room->capacity && used <= room->capacity - bytes);
}

/* ---- use ----------------------------------------------------------------- */

static void touch_rows(cel_instr_graph *graph, cel__record *record,
                       const cel_box *box) {
  const cel_allocation *a = &record->made;
  uint64_t row = cel__memory_row(a->buffer, &a->layout);
  cel_box grains =
      grains_of(graph, (uint64_t)(box->min[0] - a->layout.min[0]) * row,
                (uint64_t)(box->max[0] - a->layout.min[0]) * row);
  cel_map_query(record->grains, &grains, &graph->grains);
  for (uint32_t i = 0; i < graph->grains.n; ++i) {
    const cel_map_entry *at = &graph->grains.at[i];
    if (at->value != 0 && at->value != graph->now)
      cel_map_update(record->grains, &at->box, graph->now);
  }
}

void cel__room_touch(cel_instr_graph *graph, int32_t memory) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->memory != memory || cel_box_is_empty(&touch->hull)) continue;
    cel__record *record =
        cel__memory_find(graph, touch->buffer, memory, &touch->hull);
    if (record == NULL) continue;
    record->used_at = graph->now;
    for (uint32_t b = 0; b < touch->region.n && !record->whole; ++b)
      touch_rows(graph, record, &touch->region.at[b]);
  }
}

/* ---- victims ------------------------------------------------------------- */

/* Blocks of a record, in ascending order. One that two entries share counts as
 * used when the later of them was. */
static void add_victim(cel_instr_graph *graph, cel__victim victim) {
  while (graph->victims.n > 0) {
    cel__victim *last = &cel_vec_last(&graph->victims);
    uint64_t end = last->first + last->count;
    if (last->record != victim.record || end < victim.first) break;
    if (end == victim.first) {
      if (last->used_at != victim.used_at) break;
      last->count += victim.count;
      return;
    }
    if (victim.used_at > last->used_at) {
      if (--last->count == 0) graph->victims.n--;
    } else {
      ++victim.first;
      if (--victim.count == 0) return;
    }
  }
  cel_vec_push(&graph->victims, victim);
}

static void add_blocks(cel_instr_graph *graph, cel__record *record) {
  int64_t per_block = (int64_t)(graph->config.block / graph->config.grain);
  cel_box all = grains_of(graph, 0, record->made.reserve);
  cel_map_query(record->grains, &all, &graph->grains);
  for (uint32_t i = 0; i < graph->grains.n; ++i) {
    const cel_map_entry *at = &graph->grains.at[i];
    if (at->value == 0) continue;
    int64_t first = at->box.min[0] / per_block;
    int64_t end = (at->box.max[0] - 1) / per_block + 1;
    add_victim(graph, (cel__victim){record, (uint64_t)first,
                                    (uint64_t)(end - first), at->value});
  }
}

/* The one used least lately first, of such the one that was made first, and of
 * its blocks the last: programs begin with the first. */
static int compare_victims(const void *left, const void *right) {
  const cel__victim *a = left, *b = right;
  if (a->used_at != b->used_at) return a->used_at < b->used_at ? -1 : 1;
  uint64_t x = a->record->made.id, y = b->record->made.id;
  if (x != y) return x < y ? -1 : 1;
  return a->first > b->first ? -1 : a->first < b->first;
}

/* All that is not used now, in the order in which it should go. */
static void find_victims(cel_instr_graph *graph, int32_t memory) {
  cel__room *room = &graph->rooms[memory];
  cel_vec_clear(&graph->victims);
  for (uint32_t i = 0; i < room->records.n; ++i) {
    cel__record *record = room->records.at[i];
    if (record->whole)
      add_victim(graph, (cel__victim){record, 0, 1, record->used_at});
    else
      add_blocks(graph, record);
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < graph->victims.n; ++i)
    if (graph->victims.at[i].used_at < graph->now)
      graph->victims.at[n++] = graph->victims.at[i];
  graph->victims.n = n;
  if (n > 1)
    qsort(graph->victims.at, n, sizeof *graph->victims.at, compare_victims);
}

/* ---- spilling ------------------------------------------------------------ */

static void warn(cel_instr_graph *graph, const cel__record *record,
                 uint64_t bytes) {
  if (graph->warned || graph->config.warn == NULL) return;
  graph->warned = true;
  const char *name = record->made.buffer->name;
  char text[512], amount[CEL_AMOUNT_TEXT], all[CEL_AMOUNT_TEXT];
  cel_amount_text(bytes, amount, sizeof amount);
  cel_amount_text(room_of(graph, record)->capacity, all, sizeof all);
  snprintf(text, sizeof text,
           "the memory of device %d is full (%s): %s of buffer %s go to host "
           "memory until they are needed, and whatever is used least lately "
           "after that; the run goes on, more slowly",
           cel__device_in(graph, record->made.memory), all, amount,
           name != NULL ? name : "unnamed");
  graph->config.warn(graph->config.context, graph->plan.command->task, text);
}

/* `count` blocks from `first` on. */
static void spill_blocks(cel_instr_graph *graph, cel__record *record,
                         uint64_t first, uint64_t count) {
  const cel_allocation *a = &record->made;
  uint64_t block = graph->config.block, begin = first * block;
  uint64_t end = begin + count * block;
  if (end > a->reserve) end = a->reserve;
  uint64_t row = cel__memory_row(a->buffer, &a->layout);
  cel_box rows = a->layout;
  rows.min[0] = a->layout.min[0] + (int64_t)(begin / row);
  rows.max[0] = a->layout.min[0] + (int64_t)((end + row - 1) / row);
  warn(graph, record, end - begin);
  cel__coherence_spill(graph, record, &rows);
  cel__memory_decommit(graph, record, begin, end);
}

/* Lets so much of the victim go that there is room for `bytes`, or all. */
static void spill(cel_instr_graph *graph, const cel__victim *victim,
                  uint64_t bytes) {
  cel__room *room = room_of(graph, victim->record);
  if (victim->record->whole) {
    warn(graph, victim->record, victim->record->made.reserve);
    cel__memory_spill(graph, victim->record);
    return;
  }
  for (uint64_t left = victim->count; left > 0;) {
    uint64_t used = room->used + room->awaited;
    if (used + bytes <= room->capacity) break;
    uint64_t over = used + bytes - room->capacity;
    uint64_t n = (over + graph->config.block - 1) / graph->config.block;
    if (n > left) n = left;
    left -= n;
    spill_blocks(graph, victim->record, victim->first + left, n);
  }
}

bool cel__room_make(cel_instr_graph *graph, int32_t memory, uint64_t bytes) {
  if (cel__room_has(graph, memory, bytes)) return true;
  if (bytes > graph->rooms[memory].capacity) return false;
  cel__room_touch(graph, memory);
  find_victims(graph, memory);
  for (uint32_t i = 0; i < graph->victims.n; ++i) {
    if (cel__room_has(graph, memory, bytes)) break;
    spill(graph, &graph->victims.at[i], bytes);
  }
  return cel__room_has(graph, memory, bytes);
}
