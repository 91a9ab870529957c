#include "device/bands.h"

#include "fold/front.h"
#include "tuning.h"

bool cel__bands_take(const cel_work *work, const cel_call *call) {
  return work->reducers == 0 && !work->combines && work->work_group[0] == 0 &&
         !work->marks && !work->waits && !work->lua && call->sample == NULL;
}

bool cel__bands_suit(const cel_fold_job *fold) {
  for (int32_t s = 0; s < fold->steps; ++s)
    if (!cel__bands_take(fold->step[s].work, &fold->step[s].call)) return false;
  return fold->steps <= CEL_FOLD_CALLS && fold->arrays <= CEL_FOLD_ARRAYS;
}

/* ---- planning ------------------------------------------------------------ */

static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* How far a step has to stay behind those before it, on the side above or
 * below. Later steps that write what this one reads stay behind by what it
 * reaches on the other side. */
static int64_t lag_of(const cel_fold_call *step, int32_t dim, bool up,
                      cel_front *front) {
  int64_t lag = 0;
  for (int32_t k = 0; k < step->call.views; ++k) {
    const cel_fold_view *use = &step->use[k];
    int64_t ahead = up ? use->above[dim] : use->below[dim];
    if (use->array < 0) continue;
    lag = most(lag, cel_front_lag(&front[use->array], use->writes, ahead));
  }
  for (int32_t k = 0; k < step->call.views; ++k) {
    const cel_fold_view *use = &step->use[k];
    int64_t back = up ? use->below[dim] : use->above[dim];
    if (use->array < 0) continue;
    cel_front_advance(&front[use->array], true, use->writes, lag, back);
  }
  return lag;
}

/* Fills in lag, or lead; returns the longest. */
static int64_t skew(const cel_fold_job *fold, int32_t dim, bool up,
                    int64_t *lag) {
  cel_front front[CEL_FOLD_ARRAYS];
  int64_t longest = 0;
  for (int32_t a = 0; a < fold->arrays; ++a) front[a] = CEL_FRONT_NONE;
  for (int32_t s = 0; s < fold->steps; ++s) {
    lag[s] = lag_of(&fold->step[s], dim, up, front);
    longest = most(longest, lag[s]);
  }
  return longest;
}

static int64_t longest_reach(const cel_fold_job *fold, int32_t dim) {
  int64_t reach = 0;
  for (int32_t s = 0; s < fold->steps; ++s)
    for (int32_t k = 0; k < fold->step[s].call.views; ++k) {
      const cel_fold_view *use = &fold->step[s].use[k];
      if (use->array >= 0)
        reach = most(reach, most(use->below[dim], use->above[dim]));
    }
  return reach;
}

/* Around all chunks. */
static cel_box hull_of(const cel_fold_job *fold) {
  cel_box hull = {{0, 0, 0}, {0, 0, 0}};
  for (int32_t s = 0; s < fold->steps; ++s)
    hull = cel_box_hull(&hull, &fold->step[s].call.chunk);
  return hull;
}

static int64_t threads_of(int64_t runs) {
  return (runs + CEL_TUNE_BAND_RUNS - 1) / CEL_TUNE_BAND_RUNS;
}

/* Long runs for all threads, or else as many as there may be. */
static int64_t runs_of(int64_t extent, int64_t apart, int64_t runs) {
  int64_t many = extent / (apart * CEL_TUNE_BAND_SEAMS);
  int64_t threads = threads_of(runs);
  if (many < threads)
    many = extent / apart < threads ? extent / apart : threads;
  return many < 1 ? 1 : many < runs ? many : runs;
}

static bool wraps(const cel_fold_job *fold, int32_t dim) {
  for (int32_t s = 0; s < fold->steps; ++s)
    for (int32_t k = 0; k < fold->step[s].call.views; ++k)
      if (fold->step[s].use[k].array >= 0 && fold->step[s].use[k].wraps[dim])
        return true;
  return false;
}

/* Whether some step reads around the ends what others compute. */
static bool meets_itself(const cel_fold_job *fold, const cel_box *hull,
                         int32_t dim) {
  const cel_box *range = &fold->step[0].call.range;
  int64_t others =
      range->max[dim] - range->min[dim] - hull->max[dim] + hull->min[dim];
  return wraps(fold, dim) && others < longest_reach(fold, dim);
}

/* The first items that no step has behind ones that some has, which lie behind
 * them again: those of other ranks, where a chunk lies around the ends. */
static void find_skipped(cel__bands *out) {
  const cel_fold_job *fold = out->job->fold;
  int64_t low = out->begin, high = out->end, before;
  do {
    before = low;
    for (int32_t s = 0; s < fold->steps; ++s) {
      const cel_box *chunk = &fold->step[s].call.chunk;
      if (!cel_box_is_empty(chunk) && chunk->min[out->dim] <= low)
        low = most(low, chunk->max[out->dim]);
    }
  } while (low > before);
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_box *chunk = &fold->step[s].call.chunk;
    int64_t min = chunk->min[out->dim];
    if (!cel_box_is_empty(chunk) && min > low && min < high) high = min;
  }
  if (high == out->end) return;
  out->skip = low;
  out->skipped = high - low;
}

static void plan_along(const cel_box *hull, int32_t dim, int64_t runs,
                       cel__bands *out) {
  const cel_fold_job *fold = out->job->fold;
  const cel_box *range = &fold->step[0].call.range;
  out->dim = dim;
  out->ring = meets_itself(fold, hull, dim);
  out->begin = out->ring ? range->min[dim] : hull->min[dim];
  out->end = out->ring ? range->max[dim] : hull->max[dim];
  if (out->ring) find_skipped(out);
  int64_t extent = out->end - out->begin;
  out->most_lag = skew(fold, dim, true, out->lag);
  out->apart = out->most_lag + skew(fold, dim, false, out->lead) +
               longest_reach(fold, dim);
  if (out->apart < 1) out->apart = 1;
  out->runs = (int32_t)runs_of(extent - out->skipped, out->apart, runs);
  int64_t rows = hull->max[dim] - hull->min[dim];
  int64_t across = rows > 0 ? cel_box_volume(hull) / rows : 1;
  out->band = most(1, CEL_TUNE_BAND_ITEMS / most(1, across));
  out->in_turns = out->ring && extent < out->apart;
  if (!out->in_turns) return;
  for (int32_t s = 0; s < fold->steps; ++s) out->lag[s] = out->lead[s] = 0;
  out->most_lag = 0;
  out->ring = false;
  out->band = most(1, extent);
}

/* Bytes of a row of items in all arrays, across both dimensions. */
static int64_t row_bytes(const cel_fold_job *fold, const cel_box *hull,
                         int32_t a, int32_t b) {
  int64_t items = 1, bytes = 0;
  for (int32_t d = 0; d < CEL_DIMS; ++d)
    if (d != a && d != b) items *= hull->max[d] - hull->min[d];
  for (int32_t i = 0; i < fold->arrays; ++i)
    bytes += fold->array[i].element_size;
  return items * bytes;
}

/* Blocks that are much wider than what neighbours both touch; else they would
 * be read twice for nothing. */
static void plan_across(const cel_box *hull, cel__bands *out) {
  const cel_fold_job *fold = out->job->fold;
  int32_t across = out->dim + 1;
  out->across = -1;
  if (across >= CEL_DIMS || hull->max[across] - hull->min[across] <= 1 ||
      out->in_turns || wraps(fold, across))
    return;
  int64_t rows = out->most_lag + out->band + 2 * longest_reach(fold, out->dim);
  int64_t row = rows * row_bytes(fold, hull, out->dim, across);
  int64_t fits = CEL_TUNE_BAND_BYTES / most(1, row);
  out->most_drift = skew(fold, across, true, out->drift);
  out->width = most(fits, CEL_TUNE_BAND_SEAMS * (out->most_drift + 1));
  out->across_begin = hull->min[across];
  out->across_end = hull->max[across];
  if (out->width < out->across_end - out->across_begin) out->across = across;
}

/* Along the slowest dimension that gives each thread a run; else the one that
 * gives most. */
void cel__bands_plan(const cel_job *job, int64_t runs, cel__bands *out) {
  cel_assert(job->kind == CEL_JOB_FOLD && cel__bands_suit(job->fold));
  cel_box hull = hull_of(job->fold);
  int64_t threads = threads_of(runs);
  out->runs = 0;
  for (int32_t dim = 0; dim < CEL_DIMS && out->runs < threads; ++dim) {
    cel__bands along = {.job = job};
    bool flat = hull.max[dim] - hull.min[dim] <= 1;
    if (flat && (dim < CEL_DIMS - 1 || out->runs > 0)) continue;
    plan_along(&hull, dim, runs, &along);
    if (along.runs > out->runs) *out = along;
  }
  plan_across(&hull, out);
}

void cel__bands_refine(cel__bands *bands, int64_t items) {
  if (bands->in_turns) return;
  bands->band = items;
  bands->width = items;
  if (bands->across_end > bands->across_begin) bands->across = bands->dim + 1;
}

/* ---- carrying out -------------------------------------------------------- */

static void clip(cel_box *box, int32_t dim, int64_t begin, int64_t end) {
  if (box->min[dim] < begin) box->min[dim] = begin;
  if (box->max[dim] > end) box->max[dim] = end;
}

/* Step s of the items [begin, end) along the dimension, of the block from `q`
 * on. */
static cel_status compute(const cel__bands *bands, cel_job *part, int32_t s,
                          int64_t begin, int64_t end, int64_t q) {
  const cel_fold_call *step = &bands->job->fold->step[s];
  cel_box chunk = step->call.chunk;
  clip(&chunk, bands->dim, begin, end);
  if (bands->across >= 0)
    clip(&chunk, bands->across, q - bands->drift[s],
         q - bands->drift[s] + bands->width);
  if (cel_box_is_empty(&chunk)) return CEL_E_OK;
  part->work = step->work;
  part->name = step->name;
  part->location = step->location;
  part->call = step->call;
  part->call.chunk = chunk;
  if (cel_job_run(part) == CEL_E_OK) return CEL_E_OK;
  return cel_fail_at(step->location.file, step->location.line);
}

static cel_job part_of(const cel__bands *bands) {
  return (cel_job){.ticket = bands->job->ticket, .kind = CEL_JOB_CALL};
}

/* Where run i begins: all have as many items that some step has. */
static int64_t run_at(const cel__bands *bands, int64_t i) {
  int64_t n = bands->end - bands->begin - bands->skipped;
  int64_t at =
      bands->begin + n / bands->runs * i + n % bands->runs * i / bands->runs;
  return at > bands->skip ? at + bands->skipped : at;
}

/* The sweep of run i over one block. */
static cel_status sweep(const cel__bands *bands, cel_job *part, int64_t i,
                        int64_t q) {
  const int64_t from = run_at(bands, i), to = run_at(bands, i + 1);
  const bool first = !bands->ring && i == 0;
  const bool last = !bands->ring && i == bands->runs - 1;
  for (int64_t r = from; r < to + bands->most_lag; r += bands->band)
    for (int32_t s = 0; s < bands->job->fold->steps; ++s) {
      int64_t begin = r - bands->lag[s], end = begin + bands->band;
      int64_t low = first ? bands->begin : from + bands->lead[s];
      int64_t high = last ? bands->end : to - bands->lag[s];
      CEL_TRY(compute(bands, part, s, begin < low ? low : begin,
                      end > high ? high : end, q));
    }
  return CEL_E_OK;
}

cel_status cel__bands_run(const cel__bands *bands, int64_t i) {
  cel_job part = part_of(bands);
  if (bands->across < 0) return sweep(bands, &part, i, 0);
  for (int64_t q = bands->across_begin;
       q < bands->across_end + bands->most_drift; q += bands->width)
    CEL_TRY(sweep(bands, &part, i, q));
  return CEL_E_OK;
}

cel_status cel__bands_seam(const cel__bands *bands, int64_t i) {
  const int64_t at = run_at(bands, i);
  cel__bands whole = *bands;
  cel_job part = part_of(bands);
  whole.across = -1;
  for (int32_t s = 0; s < bands->job->fold->steps; ++s) {
    CEL_TRY(
        compute(&whole, &part, s, at - bands->lag[s], at + bands->lead[s], 0));
    if (i > 0) continue;
    CEL_TRY(
        compute(&whole, &part, s, bands->end - bands->lag[s], bands->end, 0));
  }
  return CEL_E_OK;
}

cel_status cel__bands_carry_out(const cel_job *job) {
  cel__bands bands;
  cel__bands_plan(job, 1, &bands);
  CEL_TRY(cel__bands_run(&bands, 0));
  return bands.ring ? cel__bands_seam(&bands, 0) : CEL_E_OK;
}
