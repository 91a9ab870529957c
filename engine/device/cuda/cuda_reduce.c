#include "device/cuda/cuda_reduce.h"
#include "tuning.h"

enum { SHARED_ALIGN = 16, SHARED_ALL = 48 << 10 };

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

void cel__cuda_reduce_grid(const uint32_t block[3], uint32_t grid[3]) {
  int64_t blocks =
      CEL_TUNE_CUDA_STRIDING / ((int64_t)block[0] * block[1] * block[2]);
  int64_t room = CEL__REDUCE_BLOCKS;
  for (int d = 0; d < 3; ++d) {
    grid[d] = (uint32_t)least(grid[d], least(blocks, room));
    blocks = (blocks + grid[d] - 1) / grid[d];
    room /= grid[d];
  }
}

void cel__cuda_reduce_groups(const int64_t groups[3], int64_t most[3]) {
  int64_t left = CEL__REDUCE_GROUPS;
  for (int d = 0; d < 3; ++d) {
    most[d] = least(most[d], left);
    left /= least(most[d], groups[d]);
    if (left < 1) left = 1;
  }
}

static const cel_cuda_argument *argument_of(const cel_cuda_kernel *kernel,
                                            int32_t view) {
  for (const cel_cuda_argument *a = kernel->argument;; ++a)
    if (a->view && view-- == 0) return a;
}

uint32_t cel__cuda_reduce_shared(const cel_job *job, int64_t blocks) {
  const cel_cuda_kernel *kernel = job->work->cuda;
  int64_t items = cel_box_volume(&job->call.chunk) / blocks, bytes = 0;
  for (int32_t i = 0; i < job->work->reducers; ++i) {
    const cel_reducer *r = &job->work->reducer[i];
    int64_t n = cel_box_volume(&r->extent);
    if (!argument_of(kernel, r->view)->array) continue;
    if (n > items * CEL_TUNE_CUDA_SHARED_ELEMENTS) return 0;
    bytes +=
        (n * r->element_size + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
  }
  bool fits = bytes <= CEL_TUNE_CUDA_SHARED_BYTES &&
              bytes + kernel->shared <= SHARED_ALL;
  return fits ? (uint32_t)bytes : 0;
}

static CUresult launch(const cel_cuda *cuda, CUfunction function, int64_t n,
                       void *arguments, CUstream stream) {
  void *params[] = {arguments};
  int64_t blocks =
      least((n + CEL_TUNE_CUDA_ROWS_THREADS - 1) / CEL_TUNE_CUDA_ROWS_THREADS,
            CEL_TUNE_CUDA_ROWS_BLOCKS);
  return cuda->api->cuLaunchKernel(function, (unsigned)blocks, 1, 1,
                                   CEL_TUNE_CUDA_ROWS_THREADS, 1, 1, 0, stream,
                                   params, NULL);
}

CUresult cel__cuda_reduce_begin(const cel_cuda *cuda, int32_t device,
                                const cel_job *job, bool is_alone,
                                void *arguments, CUstream stream) {
  const cel_cuda_kernel *kernel = job->work->cuda;
  CUfunction begin = kernel->begin[device];
  int64_t n = 0;
  for (int32_t i = 0; i < job->work->reducers; ++i) {
    const cel_reducer *r = &job->work->reducer[i];
    int64_t own = cel_box_volume(&r->extent);
    bool is_shared = r->by.op == CEL_OP_FIXED && !is_alone;
    if (own > n && (argument_of(kernel, r->view)->array || is_shared)) n = own;
  }
  if (n == 0) return CUDA_SUCCESS;
  return launch(cuda, begin, n, arguments, stream);
}

/* celer::combining, in kernels/reduce_launch.cuh. */
typedef struct combining {
  uint64_t rows, into;
  int64_t first, end, pitch, elements;
  int32_t view, how;
} combining;

CUresult cel__cuda_reduce_combine(const cel_cuda *cuda, int32_t device,
                                  const cel_job *job, CUstream stream) {
  const cel_view *rows = &job->call.view[0], *into = &job->call.view[1];
  const cel_cuda_combine *what = job->work->values;
  int64_t n = job->call.chunk.max[0];
  cel_assert(rows->layout.min[0] == 0 && rows->layout.min[1] == 0 &&
             job->call.chunk.min[0] == 0 && cel_box_volume(&into->layout) == n);
  combining all = {.rows = (uintptr_t)rows->base,
                   .into = (uintptr_t)into->base,
                   .first = rows->box.min[0],
                   .end = rows->box.max[0],
                   .pitch = rows->layout.max[1],
                   .elements = n,
                   .view = what->view,
                   .how = what->how};
  return launch(cuda, job->work->cuda->combine[device], n, &all, stream);
}
