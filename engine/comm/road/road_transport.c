#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "comm/road/road_state.h"
#include "tuning.h"

/* ---- failure ------------------------------------------------------------- */

void cel__road_fail(cel__road *road) {
  if (!road->failed) road->error = *cel_error_last();
  road->failed = true;
}

bool cel__road_bad(cel__road *road, CUresult code, const char *doing) {
  const cel_cuda *cuda = road->config.cuda;
  if (code == CUDA_SUCCESS) return false;
  cel_fail(cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_COMM,
           "GPU %d failed while %s between hosts: %s", cuda->device[0].ordinal,
           doing, cel_cuda_api_text(cuda->api, code));
  cel__road_fail(road);
  return true;
}

static void report(cel__road *road, uint64_t ticket, bool good) {
  cel_done done = {ticket, NULL};
  if (!good) {
    done.error = cel_alloc(sizeof *done.error);
    *done.error = road->error;
  }
  cel_vec_push(&road->done, done);
}

void cel__road_end(cel__road *road, cel__road_transfer *transfer) {
  cel__road_transfer *last = cel_vec_last(&road->transfers);
  --transfer->channel->under;
  if (transfer->trial)
    transfer->channel->lane->arrived = true;
  else
    report(road, transfer->message->ticket, true);
  last->at = transfer->at;
  cel_vec_swap_out(&road->transfers, transfer->at);
  cel_free(transfer);
}

/* The inner transport still has chunks, and their buffers. */
static void fail_all(cel__road *road) {
  cel__road_abort_lanes(road);
  for (uint32_t i = 0; i < road->channel.n; ++i)
    cel_vec_clear(&road->channel.at[i]->waiting);
  for (uint32_t i = 0; i < road->transfers.n; ++i) {
    if (!road->transfers.at[i]->trial)
      report(road, road->transfers.at[i]->message->ticket, false);
    cel_free(road->transfers.at[i]);
  }
  cel_vec_clear(&road->transfers);
}

/* ---- the tables ---------------------------------------------------------- */

static void use_device(const cel__road *road) {
  const cel_cuda *cuda = road->config.cuda;
  cuda->api->cuCtxSetCurrent(cuda->device[0].context);
}

static void post(cel__road *road, const cel_posted *message, bool sends) {
  cel_assert_driver();
  cel_assert(message->bytes > 0 && !message->chained);
  if (road->failed) {
    report(road, message->ticket, false);
    return;
  }
  use_device(road);
  cel__road_post(road, message, sends);
}

static void send(void *self, const cel_posted *message) {
  cel__road *road = self;
  const cel_message_table *inner = &road->inner->messages;
  if (message->far)
    post(road, message, true);
  else
    inner->send(inner->self, message);
}

static void receive(void *self, const cel_posted *message) {
  cel__road *road = self;
  const cel_message_table *inner = &road->inner->messages;
  if (message->far)
    post(road, message, false);
  else
    inner->receive(inner->self, message);
}

static void carry(void *self, void *context) {
  const cel_message_table *inner = &((cel__road *)self)->inner->messages;
  inner->carry(inner->self, context);
}

static void unchain(void *self, void *context) {
  const cel_message_table *inner = &((cel__road *)self)->inner->messages;
  inner->unchain(inner->self, context);
}

/* Others than trials. */
static bool has_messages(const cel__road *road) {
  for (uint32_t i = 0; i < road->transfers.n; ++i)
    if (!road->transfers.at[i]->trial) return true;
  return false;
}

/* Of what the inner transport says, what is not of chunks. */
static uint32_t sort_out(cel__road *road, cel_done *out, uint32_t got) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < got; ++i) {
    if ((out[i].ticket & CEL__ROAD_CHUNK) == 0 || out[i].ticket >> 63 != 0) {
      out[kept++] = out[i];
      continue;
    }
    if (out[i].error != NULL) {
      cel_fail_with(out[i].error);
      cel__road_fail(road);
      cel_free(out[i].error);
    }
    bool letter = (out[i].ticket & CEL__ROAD_LETTER) != 0;
    uint64_t what = out[i].ticket & ~(CEL__ROAD_CHUNK | CEL__ROAD_LETTER);
    // NOLINTNEXTLINE: it was made of a pointer
    void *at = (void *)(uintptr_t)what;
    if (letter)
      cel__road_delivered(road, at);
    else
      cel__road_arrived(road, at);
  }
  return kept;
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  cel__road *road = (cel__road *)t;
  cel_assert_driver();
  if (road->transfers.n > 0 || road->lanes.n > 0) use_device(road);
  uint32_t n = sort_out(road, out, road->inner->poll(road->inner, out, max));
  t->broken = road->inner->broken;
  bool halted = atomic_load(&road->halted) && road->lanes.n > 0;
  if (halted && !road->failed && has_messages(road)) {
    cel_fail(CEL_E_CANCELLED, "others do not go on");
    cel__road_fail(road);
  }
  if (!road->failed) cel__road_progress(road);
  if (road->failed) fail_all(road);
  uint32_t mine = road->done.n < max - n ? road->done.n : max - n;
  if (mine == 0) return n;
  memcpy(out + n, road->done.at, mine * sizeof *out);
  cel_vec_drop_first(&road->done, mine);
  return n + mine;
}

static uint32_t chained(cel_transport *t, cel_chained *out, uint32_t max) {
  cel_transport *inner = ((cel__road *)t)->inner;
  return inner->chained(inner, out, max);
}

/* What NCCL has on a stream may wait for others: the next poll ends it, unless
 * all messages are through anyway. */
static void halt(cel_transport *t) {
  cel__road *road = (cel__road *)t;
  cel_transport *inner = road->inner;
  atomic_store(&road->halted, true);
  if (inner->halt != NULL) inner->halt(inner);
}

static bool busy(cel_transport *t) {
  const cel__road *road = (const cel__road *)t;
  return road->transfers.n > 0 || road->done.n > 0 ||
         road->inner->busy(road->inner);
}

/* ---- life ---------------------------------------------------------------- */

static void release(cel__road *road) {
  const cel_cuda *cuda = road->config.cuda;
  if (cuda != NULL) use_device(road);
  for (uint32_t i = 0; i < road->chunks.n; ++i) {
    if (road->chunks.at[i]->copied != NULL)
      cuda->api->cuEventDestroy_v2(road->chunks.at[i]->copied);
    cel_free(road->chunks.at[i]);
  }
  for (int way = 0; way < 2; ++way) {
    if (road->stream[way] != NULL)
      cuda->api->cuStreamDestroy_v2(road->stream[way]);
    cel_vec_release(&road->copying[way]);
  }
  for (uint32_t i = 0; i < road->channel.n; ++i) {
    cel_vec_release(&road->channel.at[i]->waiting);
    cel_free(road->channel.at[i]);
  }
  for (uint32_t i = 0; i < road->done.n; ++i) cel_free(road->done.at[i].error);
  cel__road_clear_lanes(road);
  cel__road_clear_pool(road);
  cel_vec_release(&road->channel);
  cel_vec_release(&road->line);
  cel_vec_release(&road->transfers);
  cel_vec_release(&road->chunks);
  cel_vec_release(&road->spare);
  cel_vec_release(&road->done);
  cel_free(road);
}

/* Whether two ends are still at finding out which way is faster. */
static bool unsettled(const cel__road *road) {
  for (uint32_t i = 0; i < road->lanes.n; ++i)
    if (road->lanes.at[i]->stage != CEL__LANE_SETTLED) return true;
  return false;
}

/* All ranks come here: what two of them have begun they bring to an end. */
static void settle(cel__road *road) {
  cel_done done;
  while (!road->failed && road->base.broken == NULL &&
         (unsettled(road) || road->letters.n > 0)) {
    if (road->base.poll(&road->base, &done, 1) > 0)
      cel_bug("something is under way");
    sched_yield();
  }
}

/* The inner transport has no chunk any more once it is gone. */
static void destroy(cel_transport *t) {
  cel__road *road = (cel__road *)t;
  cel_transport *inner = road->inner;
  if (!has_messages(road)) settle(road);
  bool good = !road->failed && road->transfers.n == 0 && !unsettled(road);
  if (!good) inner->control.abort(inner->control.self, 1);
  if (road->lanes.n > 0) use_device(road);
  cel__road_close_lanes(road, good);
  inner->destroy(inner);
  release(road);
}

static void init(cel__road *road, cel_transport *inner) {
  static const char *const name[] = {
      "mpi, in chunks between GPUs", "mpi, also between GPUs",
      "mpi, and NCCL between GPUs", "mpi, in chunks or NCCL between GPUs"};
  road->inner = inner;
  road->base = *inner;
  road->base.name = name[road->config.way];
  cel_message_table *messages = &road->base.messages;
  messages->self = road;
  messages->far_bytes = road->config.far_bytes;
  messages->send = send;
  messages->receive = receive;
  if (messages->carry != NULL) messages->carry = carry;
  if (messages->unchain != NULL) messages->unchain = unchain;
  road->base.poll = poll;
  if (inner->chained != NULL) road->base.chained = chained;
  road->base.halt = halt;
  road->base.busy = busy;
  road->base.destroy = destroy;
}

static cel_status make_streams(cel__road *road) {
  const cel_cuda *cuda = road->config.cuda;
  use_device(road);
  /* Copies of short rows are kernels: they are not to wait for one that fills
   * the device. */
  for (int way = 0; way < 2; ++way) {
    CUresult code = cuda->api->cuStreamCreateWithPriority(
        &road->stream[way], CU_STREAM_NON_BLOCKING, -1);
    if (cel__road_bad(road, code, "making a stream for messages"))
      return cel_error_last()->code;
  }
  return CEL_E_OK;
}

/* ---- start --------------------------------------------------------------- */

enum { RANK_BITS = 32 };
enum {
  HAS_ALL,
  HAS_NO_GPU,
  HAS_SEVERAL,
  HAS_NO_STREAM,
  HAS_NO_MPI,
  HAS_NO_NCCL
};

static bool has_nccl(cel__road *road) {
  char why[CEL_ROAD_WHY];
  road->nccl = road->config.nccl != NULL ? road->config.nccl
                                         : cel_nccl_api_load(why, sizeof why);
  return road->nccl != NULL;
}

static int64_t lack_of(cel__road *road) {
  const cel_cuda *cuda = road->config.cuda;
  if (cuda == NULL) return HAS_NO_GPU;
  if (cuda->devices != 1) return HAS_SEVERAL;
  if (road->config.way == CEL_ROAD_MPI && !road->config.takes_gpus)
    return HAS_NO_MPI;
  if (road->config.way >= CEL_ROAD_NCCL && !has_nccl(road) &&
      road->config.way == CEL_ROAD_NCCL)
    return HAS_NO_NCCL;
  return make_streams(road) == CEL_E_OK ? HAS_ALL : HAS_NO_STREAM;
}

/* What the ranks lack that lack most, of the first of these. */
static cel_status hear(cel__road *road, int64_t *lack, char *why) {
  static const char *const text[] = {"",
                                     "it uses no GPU",
                                     "it has several GPUs",
                                     "its GPU has no streams left",
                                     "its MPI does not take GPUs' memory",
                                     "it has no NCCL, or one before 2.18"};
  const cel_control_table *control = &road->inner->control;
  int64_t most = (*lack << RANK_BITS) + (INT32_MAX - road->inner->rank);
  CEL_TRY(control->all_reduce_max(control->self, &most));
  *lack = most >> RANK_BITS;
  long long who = INT32_MAX - (most & ((1ll << RANK_BITS) - 1));
  if (*lack == HAS_ALL)
    why[0] = '\0';
  else
    snprintf(why, CEL_ROAD_WHY, "rank %lld: %s", who, text[*lack]);
  return CEL_E_OK;
}

static void set_defaults(cel_road_config *c) {
  if (c->far_bytes == 0) c->far_bytes = CEL_TUNE_ROAD_FAR_BYTES;
  if (c->chunk_least == 0) c->chunk_least = CEL_TUNE_ROAD_CHUNK_LEAST;
  if (c->chunk_most == 0)
    c->chunk_most = c->way == CEL_ROAD_MPI ? CEL_TUNE_ROAD_CHUNK_MOST_MPI
                                           : CEL_TUNE_ROAD_CHUNK_MOST;
  if (c->part_most == 0) c->part_most = CEL_TUNE_ROAD_NCCL_PART;
  if (c->lanes == 0) c->lanes = CEL_TUNE_ROAD_NCCL_LANES;
  if (c->patience_ns == 0) c->patience_ns = CEL_TUNE_ROAD_PATIENCE_NS;
  if (c->try_bytes == 0) c->try_bytes = CEL_TUNE_ROAD_TRY_BYTES;
  if (c->trial_bytes == 0) c->trial_bytes = CEL_TUNE_ROAD_TRIAL_BYTES;
  if (c->trial_bytes > c->part_most) c->trial_bytes = c->part_most;
  if (c->buffers == 0) c->buffers = CEL_TUNE_ROAD_BUFFERS;
}

cel_status cel_transport_road(cel_transport *inner,
                              const cel_road_config *config,
                              cel_transport **out, char *why) {
  cel__road *road = cel_alloc_zero(sizeof *road);
  road->config = *config;
  set_defaults(&road->config);
  init(road, inner);
  int64_t lack = lack_of(road);
  cel_status status = hear(road, &lack, why);
  bool good = status == CEL_E_OK && lack == HAS_ALL;
  if (status == CEL_E_OK) *out = good ? &road->base : inner;
  if (!good) release(road);
  return status;
}

uint64_t cel_road_chunk(const cel_road_config *config, uint64_t bytes) {
  uint64_t least = config->chunk_least;
  uint64_t chunk = (bytes / CEL_TUNE_ROAD_CHUNKS / least + 1) * least;
  return chunk < config->chunk_most ? chunk : config->chunk_most;
}
