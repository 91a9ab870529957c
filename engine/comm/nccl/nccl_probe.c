/* Whether NCCL does what it is to do: a few bytes of each member to all, from
 * each to each, and numbers of all added up. After that all are connected that
 * exchange anything later: NCCL connects two when they first do, for which
 * either waits until the other is put, and that must not be in a put. */
#include <sched.h>
#include <string.h>

#include "comm/nccl/nccl_state.h"
#include "device/clock.h"
#include "device/cuda/cuda_copy.h"

enum { PROBE_BYTES = 64 }; /* of each member */

typedef struct probe {
  cel__nccl *n;
  CUstream stream[CEL_DEVICES];
  CUevent event[CEL_DEVICES];
  unsigned char *bytes; /* all that a device has then, see layout_of */
} probe;

/* In the staging memory: what all have gathered; what each member has sent; the
 * sum. */
typedef struct layout {
  uint64_t gathered, sent, sum, end;
} layout;

static layout layout_of(const cel__nccl *n) {
  uint64_t all = (uint64_t)n->members * PROBE_BYTES;
  uint64_t sent = n->base.collectives.limits.pairs ? all : 0;
  return (layout){0, all, all + sent, all + sent + sizeof(int64_t)};
}

static int64_t member_of(const cel__nccl *n, int32_t device) {
  return n->base.rank * n->devices + device;
}

static unsigned char probe_byte(int64_t member, int64_t i) {
  return (unsigned char)(member * 37 + i * 11 + 5);
}

static void *pointer(CUdeviceptr at) {
  return (void *)(uintptr_t)at; // NOLINT: the driver's addresses
}

static CUresult write_probe(const cel__nccl *n, int32_t d) {
  const cel_cuda_api *api = n->cuda->api;
  int64_t me = member_of(n, d), number = me + 1;
  CUdeviceptr at = n->device[d].staging;
  unsigned char mine[PROBE_BYTES];
  for (int64_t i = 0; i < PROBE_BYTES; ++i) mine[i] = probe_byte(me, i);
  CUresult code =
      cel_cuda_write(api, at + (uint64_t)me * PROBE_BYTES, mine, sizeof mine);
  return code == CUDA_SUCCESS ? cel_cuda_write(api, at + layout_of(n).sum,
                                               &number, sizeof number)
                              : code;
}

static CUresult begin(probe *p, int32_t d) {
  const cel_cuda_api *api = p->n->cuda->api;
  api->cuCtxSetCurrent(p->n->cuda->device[d].context);
  CUresult code =
      api->cuStreamCreateWithPriority(&p->stream[d], CU_STREAM_NON_BLOCKING, 0);
  if (code == CUDA_SUCCESS)
    code = api->cuEventCreate(&p->event[d], CU_EVENT_DISABLE_TIMING);
  return code == CUDA_SUCCESS ? write_probe(p->n, d) : code;
}

/* ---- NCCL's calls -------------------------------------------------------- */

/* The first that is neither done nor in progress. */
static void note(ncclResult_t *first, ncclResult_t code) {
  if (*first == ncclSuccess && code != ncclInProgress) *first = code;
}

static ncclResult_t call(const probe *p, int32_t d) {
  const cel__nccl *n = p->n;
  ncclComm_t comm = n->device[d].comm;
  layout at = layout_of(n);
  int64_t me = member_of(n, d);
  CUdeviceptr base = n->device[d].staging;
  void *mine = pointer(base + (uint64_t)me * PROBE_BYTES);
  void *sum = pointer(base + at.sum);
  ncclResult_t code = ncclSuccess;
  note(&code, n->api->ncclAllGather(mine, pointer(base), PROBE_BYTES, ncclInt8,
                                    comm, p->stream[d]));
  for (int m = 0; m < n->members && at.sum > at.sent; ++m) {
    void *to = pointer(base + at.sent + (uint64_t)m * PROBE_BYTES);
    if (m == me) continue;
    note(&code,
         n->api->ncclSend(mine, PROBE_BYTES, ncclInt8, m, comm, p->stream[d]));
    note(&code,
         n->api->ncclRecv(to, PROBE_BYTES, ncclInt8, m, comm, p->stream[d]));
  }
  note(&code, n->api->ncclAllReduce(sum, sum, 1, ncclInt64, ncclSum, comm,
                                    p->stream[d]));
  return code;
}

static cel_status call_all(const probe *p) {
  cel__nccl *n = p->n;
  int64_t deadline = cel__nccl_deadline();
  ncclResult_t code = n->api->ncclGroupStart();
  for (int32_t d = 0; d < n->devices && code == ncclSuccess; ++d) {
    n->cuda->api->cuCtxSetCurrent(n->cuda->device[d].context);
    code = call(p, d);
  }
  ncclResult_t ended = n->api->ncclGroupEnd();
  if (code == ncclSuccess) code = ended;
  for (int32_t d = 0; d < n->devices; ++d)
    CEL_TRY(cel__nccl_await(n, d, "trying it out", code, deadline));
  return CEL_E_OK;
}

/* ---- what has come of it ------------------------------------------------- */

static CUresult wait_for(const probe *p, int32_t d, int64_t deadline) {
  const cel_cuda_api *api = p->n->cuda->api;
  CUresult code = api->cuEventRecord(p->event[d], p->stream[d]);
  while (code == CUDA_SUCCESS) {
    code = api->cuEventQuery(p->event[d]);
    if (code != CUDA_ERROR_NOT_READY) break;
    if (cel_now_ns() > deadline) break;
    code = CUDA_SUCCESS;
    sched_yield();
  }
  return code;
}

static cel_status check(const probe *p, int32_t d) {
  const cel__nccl *n = p->n;
  layout at = layout_of(n);
  int64_t me = member_of(n, d), sum;
  for (int64_t m = 0; m < n->members; ++m)
    for (int64_t i = 0; i < PROBE_BYTES; ++i) {
      uint64_t k = (uint64_t)(m * PROBE_BYTES + i);
      bool sent = at.sum > at.sent && m != me;
      if (p->bytes[k] != probe_byte(m, i) ||
          (sent && p->bytes[at.sent + k] != probe_byte(m, i)))
        return cel_fail(CEL_E_MISSING, "NCCL brings it other bytes");
    }
  memcpy(&sum, p->bytes + at.sum, sizeof sum);
  if (sum != n->members * (n->members + 1) / 2)
    return cel_fail(CEL_E_MISSING, "NCCL adds up to another number");
  return CEL_E_OK;
}

static cel_status end(const probe *p, int32_t d, int64_t deadline) {
  const cel__nccl *n = p->n;
  const cel_cuda_api *api = n->cuda->api;
  api->cuCtxSetCurrent(n->cuda->device[d].context);
  CUresult code = wait_for(p, d, deadline);
  if (code == CUDA_ERROR_NOT_READY)
    return cel_fail(CEL_E_MISSING, "NCCL takes too long to try out");
  if (code == CUDA_SUCCESS)
    code =
        api->cuMemcpyDtoH_v2(p->bytes, n->device[d].staging, layout_of(n).end);
  if (code != CUDA_SUCCESS)
    return cel_fail(CEL_E_MISSING, "GPU %d failed while trying NCCL out: %s",
                    n->cuda->device[d].ordinal, cel_cuda_api_text(api, code));
  return check(p, d);
}

/* ---- all of it ----------------------------------------------------------- */

static cel_status run(probe *p) {
  cel__nccl *n = p->n;
  for (int32_t d = 0; d < n->devices; ++d) {
    CUresult code = begin(p, d);
    if (code != CUDA_SUCCESS)
      return cel_fail(CEL_E_MISSING, "GPU %d has no stream: %s",
                      n->cuda->device[d].ordinal,
                      cel_cuda_api_text(n->cuda->api, code));
  }
  CEL_TRY(call_all(p));
  int64_t deadline = cel__nccl_deadline();
  for (int32_t d = 0; d < n->devices; ++d) CEL_TRY(end(p, d, deadline));
  return CEL_E_OK;
}

cel_status cel__nccl_probe(cel__nccl *n) {
  probe p = {.n = n};
  uint64_t all = layout_of(n).end;
  if (all > n->staging_bytes)
    return cel_fail(CEL_E_MISSING, "there are %lld GPUs",
                    (long long)n->members);
  p.bytes = cel_alloc(all);
  cel_status status = run(&p);
  if (status != CEL_E_OK) cel__nccl_abort(n); /* streams may wait for others */
  const cel_cuda_api *api = n->cuda->api;
  for (int32_t d = 0; d < n->devices; ++d) {
    api->cuCtxSetCurrent(n->cuda->device[d].context);
    if (p.stream[d] != NULL) api->cuStreamDestroy_v2(p.stream[d]);
    if (p.event[d] != NULL) api->cuEventDestroy_v2(p.event[d]);
  }
  cel_free(p.bytes);
  return status;
}
