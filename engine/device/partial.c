#include "device/partial.h"

#include <string.h>

enum { BLOCKS = 64, ROOM = 16 << 20, APART = 64 };

/* From one row to the next, in elements; no two lie in one cache line. */
static int64_t pitch(const cel_reducer *r) {
  int64_t size = r->element_size;
  return cel_box_volume(&r->extent) + (APART + size - 1) / size;
}

static int64_t row_bytes(const cel_reducer *r) {
  return pitch(r) * r->element_size;
}

static int64_t all_bytes(const cel_work *work) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < work->reducers; ++i)
    bytes += (row_bytes(&work->reducer[i]) + APART - 1) / APART * APART;
  return bytes;
}

int64_t cel__partial_blocks(const cel_work *work) {
  int64_t fit = ROOM / (all_bytes(work) + 1);
  return fit < 1 ? 1 : fit < BLOCKS ? fit : BLOCKS;
}

char *cel__partial_rows(const cel_work *work, int64_t blocks) {
  return cel_alloc((size_t)(all_bytes(work) * blocks));
}

/* Where the rows of the next reducer begin. */
static char *after(char *rows, const cel_reducer *r, int64_t blocks) {
  return rows + (row_bytes(r) + APART - 1) / APART * APART * blocks;
}

cel_status cel__partial_run(const cel_job *part, char *rows, int64_t blocks,
                            int64_t i) {
  size_t size = (size_t)part->call.views * sizeof(cel_view);
  cel_view *view = cel_alloc(size);
  cel_job own = *part;
  memcpy(view, part->call.view, size);
  for (int32_t k = 0; k < part->work->reducers; ++k) {
    const cel_reducer *r = &part->work->reducer[k];
    view[r->view].base = rows + i * row_bytes(r);
    rows = after(rows, r, blocks);
  }
  own.call.view = view;
  cel_status status = cel_job_run(&own);
  cel_free(view);
  return status;
}

cel_status cel__partial_combine(const cel_job *job, char *rows,
                                int64_t blocks) {
  for (int32_t k = 0; k < job->work->reducers; ++k) {
    const cel_reducer *r = &job->work->reducer[k];
    int64_t n = cel_box_volume(&r->extent);
    cel_view view[] = {{.base = rows,
                        .layout = cel_box_sized(blocks, pitch(r), 1),
                        .box = cel_box_sized(blocks, n, 1)},
                       job->call.view[r->view]};
    cel_call call = {.chunk = cel_box_sized(n, 1, 1),
                     .range = cel_box_sized(n, 1, 1),
                     .ranks = 1,
                     .views = 2,
                     .view = view};
    CEL_TRY(r->combine->fn(r->combine, &call));
    rows = after(rows, r, blocks);
  }
  return CEL_E_OK;
}
