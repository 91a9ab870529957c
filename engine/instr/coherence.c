#include "instr/coherence.h"
#include "instr/coherence_state.h"

/* ---- the maps ------------------------------------------------------------ */

cel_map *cel__coherence_mention(cel__coherence *all, const cel_buffer *buffer) {
  while (all->buffers.n <= buffer->id)
    cel_vec_push(&all->buffers, (cel__whereabouts){0});
  uint64_t first = buffer->init != NULL ? 1ull << CEL_MEMORY_INIT : 0;
  cel_map *current = cel_map_create(&buffer->extent, first);
  all->buffers.at[buffer->id] = (cel__whereabouts){buffer, current};
  return current;
}

/* A region of one box, for a question; valid as long as the box. */
static cel_region just(cel_box *box) {
  return (cel_region){.at = box, .n = 1};
}

/* ---- copies -------------------------------------------------------------- */

/* What waits in one lane keeps its order. */
static void take_turn(cel__coherence *all, const uint64_t *last,
                      int32_t memory) {
  if (last != NULL && memory != CEL_MEMORY_HOST && last[memory] != 0)
    cel__emit_after(all->emission, last[memory], CEL_DEP_ORDER);
}

static void copy(cel__coherence *all, cel__tracked *from, cel__tracked *to,
                 const cel_box *box, const cel__manner *manner) {
  int32_t source = from->made.memory, memory = to->made.memory;
  take_turn(all, manner->last_out, source);
  take_turn(all, manner->last_in, memory);
  uint64_t id = cel__emit_copy(all->emission, from, to, box, manner->priority);
  if (manner->last_out != NULL) manner->last_out[source] = id;
  if (manner->last_in != NULL) manner->last_in[memory] = id;
}

/* The initial contents of a box, made in host memory. */
static void stage_init(cel__coherence *all, const cel_buffer *buffer,
                       cel_box *box, int32_t priority) {
  cel__tracked *host =
      cel__memory_need(all->memories, buffer, CEL_MEMORY_HOST, box);
  cel_region region = just(box);
  cel__memory_commit(all->memories, host, &region);
  cel__emit_copy(all->emission, NULL, host, box, priority);
  cel_map_update(cel__coherence_of(all, buffer), box, 1ull << CEL_MEMORY_HOST);
}

/* Where to copy from into `to`: the next device after it in a circle, so that
 * not all read from the first; else the host. */
static int32_t source_of(const cel__coherence *all, uint64_t where, int32_t to,
                         const cel__manner *manner) {
  uint64_t devices = where & ~1ull;
  if ((devices & manner->from) != 0) devices &= manner->from;
  for (int32_t i = 1; i < all->count && devices != 0; ++i) {
    int32_t m = (to + i) % all->count;
    if ((devices >> m & 1) != 0) return m;
  }
  cel_assert((where & 1) != 0);
  return CEL_MEMORY_HOST;
}

/* Notes what of `region` is current somewhere, but not in `memory`; what is
 * nowhere was never written, and any contents will do. */
static void find_lacking(cel__coherence *all, const cel_map *current,
                         int32_t memory, const cel_region *region) {
  cel_vec_clear(&all->lacking);
  for (uint32_t b = 0; b < region->n; ++b) {
    uint64_t only;
    if (cel_map_holds(current, &region->at[b], &only)) {
      if (only != 0 && (only >> memory & 1) == 0)
        cel_vec_push(&all->lacking, (cel_map_entry){region->at[b], only});
      continue;
    }
    cel_map_query(current, &region->at[b], &all->found);
    for (uint32_t i = 0; i < all->found.n; ++i) {
      uint64_t where = all->found.at[i].value;
      if (where != 0 && (where >> memory & 1) == 0)
        cel_vec_push(&all->lacking, all->found.at[i]);
    }
  }
}

/* Makes in host memory what of all->lacking is still initial contents; then
 * that is where it comes from. */
static void stage_lacking(cel__coherence *all, const cel_buffer *buffer,
                          int32_t priority) {
  cel_region *boxes = &all->staged;
  cel_region_clear(boxes);
  for (uint32_t i = 0; i < all->lacking.n; ++i) {
    cel_map_entry *entry = &all->lacking.at[i];
    if (entry->value >> CEL_MEMORY_INIT == 0) continue;
    cel_region_add(boxes, &entry->box);
    entry->value = 1ull << CEL_MEMORY_HOST;
  }
  for (uint32_t b = 0; b < boxes->n; ++b)
    cel__memory_want(all->memories, buffer, CEL_MEMORY_HOST, &boxes->at[b]);
  for (uint32_t b = 0; b < boxes->n; ++b)
    stage_init(all, buffer, &boxes->at[b], priority);
}

void cel__coherence_stage(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          int32_t priority) {
  if (buffer->init == NULL) return;
  find_lacking(all, cel__coherence_of(all, buffer), memory, region);
  stage_lacking(all, buffer, priority);
}

/* From the host in parts, as messages bring them: each waits for its own. */
static void copy_parts(cel__coherence *all, cel__tracked *from,
                       cel__tracked *to, const cel_box *box,
                       const cel__manner *manner) {
  uint64_t bytes = all->config->large_bytes;
  uint64_t size = from->made.buffer->element_size;
  if (from->made.memory != CEL_MEMORY_HOST ||
      (uint64_t)cel_box_volume(box) * size <= bytes) {
    copy(all, from, to, box, manner);
    return;
  }
  int64_t step[CEL_DIMS];
  int64_t parts = cel_box_pieces(box, size, bytes, step);
  for (int64_t i = 0; i < parts; ++i) {
    cel_box part = cel_box_piece(box, step, i);
    copy(all, from, to, &part, manner);
  }
}

/* Copies what of all->lacking comes from `source`, from wherever allocations
 * there have it; all of it together, so that neighbours travel as one box. */
static void fetch_from(cel__coherence *all, const cel_buffer *buffer,
                       int32_t source, int32_t memory,
                       const cel__manner *manner) {
  cel_map *current = cel__coherence_of(all, buffer);
  cel_region *boxes = &all->fetched;
  cel_region_clear(boxes);
  for (uint32_t i = 0; i < all->lacking.n; ++i) {
    const cel_map_entry *entry = &all->lacking.at[i];
    if (source_of(all, entry->value, memory, manner) != source) continue;
    cel_region_add(boxes, &entry->box);
    cel_map_update(current, &entry->box, entry->value | 1ull << memory);
  }
  for (uint32_t b = 0; b < boxes->n; ++b) {
    const cel_box *box = &boxes->at[b];
    cel__tracked *to = cel__memory_find(all->memories, buffer, memory, box);
    cel__tracked *from;
    cel_box part;
    for (uint32_t next = 0;
         (from = cel__memory_meets(all->memories, buffer, source, box, &next,
                                   &part)) != NULL;)
      copy_parts(all, from, to, &part, manner);
  }
}

void cel__coherence_bring(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          const cel__manner *manner) {
  find_lacking(all, cel__coherence_of(all, buffer), memory, region);
  if (all->lacking.n == 0) return;
  if (buffer->init != NULL) stage_lacking(all, buffer, manner->priority);
  uint64_t sources = 0;
  for (uint32_t i = 0; i < all->lacking.n; ++i)
    sources |= 1ull << source_of(all, all->lacking.at[i].value, memory, manner);
  for (sources &= ~(1ull << memory); sources != 0; sources &= sources - 1)
    fetch_from(all, buffer, __builtin_ctzll(sources), memory, manner);
}

/* ---- what memory asks ---------------------------------------------------- */

static void find_current(void *context, const cel__tracked *in,
                         const cel_box *box, cel_region *out) {
  cel__coherence *all = context;
  cel_region_clear(out);
  cel_map_query(cel__coherence_of(all, in->made.buffer), box, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i)
    if ((all->found.at[i].value >> in->made.memory & 1) != 0)
      cel_region_add(out, &all->found.at[i].box);
}

/* Where an entry is current besides a memory, in other memories. */
static uint64_t elsewhere(uint64_t where, int32_t memory) {
  return where & ~(1ull << memory | 1ull << CEL_MEMORY_ARRIVED);
}

/* Nothing of the box is current in the memory any more; what was so there alone
 * is saved, and in the host's. */
static void leave_memory(cel__coherence *all, cel_map *current, int32_t memory,
                         const cel_box *box) {
  cel_map_query(current, box, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i) {
    const cel_map_entry *at = &all->found.at[i];
    if ((at->value >> memory & 1) == 0) continue;
    uint64_t where = elsewhere(at->value, memory);
    cel_map_update(current, &at->box,
                   where != 0 ? where : 1ull << CEL_MEMORY_HOST);
  }
}

static void save(void *context, cel__tracked *from, const cel_box *box) {
  cel__coherence *all = context;
  const cel_buffer *buffer = from->made.buffer;
  int32_t memory = from->made.memory;
  cel_map *current = cel__coherence_of(all, buffer);
  cel_region *only = &all->saved;
  if (cel_box_is_empty(box)) return;
  cel_region_clear(only);
  cel_map_query(current, box, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i) {
    const cel_map_entry *at = &all->found.at[i];
    if ((at->value >> memory & 1) != 0 && elsewhere(at->value, memory) == 0)
      cel_region_add(only, &at->box);
  }
  for (uint32_t b = 0; b < only->n; ++b)
    cel__memory_want(all->memories, buffer, CEL_MEMORY_HOST, &only->at[b]);
  for (uint32_t b = 0; b < only->n; ++b)
    cel__memory_need(all->memories, buffer, CEL_MEMORY_HOST, &only->at[b]);
  leave_memory(all, current, memory, box);
  for (uint32_t b = 0; b < only->n; ++b) {
    cel_region region = just(&only->at[b]);
    cel__tracked *host =
        cel__memory_find(all->memories, buffer, CEL_MEMORY_HOST, &only->at[b]);
    cel__memory_commit(all->memories, host, &region);
    cel__emit_copy(all->emission, from, host, &only->at[b],
                   CEL__PRIORITY_MEMORY);
  }
}

/* ---- the plan ------------------------------------------------------------ */

void cel__coherence_fetch(cel__coherence *all, int32_t priority) {
  const cel__plan *plan = all->plan;
  cel__manner manner = {.priority = priority};
  cel__alike_fetch(all, priority);
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->consumes)
      cel__coherence_bring(all, touch->buffer, touch->memory, &touch->region,
                           &manner);
  }
}

void cel__coherence_produce(cel__coherence *all) {
  const cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!touch->produces) continue;
    cel_map *current = cel__coherence_of(all, touch->buffer);
    uint64_t mark = touch->arrives ? 1ull << CEL_MEMORY_ARRIVED : 0;
    for (uint32_t b = 0; b < touch->region.n; ++b)
      cel_map_update(current, &touch->region.at[b],
                     1ull << touch->memory | mark);
  }
}

/* Nothing of the region counts as written. */
static void forget(cel_map *current, const cel_region *region) {
  for (uint32_t b = 0; b < region->n; ++b)
    cel_map_update(current, &region->at[b], 0);
}

/* A message has brought the region to `memory`: it is current there, too. */
static void join(cel__coherence *all, cel_map *current, int32_t memory,
                 const cel_region *region) {
  uint64_t marks = 1ull << memory | 1ull << CEL_MEMORY_ARRIVED;
  for (uint32_t b = 0; b < region->n; ++b) {
    cel_map_query(current, &region->at[b], &all->found);
    for (uint32_t i = 0; i < all->found.n; ++i) {
      const cel_map_entry *at = &all->found.at[i];
      cel_map_update(current, &at->box, at->value | marks);
    }
  }
}

void cel__coherence_spread(cel__coherence *all) {
  const cel__plan *plan = all->plan;
  const cel_exchange *x = plan->command->exchange;
  cel_map *current = cel__coherence_of(all, x->buffer);
  cel_region_assign(&all->forgotten, x->get, x->gets);
  forget(current, &all->forgotten);
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->produces) join(all, current, touch->memory, &touch->region);
  }
}

void cel__coherence_discard(cel__coherence *all) {
  const cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!touch->produces) continue;
    cel__plan_discards(plan, touch->buffer, &all->forgotten);
    forget(cel__coherence_of(all, touch->buffer), &all->forgotten);
  }
}

bool cel__coherence_lacks(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region) {
  const cel_map *current = cel__coherence_of(all, buffer);
  for (uint32_t b = 0; b < region->n; ++b) {
    cel_map_query(current, &region->at[b], &all->found);
    for (uint32_t i = 0; i < all->found.n; ++i) {
      uint64_t where = all->found.at[i].value;
      if ((where >> CEL_MEMORY_ARRIVED & 1) != 0) return true;
      if (where != 0 && (where >> memory & 1) == 0) return true;
    }
  }
  return false;
}

/* ---- life ---------------------------------------------------------------- */

cel__coherence *cel__coherence_create(const cel_instr_graph_config *config,
                                      int32_t count, cel__emission *emission,
                                      cel__memories *memories,
                                      const cel__plan *plan) {
  cel__coherence *all = cel_alloc_zero(sizeof *all);
  all->config = config;
  all->count = count;
  all->emission = emission;
  all->memories = memories;
  all->plan = plan;
  all->keeper = (cel__keeper){all, find_current, save};
  cel__memory_ask(memories, &all->keeper);
  return all;
}

void cel__coherence_drop(cel__coherence *all, const cel_buffer *buffer) {
  if (buffer->id >= all->buffers.n) return;
  cel__whereabouts *at = &all->buffers.at[buffer->id];
  if (at->buffer != NULL) cel_map_destroy(at->current);
  *at = (cel__whereabouts){0};
}

void cel__coherence_destroy(cel__coherence *all) {
  for (uint32_t i = 0; i < all->buffers.n; ++i)
    if (all->buffers.at[i].buffer != NULL)
      cel_map_destroy(all->buffers.at[i].current);
  cel_vec_release(&all->buffers);
  cel_map_entries_release(&all->found);
  cel_vec_release(&all->lacking);
  cel_region_release(&all->staged);
  cel_region_release(&all->fetched);
  cel_region_release(&all->saved);
  cel_region_release(&all->forgotten);
  cel_map_entries_release(&all->alike.found);
  cel_vec_release(&all->alike.owned);
  cel_vec_release(&all->alike.cut);
  cel_free(all);
}

size_t cel__coherence_bytes(const cel__coherence *all) {
  enum { ENTRY = 64 }; /* about what one takes */
  size_t sum = sizeof *all + all->buffers.cap * sizeof(cel__whereabouts);
  for (uint32_t i = 0; i < all->buffers.n; ++i)
    if (all->buffers.at[i].buffer != NULL)
      sum += (size_t)ENTRY * cel_map_count(all->buffers.at[i].current);
  return sum;
}

/* Live allocations in the memory cover the box. */
static void check_covered(const cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_box *box) {
  int64_t left = cel_box_volume(box);
  cel_box part;
  for (uint32_t next = 0; cel__memory_meets(all->memories, buffer, memory, box,
                                            &next, &part) != NULL;)
    left -= cel_box_volume(&part);
  cel_assert(left == 0);
}

static void check_entry(const cel__coherence *all, const cel_buffer *buffer,
                        const cel_map_entry *at) {
  uint64_t init = 1ull << CEL_MEMORY_INIT, real = at->value & ~init;
  real &= ~(1ull << CEL_MEMORY_ARRIVED);
  cel_assert(at->value == init ? buffer->init != NULL
                               : (at->value & init) == 0);
  cel_assert(at->value == 0 || at->value == init || real != 0);
  cel_assert(real >> all->count == 0);
  for (; real != 0; real &= real - 1)
    check_covered(all, buffer, __builtin_ctzll(real), &at->box);
}

void cel__coherence_check(const cel__coherence *all) {
  cel_map_entries entries = {0};
  for (uint32_t b = 0; b < all->buffers.n; ++b) {
    const cel_buffer *buffer = all->buffers.at[b].buffer;
    if (buffer == NULL) continue;
    cel_map_check(all->buffers.at[b].current);
    cel_map_query(all->buffers.at[b].current, &buffer->extent, &entries);
    for (uint32_t i = 0; i < entries.n; ++i)
      check_entry(all, buffer, &entries.at[i]);
  }
  cel_map_entries_release(&entries);
}
