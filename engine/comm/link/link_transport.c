#include "comm/link/link_state.h"

#include <stdio.h>

#include "tuning.h"

/* ---- failure ------------------------------------------------------------- */

bool cel__link_bad(cel__link *link, CUresult code, const char *doing,
                   int64_t peer) {
  if (code == CUDA_SUCCESS) return false;
  char who[32] = "";
  if (peer >= 0) snprintf(who, sizeof who, " rank %lld", (long long)peer);
  cel_fail(cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_COMM,
           "GPU %d failed while %s%s: %s", link->cuda->device[0].ordinal, doing,
           who, cel_cuda_api_text(link->cuda->api, code));
  if (!link->failed) link->error = *cel_error_last();
  link->failed = true;
  return true;
}

void cel__link_mismatch(const cel_posted *message, uint64_t other) {
  cel_fail(CEL_E_COMM,
           "direct message %llu has %llu bytes here, but %llu on rank %lld: "
           "the two ranks do not run the same program",
           (unsigned long long)message->sequence,
           (unsigned long long)message->bytes, (unsigned long long)other,
           (long long)message->peer);
}

static void report(cel__link *link, uint64_t ticket, bool good) {
  cel_done done = {ticket, NULL};
  if (!good) {
    done.error = cel_alloc(sizeof *done.error);
    *done.error = *cel_error_last();
  }
  cel_vec_push(&link->done, done);
}

void cel__link_end(cel__link *link, cel__link_transfer *transfer, bool good) {
  report(link, transfer->message->ticket, good);
  cel_free(transfer);
  --link->transfers;
}

static void end_peer(cel__link *link, cel__link_peer *peer) {
  for (uint32_t i = 0; i < peer->sends.n; ++i)
    cel__link_end(link, peer->sends.at[i], false);
  for (uint32_t i = 0; i < peer->receives.n; ++i)
    cel__link_end(link, peer->receives.at[i], false);
  cel_vec_clear(&peer->sends);
  cel_vec_clear(&peer->receives);
  cel_vec_clear(&peer->slots);
}

/* What is in slots alone is reported by its last part, what is still wanted
 * once. */
static void fail_all(cel__link *link) {
  cel_fail_with(&link->error);
  cel__link_chain_fail(link);
  cel__link_fail_written(link);
  for (uint32_t i = 0; i < link->wanted.n; ++i) link->wanted.at[i]->begun = 0;
  for (uint32_t i = 0; i < link->slots.n; ++i) {
    cel__link_transfer *transfer = link->slots.at[i].transfer;
    if (--transfer->copies == 0 && transfer->begun > 0)
      cel__link_end(link, transfer, false);
  }
  for (uint32_t i = 0; i < link->wanted.n; ++i)
    cel__link_end(link, link->wanted.at[i], false);
  cel_vec_clear(&link->slots);
  link->told = 0;
  cel_vec_clear(&link->wanted);
  for (int32_t p = 0; p < link->peers; ++p) end_peer(link, &link->peer[p]);
}

/* ---- copies -------------------------------------------------------------- */

CUresult cel__link_copy(cel__link *link, cel__link_transfer *transfer,
                        CUdeviceptr slot, uint64_t bytes, bool out,
                        CUstream stream) {
  transfer->begun += bytes;
  CUresult code;
  if (!out && bytes <= CEL_TUNE_LINK_SCATTER_BYTES &&
      cel_cursor_scatter(link->cuda, transfer->message, &transfer->cursor,
                         bytes, slot, stream, &code))
    return code;
  return cel_cursor_copy(link->cuda, transfer->message, &transfer->cursor,
                         bytes, slot, out, stream);
}

/* ---- words --------------------------------------------------------------- */

void cel__link_tell(cel__link *link, cel__link_peer *peer,
                    cel_host_record word) {
  if (peer->words.n > 0 ||
      !cel_host_rings_push(link->rings, link->base.local_rank, peer->local,
                           &word))
    cel_vec_push(&peer->words, word);
}

static void tell_rest(cel__link *link, cel__link_peer *peer) {
  uint32_t n = 0;
  while (n < peer->words.n &&
         cel_host_rings_push(link->rings, link->base.local_rank, peer->local,
                             &peer->words.at[n]))
    ++n;
  if (n > 0) cel_vec_drop_first(&peer->words, n);
}

static void listen(cel__link *link, cel__link_peer *peer) {
  cel_host_record word;
  while (!link->failed && cel_host_rings_pop(link->rings, peer->local,
                                             link->base.local_rank, &word))
    switch (word.kind) {
    case CEL__LINK_WANT:
    case CEL__LINK_WANT_LANDING: cel__link_want(link, peer, &word); break;
    case CEL__LINK_LANDING: cel__link_hear_landing(peer, &word); break;
    case CEL__LINK_THERE: cel__link_there(link, peer, &word); break;
    case CEL__LINK_CANNOT: cel__link_cannot(link, peer, &word); break;
    case CEL__LINK_FILES: cel__link_open_loans(link); break;
    case CEL__LINK_FILL: cel__link_filled(link, peer, &word); break;
    case CEL__LINK_FREE: cel__link_free(peer, &word); break;
    case CEL__LINK_REFUSE: cel__link_refused(link, peer, &word); break;
    default: cel_bug("rank %lld says %u", (long long)peer->rank, word.kind);
    }
}

static void progress(cel__link *link) {
  const cel_cuda *cuda = link->cuda;
  if (link->transfers > 0) cuda->api->cuCtxSetCurrent(cuda->device[0].context);
  for (int32_t p = 0; p < link->peers; ++p) {
    cel__link_peer *peer = &link->peer[p];
    listen(link, peer);
    cel__link_empty(link, peer);
  }
  if (link->wanted.n > 0 || link->slots.n > 0) cel__link_fill(link);
  cel__link_take_written(link);
  for (int32_t p = 0; p < link->peers; ++p) tell_rest(link, &link->peer[p]);
}

/* ---- the tables -----------------------------------------------------------
 */

/* Null: it is on another host. */
static cel__link_peer *peer_of(cel__link *link, int64_t rank) {
  int32_t from = 0, to = link->peers;
  while (from < to) {
    int32_t middle = (from + to) / 2;
    if (link->peer[middle].rank < rank)
      from = middle + 1;
    else
      to = middle;
  }
  return from < link->peers && link->peer[from].rank == rank ? &link->peer[from]
                                                             : NULL;
}

static void post(cel__link *link, cel__link_peer *peer,
                 const cel_posted *message,
                 void (*begin)(cel__link *, cel__link_transfer *)) {
  cel_assert_driver();
  cel_assert(message->bytes > 0);
  if (link->failed) {
    cel_fail_with(&link->error);
    report(link, message->ticket, false);
    return;
  }
  const cel_cuda *cuda = link->cuda;
  cuda->api->cuCtxSetCurrent(cuda->device[0].context);
  cel__link_transfer *transfer = cel_alloc_zero(sizeof *transfer);
  transfer->link = link;
  transfer->message = message;
  transfer->sends = begin == cel__link_send;
  transfer->peer = peer;
  ++link->transfers;
  begin(link, transfer);
}

static void send(void *self, const cel_posted *message) {
  cel__link *link = self;
  const cel_message_table *inner = &link->inner->messages;
  cel__link_peer *peer = message->direct ? peer_of(link, message->peer) : NULL;
  if (peer != NULL)
    post(link, peer, message, cel__link_send);
  else
    inner->send(inner->self, message);
}

static void receive(void *self, const cel_posted *message) {
  cel__link *link = self;
  const cel_message_table *inner = &link->inner->messages;
  cel__link_peer *peer = message->direct ? peer_of(link, message->peer) : NULL;
  if (peer != NULL)
    post(link, peer, message, cel__link_receive);
  else
    inner->receive(inner->self, message);
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  cel__link *link = (cel__link *)t;
  cel_assert_driver();
  uint32_t n = link->inner->poll(link->inner, out, max);
  t->broken = link->inner->broken;
  if (!link->failed) progress(link);
  if (link->failed && link->transfers > 0) fail_all(link);
  uint32_t mine = link->done.n < max - n ? link->done.n : max - n;
  if (mine == 0) return n;
  memcpy(out + n, link->done.at, mine * sizeof *out);
  cel_vec_drop_first(&link->done, mine);
  return n + mine;
}

static bool busy(cel_transport *t) {
  const cel__link *link = (const cel__link *)t;
  if (link->transfers > 0 || link->done.n > 0) return true;
  for (int32_t p = 0; p < link->peers; ++p)
    if (link->peer[p].words.n > 0) return true;
  return link->inner->busy(link->inner);
}

/* Nobody reads our mailbox any more once all ranks are in inner->destroy: what
 * they received is complete. */
static void destroy(cel_transport *t) {
  cel__link *link = (cel__link *)t;
  cel_transport *inner = link->inner;
  if (link->failed || link->transfers > 0)
    inner->control.abort(inner->control.self, 1);
  for (int32_t p = 0; p < link->peers; ++p) tell_rest(link, &link->peer[p]);
  cel__link_let_go(link);
  inner->destroy(inner);
  cel__link_release(link);
}

void cel__link_init(cel__link *link, cel_transport *inner) {
  link->inner = inner;
  link->base = *inner;
  link->base.name = "mpi, direct between GPUs";
  link->base.messages = (cel_message_table){.self = link,
                                            .send = send,
                                            .receive = receive,
                                            .carry = cel__link_carry,
                                            .unchain = cel__link_unchain};
  link->base.poll = poll;
  link->base.chained = cel__link_chained;
  link->base.halt = cel__link_halt;
  link->base.busy = busy;
  link->base.destroy = destroy;
}
