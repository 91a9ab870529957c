/* A device's part of a collective, put on its stream. */
#include "comm/members.h"
#include "comm/nccl_state.h"
#include "comm/strided.h"
#include "device/cuda_copy.h"

enum { ALIGN = 256 };

/* Where NCCL finds the parts, by member: in the device's memory, or packed. */
typedef struct putting {
  cel__nccl *n;
  const cel_device_joint *joint;
  int64_t me;
  CUstream stream;
  bool ordered; /* the parts lie one behind the other, by member */
  CUdeviceptr *at;
} putting;

static ncclComm_t comm_of(const putting *p) {
  return p->n->device[p->joint->device].comm;
}

static void *pointer(CUdeviceptr at) {
  return (void *)(uintptr_t)at; // NOLINT: the driver's addresses
}

/* Whether the part goes from one member to another. */
static bool travels(const putting *p, int64_t member) {
  return member != p->joint->root ||
         !cel_pattern_is_by_parts(p->joint->pattern);
}

static bool gives(const putting *p, int64_t member) {
  return travels(p, member) && cel__member_gives(p->joint, p->me, member);
}

static bool gets(const putting *p, int64_t member) {
  return travels(p, member) && cel__member_gets(p->joint, p->me, member);
}

static bool concerns(const putting *p, int64_t member) {
  return gives(p, member) || gets(p, member);
}

static uint64_t bytes_of(const putting *p, int64_t member) {
  return cel__strided_bytes(cel__member_at(p->joint, member), 1);
}

static bool is_dense(const cel_strided *piece) {
  return piece->count[0] * piece->count[1] <= 1;
}

/* ---- where --------------------------------------------------------------- */

/* Whether all parts are there, as NCCL's all-gather wants them. */
static bool is_in_order(const putting *p) {
  uint64_t bytes = bytes_of(p, 0);
  const char *first = cel__member_at(p->joint, 0)->base;
  for (int64_t m = 0; m < p->n->members; ++m) {
    const cel_strided *piece = cel__member_at(p->joint, m);
    if (!is_dense(piece) || piece->base != first + (uint64_t)m * bytes)
      return false;
  }
  return true;
}

/* What has gaps goes to the staging memory; all of it, one behind the other, if
 * it is to be ordered and is not. */
static cel_status find_places(putting *p) {
  const cel__nccl_device *device = &p->n->device[p->joint->device];
  uint64_t used = 0;
  bool all = p->ordered && !is_in_order(p);
  for (int64_t m = 0; m < p->n->members; ++m) {
    const cel_strided *piece = cel__member_at(p->joint, m);
    p->at[m] = (uintptr_t)piece->base;
    if (!concerns(p, m) || (is_dense(piece) && !all)) continue;
    p->at[m] = device->staging + used;
    used += bytes_of(p, m);
    if (!all) used = (used + ALIGN - 1) / ALIGN * ALIGN;
  }
  if (used <= p->n->staging_bytes) return CEL_E_OK;
  return cel_fail(
      CEL_E_COMM, "a collective takes %llu bytes to pack, and there are %llu",
      (unsigned long long)used, (unsigned long long)p->n->staging_bytes);
}

/* ---- copies -------------------------------------------------------------- */

static CUresult copy(const putting *p, int64_t member, bool out) {
  const cel_strided *piece = cel__member_at(p->joint, member);
  uint64_t planes = piece->count[0], rows = piece->count[1], run = piece->run;
  cel_cuda_end far = {(uintptr_t)piece->base, rows > 1 ? piece->stride[1] : run,
                      piece->stride[0]};
  if (planes == 1) far.plane = far.row * rows;
  cel_cuda_end near = {p->at[member], run, run * rows};
  return cel_cuda_copy(p->n->cuda, p->joint->device, out ? far : near,
                       out ? near : far, run, planes, rows, p->stream);
}

/* Between the device's memory and the staging memory. */
static cel_status copy_all(const putting *p, bool out) {
  CUresult code = CUDA_SUCCESS;
  for (int64_t m = 0; m < p->n->members && code == CUDA_SUCCESS; ++m) {
    bool moves = out ? gives(p, m) : gets(p, m);
    if (moves && p->at[m] != (uintptr_t)cel__member_at(p->joint, m)->base)
      code = copy(p, m, out);
  }
  if (code == CUDA_SUCCESS) return CEL_E_OK;
  const cel_cuda *cuda = p->n->cuda;
  return cel_fail(cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_COMM,
                  "GPU %d failed while packing a collective: %s",
                  cuda->device[p->joint->device].ordinal,
                  cel_cuda_api_text(cuda->api, code));
}

/* ---- NCCL's calls -------------------------------------------------------- */

/* Within a group nothing is waited for. */
static ncclResult_t begun(ncclResult_t code) {
  return code == ncclInProgress ? ncclSuccess : code;
}

static ncclResult_t all_gather(const putting *p) {
  return p->n->api->ncclAllGather(pointer(p->at[p->me]), pointer(p->at[0]),
                                  bytes_of(p, 0), ncclInt8, comm_of(p),
                                  p->stream);
}

/* Of each part, by who gives it. */
static ncclResult_t broadcast_parts(const putting *p) {
  ncclResult_t code = ncclSuccess;
  for (int64_t m = 0; m < p->n->members && code == ncclSuccess; ++m) {
    if (!concerns(p, m)) continue;
    code = begun(p->n->api->ncclBroadcast(pointer(p->at[m]), pointer(p->at[m]),
                                          bytes_of(p, m), ncclInt8, (int)m,
                                          comm_of(p), p->stream));
  }
  return code;
}

/* From the root, or to it; the other end of a part is the member whose it is.
 */
static ncclResult_t send_parts(const putting *p) {
  ncclResult_t code = ncclSuccess;
  for (int64_t m = 0; m < p->n->members && code == ncclSuccess; ++m) {
    int64_t other = p->me == p->joint->root ? m : p->joint->root;
    if (!concerns(p, m)) continue;
    if (gives(p, m))
      code =
          begun(p->n->api->ncclSend(pointer(p->at[m]), bytes_of(p, m), ncclInt8,
                                    (int)other, comm_of(p), p->stream));
    else
      code =
          begun(p->n->api->ncclRecv(pointer(p->at[m]), bytes_of(p, m), ncclInt8,
                                    (int)other, comm_of(p), p->stream));
  }
  return code;
}

static ncclResult_t call(const putting *p) {
  if (p->ordered) return all_gather(p);
  bool all = p->joint->pattern == CEL_PATTERN_BROADCAST ||
             p->joint->pattern == CEL_PATTERN_ALL_GATHER;
  return all ? broadcast_parts(p) : send_parts(p);
}

static cel_status call_all(putting *p) {
  const cel_nccl_api *api = p->n->api;
  ncclResult_t code = api->ncclGroupStart();
  if (code == ncclSuccess) code = begun(call(p));
  ncclResult_t ended = api->ncclGroupEnd();
  if (code == ncclSuccess) code = ended;
  return cel__nccl_await(p->n, p->joint->device,
                         cel_pattern_name(p->joint->pattern), code, 0);
}

/* ---- all of it ----------------------------------------------------------- */

static cel_status carry_out(putting *p) {
  CEL_TRY(find_places(p));
  CEL_TRY(copy_all(p, true));
  CEL_TRY(call_all(p));
  return copy_all(p, false);
}

cel_status cel__nccl_put(void *context, void *stream) {
  const cel__nccl_end *end = context;
  cel__nccl *n = end->nccl;
  const cel_device_joint *joint = end->joint;
  putting p = {.n = n,
               .joint = joint,
               .me = n->around.base.rank * n->devices + joint->device,
               .stream = stream,
               .ordered =
                   joint->pattern == CEL_PATTERN_ALL_GATHER && joint->even};
  cel_status status;
  atomic_fetch_add(&n->putting, 1);
  if (atomic_load(&n->halted)) {
    status = cel_fail(CEL_E_CANCELLED, "others do not go on");
  } else {
    p.at = cel_alloc((size_t)n->members * sizeof *p.at);
    status = carry_out(&p);
    cel_free(p.at);
  }
  atomic_fetch_sub(&n->putting, 1);
  return status;
}
