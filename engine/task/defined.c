#include "task/defined.h"

static cel_region *written(cel__defined *defined, const cel_buffer *buffer) {
  while (defined->written.n <= buffer->id)
    cel_vec_push(&defined->written, (cel_region){0});
  return &defined->written.at[buffer->id];
}

/* A write that keeps may fetch what nobody wrote: it is not there to use. */
static bool reads(const cel_access *access) {
  return cel_mode_consumes(access->mode) && access->mode != CEL_MODE_WRITE &&
         access->buffer->init == NULL && access->rows == 0 &&
         access->reducer == NULL;
}

void cel__defined_add(cel__defined *defined, cel_arena *arena,
                      cel_access *access, uint32_t n, const cel_region *image,
                      const bool *exact) {
  cel_region left = {0};
  for (uint32_t i = 0; i < n; ++i) {
    if (!reads(&access[i]) || !exact[i]) continue;
    cel_region_subtract(&left, &image[i], written(defined, access[i].buffer));
    access[i].undefined_boxes = left.n;
    access[i].undefined =
        cel_arena_copy(arena, left.at, left.n * sizeof *left.at);
  }
  cel_region_release(&left);
  for (uint32_t i = 0; i < n; ++i) {
    if (!cel_mode_produces(access[i].mode)) continue;
    cel_region *all = written(defined, access[i].buffer);
    cel_region_unite(all, all, &image[i]);
  }
}

void cel__defined_forget(cel__defined *defined, const cel_buffer *buffer) {
  if (buffer->id >= defined->written.n) return;
  cel_region_release(&defined->written.at[buffer->id]);
  defined->written.at[buffer->id] = (cel_region){0};
}

void cel__defined_release(cel__defined *defined) {
  for (uint32_t i = 0; i < defined->written.n; ++i)
    cel_region_release(&defined->written.at[i]);
  cel_vec_release(&defined->written);
}
