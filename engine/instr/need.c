#include <stdio.h>

#include "base/amount.h"
#include "instr/state.h"

/* Touches of the plan that lie in one allocation are a *group*; the first of
 * them stands for it. A group's layout is the allocation's, or with `exactly`
 * the smallest that it could have. */

static bool is_in(const cel__touch *touch, int32_t memory) {
  return touch->memory == memory && !cel_box_is_empty(&touch->hull);
}

static cel_box smallest(const cel__plan *plan, const cel__touch *touch) {
  cel_box layout = cel__memory_layout(touch->buffer, &touch->hull);
  for (uint32_t i = 0; i < plan->used;) {
    const cel__touch *other = &plan->touches.at[i++];
    if (other->buffer != touch->buffer || !is_in(other, touch->memory))
      continue;
    cel_box box = cel__memory_layout(other->buffer, &other->hull);
    if (!cel_box_meets(&box, &layout) || cel_box_covers(&layout, &box))
      continue;
    layout = cel_box_hull(&layout, &box);
    i = 0;
  }
  return layout;
}

static cel_box layout_of(cel_instr_graph *graph, const cel__touch *touch,
                         bool exactly) {
  if (exactly) return smallest(&graph->plan, touch);
  return cel__memory_find(graph, touch->buffer, touch->memory, &touch->hull)
      ->made.layout;
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

/* The bytes that `box` lies in, row by row. */
static void bytes_of(const cel_buffer *buffer, const cel_box *layout,
                     const cel_box *box, uint64_t *begin, uint64_t *end) {
  uint64_t row = cel__memory_row(buffer, layout);
  *begin = (uint64_t)(box->min[0] - layout->min[0]) * row;
  *end = (uint64_t)(box->max[0] - layout->min[0]) * row;
}

/* Into graph->blocks, the units of so many bytes that the group touches. */
static void find_units(cel_instr_graph *graph, uint32_t first,
                       const cel_box *layout, uint64_t unit) {
  const cel__plan *plan = &graph->plan;
  cel_region_clear(&graph->blocks);
  for (uint32_t i = first; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!in_group(touch, &plan->touches.at[first], layout)) continue;
    for (uint32_t b = 0; b < touch->region.n; ++b) {
      uint64_t begin, end;
      bytes_of(touch->buffer, layout, &touch->region.at[b], &begin, &end);
      cel_box units = {{(int64_t)(begin / unit), 0, 0},
                       {(int64_t)((end + unit - 1) / unit), 1, 1}};
      cel_region_add(&graph->blocks, &units);
    }
  }
}

/* What the group of touch i cannot do without: whole blocks, as others of its
 * allocation go by the block. */
static uint64_t group_needs(cel_instr_graph *graph, uint32_t i,
                            const cel_box *layout) {
  const cel_instr_graph_config *c = &graph->config;
  const cel_buffer *buffer = graph->plan.touches.at[i].buffer;
  uint64_t reserve = (uint64_t)cel_box_volume(layout) * buffer->element_size;
  if (c->grain == 0 || reserve < c->whole) return reserve;
  find_units(graph, i, layout, c->block);
  uint64_t sum = 0;
  for (uint32_t b = 0; b < graph->blocks.n; ++b) {
    const cel_box *blocks = &graph->blocks.at[b];
    uint64_t begin = (uint64_t)blocks->min[0] * c->block;
    uint64_t end = (uint64_t)blocks->max[0] * c->block;
    if (end > reserve) end = (reserve + c->grain - 1) / c->grain * c->grain;
    sum += end - begin;
  }
  return sum;
}

static uint64_t needs(cel_instr_graph *graph, int32_t memory, bool exactly) {
  const cel__plan *plan = &graph->plan;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    cel_box layout = layout_of(graph, touch, exactly);
    if (is_first(plan, i, &layout)) sum += group_needs(graph, i, &layout);
  }
  return sum;
}

bool cel__need_fits(cel_instr_graph *graph, uint64_t parts) {
  for (int32_t m = 0; m < graph->memories; ++m) {
    uint64_t capacity = graph->rooms[m].capacity;
    if (capacity != 0 && needs(graph, m, true) > capacity / parts) return false;
  }
  return true;
}

/* ---- failure ------------------------------------------------------------- */

/* "u (1.0 GiB), v (16.0 MiB)" */
static void list_groups(cel_instr_graph *graph, int32_t memory, char *text,
                        size_t size) {
  const cel__plan *plan = &graph->plan;
  text[0] = '\0';
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    cel_box layout = layout_of(graph, touch, true);
    if (!is_first(plan, i, &layout)) continue;
    char amount[CEL_AMOUNT_TEXT];
    cel_amount_text(group_needs(graph, i, &layout), amount, sizeof amount);
    size_t at = strlen(text);
    const char *name = touch->buffer->name;
    snprintf(text + at, size - at, "%s%.60s (%s)", at > 0 ? ", " : "",
             name != NULL ? name : "a buffer", amount);
  }
}

static cel_status too_large(cel_instr_graph *graph, int32_t memory) {
  const cel_command *command = graph->plan.command;
  const cel_task *task = command->task;
  char all[CEL_AMOUNT_TEXT], has[CEL_AMOUNT_TEXT], list[1024];
  cel_amount_text(needs(graph, memory, true), all, sizeof all);
  cel_amount_text(graph->rooms[memory].capacity, has, sizeof has);
  list_groups(graph, memory, list, sizeof list);
  bool message = command->kind != CEL_COMMAND_EXECUTE;
  cel_fail(CEL_E_MEMORY,
           "out of memory on device %d: %s '%s' needs %s there at once, %s, "
           "and this rank has %s of it; nothing else is left there, and the "
           "chunk %s",
           cel__device_in(graph, memory),
           message ? "a message for task" : "task",
           task->name != NULL ? task->name : "unnamed", all, list, has,
           message ? "is another rank's" : "cannot be cut further");
  return cel_fail_at(task->location.file, task->location.line);
}

/* ---- seeing to it -------------------------------------------------------- */

static bool need_all(cel_instr_graph *graph, int32_t memory, bool exactly) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    if (exactly) {
      cel_box layout = smallest(plan, touch);
      if (!cel__memory_need_exactly(graph, touch->buffer, memory, &layout))
        return false;
    }
    if (cel__memory_need(graph, touch->buffer, memory, &touch->hull) == NULL)
      return false;
  }
  return true;
}

/* Allocations for the plan's touches in one memory. One that is made for a
 * touch may take the place of another touch's, and is then used by both. */
static bool allocate(cel_instr_graph *graph, int32_t memory, bool exactly) {
  uint64_t next = graph->next_allocation;
  return need_all(graph, memory, exactly) &&
         (graph->next_allocation == next || need_all(graph, memory, exactly));
}

static bool all_committed(cel_instr_graph *graph, int32_t memory) {
  const cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    const cel__record *record =
        cel__memory_find(graph, touch->buffer, memory, &touch->hull);
    if (!cel__memory_is_committed(record, &touch->hull)) return false;
  }
  return true;
}

/* What the plan's touches have no memory for yet. */
static uint64_t lacks(cel_instr_graph *graph, int32_t memory) {
  const cel__plan *plan = &graph->plan;
  uint64_t sum = 0, grain = graph->config.grain;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!is_in(touch, memory)) continue;
    const cel__record *record =
        cel__memory_find(graph, touch->buffer, memory, &touch->hull);
    if (record->whole || !is_first(plan, i, &record->made.layout)) continue;
    find_units(graph, i, &record->made.layout, grain);
    for (uint32_t b = 0; b < graph->blocks.n; ++b) {
      const cel_box *grains = &graph->blocks.at[b];
      sum += cel__room_lacks(graph, record, (uint64_t)grains->min[0] * grain,
                             (uint64_t)grains->max[0] * grain);
    }
  }
  return sum;
}

/* When things were used matters for what room is short of, and for messages. */
static bool make_room(cel_instr_graph *graph, int32_t memory) {
  cel__room *room = &graph->rooms[memory];
  if (graph->told != NULL || !cel__room_has(graph, memory, room->capacity / 2))
    cel__room_touch(graph, memory);
  if (all_committed(graph, memory)) return true;
  room->promised = lacks(graph, memory);
  return cel__room_make(graph, memory, room->promised);
}

static bool fits(cel_instr_graph *graph, int32_t memory, bool exactly) {
  cel__room *room = &graph->rooms[memory];
  room->promised = 0;
  if (!allocate(graph, memory, exactly)) return false;
  return room->capacity == 0 || make_room(graph, memory);
}

/* An allocation may be larger than the present command would need, where it
 * serves others too: then one that fits takes its place. */
static cel_status need_in(cel_instr_graph *graph, int32_t memory) {
  if (fits(graph, memory, false) || fits(graph, memory, true)) return CEL_E_OK;
  return too_large(graph, memory);
}

/* What messages and collectives of one task hold stays until all of them have
 * been made: to wait for one before another would be to wait for a rank that
 * does the same. */
static void count_command(cel_instr_graph *graph) {
  const cel_command *command = graph->plan.command;
  bool message = command->kind == CEL_COMMAND_PUSH ||
                 command->kind == CEL_COMMAND_AWAIT_PUSH ||
                 command->kind == CEL_COMMAND_COLLECTIVE;
  if (!message || graph->told != command->task) cel__rooms_move_on(graph);
  graph->told = message ? command->task : NULL;
}

bool cel__need_find(cel_instr_graph *graph) {
  cel__plan *plan = &graph->plan;
  for (uint32_t i = 0; i < plan->used; ++i) {
    cel__touch *touch = &plan->touches.at[i];
    if (cel_box_is_empty(&touch->hull)) continue;
    touch->record =
        cel__memory_find(graph, touch->buffer, touch->memory, &touch->hull);
    if (touch->record == NULL) return false;
  }
  return plan->placed = true;
}

/* The plan is placed already, and room is of no account. */
static void note_use(cel__plan *plan) {
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (!cel_box_is_empty(&touch->hull) &&
        !cel_box_covers(&touch->record->used, &touch->hull))
      touch->record->used = cel_box_hull(&touch->record->used, &touch->hull);
  }
}

cel_status cel__need_plan(cel_instr_graph *graph) {
  count_command(graph);
  if (graph->plan.placed && !graph->limited) {
    note_use(&graph->plan);
    return CEL_E_OK;
  }
  for (int32_t m = 0; m < graph->memories; ++m) CEL_TRY(need_in(graph, m));
  bool found = cel__need_find(graph);
  cel_assert(found);
  (void)found;
  return CEL_E_OK;
}
