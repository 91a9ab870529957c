/* Which way is faster for a channel that has moved much in chunks. It is tried
 * out once, between two messages, the same at both ends:
 *
 *   sender                                     receiver
 *                                          <-    has begun those before R, and
 *                                                waits (road_meet.c)
 *     has begun those before S: both stop
 *     before max(R, S)                     ->
 *     what comes before ends in chunks           likewise
 *     there is a trial                     ->
 *     it                                   ->
 *                                          <-    it has come, or NCCL failed
 *     ... in chunks and by NCCL in turns ...
 *     which way was faster                 ->
 *
 * The sender stops the time, from when it begins a trial until it hears that it
 * has come. Of each way the best counts, as the first trial by NCCL connects.
 * If NCCL fails at one end the channel goes in chunks. */
#include "comm/road/road_state.h"
#include "device/clock.h"

enum { TRIALS = 6 };

void cel__road_settle(cel__road *road, cel__road_lane *lane, bool by_lane) {
  lane->stage = CEL__LANE_SETTLED;
  lane->channel->by_lane = by_lane;
  lane->channel->hold = UINT64_MAX;
  cel__road_go_on(road, lane->channel);
}

static void tell(cel__road *road, cel__road_lane *lane,
                 const cel__road_note *note) {
  cel__road_tell(road, lane, note, sizeof *note);
}

/* Whether the other end's next letter has come. */
static bool hears(cel__road *road, cel__road_lane *lane) {
  if (!lane->listens) cel__road_expect(road, lane, sizeof(cel__road_note));
  lane->listens = !cel__road_heard(lane);
  return !lane->listens;
}

/* ---- where --------------------------------------------------------------- */

/* The sender's. */
static void stop(cel__road *road, cel__road_lane *lane) {
  cel__road_channel *channel = lane->channel;
  cel__road_note note = {.next = cel__road_unbegun(channel)};
  if (note.next < lane->in.note.next) note.next = lane->in.note.next;
  channel->hold = note.next;
  tell(road, lane, &note);
}

/* The receiver's. */
static bool has_stopped(cel__road *road, cel__road_lane *lane) {
  if (!hears(road, lane)) return false;
  lane->channel->hold = lane->in.note.next;
  cel__road_go_on(road, lane->channel);
  return true;
}

/* ---- trials -------------------------------------------------------------- */

static void begin(cel__road *road, cel__road_lane *lane, bool by_lane) {
  uint64_t bytes = road->config.trial_bytes;
  void *at = (void *)(uintptr_t)lane->buffer; // NOLINT: the driver's addresses
  lane->whole = (cel_strided){at, {1, 1}, {bytes, bytes}, bytes};
  lane->trial = (cel_posted){.peer = lane->channel->peer,
                             .bytes = bytes,
                             .pieces = 1,
                             .piece = &lane->whole};
  lane->channel->by_lane = by_lane;
  lane->tries = true;
  lane->arrived = false;
  lane->begun = cel_now_ns();
  lane->deadline = cel__road_deadline(road);
  cel__road_post_trial(road, lane);
}

/* The next trial, or what they have come to. */
static void lead(cel__road *road, cel__road_lane *lane) {
  bool faster = !lane->broken && lane->best[1] < lane->best[0];
  bool more = !lane->broken && lane->trials < TRIALS;
  cel__road_note note = {.more = more,
                         .by_lane = more ? lane->trials % 2 == 1 : faster};
  tell(road, lane, &note);
  if (more)
    begin(road, lane, note.by_lane);
  else
    cel__road_settle(road, lane, note.by_lane);
}

static void end_sent(cel__road *road, cel__road_lane *lane) {
  if (!lane->arrived || !hears(road, lane)) return;
  int64_t ns = cel_now_ns() - lane->begun;
  int64_t *best = &lane->best[lane->trials++ % 2];
  if (ns < *best) *best = ns;
  lane->broken |= lane->in.note.why[0] != '\0';
  lead(road, lane);
}

static void end_received(cel__road *road, cel__road_lane *lane) {
  cel__road_note note = {.why = {lane->broken ? '!' : '\0'}};
  if (lane->tries && !lane->arrived) return;
  if (lane->tries) tell(road, lane, &note);
  lane->tries = false;
  if (!hears(road, lane)) return;
  note = lane->in.note;
  if (note.more)
    begin(road, lane, note.by_lane);
  else
    cel__road_settle(road, lane, note.by_lane);
}

void cel__road_try(cel__road *road, cel__road_lane *lane) {
  cel__road_channel *channel = lane->channel;
  switch (lane->stage) {
  case CEL__LANE_HEARS:
    if (channel->sends) stop(road, lane);
    lane->stage = channel->sends ? CEL__LANE_DRAINS : CEL__LANE_STOPS;
    break;
  case CEL__LANE_STOPS:
    if (has_stopped(road, lane)) lane->stage = CEL__LANE_DRAINS;
    break;
  case CEL__LANE_DRAINS:
    if (channel->next < channel->hold || channel->under > 0) break;
    lane->stage = CEL__LANE_TRIES;
    if (channel->sends) lead(road, lane);
    break;
  default: /* TRIES */
    if (channel->sends)
      end_sent(road, lane);
    else
      end_received(road, lane);
  }
}
