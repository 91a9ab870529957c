#include "comm/mpi_gpu.h"

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "comm/strided.h"
#include "comm/wrapper.h"
#include "device/cuda/cuda_copy.h"

enum {
  DIRECT_BYTES = 32 << 10, /* below, the way through the host is as short */
  PROBE_BYTES = 64,
  WHY = 160
};

/* Staging memory of the GPU; kept, as giving it back would stop the GPU. */
typedef struct block {
  CUdeviceptr at;
  uint64_t bytes;
} block;

typedef struct transfer {
  const cel_posted *message;
  cel_posted dense; /* what the second transport is given; its ticket is us */
  cel_strided piece;
  block staging; /* bytes 0: none, it lies side by side */
  bool sending;
} transfer;

typedef struct gpu_link {
  cel_around around; /* first */
  cel_transport *second;
  const cel_cuda *cuda;
  CUstream stream;
  int64_t *near;
  CEL_VEC(block) blocks;  /* not in use */
  CEL_VEC(cel_done) done; /* that were not begun */
} gpu_link;

bool cel_mpi_takes_gpus(void) {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

/* ---- staging ------------------------------------------------------------- */

static cel_status fail(const gpu_link *g, CUresult code, const char *doing) {
  return cel_fail(cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_COMM,
                  "GPU %d failed while %s: %s", g->cuda->device[0].ordinal,
                  doing, cel_cuda_api_text(g->cuda->api, code));
}

/* The smallest that is large enough, or a new one. */
static cel_status take_block(gpu_link *g, uint64_t bytes, block *out) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < g->blocks.n; ++i)
    if (g->blocks.at[i].bytes >= bytes &&
        (best == UINT32_MAX ||
         g->blocks.at[i].bytes < g->blocks.at[best].bytes))
      best = i;
  if (best != UINT32_MAX) {
    *out = g->blocks.at[best];
    cel_vec_swap_out(&g->blocks, best);
    return CEL_E_OK;
  }
  block fresh = {.bytes = 64 << 10};
  while (fresh.bytes < bytes) fresh.bytes *= 2;
  CUresult code = g->cuda->api->cuMemAlloc_v2(&fresh.at, fresh.bytes);
  if (code != CUDA_SUCCESS) return fail(g, code, "making room for a message");
  *out = fresh;
  return CEL_E_OK;
}

/* All pieces into the staging memory, or out of it; until that is done. */
static cel_status copy(gpu_link *g, const transfer *t) {
  CUdeviceptr at = t->staging.at;
  CUresult code = CUDA_SUCCESS;
  for (uint32_t i = 0; i < t->message->pieces && code == CUDA_SUCCESS; ++i) {
    const cel_strided *p = &t->message->piece[i];
    uint64_t bytes = p->count[0] * p->count[1] * p->run;
    if (bytes == 0) continue;
    cel_cuda_end far = {
        .at = (uintptr_t)p->base, .row = p->stride[1], .plane = p->stride[0]};
    cel_cuda_end near = {
        .at = at, .row = p->run, .plane = p->run * p->count[1]};
    code = cel_cuda_copy(g->cuda, 0, t->sending ? far : near,
                         t->sending ? near : far, p->run, p->count[0],
                         p->count[1], g->stream);
    at += bytes;
  }
  if (code == CUDA_SUCCESS) code = g->cuda->api->cuStreamSynchronize(g->stream);
  return code == CUDA_SUCCESS ? CEL_E_OK : fail(g, code, "packing a message");
}

/* ---- messages ------------------------------------------------------------ */

/* Where the bytes of the message lie, or are to lie, side by side. */
static cel_status prepare(gpu_link *g, transfer *t) {
  const cel_posted *message = t->message;
  cel_strided only = {0};
  if (message->pieces == 1) only = cel__strided_merged(message->piece[0]);
  if (message->pieces != 1 || only.count[0] * only.count[1] != 1) {
    CEL_TRY(take_block(g, message->bytes, &t->staging));
    only.base = (void *)(uintptr_t)t->staging.at; // NOLINT: the driver's
    if (t->sending) CEL_TRY(copy(g, t));
  }
  uint64_t bytes = message->bytes;
  t->piece = (cel_strided){only.base, {1, 1}, {bytes, bytes}, bytes};
  return CEL_E_OK;
}

static void end(gpu_link *g, transfer *t) {
  if (t->staging.bytes > 0) cel_vec_push(&g->blocks, t->staging);
  cel_free(t);
}

static cel_error *last_error(void) {
  cel_error *error = cel_alloc(sizeof *error);
  *error = *cel_error_last();
  return error;
}

static void post(gpu_link *g, const cel_posted *message, bool sending) {
  transfer *t = cel_alloc_zero(sizeof *t);
  t->message = message;
  t->sending = sending;
  g->cuda->api->cuCtxSetCurrent(g->cuda->device[0].context);
  if (prepare(g, t) != CEL_E_OK) {
    cel_vec_push(&g->done, (cel_done){message->ticket, last_error()});
    end(g, t);
    return;
  }
  t->dense = *message;
  t->dense.ticket = (uintptr_t)t;
  t->dense.direct = false;
  t->dense.pieces = 1;
  t->dense.piece = &t->piece;
  if (sending)
    g->second->send(g->second, &t->dense);
  else
    g->second->receive(g->second, &t->dense);
}

static void send(cel_transport *t, const cel_posted *message) {
  gpu_link *g = (gpu_link *)t;
  if (message->direct)
    post(g, message, true);
  else
    g->around.inner->send(g->around.inner, message);
}

static void receive(cel_transport *t, const cel_posted *message) {
  gpu_link *g = (gpu_link *)t;
  if (message->direct)
    post(g, message, false);
  else
    g->around.inner->receive(g->around.inner, message);
}

/* From the second transport's completion to ours. */
static void complete(gpu_link *g, cel_done *done) {
  transfer *t = (transfer *)(uintptr_t)done->ticket;
  bool arrived = !t->sending && done->error == NULL && t->staging.bytes > 0;
  done->ticket = t->message->ticket;
  if (arrived) {
    g->cuda->api->cuCtxSetCurrent(g->cuda->device[0].context);
    if (copy(g, t) != CEL_E_OK) done->error = last_error();
  }
  end(g, t);
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  gpu_link *g = (gpu_link *)t;
  cel_transport *inner = g->around.inner;
  uint32_t n = inner->poll(inner, out, max);
  t->broken = inner->broken;
  uint32_t first = n;
  n += g->second->poll(g->second, out + n, max - n);
  for (uint32_t i = first; i < n; ++i) complete(g, &out[i]);
  while (n < max && g->done.n > 0) out[n++] = cel_vec_pop(&g->done);
  return n;
}

static bool busy(cel_transport *t) {
  const gpu_link *g = (const gpu_link *)t;
  return g->done.n > 0 || g->second->busy(g->second) ||
         g->around.inner->busy(g->around.inner);
}

/* ---- life ---------------------------------------------------------------- */

static void release(gpu_link *g) {
  const cel_cuda_api *api = g->cuda != NULL ? g->cuda->api : NULL;
  if (api != NULL) api->cuCtxSetCurrent(g->cuda->device[0].context);
  for (uint32_t i = 0; i < g->blocks.n; ++i)
    api->cuMemFree_v2(g->blocks.at[i].at);
  if (g->stream != NULL) api->cuStreamDestroy_v2(g->stream);
  for (uint32_t i = 0; i < g->done.n; ++i) cel_free(g->done.at[i].error);
  cel_vec_release(&g->blocks);
  cel_vec_release(&g->done);
  cel_free(g->near);
  cel_free(g);
}

static void destroy(cel_transport *t) {
  gpu_link *g = (gpu_link *)t;
  cel_transport *inner = g->around.inner;
  g->second->destroy(g->second);
  release(g);
  inner->destroy(inner);
}

/* ---- who takes part ------------------------------------------------------ */

/* Whether all ranks are fine; else the first one's reason. Once all have come
 * to say so they are here: what follows may block. */
static cel_status agree(const gpu_link *g, cel_status status, bool *good,
                        char *why, size_t size) {
  cel_transport *inner = g->around.inner;
  char text[WHY] = "";
  int64_t left = status == CEL_E_OK ? 0 : inner->ranks - inner->rank;
  if (status != CEL_E_OK)
    snprintf(text, sizeof text, "%.*s", WHY - 1, cel_error_last()->text);
  CEL_TRY(inner->most(inner, &left));
  *good = left == 0;
  if (*good) return CEL_E_OK;
  int first = (int)(inner->ranks - left);
  if (MPI_Bcast(text, WHY, MPI_CHAR, first, MPI_COMM_WORLD) != MPI_SUCCESS)
    return cel_fail(CEL_E_COMM, "MPI failed while ranks told of their GPUs");
  snprintf(why, size, "rank %d: %s", first, text);
  return CEL_E_OK;
}

static cel_status look(const cel_cuda *cuda, bool takes) {
  if (cuda == NULL) return cel_fail(CEL_E_MISSING, "it uses no GPU");
  if (cuda->devices != 1)
    return cel_fail(CEL_E_MISSING, "it has %d GPUs, not one", cuda->devices);
  if (!takes)
    return cel_fail(CEL_E_MISSING, "its MPI does not take memory of GPUs");
  return CEL_E_OK;
}

/* What a probe takes; its bytes at *at, with room for those of another. */
static cel_status prepare_probe(gpu_link *g, CUdeviceptr *at) {
  const cel_cuda_api *api = g->cuda->api;
  unsigned char bytes[PROBE_BYTES];
  memset(bytes, (int)(g->around.base.rank % 251) + 1, sizeof bytes);
  api->cuCtxSetCurrent(g->cuda->device[0].context);
  CUresult code = api->cuStreamCreate(&g->stream, CU_STREAM_NON_BLOCKING);
  if (code == CUDA_SUCCESS)
    code = api->cuMemAlloc_v2(at, (size_t)2 * PROBE_BYTES);
  if (code == CUDA_SUCCESS)
    code = cel_cuda_write(api, *at, bytes, sizeof bytes);
  return code == CUDA_SUCCESS ? CEL_E_OK : fail(g, code, "preparing a probe");
}

/* From GPU to GPU, round the ring of all ranks. */
static cel_status probe(const gpu_link *g, CUdeviceptr at) {
  int rank = (int)g->around.base.rank, ranks = (int)g->around.base.ranks;
  int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  unsigned char bytes[PROBE_BYTES];
  char *memory = (char *)(uintptr_t)at; // NOLINT: the driver's addresses
  if (MPI_Sendrecv(memory, PROBE_BYTES, MPI_BYTE, to, 0, memory + PROBE_BYTES,
                   PROBE_BYTES, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return cel_fail(CEL_E_MISSING, "MPI fails to send memory of a GPU");
  CUresult code =
      g->cuda->api->cuMemcpyDtoH_v2(bytes, at + PROBE_BYTES, sizeof bytes);
  if (code != CUDA_SUCCESS) return fail(g, code, "reading a probe");
  for (int i = 0; i < PROBE_BYTES; ++i)
    if (bytes[i] != from % 251 + 1)
      return cel_fail(CEL_E_MISSING, "MPI garbles memory of a GPU");
  return CEL_E_OK;
}

/* In steps that all ranks take, or none: a rank that cannot go on says so
 * before others wait for it. */
static cel_status meet(gpu_link *g, bool takes, bool *good, char *why,
                       size_t size) {
  CUdeviceptr at = 0;
  CEL_TRY(agree(g, look(g->cuda, takes), good, why, size));
  if (!*good) return CEL_E_OK;
  cel_status status = agree(g, prepare_probe(g, &at), good, why, size);
  if (status == CEL_E_OK && *good)
    status = agree(g, probe(g, at), good, why, size);
  if (at != 0) g->cuda->api->cuMemFree_v2(at);
  if (status != CEL_E_OK || !*good) return status;
  return cel_transport_mpi(&g->second);
}

static void come_near(gpu_link *g) {
  cel_transport *t = &g->around.base;
  g->near = cel_alloc((size_t)t->ranks * sizeof *g->near);
  for (int64_t rank = 0; rank < t->ranks; ++rank)
    if (rank != t->rank) g->near[t->nears++] = rank;
  t->near = g->near;
  t->direct_bytes = DIRECT_BYTES;
}

cel_status cel_transport_mpi_gpu(cel_transport *inner, const cel_cuda *cuda,
                                 bool takes, cel_transport **out, char *why,
                                 size_t size) {
  bool good = false;
  gpu_link *g = cel_alloc_zero(sizeof *g);
  cel_around_init(&g->around, inner, "mpi, which takes memory of GPUs");
  g->cuda = cuda;
  cel_status status = meet(g, takes, &good, why, size);
  if (status != CEL_E_OK || !good) {
    release(g);
    if (status == CEL_E_OK) *out = inner;
    return status;
  }
  come_near(g);
  g->around.base.send = send;
  g->around.base.receive = receive;
  g->around.base.poll = poll;
  g->around.base.busy = busy;
  g->around.base.destroy = destroy;
  *out = &g->around.base;
  return CEL_E_OK;
}
