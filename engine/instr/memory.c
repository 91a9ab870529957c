#include <stdio.h>
#include <string.h>

#include "instr/state.h"

enum { MOVES = 16 }; /* of a buffer's contents in one memory: worth a word */

/* ---- records ------------------------------------------------------------- */

void cel__record_destroy(cel__record *record) {
  if (record->track != NULL) cel_track_destroy(record->track);
  cel_region_release(&record->committed);
  if (record->grains != NULL) cel_map_destroy(record->grains);
  cel_free(record);
}

cel_track *cel__record_track(cel_instr_graph *graph, cel__record *record) {
  if (record->floor != graph->front.floor) {
    cel_track_floor(record->track, graph->front.floor);
    record->floor = graph->front.floor;
  }
  return record->track;
}

cel__held *cel__held_new(cel_instr_graph *graph, const cel_buffer *buffer) {
  while (graph->buffers.n <= buffer->id)
    cel_vec_push(&graph->buffers, (cel__held){0});
  cel__held *held = &graph->buffers.at[buffer->id];
  uint64_t first = buffer->init != NULL ? 1ull << CEL_MEMORY_INIT : 0;
  held->buffer = buffer;
  held->current = cel_map_create(&buffer->extent, first);
  held->in = cel_alloc_zero((size_t)graph->memories * sizeof(cel__backing));
  return held;
}

void cel__held_release(cel_instr_graph *graph, cel__held *held) {
  if (held->buffer == NULL) return;
  for (int32_t m = 0; m < graph->memories; ++m) {
    cel__backing *in = &held->in[m];
    for (uint32_t i = 0; i < in->live.n; ++i)
      cel__record_destroy(in->live.at[i].record);
    cel_vec_release(&in->live);
    cel_vec_release(&in->wants);
  }
  cel_map_destroy(held->current);
  cel_free(held->in);
  *held = (cel__held){0};
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
  if (in->recent != NULL && cel_box_covers(&in->recent->made.layout, box))
    return in->recent;
  cel__layouts_each(i, &in->live, box) {
    if (!cel_box_covers(&in->live.at[i].layout, box)) continue;
    return in->recent = in->live.at[i].record;
  }
  return NULL;
}

cel__record *cel__memory_find(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box) {
  return find_in(&cel__held_of(graph, buffer)->in[memory], box);
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

bool cel__memory_want(cel_instr_graph *graph, const cel_buffer *buffer,
                      int32_t memory, const cel_box *box) {
  cel__backing *in = &cel__held_of(graph, buffer)->in[memory];
  if (find_in(in, box) != NULL) return false;
  cel__layouts_each(i, &in->wants, box) {
    if (cel_box_covers(&in->wants.at[i].layout, box)) return false;
  }
  if (in->wants.n == 0)
    cel_vec_push(&graph->wanted, (cel__backing_id){buffer->id, memory});
  cel_box layout = roomy_layout(buffer, box);
  while (widen(&in->wants, &layout)) {
  }
  cel__layouts_remove_covered(&in->wants, &layout);
  cel__layouts_insert(&in->wants, &layout, NULL);
  return true;
}

void cel__memory_forget(cel_instr_graph *graph) {
  for (uint32_t i = 0; i < graph->wanted.n; ++i) {
    cel__backing_id id = graph->wanted.at[i];
    cel__held *held = &graph->buffers.at[id.buffer];
    if (held->buffer != NULL) cel__layouts_clear(&held->in[id.memory].wants);
  }
  cel_vec_clear(&graph->wanted);
}

/* ---- growth -------------------------------------------------------------- */

static cel__record *record_new(cel_instr_graph *graph, const cel_buffer *buffer,
                               int32_t memory, const cel_box *layout) {
  cel__record *record = cel_alloc_zero(sizeof *record);
  record->made.id = graph->next_allocation++;
  record->made.memory = memory;
  record->made.buffer = buffer;
  record->made.layout = *layout;
  record->made.reserve =
      (uint64_t)cel_box_volume(layout) * buffer->element_size;
  record->whole =
      graph->config.grain == 0 || record->made.reserve < graph->config.whole;
  const cel_task *task = graph->plan.command->task;
  cel_instr *instr =
      cel__instr_begin(graph, CEL_INSTR_ALLOC, task, CEL__PRIORITY_MEMORY);
  instr->memory.allocation = &record->made;
  cel__room_enter(graph, record);
  if (record->whole) cel__room_take(graph, record, 0, record->made.reserve);
  record->track = cel_track_create(layout, instr->id);
  record->floor = graph->front.floor;
  cel__instr_end(graph, instr);
  return record;
}

static void emit_free(cel_instr_graph *graph, cel__record *record) {
  const cel_task *task = graph->plan.command->task;
  cel_instr *instr =
      cel__instr_begin(graph, CEL_INSTR_FREE, task, CEL__PRIORITY_RUN);
  instr->memory.allocation = &record->made;
  cel_track_users(cel__record_track(graph, record), &record->made.layout,
                  &graph->deps);
  cel__room_leave(graph, record, instr->id);
  cel__instr_end(graph, instr);
  cel__record_bury(graph, record);
}

void cel__memory_spill(cel_instr_graph *graph, cel__record *record) {
  const cel_allocation *a = &record->made;
  cel__backing *in = &cel__held_of(graph, a->buffer)->in[a->memory];
  cel__coherence_spill(graph, record, &a->layout);
  uint32_t i = cel__layouts_first(&in->live, &a->layout);
  while (in->live.at[i].record != record) ++i;
  cel__layouts_remove(&in->live, i);
  if (in->recent == record) in->recent = NULL;
  emit_free(graph, record);
}

/* Takes over what is current in `old`, but for what this command overwrites
 * unread: that counts as current here until then, and nobody looks. */
static void move_contents(cel_instr_graph *graph, cel__held *held,
                          cel__record *old, cel__record *fresh) {
  cel_region *keep = &graph->kept;
  cel_region_clear(keep);
  cel_map_query(held->current, &old->used, &graph->entries);
  for (uint32_t i = 0; i < graph->entries.n; ++i)
    if ((graph->entries.at[i].value >> old->made.memory & 1) != 0)
      cel_region_add(keep, &graph->entries.at[i].box);
  cel_region_subtract(keep, keep, &graph->discarded);
  cel__memory_commit(graph, fresh, keep);
  for (uint32_t i = 0; i < keep->n; ++i)
    cel__copy(graph, old, fresh, &keep->at[i],
              &(cel__manner){.priority = CEL__PRIORITY_MEMORY});
  fresh->used = cel_box_hull(&fresh->used, &old->used);
}

/* Spills what meets the layout and differs from it. */
static void spill_meeting(cel_instr_graph *graph, cel__backing *in,
                          const cel_box *layout) {
  for (uint32_t i = cel__layouts_first(&in->live, layout);
       i < in->live.n && in->live.at[i].layout.min[1] < layout->max[1];) {
    const cel_box *other = &in->live.at[i].layout;
    if (cel_box_meets(other, layout) && !cel_box_equal(other, layout))
      cel__memory_spill(graph, in->live.at[i].record);
    else
      ++i;
  }
}

/* At most so much memory would a new allocation take at once: all if it is
 * whole, else what the contents take that move into it. */
static uint64_t takes_at_once(const cel_instr_graph *graph,
                              const cel__backing *in, const cel_buffer *buffer,
                              const cel_box *layout, bool whole) {
  uint64_t row = cel__memory_row(buffer, layout), sum = 0;
  if (whole) return (uint64_t)(layout->max[0] - layout->min[0]) * row;
  cel__layouts_each(i, &in->live, layout) {
    const cel__record *old = in->live.at[i].record;
    if (!cel_box_covers(layout, &old->made.layout)) continue;
    int64_t rows = old->whole ? old->used.max[0] - old->used.min[0]
                              : cel_region_volume(&old->committed);
    sum +=
        (uint64_t)rows * row + 2 * graph->config.grain * (old->committed.n + 1);
  }
  return sum;
}

/* Where room is short, contents do not move into a new allocation, but to the
 * host; what it takes at once has room then, or the answer is false. */
static bool make_room(cel_instr_graph *graph, cel__backing *in, int32_t memory,
                      const cel_buffer *buffer, const cel_box *layout) {
  const cel_instr_graph_config *c = &graph->config;
  if (graph->rooms[memory].capacity == 0) return true;
  uint64_t bytes = (uint64_t)cel_box_volume(layout) * buffer->element_size;
  bool whole = c->grain == 0 || bytes < c->whole;
  bytes = takes_at_once(graph, in, buffer, layout, whole);
  if (cel__room_has(graph, memory, bytes)) return true;
  spill_meeting(graph, in, layout);
  return !whole || cel__room_make(graph, memory, bytes);
}

/* Contents have moved to a larger allocation once more. */
static void advise(cel_instr_graph *graph, const cel_buffer *buffer,
                   int32_t moves) {
  const cel_instr_graph_config *c = &graph->config;
  if (moves < MOVES || !c->advise || graph->advised || c->warn == NULL) return;
  graph->advised = true;
  char text[512];
  snprintf(text, sizeof text,
           "the memory of buffer %s was allocated anew %d times, and what it "
           "held was copied each time, because tasks touched ever more of it: "
           "reserve what will be needed, as celer.buffer(..., {reserve = "
           "true}) does for all of it",
           buffer->name != NULL ? buffer->name : "unnamed", (int)moves);
  c->warn(c->context, graph->plan.command->task, text);
}

/* A new allocation around `box`, all live ones that it would meet, and what is
 * wanted there. */
static cel__record *grow(cel_instr_graph *graph, const cel_buffer *buffer,
                         int32_t memory, const cel_box *box) {
  cel__held *held = cel__held_of(graph, buffer);
  cel__backing *in = &held->in[memory];
  cel_box layout = roomy_layout(buffer, box);
  while (widen(&in->wants, &layout) || widen(&in->live, &layout)) {
  }
  if (!make_room(graph, in, memory, buffer, &layout)) return NULL;
  cel__layouts_remove_covered(&in->wants, &layout);
  cel__record *fresh = record_new(graph, buffer, memory, &layout);
  fresh->used = *box;
  bool asked = false;
  for (uint32_t i = cel__layouts_first(&in->live, &layout);
       i < in->live.n && in->live.at[i].layout.min[1] < layout.max[1];) {
    cel__record *old = in->live.at[i].record;
    if (!cel_box_covers(&layout, &old->made.layout)) {
      ++i;
      continue;
    }
    if (!asked) cel__plan_discards(graph, buffer, &graph->discarded);
    asked = true;
    move_contents(graph, held, old, fresh);
    if (graph->kept.n > 0) advise(graph, buffer, ++in->moves);
    cel__layouts_remove(&in->live, i);
    emit_free(graph, old);
  }
  cel__layouts_insert(&in->live, &layout, fresh);
  return in->recent = fresh;
}

cel__record *cel__memory_need(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box) {
  cel_assert(!cel_box_is_empty(box));
  cel__record *record = cel__memory_find(graph, buffer, memory, box);
  if (record == NULL) return grow(graph, buffer, memory, box);
  record->used = cel_box_hull(&record->used, box);
  return record;
}

bool cel__memory_need_exactly(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *layout) {
  cel__backing *in = &cel__held_of(graph, buffer)->in[memory];
  cel__record *record = find_in(in, layout);
  if (record != NULL && cel_box_equal(&record->made.layout, layout))
    return true;
  spill_meeting(graph, in, layout);
  if (!make_room(graph, in, memory, buffer, layout)) return false;
  record = record_new(graph, buffer, memory, layout);
  cel__layouts_insert(&in->live, layout, record);
  in->recent = record;
  return true;
}

void cel__memory_drop(cel_instr_graph *graph, const cel_command *command) {
  const cel_buffer *buffer = command->task->freed;
  if (buffer->id >= graph->buffers.n) return;
  cel__held *held = &graph->buffers.at[buffer->id];
  if (held->buffer == NULL) return;
  for (int32_t m = 0; m < graph->memories; ++m) {
    cel__backing *in = &held->in[m];
    for (uint32_t i = 0; i < in->live.n; ++i)
      emit_free(graph, in->live.at[i].record);
    cel__layouts_clear(&in->live);
  }
  cel__held_release(graph, held);
}
