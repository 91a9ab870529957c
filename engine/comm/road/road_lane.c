/* Messages that go by NCCL, in parts: each is a send and a receive, of which
 * either waits on its GPU until the other one is there, in the way of whoever
 * waits for the whole GPU. So both ends have posted a part before it is put at
 * either, and the end of the lower rank puts it first:
 *
 *   end of the higher rank               end of the lower rank
 *     it has the part            ->        it has the part, too: puts it
 *     puts it                    <-        it has put it
 *
 * Why nothing waits in a circle: see road.h. */
#include "comm/road/road_state.h"
#include "device/clock.h"
#include "tuning.h"

enum { WORD = 8 /* bytes of a letter about a part */ };

static void *pointer(CUdeviceptr at) {
  return (void *)(uintptr_t)at; // NOLINT: the driver's addresses
}

static bool is_lower(const cel__road *road, const cel__road_lane *lane) {
  return road->base.rank < lane->channel->peer;
}

/* In a trial that is a word about NCCL, and nothing else fails. */
static void give_up_trial(cel__road *road, cel__road_lane *lane) {
  cel__road_transfer *t = lane->transfer;
  road->nccl->ncclCommAbort(lane->comm);
  lane->comm = NULL;
  lane->broken = true;
  lane->step = CEL__PART_NONE;
  lane->transfer = NULL;
  cel__road_end(road, t);
}

static void fail(cel__road *road, cel__road_lane *lane) {
  if (lane->transfer->trial) {
    give_up_trial(road, lane);
    return;
  }
  const char *more = road->nccl->ncclGetLastError(lane->comm);
  bool says = more != NULL && more[0] != '\0';
  cel_fail(CEL_E_COMM,
           "GPU %d: NCCL failed while moving a message between ranks %lld and "
           "%lld: %s%s%.300s",
           road->config.cuda->device[0].ordinal, (long long)road->base.rank,
           (long long)lane->channel->peer,
           road->nccl->ncclGetErrorString(lane->code), says ? ": " : "",
           says ? more : "");
  cel__road_fail(road);
}

/* Asks NCCL how it is. */
static void ask(const cel__road *road, cel__road_lane *lane) {
  ncclResult_t code = ncclSuccess;
  ncclResult_t asked = road->nccl->ncclCommGetAsyncError(lane->comm, &code);
  lane->code = asked == ncclSuccess ? code : asked;
}

/* A trial that takes so long has failed. */
static bool takes_too_long(const cel__road_lane *lane) {
  return lane->transfer->trial && cel_now_ns() > lane->deadline;
}

/* ---- a part -------------------------------------------------------------- */

/* Where it lies, or is packed. */
static void find_place(cel__road *road, cel__road_lane *lane) {
  const cel_cuda_api *api = road->config.cuda->api;
  lane->at =
      cel_cursor_dense(lane->transfer->message, &lane->cursor, lane->bytes);
  lane->packed = lane->at == 0;
  if (!lane->packed) return;
  if (lane->buffer == 0 &&
      cel__road_bad(road,
                    api->cuMemAlloc_v2(&lane->buffer, road->config.part_most),
                    "making a buffer for messages"))
    return;
  lane->at = lane->buffer;
}

/* The next one, if there is one; both ends cut alike. */
static bool begin(cel__road *road, cel__road_lane *lane) {
  cel__road_channel *channel = lane->channel;
  static const cel__road_note word;
  cel__road_transfer *t = lane->transfer;
  if (t == NULL) {
    t = cel__road_next(channel);
    if (t == NULL) return false;
    lane->transfer = t;
    cel__road_taken(channel);
  }
  lane->cursor = t->cursor;
  lane->bytes = t->message->bytes - t->begun;
  if (lane->bytes > road->config.part_most)
    lane->bytes = road->config.part_most;
  t->begun += lane->bytes;
  cel_cursor_skip(t->message, &t->cursor, lane->bytes);
  find_place(road, lane);
  if (road->failed) return false;
  if (!is_lower(road, lane)) cel__road_tell(road, lane, &word, WORD);
  cel__road_expect(road, lane, WORD);
  lane->step = CEL__PART_AWAITS;
  return true;
}

static bool copied(cel__road *road, const cel__road_lane *lane, bool out) {
  cel_cursor at = lane->cursor;
  if (!lane->packed || lane->channel->sends != out) return true;
  CUresult code =
      cel_cursor_copy(road->config.cuda, lane->transfer->message, &at,
                      lane->bytes, lane->at, out, lane->stream);
  return !cel__road_bad(road, code,
                        out ? "packing a message" : "unpacking a message");
}

static bool put(cel__road *road, cel__road_lane *lane) {
  const cel_nccl_api *api = road->nccl;
  static const cel__road_note word;
  if (!copied(road, lane, true)) return false;
  ncclResult_t code = api->ncclGroupStart();
  if (code == ncclSuccess)
    code = lane->channel->sends
               ? api->ncclSend(pointer(lane->at), lane->bytes, ncclInt8, 1,
                               lane->comm, lane->stream)
               : api->ncclRecv(pointer(lane->at), lane->bytes, ncclInt8, 0,
                               lane->comm, lane->stream);
  if (code == ncclInProgress) code = ncclSuccess;
  ncclResult_t ended = api->ncclGroupEnd();
  lane->code = code == ncclSuccess ? ended : code;
  lane->step = CEL__PART_PUT;
  if (is_lower(road, lane)) cel__road_tell(road, lane, &word, WORD);
  return true;
}

static bool record(cel__road *road, cel__road_lane *lane) {
  if (lane->code == ncclInProgress) ask(road, lane);
  if (lane->code == ncclInProgress && !takes_too_long(lane)) return false;
  if (lane->code != ncclSuccess) {
    fail(road, lane);
    return false;
  }
  lane->step = CEL__PART_RUNS;
  return copied(road, lane, false) &&
         !cel__road_bad(
             road,
             road->config.cuda->api->cuEventRecord(lane->through, lane->stream),
             "moving a message");
}

/* What the stream has come to; now and then, whether NCCL has found a fault. */
static bool end(cel__road *road, cel__road_lane *lane) {
  CUresult code = road->config.cuda->api->cuEventQuery(lane->through);
  if (code == CUDA_ERROR_NOT_READY) {
    if (++road->polls % CEL_TUNE_NCCL_POLLS == 0) ask(road, lane);
    bool fault = lane->code != ncclSuccess && lane->code != ncclInProgress;
    if (fault || takes_too_long(lane)) fail(road, lane);
    return false;
  }
  if (cel__road_bad(road, code, "moving a message")) return false;
  lane->step = CEL__PART_NONE;
  cel__road_transfer *t = lane->transfer;
  t->left -= lane->bytes;
  if (t->left > 0) return true;
  lane->transfer = NULL;
  cel__road_end(road, t);
  return true;
}

/* ---- going on ------------------------------------------------------------ */

static bool step(cel__road *road, cel__road_lane *lane) {
  switch (lane->step) {
  case CEL__PART_NONE: return begin(road, lane);
  case CEL__PART_AWAITS: return cel__road_heard(lane) && put(road, lane);
  case CEL__PART_PUT: return record(road, lane);
  default: return end(road, lane);
  }
}

void cel__road_lane_go_on(cel__road *road, cel__road_lane *lane) {
  while (!road->failed && step(road, lane)) {
  }
}
