/* device.c -- what the CPU backend costs and how it scales.
 *
 *   bench_device [cores]   default: all of this process's
 *
 * Prints the round trip of a job that does nothing, from submit to poll; jobs
 * per second with many under way; the time of one large memory-bound and one
 * large compute-bound kernel on 1, 2, 4 ... cores; and what share of the peak a
 * kernel of few, heavy items reaches: two of 280 us for each core. The last
 * line is JSON.
 */
#include <stdio.h>
#include <stdlib.h>

#include "device/backend.h"
#include "device/clock.h"
#include "device/topology.h"

enum { ROUNDS = 5000, SIDE = 4096, HEAVY_ROUNDS = 60 };

static double now(void) {
  return (double)cel_now_ns() * 1e-9;
}

static cel_status nothing(const cel_work *work, const cel_call *call) {
  (void)work;
  (void)call;
  return CEL_E_OK;
}

static cel_status add(const cel_work *work, const cel_call *call) {
  (void)work;
  float *a = call->view[0].base;
  const float *b = call->view[1].base;
  for (int64_t i = call->chunk.min[0]; i < call->chunk.max[0]; ++i)
    for (int64_t j = call->chunk.min[1]; j < call->chunk.max[1]; ++j)
      a[i * SIDE + j] += b[i * SIDE + j];
  return CEL_E_OK;
}

static cel_status iterate(const cel_work *work, const cel_call *call) {
  (void)work;
  float *a = call->view[0].base;
  for (int64_t i = call->chunk.min[0]; i < call->chunk.max[0]; ++i)
    for (int64_t j = call->chunk.min[1]; j < call->chunk.max[1]; ++j) {
      float x = a[i * SIDE + j];
      for (int k = 0; k < 20; ++k) x = x * 0.5f + 1.0f;
      a[i * SIDE + j] = x;
    }
  return CEL_E_OK;
}

/* The same work for each item, however often its thread is interrupted. */
static cel_status toil(const cel_work *work, const cel_call *call) {
  const int64_t *turns = work->context;
  for (int64_t i = call->chunk.min[0]; i < call->chunk.max[0]; ++i)
    for (volatile int64_t n = 0; n < *turns; ++n) {
    }
  return CEL_E_OK;
}

static void wait_for(cel_backend *b, cel_park *park, uint32_t count) {
  cel_done done[16];
  while (count > 0) {
    uint32_t seen = cel_park_prepare(park), n = b->poll(b, done, 16);
    count -= n;
    if (n == 0) cel_park_wait(park, seen, 1000000);
  }
}

static double time_job(cel_backend *b, cel_park *park, cel_job *job) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    double begin = now();
    b->submit(b, 0, 0, job);
    wait_for(b, park, 1);
    double t = now() - begin;
    if (t < best) best = t;
  }
  return best;
}

/* Microseconds of an empty job: alone, and of many. */
static void small_jobs(cel_backend *b, cel_park *park, double us[2]) {
  cel_work work = {.fn = nothing};
  cel_job *jobs = calloc(ROUNDS, sizeof *jobs);
  for (int i = 0; i < ROUNDS; ++i)
    jobs[i] = (cel_job){.ticket = (uint64_t)i,
                        .kind = CEL_JOB_CALL,
                        .work = &work,
                        .call = {.chunk = cel_box_sized(1, 1, 1)}};
  double begin = now();
  for (int i = 0; i < ROUNDS; ++i) {
    b->submit(b, 0, 0, &jobs[i]);
    wait_for(b, park, 1);
  }
  double single = (now() - begin) / ROUNDS;
  begin = now();
  for (int i = 0; i < ROUNDS; ++i)
    b->submit(b, 0, i % b->kernel_lanes, &jobs[i]);
  wait_for(b, park, ROUNDS);
  double many = (now() - begin) / ROUNDS;
  printf("empty job: round trip %.2f us; %.2f us each with %d under way\n",
         single * 1e6, many * 1e6, ROUNDS);
  us[0] = single * 1e6;
  us[1] = many * 1e6;
  free(jobs);
}

static void large_jobs(cel_backend *b, cel_park *park, int cores) {
  cel_box all = cel_box_sized(SIDE, SIDE, 1);
  size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
  cel_view view[2] = {{.layout = all, .box = all}, {.layout = all, .box = all}};
  for (int i = 0; i < 2; ++i)
    if (b->reserve(b, b->device_memory[0], bytes, &view[i].base) != CEL_E_OK)
      exit(1);
  cel_work work[2] = {{.fn = add}, {.fn = iterate}};
  double t[2];
  for (int i = 0; i < 2; ++i) {
    cel_job job = {.kind = CEL_JOB_CALL,
                   .work = &work[i],
                   .call = {.chunk = all, .views = 2, .view = view}};
    t[i] = time_job(b, park, &job);
  }
  printf("%3d cores: %dx%d floats, a += b %7.2f ms (%.1f GB/s), 20 steps each "
         "%7.2f ms\n",
         cores, SIDE, SIDE, t[0] * 1e3, 3e-9 * (double)bytes / t[0],
         t[1] * 1e3);
  for (int i = 0; i < 2; ++i)
    b->release(b, b->device_memory[0], view[i].base, bytes);
}

/* Of the time that a kernel of two heavy items for each core would take if all
 * were busy, what share it takes. */
static double heavy_items(cel_backend *b, cel_park *park, int cores) {
  int64_t turns = 100000, took = INT64_MAX;
  cel_work work = {.fn = toil, .context = &turns};
  cel_job job = {.kind = CEL_JOB_CALL,
                 .work = &work,
                 .call = {.chunk = cel_box_sized(1, 1, 1)}};
  for (int i = 0; i < HEAVY_ROUNDS; ++i) {
    int64_t begin = cel_now_ns();
    toil(&work, &job.call);
    int64_t t = cel_now_ns() - begin;
    if (t < took) took = t;
  }
  turns = turns * 280000 / took;
  double item = 1e9, all = 1e9;
  for (int i = 0; i < HEAVY_ROUNDS; ++i) {
    job.call.chunk = cel_box_sized(1, 1, 1);
    double t = time_job(b, park, &job);
    if (t < item) item = t;
    job.call.chunk = cel_box_sized(2 * cores, 1, 1);
    t = time_job(b, park, &job);
    if (t < all) all = t;
  }
  double share = 2 * item / all;
  printf("%3d cores: %d items of %.0f us in %.0f us, %.0f %% of the peak\n",
         cores, 2 * cores, item * 1e6, all * 1e6, 100 * share);
  return share;
}

int main(int argc, char **argv) {
  cel_topology topology;
  if (cel_topology_find(0, 1, &topology) != CEL_E_OK) return 1;
  double us[2] = {0}, heavy = 0;
  int most = argc > 1 ? atoi(argv[1]) : topology.cores;
  for (int cores = 1;; cores = cores * 2 < most ? cores * 2 : most) {
    cel_park park;
    cel_park_init(&park);
    cel_backend_config config = {
        .devices = 1, .cores = cores, .park = &park, .topology = &topology};
    cel_backend *b;
    if (cel_backend_cpu(&config, &b) != CEL_E_OK) {
      printf("%s\n", cel_error_last()->text);
      return 1;
    }
    if (cores == 1 || cores == most) small_jobs(b, &park, us);
    large_jobs(b, &park, cores);
    if (cores == most) heavy = heavy_items(b, &park, cores);
    b->destroy(b);
    if (cores == most) break;
  }
  printf("{\"bench\": \"device\", \"single_us\": %.3f, \"many_us\": %.3f, "
         "\"heavy_items_share\": %.3f}\n",
         us[0], us[1], heavy);
  return 0;
}
