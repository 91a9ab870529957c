/* road_check.c -- direct messages between ranks as if each were on a host of
 * its own.
 *
 *   mpirun -n 4 road_check exchange [--seed S] [--messages N] [--buffers B]
 *                                   [--lanes N] [--calls N] [--deaf] WAY
 *   mpirun -n 2 road_check speed|mismatch|breaks|refused|several|measure WAY
 *   mpirun -n 2 road_check lost|fails --way nccl --fake
 *
 *   WAY: [--way staged|mpi|nccl|chosen] [--fake]
 *
 * `exchange`: N messages for each rank, between random pairs, of one byte to 20
 * MiB (exchange.h), of which some go by the inner transport. Chunks and bounds
 * are far below what a run uses, so that all queues fill; with --large they are
 * those of a run. With --calls NCCL fails on the last rank after so many calls,
 * with --deaf MPI does not take GPUs' memory. `mismatch`: the two ends of a
 * message expect other lengths. `breaks`: rank 0's driver fails, and NCCL, and
 * it gets back all that it posted. `refused`: the last rank has no GPU;
 * `several`: it has two. `lost`: NCCL waits on rank 0's GPU for rank 1, which
 * does not go on, and rank 0 gets its stream and its message back. `fails`:
 * NCCL does not start on rank 1. `measure`: which way they take, as `celer
 * info` finds out.
 *   `speed`: from one rank to the other and back, beside the way's library
 * alone (for chunks that is MPI with pinned memory), and beside a copy of all,
 * MPI and a copy of all, one after the other. Ranks take the GPUs in turns, and
 * may share one, as each is on a host of its own for NCCL. With --fake there is
 * none (fake_cuda.h). The last line of a good run is `N passed, 0 failed`;
 * where there is no road, `pending: WHY`.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/exchange.h"
#include "comm/fake_nccl.h"
#include "comm/mpi/mpi.h"
#include "comm/road/road_state.h"
#include "device/cuda/cuda_copy.h"
#include "device/fake_cuda.h"
#include "tuning.h"

typedef struct settings {
  uint64_t seed;
  int64_t messages;
  uint32_t buffers;
  cel_road_way way;
  uint32_t lanes;
  int64_t calls;
  bool fake, large, deaf;
} settings;

/* --- the list ------------------------------------------------------------- */

static uint64_t random_bytes(cel_random *r) {
  int64_t kind = cel_random_int(r, 0, 99);
  if (kind < 40) return (uint64_t)cel_random_int(r, 1, 3000);
  if (kind < 90) return (uint64_t)cel_random_int(r, 3000, 128 << 10);
  if (kind < 98) return (uint64_t)cel_random_int(r, 128 << 10, 1 << 20);
  return (uint64_t)cel_random_int(r, 1 << 20, 20 << 20);
}

static exchange_planned *make_plan(const settings *set, const cel_transport *t,
                                   int64_t *n) {
  cel_random r = {set->seed};
  int64_t ranks = t->ranks;
  *n = set->messages * ranks;
  exchange_planned *plan = cel_alloc_zero((size_t)*n * sizeof *plan);
  for (int64_t i = 0; i < *n; ++i) {
    exchange_planned *p = &plan[i];
    p->from = cel_random_int(&r, 0, ranks - 1);
    p->to = (p->from + cel_random_int(&r, 1, ranks - 1)) % ranks;
    p->direct = p->far = cel_random_chance(&r, 85);
    p->salt = cel_random_next(&r);
    exchange_shape(p, random_bytes(&r), 300, &r);
  }
  exchange_number(plan, *n, ranks);
  return plan;
}

/* --- the GPU's memory ----------------------------------------------------- */

static uint64_t reserve(const cel_cuda *cuda, size_t size) {
  CUdeviceptr at;
  if (cuda->api->cuMemAlloc_v2(&at, size) != CUDA_SUCCESS)
    cel_bug("no memory of the GPU");
  return at;
}

static uint64_t gpu_make(void *context, const void *bytes, size_t size) {
  const cel_cuda *cuda = context;
  uint64_t memory = reserve(cuda, size);
  if (cel_cuda_write(cuda->api, memory, bytes, size) != CUDA_SUCCESS)
    cel_bug("the GPU does not take bytes");
  return memory;
}

static void gpu_read(void *context, void *out, uint64_t memory, size_t size) {
  const cel_cuda *cuda = context;
  if (cuda->api->cuMemcpyDtoH_v2(out, memory, size) != CUDA_SUCCESS)
    cel_bug("the GPU does not give its memory");
}

static void gpu_release(void *context, uint64_t memory) {
  ((const cel_cuda *)context)->api->cuMemFree_v2(memory);
}

static exchange_memory memory_of(cel_cuda *cuda) {
  return (exchange_memory){gpu_make, gpu_read, gpu_release, cuda};
}

/* --- exchange ------------------------------------------------------------- */

static void check_bounds(cel_transport *t) {
  const cel__road *road = (const cel__road *)t;
  for (uint32_t i = 0; i < road->channel.n; ++i)
    if (road->channel.at[i]->held > 0)
      exchange_give_up(t, "a channel keeps buffers");
  if (road->free.n != road->buffers)
    exchange_give_up(t, "buffers have got lost");
  uint32_t most = road->config.buffers + road->channel.n + CEL__ROAD_SLAB;
  if (road->buffers > most) exchange_give_up(t, "there are too many buffers");
}

/* Where channels find out whether NCCL is faster. */
static void check_trials(cel_transport *t, const settings *set) {
  const cel__road *road = (const cel__road *)t;
  int tried = 0, broken = 0, faster = 0;
  for (uint32_t i = 0; i < road->channel.n; ++i) {
    const cel__road_channel *channel = road->channel.at[i];
    tried += channel->tried;
    if (channel->lane == NULL) continue;
    broken += channel->lane->broken;
    faster += channel->by_lane;
  }
  if (tried == 0 && set->messages > 8)
    exchange_give_up(t, "nothing is tried out");
  if (set->calls == 0 && broken > 0) exchange_give_up(t, "a trial failed");
  if (set->calls > 0 && faster > 0) exchange_give_up(t, "what fails is used");
}

static void exchange(cel_transport *t, cel_cuda *cuda, const settings *set) {
  int64_t messages;
  exchange_planned *plan = make_plan(set, t, &messages);
  exchange_memory memory = memory_of(cuda);
  exchange_ends ends;
  cel_random r = {set->seed * 77 + (uint64_t)t->rank};
  exchange_make_ends(&ends, plan, messages, t->rank, &r, 40, &memory);
  exchange_run(t, &ends, &r, NULL, NULL);
  if (ends.faults > 0) exchange_give_up(t, "bytes differ");
  if (set->way == CEL_ROAD_CHOSEN)
    check_trials(t, set); /* some may be under way */
  else
    check_bounds(t);
  exchange_free_ends(&ends);
  cel_free(plan);
}

/* --- what ends badly ------------------------------------------------------ */

static cel_posted message_of(const cel_transport *t, const cel_strided *piece,
                             uint64_t sequence) {
  return (cel_posted){.ticket = 1,
                      .peer = 1 - t->rank,
                      .sequence = sequence,
                      .bytes = piece->run,
                      .pieces = 1,
                      .piece = piece,
                      .direct = true,
                      .far = true};
}

static cel_strided dense(uint64_t memory, uint64_t bytes) {
  return (cel_strided){
      (void *)(uintptr_t)memory, {1, 1}, {bytes, bytes}, bytes};
}

static void mismatch(cel_transport *t, const cel_cuda *cuda) {
  uint64_t bytes = t->rank == 0 ? 100 : 120;
  cel_strided piece = dense(reserve(cuda, bytes), bytes);
  cel_posted message = message_of(t, &piece, 0);
  cel_done done;
  if (t->rank == 0)
    t->messages.send(t->messages.self, &message);
  else
    t->messages.receive(t->messages.self, &message);
  while (t->poll(t, &done, 1) == 0 || t->rank == 0) {
  }
  printf("%s\n", done.error != NULL ? done.error->text : "fine");
  fflush(stdout);
  t->control.abort(t->control.self, 4);
}

static void break_all(void) {
  fake_cuda_break(0);
  fake_nccl_break(0);
}

/* Ends the job. */
static void breaks(cel_transport *t, cel_cuda *cuda, const settings *set) {
  int64_t messages;
  exchange_planned *plan = make_plan(set, t, &messages);
  exchange_memory memory = memory_of(cuda);
  exchange_ends ends;
  cel_random r = {set->seed * 77 + (uint64_t)t->rank};
  exchange_make_ends(&ends, plan, messages, t->rank, &r, 0, &memory);
  exchange_break(t, &ends, break_all);
}

/* Rank 0's end of a part is put, as rank 1 has it, which puts nothing. */
static void lost(cel_transport *t, const cel_cuda *cuda) {
  const cel__road *road = (const cel__road *)t;
  cel__road_step last = t->rank == 0 ? CEL__PART_RUNS : CEL__PART_AWAITS;
  cel_strided piece = dense(reserve(cuda, 5000), 5000);
  cel_posted message = message_of(t, &piece, 0);
  cel_done done;
  if (t->rank == 0)
    t->messages.send(t->messages.self, &message);
  else
    t->messages.receive(t->messages.self, &message);
  while (road->lanes.at[0]->step != last)
    if (t->poll(t, &done, 1) > 0) exchange_give_up(t, "it is through");
  while (t->rank > 0) exchange_nap();
  for (int i = 0; i < 1000; ++i)
    if (t->poll(t, &done, 1) > 0) exchange_give_up(t, "it is through");
  t->halt(t);
  while (t->poll(t, &done, 1) == 0) {
  }
  if (cuda->api->cuStreamSynchronize(road->lanes.at[0]->stream) == CUDA_SUCCESS)
    printf("the stream is free, and the message is %s\n",
           cel_status_name(done.error->code));
  fflush(stdout);
  t->control.abort(t->control.self, 3);
}

static void measure(cel_transport *t) {
  cel_road_found found;
  if (t->rank > 1) return;
  if (cel_road_measure(t, 1 - t->rank, t->rank == 0, &found) != CEL_E_OK)
    exchange_give_up(t, cel_error_last()->text);
  if (t->rank == 0)
    printf("%d, %s\n", (int)found.way, found.rate > 0 ? "fast" : "never");
}

/* --- speed ---------------------------------------------------------------- */

/* The bare library of the way, and what the way is compared with beside it. */
typedef struct racer {
  cel_transport *t;
  const cel_cuda *cuda;
  CUstream stream;
  CUdeviceptr device;
  void *pinned;
  const cel_nccl_api *nccl;
  ncclComm_t comm;
  uint64_t numbers[2]; /* of messages received, sent */
} racer;

static void await(cel_transport *t) {
  cel_done done;
  while (t->poll(t, &done, 1) == 0) {
  }
  if (done.error != NULL) exchange_give_up(t, done.error->text);
}

static void by_road(racer *r, uint64_t bytes, bool sends) {
  cel_strided piece = dense(r->device, bytes);
  cel_posted message = message_of(r->t, &piece, r->numbers[sends]++);
  if (sends)
    r->t->messages.send(r->t->messages.self, &message);
  else
    r->t->messages.receive(r->t->messages.self, &message);
  await(r->t);
}

static void by_mpi_at(const racer *r, void *at, uint64_t bytes, bool sends) {
  int peer = (int)(1 - r->t->rank), n = (int)bytes;
  if (sends)
    MPI_Send(at, n, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
  else
    MPI_Recv(at, n, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_mpi(racer *r, uint64_t bytes, bool sends) {
  by_mpi_at(r, r->pinned, bytes, sends);
}

static void by_mpi_between_gpus(racer *r, uint64_t bytes, bool sends) {
  by_mpi_at(r, (void *)(uintptr_t)r->device, bytes, sends);
}

static void by_nccl(racer *r, uint64_t bytes, bool sends) {
  void *at = (void *)(uintptr_t)r->device;
  int peer = (int)(1 - r->t->rank);
  ncclResult_t code =
      sends ? r->nccl->ncclSend(at, bytes, ncclInt8, peer, r->comm, r->stream)
            : r->nccl->ncclRecv(at, bytes, ncclInt8, peer, r->comm, r->stream);
  if (code != ncclSuccess ||
      r->cuda->api->cuStreamSynchronize(r->stream) != CUDA_SUCCESS)
    exchange_give_up(r->t, "NCCL alone failed");
}

/* As a program would that does nothing else: its calls block. */
static void start_nccl(racer *r) {
  ncclConfig config = CEL_NCCL_CONFIG;
  ncclUniqueId id;
  char why[CEL_ROAD_WHY];
  config.blocking = 1;
  r->nccl = cel_nccl_api_load(why, sizeof why);
  if (r->t->rank == 0) r->nccl->ncclGetUniqueId(&id);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (r->nccl->ncclCommInitRankConfig(&r->comm, 2, id, (int)r->t->rank,
                                      &config) != ncclSuccess)
    exchange_give_up(r->t, "NCCL alone does not start");
}

/* Copies one after the other with the message between them. */
static void in_turns(racer *r, uint64_t bytes, bool sends) {
  const cel_cuda_api *api = r->cuda->api;
  if (!sends) by_mpi(r, bytes, sends);
  CUresult code = sends ? api->cuMemcpyAsync((uintptr_t)r->pinned, r->device,
                                             bytes, r->stream)
                        : api->cuMemcpyAsync(r->device, (uintptr_t)r->pinned,
                                             bytes, r->stream);
  if (code != CUDA_SUCCESS ||
      api->cuStreamSynchronize(r->stream) != CUDA_SUCCESS)
    exchange_give_up(r->t, "a copy failed");
  if (sends) by_mpi(r, bytes, sends);
}

/* One way, of a message that goes there and back; the first rounds do not
 * count. */
static double seconds(racer *r, uint64_t bytes, int rounds,
                      void (*move)(racer *, uint64_t, bool)) {
  double begin = 0;
  for (int i = -2; i < rounds; ++i) {
    if (i == 0) begin = exchange_now();
    move(r, bytes, r->t->rank == 0);
    move(r, bytes, r->t->rank != 0);
  }
  return (exchange_now() - begin) / rounds / 2;
}

/* A way beside its library alone; and beside a copy of all, MPI, and a copy of
 * all, by which short messages go in NCCL's place. */
static void compare(racer *r, cel_road_way way, uint64_t bytes) {
  static const char *const name[] = {"staged", "mpi", "nccl"};
  void (*const bare[])(racer *, uint64_t, bool) = {by_mpi, by_mpi_between_gpus,
                                                   by_nccl};
  void (*here)(racer *, uint64_t, bool) =
      bytes < r->t->messages.far_bytes ? in_turns : by_road;
  int rounds = bytes < 1 << 20 ? 200 : bytes < 16 << 20 ? 40 : 10;
  double alone = 1e9, turns = 1e9, road = 1e9;
  for (int i = 0; i < 5; ++i) {
    alone = fmin(alone, seconds(r, bytes, rounds, bare[way]) * 1e6);
    turns = fmin(turns, seconds(r, bytes, rounds, in_turns) * 1e6);
    road = fmin(road, seconds(r, bytes, rounds, here) * 1e6);
  }
  if (r->t->rank == 0)
    printf("%6llu KiB %-6s: library alone %9.1f us (%6.2f GB/s), in turns "
           "%9.1f, road %9.1f (%6.2f GB/s): %.2f times as fast as in turns, "
           "%.2f of the library's rate, %.2f of its time\n",
           (unsigned long long)bytes >> 10, name[way], alone,
           (double)bytes / alone * 1e-3, turns, road,
           (double)bytes / road * 1e-3, turns / road, alone / road,
           road / alone);
}

static void speed(cel_transport *t, cel_cuda *cuda, cel_road_way way) {
  enum { MOST = 64 << 20 };
  racer r = {.t = t, .cuda = cuda, .device = reserve(cuda, MOST)};
  cel_cuda_memory pinned;
  cel_cuda_memory_init(&pinned, cuda, -1, true);
  if (t->ranks != 2 ||
      cel_cuda_memory_reserve(&pinned, MOST, &r.pinned) != CEL_E_OK ||
      cel_cuda_memory_commit(&pinned, r.pinned, 0, MOST) != CEL_E_OK ||
      cuda->api->cuStreamCreateWithPriority(&r.stream, CU_STREAM_NON_BLOCKING,
                                            0) != CUDA_SUCCESS)
    exchange_give_up(t, "speed is of two ranks");
  memset(r.pinned, 1, MOST);
  if (way == CEL_ROAD_NCCL) start_nccl(&r);
  for (uint64_t bytes = 4 << 10; bytes <= MOST; bytes *= 4)
    compare(&r, way, bytes);
  if (r.comm != NULL) r.nccl->ncclCommDestroy(r.comm);
  cuda->api->cuStreamDestroy_v2(r.stream);
  cuda->api->cuMemFree_v2(r.device);
  cel_cuda_memory_clear(&pinned);
}

/* --- main ----------------------------------------------------------------- */

static cel_transport *join(const settings *set) {
  cel_mpi_config config = {.window = 16,
                           .sends = 4,
                           .receives = 4,
                           .small_bytes = 100,
                           .announced_bytes = 1000,
                           .part_bytes = 1000,
                           .apart = true};
  cel_transport *t;
  cel_status status =
      set->large ? cel_transport_mpi(&t) : cel_transport_mpi_with(&config, &t);
  if (status == CEL_E_OK) return t;
  fprintf(stderr, "road_check: %s\n", cel_error_last()->text);
  exit(1);
}

static int run(const char *mode, settings *set) {
  char why[CEL_ROAD_WHY];
  if (strcmp(mode, "speed") == 0) set->large = true;
  cel_transport *t = join(set);
  char host[32];
  snprintf(host, sizeof host, "rank-%lld", (long long)t->rank);
  setenv("NCCL_HOSTID", host, 0);
  bool first = t->rank == 0, last = t->rank == t->ranks - 1;
  cel_road_config config = {
      .cuda = set->fake ? fake_cuda(set->seed + (uint64_t)t->rank)
                        : exchange_open_gpu(t),
      .way = set->way,
      .takes_gpus =
          set->fake ? !set->deaf : cel_mpi_takes_gpus(why, sizeof why),
      .nccl = set->fake ? fake_nccl(set->seed * 7 + (uint64_t)t->rank) : NULL,
      .lanes = set->lanes,
      .far_bytes = 1,
      .buffers = set->buffers};
  if (set->fake && set->way >= CEL_ROAD_NCCL)
    fake_nccl_pairs(t->rank, set->lanes > 0 ? (int)set->lanes : 16);
  if (set->large && set->way == CEL_ROAD_NCCL)
    config.far_bytes = CEL_TUNE_ROAD_NCCL_FAR_BYTES;
  if (!set->large) {
    config.part_most = 9000;
    config.try_bytes = 20000;
    if (set->fake) config.patience_ns = 1000000000;
    config.chunk_least = 512;
    config.chunk_most = 4096;
  }
  if (strcmp(mode, "refused") == 0 && last) config.cuda = NULL;
  if (set->calls > 0 && last) fake_nccl_break(set->calls);
  if (strcmp(mode, "fails") == 0 && last) fake_nccl_break(0);
  if (strcmp(mode, "several") == 0 && last) fake_cuda_devices(config.cuda, 2);
  if (cel_transport_road(t, &config, &t, why) != CEL_E_OK)
    exchange_give_up(t, cel_error_last()->text);
  bool there = t->messages.far_bytes > 0;
  if (there && strcmp(mode, "speed") == 0)
    speed(t, config.cuda, set->way);
  else if (there && strcmp(mode, "mismatch") == 0)
    mismatch(t, config.cuda);
  else if (there && strcmp(mode, "breaks") == 0)
    breaks(t, config.cuda, set);
  else if (there && strcmp(mode, "measure") == 0)
    measure(t);
  else if (there && strcmp(mode, "lost") == 0)
    lost(t, config.cuda);
  else if (there)
    exchange(t, config.cuda, set);
  if (there) t->halt(t); /* as an executor does in the end */
  t->destroy(t);
  if (first && there) printf("1 passed, 0 failed\n");
  if (first && !there) printf("pending: %s\n", why);
  return 0;
}

static cel_road_way way_of(const char *name) {
  return strcmp(name, "mpi") == 0      ? CEL_ROAD_MPI
         : strcmp(name, "nccl") == 0   ? CEL_ROAD_NCCL
         : strcmp(name, "chosen") == 0 ? CEL_ROAD_CHOSEN
                                       : CEL_ROAD_STAGED;
}

int main(int argc, char **argv) {
  settings set = {.seed = 1, .messages = 60, .buffers = 3};
  for (int i = 2; i < argc; ++i)
    if (strcmp(argv[i], "--fake") == 0)
      set.fake = true;
    else if (strcmp(argv[i], "--large") == 0)
      set.large = true;
    else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
      set.seed = strtoull(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--messages") == 0)
      set.messages = strtoll(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--deaf") == 0)
      set.deaf = true;
    else if (i + 1 < argc && strcmp(argv[i], "--calls") == 0)
      set.calls = strtoll(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--lanes") == 0)
      set.lanes = (uint32_t)strtoul(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--way") == 0)
      set.way = way_of(argv[++i]);
    else if (i + 1 < argc && strcmp(argv[i], "--buffers") == 0)
      set.buffers = (uint32_t)strtoul(argv[++i], NULL, 10);
  if (argc >= 2) return run(argv[1], &set);
  fprintf(stderr, "see the head of spec/comm/road_check.c\n");
  return 2;
}
