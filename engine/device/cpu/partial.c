#include "device/cpu/partial.h"
#include "tuning.h"

#include <string.h>

struct cel__partial {
  int64_t blocks;
  cel_box chunk;     /* the call's */
  char *rows;        /* of the first reducer; those of the others come behind */
  cel_lines lines[]; /* of each reducer each block; begun null: its row is
                        whole, and all that it comes to */
};

static int64_t rounded(int64_t bytes) {
  return (bytes + CEL_LINE - 1) / CEL_LINE * CEL_LINE;
}

/* From one row to the next, in elements; no two lie in one cache line. */
static int64_t pitch(const cel_reducer *r) {
  int64_t size = r->element_size;
  return cel_box_volume(&r->extent) + (CEL_LINE + size - 1) / size;
}

static int64_t row_bytes(const cel_reducer *r) {
  return pitch(r) * r->element_size;
}

static int64_t all_bytes(const cel_work *work) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < work->reducers; ++i)
    bytes += rounded(row_bytes(&work->reducer[i]));
  return bytes;
}

int64_t cel__partial_blocks(const cel_work *work) {
  int64_t fit = CEL_TUNE_PARTIAL_BYTES / (all_bytes(work) + 1);
  return fit < 1                         ? 1
         : fit < CEL_TUNE_PARTIAL_BLOCKS ? fit
                                         : CEL_TUNE_PARTIAL_BLOCKS;
}

static int64_t line_count(const cel_reducer *r) {
  return (cel_box_volume(&r->extent) * r->element_size + CEL_LINE - 1) /
         CEL_LINE;
}

static bool by_lines(const cel_job *job, const cel_reducer *r, int64_t blocks) {
  int64_t items = cel_box_volume(&job->call.chunk);
  return r->begins &&
         cel_box_volume(&r->extent) * blocks / CEL_TUNE_PARTIAL_FEW > items;
}

/* Whoever looks for bytes that are not 0 takes 8 at a time. */
static int64_t begun_bytes(const cel_reducer *r) {
  return rounded(line_count(r) + (int64_t)sizeof(uint64_t));
}

cel__partial *cel__partial_create(const cel_job *job, int64_t blocks) {
  const cel_work *work = job->work;
  int64_t rows = all_bytes(work) * blocks, begun = 0;
  int64_t head = (int64_t)sizeof(cel__partial) +
                 work->reducers * blocks * (int64_t)sizeof(cel_lines);
  for (int32_t k = 0; k < work->reducers; ++k)
    if (by_lines(job, &work->reducer[k], blocks))
      begun += begun_bytes(&work->reducer[k]) * blocks;
  head = rounded(head + CEL_LINE); /* and where the rows begin is, too */
  cel__partial *p = cel_alloc((size_t)(head + rows + begun));
  *p = (cel__partial){.blocks = blocks, .chunk = job->call.chunk};
  p->rows = (char *)p + head - (uintptr_t)p % CEL_LINE;
  unsigned char *at = (unsigned char *)p->rows + rows;
  memset(at, 0, (size_t)begun);
  for (int32_t k = 0; k < work->reducers; ++k) {
    const cel_reducer *r = &work->reducer[k];
    int64_t bytes = by_lines(job, r, blocks) ? begun_bytes(r) : 0;
    for (int64_t i = 0; i < blocks; ++i, at += bytes)
      p->lines[k * blocks + i] = (cel_lines){.begun = bytes > 0 ? at : NULL,
                                             .count = line_count(r),
                                             .stride = bytes,
                                             .identity = r->identity};
  }
  return p;
}

/* Of the row of reducer k that block i has; null where it is whole. */
static cel_lines *lines_of(cel__partial *p, int32_t k, int64_t i) {
  cel_lines *lines = &p->lines[k * p->blocks + i];
  return lines->begun != NULL ? lines : NULL;
}

/* The elements that `block` has for itself: those at its items' own
 * coordinates, by the last dimensions of the items if they have more than the
 * array. Blocks that differ in the first ones alone have the same: then they
 * are the first one's. None, where they do not lie side by side. */
static void find_own(const cel_reducer *r, const cel_box *chunk,
                     const cel_box *block, cel_lines *lines) {
  int first = r->item_dims - r->dims;
  int64_t begin = 0, last = 0, items = 1;
  lines->own_begin = lines->own_end = lines->along = 0;
  if (first < 0) return;
  for (int d = 0; d < first; ++d)
    if (block->min[d] != chunk->min[d]) return;
  for (int d = 0; d < r->dims; ++d) {
    int64_t n = r->extent.max[d], from = block->min[first + d];
    int64_t to = block->max[first + d];
    if (from < 0 || to > n) return;
    begin = begin * n + from;
    last = last * n + to - 1;
    items *= to - from;
  }
  if (last + 1 - begin != items) return;
  lines->own_begin = begin;
  lines->own_end = last + 1;
  lines->along = 1;
}

/* Where the rows of the next reducer begin. */
static char *after(char *rows, const cel_reducer *r, int64_t blocks) {
  return rows + rounded(row_bytes(r)) * blocks;
}

cel_status cel__partial_run(const cel_job *part, cel__partial *p, int64_t i,
                            bool goes_on) {
  size_t size = (size_t)part->call.views * sizeof(cel_view);
  cel_view *view = cel_alloc(size);
  cel_job own = *part;
  memcpy(view, part->call.view, size);
  char *rows = p->rows;
  for (int32_t k = 0; k < part->work->reducers; ++k) {
    const cel_reducer *r = &part->work->reducer[k];
    cel_lines *lines = lines_of(p, k, i);
    cel_assert(!goes_on || lines == NULL);
    void *row = rows + i * row_bytes(r);
    view[r->view].lines = lines;
    if (lines == NULL) {
      view[r->view].base = row;
      view[r->view].holds = goes_on;
    } else {
      lines->row = row;
      find_own(r, &p->chunk, &part->call.chunk, lines);
      if (!view[r->view].holds)
        cel__reducer_begin(r, view[r->view].base, lines->own_begin,
                           lines->own_end);
    }
    rows = after(rows, r, p->blocks);
  }
  own.call.view = view;
  cel_status status = cel_job_run(&own);
  cel_free(view);
  return status;
}

/* What is no block's own. Blocks that own something do so in their order. */
static void begin_others(cel__partial *p, int32_t k, const cel_reducer *r,
                         void *into) {
  int64_t at = 0;
  for (int64_t i = 0; i < p->blocks; ++i) {
    const cel_lines *lines = lines_of(p, k, i);
    if (lines->own_begin == lines->own_end) continue;
    cel__reducer_begin(r, into, at, lines->own_begin);
    at = lines->own_end;
  }
  cel__reducer_begin(r, into, at, cel_box_volume(&r->extent));
}

cel_status cel__partial_combine(const cel_job *job, cel__partial *p) {
  char *rows = p->rows;
  for (int32_t k = 0; k < job->work->reducers; ++k) {
    const cel_reducer *r = &job->work->reducer[k];
    int64_t n = cel_box_volume(&r->extent);
    cel_view view[] = {{.base = rows,
                        .layout = cel_box_sized(p->blocks, pitch(r), 1),
                        .box = cel_box_sized(p->blocks, n, 1),
                        .lines = lines_of(p, k, 0)},
                       job->call.view[r->view]};
    cel_call call = {.chunk = cel_box_sized(n, 1, 1),
                     .range = cel_box_sized(n, 1, 1),
                     .ranks = 1,
                     .views = 2,
                     .view = view};
    if (view[0].lines != NULL && !view[1].holds)
      begin_others(p, k, r, view[1].base);
    cel_work *combine = view[1].holds ? r->combine_onto : r->combine;
    CEL_TRY(combine->fn(combine, &call));
    rows = after(rows, r, p->blocks);
  }
  return CEL_E_OK;
}
