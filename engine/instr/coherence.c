#include "instr/coherence.h"
#include "instr/coherence_state.h"

/* ---- the maps ------------------------------------------------------------ */

/* At first mention. */
static cel__whereabouts *mention(cel__coherence *all,
                                 const cel_buffer *buffer) {
  while (all->buffers.n <= buffer->id)
    cel_vec_push(&all->buffers, (cel__whereabouts){0});
  cel__whereabouts *at = &all->buffers.at[buffer->id];
  if (at->buffer != NULL) return at;
  uint64_t first = buffer->init != NULL ? 1ull << CEL_MEMORY_INIT : 0;
  cel_map *current = cel_map_create(&buffer->extent, first);
  *at = (cel__whereabouts){.buffer = buffer, .current = current};
  return at;
}

/* ---- the maps as outlines ------------------------------------------------ */

/* Words of an entry: its bounds and its value. */
cel__outline *cel__coherence_outline(cel__coherence *all,
                                     const cel_buffer *buffer) {
  cel__whereabouts *at = mention(all, buffer);
  if (at->outline != NULL) return at->outline;
  cel_track_words *words = &all->outlines.words;
  cel_vec_clear(words);
  cel_map_query(at->current, &buffer->extent, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i) {
    const cel_map_entry *entry = &all->found.at[i];
    for (int d = 0; d < CEL_DIMS; ++d) {
      cel_vec_push(words, (uint64_t)entry->box.min[d]);
      cel_vec_push(words, (uint64_t)entry->box.max[d]);
    }
    cel_vec_push(words, entry->value);
  }
  at->ahead = false;
  return at->outline = cel__outline_intern(&all->outlines);
}

void cel__coherence_become(cel__coherence *all, const cel_buffer *buffer,
                           cel__outline *outline) {
  cel__whereabouts *at = mention(all, buffer);
  if (at->outline == outline) return;
  cel__outline_drop(at->outline);
  at->outline = cel__outline_hold(outline);
  at->ahead = true;
}

static void load(cel__whereabouts *at) {
  const cel__outline *outline = at->outline;
  cel_map_destroy(at->current);
  at->current = cel_map_create(&at->buffer->extent, 0);
  for (const uint64_t *word = outline->words;
       word < outline->words + outline->n;) {
    cel_box box;
    for (int d = 0; d < CEL_DIMS; ++d) {
      box.min[d] = (int64_t)*word++;
      box.max[d] = (int64_t)*word++;
    }
    cel_map_update(at->current, &box, *word++);
  }
}

cel_map *cel__coherence_renew(cel__coherence *all, const cel_buffer *buffer) {
  cel__whereabouts *at = mention(all, buffer);
  if (at->ahead) load(at);
  at->ahead = false;
  cel__outline_drop(at->outline);
  at->outline = NULL;
  return at->current;
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

/* The initial contents of a box, made in host memory, wherever allocations have
 * it there. */
static void stage_init(cel__coherence *all, const cel_buffer *buffer,
                       const cel_box *box, int32_t priority) {
  cel__tracked *host;
  cel_box part;
  for (uint32_t next = 0;
       (host = cel__memory_meets(all->memories, buffer, CEL_MEMORY_HOST, box,
                                 &next, &part)) != NULL;) {
    cel_region region = just(&part);
    cel__memory_commit(all->memories, host, &region);
    cel__emit_copy(all->emission, NULL, host, &part, priority);
  }
  cel_map_update(cel__coherence_of(all, buffer), box, 1ull << CEL_MEMORY_HOST);
}

/* Where to copy from into `to`: the next device after it in a circle, so that
 * not all read from the first; else the host. */
static int32_t source_of(uint64_t where, int32_t to,
                         const cel__manner *manner) {
  uint64_t devices = cel__devices_of(where);
  if ((devices & manner->from) != 0) devices &= manner->from;
  uint64_t after = devices & -2ull << to;
  if (devices != 0) return __builtin_ctzll(after != 0 ? after : devices);
  cel_assert((where & 1) != 0);
  return CEL_MEMORY_HOST;
}

/* What is current somewhere, but not in `memory`; what is nowhere was never
 * written, and any contents will do. */
static bool is_lacking(uint64_t where, int32_t memory) {
  return where != 0 && (where >> memory & 1) == 0;
}

/* Appends what of the box is lacking. */
static void add_lacking(cel__coherence *all, const cel_map *current,
                        int32_t memory, const cel_box *box,
                        cel__lacking_list *out) {
  uint64_t only;
  if (cel_map_holds(current, box, &only)) {
    if (is_lacking(only, memory))
      cel_vec_push(out, (cel__lacking){*box, only, only});
    return;
  }
  cel_map_query(current, box, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i) {
    const cel_map_entry *at = &all->found.at[i];
    if (is_lacking(at->value, memory))
      cel_vec_push(out, (cel__lacking){at->box, at->value, at->value});
  }
}

/* Just what of the region is lacking, into all->lacking. */
static void find_lacking(cel__coherence *all, const cel_map *current,
                         int32_t memory, const cel_region *region) {
  cel_vec_clear(&all->lacking);
  for (uint32_t b = 0; b < region->n; ++b)
    add_lacking(all, current, memory, &region->at[b], &all->lacking);
}

/* Begins, and ends, the making of a region of boxes that are pushed to
 * all->boxes: to add one by one costs the square of their number. */
static void begin_boxes(cel__coherence *all) {
  cel_vec_clear(&all->boxes);
}

static void end_boxes(cel__coherence *all, cel_region *out) {
  cel_region_assign(out, all->boxes.at, all->boxes.n);
}

/* Makes in host memory what of all->lacking is still initial contents; then
 * that is where it comes from. If it is the host's memory that lacks it, each
 * piece of a run may lie in an allocation of its own there, and stays in it. */
static void stage_lacking(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, int32_t priority) {
  cel_region *boxes = &all->staged;
  begin_boxes(all);
  for (uint32_t i = 0; i < all->lacking.n; ++i) {
    cel__lacking *at = &all->lacking.at[i];
    if (at->where >> CEL_MEMORY_INIT == 0) continue;
    cel_vec_push(&all->boxes, at->box);
    at->where = at->from = 1ull << CEL_MEMORY_HOST;
  }
  end_boxes(all, boxes);
  bool covered = memory == CEL_MEMORY_HOST;
  for (uint32_t b = 0; !covered && b < boxes->n; ++b)
    cel__memory_want(all->memories, buffer, CEL_MEMORY_HOST, &boxes->at[b]);
  for (uint32_t b = 0; b < boxes->n; ++b) {
    if (!covered)
      cel__memory_need(all->memories, buffer, CEL_MEMORY_HOST, &boxes->at[b]);
    stage_init(all, buffer, &boxes->at[b], priority);
  }
}

void cel__coherence_stage(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          int32_t priority) {
  if (buffer->init == NULL) return;
  find_lacking(all, cel__coherence_of(all, buffer), memory, region);
  stage_lacking(all, buffer, memory, priority);
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

/* From wherever allocations in memory `source` have it. */
static void copy_into(cel__coherence *all, cel__tracked *to, int32_t source,
                      const cel_box *box, const cel__manner *manner) {
  cel__tracked *from;
  cel_box part;
  for (uint32_t next = 0;
       (from = cel__memory_meets(all->memories, to->made.buffer, source, box,
                                 &next, &part)) != NULL;)
    copy_parts(all, from, to, &part, manner);
}

/* Copies what of all->lacking comes from `source`; all of it together, so that
 * neighbours travel as one box. */
static void fetch_from(cel__coherence *all, const cel_buffer *buffer,
                       int32_t source, int32_t memory,
                       const cel__manner *manner) {
  cel_map *current = cel__coherence_of(all, buffer);
  cel_region *boxes = &all->fetched;
  begin_boxes(all);
  for (uint32_t i = 0; i < all->lacking.n; ++i) {
    const cel__lacking *at = &all->lacking.at[i];
    if (source_of(at->from, memory, manner) != source) continue;
    cel_vec_push(&all->boxes, at->box);
    cel_map_update(current, &at->box, at->where | 1ull << memory);
  }
  end_boxes(all, boxes);
  for (uint32_t b = 0; b < boxes->n; ++b) {
    cel__tracked *to;
    cel_box part;
    for (uint32_t next = 0;
         (to = cel__memory_meets(all->memories, buffer, memory, &boxes->at[b],
                                 &next, &part)) != NULL;)
      copy_into(all, to, source, &part, manner);
  }
}

/* Makes all->lacking current in `memory`. What pieces of a run lack both is
 * there twice. */
static void bring_lacking(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel__manner *manner) {
  if (all->lacking.n == 0) return;
  if (buffer->init != NULL)
    stage_lacking(all, buffer, memory, manner->priority);
  uint64_t sources = 0;
  for (uint32_t i = 0; i < all->lacking.n; ++i)
    sources |= 1ull << source_of(all->lacking.at[i].from, memory, manner);
  for (sources &= ~(1ull << memory); sources != 0; sources &= sources - 1)
    fetch_from(all, buffer, __builtin_ctzll(sources), memory, manner);
}

void cel__coherence_bring(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          const cel__manner *manner) {
  find_lacking(all, cel__coherence_of(all, buffer), memory, region);
  bring_lacking(all, buffer, memory, manner);
}

/* ---- what memory asks ---------------------------------------------------- */

static void find_current(void *context, const cel__tracked *in,
                         const cel_box *box, cel_region *out) {
  cel__coherence *all = context;
  begin_boxes(all);
  cel_map_query(cel__coherence_of(all, in->made.buffer), box, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i)
    if ((all->found.at[i].value >> in->made.memory & 1) != 0)
      cel_vec_push(&all->boxes, all->found.at[i].box);
  end_boxes(all, out);
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

/* What the present command overwrites unread is not saved: it may have been
 * left behind already, when a larger allocation took this one's place. */
static void save(void *context, cel__tracked *from, const cel_box *box) {
  cel__coherence *all = context;
  const cel_buffer *buffer = from->made.buffer;
  int32_t memory = from->made.memory;
  cel_map *current = cel__coherence_of(all, buffer);
  cel_region *only = &all->saved;
  if (cel_box_is_empty(box)) return;
  begin_boxes(all);
  cel_map_query(current, box, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i) {
    const cel_map_entry *at = &all->found.at[i];
    if ((at->value >> memory & 1) != 0 && elsewhere(at->value, memory) == 0)
      cel_vec_push(&all->boxes, at->box);
  }
  end_boxes(all, only);
  cel__plan_discards(all->plan, buffer, &all->forgotten);
  cel_region_subtract(only, only, &all->forgotten);
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

/* What the pieces of a run lack together before any of the command's copies: a
 * halo around all of them comes as a whole. Its interior lacks nothing and
 * waits for none of it. */
static void note_run(cel__coherence *all, const cel__touch *first) {
  const cel_map *current = cel__coherence_of(all, first->buffer);
  uint32_t n = all->before.n;
  for (const cel__touch *touch = first; touch != NULL;
       touch = cel__plan_next_piece(all->plan, touch))
    for (uint32_t b = 0; b < touch->region.n; ++b)
      add_lacking(all, current, touch->memory, &touch->region.at[b],
                  &all->before);
  if (all->before.n > n)
    cel_vec_push(&all->runs, (cel__lacking_run){first, all->before.n});
}

/* Brings what of `before` is lacking still. It comes from devices that had it
 * before the command, if there were such: neighbours that share a corner do not
 * wait for what they have just copied to each other. */
static void fetch_run(cel__coherence *all, const cel__touch *touch,
                      const cel__lacking *before, uint32_t n,
                      const cel__manner *manner) {
  const cel_map *current = cel__coherence_of(all, touch->buffer);
  cel_vec_clear(&all->lacking);
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t k = all->lacking.n;
    add_lacking(all, current, touch->memory, &before[i].box, &all->lacking);
    if (cel__devices_of(before[i].where) == 0) continue;
    for (; k < all->lacking.n; ++k) all->lacking.at[k].from = before[i].where;
  }
  bring_lacking(all, touch->buffer, touch->memory, manner);
}

void cel__coherence_fetch(cel__coherence *all, int32_t priority) {
  const cel__plan *plan = all->plan;
  cel__manner manner = {.priority = priority};
  cel__alike_fetch(all, priority);
  cel_vec_clear(&all->before);
  cel_vec_clear(&all->runs);
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->consumes && !touch->continues) note_run(all, touch);
  }
  for (uint32_t r = 0, begin = 0; r < all->runs.n; ++r) {
    const cel__lacking_run *run = &all->runs.at[r];
    fetch_run(all, run->first, &all->before.at[begin], run->end - begin,
              &manner);
    begin = run->end;
  }
}

/* Whether the pieces of a run produce one box together: boxes of disjoint
 * pieces that have the volume of their hull. */
static bool is_one_box(const cel__plan *plan, const cel__touch *first,
                       cel_box *box) {
  int64_t volume = 0;
  if (first->region.n == 0) return false;
  *box = first->region.at[0];
  for (const cel__touch *touch = first; touch != NULL;
       touch = cel__plan_next_piece(plan, touch)) {
    if (touch->region.n != 1) return false;
    *box = cel_box_hull(box, &touch->region.at[0]);
    volume += cel_box_volume(&touch->region.at[0]);
  }
  return volume == cel_box_volume(box);
}

/* What the pieces of a run produce has the value. */
static void overwrite(const cel__plan *plan, const cel__touch *first,
                      cel_map *current, uint64_t value) {
  for (const cel__touch *touch = first; touch != NULL;
       touch = cel__plan_next_piece(plan, touch))
    for (uint32_t b = 0; b < touch->region.n; ++b)
      cel_map_update(current, &touch->region.at[b], value);
}

void cel__coherence_produce(cel__coherence *all) {
  const cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!touch->produces || touch->continues) continue;
    cel_map *current = cel__coherence_of(all, touch->buffer);
    uint64_t mark = touch->arrives ? 1ull << CEL_MEMORY_ARRIVED : 0;
    uint64_t now = 1ull << touch->memory | mark;
    cel_box all_of_it;
    if (cel__plan_next_piece(plan, touch) != NULL &&
        is_one_box(plan, touch, &all_of_it))
      cel_map_update(current, &all_of_it, now);
    else
      overwrite(plan, touch, current, now);
  }
}

void cel__coherence_leave(cel__coherence *all, const cel__tracked *in,
                          const cel_box *range, cel_region *keep) {
  cel_map *current = cel__coherence_of(all, in->made.buffer);
  cel_box within;
  find_current(all, in, &in->made.layout, keep);
  cel_region_remove(keep, range);
  if (!cel_box_intersect(&in->made.layout, range, &within)) return;
  cel_map_query(current, &within, &all->found);
  for (uint32_t i = 0; i < all->found.n; ++i) {
    const cel_map_entry *at = &all->found.at[i];
    if ((at->value >> in->made.memory & 1) != 0)
      cel_map_update(current, &at->box, elsewhere(at->value, in->made.memory));
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
  cel__outline_drop(at->outline);
  *at = (cel__whereabouts){0};
}

void cel__coherence_destroy(cel__coherence *all) {
  for (uint32_t i = 0; i < all->buffers.n; ++i)
    if (all->buffers.at[i].buffer != NULL)
      cel__coherence_drop(all, all->buffers.at[i].buffer);
  cel_vec_release(&all->buffers);
  cel__outlines_release(&all->outlines);
  cel_map_entries_release(&all->found);
  cel_vec_release(&all->lacking);
  cel_vec_release(&all->before);
  cel_vec_release(&all->runs);
  cel_region_release(&all->staged);
  cel_region_release(&all->fetched);
  cel_region_release(&all->saved);
  cel_region_release(&all->forgotten);
  cel_vec_release(&all->boxes);
  cel_map_entries_release(&all->alike.found);
  cel_vec_release(&all->alike.owned);
  cel_vec_release(&all->alike.cut);
  cel_free(all);
}

size_t cel__coherence_bytes(const cel__coherence *all) {
  enum { ENTRY = 64 }; /* about what one takes */
  size_t sum = sizeof *all + all->buffers.cap * sizeof(cel__whereabouts) +
               all->outlines.bytes;
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
    if (buffer == NULL || all->buffers.at[b].ahead) continue;
    cel_map_check(all->buffers.at[b].current);
    cel_map_query(all->buffers.at[b].current, &buffer->extent, &entries);
    for (uint32_t i = 0; i < entries.n; ++i)
      check_entry(all, buffer, &entries.at[i]);
  }
  cel_map_entries_release(&entries);
}
