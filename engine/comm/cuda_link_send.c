#include "comm/cuda_link_state.h"

enum {
  WHOLE = 16 << 20, /* so much is one part */
  LAST = 8 << 20    /* of more, the last part has so much */
};

/* ---- who wants what ------------------------------------------------------ */

static void start(cel__link *link, cel__link_transfer *transfer,
                  uint64_t expected) {
  const cel_posted *message = transfer->message;
  if (message->bytes == expected) {
    cel_vec_push(&link->wanted, transfer);
    return;
  }
  cel__link_tell(link, transfer->peer,
                 (cel_host_record){.kind = CEL__LINK_REFUSE,
                                   .sequence = message->sequence,
                                   .bytes = message->bytes});
  cel__link_mismatch(message, expected);
  cel__link_end(link, transfer, false);
}

void cel__link_send(cel__link *link, cel__link_transfer *transfer) {
  cel__link_peer *peer = transfer->peer;
  for (uint32_t i = 0; i < peer->wants.n; ++i) {
    if (peer->wants.at[i].sequence != transfer->message->sequence) continue;
    uint64_t expected = peer->wants.at[i].bytes;
    cel_vec_swap_out(&peer->wants, i);
    start(link, transfer, expected);
    cel__link_fill(link);
    return;
  }
  cel_vec_push(&peer->sends, transfer);
}

void cel__link_want(cel__link *link, cel__link_peer *peer,
                    const cel_host_record *word) {
  for (uint32_t i = 0; i < peer->sends.n; ++i) {
    cel__link_transfer *transfer = peer->sends.at[i];
    if (transfer->message->sequence != word->sequence) continue;
    cel_vec_swap_out(&peer->sends, i);
    start(link, transfer, word->bytes);
    return;
  }
  cel_vec_push(&peer->wants, *word);
}

/* ---- slots --------------------------------------------------------------- */

void cel__link_free(cel__link_peer *peer, const cel_host_record *word) {
  cel_assert(word->slot < CEL_MAIL_SLOTS && peer->full[word->slot]);
  peer->full[word->slot] = false;
}

/* How many bytes the next part is to have, if a slot holds as many. Each part
 * costs 7 us besides its bytes, on however many streams. While the last one is
 * copied out of its slot nothing else moves: 10 us up to 4 MiB, 12 for 8, 14
 * for 16 and 41 for 64. */
static uint64_t part_of(const cel__link_transfer *transfer) {
  uint64_t left = transfer->message->bytes - transfer->begun;
  return left <= WHOLE ? left : left - LAST;
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

/* Fills a slot with the next part; false where none is empty. */
static bool fill_one(cel__link *link, cel__link_transfer *transfer) {
  const cel_cuda_api *api = link->cuda->api;
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
  if (code == CUDA_SUCCESS)
    code = api->cuEventRecord(peer->mailbox.filled[slot], link->stream);
  if (cel__link_bad(link, code, "sending to", transfer->message->peer))
    return false;
  peer->full[slot] = peer->filling[slot] = true;
  ++transfer->copies;
  cel_vec_push(&link->parts, (cel__link_part){transfer, (uint32_t)slot});
  cel__link_tell(link, peer,
                 (cel_host_record){.kind = CEL__LINK_FILL,
                                   .slot = (uint32_t)slot,
                                   .sequence = transfer->message->sequence,
                                   .bytes = bytes});
  return true;
}

/* Whether a slot has been filled: one that has been emptied was. */
static bool is_filled(cel__link *link, const cel__link_part *part) {
  const cel__link_peer *peer = part->transfer->peer;
  if (!peer->full[part->slot]) return true;
  CUresult code =
      link->cuda->api->cuEventQuery(peer->mailbox.filled[part->slot]);
  if (code == CUDA_ERROR_NOT_READY) return false;
  return !cel__link_bad(link, code, "sending", -1);
}

static void take_filled(cel__link *link) {
  uint32_t n = 0;
  while (n < link->parts.n && is_filled(link, &link->parts.at[n])) {
    cel__link_transfer *transfer = link->parts.at[n].transfer;
    transfer->peer->filling[link->parts.at[n].slot] = false;
    ++n;
    if (--transfer->copies == 0 && transfer->begun == transfer->message->bytes)
      cel__link_end(link, transfer, true);
  }
  if (n > 0) cel_vec_drop_first(&link->parts, n);
}

/* Slots are given in turns, one to each message. */
void cel__link_fill(cel__link *link) {
  take_filled(link);
  for (bool any = true; any && !link->failed;) {
    any = false;
    for (uint32_t i = 0; i < link->wanted.n && !link->failed;) {
      cel__link_transfer *transfer = link->wanted.at[i];
      bool filled = fill_one(link, transfer);
      bool over = transfer->message->chained
                      ? filled
                      : transfer->begun == transfer->message->bytes;
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
