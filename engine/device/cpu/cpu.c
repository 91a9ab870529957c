/* The processor as a device. All devices of a rank share its cores; each has
 * lanes of its own. Executor-confined but for the crews. */

#include "base/confined.h"
#include "device/backend.h"
#include "device/bands.h"
#include "device/clock.h"
#include "device/cpu/crew.h"
#include "device/cpu/usual.h"
#include "device/host_memory.h"
#include "tuning.h"

enum {
  KERNEL_LANES = 4,
  COPY_LANES = 2,
  LANES = KERNEL_LANES + COPY_LANES,
  PAGE = 4096
};

typedef struct cpu {
  cel_backend face; /* first */
  cel_pool pool;
  cel_finished finished;
  cel_crew *kernels, *copies;
  cel_lane lane[CEL_DEVICES * LANES];
  uint32_t outstanding[CEL_DEVICES * LANES]; /* submitted and not yet polled */
  cel__usual usual;
  cel_aside aside; /* polls carry out brief calls */
} cpu;

static cel_status reserve(cel_backend *b, int32_t memory, uint64_t bytes,
                          void **out) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_assert(memory >= 0 && memory < b->memories);
  (void)memory;
  return cel_pool_reserve(&((cpu *)b)->pool, bytes, out);
}

static void release(cel_backend *b, int32_t memory, void *p, uint64_t bytes) {
  cel_assert_thread(CEL_THREAD_MAIN | CEL_THREAD_EXECUTOR);
  (void)memory;
  cel_pool_release(&((cpu *)b)->pool, p, bytes);
}

/* Touching is committing; the grain is there to count what is touched. */
static cel_status commit(cel_backend *b, int32_t memory, void *p,
                         uint64_t begin, uint64_t end) {
  (void)b, (void)memory, (void)p, (void)begin, (void)end;
  return CEL_E_OK;
}

static void decommit(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                     uint64_t end) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  (void)b, (void)memory;
  cel__memory_vacate((char *)p + begin, end - begin);
}

static void submit(cel_backend *b, int32_t device, int32_t l, cel_job *job) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cpu *c = (cpu *)b;
  cel_assert(device >= 0 && device < b->devices && l >= 0 && l < LANES);
  int32_t index = device * LANES + l;
  cel_entry *entry = cel_finished_entry(&c->finished, job, index);
  bool idle = c->outstanding[index]++ == 0;
  /* An idle lane is nobody else's: all that it did has been polled. */
  if (idle && !c->lane[index].failed && job->kind == CEL_JOB_COPY &&
      cel_box_volume(&job->box) * job->element_size <= CEL_TUNE_INLINE_COPY) {
    if (c->copies->timed) job->begin = cel_now_ns();
    cel_job_run(job);
    if (c->copies->timed) job->end = cel_now_ns();
    cel_finished_push(&c->finished, entry);
    if (c->finished.park != NULL) cel_park_wake(c->finished.park);
    return;
  }
  entry->expected_ns = cel__usual_ns(&c->usual, job);
  cel_crew_submit(l < KERNEL_LANES ? c->kernels : c->copies, &c->lane[index],
                  entry);
}

/* In place, if each thread has something to do. */
static cel_fold_manner folds(cel_backend *b, int32_t device,
                             cel_fold_job *fold) {
  const cel_job job = {.kind = CEL_JOB_FOLD, .fold = fold};
  const int64_t threads = ((cpu *)b)->kernels->threads;
  cel__bands bands;
  (void)device;
  if (!cel__bands_suit(fold)) return CEL_FOLD_PLAIN;
  cel__bands_plan(&job, threads * CEL_TUNE_BAND_RUNS, &bands);
  return bands.runs >= threads ? CEL_FOLD_IN_PLACE : CEL_FOLD_PLAIN;
}

static void hush(cel_backend *b, int32_t device, int32_t l, cel_job *job,
                 bool quiet) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  (void)device;
  cpu *c = (cpu *)b;
  cel_crew_hush(l < KERNEL_LANES ? c->kernels : c->copies, job, quiet);
}

static uint32_t poll(cel_backend *b, cel_done *out, uint32_t max) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cpu *c = (cpu *)b;
  uint32_t n = 0;
  while (n < max) {
    cel_entry *entry = cel_finished_take(&c->finished);
    if (entry == NULL) {
      if (n > 0) break; /* what is done comes first: others wait for it */
      cel_step made = cel_crew_assist(c->kernels, &c->aside);
      if (made == CEL_STEP_GONE) return CEL_POLL_GONE;
      if (made == CEL_STEP_NOTHING) break;
      continue;
    }
    if (entry->took_ns > 0 && entry->error == NULL)
      cel__usual_learn(&c->usual, entry->job, entry->took_ns);
    out[n++] = (cel_done){entry->job->ticket, entry->error};
    --c->outstanding[entry->lane];
    cel_finished_give(&c->finished, entry);
  }
  return n;
}

static void check(cel_backend *b) {
  cpu *c = (cpu *)b;
  for (int32_t d = 0; d < b->devices; ++d) {
    const cel_lane *lane = &c->lane[(ptrdiff_t)d * LANES];
    cel_crew_check(c->kernels, lane, KERNEL_LANES);
    cel_crew_check(c->copies, lane + KERNEL_LANES, COPY_LANES);
  }
}

static void destroy(cel_backend *b) {
  cpu *c = (cpu *)b;
  if (c->kernels != NULL) cel_crew_destroy(c->kernels);
  if (c->copies != NULL) cel_crew_destroy(c->copies);
  for (int i = 0; i < CEL_DEVICES * LANES; ++i) cel_lane_release(&c->lane[i]);
  cel_finished_release(&c->finished);
  cel_pool_clear(&c->pool);
  cel_free(c);
}

static void limit(cel_backend *b, uint64_t capacity) {
  if (capacity == 0) return;
  b->grain = PAGE;
  b->whole = CEL_MEMORY_SMALL;
  b->block = cel__backend_block(capacity, PAGE);
  b->commit = commit;
  b->decommit = decommit;
  for (int32_t m = 1; m < b->memories; ++m) b->capacity[m] = capacity;
}

static cpu *make(const cel_backend_config *config) {
  cpu *c = cel_alloc_zero(sizeof *c);
  bool own = config->own_memory || config->devices > 1 || config->capacity != 0;
  c->finished.park = config->park;
  cel_aside_init(&c->aside);
  c->face = (cel_backend){
      .name = "cpu",
      .devices = config->devices,
      .memories = own ? 1 + config->devices : 1,
      .kernel_lanes = KERNEL_LANES,
      .copy_lanes = COPY_LANES,
      .holds = true,
      .aside = &c->aside,
      .reserve = reserve,
      .release = release,
      .submit = submit,
      .folds = folds,
      .hush = hush,
      .poll = poll,
      .check = check,
      .destroy = destroy,
  };
  for (int32_t d = 0; own && d < config->devices; ++d)
    c->face.device_memory[d] = 1 + d;
  limit(&c->face, config->capacity);
  return c;
}

cel_status cel_backend_cpu(const cel_backend_config *config,
                           cel_backend **out) {
  if (config->devices < 1 || config->devices > CEL_DEVICES)
    return cel_fail(CEL_E_RANGE, "1 to %d devices, not %d", CEL_DEVICES,
                    config->devices);
  cel_topology found;
  const cel_topology *topology = config->topology;
  if (topology == NULL && config->cores <= 0) {
    CEL_TRY(cel_topology_find(0, 1, &found));
    topology = &found;
  }
  int32_t cores = config->cores > 0 ? config->cores : topology->cores;
  cpu *c = make(config);
  cel_status status =
      cel_crew_create("kernel", cores, topology, &c->finished, &c->kernels);
  if (status == CEL_E_OK)
    status = cel_crew_create("copy",
                             cores >= 8   ? 4
                             : cores >= 4 ? 2
                                          : 1,
                             NULL, &c->finished, &c->copies);
  if (status != CEL_E_OK) {
    destroy(&c->face);
    return status;
  }
  c->kernels->timed = c->copies->timed = config->timed;
  c->kernels->folds_always = config->folds_always;
  *out = &c->face;
  return CEL_E_OK;
}
