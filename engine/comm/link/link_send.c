#include "comm/link/link_state.h"
#include "tuning.h"

/* ---- who wants what ------------------------------------------------------ */

static void refuse(cel__link *link, cel__link_transfer *transfer,
                   uint64_t expected) {
  const cel_posted *message = transfer->message;
  cel__link_tell(link, transfer->peer,
                 (cel_host_record){.kind = CEL__LINK_REFUSE,
                                   .sequence = message->sequence,
                                   .bytes = message->bytes});
  cel__link_mismatch(message, expected);
  cel__link_end(link, transfer, false);
}

/* The message is here and wanted. What `want` owns is freed. */
static void start(cel__link *link, cel__link_transfer *transfer,
                  const cel__link_wish *want) {
  cel__link_peer *peer = transfer->peer;
  if (transfer->message->bytes != want->bytes) {
    refuse(link, transfer, want->bytes);
  } else if (want->landing == NULL) {
    cel_vec_push(&link->wanted, transfer);
  } else if (!cel__link_write(link, transfer, want)) {
    cel_vec_push(&peer->sends, transfer);
    cel__link_tell(link, peer,
                   (cel_host_record){.kind = CEL__LINK_CANNOT,
                                     .sequence = want->sequence});
  }
  cel_free(want->landing);
}

void cel__link_send(cel__link *link, cel__link_transfer *transfer) {
  cel__link_peer *peer = transfer->peer;
  for (uint32_t i = 0; i < peer->wants.n; ++i) {
    cel__link_wish want = peer->wants.at[i];
    if (want.sequence != transfer->message->sequence) continue;
    cel_vec_swap_out(&peer->wants, i);
    start(link, transfer, &want);
    cel__link_fill(link);
    return;
  }
  cel_vec_push(&peer->sends, transfer);
}

/* With the landings that were named before it. */
static cel__link_wish want_of(cel__link_peer *peer,
                              const cel_host_record *word) {
  cel__link_wish want = {.sequence = word->sequence, .bytes = word->bytes};
  if (word->kind == CEL__LINK_WANT) return want;
  cel_assert(peer->landings.n == word->slot);
  want.landings = word->slot;
  want.landing = cel_alloc(want.landings * sizeof *want.landing);
  memcpy(want.landing, peer->landings.at, want.landings * sizeof *want.landing);
  cel_vec_clear(&peer->landings);
  return want;
}

void cel__link_want(cel__link *link, cel__link_peer *peer,
                    const cel_host_record *word) {
  cel__link_wish want = want_of(peer, word);
  for (uint32_t i = 0; i < peer->sends.n; ++i) {
    cel__link_transfer *transfer = peer->sends.at[i];
    if (transfer->message->sequence != word->sequence) continue;
    cel_vec_swap_out(&peer->sends, i);
    start(link, transfer, &want);
    return;
  }
  cel_vec_push(&peer->wants, want);
}

/* ---- slots --------------------------------------------------------------- */

void cel__link_free(cel__link_peer *peer, const cel_host_record *word) {
  cel_assert(word->slot < CEL_MAIL_SLOTS && peer->full[word->slot]);
  peer->full[word->slot] = false;
}

/* How many bytes the next part is to have, if a slot holds as many. Each part
 * costs 4 us or 7 besides its bytes, on however many streams. While the last
 * one is copied out of its slot nothing else moves: 10 us up to 4 MiB, 14 for
 * 16, 41 for 64. Three quarters are copied out before the rest has come. */
static uint64_t part_of(const cel__link_transfer *transfer) {
  uint64_t left = transfer->message->bytes - transfer->begun;
  return left <= CEL_TUNE_LINK_WHOLE ? left : left - left / 4;
}

static const cel_mail_size *size_for(uint64_t part) {
  int i = 0;
  while (i + 1 < CEL_MAIL_SIZES && part > cel_mail_sizes[i].bytes) ++i;
  return &cel_mail_sizes[i];
}

/* An empty one, or -1. */
static int find_slot(const cel__link_peer *peer, const cel_mail_size *size) {
  for (uint32_t i = size->first; i < size->first + size->slots; ++i)
    if (!peer->full[i] && !peer->filling[i]) return (int)i;
  return -1;
}

/* How many bytes of the rest go into a slot of `n`: where a piece does not fit,
 * whole planes of it, or rows, as these are one copy. */
static uint64_t fitting(const cel__link_transfer *transfer, uint64_t n) {
  const cel_posted *message = transfer->message;
  uint64_t left = message->bytes - transfer->begun;
  if (left <= n) return left;
  const cel_strided *piece = &message->piece[transfer->cursor.piece];
  uint64_t plane = piece->run * piece->count[1];
  if (plane * piece->count[0] - transfer->cursor.within <= n) return n;
  uint64_t unit = plane <= n ? plane : piece->run;
  uint64_t past = (transfer->cursor.within + n) % unit;
  return past < n ? n - past : n;
}

/* The receiver's stream waits for the last part, as that is sooner; for the
 * others it is told when they are there, as an event for another process costs
 * 3 us more. */
static CUevent *event_of(const cel__link_slot *slot) {
  cel__link_peer *peer = slot->transfer->peer;
  return slot->last ? &peer->mailbox.filled[slot->number]
                    : &peer->sent[slot->number];
}

static CUresult mark_filled(const cel__link *link, const cel__link_slot *slot) {
  const cel_cuda_api *api = link->cuda->api;
  CUevent *event = event_of(slot);
  CUresult code = CUDA_SUCCESS;
  if (*event == NULL) code = api->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
  return code == CUDA_SUCCESS ? api->cuEventRecord(*event, link->stream) : code;
}

/* Whether a slot has been filled: one that has been emptied was. */
static bool is_filled(cel__link *link, const cel__link_slot *slot) {
  if (!slot->transfer->peer->full[slot->number]) return true;
  CUresult code = link->cuda->api->cuEventQuery(*event_of(slot));
  if (code == CUDA_ERROR_NOT_READY) return false;
  return !cel__link_bad(link, code, "sending", -1);
}

/* Receivers hear of parts in their order. */
static void tell_parts(cel__link *link) {
  for (; link->told < link->slots.n; ++link->told) {
    const cel__link_slot *slot = &link->slots.at[link->told];
    if (!slot->last && !is_filled(link, slot)) return;
    cel__link_tell(link, slot->transfer->peer,
                   (cel_host_record){
                       .kind = CEL__LINK_FILL,
                       .slot = slot->number,
                       .sequence = slot->transfer->message->sequence,
                       .bytes = slot->bytes,
                   });
  }
}

/* Fills a slot with the next part; false where none is empty. */
static bool fill_one(cel__link *link, cel__link_transfer *transfer) {
  cel__link_peer *peer = transfer->peer;
  uint64_t part = part_of(transfer);
  const cel_mail_size *size = size_for(part);
  uint64_t bytes = fitting(transfer, part < size->bytes ? part : size->bytes);
  int slot = find_slot(peer, size);
  if (slot < 0) return false;
  if (transfer->message->chained) {
    cel__link_chain_send(link, transfer, (uint32_t)slot);
    return true;
  }
  CUresult code =
      cel__link_copy(link, transfer, cel_mailbox_slot(peer->mailbox.out, slot),
                     bytes, true, link->stream);
  cel__link_slot filling = {.transfer = transfer,
                            .number = (uint32_t)slot,
                            .bytes = bytes,
                            .last = cel__link_all_begun(transfer)};
  if (code == CUDA_SUCCESS) code = mark_filled(link, &filling);
  if (cel__link_bad(link, code, "sending to", transfer->message->peer))
    return false;
  peer->full[slot] = peer->filling[slot] = true;
  ++transfer->copies;
  cel_vec_push(&link->slots, filling);
  tell_parts(link);
  return true;
}

static void take_filled(cel__link *link) {
  uint32_t n = 0;
  tell_parts(link);
  while (n < link->told && is_filled(link, &link->slots.at[n])) {
    cel__link_transfer *transfer = link->slots.at[n].transfer;
    transfer->peer->filling[link->slots.at[n].number] = false;
    ++n;
    if (--transfer->copies == 0 && cel__link_all_begun(transfer))
      cel__link_end(link, transfer, true);
  }
  link->told -= n;
  if (n > 0) cel_vec_drop_first(&link->slots, n);
}

/* Slots are given in turns, one to each message. */
void cel__link_fill(cel__link *link) {
  take_filled(link);
  for (bool any = true; any && !link->failed;) {
    any = false;
    for (uint32_t i = 0; i < link->wanted.n && !link->failed;) {
      cel__link_transfer *transfer = link->wanted.at[i];
      bool filled = fill_one(link, transfer);
      bool over =
          transfer->message->chained ? filled : cel__link_all_begun(transfer);
      any |= filled;
      if (!link->failed && over) {
        memmove(link->wanted.at + i, link->wanted.at + i + 1,
                (--link->wanted.n - i) * sizeof transfer);
      } else {
        ++i;
      }
    }
  }
}
