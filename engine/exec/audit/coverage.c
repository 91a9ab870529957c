#include "exec/audit/coverage.h"

#include "task/touched.h"

enum { APART = 8 }; /* buffers of an access on a device */

static void count(const cel_cover *cover, cel_counted *out) {
  for (int64_t i = 0; i < cover->bytes; ++i) {
    out->promised += cover->map[i] != 0;
    out->touched += (cover->map[i] & CEL_TOUCHED) != 0;
  }
}

static cel_counted *counted(cel_coverage *coverage, uint32_t access) {
  while (coverage->counted.n <= access)
    cel_vec_push(&coverage->counted, (cel_counted){0});
  return &coverage->counted.at[access];
}

static void drop(cel_coverage *coverage, uint32_t i) {
  cel_cover *cover = &coverage->covers.at[i];
  count(cover, counted(coverage, cover->access));
  cel_free(cover->map);
  cel_vec_swap_out(&coverage->covers, i);
}

/* Gives up the map that was not used for longest, where there are many. */
static void make_room(cel_coverage *coverage, uint32_t access, int32_t device) {
  uint32_t n = 0, oldest = 0;
  for (uint32_t i = 0; i < coverage->covers.n; ++i) {
    const cel_cover *cover = &coverage->covers.at[i];
    if (cover->access != access || cover->device != device) continue;
    if (n++ == 0 || cover->used < coverage->covers.at[oldest].used) oldest = i;
  }
  if (n >= APART) drop(coverage, oldest);
}

static cel_cover *cover_of(cel_coverage *coverage, uint32_t access,
                           int32_t device, const cel_buffer *buffer) {
  for (uint32_t i = 0; i < coverage->covers.n; ++i) {
    cel_cover *cover = &coverage->covers.at[i];
    if (cover->access == access && cover->device == device &&
        cover->buffer == buffer->id)
      return cover;
  }
  make_room(coverage, access, device);
  cel_cover cover = {.access = access,
                     .device = device,
                     .buffer = buffer->id,
                     .bytes = cel_box_volume(&buffer->extent)};
  cover.map = cel_alloc_zero((size_t)cover.bytes + 1);
  cel_vec_push(&coverage->covers, cover);
  return &cel_vec_last(&coverage->covers);
}

void cel_coverage_add(cel_coverage *coverage, uint32_t access, int32_t device,
                      const cel_buffer *buffer, const cel_view *view) {
  cel_cover *cover = cover_of(coverage, access, device, buffer);
  const cel_box *box = &view->box, *all = &buffer->extent;
  const unsigned char *from = view->touched->map;
  cover->used = ++coverage->additions;
  for (int64_t i = box->min[0]; i < box->max[0]; ++i)
    for (int64_t j = box->min[1]; j < box->max[1]; ++j) {
      unsigned char *to =
          cover->map + (i * all->max[1] + j) * all->max[2] + box->min[2];
      for (int64_t k = box->min[2]; k < box->max[2]; ++k) *to++ |= *from++;
    }
}

cel_counted cel_coverage_of(const cel_coverage *coverage, uint32_t access) {
  cel_counted sum = {0};
  if (access < coverage->counted.n) sum = coverage->counted.at[access];
  for (uint32_t i = 0; i < coverage->covers.n; ++i)
    if (coverage->covers.at[i].access == access)
      count(&coverage->covers.at[i], &sum);
  return sum;
}

void cel_coverage_release(cel_coverage *coverage) {
  for (uint32_t i = 0; i < coverage->covers.n; ++i)
    cel_free(coverage->covers.at[i].map);
  cel_vec_release(&coverage->covers);
  cel_vec_release(&coverage->counted);
}
