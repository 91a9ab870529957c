/* link_probe.c -- a few bytes from each rank to each, as messages go:
 * through the mailboxes, and straight into memory that is lent. */
#include "comm/link/link_state.h"

enum { BYTES = 256 };

static unsigned char byte_of(int64_t rank, int i) {
  return (unsigned char)(rank * 37 + (int64_t)i * 11 + 5);
}

/* Our pattern, from our last slot there. */
static CUresult put(cel__link *link, const cel__link_peer *peer,
                    CUdeviceptr there) {
  const cel_cuda_api *api = link->cuda->api;
  unsigned char bytes[BYTES];
  for (int i = 0; i < BYTES; ++i) bytes[i] = byte_of(link->base.rank, i);
  CUdeviceptr last = cel_mailbox_slot(peer->mailbox.in, CEL_MAIL_SLOTS - 1);
  CUresult code =
      api->cuMemcpyHtoDAsync_v2(last, bytes, sizeof bytes, link->stream);
  return code == CUDA_SUCCESS
             ? api->cuMemcpyAsync(there, last, sizeof bytes, link->stream)
             : code;
}

/* The peer's pattern is to be here. */
static cel_status verify(cel__link *link, const cel__link_peer *peer,
                         CUdeviceptr here, const char *doing) {
  const cel_cuda_api *api = link->cuda->api;
  unsigned char bytes[BYTES] = {0};
  CUstream stream = peer->stream[0];
  CUresult code = api->cuMemcpyDtoHAsync_v2(bytes, here, sizeof bytes, stream);
  if (code == CUDA_SUCCESS) code = api->cuStreamSynchronize(stream);
  if (code != CUDA_SUCCESS) return cel_mailbox_fail(link->cuda, doing, code);
  for (int i = 0; i < BYTES; ++i)
    if (bytes[i] != byte_of(peer->rank, i))
      return cel_fail(CEL_E_MISSING, "rank %lld sent it other bytes",
                      (long long)peer->rank);
  return CEL_E_OK;
}

/* ---- the mailbox --------------------------------------------------------- */

/* Into the peer's slot 0, and the event behind it. */
cel_status cel__link_probe_send(cel__link *link, cel__link_peer *peer) {
  const cel_cuda_api *api = link->cuda->api;
  CUresult code = put(link, peer, peer->mailbox.out);
  if (code == CUDA_SUCCESS)
    code = api->cuEventRecord(peer->mailbox.filled[0], link->stream);
  if (code == CUDA_SUCCESS) code = api->cuStreamSynchronize(link->stream);
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel_mailbox_fail(link->cuda, "filling a mailbox", code);
}

cel_status cel__link_probe_take(cel__link *link, cel__link_peer *peer) {
  CUresult code = link->cuda->api->cuStreamWaitEvent(
      peer->stream[0], peer->mailbox.arrived[0], 0);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(link->cuda, "reading a mailbox", code);
  return verify(link, peer, peer->mailbox.in, "reading a mailbox");
}

/* ---- lent memory --------------------------------------------------------- */

/* For the probe alone, as a backend has it. */
struct cel__link_probe {
  cel_cuda_memory memory;
  void *lent; /* a grain of it, BYTES for each local rank */
};

static uint64_t lent_offset(int32_t local) {
  return (uint64_t)local * BYTES;
}

cel_status cel__link_probe_lend(cel__link *link) {
  cel_cuda *cuda = link->cuda;
  if (lent_offset(link->base.local_ranks) > CEL_CUDA_GRAIN)
    return cel_fail(CEL_E_MISSING, "too many ranks are on this host");
  if (!cuda->device[0].exports || !cuda->device[0].virtual_memory)
    return cel_fail(CEL_E_MISSING, "its GPU cannot export memory");
  struct cel__link_probe *probe = cel_alloc_zero(sizeof *probe);
  link->probe = probe;
  cel_cuda_memory_init(&probe->memory, cuda, 0, false);
  CEL_TRY(
      cel_cuda_memory_reserve(&probe->memory, CEL_CUDA_GRAIN, &probe->lent));
  CEL_TRY(
      cel_cuda_memory_commit(&probe->memory, probe->lent, 0, CEL_CUDA_GRAIN));
  cel_vec_clear(&link->loans);
  if (!cel_cuda_memory_lend(&probe->memory, (uintptr_t)probe->lent,
                            CEL_CUDA_GRAIN, 1, &link->loans) ||
      link->loans.at[0].offset != 0)
    return cel_fail(CEL_E_MISSING, "its memory is not to be lent");
  for (int32_t p = 0; p < link->peers; ++p)
    CEL_TRY(cel__link_give(link, &link->peer[p], &link->loans.at[0]));
  return CEL_E_OK;
}

/* The only loan that the peer has opened by now is the probe's. */
cel_status cel__link_probe_write(cel__link *link) {
  CUresult code = CUDA_SUCCESS;
  CEL_TRY(cel__link_open_loans(link));
  for (int32_t p = 0; p < link->peers; ++p)
    if (link->peer[p].opened.n == 0)
      return cel_fail(CEL_E_MISSING, "no memory came from rank %lld",
                      (long long)link->peer[p].rank);
  for (int32_t p = 0; p < link->peers && code == CUDA_SUCCESS; ++p) {
    const cel__link_peer *peer = &link->peer[p];
    code = put(link, peer,
               peer->opened.at[peer->opened.n - 1].at +
                   lent_offset(link->base.local_rank));
  }
  if (code == CUDA_SUCCESS)
    code = link->cuda->api->cuStreamSynchronize(link->stream);
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel_mailbox_fail(link->cuda, "writing to lent memory", code);
}

cel_status cel__link_probe_verify(cel__link *link) {
  for (int32_t p = 0; p < link->peers; ++p)
    CEL_TRY(
        verify(link, &link->peer[p],
               (uintptr_t)link->probe->lent + lent_offset(link->peer[p].local),
               "reading lent memory"));
  return CEL_E_OK;
}

void cel__link_probe_end(cel__link *link) {
  for (int32_t p = 0; p < link->peers; ++p)
    cel__link_close_loans(link, &link->peer[p]);
  if (link->probe == NULL) return;
  cel_cuda_memory_clear(&link->probe->memory);
  cel_free(link->probe);
  link->probe = NULL;
}
