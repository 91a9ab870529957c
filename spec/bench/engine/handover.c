/* handover [ROUNDS] -- how long main waits for a round through all threads.
 *
 * One rank. `epoch`: submit one and wait for it. `task`: a kernel of one item,
 * then the same. `fence`: a snapshot of one element, asked for at once. The
 * figures are medians; on fewer than four cores they hold futex wakes. The last
 * line is JSON.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/engine/alone.h"
#include "device/clock.h"

enum { ROUNDS = 20000 };

typedef struct run {
  cel_engine *engine;
  const cel_buffer *buffer;
  const cel_rule *rule;
} run;

static double now_us(void) {
  return (double)cel_now_ns() * 1e-3;
}

static cel_status add_one(const cel_work *work, const cel_call *call) {
  (void)work;
  ++*(int64_t *)call->view[0].base;
  return CEL_E_OK;
}

static void epoch(run *r) {
  must(cel_engine_barrier(r->engine, (cel_location){0}, NULL));
}

static void task(run *r) {
  static cel_work work = {
      .references = 1, .fn = add_one, .destroy = alone_keep, .hash = 1};
  cel_access access = {
      .buffer = r->buffer,
      .mode = CEL_MODE_READ_WRITE,
      .use = {r->rule, NULL, cel_box_sized(1, 1, 1), r->buffer->extent}};
  cel_group group = {.kind = CEL_TASK_KERNEL,
                     .range = cel_box_sized(1, 1, 1),
                     .permitted = {{false}, {1, 1, 1}},
                     .accesses = 1,
                     .access = &access,
                     .work = &work};
  must(cel_engine_submit(r->engine, &group));
  epoch(r);
}

static void fence(run *r) {
  cel_fence *f;
  const void *data;
  uint64_t size;
  must(cel_engine_fence(r->engine, r->buffer, &r->buffer->extent,
                        (cel_location){0}, &f));
  must(cel_engine_fence_get(r->engine, f, NULL, &data, &size));
  cel_fence_destroy(f);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median, which it also prints. */
static double measure(run *r, const char *name, void (*round)(run *), int n) {
  double *us = cel_alloc((size_t)n * sizeof *us);
  for (int i = 0; i < n / 10; ++i) round(r);
  for (int i = 0; i < n; ++i) {
    double start = now_us();
    round(r);
    us[i] = now_us() - start;
  }
  qsort(us, (size_t)n, sizeof *us, by_value);
  printf("%-6s %8.2f us, 90%% within %.2f us\n", name, us[n / 2],
         us[n * 9 / 10]);
  double median = us[n / 2];
  cel_free(us);
  return median;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : ROUNDS;
  alone a;
  alone_open(&a, &(cel_engine_config){0});
  run r = {.engine = a.engine};
  static cel_init init = {.fill = alone_zero};
  const int64_t extent[3] = {1, 1, 1};
  r.buffer = cel_engine_buffer(r.engine, 0, extent, 8, 0, "n", &init, false);
  cel_rule_box box = {.clamp = false};
  cel_rule_desc desc = {.boxes = 1, .box = &box};
  must(cel_rules_intern(cel_engine_rules(r.engine), &desc, &r.rule));
  double median[] = {measure(&r, "epoch", epoch, n),
                     measure(&r, "task", task, n),
                     measure(&r, "fence", fence, n)};
  alone_close(&a);
  printf("{\"bench\": \"handover\", \"epoch\": %.2f, \"task\": %.2f, "
         "\"fence\": %.2f}\n",
         median[0], median[1], median[2]);
  return 0;
}
