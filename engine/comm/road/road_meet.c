/* How the two ends of a channel start NCCL between them. Letters go each way in
 * order, so both know which one is next:
 *
 *   sender                               receiver
 *     what it has, and an id         ->
 *                                    <-    whether it can
 *     NCCL starts, for seconds, in a thread of its own, beside all else
 *     whether it has                 ->
 *                                    <-    whether it has
 *
 * Each says the last word without waiting for the other's. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "comm/road/road_state.h"
#include "device/clock.h"
#include "tuning.h"

int64_t cel__road_deadline(const cel__road *road) {
  return cel_now_ns() + road->config.patience_ns;
}

/* ---- letters ------------------------------------------------------------- */

static uint8_t line_of(const cel__road_lane *lane, bool goes) {
  return lane->channel->sends == goes ? CEL__LINE_FORTH : CEL__LINE_BACK;
}

static void address(cel__road_letter *letter, uint64_t number, uint32_t size) {
  const cel__road_lane *lane = letter->lane;
  letter->piece = (cel_strided){&letter->note, {1, 1}, {size, size}, size};
  letter->posted = (cel_posted){.ticket = CEL__ROAD_CHUNK | CEL__ROAD_LETTER |
                                          (uintptr_t)letter,
                                .peer = lane->channel->peer,
                                .sequence = number,
                                .bytes = size,
                                .pieces = 1,
                                .piece = &letter->piece,
                                .line = line_of(lane, !letter->comes)};
}

void cel__road_tell(cel__road *road, cel__road_lane *lane,
                    const cel__road_note *note, uint32_t size) {
  const cel_message_table *inner = &road->inner->messages;
  cel__road_letter *letter = cel_alloc_zero(sizeof *letter);
  letter->lane = lane;
  memcpy(&letter->note, note, size);
  letter->at = road->letters.n;
  cel_vec_push(&road->letters, letter);
  address(letter, lane->went++, size);
  inner->send(inner->self, &letter->posted);
}

void cel__road_expect(cel__road *road, cel__road_lane *lane, uint32_t size) {
  const cel_message_table *inner = &road->inner->messages;
  lane->in.lane = lane;
  lane->in.comes = true;
  address(&lane->in, lane->came++, size);
  inner->receive(inner->self, &lane->in.posted);
}

bool cel__road_heard(cel__road_lane *lane) {
  bool heard = lane->in.unread;
  lane->in.unread = false;
  return heard;
}

void cel__road_delivered(cel__road *road, cel__road_letter *letter) {
  if (letter->comes) {
    letter->unread = true;
    return;
  }
  cel__road_letter *last = cel_vec_last(&road->letters);
  last->at = letter->at;
  cel_vec_swap_out(&road->letters, letter->at);
  cel_free(letter);
}

/* ---- what this end has --------------------------------------------------- */

static cel_status to_status(const cel__road *road, ncclResult_t code) {
  if (code == ncclSuccess) return CEL_E_OK;
  return cel_fail(CEL_E_COMM, "NCCL: %s", road->nccl->ncclGetErrorString(code));
}

/* Trials are made in the buffer. */
static cel_status make_lane(cel__road *road, cel__road_lane *lane) {
  const cel_cuda_api *api = road->config.cuda->api;
  bool tries = road->config.way == CEL_ROAD_CHOSEN;
  /* A message is not to wait for a kernel that fills the device. */
  CUresult code = api->cuStreamCreateWithPriority(&lane->stream,
                                                  CU_STREAM_NON_BLOCKING, -1);
  if (code == CUDA_SUCCESS)
    code = api->cuEventCreate(&lane->through, CU_EVENT_DISABLE_TIMING);
  if (code == CUDA_SUCCESS && tries)
    code = api->cuMemAlloc_v2(&lane->buffer, road->config.part_most);
  if (code == CUDA_SUCCESS) return CEL_E_OK;
  return cel_fail(CEL_E_COMM, "its GPU has no stream or memory left: %s",
                  cel_cuda_api_text(api, code));
}

static cel_status describe(cel__road *road, cel__road_lane *lane,
                           cel__road_note *note) {
  note->full = road->lanes.n > road->config.lanes;
  if (road->nccl == NULL) return cel_fail(CEL_E_MISSING, "it has no NCCL");
  CEL_TRY(make_lane(road, lane));
  CEL_TRY(cel_nccl_identify(road->config.cuda, 0, &note->gpu));
  CEL_TRY(to_status(road, road->nccl->ncclGetVersion(&note->version)));
  if (!lane->channel->sends) return CEL_E_OK;
  return to_status(road, road->nccl->ncclGetUniqueId(&note->id));
}

/* What this end lacks; empty: nothing. */
static void excuse(cel__road_note *note, cel_status status) {
  snprintf(note->why, sizeof note->why, "%.*s", (int)sizeof note->why - 1,
           status == CEL_E_OK ? "" : cel_error_last()->text);
}

/* The receiver finds what is wrong with both. */
static void compare(cel__road_note *mine, const cel__road_note *other) {
  char one[32], two[32];
  if (mine->why[0] != '\0' || other->why[0] != '\0') return;
  cel_nccl_version_text(mine->version, one, sizeof one);
  cel_nccl_version_text(other->version, two, sizeof two);
  if (mine->gpu == other->gpu)
    snprintf(mine->why, sizeof mine->why, "it has the other one's GPU");
  else if (mine->version != other->version)
    snprintf(mine->why, sizeof mine->why, "it has NCCL %s, the other one %s",
             one, two);
}

/* ---- outcomes ------------------------------------------------------------ */

static void release_lane(cel__road *road, cel__road_lane *lane) {
  const cel_cuda_api *api = road->config.cuda->api;
  if (lane->through != NULL) api->cuEventDestroy_v2(lane->through);
  if (lane->stream != NULL) api->cuStreamDestroy_v2(lane->stream);
  if (lane->buffer != 0) api->cuMemFree_v2(lane->buffer);
  cel_free(lane);
}

/* Both ends do without: the channel goes in chunks. */
static void close_lane(cel__road *road, cel__road_lane *lane) {
  cel__road_channel *channel = lane->channel;
  uint32_t i = 0;
  while (road->lanes.at[i] != lane) ++i;
  cel_vec_swap_out(&road->lanes, i);
  if (lane->comm != NULL) road->nccl->ncclCommAbort(lane->comm);
  release_lane(road, lane);
  channel->lane = NULL;
  channel->hold = UINT64_MAX;
  cel__road_go_on(road, channel);
}

/* Whether an end cannot go on: then the channel does without, or, if all are to
 * go by NCCL, all messages here fail. */
static bool refuses(cel__road *road, cel__road_lane *lane,
                    const cel__road_note *other) {
  bool mine = lane->mine.why[0] != '\0';
  if (!mine && other->why[0] == '\0') return false;
  if (road->config.way == CEL_ROAD_CHOSEN) {
    close_lane(road, lane);
    return true;
  }
  long long here = road->base.rank, there = lane->channel->peer;
  cel_fail(CEL_E_COMM,
           "messages between the GPUs of ranks %lld and %lld cannot go by NCCL "
           "(--between nccl): rank %lld: %s",
           here, there, mine ? here : there,
           mine ? lane->mine.why : other->why);
  cel__road_fail(road);
  return true;
}

/* ---- steps --------------------------------------------------------------- */

void cel__road_open_lane(cel__road *road, cel__road_channel *channel) {
  cel__road_lane *lane = cel_alloc_zero(sizeof *lane);
  lane->channel = channel;
  lane->best[0] = lane->best[1] = INT64_MAX;
  channel->lane = lane;
  channel->tried = true;
  if (road->config.way == CEL_ROAD_NCCL) channel->hold = 0;
  cel_vec_push(&road->lanes, lane);
  excuse(&lane->mine, describe(road, lane, &lane->mine));
  if (channel->sends)
    cel__road_tell(road, lane, &lane->mine, sizeof lane->mine);
  cel__road_expect(road, lane, sizeof lane->mine);
}

/* Calls are not blocking: a thread of NCCL's does it. */
static void start(cel__road *road, cel__road_lane *lane, ncclUniqueId id) {
  ncclConfig config = CEL_NCCL_CONFIG;
  config.maxCTAs = CEL_TUNE_ROAD_NCCL_BLOCKS;
  lane->stage = CEL__LANE_STARTS;
  lane->deadline = cel__road_deadline(road);
  lane->code = road->nccl->ncclCommInitRankConfig(
      &lane->comm, 2, id, lane->channel->sends ? 0 : 1, &config);
}

/* What the other end has; this one's answer. */
static void offered(cel__road *road, cel__road_lane *lane) {
  const cel__road_note *other = &lane->in.note;
  bool sends = lane->channel->sends;
  if (!sends) {
    lane->mine.full = other->full || road->lanes.n > road->config.lanes;
    compare(&lane->mine, other);
    cel__road_tell(road, lane, &lane->mine, sizeof lane->mine);
  }
  if (refuses(road, lane, other)) return;
  if (sends ? other->full : lane->mine.full)
    close_lane(road, lane);
  else
    start(road, lane, sends ? lane->mine.id : other->id);
}

/* Whether NCCL is still at it. */
static bool starts(cel__road *road, cel__road_lane *lane) {
  cel_status status = CEL_E_OK;
  ncclResult_t code = lane->code;
  if (code == ncclInProgress &&
      road->nccl->ncclCommGetAsyncError(lane->comm, &code) == ncclSuccess &&
      code == ncclInProgress) {
    if (cel_now_ns() < lane->deadline) return true;
    status = cel_fail(CEL_E_COMM, "NCCL takes too long to start");
  } else {
    status = to_status(road, code);
  }
  excuse(&lane->mine, status);
  return false;
}

/* The receiver begins nothing from now on, until it knows where to stop. */
static void started(cel__road *road, cel__road_lane *lane) {
  cel__road_channel *channel = lane->channel;
  lane->stage = CEL__LANE_HEARS;
  lane->mine.next = cel__road_unbegun(channel);
  if (!channel->sends) channel->hold = lane->mine.next;
  cel__road_tell(road, lane, &lane->mine, sizeof lane->mine);
  cel__road_expect(road, lane, sizeof lane->mine);
}

static void heard_of_start(cel__road *road, cel__road_lane *lane) {
  if (refuses(road, lane, &lane->in.note)) return;
  if (road->config.way == CEL_ROAD_NCCL)
    cel__road_settle(road, lane, true);
  else
    cel__road_try(road, lane);
}

void cel__road_meet(cel__road *road, cel__road_lane *lane) {
  switch (lane->stage) {
  case CEL__LANE_OFFERS:
    if (cel__road_heard(lane)) offered(road, lane);
    break;
  case CEL__LANE_STARTS:
    if (!starts(road, lane)) started(road, lane);
    break;
  case CEL__LANE_HEARS:
    if (cel__road_heard(lane)) heard_of_start(road, lane);
    break;
  case CEL__LANE_SETTLED: break;
  default: cel__road_try(road, lane);
  }
}

/* ---- the end ------------------------------------------------------------- */

void cel__road_abort_lanes(cel__road *road) {
  for (uint32_t i = 0; i < road->lanes.n; ++i) {
    cel__road_lane *lane = road->lanes.at[i];
    if (lane->comm != NULL) road->nccl->ncclCommAbort(lane->comm);
    lane->comm = NULL;
  }
}

/* All at once, as each end may wait for the other one. */
static bool finalize(cel__road *road) {
  int64_t deadline = cel__road_deadline(road);
  for (uint32_t i = 0; i < road->lanes.n; ++i) {
    cel__road_lane *lane = road->lanes.at[i];
    lane->code = lane->comm != NULL ? road->nccl->ncclCommFinalize(lane->comm)
                                    : ncclSuccess;
  }
  for (uint32_t i = 0; i < road->lanes.n; ++i) {
    cel__road_lane *lane = road->lanes.at[i];
    while (lane->code == ncclInProgress && cel_now_ns() < deadline &&
           road->nccl->ncclCommGetAsyncError(lane->comm, &lane->code) ==
               ncclSuccess)
      sched_yield();
    if (lane->code != ncclSuccess) return false;
  }
  return true;
}

void cel__road_close_lanes(cel__road *road, bool good) {
  bool final = good && finalize(road);
  for (uint32_t i = 0; i < road->lanes.n && final; ++i) {
    cel__road_lane *lane = road->lanes.at[i];
    if (lane->comm != NULL) road->nccl->ncclCommDestroy(lane->comm);
    lane->comm = NULL;
  }
  cel__road_abort_lanes(road);
}

void cel__road_clear_lanes(cel__road *road) {
  for (uint32_t i = 0; i < road->lanes.n; ++i)
    release_lane(road, road->lanes.at[i]);
  for (uint32_t i = 0; i < road->letters.n; ++i) cel_free(road->letters.at[i]);
  cel_vec_release(&road->lanes);
  cel_vec_release(&road->letters);
}
