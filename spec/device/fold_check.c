/* fold_check random COUNT SEED | speed NAME N STEPS, and compiler options
 *
 * Folds as one launch on a GPU against their steps one after another, to the
 * bit: stencils by tiles, streams or sheets, chains in registers.
 * `speed`: one of wave, gray, ring and turn (the same with ends that meet),
 * five over N x N items, or flow over N, in turns with plain launches;
 * wave:tile, :stream or :sheet so. N may be HEIGHTxWIDTH, and
 * HEIGHTxWIDTH@FROM-TO rows of it, as one of several devices has them. Exits
 * with 77 and a reason where there is no GPU. Run by fold_spec.lua.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "device/clock.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_fold.h"
#include "embed/embedded.h"
#include "tuning.h"

enum {
  STEPS = 12,
  ARRAYS = 6,
  VIEWS = 4,
  DEEP = 64,
  RIM = 4,
  COPIES = ARRAYS * RIM
};

static const char source[] =
    "kernel void wave(item<2> it, inout<float, 2> up, in<float, 2> u, float c) "
    "{\n"
    "  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);\n"
    "  const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);\n"
    "  const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));\n"
    "  up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));\n"
    "}\n"
    "kernel void far(item<2> it, in<float, 2> a, out<float, 2> b, float c) {\n"
    "  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);\n"
    "  if (a(y, x) > 1.5f) return;\n"
    "  b(y, x) = c * (a(max(y - 2, 0), max(x - 1, 0)) + a(min(y + 1, h - 1), "
    "min(x + 2, w - 1)) - a(y, x)) + b(y, x) * 0.25f;\n"
    "}\n"
    "kernel void gray(item<2> it, in<float, 2> u, in<float, 2> v, out<float, "
    "2> "
    "nu, out<float, 2> nv, float c) {\n"
    "  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);\n"
    "  const int n = max(y - 1, 0), s = min(y + 1, h - 1);\n"
    "  const int l = max(x - 1, 0), r = min(x + 1, w - 1);\n"
    "  const float a = u(y, x), b = v(y, x), abb = a * b * b;\n"
    "  nu(y, x) = a + 0.16f * (u(n, x) + u(s, x) + u(y, l) + u(y, r) - 4 * a) "
    "- abb + c * (1 - a);\n"
    "  nv(y, x) = b + 0.08f * (v(n, x) + v(s, x) + v(y, l) + v(y, r) - 4 * b) "
    "+ abb - (c + 0.06f) * b;\n"
    "}\n"
    "kernel void open(item<2> it, in<float, 2> a, out<float, 2> b, float c) {\n"
    "  const int y = it[0], x = it[1];\n"
    "  b(y, x) = c * (a(y - 1, x) + a(y + 1, x) + a(y, x - 1) + a(y, x + 1)) - "
    "a(y, x) * 0.5f;\n"
    "}\n"
    "kernel void one(item<2> it, in<float, 2> x, out<float, 2> y, float c) {\n"
    "  y(it[0], it[1]) = c * x(it[0], it[1]) + it[1];\n"
    "}\n"
    "kernel void two(item<2> it, in<float, 2> y, in<float, 2> x, out<float, 2> "
    "z, float c) {\n"
    "  const int i = it[0], j = it[1];\n"
    "  if (x(i, j) > 1) return;\n"
    "  z(i, j) = y(i, j) * c - x(i, j);\n"
    "}\n"
    "kernel void three(item<2> it, in<float, 2> z, inout<float, 2> w, float c) "
    "{\n"
    "  w(it[0], it[1]) += z(it[0], it[1]) * c;\n"
    "}\n"
    "kernel void flow(item<1> it, in<float, 1> a, out<float, 1> b, float c) {\n"
    "  const int x = it[0], n = it.range(0);\n"
    "  const float l = a(max(x - 1, 0)), r = a(min(x + 1, n - 1));\n"
    "  b(x) = a(x) - c * a(x) * (a(x) - l) + 0.1f * (l + r - 2 * a(x));\n"
    "}\n"
    "kernel void ring(item<2> it, inout<float, 2> up, near<float, 2> u, float "
    "c) {\n"
    "  const int y = it[0], x = it[1];\n"
    "  const float uy = u(y + 1, x) + u(y - 1, x);\n"
    "  const float ux = u(y, x + 1) + u(y, x - 1);\n"
    "  up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));\n"
    "}\n"
    "kernel void turn(item<2> it, near<float, 2> u, near<float, 2> v, "
    "out<float, 2> nu, out<float, 2> nv, float c) {\n"
    "  const int y = it[0], x = it[1];\n"
    "  const float a = u(y, x), b = v(y, x), abb = a * b * b;\n"
    "  nu(y, x) = a + 0.16f * (u(y - 1, x) + u(y + 1, x) + u(y, x - 1) + u(y, "
    "x + 1) - 4 * a) - abb + c * (1 - a);\n"
    "  nv(y, x) = b + 0.08f * (v(y - 1, x) + v(y + 1, x) + v(y, x - 1) + v(y, "
    "x + 1) - 4 * b) + abb - (c + 0.06f) * b;\n"
    "}\n"
    "kernel void roam(item<2> it, near<float, 2> a, out<float, 2> b, float c) "
    "{\n"
    "  const int y = it[0], x = it[1];\n"
    "  if (a(y, x) > 1.5f) return;\n"
    "  b(y, x) = c * (a(y - 2, x - 1) + a(y + 1, x + 2) - a(y, x)) + b(y, x) * "
    "0.25f + (x == 0 ? y : 0.125f);\n"
    "}\n";

enum { WAVE, FAR, GRAY, OPEN, ONE, TWO, THREE, FLOW, RING, TURN, ROAM };

static bool is_torus(int32_t kernel) {
  return kernel >= RING;
}

static cel_cuda *cuda;
static cel_backend *backend;
static cel_module *module;
static cel_random chosen;

static void must(cel_status status) {
  if (status == CEL_E_OK) return;
  printf("%s\n", cel_error_last()->text);
  exit(1);
}

static int64_t pick(int64_t lo, int64_t hi) {
  return cel_random_int(&chosen, lo, hi);
}

static void open_gpu(int options, char **given) {
  char why[256];
  int32_t first = 0;
  if (cel_cuda_count(why, sizeof why) == 0) {
    printf("%s\n", why);
    exit(77);
  }
  must(cel_cuda_open(&first, 1, &cuda));
  const cel_backend_config config = {.devices = 1};
  must(cel_backend_cuda(&config, cuda, &backend));
  const cel_embedded *header = cel_embedded_find("kernels/celer.cuh");
  const cel_embedded *fold = cel_embedded_find("kernels/fold.cuh");
  const cel_embedded *near = cel_embedded_find("kernels/near.cuh");
  cel_module_set_header(header->data, header->size);
  cel_module_set_fold_header(fold->data, fold->size);
  cel_module_set_sampling(CEL_SAMPLING_OFF);
  const char *option[16] = {"-fmad=false"};
  for (int i = 0; i < options && i < 15; ++i) option[i + 1] = given[i];
  const cel_source text = {.prelude = near->data,
                           .text = source,
                           .file = "check.cu",
                           .line = 1,
                           .options = 1 + (options < 15 ? options : 15),
                           .option = option};
  must(cel_module_begin_cuda(&text, cuda, &module));
  must(cel_module_finish(module, NULL));
}

/* ---- jobs ---------------------------------------------------------------- */

static uint64_t submitted, finished;

static void poll_some(void) {
  cel_done done[16];
  uint32_t n = backend->poll(backend, done, 16);
  for (uint32_t i = 0; i < n; ++i, ++finished)
    if (done[i].error != NULL) {
      printf("%s\n", done[i].error->text);
      exit(1);
    }
  if (n == 0) sched_yield();
}

static void finish(void) {
  while (finished < submitted) poll_some();
}

static void submit(int32_t lane, cel_job *job) {
  job->ticket = ++submitted;
  while (submitted - finished > DEEP) poll_some();
  backend->submit(backend, 0, lane, job);
}

/* ---- memory: each array three times over, for the steps, for the fold and to
 * spare */

typedef struct held {
  float *host, *before;
  void *steps, *fold, *spare;
} held;

static held array[ARRAYS];
static int64_t room; /* elements of each */

static void *reserve(int32_t memory, uint64_t bytes) {
  void *p;
  must(backend->reserve(backend, memory, bytes, &p));
  if (bytes >= backend->whole)
    must(backend->commit(backend, memory, p, 0, bytes));
  return p;
}

static void reserve_all(int64_t elements) {
  room = elements;
  for (int a = 0; a < ARRAYS; ++a) {
    array[a].host = reserve(0, (uint64_t)elements * sizeof(float));
    array[a].before = cel_alloc((size_t)elements * sizeof(float));
    void **to[] = {&array[a].steps, &array[a].fold, &array[a].spare};
    for (int i = 0; i < 3; ++i)
      *to[i] = reserve(1, (uint64_t)elements * sizeof(float));
  }
}

static void copy(void *from, void *to, bool back, const cel_box *box) {
  cel_job job = {.kind = CEL_JOB_COPY,
                 .element_size = sizeof(float),
                 .from = {from, *box},
                 .to = {to, *box},
                 .from_memory = back,
                 .to_memory = !back,
                 .box = *box};
  submit(backend->kernel_lanes, &job);
  finish();
}

/* ---- folds --------------------------------------------------------------- */

typedef struct made {
  cel_fold_job face;
  cel_fold_call step[STEPS];
  cel_fold_view use[STEPS][VIEWS];
  cel_view view[STEPS][VIEWS];
  cel_fold_array array[ARRAYS];
  cel_fold_copy copy[COPIES];
  cel_box all, range, chunk; /* of the arrays; of the steps; of the last one */
  bool torus;
} made;

static made fold;

/* Arrays of h x w, and a range that leaves `rim` of them out, of each side. */
static void start_fold(int32_t steps, int32_t arrays, int32_t dims, int64_t h,
                       int64_t w, const int64_t rim[RIM]) {
  memset(&fold, 0, sizeof fold);
  fold.all = (cel_box){{0, 0, 0}, {h, w, 1}};
  fold.range = (cel_box){{rim[0], rim[2], 0}, {h - rim[1], w - rim[3], 1}};
  fold.chunk = fold.range;
  fold.face = (cel_fold_job){
      .steps = steps, .step = fold.step, .arrays = arrays, .array = fold.array};
  for (int32_t a = 0; a < arrays; ++a)
    fold.array[a] = (cel_fold_array){.dims = dims,
                                     .element_size = sizeof(float),
                                     .memory = {array[a].fold, fold.all},
                                     .live = true};
}

/* Mirrored in kernels/near.cuh. */
typedef struct edge {
  int64_t size[3], reach[3], low[3], high[3];
  int32_t turn, constant, is_far;
  _Alignas(8) float outside;
} edge;

/* A kernel's values: of each of its views that has one its buffer's edges, and
 * a number. */
static const cel_work *work_of(int32_t kernel, int32_t views) {
  struct {
    edge of[2];
    float c;
  } values = {.c = .25f};
  for (int32_t i = 0; i < views; ++i) {
    edge *e = &values.of[2 - views + i];
    e->turn = 1;
    for (int d = 0; d < 2; ++d) {
      e->size[d] = e->low[d] = fold.all.max[d];
      e->high[d] = -fold.all.max[d];
      e->reach[d] = kernel == ROAM ? 2 : 1;
    }
  }
  const size_t more = (size_t)(2 - views) * sizeof(edge);
  return cel_module_work(module, kernel,
                         (const unsigned char *)&values.of[0] + more,
                         sizeof values - more);
}

/* `arrays`: a letter each, in capitals those that are written; if not `keeps`,
 * all of them. */
static void set_step(int32_t s, int32_t kernel, const char *arrays, bool keeps,
                     int32_t below, int32_t above) {
  cel_fold_call *step = &fold.step[s];
  step->work = work_of(kernel, !is_torus(kernel) ? 0 : kernel == TURN ? 2 : 1);
  step->use = fold.use[s];
  step->name = "step";
  step->call.range = fold.range;
  step->call.ranks = 1;
  step->call.views = (int32_t)strlen(arrays);
  step->call.view = fold.view[s];
  for (int32_t k = 0; arrays[k] != '\0'; ++k) {
    cel_fold_view *use = &fold.use[s][k];
    use->writes = arrays[k] < 'a';
    use->keeps = use->writes && keeps;
    use->array = arrays[k] - (use->writes ? 'A' : 'a');
    use->along_axes = kernel != FAR && kernel != ROAM;
    const int dims = kernel == FLOW ? 1 : 2;
    for (int d = 0; d < dims && !use->writes; ++d) {
      use->below[d] = below;
      use->above[d] = above;
      use->wraps[d] = is_torus(kernel);
    }
  }
}

/* Around the ends of a torus, where that is not all of it. */
static cel_box grown(const cel_box *box, const int32_t by[4],
                     const cel_box *within, bool torus) {
  cel_box r = *box;
  for (int d = 0; d < 2; ++d) {
    const int64_t min = within->min[d], max = within->max[d];
    r.min[d] -= by[(size_t)2 * (size_t)d];
    r.max[d] += by[(size_t)2 * (size_t)d + 1];
    const bool all = torus && r.max[d] - r.min[d] >= max - min;
    if (torus && !all) continue;
    if (all || r.min[d] < min) r.min[d] = min;
    if (all || r.max[d] > max) r.max[d] = max;
  }
  return r;
}

static void set_chunk(const cel_box *chunk) {
  fold.chunk = *chunk;
  fold.torus = fold.use[0][0].wraps[0] || fold.use[0][1].wraps[0];
  for (int32_t s = 0; s < fold.face.steps; ++s) {
    int32_t margin[4];
    cel__cuda_fold_margin(&fold.face, s, margin);
    if (fold.array[0].dims == 1) { /* which is said of what is fastest */
      memcpy(margin, margin + 2, 2 * sizeof *margin);
      memset(margin + 2, 0, 2 * sizeof *margin);
    }
    cel_box own = grown(chunk, margin, &fold.range, fold.torus);
    fold.step[s].call.chunk = own;
    for (int32_t k = 0; k < fold.step[s].call.views; ++k) {
      const cel_fold_view *use = &fold.use[s][k];
      const int32_t reach[4] = {use->below[0], use->above[0], use->below[1],
                                use->above[1]};
      fold.view[s][k] = (cel_view){
          .base = array[use->array].fold,
          .layout = fold.all,
          .box = use->writes ? own : grown(&own, reach, &fold.all, fold.torus)};
    }
  }
}

/* Spare memory for those that need it; what is around the range goes there. */
static void set_spares(void) {
  uint32_t n = 0;
  for (int32_t a = 0; a < fold.face.arrays; ++a) {
    if (!cel_fold_needs_spare(&fold.face, a)) continue;
    fold.array[a].spare = array[a].spare;
    for (int d = 0; d < 2; ++d) {
      fold.copy[n] = fold.copy[n + 1] = (cel_fold_copy){a, fold.all};
      fold.copy[n++].box.max[d] = fold.range.min[d];
      fold.copy[n++].box.min[d] = fold.range.max[d];
    }
  }
  fold.face.copies = n;
  fold.face.copy = fold.copy;
}

static void let_go(void) {
  for (int32_t s = 0; s < fold.face.steps; ++s)
    cel_work_release((cel_work *)(uintptr_t)fold.step[s].work);
}

/* Until it is compiled, of all steps: tiles, which serve until there is
 * another, may take fewer. */
static void fuse(void) {
  const int32_t steps = fold.face.steps;
  const int64_t begin = cel_now_ns();
  for (;;) {
    fold.face.steps = steps;
    fold.face.stands_in = false;
    fold.face.manner = backend->folds(backend, 0, &fold.face);
    const cel_fused *fused = fold.face.fused;
    if (fused == NULL) {
      printf("no fused entry\n");
      exit(1);
    }
    if (fold.face.manner != CEL_FOLD_PLAIN && fold.face.steps == steps &&
        !fold.face.stands_in)
      break;
    if (cel_now_ns() - begin > 100000000000) {
      printf("the fused entry of %d steps does not come\n", steps);
      exit(1);
    }
    sched_yield();
  }
  if (fold.face.manner == CEL_FOLD_TO_SPARE) set_spares();
}

/* Which memory of each array the steps are given. */
static void look_at(void *const memory[ARRAYS]) {
  for (int32_t s = 0; s < fold.face.steps; ++s)
    for (int32_t k = 0; k < fold.step[s].call.views; ++k)
      fold.view[s][k].base = memory[fold.use[s][k].array];
}

static cel_job step_job(int32_t s) {
  return (cel_job){.kind = CEL_JOB_CALL,
                   .work = fold.step[s].work,
                   .call = fold.step[s].call,
                   .name = "step"};
}

static void run_steps(void) {
  cel_job job[STEPS][CEL_BOX_PARTS];
  cel_box part[CEL_BOX_PARTS];
  void *memory[ARRAYS];
  for (int a = 0; a < ARRAYS; ++a) memory[a] = array[a].steps;
  look_at(memory);
  for (int32_t s = 0; s < fold.face.steps; ++s)
    for (int32_t n =
             cel_box_on_ring(&fold.step[s].call.chunk, &fold.range, part);
         n-- > 0;) {
      job[s][n] = step_job(s);
      job[s][n].call.chunk = part[n];
      submit(0, &job[s][n]);
    }
  finish();
  for (int a = 0; a < ARRAYS; ++a) memory[a] = array[a].fold;
  look_at(memory);
}

static void run_fold(void) {
  cel_job job = {.kind = CEL_JOB_FOLD, .fold = &fold.face, .name = "fold"};
  submit(0, &job);
  finish();
}

/* ---- random -------------------------------------------------------------- */

static void choose_chunk(void) {
  cel_box chunk = fold.range;
  for (int d = 0; d < 2 && cel_random_chance(&chosen, 60); ++d) {
    chunk.min[d] = pick(fold.range.min[d], fold.range.max[d] - 1);
    chunk.max[d] = pick(chunk.min[d] + 1, fold.range.max[d]);
  }
  set_chunk(&chunk);
}

/* Of a torus: it may go on at the other end, as far as a block may that is
 * `size` long. */
static void choose_turning_chunk(const int64_t size[2]) {
  enum { MARGINS = 32, BEFORE = 30 };
  cel_box chunk = fold.range;
  for (int d = 0; d < 2; ++d) {
    const int64_t n = fold.range.max[d];
    if (cel_random_chance(&chosen, 40)) continue;
    const int64_t items = pick(1, n - MARGINS);
    const int64_t furthest = 2 * n - size[d] - items;
    chunk.min[d] = pick(-BEFORE, furthest < n - 1 ? furthest : n - 1);
    chunk.max[d] = chunk.min[d] + items;
  }
  set_chunk(&chunk);
}

static void choose_fold(void) {
  enum { KINDS = 9 };
  static const int32_t kinds[KINDS] = {WAVE, FAR,  GRAY, OPEN, ONE,
                                       FLOW, RING, TURN, ROAM};
  int64_t h = pick(1, 300), w = pick(1, 300);
  int32_t which = kinds[pick(0, KINDS - 1)];
  int64_t rim[RIM] = {0};
  static const cel_fused_way ways[] = {CEL_FUSED_TILE, CEL_FUSED_STREAM,
                                       CEL_FUSED_SHEET};
  static const int32_t most[] = {[CEL_FUSED_TILE] = CEL_TUNE_FOLD_TILE_STEPS,
                                 [CEL_FUSED_STREAM] =
                                     CEL_TUNE_FOLD_STREAM_STEPS,
                                 [CEL_FUSED_SHEET] = CEL_TUNE_FOLD_SHEET_STEPS};
  cel_fused_way way = which == FLOW ? CEL_FUSED_STREAM : CEL_FUSED_TILE;
  if (which == WAVE || which == GRAY)
    way = ways[pick(0, 2)];
  else if (which == OPEN)
    way = ways[pick(0, 1)];
  else if (which == RING || which == TURN)
    way = ways[2 * pick(0, 1)];
  bool torus = is_torus(which);
  bool stream = way != CEL_FUSED_TILE;
  int32_t steps = (int32_t)pick(2, most[way]);
  cel__cuda_fold_way = way;
  if (stream) {
    h = pick(way == CEL_FUSED_SHEET ? 96 : 16, 300);
    w = pick(way == CEL_FUSED_SHEET ? 128 : 16, 900);
  } else if (torus) {
    h = pick(64, 300);
    w = pick(64, 300);
  }
  if (way == CEL_FUSED_STREAM && which == GRAY && steps > 4) steps = 4;
  bool keeps = cel_random_chance(&chosen, 50), row = which == FLOW;
  for (int i = 0; i < RIM && way != CEL_FUSED_SHEET && !torus &&
                  (which == OPEN || cel_random_chance(&chosen, 50));
       ++i)
    rim[i] = row && i > 1 ? 0 : pick(1, 4);
  if (row) {
    h = pick(16, cel_random_chance(&chosen, 50) ? 300 : 200000);
    w = 1;
  }
  h += rim[0] + rim[1];
  w += rim[2] + rim[3];
  bool chain = which == ONE;
  bool four = chain || which == GRAY || which == TURN;
  start_fold(chain ? 3 : steps, four ? 4 : 2, row ? 1 : 2, h, w, rim);
  for (int32_t s = 0; s < steps && !chain; ++s) {
    if (which == WAVE || which == RING)
      set_step(s, which, s % 2 == 0 ? "Ab" : "Ba", true, 1, 1);
    if (which == FAR || which == ROAM)
      set_step(s, which, s % 2 == 0 ? "aB" : "bA", true, 2, 2);
    if (which == GRAY || which == TURN)
      set_step(s, which, s % 2 == 0 ? "abCD" : "cdAB", keeps, 1, 1);
    if (row) set_step(s, FLOW, s % 2 == 0 ? "aB" : "bA", keeps, 1, 1);
    if (which == OPEN) set_step(s, OPEN, s % 2 == 0 ? "aB" : "bA", keeps, 1, 1);
  }
  if (chain) {
    set_step(0, ONE, "aB", keeps, 0, 0);
    set_step(1, TWO, "baC", true, 0, 0);
    set_step(2, THREE, "cD", true, 0, 0);
    fold.array[1].live = cel_random_chance(&chosen, 50);
  }
  static const int64_t size[][2] = {
      [CEL_FUSED_TILE] = {64, 64}, [CEL_FUSED_SHEET] = {96, 128}};
  if (torus)
    choose_turning_chunk(size[way]);
  else
    choose_chunk();
}

static void fill(void) {
  const cel_box *box = &fold.all;
  for (int32_t a = 0; a < fold.face.arrays; ++a) {
    for (int64_t i = 0; i < cel_box_volume(box); ++i)
      array[a].host[i] = (float)pick(-2000, 2000) / 1024;
    copy(array[a].host, array[a].steps, false, box);
    copy(array[a].host, array[a].fold, false, box);
    for (int64_t i = 0; i < cel_box_volume(box); ++i)
      array[a].before[i] = array[a].host[i] += 100;
    copy(array[a].host, array[a].spare, false, box);
  }
}

static void say_differs(int64_t i, int32_t a, int64_t y, int64_t x, float is,
                        float want) {
  const cel_box *c = &fold.chunk, *r = &fold.range;
  printf("fold %lld, array %d differs at %lld, %lld: %a, not %a; %d steps of "
         "%s, %lld x %lld, range %lld..%lld x %lld..%lld, chunk %lld..%lld x "
         "%lld..%lld\n",
         (long long)i, a, (long long)y, (long long)x, (double)is, (double)want,
         fold.face.steps, fold.step[0].work->cuda->name,
         (long long)fold.all.max[0], (long long)fold.all.max[1],
         (long long)r->min[0], (long long)r->max[0], (long long)r->min[1],
         (long long)r->max[1], (long long)c->min[0], (long long)c->max[0],
         (long long)c->min[1], (long long)c->max[1]);
  exit(3);
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static bool is_in(const cel_box *box, int64_t y, int64_t x) {
  return y >= box->min[0] && y < box->max[0] && x >= box->min[1] &&
         x < box->max[1];
}

static bool is_computed(int64_t y, int64_t x) {
  cel_box part[CEL_BOX_PARTS];
  int32_t n = cel_box_on_ring(&fold.chunk, &fold.range, part);
  while (n > 0 && !is_in(&part[n - 1], y, x)) --n;
  return n > 0;
}

/* What is of the chunk, and around the range; and nothing else of the spare
 * memory was touched. */
static void compare(int64_t i) {
  const cel_box *all = &fold.all;
  size_t bytes = (size_t)cel_box_volume(all) * sizeof(float);
  float *want = cel_alloc(bytes);
  for (int32_t a = 0; a < fold.face.arrays; ++a) {
    const bool moved = fold.array[a].spare != NULL;
    if (!fold.array[a].live) continue;
    copy(array[a].steps, array[a].host, true, all);
    memcpy(want, array[a].host, bytes);
    copy(moved ? array[a].spare : array[a].fold, array[a].host, true, all);
    for (int64_t y = 0; y < all->max[0]; ++y)
      for (int64_t x = 0; x < all->max[1]; ++x) {
        int64_t at = y * all->max[1] + x;
        bool own = is_computed(y, x), rim = !is_in(&fold.range, y, x);
        if (!own && !rim && !moved) continue;
        float is = array[a].host[at];
        float be = own || rim ? want[at] : array[a].before[at];
        if (bits_of(be) != bits_of(is)) say_differs(i, a, y, x, is, be);
      }
  }
  cel_free(want);
}

static void random_folds(int64_t count) {
  enum { HEIGHT = 310, WIDTH = 910 };
  reserve_all((int64_t)HEIGHT * WIDTH);
  for (int64_t i = 0; i < count; ++i) {
    choose_fold();
    fuse();
    fill();
    run_steps();
    run_fold();
    compare(i);
    let_go();
  }
  printf("%lld folds\n", (long long)count);
}

/* ---- speed --------------------------------------------------------------- */

static int64_t time_of(cel_job *job, int32_t jobs, int32_t times) {
  int64_t begin = cel_now_ns();
  for (int32_t t = 0; t < times; ++t)
    for (int32_t j = 0; j < jobs; ++j) submit(0, &job[j]);
  finish();
  return cel_now_ns() - begin;
}

/* N, HxW or HxW@FROM-TO, whose rows go to *chunk. */
static void read_size(const char *text, cel_box *chunk, int64_t *h,
                      int64_t *w) {
  long long a = 0, b = 0, from = 0, to = 0;
  const int n = sscanf(text, "%lldx%lld@%lld-%lld", &a, &b, &from, &to);
  *h = a;
  *w = n > 1 ? b : a;
  *chunk = (cel_box){{from, 0, 0}, {n > 3 ? to : a, *w, 1}};
}

static void speed(const char *name, const char *size, int32_t steps) {
  enum { TURNS = 5, TIMES = 10 };
  int64_t h, w;
  cel_box chunk;
  read_size(size, &chunk, &h, &w);
  cel_job plain[STEPS];
  bool five = strncmp(name, "five", 4) == 0,
       turn = strncmp(name, "turn", 4) == 0,
       gray = strncmp(name, "gray", 4) == 0 || turn;
  const int32_t wave = strncmp(name, "ring", 4) == 0 ? RING : WAVE;
  bool row = strncmp(name, "flow", 4) == 0;
  static const char *const ways[] = {[CEL_FUSED_TILE] = ":tile",
                                     [CEL_FUSED_STREAM] = ":stream",
                                     [CEL_FUSED_SHEET] = ":sheet"};
  for (int way = CEL_FUSED_TILE; way <= CEL_FUSED_SHEET; ++way)
    if (strstr(name, ways[way]) != NULL) cel__cuda_fold_way = way;
  if (row) chunk.max[1] = w = 1;
  reserve_all(h * w);
  static const int64_t rim[RIM];
  start_fold(steps, five || gray ? 4 : 2, row ? 1 : 2, h, w, rim);
  for (int32_t s = 0; s < steps; ++s) {
    if (gray)
      set_step(s, turn ? TURN : GRAY, s % 2 == 0 ? "abCD" : "cdAB", false, 1,
               1);
    else if (row)
      set_step(s, FLOW, s % 2 == 0 ? "aB" : "bA", false, 1, 1);
    else if (!five)
      set_step(s, wave, s % 2 == 0 ? "Ab" : "Ba", true, 1, 1);
    else if (s % 3 == 0)
      set_step(s, ONE, "aB", false, 0, 0);
    else if (s % 3 == 1)
      set_step(s, TWO, "baC", true, 0, 0);
    else
      set_step(s, THREE, "cD", true, 0, 0);
  }
  if (five) fold.array[1].live = fold.array[2].live = false;
  set_chunk(&chunk);
  int64_t begin = cel_now_ns();
  fuse();
  int registers = 0, spilt = 0;
  CUfunction f = fold.face.fused->function[0];
  cuda->api->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
  cuda->api->cuFuncGetAttribute(&spilt, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f);
  printf("%s %s, %d steps: compiled in %.2f s, %u bytes of shared memory, %d "
         "registers, %d bytes of local memory\n",
         name, size, steps, (double)(cel_now_ns() - begin) * 1e-9,
         fold.face.fused->shared, registers, spilt);
  for (int32_t s = 0; s < steps; ++s) plain[s] = step_job(s);
  cel_job all = {.kind = CEL_JOB_FOLD, .fold = &fold.face, .name = "fold"};
  for (int turn = 0; turn <= TURNS; ++turn) {
    int64_t a = time_of(plain, steps, TIMES), b = time_of(&all, 1, TIMES);
    if (turn == 0) continue; /* warms up */
    printf("  plain %8.2f us a step, fold %8.2f, %.2f times\n",
           (double)a / 1e3 / (TIMES * steps), (double)b / 1e3 / (TIMES * steps),
           (double)a / (double)b);
  }
  let_go();
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  bool random = strcmp(argv[1], "random") == 0;
  int fixed = random ? 4 : 5;
  open_gpu(argc > fixed ? argc - fixed : 0, argv + fixed);
  if (random) {
    chosen.state = strtoull(argv[3], NULL, 10);
    random_folds(atoll(argv[2]));
  } else {
    speed(argv[2], argv[3], argc > 4 ? atoi(argv[4]) : 4);
  }
  cel_module_destroy(module);
  backend->destroy(backend);
  cel_cuda_close(cuda);
  return 0;
}
