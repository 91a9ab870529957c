#include "comm/road/road_state.h"
#include "tuning.h"

enum { IN, OUT }; /* of the device */

/* ---- channels ------------------------------------------------------------ */

cel__road_channel *cel__road_channel_of(cel__road *road, int64_t peer,
                                        bool sends) {
  uint32_t from = 0, to = road->channel.n;
  while (from < to) {
    uint32_t middle = (from + to) / 2;
    const cel__road_channel *c = road->channel.at[middle];
    if (c->peer == peer && c->sends == sends) return road->channel.at[middle];
    if (c->peer < peer || (c->peer == peer && c->sends < sends))
      from = middle + 1;
    else
      to = middle;
  }
  cel__road_channel *made = cel_alloc_zero(sizeof *made);
  made->peer = peer;
  made->sends = sends;
  made->hold = UINT64_MAX;
  cel_vec_push(&road->channel, made);
  for (uint32_t i = road->channel.n - 1; i > from; --i)
    road->channel.at[i] = road->channel.at[i - 1];
  return road->channel.at[from] = made;
}

static void line_up(cel__road *road, cel__road_channel *channel) {
  if (channel->lined || channel->waiting.n == 0) return;
  channel->lined = true;
  cel_vec_push(&road->line, channel);
}

/* By number; mostly they come in that order. */
static void wait_for_turn(cel__road_channel *channel,
                          cel__road_transfer *transfer) {
  cel_vec_push(&channel->waiting, transfer);
  uint32_t i = channel->waiting.n - 1;
  for (; i > 0 && channel->waiting.at[i - 1]->message->sequence >
                      transfer->message->sequence;
       --i)
    channel->waiting.at[i] = channel->waiting.at[i - 1];
  channel->waiting.at[i] = transfer;
}

/* ---- chunks -------------------------------------------------------------- */

static cel__road_chunk *take_chunk(cel__road *road) {
  if (road->spare.n > 0) return cel_vec_pop(&road->spare);
  cel__road_chunk *chunk = cel_alloc_zero(sizeof *chunk);
  cel_vec_push(&road->chunks, chunk);
  cel__road_bad(road,
                road->config.cuda->api->cuEventCreate(&chunk->copied,
                                                      CU_EVENT_DISABLE_TIMING),
                "making an event");
  return chunk;
}

static void copy(cel__road *road, cel__road_chunk *chunk, int way) {
  const cel_cuda *cuda = road->config.cuda;
  cel_cursor at = chunk->cursor;
  CUresult code =
      cel_cursor_copy(cuda, chunk->transfer->message, &at, chunk->posted.bytes,
                      (uintptr_t)chunk->buffer, way == OUT, road->stream[way]);
  if (code == CUDA_SUCCESS)
    code = cuda->api->cuEventRecord(chunk->copied, road->stream[way]);
  cel_vec_push(&road->copying[way], chunk);
  cel__road_bad(road, code,
                way == OUT ? "copying a message out" : "copying a message in");
}

static void post_inside(cel__road *road, cel__road_chunk *chunk) {
  const cel_message_table *inner = &road->inner->messages;
  if (chunk->channel->sends)
    inner->send(inner->self, &chunk->posted);
  else
    inner->receive(inner->self, &chunk->posted);
}

static void begin_chunk(cel__road *road, cel__road_transfer *transfer,
                        uint64_t bytes, void *buffer, bool packed) {
  cel__road_channel *channel = transfer->channel;
  cel__road_chunk *chunk = take_chunk(road);
  chunk->transfer = transfer;
  chunk->channel = channel;
  chunk->cursor = transfer->cursor;
  chunk->buffer = buffer;
  chunk->packed = packed;
  ++channel->held;
  if (road->failed) return; /* it has no event */
  chunk->piece = (cel_strided){buffer, {1, 1}, {bytes, bytes}, bytes};
  chunk->posted = (cel_posted){.ticket = CEL__ROAD_CHUNK | (uintptr_t)chunk,
                               .peer = channel->peer,
                               .sequence = channel->chunks++,
                               .bytes = bytes,
                               .pieces = 1,
                               .piece = &chunk->piece,
                               .line = CEL__LINE_CHUNKS};
  transfer->begun += bytes;
  cel_cursor_skip(transfer->message, &transfer->cursor, bytes);
  if (channel->sends && packed)
    copy(road, chunk, OUT);
  else
    post_inside(road, chunk);
}

static void release_chunk(cel__road *road, cel__road_chunk *chunk) {
  if (chunk->packed) cel_vec_push(&road->free, chunk->buffer);
  cel_vec_push(&road->spare, chunk);
  chunk->transfer = NULL;
  chunk->buffer = NULL;
  --chunk->channel->held;
  line_up(road, chunk->channel);
}

static void end_chunk(cel__road *road, cel__road_chunk *chunk) {
  cel__road_transfer *transfer = chunk->transfer;
  transfer->left -= chunk->posted.bytes;
  if (transfer->left == 0) cel__road_end(road, transfer);
  release_chunk(road, chunk);
}

void cel__road_arrived(cel__road *road, cel__road_chunk *chunk) {
  if (road->failed)
    release_chunk(road, chunk);
  else if (chunk->channel->sends || !chunk->packed)
    end_chunk(road, chunk);
  else
    copy(road, chunk, IN);
}

/* ---- going on ------------------------------------------------------------ */

static uint64_t next_chunk(const cel__road *road,
                           const cel__road_transfer *transfer) {
  uint64_t bytes = cel_road_chunk(&road->config, transfer->message->bytes);
  uint64_t left = transfer->message->bytes - transfer->begun;
  return bytes < left ? bytes : left;
}

/* Where MPI finds these bytes in the GPU's memory; null: they are to be
 * packed. */
static void *unpacked(const cel__road *road, const cel__road_transfer *transfer,
                      uint64_t bytes) {
  if (road->config.way != CEL_ROAD_MPI) return NULL;
  uintptr_t at = cel_cursor_dense(transfer->message, &transfer->cursor, bytes);
  return (void *)at; // NOLINT: the driver's addresses
}

/* All of it into chunks; false: it lacks a buffer. */
static bool begin(cel__road *road, cel__road_transfer *transfer) {
  cel__road_channel *channel = transfer->channel;
  while (transfer->begun < transfer->message->bytes && !road->failed) {
    if (channel->held == CEL_TUNE_ROAD_DEPTH) return false;
    uint64_t bytes = next_chunk(road, transfer);
    void *memory = unpacked(road, transfer, bytes);
    bool packed = memory == NULL;
    if (packed) memory = cel__road_take(road, channel->held == 0);
    if (memory == NULL) {
      line_up(road, channel);
      return false;
    }
    begin_chunk(road, transfer, bytes, memory, packed);
  }
  return !road->failed;
}

/* A channel that has moved much finds out whether NCCL is faster. Both ends
 * come to that before the same message. */
static void consider(cel__road *road, cel__road_channel *channel) {
  if (channel->tried || road->config.way != CEL_ROAD_CHOSEN ||
      channel->taken < road->config.try_bytes)
    return;
  cel__road_open_lane(road, channel);
}

cel__road_transfer *cel__road_next(const cel__road_channel *channel) {
  if (channel->waiting.n == 0) return NULL;
  cel__road_transfer *first = channel->waiting.at[0];
  bool turn = first->message->sequence == channel->next &&
              channel->next < channel->hold;
  return first->trial || turn ? first : NULL;
}

uint64_t cel__road_unbegun(const cel__road_channel *channel) {
  const cel__road_transfer *first =
      channel->waiting.n > 0 ? channel->waiting.at[0] : NULL;
  return channel->next + (first != NULL && first->begun > 0);
}

void cel__road_taken(cel__road_channel *channel) {
  const cel__road_transfer *first = channel->waiting.at[0];
  channel->next += !first->trial;
  ++channel->under;
  channel->taken += first->message->bytes;
  cel_vec_drop_first(&channel->waiting, 1);
}

void cel__road_go_on(cel__road *road, cel__road_channel *channel) {
  cel__road_transfer *first;
  if (channel->by_lane) {
    cel__road_lane_go_on(road, channel->lane);
    return;
  }
  while (!road->failed && (first = cel__road_next(channel)) != NULL) {
    if (first->begun == 0) consider(road, channel);
    if (!begin(road, first)) return;
    cel__road_taken(channel);
  }
}

static cel__road_transfer *make_transfer(cel__road *road,
                                         cel__road_channel *channel,
                                         const cel_posted *message) {
  cel__road_transfer *transfer = cel_alloc_zero(sizeof *transfer);
  transfer->message = message;
  transfer->channel = channel;
  transfer->left = message->bytes;
  transfer->at = road->transfers.n;
  cel_vec_push(&road->transfers, transfer);
  return transfer;
}

void cel__road_post(cel__road *road, const cel_posted *message, bool sends) {
  cel__road_channel *channel = cel__road_channel_of(road, message->peer, sends);
  wait_for_turn(channel, make_transfer(road, channel, message));
  if (road->config.way == CEL_ROAD_NCCL && !channel->tried)
    cel__road_open_lane(road, channel);
  cel__road_go_on(road, channel);
}

void cel__road_post_trial(cel__road *road, cel__road_lane *lane) {
  cel__road_channel *channel = lane->channel;
  cel__road_transfer *transfer = make_transfer(road, channel, &lane->trial);
  transfer->trial = true;
  cel_vec_push(&channel->waiting, transfer);
  for (uint32_t i = channel->waiting.n - 1; i > 0; --i)
    channel->waiting.at[i] = channel->waiting.at[i - 1];
  channel->waiting.at[0] = transfer;
  cel__road_go_on(road, channel);
}

/* Copies end in the order in which they were put. */
static void take_copied(cel__road *road, int way) {
  const cel_cuda_api *api = road->config.cuda->api;
  uint32_t n = 0;
  for (; n < road->copying[way].n && !road->failed; ++n) {
    cel__road_chunk *chunk = road->copying[way].at[n];
    CUresult code = api->cuEventQuery(chunk->copied);
    if (code == CUDA_ERROR_NOT_READY ||
        cel__road_bad(road, code, "copying a message"))
      break;
    if (way == IN)
      end_chunk(road, chunk);
    else
      post_inside(road, chunk);
  }
  if (n > 0) cel_vec_drop_first(&road->copying[way], n);
}

void cel__road_progress(cel__road *road) {
  take_copied(road, IN);
  take_copied(road, OUT);
  for (uint32_t n = road->line.n; n > 0 && !road->failed; --n) {
    cel__road_channel *first = road->line.at[0];
    cel_vec_drop_first(&road->line, 1);
    first->lined = false;
    cel__road_go_on(road, first);
  }
  for (uint32_t i = road->lanes.n; i > 0 && !road->failed; --i) {
    cel__road_channel *channel = road->lanes.at[i - 1]->channel;
    cel__road_meet(road, channel->lane);
    if (channel->by_lane) cel__road_go_on(road, channel);
  }
}
