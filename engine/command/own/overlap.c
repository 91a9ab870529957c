#include "command/own/overlap.h"

#include <inttypes.h>

#include "region/map.h"

enum { BOX_TEXT = 160 }; /* three dimensions of two numbers */

/* Into what ranks share. */
static bool produces(const cel__use *use) {
  return cel_mode_produces(use->access->mode) && !use->access->buffer->apart;
}

static bool writes_to(const cel__use *use, const cel_buffer *buffer) {
  return produces(use) && use->access->buffer == buffer;
}

/* Whether two writes of one buffer certainly keep out of each other's ranks. */
static bool surely_disjoint(const cel__footprint *a, const cel__footprint *b) {
  if (!cel_box_meets(&a->hull, &b->hull)) return true;
  if (!a->tiled || !b->tiled) return false;
  for (uint32_t i = 0; i < a->shapes; ++i)
    for (uint32_t j = 0; j < b->shapes; ++j) {
      const cel__shape *x = &a->shape[i], *y = &b->shape[j];
      if (cel_box_meets(&x->hull, &y->hull) && x->owner != y->owner)
        return false;
    }
  return true;
}

static cel_status fail(const cel_task *task, const cel__use *use, int64_t a,
                       int64_t b, const cel_box *box) {
  const cel_split *split = &use->footprint->split;
  const cel_buffer *buffer = use->access->buffer;
  cel_box first, second;
  cel_split_chunk(split, a, &first);
  cel_split_chunk(split, b, &second);
  char where[BOX_TEXT], from[2][BOX_TEXT];
  cel_box_print(box, buffer->dims > 0 ? buffer->dims : 1, where, BOX_TEXT);
  cel_box_print(&first, task->dims > 0 ? task->dims : 1, from[0], BOX_TEXT);
  cel_box_print(&second, task->dims > 0 ? task->dims : 1, from[1], BOX_TEXT);
  return cel_fail(CEL_E_OVERLAP,
                  "task '%s' writes %s of buffer '%s' twice: from chunk %s on "
                  "rank %" PRId64 " and from chunk %s on rank %" PRId64,
                  task->name ? task->name : "", where,
                  buffer->name ? buffer->name : "", from[0], a, from[1], b);
}

/* Values of the map: the rank that writes there, plus 1. */
static cel_status enter(cel_map *map, const cel_task *task, const cel__use *use,
                        int64_t k, const cel__boxes *boxes,
                        cel_map_entries *found) {
  for (uint32_t i = 0; i < boxes->n; ++i) {
    cel_map_query(map, &boxes->at[i], found);
    for (uint32_t j = 0; j < found->n; ++j) {
      int64_t other = (int64_t)found->at[j].value - 1;
      if (other >= 0 && other != k)
        return fail(task, use, other, k, &found->at[j].box);
    }
    cel_map_update(map, &boxes->at[i], (uint64_t)k + 1);
  }
  return CEL_E_OK;
}

/* All writes of one buffer. */
static cel_status try_all(const cel__footprints *all, const cel_task *task,
                          const cel__use *use, uint32_t n,
                          const cel_buffer *buffer) {
  cel_map *map = cel_map_create(&buffer->extent, 0);
  cel_map_entries found = {0};
  cel__boxes boxes = {0};
  cel_status status = CEL_E_OK;
  for (uint32_t i = 0; i < n && status == CEL_E_OK; ++i) {
    if (!writes_to(&use[i], buffer)) continue;
    int64_t ranks = use[i].footprint->split.n;
    for (int64_t k = 0; k < ranks && status == CEL_E_OK; ++k) {
      cel_vec_clear(&boxes);
      cel__footprint_boxes(all, use[i].footprint, k, &boxes);
      status = enter(map, task, &use[i], k, &boxes, &found);
    }
  }
  cel_vec_release(&boxes);
  cel_map_entries_release(&found);
  cel_map_destroy(map);
  return status;
}

cel_status cel__writes_check(const cel__footprints *all, const cel_task *task,
                             const cel__use *use, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (!produces(&use[i])) continue;
    const cel_buffer *buffer = use[i].access->buffer;
    bool known = use[i].footprint->disjoint, alone = true;
    for (uint32_t j = 0; j < n; ++j) {
      if (j == i || !writes_to(&use[j], buffer)) continue;
      alone = false;
      if (j < i)
        known = known && surely_disjoint(use[i].footprint, use[j].footprint);
    }
    if (known) continue;
    cel_status status = try_all(all, task, use, n, buffer);
    if (status != CEL_E_OK) return status;
    if (alone) use[i].footprint->disjoint = true;
  }
  return CEL_E_OK;
}
