/* link_landing.c -- long messages that the sender writes to where they belong:
 * they land in memory of the receiver.
 *
 * The receiver lends the sender the blocks of memory that they are for, by open
 * files, each once, and says with each message which bytes of which block are
 * its landings. The sender maps what it is lent, for good: lent blocks are used
 * again for whatever needs memory, but never given back to the driver before
 * the end. So nobody ever waits for a loan to end, and the loans of a GPU are
 * bounded (cel_cuda_memory_lend). What cannot be lent, or opened, goes through
 * the mailbox.
 */
#include <unistd.h>

#include "comm/link/link_state.h"
#include "device/cuda/cuda_memory.h"

enum { MOST_LANDINGS = 64 }; /* of one message */

/* ---- receiver ------------------------------------------------------------ */

static uint64_t bytes_of(const cel_strided *piece) {
  return piece->run * piece->count[0] * piece->count[1];
}

static bool is_dense(const cel_strided *piece) {
  if (bytes_of(piece) == 0) return true;
  return (piece->count[1] == 1 || piece->stride[1] == piece->run) &&
         (piece->count[0] == 1 ||
          piece->stride[0] == piece->run * piece->count[1]);
}

/* What the message is for, into link->loans; all of it, or none is lent. */
static bool lend_all(cel__link *link, const cel_posted *message) {
  cel_vec_clear(&link->loans);
  for (uint32_t i = 0; i < message->pieces; ++i)
    if (!is_dense(&message->piece[i])) return false;
  for (uint32_t i = 0; i < message->pieces; ++i) {
    const cel_strided *piece = &message->piece[i];
    if (!cel_cuda_memory_lend(link->cuda->lender, (uintptr_t)piece->base,
                              bytes_of(piece), MOST_LANDINGS, &link->loans))
      return false;
  }
  return true;
}

cel_status cel__link_give(cel__link *link, cel__link_peer *peer,
                          const cel_cuda_loan *loan) {
  uint32_t number = loan->block.loan;
  while (peer->given.n <= number) cel_vec_push(&peer->given, false);
  if (peer->given.at[number]) return CEL_E_OK;
  cel_host_fd what = {.number = number, .bytes = loan->whole};
  CUresult code = link->cuda->api->cuMemExportToShareableHandle(
      &what.file, loan->block.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      0);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(link->cuda, "cuMemExportToShareableHandle", code);
  cel_status status = cel_host_fds_send(link->fds, peer->local, &what);
  close(what.file);
  peer->given.at[number] = status == CEL_E_OK;
  return status;
}

/* The files of link->loans. The kernel holds few of them under way: where there
 * are more, the peer is told to take these, and a later message has the rest.
 */
static bool give_all(cel__link *link, cel__link_peer *peer) {
  for (uint32_t i = 0; i < link->loans.n; ++i) {
    if (cel__link_give(link, peer, &link->loans.at[i]) == CEL_E_OK) continue;
    cel__link_tell(link, peer, (cel_host_record){.kind = CEL__LINK_FILES});
    return false;
  }
  return true;
}

bool cel__link_lend(cel__link *link, const cel__link_transfer *transfer) {
  const cel_posted *message = transfer->message;
  cel__link_peer *peer = transfer->peer;
  if (message->chained || message->bytes < link->landing_least ||
      link->fds == NULL || link->cuda->lender == NULL || peer->refuses ||
      !lend_all(link, message) || !give_all(link, peer))
    return false;
  for (uint32_t i = 0; i < link->loans.n; ++i) {
    const cel_cuda_loan *loan = &link->loans.at[i];
    cel__link_tell(link, peer,
                   (cel_host_record){.kind = CEL__LINK_LANDING,
                                     .slot = loan->block.loan,
                                     .sequence = loan->offset,
                                     .bytes = loan->bytes});
  }
  cel__link_tell(link, peer,
                 (cel_host_record){.kind = CEL__LINK_WANT_LANDING,
                                   .slot = link->loans.n,
                                   .sequence = message->sequence,
                                   .bytes = message->bytes});
  return true;
}

/* ---- sender -------------------------------------------------------------- */

static void close_loan(cel__link *link, cel__link_opened *opened) {
  const cel_cuda_api *api = link->cuda->api;
  if (opened->bytes == 0) return;
  api->cuMemUnmap(opened->at, opened->bytes);
  api->cuMemAddressFree(opened->at, opened->bytes);
  opened->bytes = 0;
}

/* A landing of the next message that is wanted so. */
void cel__link_hear_landing(cel__link_peer *peer, const cel_host_record *word) {
  cel_vec_push(&peer->landings,
               (cel__link_landing){word->slot, word->sequence, word->bytes});
}

/* Where a block is to be mapped, and that. */
static cel_status map_loan(cel__link *link, CUmemGenericAllocationHandle handle,
                           cel__link_opened *opened, uint64_t bytes) {
  const cel_cuda_api *api = link->cuda->api;
  CUmemAccessDesc ours = {
      {CU_MEM_LOCATION_TYPE_DEVICE, link->cuda->device[0].device},
      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr at;
  CUresult code = api->cuMemAddressReserve(&at, bytes, 0, 0, 0);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(link->cuda, "cuMemAddressReserve", code);
  code = api->cuMemMap(at, bytes, 0, handle, 0);
  if (code != CUDA_SUCCESS) {
    api->cuMemAddressFree(at, bytes);
    return cel_mailbox_fail(link->cuda, "cuMemMap", code);
  }
  *opened = (cel__link_opened){at, bytes};
  code = api->cuMemSetAccess(at, bytes, &ours, 1);
  if (code == CUDA_SUCCESS) return CEL_E_OK;
  close_loan(link, opened);
  return cel_mailbox_fail(link->cuda, "cuMemSetAccess", code);
}

/* A block that the peer lends. */
static cel_status open_loan(cel__link *link, cel__link_opened *opened, int file,
                            uint64_t bytes) {
  const cel_cuda_api *api = link->cuda->api;
  CUmemGenericAllocationHandle handle;
  // NOLINTNEXTLINE: the driver takes the number as an address
  void *from = (void *)(intptr_t)file;
  CUresult code = api->cuMemImportFromShareableHandle(
      &handle, from, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(link->cuda, "cuMemImportFromShareableHandle", code);
  cel_status status = map_loan(link, handle, opened, bytes);
  api->cuMemRelease(handle); /* a mapping keeps it */
  return status;
}

static cel__link_peer *peer_at(cel__link *link, int32_t local) {
  for (int32_t p = 0; p < link->peers; ++p)
    if (link->peer[p].local == local) return &link->peer[p];
  return NULL;
}

cel_status cel__link_open_loans(cel__link *link) {
  cel_host_fd what;
  cel_status status = CEL_E_OK;
  link->cuda->api->cuCtxSetCurrent(link->cuda->device[0].context);
  while (cel_host_fds_take(link->fds, &what)) {
    cel__link_peer *peer = peer_at(link, what.from);
    cel_status one = CEL_E_OK;
    if (peer != NULL) {
      while (peer->opened.n <= what.number)
        cel_vec_push(&peer->opened, (cel__link_opened){0});
      one =
          open_loan(link, &peer->opened.at[what.number], what.file, what.bytes);
    }
    close(what.file);
    if (one != CEL_E_OK) status = one;
  }
  return status;
}

static bool is_open(const cel__link_peer *peer,
                    const cel__link_landing *landing) {
  return landing->loan < peer->opened.n &&
         landing->offset + landing->bytes <=
             peer->opened.at[landing->loan].bytes;
}

/* Whether all landings of a message are open. */
static bool open_landings(cel__link *link, const cel__link_peer *peer,
                          const cel__link_wish *want) {
  bool asked = link->fds == NULL;
  for (uint32_t i = 0; i < want->landings; ++i) {
    if (is_open(peer, &want->landing[i])) continue;
    if (!asked) cel__link_open_loans(link);
    asked = true;
    if (!is_open(peer, &want->landing[i])) return false;
  }
  return true;
}

static CUresult take_event(cel__link *link, CUevent *out) {
  if (link->spare.n > 0) {
    *out = cel_vec_pop(&link->spare);
    return CUDA_SUCCESS;
  }
  return link->cuda->api->cuEventCreate(out, CU_EVENT_DISABLE_TIMING);
}

bool cel__link_write(cel__link *link, cel__link_transfer *transfer,
                     const cel__link_wish *want) {
  const cel__link_peer *peer = transfer->peer;
  if (!open_landings(link, peer, want)) return false;
  CUevent written = NULL;
  CUresult code = take_event(link, &written);
  for (uint32_t i = 0; i < want->landings && code == CUDA_SUCCESS; ++i) {
    const cel__link_landing *landing = &want->landing[i];
    code = cel__link_copy(link, transfer,
                          peer->opened.at[landing->loan].at + landing->offset,
                          landing->bytes, true, link->stream);
  }
  if (code == CUDA_SUCCESS)
    code = link->cuda->api->cuEventRecord(written, link->stream);
  cel_vec_push(&link->written, (cel__link_written){transfer, written});
  cel__link_bad(link, code, "sending to", transfer->message->peer);
  return true;
}

void cel__link_take_written(cel__link *link) {
  uint32_t n = 0;
  for (; n < link->written.n && !link->failed; ++n) {
    cel__link_written *at = &link->written.at[n];
    CUresult code = link->cuda->api->cuEventQuery(at->event);
    if (code == CUDA_ERROR_NOT_READY) break;
    if (cel__link_bad(link, code, "sending to", at->transfer->message->peer))
      break;
    cel__link_tell(
        link, at->transfer->peer,
        (cel_host_record){.kind = CEL__LINK_THERE,
                          .sequence = at->transfer->message->sequence});
    cel_vec_push(&link->spare, at->event);
    cel__link_end(link, at->transfer, true);
  }
  if (n > 0) cel_vec_drop_first(&link->written, n);
}

/* ---- the end ------------------------------------------------------------- */

void cel__link_fail_written(cel__link *link) {
  for (uint32_t i = 0; i < link->written.n; ++i) {
    CUevent event = link->written.at[i].event;
    if (event != NULL) cel_vec_push(&link->spare, event);
    cel__link_end(link, link->written.at[i].transfer, false);
  }
  cel_vec_clear(&link->written);
}

void cel__link_close_loans(cel__link *link, cel__link_peer *peer) {
  for (uint32_t i = 0; i < peer->opened.n; ++i)
    close_loan(link, &peer->opened.at[i]);
  for (uint32_t i = 0; i < peer->wants.n; ++i)
    cel_free(peer->wants.at[i].landing);
  cel_vec_release(&peer->opened);
  cel_vec_release(&peer->given);
  cel_vec_release(&peer->landings);
}
