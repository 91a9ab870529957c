/* cuda_check [jobs COUNT SEED | speed]
 *
 * The CUDA backend on all GPUs of this machine. `jobs`: random copies and
 * kernels between all memories and lanes, chained in the order of submission,
 * against the same on the host. `speed`: what a chain of empty kernels costs.
 * Exits with 77 and a reason where there is no GPU. Run by
 * cuda_backend_spec.lua.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "base/vec.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_copy.h"
#include "embed/embedded.h"

enum { MEMORIES = 1 + CEL_DEVICES, JOBS = 400, AFTERS = 64 };

static cel_cuda *cuda;
static cel_backend *backend;
static cel_module *module;
static cel_random chosen;
static uint64_t submitted[CEL_DEVICES][32], tickets, finished;

static const char source[] =
    "kernel void scale(item<3> it, inout<int, 3> a, int f) {\n"
    "  a(it[0], it[1], it[2]) = a(it[0], it[1], it[2]) * f + "
    "(int)it.linear();\n"
    "}\n"
    "kernel void nothing(item<1> it) {}\n";

static void check(cel_status status) {
  if (status == CEL_E_OK) return;
  printf("%s\n", cel_error_last()->text);
  exit(1);
}

static void open_all(void) {
  char why[256];
  int32_t n = cel_cuda_count(why, sizeof why), ordinal[CEL_DEVICES];
  if (n == 0) {
    printf("%s\n", why);
    exit(77);
  }
  if (n > CEL_DEVICES) n = CEL_DEVICES;
  for (int32_t d = 0; d < n; ++d) ordinal[d] = d;
  check(cel_cuda_open(ordinal, n, &cuda));
  check(
      cel_cuda_pack_load(cuda, cel_embedded_find("kernels/strided.cuh")->data));
  cuda->pack_rows = 1;
  const cel_backend_config config = {.devices = n};
  check(cel_backend_cuda(&config, cuda, &backend));
  const cel_embedded *header = cel_embedded_find("kernels/celer.cuh");
  cel_module_set_header(header->data, header->size);
  const cel_source text = {.text = source, .file = "check.cu", .line = 1};
  check(cel_module_begin_cuda(&text, cuda, &module));
  check(cel_module_finish(module, NULL));
}

static void poll_some(void) {
  cel_done done[16];
  uint32_t n = backend->poll(backend, done, 16);
  for (uint32_t i = 0; i < n; ++i) {
    if (done[i].error != NULL) {
      printf("job %llu: %s\n", (unsigned long long)done[i].ticket,
             done[i].error->text);
      exit(1);
    }
    ++finished;
  }
  if (n == 0) sched_yield();
}

static void finish(void) {
  while (finished < tickets) poll_some();
}

/* ---- random jobs ----------------------------------------------------------
 */

static cel_layout real[MEMORIES], shadow[MEMORIES];
static cel_box layout_box[MEMORIES];
static cel_after afters[JOBS][AFTERS];
static cel_job jobs[JOBS];
static cel_view views[JOBS];

static int64_t volume(int m) {
  return cel_box_volume(&layout_box[m]);
}

/* The same large box in every memory, with other margins. */
static void make_memories(const cel_box *core) {
  for (int m = 0; m < backend->memories; ++m) {
    cel_box *box = &layout_box[m];
    *box = *core;
    for (int d = 0; d < CEL_DIMS; ++d) {
      box->min[d] -= cel_random_int(&chosen, 0, 3);
      box->max[d] += cel_random_int(&chosen, 0, 3);
    }
    uint64_t bytes = (uint64_t)volume(m) * sizeof(int32_t);
    void *p;
    check(backend->reserve(backend, m, bytes, &p));
    /* In two steps, so that data lie across mappings. */
    check(backend->commit(backend, m, p, 0, bytes / 2));
    check(backend->commit(backend, m, p, bytes / 3, bytes));
    real[m] = (cel_layout){p, *box};
    shadow[m] = (cel_layout){cel_alloc_zero(bytes), *box};
  }
}

static void free_memories(void) {
  for (int m = 0; m < backend->memories; ++m) {
    uint64_t bytes = (uint64_t)volume(m) * sizeof(int32_t);
    backend->release(backend, m, real[m].base, bytes);
    cel_free(shadow[m].base);
  }
}

static cel_box random_part(const cel_box *core) {
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t a = cel_random_int(&chosen, core->min[d], core->max[d] - 1);
    int64_t b = cel_random_int(&chosen, core->min[d], core->max[d] - 1);
    bool whole = cel_random_chance(&chosen, 40);
    box.min[d] = whole ? core->min[d] : a < b ? a : b;
    box.max[d] = whole ? core->max[d] : (a < b ? b : a) + 1;
  }
  return box;
}

/* After the last job of every other lane. */
static void submit(cel_job *job, cel_after *after, int device, int lane) {
  job->ticket = ++tickets;
  job->after = after;
  for (int d = 0; d < backend->devices; ++d)
    for (int l = 0; l < backend->kernel_lanes + backend->copy_lanes; ++l)
      if (submitted[d][l] > 0 && !(d == device && l == lane))
        after[job->afters++] = (cel_after){d, l, submitted[d][l]};
  ++submitted[device][lane];
  backend->submit(backend, device, lane, job);
}

static void scale_shadow(const cel_layout *l, const cel_call *call, int f) {
  const cel_box *b = &call->chunk, *o = &l->box;
  int64_t e1 = o->max[1] - o->min[1], e2 = o->max[2] - o->min[2];
  int64_t r1 = call->range.max[1], r2 = call->range.max[2];
  for (int64_t i = b->min[0]; i < b->max[0]; ++i)
    for (int64_t j = b->min[1]; j < b->max[1]; ++j)
      for (int64_t k = b->min[2]; k < b->max[2]; ++k) {
        int32_t *p = (int32_t *)l->base +
                     ((i - o->min[0]) * e1 + j - o->min[1]) * e2 + k -
                     o->min[2];
        *p = (int32_t)((uint32_t)*p * (uint32_t)f +
                       (uint32_t)((i * r1 + j) * r2 + k));
      }
}

static cel_work *random_kernel(const cel_box *core, int n, int device) {
  int m = backend->device_memory[device];
  int32_t f = (int32_t)cel_random_int(&chosen, -9, 9);
  cel_work *work = cel_module_work(module, 0, &f, sizeof f);
  views[n] = (cel_view){
      .base = real[m].base, .layout = real[m].box, .box = real[m].box};
  jobs[n] = (cel_job){.kind = CEL_JOB_CALL, .work = work};
  jobs[n].call = (cel_call){
      .chunk = random_part(core),
      .range = cel_box_sized(core->max[0], core->max[1], core->max[2]),
      .ranks = 1,
      .views = 1,
      .view = &views[n],
      .values = work->values};
  scale_shadow(&shadow[m], &jobs[n].call, f);
  return work;
}

static void random_copy(const cel_box *core, int n) {
  int from = (int)cel_random_int(&chosen, 0, backend->memories - 1);
  int to = (int)cel_random_int(&chosen, 0, backend->memories - 1);
  if (from == to) to = (to + 1) % backend->memories;
  jobs[n] = (cel_job){.kind = CEL_JOB_COPY,
                      .element_size = sizeof(int32_t),
                      .from = real[from],
                      .to = real[to],
                      .from_memory = from,
                      .to_memory = to,
                      .box = random_part(core)};
  cel_copy_box(&shadow[from], &shadow[to], &jobs[n].box, sizeof(int32_t));
}

static bool compare(void) {
  for (int m = 0; m < backend->memories; ++m) {
    size_t bytes = (size_t)volume(m) * sizeof(int32_t);
    void *copy = cel_alloc(bytes);
    cuda->api->cuCtxSetCurrent(cuda->device[0].context);
    cuda->api->cuMemcpyDtoH_v2(copy, (uintptr_t)real[m].base, bytes);
    bool same = memcmp(copy, shadow[m].base, bytes) == 0;
    cel_free(copy);
    if (same) continue;
    printf("memory %d differs\n", m);
    return false;
  }
  return true;
}

static bool run_case(uint64_t seed) {
  static const cel_box sizes[] = {
      {{0, 0, 0}, {1, 1, 1000003}}, {{0, 0, 0}, {1000, 1031, 1}},
      {{0, 0, 0}, {1, 1100, 1000}}, {{0, 0, 0}, {60, 70, 250}},
      {{0, 0, 0}, {300, 1, 4000}},  {{0, 0, 0}, {5, 6, 7}}};
  cel_work *works[JOBS];
  chosen.state = seed;
  const cel_box *core = &sizes[seed % (sizeof sizes / sizeof *sizes)];
  make_memories(core);
  cuda->api->cuCtxSetCurrent(cuda->device[0].context);
  for (int m = 0; m < backend->memories; ++m)
    cuda->api->cuMemcpyHtoD_v2((uintptr_t)real[m].base, shadow[m].base,
                               (size_t)volume(m) * sizeof(int32_t));
  cuda->api->cuCtxSynchronize();
  int n = (int)cel_random_int(&chosen, 1, JOBS);
  for (int i = 0; i < n; ++i) {
    int device = (int)cel_random_int(&chosen, 0, backend->devices - 1);
    bool call = cel_random_chance(&chosen, 50);
    works[i] = NULL;
    if (call)
      works[i] = random_kernel(core, i, device);
    else
      random_copy(core, i);
    int first = call ? 0 : backend->kernel_lanes;
    int lanes = call ? backend->kernel_lanes : backend->copy_lanes;
    submit(&jobs[i], afters[i], device,
           first + (int)cel_random_int(&chosen, 0, lanes - 1));
  }
  finish();
  bool same = compare();
  for (int i = 0; i < n; ++i)
    if (works[i] != NULL) cel_work_release(works[i]);
  free_memories();
  if (!same) printf("seed %llu\n", (unsigned long long)seed);
  return same;
}

/* ---- speed ----------------------------------------------------------------
 */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void speed(void) {
  enum { LAUNCHES = 20000 };
  cel_work *work = cel_module_work(module, 1, NULL, 0);
  static cel_job job[256];
  for (int lanes = 1; lanes <= 2; ++lanes) {
    double begin = now();
    for (int i = 0; i < LAUNCHES; ++i) {
      cel_job *at = &job[i % 256];
      while (tickets - finished >= 200) poll_some();
      *at = (cel_job){.kind = CEL_JOB_CALL, .work = work};
      at->call.chunk = at->call.range = cel_box_sized(1, 1, 1);
      if (lanes == 2) {
        submit(at, afters[i % 256], 0, i % 2);
      } else {
        at->ticket = ++tickets;
        ++submitted[0][0];
        backend->submit(backend, 0, 0, at);
      }
    }
    finish();
    printf("%.2f us per empty kernel, in turns on %d lanes\n",
           (now() - begin) / LAUNCHES * 1e6, lanes);
  }
  double begin = now();
  for (int i = 0; i < 1000; ++i) {
    job[0] = (cel_job){.kind = CEL_JOB_CALL, .work = work};
    job[0].call.chunk = job[0].call.range = cel_box_sized(1, 1, 1);
    job[0].ticket = ++tickets;
    ++submitted[0][0];
    backend->submit(backend, 0, 0, &job[0]);
    finish();
  }
  printf("%.2f us from submit to poll\n", (now() - begin) * 1e3);
  cel_work_release(work);
}

int main(int argc, char **argv) {
  double begin = now();
  open_all();
  printf("%d GPUs, open in %.0f ms\n", backend->devices, (now() - begin) * 1e3);
  const char *mode = argc > 1 ? argv[1] : "jobs";
  if (strcmp(mode, "speed") == 0) {
    speed();
  } else {
    int count = argc > 2 ? atoi(argv[2]) : 20, wrong = 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    for (int i = 0; i < count; ++i) wrong += !run_case(seed + (uint64_t)i);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    if (wrong > 0) return 1;
  }
  backend->destroy(backend);
  cel_module_destroy(module);
  cel_cuda_close(cuda);
  return 0;
}
