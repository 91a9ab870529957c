#include "instr/state.h"

int32_t cel__device_in(const cel_instr_graph *graph, int32_t memory) {
  if (memory == CEL_MEMORY_HOST) return -1;
  for (int32_t d = 0; d < graph->config.devices; ++d)
    if (graph->config.device_memory[d] == memory) return d;
  return -1;
}

/* Whose end of a copy between memories is a device's: that of the one that has
 * the data. What a GPU reads from another it must ask for first, which takes
 * half as long again for a few bytes, and a share of the way for many. */
static int32_t device_of(const cel_instr_graph *graph, int32_t from,
                         int32_t to) {
  return cel__device_in(graph, from != CEL_MEMORY_HOST ? from : to);
}

/* What waits in one lane keeps its order. */
static void take_turn(cel_instr_graph *graph, uint64_t *last, int32_t memory,
                      uint64_t id) {
  if (last == NULL || memory == CEL_MEMORY_HOST) return;
  if (last[memory] != 0)
    cel_deps_add(&graph->deps, last[memory], CEL_DEP_ORDER);
  last[memory] = id;
}

void cel__copy(cel_instr_graph *graph, cel__record *from, cel__record *to,
               const cel_box *box, const cel__manner *manner) {
  cel_instr *instr = cel__instr_begin(
      graph, CEL_INSTR_COPY, graph->plan.command->task, manner->priority);
  instr->device = device_of(graph, from->made.memory, to->made.memory);
  instr->copy.from = &from->made;
  instr->copy.to = &to->made;
  instr->copy.box = *box;
  take_turn(graph, manner->last_out, from->made.memory, instr->id);
  take_turn(graph, manner->last_in, to->made.memory, instr->id);
  cel_track_read(cel__record_track(graph, from), box, instr->id, &graph->deps);
  cel_track_write(cel__record_track(graph, to), box, instr->id, &graph->deps);
  cel__instr_end(graph, instr);
}

/* The initial contents of a box, made in host memory. */
static void stage_init(cel_instr_graph *graph, const cel_buffer *buffer,
                       const cel_box *box, int32_t priority) {
  cel__record *host = cel__memory_need(graph, buffer, CEL_MEMORY_HOST, box);
  cel_region_assign(&graph->kept, box, 1);
  cel__memory_commit(graph, host, &graph->kept);
  cel_instr *instr = cel__instr_begin(graph, CEL_INSTR_INIT,
                                      graph->plan.command->task, priority);
  instr->copy.to = &host->made;
  instr->copy.box = *box;
  cel_track_write(cel__record_track(graph, host), box, instr->id, &graph->deps);
  cel__instr_end(graph, instr);
  cel_map_update(cel__held_of(graph, buffer)->current, box,
                 1ull << CEL_MEMORY_HOST);
}

/* Where to copy from into `to`: the next device after it in a circle, so that
 * not all read from the first; else the host. */
static int32_t source_of(const cel_instr_graph *graph, uint64_t where,
                         int32_t to, const cel__manner *manner) {
  uint64_t devices = where & ~1ull;
  if ((devices & manner->from) != 0) devices &= manner->from;
  for (int32_t i = 1; i < graph->memories && devices != 0; ++i) {
    int32_t m = (to + i) % graph->memories;
    if ((devices >> m & 1) != 0) return m;
  }
  cel_assert((where & 1) != 0);
  return CEL_MEMORY_HOST;
}

/* Notes what of `region` is current somewhere, but not in `memory`; what is
 * nowhere was never written, and any contents will do. */
static void find_lacking(cel_instr_graph *graph, const cel__held *held,
                         int32_t memory, const cel_region *region) {
  cel_vec_clear(&graph->lacking);
  for (uint32_t b = 0; b < region->n; ++b) {
    uint64_t only;
    if (cel_map_holds(held->current, &region->at[b], &only)) {
      if (only != 0 && (only >> memory & 1) == 0)
        cel_vec_push(&graph->lacking, (cel_map_entry){region->at[b], only});
      continue;
    }
    cel_map_query(held->current, &region->at[b], &graph->entries);
    for (uint32_t i = 0; i < graph->entries.n; ++i) {
      uint64_t where = graph->entries.at[i].value;
      if (where != 0 && (where >> memory & 1) == 0)
        cel_vec_push(&graph->lacking, graph->entries.at[i]);
    }
  }
}

bool cel__coherence_lacks(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region) {
  const cel__held *held = cel__held_of(graph, buffer);
  for (uint32_t b = 0; b < region->n; ++b) {
    cel_map_query(held->current, &region->at[b], &graph->entries);
    for (uint32_t i = 0; i < graph->entries.n; ++i) {
      uint64_t where = graph->entries.at[i].value;
      if ((where >> CEL_MEMORY_ARRIVED & 1) != 0) return true;
      if (where != 0 && (where >> memory & 1) == 0) return true;
    }
  }
  return false;
}

/* Makes in host memory what of graph->lacking is still initial contents; then
 * that is where it comes from. */
static void stage_lacking(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t priority) {
  cel_region *boxes = &graph->boxes;
  cel_region_clear(boxes);
  for (uint32_t i = 0; i < graph->lacking.n; ++i) {
    cel_map_entry *entry = &graph->lacking.at[i];
    if (entry->value >> CEL_MEMORY_INIT == 0) continue;
    cel_region_add(boxes, &entry->box);
    entry->value = 1ull << CEL_MEMORY_HOST;
  }
  for (uint32_t b = 0; b < boxes->n; ++b)
    cel__memory_want(graph, buffer, CEL_MEMORY_HOST, &boxes->at[b]);
  for (uint32_t b = 0; b < boxes->n; ++b)
    stage_init(graph, buffer, &boxes->at[b], priority);
}

void cel__coherence_stage(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          int32_t priority) {
  if (buffer->init == NULL) return;
  find_lacking(graph, cel__held_of(graph, buffer), memory, region);
  stage_lacking(graph, buffer, priority);
}

/* From the host in parts, as messages bring them: each waits for its own. */
static void copy_parts(cel_instr_graph *graph, cel__record *from,
                       cel__record *to, const cel_box *box,
                       const cel__manner *manner) {
  uint64_t bytes = graph->config.large_bytes;
  uint64_t size = from->made.buffer->element_size;
  if (from->made.memory != CEL_MEMORY_HOST ||
      (uint64_t)cel_box_volume(box) * size <= bytes) {
    cel__copy(graph, from, to, box, manner);
    return;
  }
  int64_t step[CEL_DIMS];
  int64_t parts = cel_box_pieces(box, size, bytes, step);
  for (int64_t i = 0; i < parts; ++i) {
    cel_box part = cel_box_piece(box, step, i);
    cel__copy(graph, from, to, &part, manner);
  }
}

/* Copies `box` from wherever allocations in `source` cover parts of it. */
static void copy_from(cel_instr_graph *graph, const cel_buffer *buffer,
                      int32_t source, int32_t memory, const cel_box *box,
                      const cel__manner *manner) {
  cel__held *held = cel__held_of(graph, buffer);
  cel__record *to = cel__memory_find(graph, buffer, memory, box);
  const cel__layouts *live = &held->in[source].live;
  cel__layouts_each(i, live, box) {
    cel_box part;
    if (cel_box_intersect(box, &live->at[i].layout, &part))
      copy_parts(graph, live->at[i].record, to, &part, manner);
  }
}

/* Copies what of graph->lacking comes from `source`; all of it together, so
 * that neighbours travel as one box. */
static void fetch_from(cel_instr_graph *graph, const cel_buffer *buffer,
                       int32_t source, int32_t memory,
                       const cel__manner *manner) {
  cel__held *held = cel__held_of(graph, buffer);
  cel_region *boxes = &graph->boxes;
  cel_region_clear(boxes);
  for (uint32_t i = 0; i < graph->lacking.n; ++i) {
    const cel_map_entry *entry = &graph->lacking.at[i];
    if (source_of(graph, entry->value, memory, manner) != source) continue;
    cel_region_add(boxes, &entry->box);
    cel_map_update(held->current, &entry->box, entry->value | 1ull << memory);
  }
  for (uint32_t b = 0; b < boxes->n; ++b)
    copy_from(graph, buffer, source, memory, &boxes->at[b], manner);
}

void cel__coherence_fetch(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          const cel__manner *manner) {
  find_lacking(graph, cel__held_of(graph, buffer), memory, region);
  if (graph->lacking.n == 0) return;
  if (buffer->init != NULL) stage_lacking(graph, buffer, manner->priority);
  uint64_t sources = 0;
  for (uint32_t i = 0; i < graph->lacking.n; ++i)
    sources |=
        1ull << source_of(graph, graph->lacking.at[i].value, memory, manner);
  for (sources &= ~(1ull << memory); sources != 0; sources &= sources - 1)
    fetch_from(graph, buffer, __builtin_ctzll(sources), memory, manner);
}

/* Where an entry is current besides a memory, in other memories. */
static uint64_t elsewhere(uint64_t where, int32_t memory) {
  return where & ~(1ull << memory | 1ull << CEL_MEMORY_ARRIVED);
}

/* The boxes that are current in the record's memory alone. */
static void find_only(cel_instr_graph *graph, const cel__record *record,
                      const cel_box *box, cel_region *only) {
  int32_t memory = record->made.memory;
  cel_region_clear(only);
  cel_map_query(cel__held_of(graph, record->made.buffer)->current, box,
                &graph->entries);
  for (uint32_t i = 0; i < graph->entries.n; ++i) {
    const cel_map_entry *at = &graph->entries.at[i];
    if ((at->value >> memory & 1) != 0 && elsewhere(at->value, memory) == 0)
      cel_region_add(only, &at->box);
  }
}

/* Nothing of the box is current in the record's memory any more; what was so
 * there alone is in the host's. */
static void leave_memory(cel_instr_graph *graph, const cel__record *record,
                         const cel_box *box) {
  int32_t memory = record->made.memory;
  cel_map *current = cel__held_of(graph, record->made.buffer)->current;
  cel_map_query(current, box, &graph->entries);
  for (uint32_t i = 0; i < graph->entries.n; ++i) {
    const cel_map_entry *at = &graph->entries.at[i];
    if ((at->value >> memory & 1) == 0) continue;
    uint64_t where = elsewhere(at->value, memory);
    cel_map_update(current, &at->box,
                   where != 0 ? where : 1ull << CEL_MEMORY_HOST);
  }
}

static void copy_to_host(cel_instr_graph *graph, cel__record *record,
                         const cel_box *box) {
  cel__record *host =
      cel__memory_find(graph, record->made.buffer, CEL_MEMORY_HOST, box);
  cel_region_assign(&graph->boxes, box, 1);
  cel__memory_commit(graph, host, &graph->boxes);
  cel__copy(graph, record, host, box,
            &(cel__manner){.priority = CEL__PRIORITY_MEMORY});
}

void cel__coherence_spill(cel_instr_graph *graph, cel__record *record,
                          const cel_box *rows) {
  const cel_buffer *buffer = record->made.buffer;
  cel_region *only = &graph->spilled;
  cel_box box;
  if (!cel_box_intersect(&record->used, rows, &box)) return;
  find_only(graph, record, &box, only);
  for (uint32_t b = 0; b < only->n; ++b)
    cel__memory_want(graph, buffer, CEL_MEMORY_HOST, &only->at[b]);
  for (uint32_t b = 0; b < only->n; ++b)
    cel__memory_need(graph, buffer, CEL_MEMORY_HOST, &only->at[b]);
  leave_memory(graph, record, &box);
  for (uint32_t b = 0; b < only->n; ++b)
    copy_to_host(graph, record, &only->at[b]);
}

void cel__coherence_forget(cel_instr_graph *graph, const cel_buffer *buffer,
                           const cel_region *region) {
  cel__held *held = cel__held_of(graph, buffer);
  for (uint32_t b = 0; b < region->n; ++b)
    cel_map_update(held->current, &region->at[b], 0);
}

void cel__coherence_join(cel_instr_graph *graph, const cel_buffer *buffer,
                         int32_t memory, const cel_region *region) {
  cel__held *held = cel__held_of(graph, buffer);
  uint64_t marks = 1ull << memory | 1ull << CEL_MEMORY_ARRIVED;
  for (uint32_t b = 0; b < region->n; ++b) {
    cel_map_query(held->current, &region->at[b], &graph->entries);
    for (uint32_t i = 0; i < graph->entries.n; ++i) {
      const cel_map_entry *at = &graph->entries.at[i];
      cel_map_update(held->current, &at->box, at->value | marks);
    }
  }
}

void cel__coherence_produce(cel_instr_graph *graph, const cel_buffer *buffer,
                            int32_t memory, const cel_region *region,
                            bool arrives) {
  cel__held *held = cel__held_of(graph, buffer);
  uint64_t mark = arrives ? 1ull << CEL_MEMORY_ARRIVED : 0;
  for (uint32_t b = 0; b < region->n; ++b)
    cel_map_update(held->current, &region->at[b], 1ull << memory | mark);
}
