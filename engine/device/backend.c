#include "device/backend.h"
#include "tuning.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

uint64_t cel__backend_block(uint64_t capacity, uint64_t grain) {
  uint64_t block = grain;
  while (block < CEL_TUNE_MEMORY_BLOCK_MOST &&
         block * CEL_TUNE_MEMORY_BLOCKS < capacity)
    block *= 2;
  return block;
}

static uint64_t stride_of(const cel_layout *l, int dim, uint64_t size) {
  for (int d = CEL_DIMS - 1; d > dim; --d)
    size *= (uint64_t)(l->box.max[d] - l->box.min[d]);
  return size;
}

static char *address_of(const cel_layout *l, const cel_box *box,
                        const uint64_t *stride) {
  char *p = l->base;
  for (int d = 0; d < CEL_DIMS; ++d)
    p += (uint64_t)(box->min[d] - l->box.min[d]) * stride[d];
  return p;
}

/* `n` pieces of `size` bytes. Constant sizes keep columns out of memcpy. */
static void copy_pieces(char *to, uint64_t to_stride, const char *from,
                        uint64_t from_stride, int64_t n, uint64_t size) {
#define COPY_CASE(bytes)                                                       \
  case bytes:                                                                  \
    for (int64_t i = 0; i < n; ++i, to += to_stride, from += from_stride)      \
      memcpy(to, from, bytes);                                                 \
    break;
  switch (size) {
    COPY_CASE(4)
    COPY_CASE(8)
    COPY_CASE(16)
  default:
    for (int64_t i = 0; i < n; ++i, to += to_stride, from += from_stride)
      memcpy(to, from, size);
  }
#undef COPY_CASE
}

void cel_copy_box(const cel_layout *from, const cel_layout *to,
                  const cel_box *box, uint32_t element_size) {
  if (cel_box_is_empty(box)) return;
  cel_assert(cel_box_covers(&from->box, box));
  cel_assert(cel_box_covers(&to->box, box));
  uint64_t fs[CEL_DIMS], ts[CEL_DIMS];
  int64_t n[CEL_DIMS];
  for (int d = 0; d < CEL_DIMS; ++d) {
    fs[d] = stride_of(from, d, element_size);
    ts[d] = stride_of(to, d, element_size);
    n[d] = box->max[d] - box->min[d];
  }
  const char *f = address_of(from, box, fs);
  char *t = address_of(to, box, ts);
  /* Dimensions whose points lie side by side in both become one piece. */
  uint64_t piece = element_size;
  int last = CEL_DIMS - 1;
  for (;
       last >= 0 && (n[last] == 1 || (fs[last] == piece && ts[last] == piece));
       --last)
    piece *= (uint64_t)n[last];
  if (last < 0) {
    memcpy(t, f, piece);
    return;
  }
  int64_t outer0 = last > 0 ? n[0] : 1, outer1 = last > 1 ? n[1] : 1;
  for (int64_t i = 0; i < outer0; ++i)
    for (int64_t j = 0; j < outer1; ++j)
      copy_pieces(t + (uint64_t)i * ts[0] + (uint64_t)j * ts[1], ts[last],
                  f + (uint64_t)i * fs[0] + (uint64_t)j * fs[1], fs[last],
                  n[last], piece);
}

/* ---- by several threads -------------------------------------------------- */

typedef struct wide {
  const cel_layout *from, *to;
  const cel_box *box;
  uint32_t element_size;
  int64_t step[3], parts;
  _Atomic(int64_t) next;
} wide;

static void *copy_parts(void *argument) {
  wide *w = argument;
  for (int64_t i; (i = atomic_fetch_add(&w->next, 1)) < w->parts;) {
    cel_box part = cel_box_piece(w->box, w->step, i);
    cel_copy_box(w->from, w->to, &part, w->element_size);
  }
  return NULL;
}

void cel_copy_box_wide(const cel_layout *from, const cel_layout *to,
                       const cel_box *box, uint32_t element_size) {
  /* As many threads as there are cores for, and as are worth it. */
  int64_t worth = cel_box_volume(box) * element_size / CEL_TUNE_WIDE_BYTES;
  int64_t cores = cel_park_cores(), helpers = 0;
  int64_t n = cores < CEL_TUNE_WIDE_THREADS ? cores : CEL_TUNE_WIDE_THREADS;
  if (worth < n) n = worth;
  if (n <= 1) {
    cel_copy_box(from, to, box, element_size);
    return;
  }
  wide w = {.from = from, .to = to, .box = box, .element_size = element_size};
  w.parts = cel_box_pieces(box, element_size, CEL_TUNE_WIDE_PART, w.step);
  pthread_t helper[CEL_TUNE_WIDE_THREADS];
  while (helpers < n - 1 &&
         pthread_create(&helper[helpers], NULL, copy_parts, &w) == 0)
    ++helpers;
  copy_parts(&w);
  while (helpers > 0) pthread_join(helper[--helpers], NULL);
}

/* ---- jobs ---------------------------------------------------------------- */

/* Where `box` begins in the layout if its points lie there side by side, else
 * null. */
static char *in_place(const cel_layout *layout, const cel_box *box,
                      uint32_t element_size) {
  uint64_t stride[CEL_DIMS], dense = element_size;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t n = box->max[d] - box->min[d];
    stride[d] = stride_of(layout, d, element_size);
    if (n > 1 && stride[d] != dense) return NULL;
    dense *= (uint64_t)n;
  }
  return address_of(layout, box, stride);
}

static cel_status init_piece(const cel_job *job, const cel_box *box,
                             void *staging) {
  char *place = in_place(&job->to, box, job->element_size);
  if (place != NULL) return job->init->fill(job->init, box, place);
  CEL_TRY(job->init->fill(job->init, box, staging));
  cel_layout from = {staging, *box};
  cel_copy_box(&from, &job->to, box, job->element_size);
  return CEL_E_OK;
}

/* Cut along the slowest dimension, in pieces that fit in the staging memory
 * or are one point thick. */
static cel_status run_init(const cel_job *job) {
  const cel_box *box = &job->box;
  if (in_place(&job->to, box, job->element_size) != NULL)
    return init_piece(job, box, NULL);
  int dim = 0;
  while (dim < CEL_DIMS - 1 && box->max[dim] - box->min[dim] == 1) ++dim;
  int64_t n = box->max[dim] - box->min[dim];
  int64_t row = cel_box_volume(box) / n * job->element_size;
  int64_t step = row < CEL_TUNE_INIT_STAGING ? CEL_TUNE_INIT_STAGING / row : 1;
  if (step > n) step = n;
  void *staging = cel_alloc((size_t)(row * step));
  cel_status status = CEL_E_OK;
  for (int64_t at = box->min[dim]; at < box->max[dim] && status == CEL_E_OK;
       at += step) {
    cel_box piece = *box;
    piece.min[dim] = at;
    if (box->max[dim] - at > step) piece.max[dim] = at + step;
    status = init_piece(job, &piece, staging);
  }
  cel_free(staging);
  return status;
}

/* What there is of it is copied behind it, until that is as much as stays in a
 * processor's first cache. */
void cel__reducer_begin(const cel_reducer *r, void *row, int64_t begin,
                        int64_t end) {
  char *first = (char *)row + begin * r->element_size;
  size_t all = (size_t)(end - begin) * r->element_size;
  size_t done = r->element_size;
  if (all == 0) return;
  memcpy(first, r->identity, done);
  for (size_t most = done; done < all; done += most) {
    if (most < done && done <= CEL_TUNE_IDENTITY_BYTES) most = done;
    if (most > all - done) most = all - done;
    memcpy(first + done, first, most);
  }
}

static cel_status run_call(const cel_job *job) {
  /* Rows begin, those of a chunk without items, too. */
  for (int32_t i = 0; i < job->work->reducers; ++i) {
    const cel_reducer *r = &job->work->reducer[i];
    const cel_view *view = &job->call.view[r->view];
    if (view->lines == NULL && !view->holds)
      cel__reducer_begin(r, view->base, 0, cel_box_volume(&r->extent));
  }
  return cel_box_is_empty(&job->call.chunk)
             ? CEL_E_OK
             : job->work->fn(job->work, &job->call);
}

static _Thread_local const cel_job *under_way;

const cel_job *cel_job_under_way(void) {
  return under_way;
}

static cel_status carry_out(const cel_job *job) {
  switch (job->kind) {
  case CEL_JOB_COPY:
    cel_copy_box(&job->from, &job->to, &job->box, job->element_size);
    return CEL_E_OK;
  case CEL_JOB_INIT:
    return cel_box_is_empty(&job->box) ? CEL_E_OK : run_init(job);
  case CEL_JOB_CALL: return run_call(job);
  case CEL_JOB_PUT: return job->put(job->context, NULL);
  case CEL_JOB_FOLD: break; /* its steps are jobs: bands.h, fold.c */
  }
  cel_bug("no such job: %d", (int)job->kind);
}

cel_status cel_job_run(const cel_job *job) {
  const cel_job *before = under_way;
  under_way = job;
  cel_status status = carry_out(job);
  under_way = before;
  return status;
}
