/* GPUs as devices: memory 1 + d is device d's, memory 0 pinned host memory. */

#include "base/confined.h"
#include "device/bands.h"
#include "device/cuda/cuda_fold.h"
#include "device/cuda/cuda_lane.h"
#include "device/cuda/cuda_memory.h"
#include "tuning.h"

typedef struct gpus {
  cel_backend face; /* first */
  cel_cuda *cuda;
  cel_cuda_memory memory[1 + CEL_DEVICES];
  cel_cuda_crew crew;
} gpus;

static cel_status reserve(cel_backend *b, int32_t memory, uint64_t bytes,
                          void **out) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_assert(memory >= 0 && memory < b->memories);
  return cel_cuda_memory_reserve(&((gpus *)b)->memory[memory], bytes, out);
}

static void release(cel_backend *b, int32_t memory, void *p, uint64_t bytes) {
  cel_assert_thread(CEL_THREAD_MAIN | CEL_THREAD_EXECUTOR);
  cel_cuda_memory_release(&((gpus *)b)->memory[memory], p, bytes);
}

static cel_status commit(cel_backend *b, int32_t memory, void *p,
                         uint64_t begin, uint64_t end) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  return cel_cuda_memory_commit(&((gpus *)b)->memory[memory], p, begin, end);
}

static void decommit(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                     uint64_t end) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_cuda_memory_decommit(&((gpus *)b)->memory[memory], p, begin, end);
}

static void submit(cel_backend *b, int32_t device, int32_t lane, cel_job *job) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_assert(device >= 0 && device < b->devices && lane >= 0 &&
             lane < CEL_CUDA_LANES);
  cel_cuda_crew_submit(&((gpus *)b)->crew, device, lane, job);
}

static uint64_t left(cel_backend *b, int32_t memory) {
  const cel_cuda_memory *m = &((gpus *)b)->memory[memory];
  uint64_t live = m->mapped - m->idle;
  return m->limit == 0 ? UINT64_MAX : live < m->limit ? m->limit - live : 0;
}

/* Of works that are C functions, what specs are to see of it. */
static cel_fold_manner folds(cel_backend *b, int32_t device,
                             cel_fold_job *fold) {
  if (!((gpus *)b)->crew.host_works) return cel__cuda_folds(device, fold);
  if (fold->steps > CEL_TUNE_FOLD_TILE_STEPS)
    fold->steps = CEL_TUNE_FOLD_TILE_STEPS;
  return cel__bands_suit(fold) && cel_fold_narrows(fold) ? CEL_FOLD_TO_SPARE
                                                         : CEL_FOLD_PLAIN;
}

static uint32_t poll(cel_backend *b, cel_done *out, uint32_t max) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_finished *finished = &((gpus *)b)->crew.finished;
  uint32_t n = 0;
  while (n < max) {
    cel_entry *entry = cel_finished_take(finished);
    if (entry == NULL) break;
    out[n++] = (cel_done){entry->job->ticket, entry->error};
    cel_finished_give(finished, entry);
  }
  return n;
}

static void time_jobs(cel_backend *b) {
  atomic_store(&((gpus *)b)->crew.timed, true);
}

static void destroy(cel_backend *b) {
  gpus *g = (gpus *)b;
  cel_cuda_crew_stop(&g->crew);
  g->cuda->lender = NULL;
  for (int32_t m = 0; m < b->memories; ++m)
    cel_cuda_memory_clear(&g->memory[m]);
  cel_free(g);
}

/* ---- how much there is --------------------------------------------------- */

/* What is free now, but for what modules and libraries will take, divided by
 * those who use it: ranks, and devices that are one GPU named twice. */
static uint64_t share_of(const cel_cuda *cuda, int32_t d, int32_t ranks) {
  static const uint64_t spare_most = 1ull << 30;
  size_t left = 0, all = 0;
  uint64_t users = 0;
  cuda->api->cuCtxSetCurrent(cuda->device[d].context);
  if (cuda->api->cuMemGetInfo_v2(&left, &all) != CUDA_SUCCESS) return 0;
  for (int32_t i = 0; i < cuda->devices; ++i)
    users += cuda->device[i].ordinal == cuda->device[d].ordinal;
  uint64_t share = left / (users * (uint64_t)(ranks > 0 ? ranks : 1));
  return share - (share / 16 < spare_most ? share / 16 : spare_most);
}

static void limit(gpus *g, const cel_backend_config *config, cel_cuda *cuda) {
  cel_backend *b = &g->face;
  uint64_t most = 0;
  bool virtual_memory = true;
  for (int32_t d = 0; d < cuda->devices; ++d) {
    uint64_t share = share_of(cuda, d, config->sharing);
    if (config->capacity != 0 && (share == 0 || config->capacity < share))
      share = config->capacity;
    b->capacity[1 + d] = share;
    if (share > most) most = share;
    virtual_memory &= g->memory[1 + d].virtual_memory;
  }
  b->whole = virtual_memory ? CEL_CUDA_SMALL : UINT64_MAX;
  b->block = cel__backend_block(most, CEL_CUDA_GRAIN);
  for (int32_t m = 1; m <= cuda->devices; ++m) {
    cel_cuda_memory_limit(&g->memory[m], b->capacity[m], b->block);
    b->capacity[m] = g->memory[m].limit;
  }
}

cel_status cel_backend_cuda(const cel_backend_config *config, cel_cuda *cuda,
                            cel_backend **out) {
  gpus *g = cel_alloc_zero(sizeof *g);
  g->face = (cel_backend){
      .name = "cuda",
      .devices = cuda->devices,
      .memories = 1 + cuda->devices,
      .kernel_lanes = CEL_CUDA_KERNEL_LANES,
      .urgent_lanes = CEL_CUDA_URGENT_LANES,
      .copy_lanes = CEL_CUDA_COPY_LANES,
      .collective_lanes = CEL_CUDA_COLLECTIVE_LANES,
      .waiting_lanes = CEL_CUDA_WAITING_LANES,
      .chains = true,
      .puts = true,
      .lua = true,
      .grain = CEL_CUDA_GRAIN,
      .reserve = reserve,
      .release = release,
      .commit = commit,
      .decommit = decommit,
      .spares = true,
      .left = left,
      .folds = folds,
      .submit = submit,
      .poll = poll,
      .time = time_jobs,
      .destroy = destroy,
  };
  g->cuda = cuda;
  cel_cuda_memory_init(&g->memory[0], cuda, -1, true);
  for (int32_t d = 0; d < cuda->devices; ++d) {
    g->face.device_memory[d] = 1 + d;
    cel_cuda_memory_init(&g->memory[1 + d], cuda, d, config->host_works);
  }
  limit(g, config, cuda);
  cel_status status = cel_cuda_crew_start(&g->crew, cuda, config);
  if (status != CEL_E_OK) {
    cel_free(g);
    return status;
  }
  if (g->memory[1].lent_most != 0) cuda->lender = &g->memory[1];
  *out = &g->face;
  return CEL_E_OK;
}
