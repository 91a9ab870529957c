#include "device/cuda/cuda_fold.h"

#include <stdatomic.h>
#include <string.h>

#include "device/cuda/cuda_lane.h"
#include "device/cuda/cuda_reduce.h"
#include "device/cuda/cuda_trial.h"
#include "device/kernel.h"
#include "tuning.h"

/* kernels/fold.cuh says the same. */
enum {
  LAUNCH = 96,
  TILE = 64,
  TILE_ROWS = 8, /* of a thread */
  ARGUMENTS = 4096,
  COLUMNS = CEL_FUSED_LANES * CEL_FUSED_OWN, /* of a warp */
  SHARED = 227 << 10, /* of a block at most, by the GPUs of today */
  LEAST = 16          /* items of a tile that are right in the end */
};

typedef struct fold_array {
  const unsigned char *from;
  unsigned char *to;
  int32_t stride0, stride1, loads, stores;
  int32_t min[3], max[3], wide, unused;
} fold_array;

_Static_assert(sizeof(fold_array) == 64, "celer::fold_array");

/* ---- patterns ------------------------------------------------------------ */

static int32_t reach(const cel_fold_call *step, int d, bool above) {
  int32_t most = 0;
  for (int32_t k = 0; k < step->call.views; ++k) {
    const cel_fold_view *use = &step->use[k];
    int32_t r = above ? use->above[d] : use->below[d];
    if (use->array >= 0 && r > most) most = r;
  }
  return most;
}

/* What all later steps reach in all. */
void cel__cuda_fold_margin(const cel_fold_job *fold, int32_t step,
                           int32_t out[4]) {
  const bool row = fold->step[0].work->cuda->dims == 1;
  memset(out, 0, 4 * sizeof *out);
  for (int32_t s = step + 1; s < fold->steps; ++s)
    for (int i = row ? 2 : 0; i < 4; ++i)
      out[i] += reach(&fold->step[s], row ? 0 : i / 2, i % 2 == 1);
}

static bool reads_array(const cel_fold_call *step, int32_t array) {
  for (int32_t k = 0; k < step->call.views; ++k)
    if (step->use[k].array == array && !step->use[k].writes) return true;
  return false;
}

static bool reaches_in(const cel_fold_job *fold, int d) {
  for (int32_t s = 0; s < fold->steps; ++s)
    if (reach(&fold->step[s], d, false) + reach(&fold->step[s], d, true) > 0)
      return true;
  return false;
}

/* What is reduced to is then a register of each thread. */
static bool reduces_arrays(const cel_cuda_kernel *kernel) {
  for (int32_t i = 0; i < kernel->arguments; ++i)
    if (kernel->argument[i].reducer && kernel->argument[i].array) return true;
  return false;
}

static bool may_be_fused(const cel_work *work, int32_t dims) {
  const cel_cuda_kernel *kernel = work->cuda;
  return kernel != NULL && work->alike && !reduces_arrays(kernel) &&
         !work->combines && !work->lua && !work->waits && !kernel->grouped &&
         kernel->block[0] == 0 && kernel->dims == dims && dims > 0;
}

/* Shared memory of a block for tiles of all arrays; 0: too much, or the steps
 * reach so far that too little of a tile would be right in the end. */
static uint32_t tile_bytes(const cel_fold_job *fold, const int32_t around[4]) {
  uint32_t bytes = 0;
  for (int32_t a = 0; a < fold->arrays; ++a)
    bytes += fold->array[a].element_size * TILE * TILE;
  return around[0] + around[1] <= TILE - LEAST &&
                 around[2] + around[3] <= TILE - LEAST && bytes <= SHARED
             ? bytes
             : 0;
}

/* Columns of a stream's block that are not right in the end come as whole
 * lanes. */
static int32_t whole_lanes(int32_t columns) {
  return (columns + CEL_FUSED_OWN - 1) & -CEL_FUSED_OWN;
}

/* Whether some step reads around the ends of the range, which meet. */
static bool wraps(const cel_fold_job *fold) {
  for (int32_t s = 0; s < fold->steps; ++s)
    for (int32_t k = 0; k < fold->step[s].call.views; ++k)
      for (int d = 0; d < CEL_DIMS; ++d)
        if (fold->step[s].use[k].array >= 0 && fold->step[s].use[k].wraps[d])
          return true;
  return false;
}

/* Whether all that is read around items is read so, by views that find by
 * themselves what is beyond an end: they can be told that nothing is. */
static bool is_torus(const cel_fold_job *fold) {
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    const cel_param *p = step->work->cuda->param;
    for (int32_t k = 0; k < step->call.views; ++k, ++p) {
      const cel_fold_view *use = &step->use[k];
      while (!cel__param_is_view(p)) ++p;
      if (use->array < 0 || !cel_fold_reaches(use)) continue;
      if (p[1].kind != CEL_PARAM_VALUE || p[1].dims == 0) return false;
      for (int d = 0; d < CEL_DIMS; ++d)
        if (use->below[d] + use->above[d] > 0 && !use->wraps[d]) return false;
    }
  }
  return true;
}

/* Whether a step may go by lanes that have some columns each, and read beside
 * them no further than the next lane has it. They also compute columns that are
 * not right, of values that never come together, and so what goes on until
 * values are alike might never end, nor would an index into a table have to lie
 * in it. What views do at edges by themselves would be compiled for each
 * element that is read, which takes minutes. */
static bool goes_by_lanes(const cel_fold_call *step, int32_t dims, bool torus) {
  const cel_cuda_kernel *kernel = step->work->cuda;
  if ((kernel->edges && !torus) || !kernel->straight) return false;
  for (int32_t k = 0; k < step->call.views; ++k) {
    const cel_fold_view *use = &step->use[k];
    if (use->array < 0 && !use->writes &&
        cel_box_volume(&step->call.view[k].box) > 1)
      return false;
    if (use->array >= 0 && dims > 1 && cel_fold_reaches(use) &&
        !use->along_axes)
      return false;
  }
  for (int above = 0; above < 2; ++above)
    if (reach(step, dims - 1, above) > CEL_FUSED_OWN) return false;
  return true;
}

static int32_t rows_around(const cel_fold_call *step) {
  return reach(step, 0, false) + reach(step, 0, true);
}

/* Whether threads may keep their columns of what all steps write: so much as
 * registers hold. */
static bool streams(const cel_fold_job *fold, const int32_t around[4]) {
  const int32_t dims = fold->step[0].work->cuda->dims;
  uint32_t held = 0;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    uint32_t written = 0;
    if (!goes_by_lanes(step, dims, false)) return false;
    for (int32_t k = 0; k < step->call.views; ++k) {
      const cel_fold_view *use = &step->use[k];
      if (use->array >= 0 && use->writes)
        written += fold->array[use->array].element_size;
    }
    int32_t rows = dims > 1 ? rows_around(step) : 0;
    held += written * (uint32_t)(rows > 0 ? rows : 1);
  }
  return held <= CEL_TUNE_FOLD_STREAM_BYTES &&
         whole_lanes(around[2]) + whole_lanes(around[3]) <= COLUMNS / 2;
}

/* Whether threads may keep some rows of all arrays; of how many, and with how
 * much of shared memory for each warp. */
static bool sheets(const cel_fold_job *fold, cel_fused *out) {
  enum { HIGHEST = 6, LOWEST = 3 };
  enum { THIRDS = 3 }; /* of rows, of which two are to be right in the end */
  enum { LITTLE = 16, MOST = 16, FEW = 12 }; /* warps, by an element's bytes */
  const int32_t *around = out->around;
  uint32_t element = 0;
  for (int32_t a = 0; a < fold->arrays; ++a)
    element += fold->array[a].element_size;
  out->warps = element > LITTLE ? FEW : MOST;
  out->high = (int32_t)((element > LITTLE ? 3 * CEL_TUNE_FOLD_SHEET_BYTES / 2
                                          : CEL_TUNE_FOLD_SHEET_BYTES) /
                        element);
  if (out->high > HIGHEST) out->high = HIGHEST;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    uint32_t shown = 0;
    if (!goes_by_lanes(step, 2, out->torus) ||
        reach(step, 0, false) > out->high || reach(step, 0, true) > out->high)
      return false;
    for (int32_t k = 0; k < step->call.views; ++k)
      if (step->use[k].array < 0 && !step->use[k].writes) return false;
    for (int32_t a = 0; a < fold->arrays; ++a)
      if (reads_array(step, a))
        shown +=
            fold->array[a].element_size * COLUMNS * (uint32_t)rows_around(step);
    if (2 * shown > out->shared_warp) out->shared_warp = 2 * shown;
  }
  const uint32_t asked = element * COLUMNS * (uint32_t)out->high;
  out->ahead = (uint32_t)out->warps * (out->shared_warp + asked) <= SHARED;
  if (out->ahead) out->shared_warp += asked;
  return out->high >= LOWEST &&
         (uint32_t)out->warps * out->shared_warp <= SHARED &&
         out->warps * out->high >= THIRDS * (around[0] + around[1]) &&
         whole_lanes(around[2]) + whole_lanes(around[3]) <= COLUMNS / 2;
}

bool cel__cuda_fold_pattern(const cel_fold_job *fold, cel_fused_way way,
                            cel_fused *out) {
  if (fold->steps < 1 || fold->step[0].work->cuda == NULL) return false;
  const int32_t dims = fold->step[0].work->cuda->dims;
  uint32_t bytes = LAUNCH + (uint32_t)fold->arrays * sizeof(fold_array);
  for (int32_t s = 0; s < fold->steps; ++s) {
    if (!may_be_fused(fold->step[s].work, dims)) return false;
    if (fold->step[s].work->reducers > 0 && s != fold->steps - 1) return false;
    bytes += fold->step[s].work->cuda->bytes;
  }
  for (int32_t a = 0; a < fold->arrays; ++a)
    if (fold->array[a].dims != dims) return false;
  *out = (cel_fused){.way = way, .bytes = bytes, .torus = wraps(fold)};
  cel__cuda_fold_margin(fold, -1, out->around);
  if (bytes > ARGUMENTS) return false;
  out->reduces = fold->step[fold->steps - 1].work->reducers > 0;
  if (way == CEL_FUSED_CHAIN) return true;
  if (dims > 2 || reaches_in(fold, 2) || out->reduces) return false;
  if (out->torus && (way == CEL_FUSED_STREAM || !is_torus(fold))) return false;
  if (way == CEL_FUSED_STREAM) return streams(fold, out->around);
  if (dims != 2) return false;
  if (way == CEL_FUSED_SHEET) return sheets(fold, out);
  out->shared = tile_bytes(fold, out->around);
  return out->shared > 0;
}

static bool is_within(const cel_box *box, int64_t most) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (box->min[d] < -most || box->max[d] > most) return false;
  return true;
}

/* Whether blocks go round a torus once at most. */
static bool fits_torus(const cel_fused *fused, const cel_box *range,
                       const cel_box *last) {
  const bool sheet = fused->way == CEL_FUSED_SHEET;
  const int64_t size[] = {sheet ? (int64_t)fused->warps * fused->high : TILE,
                          sheet ? COLUMNS : TILE};
  for (int d = 0; d < 2; ++d) {
    const int32_t before = whole_lanes(fused->around[(size_t)2 * (size_t)d]);
    if (range->min[d] > 0 || last->min[d] - before < -range->max[d] ||
        last->max[d] + size[d] > 2 * range->max[d])
      return false;
  }
  return true;
}

/* A chain's items are the same at each step; else those of the last may be
 * fewer. */
static bool suits(const cel_fold_job *fold) {
  const cel_box *last = &fold->step[fold->steps - 1].call.chunk;
  const cel_box *range = &fold->step[0].call.range;
  if (cel_box_is_empty(last) || !is_within(last, 1 << 30) ||
      !cel_fold_narrows(fold) ||
      !(fold->fused->torus ? fits_torus(fold->fused, range, last)
                           : !cel_fold_turns(fold)))
    return false;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_call *call = &fold->step[s].call;
    if (call->sample != NULL || (fold->fused->way == CEL_FUSED_CHAIN &&
                                 !cel_box_equal(&call->chunk, last)))
      return false;
  }
  return true;
}

/* Steps that are worth it; all of a chain that one launch takes. */
static const int32_t most[] = {
    [CEL_FUSED_CHAIN] = CEL_FOLD_CALLS,
    [CEL_FUSED_TILE] = CEL_TUNE_FOLD_TILE_STEPS,
    [CEL_FUSED_STREAM] = CEL_TUNE_FOLD_STREAM_STEPS,
    [CEL_FUSED_SHEET] = CEL_TUNE_FOLD_SHEET_STEPS,
};

static void shorten(cel_fold_job *fold, cel_fused_way way) {
  cel_fused of;
  if (fold->steps > most[way]) fold->steps = most[way];
  while (fold->steps > 1 && !cel__cuda_fold_pattern(fold, way, &of))
    --fold->steps;
}

int cel__cuda_fold_way = -1;

/* A sheet's blocks lie within the range, which all that is read does; or go
 * round it once at most. */
static bool has_sheets(const cel_fold_job *fold, const cel_fused *of) {
  const cel_box *range = &fold->step[0].call.range;
  const int64_t rows = (int64_t)of->warps * of->high;
  if (range->max[1] < COLUMNS || range->max[0] < rows) return false;
  for (int32_t s = 0; s < fold->steps && !of->torus; ++s)
    for (int32_t k = 0; k < fold->step[s].call.views; ++k)
      if (fold->step[s].use[k].array >= 0 &&
          !cel_box_covers(range, &fold->step[s].call.view[k].box))
        return false;
  return true;
}

/* Whether its steps, or some of them, may go so. */
static bool may_go(const cel_fold_job *fold, cel_fused_way way) {
  enum { SHORT = 4 * CEL_FUSED_OWN };
  cel_fused of;
  const cel_fold_job two = {.steps = 2,
                            .step = fold->step,
                            .arrays = fold->arrays,
                            .array = fold->array};
  const int32_t dims = fold->step[0].work->cuda->dims;
  for (int d = 0; d < dims; ++d)
    if (fold->step[0].call.range.max[d] < SHORT) return false;
  return cel__cuda_fold_pattern(&two, way, &of) &&
         (way != CEL_FUSED_SHEET || has_sheets(fold, &of));
}

/* A stream's warps have much to do before anything is right, and at edges take
 * longer: for large chunks, and larger ones still where registers leave room
 * for few warps. Sheets compute more twice, and cost less to begin, and go
 * round ends that meet. Where dimensions are short an item may be near both
 * ends. */
static cel_fused_way way_of(const cel_fold_job *fold) {
  enum { LITTLE = 8, LARGER = 8 };
  const bool row = fold->step[0].work->cuda->dims == 1;
  int64_t items = cel_box_volume(&fold->step[0].call.chunk);
  uint32_t bytes = 0;
  if (!reaches_in(fold, 0) && !reaches_in(fold, 1)) return CEL_FUSED_CHAIN;
  if (cel__cuda_fold_way >= 0)
    return may_go(fold, (cel_fused_way)cel__cuda_fold_way)
               ? (cel_fused_way)cel__cuda_fold_way
               : CEL_FUSED_TILE;
  for (int32_t a = 0; a < fold->arrays; ++a)
    bytes += fold->array[a].element_size;
  if (bytes > LITTLE) items /= LARGER;
  if (!row && (items < CEL_TUNE_FOLD_SHEET_ITEMS || wraps(fold)) &&
      may_go(fold, CEL_FUSED_SHEET))
    return CEL_FUSED_SHEET;
  return (row || items >= CEL_TUNE_FOLD_STREAM_ITEMS) &&
                 may_go(fold, CEL_FUSED_STREAM)
             ? CEL_FUSED_STREAM
             : CEL_FUSED_TILE;
}

static const cel_fused *fuse(cel_fold_job *fold, cel_fused_way way) {
  shorten(fold, way);
  return fold->steps > 1 ? cel_module_fuse(fold, way) : NULL;
}

static bool is_ready(const cel_fused *fused) {
  return fused != NULL &&
         atomic_load_explicit(&fused->ready, memory_order_acquire);
}

/* What serves while another is compiled: sheets, which take less than half as
 * long to compile, for streams, or tiles. */
static const cel_fused *stand_in(cel_fold_job *fold, int32_t steps,
                                 cel_fused_way way, bool left_over) {
  cel_fold_job by = *fold;
  const cel_fused *fused = NULL;
  by.steps = steps;
  if (way == CEL_FUSED_STREAM && !left_over && may_go(fold, CEL_FUSED_SHEET))
    fused = fuse(&by, CEL_FUSED_SHEET);
  if (!is_ready(fused)) {
    by.steps = steps;
    fused = fuse(&by, CEL_FUSED_TILE);
  }
  if (fused != NULL) fold->steps = by.steps;
  return fused;
}

/* Tiles serve, too, where kernels do not compile otherwise, as they want to
 * know where in memory an element lies. As they take fewer steps, they leave
 * some over: those are for tiles, too, and nothing is compiled that would be
 * asked for until then alone. */
cel_fold_manner cel__cuda_folds(int32_t device, cel_fold_job *fold) {
  const int32_t steps = fold->steps;
  const cel_fused_way way = steps > 1 ? way_of(fold) : CEL_FUSED_CHAIN;
  const bool other = way != CEL_FUSED_CHAIN && way != CEL_FUSED_TILE;
  const bool left_over = other && fold->stands_in && steps < most[way];
  const cel_fused *fused = left_over ? NULL : fuse(fold, way);
  fold->stands_in = other && !is_ready(fused);
  if (fold->stands_in) {
    const cel_fused *by = stand_in(fold, steps, way, left_over);
    if (by != NULL) fused = by;
  }
  fold->fused = fused;
  fold->trial = NULL;
  if (!is_ready(fused) || !suits(fold) ||
      !cel__cuda_trial_in_one(fused->trials,
                              device == 0 && fold->steps == steps, fold))
    return CEL_FOLD_PLAIN;
  return fused->way == CEL_FUSED_CHAIN ? CEL_FOLD_IN_PLACE : CEL_FOLD_TO_SPARE;
}

/* ---- launching ----------------------------------------------------------- */

/* What steps may read of an array: of views, what their mappers promise, and
 * of those that are written, the chunk. Where that is all of a torus, any turn
 * of it. */
static cel_box readable(const cel_fold_job *fold, int32_t array) {
  enum { ANY = 1 << 30 };
  const cel_box *range = &fold->step[0].call.range;
  cel_box hull = cel_fold_touched(fold, array);
  for (int d = 0; d < 2 && fold->fused->torus; ++d)
    if (hull.max[d] - hull.min[d] >= range->max[d]) {
      hull.min[d] = -ANY;
      hull.max[d] = ANY;
    }
  return hull;
}

/* In place 0 what is of dimension 0, in place 2 the fastest one. An array of
 * one dimension is row 0. */
static void put_box(const cel_box *box, int32_t dims, fold_array *out) {
  if (dims == 1) out->max[0] = 1;
  for (int d = 0; d < dims; ++d) {
    int at = d == dims - 1 ? 2 : d;
    out->min[at] = (int32_t)box->min[d];
    out->max[at] = (int32_t)box->max[d];
  }
}

static void put_array(const cel_fold_job *fold, int32_t a, unsigned char *out) {
  const cel_fold_array *array = &fold->array[a];
  const cel_box *l = &array->memory.box;
  int64_t e1 = l->max[1] - l->min[1], e2 = l->max[2] - l->min[2];
  int64_t bias = (l->min[0] * e1 + l->min[1]) * e2 + l->min[2];
  uint64_t before = (uint64_t)bias * array->element_size;
  const void *to = array->memory.base;
  if (fold->fused->way != CEL_FUSED_CHAIN && array->spare != NULL)
    to = array->spare;
  cel_box may = readable(fold, a);
  fold_array it = {
      .from = (const unsigned char *)((uintptr_t)array->memory.base - before),
      .to = (unsigned char *)((uintptr_t)to - before),
      .stride0 = (int32_t)(e1 * e2),
      .stride1 = (int32_t)e2,
      .loads = cel_fold_loads_of(fold, a),
      .stores = array->live};
  const uint64_t alike =
      (uintptr_t)it.from | (uintptr_t)it.to |
      (uint64_t)((int64_t)it.stride0 * (int64_t)array->element_size);
  it.wide = alike % 16 == 0;
  put_box(&may, array->dims, &it);
  memcpy(out, &it, sizeof it);
}

/* Where no step and no load ends: of rows, which all that is one has, and of
 * columns. Of sheets' rows no load: they compute all that they have. */
static void put_inner(const cel_fold_job *fold, const fold_array *array,
                      unsigned char *out) {
  const int32_t dims = fold->step[0].work->cuda->dims;
  int32_t min[2] = {INT32_MIN, INT32_MIN}, max[2] = {INT32_MAX, INT32_MAX};
  for (int at = dims > 1 ? 0 : 1; at < 2; ++at) {
    const int d = dims > 1 ? at : 0;
    min[at] = (int32_t)fold->step[0].call.range.min[d];
    max[at] = (int32_t)fold->step[0].call.range.max[d];
    const bool all = at == 0 && fold->fused->way == CEL_FUSED_SHEET;
    for (int32_t s = 0; s < fold->steps && !all; ++s) {
      const cel_box *chunk = &fold->step[s].call.chunk;
      if (chunk->min[d] > min[at]) min[at] = (int32_t)chunk->min[d];
      if (chunk->max[d] < max[at]) max[at] = (int32_t)chunk->max[d];
    }
    for (int32_t a = 0; a < fold->arrays; ++a) {
      if (array[a].loads != CEL_FOLD_LOADS_ALL) continue;
      const int32_t low = array[a].min[at == 0 ? 0 : 2];
      const int32_t high = array[a].max[at == 0 ? 0 : 2];
      if (low > min[at]) min[at] = low;
      if (high < max[at]) max[at] = high;
    }
  }
  memcpy(out, min, sizeof min);
  memcpy(out + sizeof min, max, sizeof max);
}

static uint32_t over(int64_t n, int32_t by) {
  return (uint32_t)((n + by - 1) / by);
}

static void shape_tiles(const cel_fused *fused, const cel_box *chunk,
                        cel__launch_shape *out) {
  const int32_t *around = fused->around;
  *out = (cel__launch_shape){.grid = {over(chunk->max[1] - chunk->min[1],
                                           TILE - around[2] - around[3]),
                                      over(chunk->max[0] - chunk->min[0],
                                           TILE - around[0] - around[1]),
                                      1},
                             .block = {TILE, TILE / TILE_ROWS, 1},
                             .each = 1};
}

/* Rows of a stream's block, which computes as many more as its steps reach,
 * twice. A processor that has one block is as long at a row as with FEW, as it
 * waits for what it has begun; with more it takes so many times as long, and of
 * more than there is room for they come in turns. */
static int32_t rows_of(const cel_fused *fused, int64_t height, int64_t across,
                       int64_t processors, int64_t resident) {
  enum { ROUNDS = 64, FEW = 3 };
  const int32_t *around = fused->around;
  const int64_t more = 2 * ((int64_t)around[0] + around[1]);
  int64_t rows = CEL_TUNE_FOLD_STREAM_ROWS, least = INT64_MAX;
  for (int64_t n = 1; n <= ROUNDS * resident;
       n += n < resident ? 1 : resident) {
    int64_t down = n * processors / across;
    int64_t r = down > 0 ? (height + down - 1) / down : height;
    int64_t takes = (n < FEW ? FEW : n) * (r + more);
    if (r > CEL_TUNE_FOLD_STREAM_ROWS || takes >= least) continue;
    least = takes;
    rows = r;
  }
  return (int32_t)rows;
}

/* Where dimension 1 begins and ends, which takes longest, blocks have half as
 * many rows. */
static void shape_stream(const cel_cuda_device *device, int32_t d,
                         const cel_fused *fused, int32_t dims,
                         const cel_box *chunk, cel__launch_shape *out) {
  enum { QUARTERS = 4 }; /* of a multiprocessor; each has warps by itself */
  const int64_t left = chunk->min[dims - 1] & -(int64_t)CEL_FUSED_OWN;
  const uint32_t across =
      over(chunk->max[dims - 1] - left, CEL_FUSED_LANES * CEL_FUSED_OWN -
                                            whole_lanes(fused->around[2]) -
                                            whole_lanes(fused->around[3]));
  *out = (cel__launch_shape){
      .grid = {across, 1, 1}, .block = {CEL_FUSED_LANES, 1, 1}, .each = 1};
  if (dims == 1) return;
  const int64_t height = chunk->max[0] - chunk->min[0];
  const uint32_t outer = across < 2 ? across : 2;
  const int32_t rows = rows_of(fused, height, across + outer,
                               (int64_t)device->multiprocessors * QUARTERS,
                               (fused->resident[d] + QUARTERS - 1) / QUARTERS);
  out->grid[0] = (across - outer) * over(height, rows) +
                 outer * over(height, (rows + 1) / 2);
  out->each = rows + 1;
}

/* What so many warps of a multiprocessor take together, about, in ns. */
static int64_t cost_of_round(int64_t warps, int32_t steps) {
  enum { BEGINS = 1200, LOADS = 100, WAITS = 170, STEP = 42 };
  return BEGINS + warps * LOADS + steps * (WAITS + warps * STEP);
}

/* Blocks that lie within n items, of `size` each, for [min, max) of them; where
 * they do not begin or end with all, so many are not right. */
static uint32_t blocks_within(int64_t min, int64_t max, int64_t n, int32_t size,
                              int32_t before, int32_t behind) {
  const int64_t first = min > before ? min - before : 0;
  const int64_t end = max + behind < n ? max + behind : n;
  const int64_t more = end - first - size;
  return 1 + (more > 0 ? over(more, size - before - behind) : 0);
}

/* Sheets of a dimension: those of a torus may lie anywhere. */
static uint32_t sheets_of(const cel_fused *fused, int64_t min, int64_t max,
                          int64_t n, int32_t size, int32_t before,
                          int32_t behind) {
  return fused->torus ? over(max - min, size - before - behind)
                      : blocks_within(min, max, n, size, before, behind);
}

/* Of how many warps a sheet's blocks are: a multiprocessor has room for some,
 * of one block or of several, and sheets come in rounds. The fewer warps, the
 * more is computed twice. Into sheets[]: how many are beside each other, and
 * how many of these are behind each other. Where `ahead` each block has some of
 * all; else one, which begins as soon as another one ends. */
static void shape_sheets(const cel_cuda_device *device, int32_t d,
                         const cel_fused *fused, const cel_call *last,
                         int32_t steps, bool ahead, cel__launch_shape *out,
                         int32_t sheets[2]) {
  const int32_t *around = fused->around;
  const cel_box *chunk = &last->chunk;
  const uint32_t across =
      sheets_of(fused, chunk->min[1] & -(int64_t)CEL_FUSED_OWN, chunk->max[1],
                last->range.max[1], COLUMNS, whole_lanes(around[2]),
                whole_lanes(around[3]));
  const int64_t processors =
      device->multiprocessors > 0 ? device->multiprocessors : 1;
  int64_t least = INT64_MAX;
  for (int32_t warps = fused->warps; warps > 0; --warps) {
    const int32_t tall = warps * fused->high;
    if (tall < around[0] + around[1] + LEAST) break;
    const uint32_t down =
        sheets_of(fused, chunk->min[0], chunk->max[0], last->range.max[0], tall,
                  around[0], around[1]);
    int64_t resident = fused->resident[d];
    if (resident > SHARED / fused->shared_warp)
      resident = SHARED / fused->shared_warp;
    const int64_t at_once = resident > warps ? resident / warps : 1;
    const int64_t of_one = /* blocks of a multiprocessor */
        ((int64_t)across * down + processors - 1) / processors;
    const int64_t rounds = of_one / at_once, rest = of_one % at_once;
    int64_t takes = rounds * cost_of_round(at_once * warps, steps);
    if (rest > 0) takes += cost_of_round(rest * warps, steps);
    if (takes >= least) continue;
    least = takes;
    const int64_t all = (int64_t)across * down;
    const int64_t most = ahead ? processors * at_once : all;
    sheets[0] = (int32_t)across;
    sheets[1] = (int32_t)down;
    *out =
        (cel__launch_shape){.grid = {(uint32_t)(all < most ? all : most), 1, 1},
                            .block = {CEL_FUSED_LANES, (uint32_t)warps, 1},
                            .each = 1};
  }
}

/* Whether a sheet's blocks may ask for all that they load of the next one. */
static bool asks_ahead(const cel_fold_job *fold, const fold_array *array) {
  for (int32_t a = 0; a < fold->arrays; ++a)
    if (array[a].loads == CEL_FOLD_LOADS_ALL && !array[a].wide) return false;
  return fold->fused->ahead;
}

CUresult cel__cuda_fold_enqueue(const cel_cuda *cuda, int32_t device,
                                const cel_fold_job *fold, uint32_t lane,
                                CUstream stream) {
  const cel_fused *fused = fold->fused;
  _Alignas(16) unsigned char arguments[ARGUMENTS] = {0};
  unsigned char *arrays = arguments + LAUNCH;
  unsigned char *at = arrays + (size_t)fold->arrays * sizeof(fold_array);
  cel_job step = {.kind = CEL_JOB_CALL};
  cel__launch_shape of;
  int32_t sheets[2] = {0};
  uint32_t shared = fused->shared;
  for (int32_t s = 0; s < fold->steps; ++s) {
    step.work = fold->step[s].work;
    step.call = fold->step[s].call;
    cel__cuda_pack(&step, step.work->reducers > 0 ? lane : 0, at);
    at += step.work->cuda->bytes;
  }
  cel_assert(at == arguments + fused->bytes);
  for (int32_t a = 0; a < fold->arrays; ++a)
    put_array(fold, a, arrays + (size_t)a * sizeof(fold_array));
  switch (fused->way) {
  case CEL_FUSED_CHAIN:
    cel__cuda_shape(&step, fused->reduces ? 0 : cuda->device[device].threads,
                    &of);
    break;
  case CEL_FUSED_TILE: shape_tiles(fused, &step.call.chunk, &of); break;
  case CEL_FUSED_STREAM:
    shape_stream(&cuda->device[device], device, fused, step.work->cuda->dims,
                 &step.call.chunk, &of);
    break;
  case CEL_FUSED_SHEET:
    shape_sheets(&cuda->device[device], device, fused, &step.call, fold->steps,
                 asks_ahead(fold, (const fold_array *)(const void *)arrays),
                 &of, sheets);
    shared = of.block[1] * fused->shared_warp;
    break;
  }
  if (fused->reduces) { /* as by itself, and so what its blocks come to */
    cel__cuda_reduce_grid(of.block, of.grid);
    CUresult code = cel__cuda_reduce_begin(cuda, device, &step, false,
                                           at - step.work->cuda->bytes, stream);
    if (code != CUDA_SUCCESS) return code;
  }
  /* The last step's, which is what all come to. */
  unsigned char last[ARGUMENTS];
  cel__cuda_pack(&step, of.each - 1, last);
  memcpy(arguments, last, CEL__LAUNCH_BYTES);
  if (fused->way != CEL_FUSED_CHAIN)
    put_inner(fold, (const fold_array *)(const void *)arrays,
              arguments + CEL__LAUNCH_BYTES);
  memcpy(arguments + CEL__LAUNCH_BYTES + 4 * sizeof(int32_t), sheets,
         sizeof sheets);
  void *params[] = {arguments};
  return cuda->api->cuLaunchKernel(
      fused->function[device], of.grid[0], of.grid[1], of.grid[2], of.block[0],
      of.block[1], of.block[2], shared, stream, params, NULL);
}
