#include "instr/state.h"

/* Whose end of a copy between memories is a device's: the target's, so that
 * the copy is ordered before what waits for it there. */
static int32_t device_of(const cel_instr_graph *graph, int32_t from,
                         int32_t to) {
  int32_t memory = to != CEL_MEMORY_HOST ? to : from;
  if (memory == CEL_MEMORY_HOST) return -1;
  for (int32_t d = 0; d < graph->config.devices; ++d)
    if (graph->config.device_memory[d] == memory) return d;
  return -1;
}

void cel__copy(cel_instr_graph *graph, cel__record *from, cel__record *to,
               const cel_box *box, int32_t priority) {
  cel_instr *instr = cel__instr_begin(graph, CEL_INSTR_COPY,
                                      graph->plan.command->task, priority);
  instr->device = device_of(graph, from->made.memory, to->made.memory);
  instr->copy.from = &from->made;
  instr->copy.to = &to->made;
  instr->copy.box = *box;
  cel_track_read(cel__record_track(graph, from), box, instr->id, &graph->deps);
  cel_track_write(cel__record_track(graph, to), box, instr->id, &graph->deps);
  cel__instr_end(graph, instr);
}

/* The initial contents of a box, made in host memory. */
static void stage_init(cel_instr_graph *graph, const cel_buffer *buffer,
                       const cel_box *box, int32_t priority) {
  cel__record *host = cel__memory_need(graph, buffer, CEL_MEMORY_HOST, box);
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
                         int32_t to) {
  uint64_t devices = where & ~1ull;
  for (int32_t i = 1; i < graph->memories && devices != 0; ++i) {
    int32_t m = (to + i) % graph->memories;
    if ((devices >> m & 1) != 0) return m;
  }
  cel_assert((where & 1) != 0);
  return CEL_MEMORY_HOST;
}

/* What of `region` is current somewhere, but not in `memory`. Where `init` is
 * true only initial contents count, else only the others. */
static void collect_missing(cel_instr_graph *graph, const cel__held *held,
                            int32_t memory, const cel_region *region,
                            bool init) {
  cel_region_clear(&graph->missing);
  for (uint32_t b = 0; b < region->n; ++b) {
    cel_map_query(held->current, &region->at[b], &graph->entries);
    for (uint32_t i = 0; i < graph->entries.n; ++i) {
      uint64_t where = graph->entries.at[i].value;
      bool lacks = where != 0 && (where >> memory & 1) == 0;
      if (lacks && (where >> CEL_MEMORY_INIT != 0) == init)
        cel_region_add(&graph->missing, &graph->entries.at[i].box);
    }
  }
}

/* Copies `box` from wherever allocations in `source` cover parts of it. */
static void copy_from(cel_instr_graph *graph, const cel_buffer *buffer,
                      int32_t source, int32_t memory, const cel_box *box,
                      int32_t priority) {
  cel__held *held = cel__held_of(graph, buffer);
  cel__record *to = cel__memory_find(graph, buffer, memory, box);
  cel__backing *in = &held->in[source];
  for (uint32_t i = 0; i < in->live.n; ++i) {
    cel_box part;
    if (cel_box_intersect(box, &in->live.at[i]->made.layout, &part))
      cel__copy(graph, in->live.at[i], to, &part, priority);
  }
}

/* Copies what of graph->missing is current in `source` and chosen from there;
 * one memory at a time, so that neighbours travel as one box. */
static void fetch_from(cel_instr_graph *graph, const cel_buffer *buffer,
                       int32_t source, int32_t memory, int32_t priority) {
  cel__held *held = cel__held_of(graph, buffer);
  cel_region *sourced = &graph->sourced;
  cel_region_clear(sourced);
  for (uint32_t b = 0; b < graph->missing.n; ++b) {
    cel_map_query(held->current, &graph->missing.at[b], &graph->entries);
    for (uint32_t i = 0; i < graph->entries.n; ++i) {
      const cel_map_entry *entry = &graph->entries.at[i];
      if ((entry->value >> memory & 1) != 0) continue;
      if (source_of(graph, entry->value, memory) != source) continue;
      cel_region_add(sourced, &entry->box);
      cel_map_update(held->current, &entry->box, entry->value | 1ull << memory);
    }
  }
  for (uint32_t b = 0; b < sourced->n; ++b)
    copy_from(graph, buffer, source, memory, &sourced->at[b], priority);
}

static bool is_current(cel_instr_graph *graph, const cel__held *held,
                       int32_t memory, const cel_region *region) {
  for (uint32_t b = 0; b < region->n; ++b) {
    cel_map_query(held->current, &region->at[b], &graph->entries);
    for (uint32_t i = 0; i < graph->entries.n; ++i) {
      uint64_t where = graph->entries.at[i].value;
      if (where != 0 && (where >> memory & 1) == 0) return false;
    }
  }
  return true;
}

static void fetch_init(cel_instr_graph *graph, const cel_buffer *buffer,
                       int32_t memory, const cel_region *region,
                       int32_t priority) {
  const cel__held *held = cel__held_of(graph, buffer);
  collect_missing(graph, held, memory, region, true);
  if (graph->missing.n == 0) return;
  /* Growing the host's allocation uses the scratch regions too. */
  cel_region boxes = {0};
  cel_region_copy(&boxes, &graph->missing);
  for (uint32_t b = 0; b < boxes.n; ++b)
    cel__memory_want(graph, buffer, CEL_MEMORY_HOST, &boxes.at[b]);
  for (uint32_t b = 0; b < boxes.n; ++b)
    stage_init(graph, buffer, &boxes.at[b], priority);
  cel_region_release(&boxes);
}

void cel__coherence_fetch(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          int32_t priority) {
  cel__held *held = cel__held_of(graph, buffer);
  if (is_current(graph, held, memory, region)) return;
  if (buffer->init != NULL) fetch_init(graph, buffer, memory, region, priority);
  collect_missing(graph, held, memory, region, false);
  /* From devices first: the host may be staging what came from them. */
  for (int32_t m = graph->memories - 1; m >= 0; --m)
    if (m != memory) fetch_from(graph, buffer, m, memory, priority);
}

void cel__coherence_produce(cel_instr_graph *graph, const cel_buffer *buffer,
                            int32_t memory, const cel_region *region) {
  cel__held *held = cel__held_of(graph, buffer);
  for (uint32_t b = 0; b < region->n; ++b)
    cel_map_update(held->current, &region->at[b], 1ull << memory);
}
