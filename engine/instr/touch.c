#include "instr/touch.h"

void cel__plan_release(cel__plan *plan) {
  for (uint32_t i = 0; i < plan->touches.n; ++i)
    cel_region_release(&plan->touches.at[i].region);
  cel_vec_release(&plan->touches);
  cel_vec_release(&plan->parts);
  cel_vec_release(&plan->views);
  cel_vec_release(&plan->carried);
}

cel__touch *cel__plan_touch(cel__plan *plan) {
  if (plan->used == plan->touches.n)
    cel_vec_push(&plan->touches, (cel__touch){0});
  return &plan->touches.at[plan->used++];
}

static bool covers(const cel__touch *touch, int32_t memory,
                   const cel_piece *piece) {
  return touch->buffer == piece->buffer && touch->memory == memory &&
         cel_box_covers(&touch->hull, &piece->box);
}

const cel__touch *cel__plan_covering(const cel__plan *plan, int32_t memory,
                                     const cel_piece *piece, uint32_t *at) {
  for (uint32_t i = 0; i < plan->boxes; ++i)
    if (covers(&plan->touches.at[i], memory, piece))
      return &plan->touches.at[i];
  for (uint32_t i = *at; i < plan->used; ++i)
    if (covers(&plan->touches.at[i], memory, piece)) {
      *at = i;
      return &plan->touches.at[i];
    }
  return NULL;
}

void cel__plan_discards(const cel__plan *plan, const cel_buffer *buffer,
                        cel_region *out) {
  cel_region_clear(out);
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->buffer == buffer && touch->produces)
      cel_region_unite(out, out, &touch->region);
  }
  for (uint32_t i = 0; i < plan->used && out->n > 0; ++i) {
    const cel__touch *touch = &plan->touches.at[i];
    if (touch->buffer == buffer && touch->consumes)
      cel_region_subtract(out, out, &touch->region);
  }
}

const cel__touch *cel__plan_overlap(const cel__plan *plan, cel_region *both) {
  uint32_t accesses = plan->command->task->accesses;
  for (uint32_t i = 0; i < plan->used; ++i) {
    const cel__touch *a = &plan->touches.at[i];
    uint32_t next = (i / accesses + 1) * accesses; /* part's */
    for (uint32_t j = next; j < plan->used; ++j) {
      const cel__touch *b = &plan->touches.at[j];
      if (!a->produces || !b->produces || a->buffer != b->buffer ||
          !cel_box_meets(&a->hull, &b->hull))
        continue;
      cel_region_intersect(both, &a->region, &b->region);
      if (both->n > 0) return a;
    }
  }
  return NULL;
}
