#include "comm/link/link_state.h"

static void want(cel__link *link, const cel__link_transfer *transfer) {
  cel__link_tell(link, transfer->peer,
                 (cel_host_record){.kind = CEL__LINK_WANT,
                                   .sequence = transfer->message->sequence,
                                   .bytes = transfer->message->bytes});
}

void cel__link_receive(cel__link *link, cel__link_transfer *transfer) {
  cel_vec_push(&transfer->peer->receives, transfer);
  if (!cel__link_lend(link, transfer)) want(link, transfer);
}

static uint32_t find(const cel__link_peer *peer, uint64_t sequence) {
  for (uint32_t i = 0; i < peer->receives.n; ++i)
    if (peer->receives.at[i]->message->sequence == sequence) return i;
  cel_bug("rank %lld sends direct message %llu, which nobody wants",
          (long long)peer->rank, (unsigned long long)sequence);
}

static CUresult enqueue(cel__link *link, cel__link_peer *peer,
                        cel__link_transfer *transfer,
                        const cel_host_record *word) {
  const cel_cuda_api *api = link->cuda->api;
  CUevent *emptied = &peer->emptied[word->slot];
  CUstream stream = peer->stream[peer->turn++ % CEL__LINK_STREAMS];
  CUresult code = CUDA_SUCCESS;
  if (*emptied == NULL)
    code = api->cuEventCreate(emptied, CU_EVENT_DISABLE_TIMING);
  if (code == CUDA_SUCCESS &&
      transfer->begun + word->bytes == transfer->message->bytes)
    code = api->cuStreamWaitEvent(stream, peer->mailbox.arrived[word->slot], 0);
  if (code == CUDA_SUCCESS)
    code = cel__link_copy(link, transfer,
                          cel_mailbox_slot(peer->mailbox.in, word->slot),
                          word->bytes, false, stream);
  return code == CUDA_SUCCESS ? api->cuEventRecord(*emptied, stream) : code;
}

void cel__link_filled(cel__link *link, cel__link_peer *peer,
                      const cel_host_record *word) {
  uint32_t i = find(peer, word->sequence);
  cel__link_transfer *transfer = peer->receives.at[i];
  if (transfer->message->chained) {
    cel_assert(word->bytes == transfer->message->bytes);
    cel_vec_swap_out(&peer->receives, i);
    cel__link_chain_receive(link, transfer, word->slot);
    return;
  }
  cel_assert(transfer->begun + word->bytes <= transfer->message->bytes);
  CUresult code = enqueue(link, peer, transfer, word);
  if (cel__link_bad(link, code, "receiving from", peer->rank)) return;
  ++transfer->copies;
  cel_vec_push(&peer->slots,
               (cel__link_slot){.transfer = transfer, .number = word->slot});
}

void cel__link_refused(cel__link *link, cel__link_peer *peer,
                       const cel_host_record *word) {
  uint32_t i = find(peer, word->sequence);
  cel__link_transfer *transfer = peer->receives.at[i];
  cel_vec_swap_out(&peer->receives, i);
  cel__link_mismatch(transfer->message, word->bytes);
  cel__link_end(link, transfer, false);
}

void cel__link_there(cel__link *link, cel__link_peer *peer,
                     const cel_host_record *word) {
  uint32_t i = find(peer, word->sequence);
  cel__link_transfer *transfer = peer->receives.at[i];
  cel_vec_swap_out(&peer->receives, i);
  cel__link_end(link, transfer, true);
}

void cel__link_cannot(cel__link *link, cel__link_peer *peer,
                      const cel_host_record *word) {
  peer->refuses = true;
  want(link, peer->receives.at[find(peer, word->sequence)]);
}

static void take_one(cel__link *link, cel__link_peer *peer,
                     cel__link_slot slot) {
  cel__link_transfer *transfer = slot.transfer;
  cel__link_tell(
      link, peer,
      (cel_host_record){.kind = CEL__LINK_FREE, .slot = slot.number});
  if (--transfer->copies > 0 || !cel__link_all_begun(transfer)) return;
  uint32_t i = find(peer, transfer->message->sequence);
  cel_vec_swap_out(&peer->receives, i);
  cel__link_end(link, transfer, true);
}

void cel__link_empty(cel__link *link, cel__link_peer *peer) {
  uint32_t n = 0;
  for (; n < peer->slots.n && !link->failed; ++n) {
    CUresult code =
        link->cuda->api->cuEventQuery(peer->emptied[peer->slots.at[n].number]);
    if (code == CUDA_ERROR_NOT_READY) break;
    if (cel__link_bad(link, code, "receiving from", peer->rank)) break;
    take_one(link, peer, peer->slots.at[n]);
  }
  if (n > 0) cel_vec_drop_first(&peer->slots, n);
}
