/* A device's part of a collective, put on its stream. */
#include "comm/collectives.h"
#include "comm/nccl/nccl_state.h"
#include "comm/strided.h"
#include "device/cuda/cuda_copy.h"

enum { ALIGN = 256 };

/* What the device gives, or gets, and where NCCL finds it: in its memory, or
 * packed. */
typedef struct item {
  const cel_strided *piece;
  int peer; /* the other end, or, of what goes to all, whose it is */
  bool gives;
  bool copied; /* between its memory and the staging memory */
  CUdeviceptr at;
} item;

typedef struct putting {
  cel__nccl *n;
  const cel_device_collective *collective;
  int64_t me;
  CUstream stream;
  bool ordered; /* the parts lie one behind the other, by member */
  uint32_t items;
  item *item;
} putting;

static ncclComm_t comm_of(const putting *p) {
  return p->n->device[p->collective->device].comm;
}

static void *pointer(CUdeviceptr at) {
  return (void *)(uintptr_t)at; // NOLINT: the driver's addresses
}

static uint64_t bytes_of(const item *it) {
  return cel__strided_bytes(it->piece, 1);
}

/* ---- what ---------------------------------------------------------------- */

static void add(putting *p, const cel_strided *piece, int64_t member,
                bool gives) {
  bool by_parts = cel_pattern_is_by_parts(p->collective->pattern);
  int64_t peer =
      by_parts && p->me != p->collective->root ? p->collective->root : member;
  if (piece == NULL) return;
  p->item[p->items++] = (item){.piece = piece,
                               .peer = (int)peer,
                               .gives = gives,
                               .at = (uintptr_t)piece->base};
}

/* The root's own part stays where it is. Of an all-reduce there is one. */
static void list_items(putting *p) {
  bool by_parts = cel_pattern_is_by_parts(p->collective->pattern);
  if (p->collective->pattern == CEL_PATTERN_ALL_REDUCE) {
    add(p, &p->collective->piece[0], p->me, true);
    return;
  }
  for (int64_t m = 0; m < p->n->members; ++m) {
    if (by_parts && m == p->collective->root) continue;
    add(p, cel__member_gives(p->collective, p->me, m), m, true);
    add(p, cel__member_gets(p->collective, p->me, m), m, false);
  }
}

/* ---- where --------------------------------------------------------------- */

static bool is_dense(const cel_strided *piece) {
  return piece->count[0] * piece->count[1] <= 1;
}

static bool is_same(const cel_strided *a, const cel_strided *b) {
  return a->base == b->base && a->run == b->run && a->count[0] == b->count[0] &&
         a->count[1] == b->count[1] && a->stride[0] == b->stride[0] &&
         a->stride[1] == b->stride[1];
}

/* Whether all parts are there, as NCCL's all-gather wants them. */
static bool is_in_order(const putting *p) {
  uint64_t bytes = bytes_of(&p->item[0]);
  for (uint32_t i = 0; i < p->items; ++i) {
    const item *it = &p->item[i];
    if (!is_dense(it->piece) || it->at != p->item[0].at + i * bytes)
      return false;
  }
  return true;
}

/* What has gaps goes to the staging memory, once if several get the same; all
 * of it, one behind the other, if it is to be ordered and is not. */
static cel_status find_places(putting *p) {
  const cel__nccl_device *device = &p->n->device[p->collective->device];
  const item *last = NULL;
  uint64_t used = 0;
  bool all = p->ordered && !is_in_order(p);
  for (uint32_t i = 0; i < p->items; ++i) {
    item *it = &p->item[i];
    if (is_dense(it->piece) && !all) continue;
    if (last != NULL && it->gives && is_same(last->piece, it->piece)) {
      it->at = last->at;
      continue;
    }
    it->at = device->staging + used;
    it->copied = true;
    used += bytes_of(it);
    if (!all) used = (used + ALIGN - 1) / ALIGN * ALIGN;
    if (it->gives) last = it;
  }
  if (used <= p->n->staging_bytes) return CEL_E_OK;
  return cel_fail(
      CEL_E_COMM, "a collective takes %llu bytes to pack, and there are %llu",
      (unsigned long long)used, (unsigned long long)p->n->staging_bytes);
}

/* ---- copies -------------------------------------------------------------- */

static CUresult copy(const putting *p, const item *it) {
  const cel_strided *piece = it->piece;
  uint64_t planes = piece->count[0], rows = piece->count[1], run = piece->run;
  cel_cuda_end far = {.at = (uintptr_t)piece->base,
                      .row = rows > 1 ? piece->stride[1] : run,
                      .plane = piece->stride[0]};
  if (planes == 1) far.plane = far.row * rows;
  cel_cuda_end near = {.at = it->at, .row = run, .plane = run * rows};
  return cel_cuda_copy(p->n->cuda, p->collective->device,
                       it->gives ? far : near, it->gives ? near : far, run,
                       planes, rows, p->stream);
}

/* Between the device's memory and the staging memory; also zeroes what the
 * others' numbers are to be added to. */
static cel_status copy_all(const putting *p, bool out) {
  CUresult code = CUDA_SUCCESS;
  if (p->collective->pattern == CEL_PATTERN_ALL_REDUCE && p->collective->zero &&
      out)
    code = p->n->cuda->api->cuMemsetD8Async(p->item[0].at, 0,
                                            p->collective->bytes, p->stream);
  for (uint32_t i = 0; i < p->items && code == CUDA_SUCCESS; ++i)
    if (p->item[i].copied && p->item[i].gives == out)
      code = copy(p, &p->item[i]);
  if (code == CUDA_SUCCESS) return CEL_E_OK;
  const cel_cuda *cuda = p->n->cuda;
  return cel_fail(cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_COMM,
                  "GPU %d failed while packing a collective: %s",
                  cuda->device[p->collective->device].ordinal,
                  cel_cuda_api_text(cuda->api, code));
}

/* ---- NCCL's calls -------------------------------------------------------- */

/* Within a group nothing is waited for. */
static ncclResult_t begun(ncclResult_t code) {
  return code == ncclInProgress ? ncclSuccess : code;
}

static ncclResult_t all_gather(const putting *p) {
  return p->n->api->ncclAllGather(pointer(p->item[p->me].at),
                                  pointer(p->item[0].at), bytes_of(p->item),
                                  ncclInt8, comm_of(p), p->stream);
}

static ncclDataType_t type_of(const cel_operator *by) {
  bool is_signed = by->class_ == 'i';
  switch (by->size) {
  case 1: return is_signed ? ncclInt8 : ncclUint8;
  case 4: return is_signed ? ncclInt32 : ncclUint32;
  case 8: return is_signed ? ncclInt64 : ncclUint64;
  default: cel_bug("numbers of %u bytes", by->size);
  }
}

/* Truth values are 0 and 1. */
static ncclRedOp_t op_of(const cel_operator *by) {
  switch (by->op) {
  case CEL_OP_SUM: return ncclSum;
  case CEL_OP_MIN:
  case CEL_OP_AND: return ncclMin;
  case CEL_OP_MAX:
  case CEL_OP_OR: return ncclMax;
  default: cel_bug("GPUs do not combine by %s", cel_op_name(by->op));
  }
}

static ncclResult_t all_reduce(const putting *p) {
  const cel_operator *by = &p->collective->by;
  void *at = pointer(p->item[0].at);
  cel_assert(is_dense(p->item[0].piece));
  return p->n->api->ncclAllReduce(at, at, p->collective->bytes / by->size,
                                  type_of(by), op_of(by), comm_of(p),
                                  p->stream);
}

/* To all, by whose it is; or to or from another member. */
static ncclResult_t call_for(const putting *p, const item *it) {
  const cel_nccl_api *api = p->n->api;
  cel_pattern pattern = p->collective->pattern;
  void *at = pointer(it->at);
  uint64_t bytes = bytes_of(it);
  ncclComm_t comm = comm_of(p);
  if (pattern == CEL_PATTERN_BROADCAST || pattern == CEL_PATTERN_ALL_GATHER)
    return api->ncclBroadcast(at, at, bytes, ncclInt8, it->peer, comm,
                              p->stream);
  return it->gives
             ? api->ncclSend(at, bytes, ncclInt8, it->peer, comm, p->stream)
             : api->ncclRecv(at, bytes, ncclInt8, it->peer, comm, p->stream);
}

static ncclResult_t call(const putting *p) {
  if (p->ordered) return all_gather(p);
  if (p->collective->pattern == CEL_PATTERN_ALL_REDUCE) return all_reduce(p);
  ncclResult_t code = ncclSuccess;
  for (uint32_t i = 0; i < p->items && code == ncclSuccess; ++i)
    code = begun(call_for(p, &p->item[i]));
  return code;
}

static cel_status call_all(putting *p) {
  const cel_nccl_api *api = p->n->api;
  cel__nccl_device *device = &p->n->device[p->collective->device];
  pthread_mutex_lock(&device->lock);
  ncclResult_t code = api->ncclGroupStart();
  if (code == ncclSuccess) code = begun(call(p));
  ncclResult_t ended = api->ncclGroupEnd();
  if (code == ncclSuccess) code = ended;
  cel_status status =
      cel__nccl_await(p->n, p->collective->device,
                      cel_pattern_name(p->collective->pattern), code, 0);
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* ---- all of it ----------------------------------------------------------- */

static cel_status carry_out(putting *p) {
  list_items(p);
  if (p->items == 0) return CEL_E_OK;
  CEL_TRY(find_places(p));
  CEL_TRY(copy_all(p, true));
  CEL_TRY(call_all(p));
  return copy_all(p, false);
}

cel_status cel__nccl_put(void *context, void *stream) {
  const cel__nccl_end *end = context;
  cel__nccl *n = end->nccl;
  const cel_device_collective *collective = end->collective;
  putting p = {.n = n,
               .collective = collective,
               .me = n->base.rank * n->devices + collective->device,
               .stream = stream,
               .ordered = collective->pattern == CEL_PATTERN_ALL_GATHER &&
                          collective->even};
  cel_status status;
  atomic_fetch_add(&n->putting, 1);
  if (atomic_load(&n->halted)) {
    status = cel_fail(CEL_E_CANCELLED, "others do not go on");
  } else {
    p.item = cel_alloc(2 * (size_t)n->members * sizeof *p.item);
    status = carry_out(&p);
    cel_free(p.item);
  }
  atomic_fetch_sub(&n->putting, 1);
  return status;
}
