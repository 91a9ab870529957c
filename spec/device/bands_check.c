/* bands_check bands|jobs|lanes COUNT SEED
 *             [lag|lead|apart|reach|order|drift|ends|ring]
 * bands_check speed wave|heat N STEPS THREADS
 *
 * Random folds against their steps one after another, to the bit: each element
 * becomes a hash of all that its item may read, what it held among it, and some
 * items write nothing. `bands`: runs and seams by themselves, in any order.
 * `jobs`: by the processor's threads; `lanes`: so, each step a call of a lane.
 * The last word plants a fault, which is to be found: then it exits with 3 and
 * says after how many folds. Run by bands_spec.lua. `speed`: compiled kernels
 * over N^2 or N^3 items, in turns with plain launches.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "device/bands.h"
#include "device/clock.h"
#include "device/kernel.h"
#include "embed/embedded.h"
#include "tuning.h"

enum { STEPS = 20, ARRAYS = 5, USES = 5, ROOM = 9000 };

typedef struct made_work {
  cel_work face; /* first */
  int32_t dims, uses;
  cel_fold_view use[USES];
  uint64_t salt;
  cel_box extent; /* of the range: footprints are clamped to it */
} made_work;

typedef struct made_fold {
  int32_t dims, uses, arrays;
  bool wraps;      /* some steps read around the ends of the range */
  int64_t ends;    /* rows that steps have at one of them alone; 0: any */
  int64_t outside; /* rows at either end that no step has */
  cel_fold_job face;
  cel_fold_call step[STEPS];
  made_work work[STEPS];
  cel_view view[STEPS][USES];
  cel_fold_array array[ARRAYS];
  uint64_t memory[ARRAYS + 1][ROOM]; /* the last one: no step writes it */
} made_fold;

static cel_random chosen;
static const char *fault = "";
static made_fold fold;
static uint64_t before[ARRAYS + 1][ROOM], want[ARRAYS + 1][ROOM];

static int64_t pick(int64_t lo, int64_t hi) {
  return cel_random_int(&chosen, lo, hi);
}

static bool is(const char *name) {
  return strcmp(fault, name) == 0;
}

/* ---- what a step computes ------------------------------------------------ */

static uint64_t mix(uint64_t a, uint64_t b) {
  cel_random r = {a ^ (b * 0x9e3779b97f4a7c15u)};
  return cel_random_next(&r);
}

static uint64_t *element(const cel_view *view, const int64_t at[3]) {
  const cel_box *l = &view->layout;
  int64_t n1 = l->max[1] - l->min[1], n2 = l->max[2] - l->min[2];
  return (uint64_t *)view->base +
         ((at[0] - l->min[0]) * n1 + at[1] - l->min[1]) * n2 + at[2] -
         l->min[2];
}

static uint64_t footprint(const made_work *w, const cel_fold_view *use,
                          const cel_view *view, const int64_t at[3]) {
  cel_box box;
  uint64_t h = 0;
  int64_t p[3];
  for (int d = 0; d < CEL_DIMS; ++d) {
    box.min[d] = at[d] - use->below[d];
    box.max[d] = at[d] + use->above[d] + 1;
    if (use->wraps[d]) continue;
    if (box.min[d] < w->extent.min[d]) box.min[d] = w->extent.min[d];
    if (box.max[d] > w->extent.max[d]) box.max[d] = w->extent.max[d];
  }
  for (p[0] = box.min[0]; p[0] < box.max[0]; ++p[0])
    for (p[1] = box.min[1]; p[1] < box.max[1]; ++p[1])
      for (p[2] = box.min[2]; p[2] < box.max[2]; ++p[2]) {
        int64_t q[3];
        for (int d = 0; d < CEL_DIMS; ++d) {
          int64_t n = w->extent.max[d] - w->extent.min[d];
          q[d] = w->extent.min[d] + ((p[d] - w->extent.min[d]) % n + n) % n;
          if (!use->wraps[d]) q[d] = p[d];
        }
        h = mix(h, *element(view, q));
      }
  return h;
}

static void compute(const made_work *w, const cel_call *call,
                    const int64_t at[3]) {
  uint64_t h = w->salt;
  for (int d = 0; d < CEL_DIMS; ++d) h = mix(h, (uint64_t)at[d]);
  for (int32_t k = 0; k < w->uses; ++k)
    h = mix(h, footprint(w, &w->use[k], &call->view[k], at));
  for (int32_t k = 0; k < w->uses; ++k)
    if (w->use[k].writes && h % 5 != 0)
      *element(&call->view[k], at) = mix(h, (uint64_t)k);
}

static cel_status run(const cel_work *work, const cel_call *call) {
  int64_t at[3];
  const cel_box *c = &call->chunk;
  for (at[0] = c->min[0]; at[0] < c->max[0]; ++at[0])
    for (at[1] = c->min[1]; at[1] < c->max[1]; ++at[1])
      for (at[2] = c->min[2]; at[2] < c->max[2]; ++at[2])
        compute((const made_work *)work, call, at);
  return CEL_E_OK;
}

/* ---- random folds -------------------------------------------------------- */

static void make_use(made_work *w, int32_t array, bool writes) {
  for (int32_t k = 0; k < w->uses; ++k)
    if (w->use[k].array == array && (writes || w->use[k].writes)) return;
  cel_fold_view *use = &w->use[w->uses++];
  *use = (cel_fold_view){.array = array,
                         .element_size = sizeof(uint64_t),
                         .writes = writes,
                         .keeps = true};
  for (int d = 0; d < w->dims && !writes; ++d) {
    int64_t most = pick(0, 3);
    use->below[d] = (int32_t)pick(0, most);
    use->above[d] = (int32_t)pick(0, most);
    use->wraps[d] = most > 0 && fold.wraps && cel_random_chance(&chosen, 60);
  }
}

/* Of the range, or of what is left of it on the last step's box. */
static cel_box make_chunk(const cel_box *range, int32_t dims) {
  cel_box box = *range;
  box.min[0] += fold.outside;
  box.max[0] -= fold.outside;
  if (fold.ends > 0 && cel_random_chance(&chosen, 50))
    box.max[0] = box.min[0] + fold.ends;
  else if (fold.ends > 0)
    box.min[0] = box.max[0] - fold.ends;
  for (int d = 0; d < dims && cel_random_chance(&chosen, 40); ++d) {
    int64_t n = box.max[d] - box.min[d];
    box.min[d] += pick(0, n < 6 ? n : 6);
    box.max[d] -= pick(0, n < 6 ? n : 6);
  }
  if (cel_random_chance(&chosen, 3)) box.max[0] = box.min[0];
  return box;
}

/* Writes one or two arrays, or the other one in turn. */
static void make_step(int32_t s, const cel_box *range) {
  made_work *w = &fold.work[s];
  cel_fold_call *step = &fold.step[s];
  *w = (made_work){.face = {.references = 1, .fn = run},
                   .dims = fold.dims,
                   .salt = cel_random_next(&chosen),
                   .extent = *range};
  bool turns = cel_random_chance(&chosen, 70);
  make_use(w, turns ? s % fold.arrays : (int32_t)pick(0, fold.arrays - 1),
           true);
  if (cel_random_chance(&chosen, 30))
    make_use(w, (int32_t)pick(0, fold.arrays - 1), true);
  if (turns) make_use(w, (s + 1) % fold.arrays, false);
  for (int64_t n = pick(0, 2); n > 0 && w->uses < USES; --n)
    make_use(w, (int32_t)pick(-1, fold.arrays - 1), false);
  *step = (cel_fold_call){.work = &w->face, .use = w->use, .name = "step"};
  step->call.chunk = make_chunk(range, fold.dims);
  step->call.range = *range;
  step->call.ranks = 1;
  step->call.views = w->uses;
  step->call.view = fold.view[s];
}

static void make_fold(void) {
  static const int64_t most[] = {0, 400, 40, 14};
  cel_box range = {{0, 0, 0}, {1, 1, 1}}, layout = range;
  fold.dims = (int32_t)pick(1, 3);
  fold.arrays = (int32_t)pick(1, ARRAYS);
  fold.wraps = cel_random_chance(&chosen, 40);
  for (int d = 0; d < fold.dims; ++d) {
    range.min[d] = pick(0, 5);
    range.max[d] = range.min[d] + pick(1, most[fold.dims]);
    layout.min[d] = range.min[d] - pick(0, 2);
    layout.max[d] = range.max[d] + pick(0, 2);
  }
  fold.ends = fold.wraps && cel_random_chance(&chosen, 40)
                  ? pick(0, (range.max[0] - range.min[0]) / 2)
                  : 0;
  fold.outside = fold.wraps && fold.ends == 0 &&
                         range.max[0] - range.min[0] > 8 &&
                         cel_random_chance(&chosen, 40)
                     ? pick(1, 4)
                     : 0;
  if (cel_box_volume(&layout) > ROOM) cel_bug("too many elements");
  fold.face = (cel_fold_job){.steps = (int32_t)pick(1, STEPS),
                             .step = fold.step,
                             .arrays = fold.arrays,
                             .array = fold.array};
  for (int32_t a = 0; a < fold.arrays; ++a)
    fold.array[a] = (cel_fold_array){.dims = fold.dims,
                                     .element_size = sizeof(uint64_t),
                                     .memory = {fold.memory[a], layout},
                                     .live = true};
  for (int32_t s = 0; s < fold.face.steps; ++s) {
    make_step(s, &range);
    for (int32_t k = 0; k < fold.work[s].uses; ++k) {
      int32_t a = fold.work[s].use[k].array;
      fold.view[s][k] = (cel_view){.base = fold.memory[a < 0 ? ARRAYS : a],
                                   .layout = layout,
                                   .box = range};
    }
  }
  for (int32_t a = 0; a <= ARRAYS; ++a)
    for (int64_t i = 0; i < cel_box_volume(&layout); ++i)
      fold.memory[a][i] = cel_random_next(&chosen);
}

/* What the engine is told of reaches is less than what steps do. */
static void plant_reach(cel_fold_view told[STEPS][USES]) {
  for (int32_t s = 0; s < fold.face.steps; ++s) {
    memcpy(told[s], fold.work[s].use, sizeof told[s]);
    for (int32_t k = 0; k < fold.work[s].uses && is("reach"); ++k)
      for (int d = 0; d < CEL_DIMS; ++d)
        if (told[s][k].above[d] > 0) told[s][k].above[d]--;
    for (int32_t k = 0; k < fold.work[s].uses && is("ends"); ++k)
      for (int d = 0; d < CEL_DIMS; ++d) told[s][k].wraps[d] = false;
    fold.step[s].use = told[s];
  }
}

/* ---- carrying out -------------------------------------------------------- */

static void plant(cel__bands *bands) {
  for (int32_t s = 1; s < fold.face.steps; ++s) {
    if (is("lag") && bands->lag[s] > 0) bands->lag[s]--;
    if (is("lead") && bands->lead[s] > 0) bands->lead[s]--;
  }
  /* More runs than the seams leave room for. */
  if (is("apart")) bands->runs = (int32_t)(bands->end - bands->begin);
  if (is("ring")) bands->ring = false;
}

/* Blocks across, narrower than the plan has them; or none. */
static void choose_blocks(cel__bands *bands) {
  int32_t across = bands->dim + 1;
  bands->across =
      bands->across_end > bands->across_begin && cel_random_chance(&chosen, 60)
          ? across
          : -1;
  bands->width = pick(1, 20);
  for (int32_t s = 1; s < fold.face.steps && is("drift"); ++s)
    if (bands->drift[s] > 0) bands->drift[s]--;
}

static void must(cel_status status) {
  if (status != CEL_E_OK) cel_bug("%s", cel_error_last()->text);
}

/* Runs and seams in any order in which a seam comes after its runs. */
static void by_bands(const cel_job *job) {
  cel__bands bands;
  bool ran[ROOM] = {false}, joined[ROOM] = {false};
  cel__bands_plan(job, pick(1, 8) * CEL_TUNE_BAND_RUNS, &bands);
  plant(&bands);
  if (!bands.in_turns) bands.band = pick(1, 9);
  choose_blocks(&bands);
  int64_t runs = bands.runs, left = 2 * runs - !bands.ring;
  if (runs < 1) return; /* of a fault, in an empty fold */
  while (left > 0) {
    int64_t i = pick(0, runs - 1), below = i > 0 ? i - 1 : runs - 1;
    bool may = (i > 0 || bands.ring) && (is("order") || (ran[i] && ran[below]));
    if (may && !joined[i] && cel_random_chance(&chosen, 50)) {
      must(cel__bands_seam(&bands, i));
      joined[i] = true;
      --left;
    } else if (!ran[i]) {
      must(cel__bands_run(&bands, i));
      ran[i] = true;
      --left;
    }
  }
}

static cel_backend *backend;

static void open_threads(void) {
  if (backend != NULL && !cel_random_chance(&chosen, 2)) return;
  if (backend != NULL) backend->destroy(backend);
  const cel_backend_config config = {
      .devices = 1, .cores = (int32_t)pick(1, 5), .folds_always = true};
  must(cel_backend_cpu(&config, &backend));
}

static void finish(int jobs) {
  for (cel_done done; jobs > 0;) {
    if (backend->poll(backend, &done, 1) == 0) {
      sched_yield();
      continue;
    }
    if (done.error != NULL) cel_bug("%s", done.error->text);
    --jobs;
  }
}

static void by_threads(cel_job *job) {
  open_threads();
  backend->submit(backend, 0, 0, job);
  finish(1);
}

static cel_status hold(const cel_work *work, const cel_call *call) {
  (void)work, (void)call;
  const int64_t until = cel_now_ns() + 20000;
  while (cel_now_ns() < until) sched_yield();
  return CEL_E_OK;
}

/* Behind something that takes a while, so that most of them wait together. */
static void by_lane(void) {
  static const cel_work holding = {.references = 1, .fn = hold};
  cel_job job[STEPS] = {{0}};
  open_threads();
  cel_job first = {.kind = CEL_JOB_CALL,
                   .work = &holding,
                   .call.chunk = cel_box_sized(1, 1, 1)};
  backend->submit(backend, 0, 1, &first);
  for (int32_t s = 0; s < fold.face.steps; ++s) {
    job[s] = (cel_job){.ticket = (uint64_t)s,
                       .kind = CEL_JOB_CALL,
                       .work = fold.step[s].work,
                       .call = fold.step[s].call,
                       .use = fold.step[s].use};
    if (cel_random_chance(&chosen, 5)) job[s].use = NULL;
    backend->submit(backend, 0, 1, &job[s]);
  }
  finish(fold.face.steps + 1);
}

static int64_t time_of(cel_job *job, int jobs) {
  cel_done done;
  int64_t begin = cel_now_ns();
  for (int i = 0; i < jobs; ++i) backend->submit(backend, 0, 0, &job[i]);
  for (int n = 0; n < jobs;)
    if (backend->poll(backend, &done, 1) == 1)
      ++n;
    else
      sched_yield();
  return cel_now_ns() - begin;
}

static const char kernels[] =
    "kernel void wave(item<2> it, inout<float, 2> up, in<float, 2> u) {\n"
    "  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);\n"
    "  const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);\n"
    "  const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));\n"
    "  up(y, x) = 2 * u(y, x) - up(y, x) + 0.25f * (ux + uy - 4 * u(y, x));\n"
    "}\n"
    "kernel void heat(item<3> it, out<float, 3> b, in<float, 3> a) {\n"
    "  const int z = it[0], y = it[1], x = it[2], n = it.range(0);\n"
    "  const float here = a(z, y, x);\n"
    "  const float dz = a(min(z + 1, n - 1), y, x) + a(max(z - 1, 0), y, x);\n"
    "  const float dy = a(z, min(y + 1, n - 1), x) + a(z, max(y - 1, 0), x);\n"
    "  const float dx = a(z, y, min(x + 1, n - 1)) + a(z, y, max(x - 1, 0));\n"
    "  b(z, y, x) = here + 0.125f * (dz + dy + dx - 6 * here);\n"
    "}\n";

static void speed(bool heat, int64_t n, int32_t steps, int32_t threads) {
  cel_box range = cel_box_sized(n, n, heat ? n : 1);
  cel_module *module;
  cel_job all = {.kind = CEL_JOB_FOLD, .fold = &fold.face}, plain[STEPS] = {0};
  const cel_embedded *header = cel_embedded_find("kernels/celer.cuh");
  const cel_source text = {.text = kernels, .file = "check.cu", .line = 1};
  const cel_backend_config config = {.devices = 1, .cores = threads};
  size_t bytes = (size_t)cel_box_volume(&range) * sizeof(float);
  cel_module_set_header(header->data, header->size);
  cel_module_set_sampling(CEL_SAMPLING_OFF);
  must(cel_module_begin_cpu(&text, &module));
  must(cel_module_finish(module, NULL));
  must(cel_backend_cpu(&config, &backend));
  cel_work *work = cel_module_work(module, heat, NULL, 0);
  void *memory[2];
  for (int a = 0; a < 2; ++a) {
    must(backend->reserve(backend, 0, bytes, &memory[a]));
    memset(memory[a], 0, bytes);
  }
  fold.face = (cel_fold_job){
      .steps = steps, .step = fold.step, .arrays = 2, .array = fold.array};
  for (int32_t s = 0; s < steps; ++s) {
    cel_fold_view *use = fold.work[s].use;
    cel_fold_call *step = &fold.step[s];
    use[0] = (cel_fold_view){.array = s % 2, .writes = true, .keeps = true};
    use[1] = (cel_fold_view){
        .array = 1 - s % 2, .below = {1, 1, heat}, .above = {1, 1, heat}};
    *step = (cel_fold_call){.work = work, .use = use, .name = "step"};
    step->call = (cel_call){.chunk = range,
                            .range = range,
                            .ranks = 1,
                            .views = 2,
                            .view = fold.view[s]};
    for (int k = 0; k < 2; ++k)
      fold.view[s][k] = (cel_view){
          .base = memory[use[k].array], .layout = range, .box = range};
    plain[s] =
        (cel_job){.kind = CEL_JOB_CALL, .work = work, .call = step->call};
  }
  for (int turn = 0; turn < 6; ++turn) {
    int64_t a = time_of(plain, steps), b = time_of(&all, 1);
    printf("  plain %8.2f ms a step, fold %8.2f, %.2f times\n",
           (double)a / 1e6 / steps, (double)b / 1e6 / steps,
           (double)a / (double)b);
  }
  work->destroy(work);
  for (int a = 0; a < 2; ++a) backend->release(backend, 0, memory[a], bytes);
  backend->destroy(backend);
  cel_module_destroy(module);
}

static void one_after_another(void) {
  for (int32_t s = 0; s < fold.face.steps; ++s)
    must(run(fold.step[s].work, &fold.step[s].call));
}

int main(int argc, char **argv) {
  static cel_fold_view told[STEPS][USES];
  if (argc < 4) return 2;
  if (strcmp(argv[1], "speed") == 0 && argc > 5) {
    int64_t steps = atoll(argv[4]);
    speed(strcmp(argv[2], "heat") == 0, atoll(argv[3]),
          (int32_t)(steps < STEPS ? steps : STEPS), atoi(argv[5]));
    return 0;
  }
  long count = atol(argv[2]);
  chosen.state = strtoull(argv[3], NULL, 10);
  if (argc > 4) fault = argv[4];
  for (long i = 0; i < count; ++i) {
    make_fold();
    memcpy(before, fold.memory, sizeof before);
    one_after_another();
    memcpy(want, fold.memory, sizeof want);
    memcpy(fold.memory, before, sizeof before);
    plant_reach(told);
    cel_job job = {.kind = CEL_JOB_FOLD, .fold = &fold.face};
    if (strcmp(argv[1], "bands") == 0)
      by_bands(&job);
    else if (strcmp(argv[1], "jobs") == 0)
      by_threads(&job);
    else
      by_lane();
    if (memcmp(want, fold.memory, sizeof want) == 0) continue;
    printf("fold %ld differs: %d steps of %d dimensions, %d arrays\n", i + 1,
           fold.face.steps, fold.dims, fold.arrays);
    return 3;
  }
  if (backend != NULL) backend->destroy(backend);
  printf("%ld folds\n", count);
  return 0;
}
