/* stencil_memory [STEPS] -- does the engine's own memory stay where it is?
 *
 * A small stencil on one rank, with threads, for a million steps. Prints time
 * per step and how much resident memory grew after the first 10,000 steps; the
 * last line says whether that is at most 1 MiB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/engine/alone.h"
#include "device/clock.h"

enum { CELLS = 256, WARM = 10000, LIMIT_KIB = 1024 };

static double now(void) {
  return (double)cel_now_ns() * 1e-9;
}

static long resident_kib(void) {
  long pages = 0, ignored;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &ignored, &pages) != 2) exit(2);
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static cel_status stencil(const cel_work *work, const cel_call *call) {
  (void)work;
  const float *in = call->view[0].base;
  float *out = call->view[1].base;
  int64_t in0 = call->view[0].layout.min[0];
  int64_t out0 = call->view[1].layout.min[0];
  for (int64_t i = call->chunk.min[0]; i < call->chunk.max[0]; ++i) {
    int64_t l = i > 0 ? i - 1 : i, r = i + 1 < CELLS ? i + 1 : i;
    out[i - out0] = (in[l - in0] + in[i - in0] + in[r - in0]) / 3;
  }
  return CEL_E_OK;
}

static cel_status fill(const cel_init *init, const cel_box *box, void *out) {
  (void)init;
  float *to = out;
  for (int64_t i = box->min[0]; i < box->max[0]; ++i) *to++ = (float)(i % 7);
  return CEL_E_OK;
}

/* [chunk.min - w, chunk.max + w) */
static const cel_rule *grown(cel_engine *engine, int64_t w) {
  const int64_t code[] = {CEL_RULE_MIN, 0, CEL_RULE_CONST, w, CEL_RULE_SUB,
                          CEL_RULE_MAX, 0, CEL_RULE_CONST, w, CEL_RULE_ADD};
  cel_rule_box box = {.start = {{0, 5}}, .length = {{5, 5}}, .clamp = w > 0};
  cel_rule_desc desc = {.task_dims = 1,
                        .buffer_dims = 1,
                        .boxes = 1,
                        .box = &box,
                        .code = code,
                        .code_length = 10};
  const cel_rule *rule;
  must(cel_rules_intern(cel_engine_rules(engine), &desc, &rule));
  return rule;
}

typedef struct run {
  cel_engine *engine;
  const cel_buffer *buffer[2];
  const cel_rule *around, *same;
} run;

static cel_access access_of(const cel_buffer *buffer, cel_mode mode,
                            const cel_rule *rule) {
  return (cel_access){
      .buffer = buffer,
      .mode = mode,
      .use = {rule, NULL, cel_box_sized(CELLS, 1, 1), buffer->extent}};
}

static void destroy_nothing(cel_work *work) {
  (void)work;
}

static void steps(run *r, long n) {
  static cel_work work = {
      .references = 1, .fn = stencil, .destroy = destroy_nothing, .hash = 1};
  for (long i = 0; i < n; ++i) {
    cel_access access[2] = {
        access_of(r->buffer[i % 2], CEL_MODE_READ, r->around),
        access_of(r->buffer[(i + 1) % 2], CEL_MODE_DISCARD_WRITE, r->same)};
    cel_group group = {.kind = CEL_TASK_KERNEL,
                       .dims = 1,
                       .range = cel_box_sized(CELLS, 1, 1),
                       .permitted = {{true, false, false}, {1, 1, 1}},
                       .accesses = 2,
                       .access = access,
                       .work = &work,
                       .location = {__FILE__, __LINE__}};
    must(cel_engine_submit(r->engine, &group));
  }
}

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 1000000;
  alone a;
  alone_open(&a, &(cel_engine_config){.lookahead = true});
  run r = {.engine = a.engine};
  static cel_init init = {.fill = fill};
  const int64_t extent[3] = {CELLS, 1, 1};
  for (int b = 0; b < 2; ++b)
    r.buffer[b] = cel_engine_buffer(r.engine, 1, extent, sizeof(float), 0, "u",
                                    b == 0 ? &init : NULL, false);
  r.around = grown(r.engine, 1);
  r.same = grown(r.engine, 0);

  steps(&r, WARM);
  long before = resident_kib();
  double start = now();
  steps(&r, n - WARM);
  uint64_t epoch = cel_engine_epoch(r.engine, (cel_location){0});
  must(cel_engine_wait(r.engine, epoch, NULL));
  double seconds = now() - start;
  long grown_kib = resident_kib() - before;
  alone_close(&a);
  printf("%ld steps: %.2f us each; resident %ld KiB after %d steps, %+ld KiB "
         "since\n",
         n, seconds * 1e6 / (double)(n - WARM), before, WARM, grown_kib);
  printf("growth %s %d KiB\n", grown_kib <= LIMIT_KIB ? "within" : "exceeds",
         LIMIT_KIB);
  return grown_kib > LIMIT_KIB;
}
