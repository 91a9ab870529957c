#include "command/message.h"

#include "base/sort.h"

void cel__messages_release(cel__messages *m) {
  cel_vec_release(&m->message);
  cel_vec_release(&m->piece);
  cel_vec_release(&m->large);
  cel_vec_release(&m->boxes);
  cel_region_release(&m->region);
}

static int compare(const void *left, const void *right) {
  const cel__transfer *a = left, *b = right;
  if (a->order != b->order) return a->order < b->order ? -1 : 1;
  if (a->buffer->id != b->buffer->id)
    return a->buffer->id < b->buffer->id ? -1 : 1;
  return cel_box_compare(&a->box, &b->box);
}

static uint64_t bytes_of(const cel_piece *piece) {
  return (uint64_t)cel_box_volume(&piece->box) * piece->buffer->element_size;
}

/* Pieces are pushed while their array may move: the caller says where they are,
 * when it has a place for them. */
static void begin_message(cel__messages *m, int64_t peer) {
  cel_message message = {.peer = peer};
  cel_vec_push(&m->message, message);
}

static void add_piece(cel__messages *m, cel_piece piece, uint64_t bytes) {
  cel_vec_push(&m->piece, piece);
  cel_message *message = &cel_vec_last(&m->message);
  ++message->pieces;
  message->bytes += bytes;
}

/* A message for each part of at most `large_bytes`. */
static void add_large(cel__messages *m, int64_t peer, const cel_piece *whole,
                      uint64_t large_bytes) {
  uint64_t bytes = bytes_of(whole);
  if (bytes <= large_bytes) {
    begin_message(m, peer);
    add_piece(m, *whole, bytes);
    return;
  }
  int64_t step[CEL_DIMS];
  int64_t parts = cel_box_pieces(&whole->box, whole->buffer->element_size,
                                 large_bytes, step);
  for (int64_t i = 0; i < parts; ++i) {
    cel_piece piece = {whole->buffer, cel_box_piece(&whole->box, step, i)};
    begin_message(m, peer);
    add_piece(m, piece, bytes_of(&piece));
  }
}

/* Small pieces travel together, large ones wait for their turn. */
static void add_box(cel__messages *m, const cel__transfer *t, cel_box box,
                    const cel__limits *limits, bool *begun) {
  cel_piece piece = {t->buffer, box};
  uint64_t bytes = bytes_of(&piece);
  if (bytes > limits->small) {
    cel_vec_push(&m->large, piece);
    return;
  }
  if (!*begun || cel_vec_last(&m->message).bytes + bytes > limits->large)
    begin_message(m, t->peer);
  *begun = true;
  add_piece(m, piece, bytes);
}

/* The transfers [from, to) between one pair, of one buffer. */
static void add_buffer(cel__messages *m, const cel__transfer *from,
                       const cel__transfer *to, const cel__limits *limits,
                       bool *begun) {
  if (to - from == 1) {
    add_box(m, from, from->box, limits, begun);
    return;
  }
  cel_vec_clear(&m->boxes);
  for (const cel__transfer *t = from; t < to; ++t)
    cel_vec_push(&m->boxes, t->box);
  cel_region_assign(&m->region, m->boxes.at, m->boxes.n);
  for (uint32_t i = 0; i < m->region.n; ++i)
    add_box(m, from, m->region.at[i], limits, begun);
}

int32_t cel_rank_find(const int64_t *list, int32_t n, int64_t rank) {
  int32_t from = 0, to = n;
  while (from < to) {
    int32_t middle = (from + to) / 2;
    if (list[middle] < rank)
      from = middle + 1;
    else
      to = middle;
  }
  return from < n && list[from] == rank ? from : -1;
}

static void pack_peer(cel__messages *m, const cel__transfer *from,
                      const cel__transfer *to, const cel__limits *limits) {
  bool begun = false;
  cel_vec_clear(&m->large);
  for (const cel__transfer *t = from, *end; t < to; t = end) {
    for (end = t + 1; end < to && end->buffer == t->buffer;) ++end;
    add_buffer(m, t, end, limits, &begun);
  }
  bool near = cel_rank_find(limits->near, limits->nears, from->peer) >= 0;
  for (uint32_t i = 0; i < m->large.n; ++i)
    add_large(m, from->peer, &m->large.at[i],
              near ? limits->near_large : limits->large);
}

void cel__messages_pack(cel__messages *m, cel__transfers *transfers,
                        const cel__limits *limits) {
  cel_vec_clear(&m->message);
  cel_vec_clear(&m->piece);
  if (transfers->n == 0) return;
  cel_sort(transfers->at, transfers->n, sizeof *transfers->at, compare);
  const cel__transfer *last = transfers->at + transfers->n;
  for (const cel__transfer *t = transfers->at, *end; t < last; t = end) {
    for (end = t + 1; end < last && end->peer == t->peer;) ++end;
    pack_peer(m, t, end, limits);
  }
}
