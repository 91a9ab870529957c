/* Folds (fold/fold.h). One that a device takes as a whole is one instruction:
 * fused.c. Others go step by step: each is as a command of its own, of the
 * step's task and its box. What that writes beyond the chunk is current here as
 * far as this graph knows. No other rank asks for it, and no step behind the
 * fold reads it: the command graph knows that others own it, and has them send
 * what is current then.
 *
 * Where a memory is too small for what all steps touch, steps go in *sweeps*: a
 * band of rows of all of them, then the next band. So rows come once for all
 * steps and not once for each. In a band each step stays so far behind the one
 * before it that it reads what has been computed and overwrites nothing that is
 * still to be read ("time skewing": Wonnacott, "Achieving Scalable Locality
 * with Time Skewing"). Every other sweep goes through its bands backwards, and
 * so begins with rows that are still there.
 *
 * Where steps read around the ends of the range what others compute, a step
 * leaves out what needs rows of the other end, on both sides; that is the
 * *seam*, behind the bands.
 */
#include "fold/fold.h"

#include "fold/front.h"
#include "fold/shape.h"
#include "instr/graph.h"

/* A buffer that steps touch. */
typedef struct swept {
  const cel_buffer *buffer;
  cel_front front;
} swept;

typedef struct sweep {
  const cel_fold *fold;
  const cel_box *chunk;
  bool up;             /* else from the last rows to the first */
  bool ring;           /* some step reads around the ends what others compute */
  int32_t first, last; /* of these steps [first, last) */
  /* How far their bands stay behind the first one's where they go up, and where
   * they go down; the most that any of them does. */
  int64_t lag[CEL_FOLD_STEPS], lead[CEL_FOLD_STEPS];
  int64_t most;
  int64_t begin, bands, band; /* rows of the first band, and of each */
} sweep;

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* ---- how far steps stay behind ------------------------------------------- */

static swept *find(swept *at, uint32_t *n, const cel_buffer *buffer) {
  for (uint32_t i = 0; i < *n; ++i)
    if (at[i].buffer == buffer) return &at[i];
  at[*n] = (swept){.buffer = buffer, .front = CEL_FRONT_NONE};
  return &at[(*n)++];
}

/* What a band of the step reads ahead of its rows, and behind them. */
static void reach_of(const cel_access *access, bool up, int64_t *ahead,
                     int64_t *back) {
  cel_reach reach = {0};
  bool around = cel_fold_role_of(access, &reach) == CEL_FOLD_AROUND;
  *ahead = !around ? 0 : up ? reach.above[0] : reach.below[0];
  *back = !around ? 0 : up ? reach.below[0] : reach.above[0];
}

static int64_t lag_of(const cel_task *task, bool up, swept *at, uint32_t *n) {
  int64_t lag = 0, ahead, back;
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_access *access = &task->access[a];
    reach_of(access, up, &ahead, &back);
    lag = larger(lag, cel_front_lag(&find(at, n, access->buffer)->front,
                                    cel_mode_produces(access->mode), ahead));
  }
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_access *access = &task->access[a];
    reach_of(access, up, &ahead, &back);
    cel_front_advance(&find(at, n, access->buffer)->front,
                      cel_mode_consumes(access->mode),
                      cel_mode_produces(access->mode), lag, back);
  }
  return lag;
}

static void plan_lags(sweep *w, swept *room, bool up, int64_t *lag) {
  uint32_t n = 0;
  for (int32_t s = w->first; s < w->last; ++s) {
    lag[s] = lag_of(w->fold->step[s].task, up, room, &n);
    w->most = larger(w->most, lag[s]);
  }
}

static const cel_box *range_of(const sweep *w) {
  return &w->fold->step[0].task->range;
}

/* ---- how many rows ------------------------------------------------------- */

/* Around all that the steps compute. */
static cel_box hull_of(const sweep *w) {
  cel_box hull = cel_fold_box(w->fold, w->first, w->chunk);
  cel_box box[CEL_FOLD_BOXES];
  for (int32_t s = w->first; s < w->last; ++s)
    for (int32_t n = cel_fold_boxes(w->fold, s, w->chunk, box); n-- > 0;)
      hull = cel_box_hull(&hull, &box[n]);
  return hull;
}

/* Whether some step reads around the ends what others compute. */
static bool meets_itself(const sweep *w) {
  const cel_box *range = range_of(w);
  cel_box hull = hull_of(w);
  int64_t reach = 0, ahead, back;
  for (int32_t s = w->first; s < w->last; ++s) {
    const cel_task *task = w->fold->step[s].task;
    for (uint32_t a = 0; a < task->accesses; ++a) {
      reach_of(&task->access[a], true, &ahead, &back);
      reach = larger(reach, larger(ahead, back));
    }
  }
  int64_t others = range->max[0] - range->min[0] - hull.max[0] + hull.min[0];
  return w->fold->wraps[0] && others < reach;
}

/* Those of the first step, which as a rule computes most; of all its boxes:
 * the one at the other end of dimension 0 comes second. */
static int64_t count_rows(const sweep *w) {
  cel_box box[CEL_FOLD_BOXES];
  int32_t n = cel_fold_boxes(w->fold, w->first, w->chunk, box);
  int64_t rows = box[0].max[0] - box[0].min[0];
  if (n > 1 && box[1].min[0] != box[0].min[0])
    rows += box[1].max[0] - box[1].min[0];
  return rows;
}

/* What the steps touch: of each buffer so much for a row of the chunk, and so
 * much besides. */
typedef struct touched {
  uint64_t row, besides;
} touched;

static touched count_bytes(const sweep *w, uint64_t block, swept *room) {
  touched sum = {0};
  uint32_t n = 0;
  for (int32_t s = w->first; s < w->last; ++s) {
    const cel_task *task = w->fold->step[s].task;
    cel_box box = cel_fold_box(w->fold, s, w->chunk);
    for (uint32_t a = 0; a < task->accesses; ++a) {
      const cel_access *access = &task->access[a];
      cel_reach reach = {0};
      uint32_t before = n;
      find(room, &n, access->buffer);
      if (n == before) continue;
      cel_fold_role role = cel_fold_role_of(access, &reach);
      cel_box hull = access->buffer->extent;
      for (int d = 1; d < task->dims && role != CEL_FOLD_TABLE; ++d) {
        if (w->fold->wraps[d]) continue;
        hull.min[d] = larger(hull.min[d], box.min[d] - reach.below[d]);
        int64_t max = box.max[d] + reach.above[d];
        if (max < hull.max[d]) hull.max[d] = max;
      }
      uint64_t bytes =
          (uint64_t)cel_box_volume(&hull) * access->buffer->element_size;
      int64_t rows = hull.max[0] - hull.min[0];
      if (role == CEL_FOLD_TABLE)
        sum.besides += bytes;
      else if (rows > 0)
        sum.row += bytes / (uint64_t)rows;
      sum.besides += 2 * block; /* the ends of what is committed */
    }
  }
  return sum;
}

/* Bands of so many rows that while one computes, the rows of the one before
 * leave and those of the next one come; false where bands would be shorter than
 * what steps stay behind, and so be read about twice. As not all rows fit,
 * there are more than a seam's two sides have. */
static bool plan_bands(sweep *w, uint64_t capacity, touched bytes) {
  enum { BESIDE = 3 };
  cel_box all = hull_of(w);
  int64_t rows = all.max[0] - all.min[0];
  w->begin = all.min[0];
  w->bands = 1;
  if (bytes.row == 0 || bytes.besides >= capacity) return false;
  int64_t fit = (int64_t)((capacity - bytes.besides) / bytes.row);
  w->band = (fit - w->most) / BESIDE;
  if (w->band < larger(w->most, 1)) return false;
  w->bands = (rows + w->band - 1) / w->band;
  return true;
}

/* Bytes that a fold's steps may touch at once; 0: any number. */
static uint64_t room_of(const cel_instr_graph *graph) {
  const cel_instr_graph_config *config = &graph->config;
  if (config->devices > 1) return 0;
  if (config->sweep_bytes > 0) return config->sweep_bytes;
  return config->grain == 0 ? 0 : config->capacity[config->device_memory[0]];
}

/* Whether rows of each step may be computed one after another. Several devices
 * would have to wait for each other. */
static bool may_sweep(const cel_instr_graph *graph, const cel_fold *fold,
                      const cel_box *chunk) {
  if (room_of(graph) == 0 || cel_box_is_empty(chunk)) return false;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_split_kind *permitted = &fold->step[s].task->permitted;
    if (!permitted->cut[0] || permitted->granularity[0] > 1) return false;
  }
  return true;
}

/* Steps that may go in bands: one that reduces does so at once. */
static int32_t steps_of(const cel_fold *fold) {
  int32_t n = fold->steps;
  return fold->step[n - 1].task->reduces != 0 ? n - 1 : n;
}

/* As many steps from `first` on as go in one sweep, or one after another: all
 * that fit together, or the first alone, where no two go in bands. */
static void plan_sweep(cel_instr_graph *graph, sweep *w) {
  uint64_t room_bytes = room_of(graph);
  uint64_t block = graph->config.sweep_bytes > 0 ? 0 : graph->config.block;
  uint32_t most = 0;
  for (int32_t s = w->first; s < w->fold->steps; ++s)
    most += w->fold->step[s].task->accesses;
  swept *room = cel__emission_room(graph->emission, most * sizeof *room);
  w->last = (int32_t)larger(steps_of(w->fold), w->first + 1);
  for (; w->last - w->first > 1; --w->last) {
    w->most = 0;
    plan_lags(w, room, true, w->lag);
    plan_lags(w, room, false, w->lead);
    touched bytes = count_bytes(w, block, room);
    w->ring = meets_itself(w);
    w->bands = 1;
    if (bytes.row * (uint64_t)count_rows(w) + bytes.besides <= room_bytes)
      return;
    if (plan_bands(w, room_bytes, bytes)) return;
  }
  w->bands = 1;
}

/* ---- carrying out -------------------------------------------------------- */

static cel_status add_step(cel_instr_graph *graph, const cel_command *command,
                           int32_t s, const cel_box *box) {
  cel_command *step = cel__emission_room(graph->emission, sizeof *step);
  *step = *command;
  step->task = command->task->folded->step[s].task;
  step->chunk = *box;
  return cel__lookahead_add(graph, step);
}

/* Row at which band b of a step begins, of the rows [min, max). */
static int64_t edge(const sweep *w, int32_t s, int64_t b, int64_t min,
                    int64_t max) {
  int64_t row = w->begin + b * w->band + (w->up ? -w->lag[s] : w->lead[s]);
  if (b == 0) return min;
  if (b == w->bands) return max;
  return row < min ? min : row > max ? max : row;
}

/* Rows [min, max) of a step; of one that goes in no bands, all it has. */
static cel_status add_rows(cel_instr_graph *graph, const cel_command *command,
                           const sweep *w, int32_t s, int64_t min,
                           int64_t max) {
  cel_box box[CEL_FOLD_BOXES];
  int32_t n = cel_fold_boxes(w->fold, s, w->chunk, box);
  for (int32_t i = 0; i < n; ++i) {
    if (w->bands > 1) {
      box[i].min[0] = larger(box[i].min[0], min);
      if (box[i].max[0] > max) box[i].max[0] = max;
      if (cel_box_is_empty(&box[i])) continue;
    }
    CEL_TRY(add_step(graph, command, s, &box[i]));
  }
  return CEL_E_OK;
}

static cel_status add_seam(cel_instr_graph *graph, const cel_command *command,
                           const sweep *w) {
  const int64_t begin = range_of(w)->min[0], end = range_of(w)->max[0];
  for (int32_t s = w->first; s < w->last; ++s) {
    CEL_TRY(add_rows(graph, command, w, s, begin, begin + w->lead[s]));
    CEL_TRY(add_rows(graph, command, w, s, end - w->lag[s], end));
  }
  return CEL_E_OK;
}

static cel_status add_sweep(cel_instr_graph *graph, const cel_command *command,
                            const sweep *w) {
  /* Where the ends meet, a step may also have rows at the other end. */
  const cel_box all = w->ring ? *range_of(w) : hull_of(w);
  for (int64_t i = 0; i < w->bands; ++i) {
    int64_t b = w->up ? i : w->bands - 1 - i;
    for (int32_t s = w->first; s < w->last; ++s) {
      int64_t min = all.min[0] + (w->ring ? w->lead[s] : 0);
      int64_t max = all.max[0] - (w->ring ? w->lag[s] : 0);
      CEL_TRY(add_rows(graph, command, w, s, edge(w, s, b, min, max),
                       edge(w, s, b + 1, min, max)));
    }
  }
  if (w->bands > 1) graph->backwards = w->up;
  return w->ring && w->bands > 1 ? add_seam(graph, command, w) : CEL_E_OK;
}

/* As one KERNEL, where all that its steps touch fits into the memory. */
static cel_status fuses(cel_instr_graph *graph, const cel_command *command,
                        bool sweeps, bool *out) {
  *out = cel__fused_suits(graph, command);
  if (*out && sweeps) {
    sweep w = {.fold = command->task->folded, .chunk = &command->chunk};
    plan_sweep(graph, &w);
    *out = w.bands == 1 && w.last == steps_of(w.fold);
  }
  if (!*out || !cel__memory_limited(graph->memories)) return CEL_E_OK;
  CEL_TRY(cel__plan_make(graph, command));
  *out = cel__memory_fits(graph->memories, 1);
  return CEL_E_OK;
}

cel_status cel__fold_add(cel_instr_graph *graph, const cel_command *command) {
  const cel_fold *fold = command->task->folded;
  bool sweeps = may_sweep(graph, fold, &command->chunk), one;
  CEL_TRY(fuses(graph, command, sweeps, &one));
  if (one) return cel__lookahead_add(graph, command);
  for (int32_t s = 0; s < fold->steps;) {
    sweep w = {.fold = fold,
               .chunk = &command->chunk,
               .up = !graph->backwards,
               .first = s,
               .last = fold->steps,
               .bands = 1};
    if (sweeps) plan_sweep(graph, &w);
    CEL_TRY(add_sweep(graph, command, &w));
    s = w.last;
  }
  return CEL_E_OK;
}
