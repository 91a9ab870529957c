#include "base/amount.h"
#include "base/text.h"
#include "instr/memory.h"
#include "instr/memory_state.h"

/* Touches of the plan that lie in one allocation are a *group*; the first of
 * them stands for it. A group's layout is the allocation's, or with `exactly`
 * the smallest that it could have. */

static bool is_in(const cel__touch *touch, int32_t memory) {
  return touch->memory == memory && !cel_box_is_empty(&touch->hull);
}

/* Adds a box to boxes of which no two meet: it takes in those that it meets. */
static void add_apart(cel__boxes *boxes, cel_box box) {
  for (uint32_t i = 0; i < boxes->n;) {
    if (!cel_box_meets(&boxes->at[i], &box)) {
      ++i;
      continue;
    }
    box = cel_box_hull(&box, &boxes->at[i]);
    cel_vec_swap_out(boxes, i);
    i = 0;
  }
  cel_vec_push(boxes, box);
}

/* Of the smallest layouts for a buffer, of which no two meet, the touch's. */
static cel_box smallest(cel__memories *all, const cel__touch *touch) {
  const cel__plan *plan = all->plan;
  cel__boxes *layouts = &all->smallest;
  cel_vec_clear(layouts);
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *other = &plan->touches.at[i];
    if (other->buffer == touch->buffer && is_in(other, touch->memory))
      add_apart(layouts, cel__memory_layout(other->buffer, &other->hull));
  }
  uint32_t i = 0;
  while (!cel_box_covers(&layouts->at[i], &touch->hull)) ++i;
  return layouts->at[i];
}

static cel_box layout_of(cel__memories *all, const cel__touch *touch,
                         bool exactly) {
  if (exactly) return smallest(all, touch);
  return cel__record_find(all, touch->buffer, touch->memory, &touch->hull)
      ->tracked.made.layout;
}

static bool in_group(const cel__touch *touch, const cel__touch *first,
                     const cel_box *layout) {
  return touch->buffer == first->buffer && is_in(touch, first->memory) &&
         cel_box_covers(layout, &touch->hull);
}

static bool is_first(const cel__plan *plan, uint32_t i, const cel_box *layout) {
  for (uint32_t k = 0; k < i; ++k)
    if (in_group(&plan->touches.at[k], &plan->touches.at[i], layout))
      return false;
  return true;
}

/* Into all->units, the units of so many bytes that the group touches. */
static void find_units(cel__memories *all, uint32_t first,
                       const cel_box *layout, uint64_t unit) {
  const cel__plan *plan = all->plan;
  uint64_t row = cel__memory_row(plan->touches.at[first].buffer, layout);
  cel_region_clear(&all->units);
  for (uint32_t i = first; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!in_group(touch, &plan->touches.at[first], layout)) continue;
    for (uint32_t b = 0; b < touch->region.n; ++b) {
      const cel_box *box = &touch->region.at[b];
      uint64_t begin = (uint64_t)(box->min[0] - layout->min[0]) * row;
      uint64_t end = (uint64_t)(box->max[0] - layout->min[0]) * row;
      cel_box units = {{(int64_t)(begin / unit), 0, 0},
                       {(int64_t)((end + unit - 1) / unit), 1, 1}};
      cel_region_add(&all->units, &units);
    }
  }
}

/* What the group of touch i cannot do without: whole blocks, as others of its
 * allocation go by the block. */
static uint64_t group_needs(cel__memories *all, uint32_t i,
                            const cel_box *layout) {
  const cel_instr_graph_config *c = all->config;
  const cel_buffer *buffer = all->plan->touches.at[i].buffer;
  uint64_t reserve = (uint64_t)cel_box_volume(layout) * buffer->element_size;
  if (c->grain == 0 || reserve < c->whole) return reserve;
  find_units(all, i, layout, c->block);
  uint64_t sum = 0;
  for (uint32_t b = 0; b < all->units.n; ++b) {
    const cel_box *blocks = &all->units.at[b];
    uint64_t begin = (uint64_t)blocks->min[0] * c->block;
    uint64_t end = (uint64_t)blocks->max[0] * c->block;
    if (end > reserve) end = (reserve + c->grain - 1) / c->grain * c->grain;
    sum += end - begin;
  }
  return sum;
}

static uint64_t needs(cel__memories *all, int32_t memory, bool exactly) {
  const cel__plan *plan = all->plan;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    cel_box layout = layout_of(all, touch, exactly);
    if (is_first(plan, i, &layout)) sum += group_needs(all, i, &layout);
  }
  return sum;
}

bool cel__memory_limited(const cel__memories *all) {
  return all->eviction.limited;
}

bool cel__memory_fits(cel__memories *all, uint64_t parts) {
  if (!all->eviction.limited) return true;
  for (int32_t m = 0; m < all->count; ++m) {
    uint64_t capacity = all->room[m].capacity;
    if (capacity != 0 && needs(all, m, true) > capacity / parts) return false;
  }
  return true;
}

/* ---- failure ------------------------------------------------------------- */

/* "u (1.0 GiB), v (16.0 MiB)" */
static void list_groups(cel__memories *all, int32_t memory, char *text,
                        size_t size) {
  const cel__plan *plan = all->plan;
  text[0] = '\0';
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    cel_box layout = layout_of(all, touch, true);
    if (!is_first(plan, i, &layout)) continue;
    char amount[CEL_AMOUNT_TEXT];
    cel_amount_text(group_needs(all, i, &layout), amount, sizeof amount);
    const char *name = touch->buffer->name;
    cel_text_append(text, size, "%s%.60s (%s)", text[0] != '\0' ? ", " : "",
                    name != NULL ? name : "a buffer", amount);
  }
}

static bool reduces(const cel_task *task) {
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (task->access[i].rows > 0 || task->access[i].in_place) return true;
  return false;
}

static cel_status too_large(cel__memories *all, int32_t memory) {
  const cel_command *command = all->plan->command;
  const cel_task *task = command->task;
  char needed[CEL_AMOUNT_TEXT], has[CEL_AMOUNT_TEXT], list[1024];
  cel_amount_texts(needs(all, memory, true), all->room[memory].capacity, needed,
                   has);
  list_groups(all, memory, list, sizeof list);
  bool message = command->kind != CEL_COMMAND_EXECUTE;
  cel_fail(CEL_E_MEMORY,
           "out of memory on device %d: %s '%s' needs %s there at once, %s, "
           "and this rank has %s of it; nothing else is left there, and %s",
           cel__device_in(all->config, memory),
           message ? "a message for task" : "task",
           task->name != NULL ? task->name : "unnamed", needed, list, has,
           message         ? "the chunk is another rank's"
           : reduces(task) ? "a task that reduces is not cut: let several "
                             "with include_current reduce a part each"
                           : "the chunk cannot be cut further");
  return cel_fail_at(task->location.file, task->location.line);
}

/* ---- seeing to it -------------------------------------------------------- */

static bool need_all(cel__memories *all, int32_t memory, bool exactly) {
  const cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    if (exactly) {
      cel_box layout = smallest(all, touch);
      if (!cel__memory_need_exactly(all, touch->buffer, memory, &layout))
        return false;
    }
    if (cel__memory_need(all, touch->buffer, memory, &touch->hull) == NULL)
      return false;
  }
  return true;
}

static bool all_committed(cel__memories *all, int32_t memory) {
  const cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    const cel__record *record =
        cel__record_find(all, touch->buffer, memory, &touch->hull);
    if (!cel__record_is_committed(record, &touch->hull)) return false;
  }
  return true;
}

/* What the plan's touches have no memory for yet. */
static uint64_t lacks(cel__memories *all, int32_t memory) {
  const cel__plan *plan = all->plan;
  uint64_t sum = 0, grain = all->config->grain;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    const cel__record *record =
        cel__record_find(all, touch->buffer, memory, &touch->hull);
    if (record->whole || !is_first(plan, i, &record->tracked.made.layout))
      continue;
    find_units(all, i, &record->tracked.made.layout, grain);
    for (uint32_t b = 0; b < all->units.n; ++b) {
      const cel_box *grains = &all->units.at[b];
      sum += cel__room_lacks(all, record, (uint64_t)grains->min[0] * grain,
                             (uint64_t)grains->max[0] * grain);
    }
  }
  return sum;
}

/* Allocations for the plan's touches in one memory, and room for what they
 * lack. An allocation that is made for a touch may take the place of another
 * touch's, and is then used by both. When things were used matters for what
 * room is short of, and for messages. */
static bool fits(cel__memories *all, int32_t memory, bool exactly) {
  cel__room *room = &all->room[memory];
  uint64_t next = all->next_allocation;
  room->promised = 0;
  if (!need_all(all, memory, exactly)) return false;
  if (all->next_allocation != next && !need_all(all, memory, exactly))
    return false;
  if (room->capacity == 0) return true;
  if (all->eviction.told != NULL ||
      !cel__room_has(all, memory, room->capacity / 2))
    cel__room_touch(all, memory);
  if (all_committed(all, memory)) return true;
  room->promised = lacks(all, memory);
  return cel__room_make(all, memory, room->promised);
}

/* What messages and collectives of one task hold stays until all of them have
 * been made: to wait for one before another would be to wait for a rank that
 * does the same. */
static void count_command(cel__memories *all) {
  const cel_command *command = all->plan->command;
  cel__eviction *eviction = &all->eviction;
  bool message = command->kind == CEL_COMMAND_PUSH ||
                 command->kind == CEL_COMMAND_AWAIT_PUSH ||
                 command->kind == CEL_COMMAND_COLLECTIVE;
  if (!message || eviction->told != command->task) {
    ++eviction->now;
    for (int32_t m = 0; m < all->count; ++m) all->room[m].awaited = 0;
  }
  eviction->told = message ? command->task : NULL;
}

bool cel__memory_place(cel__memories *all) {
  cel__plan *plan = all->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    cel__touch *touch = &plan->touches.at[i];
    if (cel_box_is_empty(&touch->hull)) continue;
    touch->lies =
        cel__memory_find(all, touch->buffer, touch->memory, &touch->hull);
    if (touch->lies == NULL) return false;
  }
  return plan->placed = true;
}

/* The plan is placed already, and room is of no account. */
static void note_use(const cel__plan *plan) {
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (cel_box_is_empty(&touch->hull)) continue;
    cel__record *record = cel__record_of(touch->lies);
    if (!cel_box_covers(&record->used, &touch->hull))
      record->used = cel_box_hull(&record->used, &touch->hull);
  }
}

/* Memory behind what touch i meets; behind what the others do there too, so
 * that the parts of a chunk share one COMMIT. */
static void commit_touch(cel__memories *all, uint32_t i) {
  const cel__plan *plan = all->plan;
  const cel__touch *touch = &plan->touches.at[i];
  if (cel__record_is_committed(cel__record_of(touch->lies), &touch->hull))
    return;
  cel_region *together = &all->together;
  cel_region_copy(together, &touch->region);
  for (uint32_t k = i + 1; k < plan->used; ++k) {
    const cel__touch *other = &plan->touches.at[k];
    if (other->buffer == touch->buffer && other->memory == touch->memory &&
        cel_box_covers(&touch->lies->made.layout, &other->hull))
      cel_region_unite(together, together, &other->region);
  }
  cel__memory_commit(all, touch->lies, together);
}

cel_status cel__memory_prepare(cel__memories *all) {
  const cel__plan *plan = all->plan;
  count_command(all);
  if (plan->placed && !all->eviction.limited) {
    note_use(plan);
  } else {
    /* An allocation may be larger than the present command would need, where it
     * serves others too: then one that fits takes its place. */
    for (int32_t m = 0; m < all->count; ++m)
      if (!fits(all, m, false) && !fits(all, m, true)) return too_large(all, m);
    bool found = cel__memory_place(all);
    cel_assert(found);
    (void)found;
  }
  for (uint32_t i = 0; all->config->grain != 0 && i < plan->used; ++i)
    if (plan->touches.at[i].region.n > 0) commit_touch(all, i);
  return CEL_E_OK;
}
