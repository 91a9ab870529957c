#include <stdio.h>

#include "instr/memory.h"
#include "instr/memory_state.h"

enum { MOVES = 16 }; /* of a buffer's contents in one memory: worth a word */

/* ---- records ------------------------------------------------------------- */

static cel__backed *mention(cel__memories *all, const cel_buffer *buffer) {
  while (all->buffers.n <= buffer->id)
    cel_vec_push(&all->buffers, (cel__backed){0});
  cel__backed *backed = &all->buffers.at[buffer->id];
  backed->buffer = buffer;
  backed->in = cel_alloc_zero((size_t)all->count * sizeof(cel__backing));
  return backed;
}

/* The buffer in one memory; its state is made at first mention. */
static inline cel__backing *
backing_of(cel__memories *all, const cel_buffer *buffer, int32_t memory) {
  const cel__backed *backed = all->buffers.at + buffer->id;
  if (buffer->id >= all->buffers.n || backed->buffer == NULL)
    backed = mention(all, buffer);
  return &backed->in[memory];
}

/* What the record has beside what emission frees. */
static void record_release(cel__record *record) {
  cel_region_release(&record->committed);
  if (record->grains != NULL) cel_map_destroy(record->grains);
}

static void backed_release(const cel__memories *all, cel__backed *backed) {
  if (backed->buffer == NULL) return;
  for (int32_t m = 0; m < all->count; ++m) {
    cel__backing *in = &backed->in[m];
    for (uint32_t i = 0; i < in->live.n; ++i) {
      cel__record *record = in->live.at[i].record;
      record_release(record);
      cel__tracked_destroy(&record->tracked);
    }
    cel_vec_release(&in->live);
    cel_vec_release(&in->wants);
  }
  cel_free(backed->in);
  *backed = (cel__backed){0};
}

/* ---- demand -------------------------------------------------------------- */

cel_box cel__memory_layout(const cel_buffer *buffer, const cel_box *box) {
  cel_box layout = *box;
  layout.min[0] = buffer->extent.min[0];
  layout.max[0] = buffer->extent.max[0];
  return layout;
}

/* The same, with what the buffer is to have room for. */
static cel_box roomy_layout(const cel_buffer *buffer, const cel_box *box) {
  cel_box layout = cel__memory_layout(buffer, box);
  return cel_box_meets(&layout, &buffer->reserve)
             ? cel_box_hull(&layout, &buffer->reserve)
             : layout;
}

static cel__record *find_in(cel__backing *in, const cel_box *box) {
  if (in->recent != NULL &&
      cel_box_covers(&in->recent->tracked.made.layout, box))
    return in->recent;
  cel__layouts_each(i, &in->live, box) {
    if (!cel_box_covers(&in->live.at[i].layout, box)) continue;
    return in->recent = in->live.at[i].record;
  }
  return NULL;
}

cel__record *cel__record_find(cel__memories *all, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box) {
  return find_in(backing_of(all, buffer, memory), box);
}

cel__tracked *cel__memory_find(cel__memories *all, const cel_buffer *buffer,
                               int32_t memory, const cel_box *box) {
  cel__record *record = cel__record_find(all, buffer, memory, box);
  return record != NULL ? &record->tracked : NULL;
}

cel__tracked *cel__memory_meets(cel__memories *all, const cel_buffer *buffer,
                                int32_t memory, const cel_box *box,
                                uint32_t *next, cel_box *part) {
  const cel__layouts *live = &backing_of(all, buffer, memory)->live;
  uint32_t i = *next > 0 ? *next : cel__layouts_first(live, box);
  for (; i < live->n && live->at[i].layout.min[1] < box->max[1]; ++i) {
    if (!cel_box_intersect(box, &live->at[i].layout, part)) continue;
    *next = i + 1;
    return &live->at[i].record->tracked;
  }
  return NULL;
}

/* Widens *layout by the first of `layouts` that it meets and does not cover;
 * false when there is none. */
static bool widen(const cel__layouts *layouts, cel_box *layout) {
  cel__layouts_each(i, layouts, layout) {
    const cel_box *other = &layouts->at[i].layout;
    if (!cel_box_meets(other, layout) || cel_box_covers(layout, other))
      continue;
    *layout = cel_box_hull(layout, other);
    return true;
  }
  return false;
}

bool cel__memory_want(cel__memories *all, const cel_buffer *buffer,
                      int32_t memory, const cel_box *box) {
  cel__backing *in = backing_of(all, buffer, memory);
  if (find_in(in, box) != NULL) return false;
  cel__layouts_each(i, &in->wants, box) {
    if (cel_box_covers(&in->wants.at[i].layout, box)) return false;
  }
  if (in->wants.n == 0)
    cel_vec_push(&all->wanted, (cel__backing_id){buffer->id, memory});
  cel_box layout = roomy_layout(buffer, box);
  while (widen(&in->wants, &layout)) {
  }
  cel__layouts_remove_covered(&in->wants, &layout);
  cel__layouts_insert(&in->wants, &layout, NULL);
  return true;
}

void cel__memory_forget(cel__memories *all) {
  for (uint32_t i = 0; i < all->wanted.n; ++i) {
    cel__backing_id id = all->wanted.at[i];
    const cel__backed *backed = &all->buffers.at[id.buffer];
    if (backed->buffer != NULL)
      cel__layouts_clear(&backed->in[id.memory].wants);
  }
  cel_vec_clear(&all->wanted);
}

/* ---- growth -------------------------------------------------------------- */

static cel__record *record_new(cel__memories *all, const cel_buffer *buffer,
                               int32_t memory, const cel_box *layout) {
  cel__record *record = cel_alloc_zero(sizeof *record);
  record->tracked.made.id = all->next_allocation++;
  record->tracked.made.memory = memory;
  record->tracked.made.buffer = buffer;
  record->tracked.made.layout = *layout;
  record->tracked.made.reserve =
      (uint64_t)cel_box_volume(layout) * buffer->element_size;
  record->whole = all->config->grain == 0 ||
                  record->tracked.made.reserve < all->config->whole;
  cel__room_enter(all, record);
  if (record->whole)
    cel__room_take(all, record, 0, record->tracked.made.reserve);
  cel__room_follow(all, record);
  cel__emit_alloc(all->emission, &record->tracked);
  return record;
}

/* The record is nobody's then but emission's. Returns the FREE's id. */
static uint64_t free_record(cel__memories *all, cel__record *record) {
  uint64_t id = cel__emit_free(all->emission, &record->tracked);
  ++all->freed;
  cel__room_leave(all, record, id);
  record_release(record);
  return id;
}

void cel__record_spill(cel__memories *all, cel__record *record) {
  const cel_allocation *a = &record->tracked.made;
  cel__backing *in = backing_of(all, a->buffer, a->memory);
  all->keeper->save(all->keeper->context, &record->tracked, &record->used);
  uint32_t i = cel__layouts_first(&in->live, &a->layout);
  while (in->live.at[i].record != record) ++i;
  cel__layouts_remove(&in->live, i);
  if (in->recent == record) in->recent = NULL;
  free_record(all, record);
}

/* Takes over what is current in `old`, but for what this command overwrites
 * unread: that counts as current here until then, and nobody looks. */
static void move_contents(cel__memories *all, cel__record *old,
                          cel__record *fresh) {
  cel_region *keep = &all->moving;
  all->keeper->current(all->keeper->context, &old->tracked, &old->used, keep);
  cel_region_subtract(keep, keep, &all->discarded);
  cel__memory_commit(all, &fresh->tracked, keep);
  for (uint32_t i = 0; i < keep->n; ++i)
    cel__emit_copy(all->emission, &old->tracked, &fresh->tracked, &keep->at[i],
                   CEL__PRIORITY_MEMORY);
  fresh->used = cel_box_hull(&fresh->used, &old->used);
}

/* Spills what meets the layout and differs from it. */
static void spill_meeting(cel__memories *all, cel__backing *in,
                          const cel_box *layout) {
  for (uint32_t i = cel__layouts_first(&in->live, layout);
       i < in->live.n && in->live.at[i].layout.min[1] < layout->max[1];) {
    const cel_box *other = &in->live.at[i].layout;
    if (cel_box_meets(other, layout) && !cel_box_equal(other, layout))
      cel__record_spill(all, in->live.at[i].record);
    else
      ++i;
  }
}

/* At most so much memory would a new allocation take at once: all if it is
 * whole, else what the contents take that move into it. */
static uint64_t takes_at_once(const cel__memories *all, const cel__backing *in,
                              const cel_buffer *buffer, const cel_box *layout,
                              bool whole) {
  uint64_t row = cel__memory_row(buffer, layout), sum = 0;
  if (whole) return (uint64_t)(layout->max[0] - layout->min[0]) * row;
  cel__layouts_each(i, &in->live, layout) {
    const cel__record *old = in->live.at[i].record;
    if (!cel_box_covers(layout, &old->tracked.made.layout)) continue;
    int64_t rows = old->whole ? old->used.max[0] - old->used.min[0]
                              : cel_region_volume(&old->committed);
    sum +=
        (uint64_t)rows * row + 2 * all->config->grain * (old->committed.n + 1);
  }
  return sum;
}

/* Where room is short, contents do not move into a new allocation, but to the
 * host; what it takes at once has room then, or the answer is false. */
static bool make_room(cel__memories *all, cel__backing *in, int32_t memory,
                      const cel_buffer *buffer, const cel_box *layout) {
  const cel_instr_graph_config *c = all->config;
  if (all->room[memory].capacity == 0) return true;
  uint64_t bytes = (uint64_t)cel_box_volume(layout) * buffer->element_size;
  bool whole = c->grain == 0 || bytes < c->whole;
  bytes = takes_at_once(all, in, buffer, layout, whole);
  if (cel__room_has(all, memory, bytes)) return true;
  spill_meeting(all, in, layout);
  return !whole || cel__room_make(all, memory, bytes);
}

/* Contents have moved to a larger allocation once more. */
static void advise(cel__memories *all, const cel_buffer *buffer,
                   int32_t moves) {
  const cel_instr_graph_config *c = all->config;
  if (moves < MOVES || !c->advise || all->advised || c->warn == NULL) return;
  all->advised = true;
  char text[512];
  snprintf(text, sizeof text,
           "the memory of buffer %s was allocated anew %d times, and what it "
           "held was copied each time, because tasks touched ever more of it: "
           "reserve what will be needed, as celer.buffer(..., {reserve = "
           "true}) does for all of it",
           buffer->name != NULL ? buffer->name : "unnamed", (int)moves);
  c->warn(c->context, all->plan->command->task, text);
}

/* A new allocation around `box`, all live ones that it would meet, and what is
 * wanted there. */
static cel__record *grow(cel__memories *all, const cel_buffer *buffer,
                         int32_t memory, const cel_box *box) {
  cel__backing *in = backing_of(all, buffer, memory);
  cel_box layout = roomy_layout(buffer, box);
  while (widen(&in->wants, &layout) || widen(&in->live, &layout)) {
  }
  if (!make_room(all, in, memory, buffer, &layout)) return NULL;
  cel__layouts_remove_covered(&in->wants, &layout);
  cel__record *fresh = record_new(all, buffer, memory, &layout);
  fresh->used = *box;
  bool asked = false;
  for (uint32_t i = cel__layouts_first(&in->live, &layout);
       i < in->live.n && in->live.at[i].layout.min[1] < layout.max[1];) {
    cel__record *old = in->live.at[i].record;
    if (!cel_box_covers(&layout, &old->tracked.made.layout)) {
      ++i;
      continue;
    }
    if (!asked) cel__plan_discards(all->plan, buffer, &all->discarded);
    asked = true;
    move_contents(all, old, fresh);
    if (all->moving.n > 0) advise(all, buffer, ++in->moves);
    cel__layouts_remove(&in->live, i);
    free_record(all, old);
  }
  cel__layouts_insert(&in->live, &layout, fresh);
  return in->recent = fresh;
}

cel__tracked *cel__memory_need(cel__memories *all, const cel_buffer *buffer,
                               int32_t memory, const cel_box *box) {
  cel_assert(!cel_box_is_empty(box));
  cel__record *record = cel__record_find(all, buffer, memory, box);
  if (record == NULL)
    record = grow(all, buffer, memory, box);
  else
    record->used = cel_box_hull(&record->used, box);
  return record != NULL ? &record->tracked : NULL;
}

bool cel__memory_need_exactly(cel__memories *all, const cel_buffer *buffer,
                              int32_t memory, const cel_box *layout) {
  cel__backing *in = backing_of(all, buffer, memory);
  cel__record *record = find_in(in, layout);
  if (record != NULL && cel_box_equal(&record->tracked.made.layout, layout))
    return true;
  spill_meeting(all, in, layout);
  if (!make_room(all, in, memory, buffer, layout)) return false;
  record = record_new(all, buffer, memory, layout);
  cel__layouts_insert(&in->live, layout, record);
  in->recent = record;
  return true;
}

/* ---- life ---------------------------------------------------------------- */

void cel__memory_drop(cel__memories *all, const cel_buffer *buffer) {
  if (buffer->id >= all->buffers.n) return;
  cel__backed *backed = &all->buffers.at[buffer->id];
  if (backed->buffer == NULL) return;
  for (int32_t m = 0; m < all->count; ++m) {
    cel__backing *in = &backed->in[m];
    for (uint32_t i = 0; i < in->live.n; ++i) {
      cel__record *record = in->live.at[i].record;
      cel__room_freed(all, record, free_record(all, record));
    }
    cel__layouts_clear(&in->live);
  }
  backed_release(all, backed);
}

cel__memories *cel__memory_create(const cel_instr_graph_config *config,
                                  int32_t count, cel__emission *emission,
                                  cel__plan *plan) {
  cel__memories *all =
      cel_alloc_zero(sizeof *all + (size_t)count * sizeof(cel__room));
  all->config = config;
  all->count = count;
  all->emission = emission;
  all->plan = plan;
  all->next_allocation = 1;
  cel__rooms_init(all);
  return all;
}

uint64_t cel__memory_changes(const cel__memories *all) {
  return all->next_allocation + all->freed;
}

void cel__memory_ask(cel__memories *all, const cel__keeper *keeper) {
  all->keeper = keeper;
}

void cel__memory_destroy(cel__memories *all) {
  for (uint32_t i = 0; i < all->buffers.n; ++i)
    backed_release(all, &all->buffers.at[i]);
  cel_vec_release(&all->buffers);
  cel_vec_release(&all->wanted);
  cel__rooms_release(all);
  cel_region_release(&all->moving);
  cel_region_release(&all->discarded);
  cel_region_release(&all->together);
  cel_region_release(&all->rows);
  cel_region_release(&all->fresh);
  cel_region_release(&all->units);
  cel_vec_release(&all->smallest);
  cel_free(all);
}

size_t cel__memory_bytes(const cel__memories *all) {
  size_t sum = sizeof *all + all->buffers.cap * sizeof(cel__backed);
  for (uint32_t b = 0; b < all->buffers.n; ++b) {
    if (all->buffers.at[b].buffer == NULL) continue;
    for (int32_t m = 0; m < all->count; ++m) {
      const cel__backing *in = &all->buffers.at[b].in[m];
      sum += sizeof *in +
             (in->live.cap + in->wants.cap) * sizeof(cel__layout_entry);
      for (uint32_t i = 0; i < in->live.n; ++i) {
        const cel__record *record = in->live.at[i].record;
        sum += sizeof *record + record->committed.cap * sizeof(cel_box) +
               cel__tracked_bytes(&record->tracked);
      }
    }
  }
  return sum;
}

static void check_layouts(const cel__layouts *layouts) {
  for (uint32_t i = 0; i < layouts->n; ++i) {
    const cel_box *box = &layouts->at[i].layout;
    cel_assert(!cel_box_is_empty(box));
    cel_assert(box->max[1] - box->min[1] <= layouts->widest);
    for (uint32_t k = i + 1; k < layouts->n; ++k) {
      const cel_box *other = &layouts->at[k].layout;
      cel_assert(other->min[1] >= box->min[1]);
      if (other->min[1] >= box->max[1]) break;
      cel_assert(!cel_box_meets(other, box));
    }
  }
}

static void check_record(const cel__memories *all, const cel__record *record) {
  const cel_allocation *a = &record->tracked.made;
  cel_box layout = cel__memory_layout(a->buffer, &a->layout);
  cel_assert(cel_box_equal(&layout, &a->layout));
  cel_assert(cel_box_covers(&a->layout, &record->used));
  cel_assert(a->id < all->next_allocation);
  cel_assert(a->reserve ==
             (uint64_t)cel_box_volume(&layout) * a->buffer->element_size);
  cel_region_check(&record->committed);
  cel_box rows = cel_region_hull(&record->committed);
  cel_assert(!record->whole || record->committed.n == 0);
  cel_assert(record->committed.n == 0 || (rows.min[0] >= a->layout.min[0] &&
                                          rows.max[0] <= a->layout.max[0]));
  (void)rows;
}

void cel__memory_check(const cel__memories *all) {
  for (uint32_t b = 0; b < all->buffers.n; ++b) {
    const cel__backed *backed = &all->buffers.at[b];
    for (int32_t m = 0; backed->buffer != NULL && m < all->count; ++m) {
      const cel__backing *in = &backed->in[m];
      bool recent = in->recent == NULL;
      check_layouts(&in->live);
      check_layouts(&in->wants);
      cel_assert(in->wants.n == 0 || all->wanted.n > 0);
      for (uint32_t i = 0; i < in->live.n; ++i) {
        const cel__layout_entry *at = &in->live.at[i];
        const cel_allocation *a = &at->record->tracked.made;
        cel_assert(a->buffer == backed->buffer && a->memory == m);
        cel_assert(cel_box_equal(&a->layout, &at->layout));
        check_record(all, at->record);
        recent |= in->recent == at->record;
      }
      cel_assert(recent);
      (void)recent;
    }
  }
  cel__rooms_check(all);
}
