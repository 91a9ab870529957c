/* link_chain.c -- messages that streams of the poster's carry: a slot and
 * its event each, for which the receiver's stream waits. An event can be waited
 * for once it has been recorded, so the thread that puts the receiver's end
 * waits until the sender's has done that. */
#include <sched.h>

#include "comm/link/link_state.h"

static cel_status failed(const cel__link_transfer *transfer, CUresult code,
                         const char *doing) {
  const cel_cuda *cuda = transfer->link->cuda;
  return cel_fail(
      cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_COMM,
      "GPU %d failed while %s rank %lld: %s", cuda->device[0].ordinal, doing,
      (long long)transfer->message->peer, cel_cuda_api_text(cuda->api, code));
}

/* What the sender's word for the slot says when the slot's event has been
 * recorded for this message: the slot is not used again before the receiver
 * gave it back. */
static uint64_t mark_of(const cel__link_transfer *transfer) {
  return transfer->message->sequence + 1;
}

/* ---- sender -------------------------------------------------------------- */

static cel_status put_out(void *context, void *stream) {
  cel__link_transfer *transfer = context;
  cel__link *link = transfer->link;
  const cel_mailbox *mailbox = &transfer->peer->mailbox;
  CUresult code = cel__link_copy(link, transfer,
                                 cel_mailbox_slot(mailbox->out, transfer->slot),
                                 transfer->message->bytes, true, stream);
  if (code == CUDA_SUCCESS)
    code =
        link->cuda->api->cuEventRecord(mailbox->filled[transfer->slot], stream);
  if (code != CUDA_SUCCESS) return failed(transfer, code, "sending to");
  _Atomic(uint64_t) *mine = cel_host_rings_words(
      link->rings, link->base.local_rank, transfer->peer->local);
  atomic_store_explicit(&mine[transfer->slot], mark_of(transfer),
                        memory_order_release);
  return CEL_E_OK;
}

void cel__link_chain_send(cel__link *link, cel__link_transfer *transfer,
                          uint32_t slot) {
  transfer->slot = slot;
  transfer->peer->full[slot] = transfer->peer->filling[slot] = true;
  cel_vec_push(&link->chained,
               (cel_chained){transfer->message->ticket, put_out, transfer});
}

/* ---- receiver ------------------------------------------------------------ */

static bool await_sender(const cel__link_transfer *transfer) {
  cel__link *link = transfer->link;
  _Atomic(uint64_t) *theirs = cel_host_rings_words(
      link->rings, transfer->peer->local, link->base.local_rank);
  while (atomic_load_explicit(&theirs[transfer->slot], memory_order_acquire) !=
         mark_of(transfer)) {
    if (atomic_load_explicit(&link->halted, memory_order_relaxed)) return false;
    sched_yield();
  }
  return true;
}

static cel_status put_in(void *context, void *stream) {
  cel__link_transfer *transfer = context;
  cel__link *link = transfer->link;
  const cel_mailbox *mailbox = &transfer->peer->mailbox;
  if (!await_sender(transfer))
    return cel_fail(CEL_E_CANCELLED, "rank %lld did not send message %llu",
                    (long long)transfer->message->peer,
                    (unsigned long long)transfer->message->sequence);
  CUresult code = link->cuda->api->cuStreamWaitEvent(
      stream, mailbox->arrived[transfer->slot], 0);
  if (code == CUDA_SUCCESS)
    code = cel__link_copy(link, transfer,
                          cel_mailbox_slot(mailbox->in, transfer->slot),
                          transfer->message->bytes, false, stream);
  return code == CUDA_SUCCESS ? CEL_E_OK
                              : failed(transfer, code, "receiving from");
}

void cel__link_chain_receive(cel__link *link, cel__link_transfer *transfer,
                             uint32_t slot) {
  transfer->slot = slot;
  cel_vec_push(&link->chained,
               (cel_chained){transfer->message->ticket, put_in, transfer});
}

/* ---- for the tables ------------------------------------------------------ */

uint32_t cel__link_chained(cel_transport *t, cel_chained *out, uint32_t max) {
  cel__link *link = (cel__link *)t;
  cel_assert_driver();
  cel_transport *inner = link->inner;
  uint32_t n = link->chained.n < max ? link->chained.n : max;
  if (n > 0) {
    memcpy(out, link->chained.at, n * sizeof *out);
    cel_vec_drop_first(&link->chained, n);
  }
  if (inner->chained != NULL && n < max)
    n += inner->chained(inner, out + n, max - n);
  return n;
}

/* The receiver may go on: the slot's event will be recorded. */
void cel__link_carry(void *self, void *context) {
  cel__link *link = self;
  cel_assert_driver();
  const cel__link_transfer *transfer = context;
  if (!transfer->sends) return;
  cel__link_tell(link, transfer->peer,
                 (cel_host_record){.kind = CEL__LINK_FILL,
                                   .slot = transfer->slot,
                                   .sequence = transfer->message->sequence,
                                   .bytes = transfer->message->bytes});
}

void cel__link_unchain(void *self, void *context) {
  cel__link *link = self;
  cel_assert_driver();
  cel__link_transfer *transfer = context;
  if (transfer->sends)
    transfer->peer->filling[transfer->slot] = false;
  else
    cel__link_tell(
        link, transfer->peer,
        (cel_host_record){.kind = CEL__LINK_FREE, .slot = transfer->slot});
  cel_free(transfer);
  --link->transfers;
}

void cel__link_halt(cel_transport *t) {
  cel__link *link = (cel__link *)t;
  cel_transport *inner = link->inner;
  atomic_store_explicit(&link->halted, true, memory_order_relaxed);
  if (inner->halt != NULL) inner->halt(inner);
}

void cel__link_chain_fail(cel__link *link) {
  for (uint32_t i = 0; i < link->chained.n; ++i)
    cel__link_end(link, link->chained.at[i].context, false);
  cel_vec_clear(&link->chained);
}
