#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl/nccl_state.h"
#include "device/clock.h"
#include "tuning.h"

enum {
  WHY = 160,
  PATIENCE_S = 60 /* for a peer that failed and cannot say so yet */
};

/* What a rank tells all. */
typedef struct hello {
  char why[WHY]; /* it cannot take part; empty: it can */
  int version;
  int32_t devices;
  uint64_t memory;           /* of the smallest */
  bool near;                 /* messages with all others go from GPU to GPU */
  ncclUniqueId id;           /* rank 0's */
  uint64_t gpu[CEL_DEVICES]; /* which it is */
} hello;

int64_t cel__nccl_deadline(void) {
  return cel_now_ns() + (int64_t)PATIENCE_S * 1000000000;
}

/* ---- what we have -------------------------------------------------------- */

static cel_status describe_gpus(const cel_nccl_config *config, hello *mine) {
  const cel_cuda *cuda = config->cuda;
  if (cuda == NULL) return cel_fail(CEL_E_MISSING, "it uses no GPU");
  mine->devices = cuda->devices;
  mine->memory = config->memory != 0 ? config->memory : UINT64_MAX;
  for (int32_t d = 0; d < cuda->devices; ++d) {
    const cel_cuda_device *device = &cuda->device[d];
    if (device->memory < mine->memory) mine->memory = device->memory;
    CEL_TRY(cel_nccl_identify(cuda, d, &mine->gpu[d]));
  }
  return CEL_E_OK;
}

static cel_status to_status(const cel__nccl *n, ncclResult_t code) {
  if (code == ncclSuccess) return CEL_E_OK;
  return cel_fail(CEL_E_MISSING, "NCCL: %s", n->api->ncclGetErrorString(code));
}

static cel_status describe(cel__nccl *n, const cel_nccl_config *config,
                           hello *mine) {
  char why[WHY];
  CEL_TRY(describe_gpus(config, mine));
  n->api =
      config->api != NULL ? config->api : cel_nccl_api_load(why, sizeof why);
  if (n->api == NULL) return cel_fail(CEL_E_MISSING, "%s", why);
  return to_status(n, n->api->ncclGetVersion(&mine->version));
}

/* By which all find each other. */
static cel_status make_id(const cel__nccl *n, hello *mine) {
  if (n->base.rank > 0) return CEL_E_OK;
  return to_status(n, n->api->ncclGetUniqueId(&mine->id));
}

/* ---- what all have ------------------------------------------------------- */

/* All ranks' words; false and why where one of them cannot. */
static cel_status hear(cel__nccl *n, hello *mine, cel_status status, hello *all,
                       bool *good, char *why, size_t size) {
  snprintf(mine->why, sizeof mine->why, "%.*s", WHY - 1,
           status == CEL_E_OK ? "" : cel_error_last()->text);
  CEL_TRY(cel__nccl_gather(n, mine, sizeof *mine, all));
  *good = true;
  for (int64_t k = 0; k < n->base.ranks && *good; ++k) {
    if (all[k].why[0] == '\0') continue;
    snprintf(why, size, "rank %lld: %s", (long long)k, all[k].why);
    *good = false;
  }
  return CEL_E_OK;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* NCCL takes a GPU once. */
static bool has_twin(const hello *all, int64_t ranks) {
  int32_t devices = all[0].devices;
  int64_t n = 0;
  uint64_t *gpu = cel_alloc((size_t)(ranks * devices) * sizeof *gpu);
  for (int64_t k = 0; k < ranks; ++k)
    for (int32_t d = 0; d < devices; ++d) gpu[n++] = all[k].gpu[d];
  qsort(gpu, (size_t)n, sizeof *gpu, by_number);
  bool twin = false;
  for (int64_t i = 1; i < n; ++i) twin |= gpu[i - 1] == gpu[i];
  cel_free(gpu);
  return twin;
}

/* Of what all have said; all ranks come to the same. */
static bool compare(const hello *all, int64_t ranks, char *why, size_t size) {
  char one[32], other[32];
  cel_nccl_version_text(all[0].version, one, sizeof one);
  for (int64_t k = 1; k < ranks; ++k) {
    cel_nccl_version_text(all[k].version, other, sizeof other);
    if (all[k].version != all[0].version)
      snprintf(why, size, "rank %lld has NCCL %s, and rank 0 %s", (long long)k,
               other, one);
    else if (all[k].devices != all[0].devices)
      snprintf(why, size, "rank %lld has %d GPUs, and rank 0 %d", (long long)k,
               all[k].devices, all[0].devices);
    else
      continue;
    return false;
  }
  if (!has_twin(all, ranks)) return true;
  snprintf(why, size, "ranks share a GPU");
  return false;
}

/* What all use: as much as the smallest GPU lets them. */
static void settle(cel__nccl *n, const hello *all) {
  static const uint64_t mib = 1 << 20;
  uint64_t memory = all[0].memory;
  bool near = all[0].near;
  for (int64_t k = 1; k < n->base.ranks; ++k) {
    if (all[k].memory < memory) memory = all[k].memory;
    near &= all[k].near;
  }
  n->devices = all[0].devices;
  n->members = n->base.ranks * n->devices;
  n->staging_bytes = (memory / CEL_TUNE_NCCL_SHARE_STAGING / mib + 1) * mib;
  n->base.collectives.limits = (cel_collective_limits){
      .devices = n->devices,
      .pairs = n->members <= CEL_TUNE_NCCL_PAIRS,
      .least = near ? CEL_TUNE_NCCL_LEAST_BYTES : 0,
      .least_parts = near ? CEL_TUNE_NCCL_LEAST_PARTS_BYTES : 0,
      .most = memory / CEL_TUNE_NCCL_SHARE_MOST,
      .packed_most = n->staging_bytes / 2};
}

/* ---- communicators ------------------------------------------------------- */

/* All devices at once, as each waits for all. */
static cel_status connect(cel__nccl *n, ncclUniqueId id) {
  ncclConfig config = CEL_NCCL_CONFIG;
  int first = (int)(n->base.rank * n->devices);
  int64_t deadline = cel__nccl_deadline();
  ncclResult_t code = n->api->ncclGroupStart();
  for (int32_t d = 0; d < n->devices && code == ncclSuccess; ++d) {
    n->cuda->api->cuCtxSetCurrent(n->cuda->device[d].context);
    code = n->api->ncclCommInitRankConfig(&n->device[d].comm, (int)n->members,
                                          id, first + d, &config);
    if (code == ncclInProgress) code = ncclSuccess;
  }
  ncclResult_t ended = n->api->ncclGroupEnd();
  if (code == ncclSuccess) code = ended;
  if (code == ncclSuccess) code = ncclInProgress; /* says each by itself */
  for (int32_t d = 0; d < n->devices; ++d)
    CEL_TRY(cel__nccl_await(n, d, "connecting", code, deadline));
  return CEL_E_OK;
}

/* Packing has it when nobody else has memory to give. */
static cel_status make_staging(cel__nccl *n) {
  const cel_cuda_api *api = n->cuda->api;
  for (int32_t d = 0; d < n->devices; ++d) {
    api->cuCtxSetCurrent(n->cuda->device[d].context);
    CUresult code = api->cuMemAlloc_v2(&n->device[d].staging, n->staging_bytes);
    if (code != CUDA_SUCCESS)
      return cel_fail(CEL_E_MISSING, "GPU %d has no %llu bytes left: %s",
                      n->cuda->device[d].ordinal,
                      (unsigned long long)n->staging_bytes,
                      cel_cuda_api_text(api, code));
  }
  return CEL_E_OK;
}

/* ---- agreement ----------------------------------------------------------- */

/* Both in steps that all ranks take, or none. */
static cel_status agree(cel__nccl *n, const cel_nccl_config *config, hello *all,
                        bool *good, char *why, size_t size) {
  const cel_transport *t = &n->base;
  hello mine = {.near = t->messages.nears == t->ranks - 1};
  CEL_TRY(hear(n, &mine, describe(n, config, &mine), all, good, why, size));
  if (*good) *good = compare(all, n->base.ranks, why, size);
  if (!*good) return CEL_E_OK;
  settle(n, all);
  return hear(n, &mine, make_staging(n), all, good, why, size);
}

static cel_status start(cel__nccl *n, hello *all, bool *good) {
  hello mine = {0};
  char *why = n->why;
  enum { SIZE = sizeof n->why };
  CEL_TRY(hear(n, &mine, make_id(n, &mine), all, good, why, SIZE));
  ncclUniqueId id = all[0].id;
  if (*good) CEL_TRY(hear(n, &mine, connect(n, id), all, good, why, SIZE));
  if (*good) CEL_TRY(hear(n, &mine, cel__nccl_probe(n), all, good, why, SIZE));
  if (!*good) cel__nccl_abort(n);
  return CEL_E_OK;
}

cel_status cel__nccl_start(cel__nccl *n, bool *good) {
  hello *all = cel_alloc_zero((size_t)n->base.ranks * sizeof *all);
  cel_status status = start(n, all, good);
  cel_free(all);
  return status;
}

cel_status cel_transport_nccl(cel_transport *inner,
                              const cel_nccl_config *config,
                              cel_transport **out, char *why, size_t size) {
  bool good = false;
  cel__nccl *n = cel_alloc_zero(sizeof *n);
  cel__nccl_init(n, inner);
  n->cuda = config->cuda;
  if (n->cuda != NULL)
    n->device = cel_alloc_zero((size_t)n->cuda->devices * sizeof *n->device);
  for (int32_t d = 0; n->cuda != NULL && d < n->cuda->devices; ++d)
    pthread_mutex_init(&n->device[d].lock, NULL);
  hello *all = cel_alloc_zero((size_t)inner->ranks * sizeof *all);
  cel_status status = agree(n, config, all, &good, why, size);
  cel_free(all);
  if (status == CEL_E_OK && good) {
    *out = &n->base;
    return CEL_E_OK;
  }
  cel__nccl_release(n);
  if (status == CEL_E_OK) *out = inner;
  return status;
}
