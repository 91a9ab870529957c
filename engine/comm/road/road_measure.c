/* What `celer info` asks of two ranks: messages from one to the other, each
 * answered by a short one. */
#include <sched.h>

#include "comm/road/road_state.h"
#include "device/clock.h"

enum { ROUNDS = 4, ANSWER = 8 /* bytes */ };

static cel_status poll(cel__road *road, cel_done *done, uint32_t *got) {
  const cel_control_table *control = &road->inner->control;
  *got = road->base.poll(&road->base, done, 1);
  if (control->attend != NULL) control->attend(control->self);
  if (road->failed) return cel_fail_with(&road->error);
  if (road->base.broken != NULL) return cel_fail_with(road->base.broken);
  if (*got == 0) sched_yield();
  return CEL_E_OK;
}

static cel_status move(cel__road *road, int64_t peer, bool sends,
                       CUdeviceptr memory, uint64_t bytes) {
  const cel_message_table *messages = &road->base.messages;
  void *at = (void *)(uintptr_t)memory; // NOLINT: the driver's addresses
  cel_strided piece = {at, {1, 1}, {bytes, bytes}, bytes};
  cel_posted message = {.peer = peer,
                        .sequence =
                            cel__road_channel_of(road, peer, sends)->next,
                        .bytes = bytes,
                        .pieces = 1,
                        .piece = &piece,
                        .direct = true,
                        .far = true};
  cel_done done;
  uint32_t got = 0;
  if (sends)
    messages->send(messages->self, &message);
  else
    messages->receive(messages->self, &message);
  while (got == 0) CEL_TRY(poll(road, &done, &got));
  if (done.error == NULL) return CEL_E_OK;
  cel_status status = cel_fail_with(done.error);
  cel_free(done.error);
  return status;
}

static cel_status settle(cel__road *road, cel__road_channel *channel) {
  cel_done done;
  uint32_t got = 0;
  if (road->config.way == CEL_ROAD_CHOSEN && !channel->tried)
    cel__road_open_lane(road, channel);
  while (channel->lane != NULL && channel->lane->stage != CEL__LANE_SETTLED)
    CEL_TRY(poll(road, &done, &got));
  cel_assert(got == 0);
  return CEL_E_OK;
}

static cel_status run(cel__road *road, int64_t peer, bool sends,
                      CUdeviceptr memory, cel_road_found *out) {
  uint64_t bytes = road->config.trial_bytes;
  double best = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    int64_t begin = cel_now_ns();
    CEL_TRY(move(road, peer, sends, memory, bytes));
    CEL_TRY(move(road, peer, !sends, memory, ANSWER));
    double rate = (double)bytes / (double)(cel_now_ns() - begin);
    if (rate > best) best = rate;
  }
  cel_road_way way = road->config.way;
  bool by_lane = cel__road_channel_of(road, peer, sends)->by_lane;
  if (way >= CEL_ROAD_NCCL) way = by_lane ? CEL_ROAD_NCCL : CEL_ROAD_STAGED;
  *out = (cel_road_found){way, best};
  return CEL_E_OK;
}

cel_status cel_road_measure(cel_transport *t, int64_t peer, bool sends,
                            cel_road_found *out) {
  cel__road *road = (cel__road *)t;
  const cel_cuda *cuda = road->config.cuda;
  CUdeviceptr memory;
  cel_assert_driver();
  cuda->api->cuCtxSetCurrent(cuda->device[0].context);
  CEL_TRY(settle(road, cel__road_channel_of(road, peer, sends)));
  if (cel__road_bad(road,
                    cuda->api->cuMemAlloc_v2(&memory, road->config.trial_bytes),
                    "making a buffer for messages"))
    return cel_error_last()->code;
  cel_status status = run(road, peer, sends, memory, out);
  if (status == CEL_E_OK) cuda->api->cuMemFree_v2(memory);
  return status;
}
