/* nccl_check.c -- collectives between the GPUs of all ranks.
 *
 *   mpirun -n 3 nccl_check spread [--seed S] [--count N] [--devices D] [--fake]
 *   mpirun -n 2 nccl_check differ|halt|die|refuse|share --fake
 *   mpirun -n 3 nccl_check absent|late|missing --fake
 *   mpirun -n 3 nccl_check refused --fake
 *
 * `spread`: N collectives of all shapes (spread.h), several under way, each
 * posted when a message from the rank before has come, which is sent when the
 * last one but two is through. `differ`: the ranks mean different collectives,
 * and are told. `halt`: rank 0 puts its part, the others do not, and it gets
 * its stream back. `die`: rank 1 is killed in its place, and the job ends.
 * `refuse`: NCCL's calls fail. `share`: one
 * thread puts, slowly, while another polls. `absent`: rank 1 fails before the
 * ranks compare what they have, `late` before NCCL starts, and `missing` behind
 * that, and rank 0 hears it. `refused`: NCCL does not start on the last rank,
 * so all know why, and what they exchange goes through host memory. With --fake
 * there is no GPU (fake_cuda.h, fake_nccl.h). The last line of a good run is `N
 * passed, 0 failed`; where NCCL is not used, `pending: WHY`.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "comm/exchange.h"
#include "comm/fake_nccl.h"
#include "comm/nccl/nccl.h"
#include "comm/spread.h"
#include "device/cuda/cuda_copy.h"
#include "device/fake_cuda.h"
#include "embed/embedded.h"

enum { AT_ONCE = 3, MESSAGE = 8 };

typedef struct settings {
  uint64_t seed, count;
  int32_t devices;
  bool fake;
} settings;

/* A device's part of one that is under way. */
typedef struct part {
  spread spread;
  CUdeviceptr memory;
  uint8_t *image; /* the memory's, in the host */
  CUevent through;
  bool put, ended;
} part;

typedef struct run {
  cel_transport *t;
  const cel_cuda *cuda;
  const settings *set;
  CUstream stream[CEL_DEVICES];
  part *part; /* count x devices */
  uint64_t posted, ended, failed;
  /* Messages round the ring of ranks. */
  cel_posted out, in;
  uint64_t sent, received, word[2];
  cel_strided piece[2];
  bool sending, receiving;
} run;

static void must(const run *r, CUresult code) {
  if (code != CUDA_SUCCESS) exchange_give_up(r->t, "the driver refuses");
}

/* ---- parts --------------------------------------------------------------- */

static void make_part(run *r, part *p, uint64_t nth, int32_t d) {
  const cel_cuda_api *api = r->cuda->api;
  int32_t devices = r->t->collectives.limits.devices;
  int64_t member = r->t->rank * devices + d;
  cel_random shared = {r->set->seed * 1000 + nth};
  cel_random own = {r->set->seed * 77 + nth * 1000 + (uint64_t)member};
  spread_make(&p->spread, nth, member, devices, r->t->ranks * devices, &shared,
              &own);
  size_t size = spread_room(&p->spread);
  must(r, api->cuCtxSetCurrent(r->cuda->device[d].context));
  must(r, api->cuMemAlloc_v2(&p->memory, size));
  p->image = cel_alloc(size);
  spread_fill(&p->spread, p->image);
  must(r, cel_cuda_write(api, p->memory, p->image, size));
  p->spread.collective.ticket = nth * (uint64_t)devices + (uint64_t)d + 1000;
  for (int64_t i = 0; i < 2 * p->spread.members; ++i)
    if (p->spread.piece[i].base != NULL)
      p->spread.piece[i].base = (char *)(uintptr_t)p->memory +
                                ((uint8_t *)p->spread.piece[i].base - p->image);
}

static void post_next(run *r) {
  int32_t devices = r->t->collectives.limits.devices;
  for (int32_t d = 0; d < devices; ++d) {
    part *p = &r->part[r->posted * (uint64_t)devices + (uint64_t)d];
    make_part(r, p, r->posted, d);
    r->t->collectives.exchange_devices(r->t->collectives.self,
                                       &p->spread.collective);
  }
  ++r->posted;
}

static part *part_of(run *r, uint64_t ticket) {
  return &r->part[ticket - 1000];
}

static void put(run *r, const cel_chained *end) {
  part *p = part_of(r, end->ticket);
  int32_t d = p->spread.collective.device;
  const cel_cuda_api *api = r->cuda->api;
  must(r, api->cuCtxSetCurrent(r->cuda->device[d].context));
  if (end->enqueue(end->context, r->stream[d]) != CEL_E_OK)
    exchange_give_up(r->t, cel_error_last()->text);
  must(r, api->cuEventCreate(&p->through, CU_EVENT_DISABLE_TIMING));
  must(r, api->cuEventRecord(p->through, r->stream[d]));
  p->put = true;
  r->t->collectives.unjoin(r->t->collectives.self, end->context);
}

static void end_part(run *r, part *p) {
  const cel_cuda_api *api = r->cuda->api;
  must(r, api->cuMemcpyDtoH_v2(p->image, p->memory, spread_room(&p->spread)));
  if (spread_check(&p->spread) > 0) ++r->failed;
  must(r, api->cuEventDestroy_v2(p->through));
  must(r, api->cuMemFree_v2(p->memory));
  cel_free(p->image);
  spread_release(&p->spread);
  p->ended = true;
}

static void end_some(run *r) {
  uint64_t devices = (uint64_t)r->t->collectives.limits.devices;
  for (uint64_t i = r->ended * devices; i < r->posted * devices; ++i) {
    part *p = &r->part[i];
    if (p->put && !p->ended &&
        r->cuda->api->cuEventQuery(p->through) == CUDA_SUCCESS)
      end_part(r, p);
  }
  while (r->ended < r->posted) {
    for (uint64_t d = 0; d < devices; ++d)
      if (!r->part[r->ended * devices + d].ended) return;
    ++r->ended;
  }
}

/* ---- messages ------------------------------------------------------------ */

static void post_message(run *r, cel_posted *m, int side, int64_t peer,
                         uint64_t sequence) {
  r->piece[side] =
      (cel_strided){&r->word[side], {1, 1}, {MESSAGE, MESSAGE}, MESSAGE};
  *m = (cel_posted){.ticket = (uint64_t)side,
                    .peer = peer,
                    .sequence = sequence,
                    .bytes = MESSAGE,
                    .pieces = 1,
                    .piece = &r->piece[side]};
}

static void pass_messages(run *r) {
  int64_t rank = r->t->rank, ranks = r->t->ranks;
  if (!r->sending && r->sent < r->set->count && r->sent < r->ended + AT_ONCE) {
    post_message(r, &r->out, 0, (rank + 1) % ranks, r->sent++);
    r->sending = true;
    r->t->messages.send(r->t->messages.self, &r->out);
  }
  if (!r->receiving && r->received < r->set->count) {
    post_message(r, &r->in, 1, (rank + ranks - 1) % ranks, r->received);
    r->receiving = true;
    r->t->messages.receive(r->t->messages.self, &r->in);
  }
}

static void take(run *r) {
  cel_done done[8];
  uint32_t n = r->t->poll(r->t, done, 8);
  for (uint32_t i = 0; i < n; ++i) {
    if (done[i].error != NULL) exchange_give_up(r->t, done[i].error->text);
    if (done[i].ticket == 0)
      r->sending = false;
    else
      r->receiving = false;
    r->received += done[i].ticket == 1;
  }
}

/* ---- spread -------------------------------------------------------------- */

static void begin(run *r, cel_transport *t, const cel_cuda *cuda,
                  const settings *set) {
  *r = (run){.t = t, .cuda = cuda, .set = set};
  r->part =
      cel_alloc_zero((set->count + 1) * (size_t)t->collectives.limits.devices *
                     sizeof *r->part);
  for (int32_t d = 0; d < t->collectives.limits.devices; ++d) {
    must(r, cuda->api->cuCtxSetCurrent(cuda->device[d].context));
    must(r, cuda->api->cuStreamCreateWithPriority(&r->stream[d],
                                                  CU_STREAM_NON_BLOCKING, 0));
  }
}

static void finish(run *r) {
  for (int32_t d = 0; d < r->t->collectives.limits.devices; ++d)
    r->cuda->api->cuStreamDestroy_v2(r->stream[d]);
  cel_free(r->part);
}

/* The first collective's end is there. */
static cel_chained begin_one(run *r, cel_transport *t, const cel_cuda *cuda,
                             const settings *set) {
  cel_chained end;
  cel_done done;
  begin(r, t, cuda, set);
  post_next(r);
  while (t->chained(t, &end, 1) == 0) t->poll(t, &done, 1);
  return end;
}

static void spread_all(cel_transport *t, const cel_cuda *cuda,
                       const settings *set) {
  run r;
  begin(&r, t, cuda, set);
  while (r.ended < set->count || r.sending) {
    pass_messages(&r);
    if (r.posted < set->count && r.received > r.posted) post_next(&r);
    take(&r);
    cel_chained end[CEL_DEVICES];
    uint32_t n = t->chained(t, end, CEL_DEVICES);
    for (uint32_t i = 0; i < n; ++i) put(&r, &end[i]);
    end_some(&r);
  }
  if (r.failed > 0) exchange_give_up(t, "bytes differ");
  finish(&r);
}

/* ---- what ends badly ----------------------------------------------------- */

/* Rank 1 means another length. */
static int differ(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  run r;
  cel_done done;
  begin(&r, t, cuda, set);
  make_part(&r, &r.part[0], 0, 0);
  r.part[0].spread.collective.bytes += t->rank == 1;
  t->collectives.exchange_devices(t->collectives.self,
                                  &r.part[0].spread.collective);
  while (t->poll(t, &done, 1) == 0) {
  }
  printf("rank %d: %s\n", (int)t->rank,
         done.error != NULL ? done.error->text : "fine");
  fflush(stdout);
  cel_free(done.error);
  return 3;
}

/* All ranks post; the other ranks never put their parts. */
static int halt(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  run r;
  cel_done done;
  cel_chained end = begin_one(&r, t, cuda, set);
  if (t->rank != 0) {
    for (;;) t->poll(t, &done, 1);
  }
  if (end.enqueue(end.context, r.stream[0]) != CEL_E_OK)
    exchange_give_up(t, cel_error_last()->text);
  t->halt(t);
  cel_status late = end.enqueue(end.context, r.stream[0]);
  t->poll(t, &done, 1);
  cuda->api->cuStreamSynchronize(r.stream[0]);
  printf("the stream is free, and puts are %s\n", cel_status_name(late));
  fflush(stdout);
  return 3;
}

/* Rank 1 has posted its part, and will not put it; the others' wait for that.
 */
static void die(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  run r;
  cel_chained end = begin_one(&r, t, cuda, set);
  if (t->rank == 1) raise(SIGKILL);
  put(&r, &end);
  cuda->api->cuStreamSynchronize(r.stream[0]);
  exchange_give_up(t, "still here");
}

static int refuse(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  run r;
  cel_chained end = begin_one(&r, t, cuda, set);
  fake_nccl_break(0);
  if (end.enqueue(end.context, r.stream[0]) == CEL_E_OK)
    exchange_give_up(t, "nothing is refused");
  printf("rank %d: %s\n", (int)t->rank, cel_error_last()->text);
  fflush(stdout);
  return 3;
}

/* The others compare their clocks; rank 1 has failed. */
static void miss(cel_transport *t) {
  if (t->rank == 1) exchange_fail_alone(t);
  exchange_compare_clocks(t);
  if (t->rank == 0) exchange_give_up(t, "rank 1 is not missed");
  for (;;) exchange_nap();
}

/* Each rank's number to all, by what is left. */
static void exchange_numbers(cel_transport *t) {
  size_t ranks = (size_t)t->ranks;
  int64_t *all = cel_alloc_zero(ranks * sizeof *all);
  int32_t *count = cel_alloc(ranks * sizeof *count);
  int32_t *start = cel_alloc(ranks * sizeof *start);
  for (int32_t k = 0; k < t->ranks; ++k) {
    count[k] = 1;
    start[k] = k;
  }
  all[t->rank] = t->rank * 7 + 5;
  uint64_t bytes = ranks * sizeof *all;
  cel_strided piece = {all, {1, 1}, {bytes, bytes}, bytes};
  cel_collective collective = {.ticket = 1,
                               .pattern = CEL_PATTERN_ALL_GATHER,
                               .bytes = bytes,
                               .unit = sizeof *all,
                               .count = count,
                               .start = start,
                               .pieces = 1,
                               .piece = &piece};
  cel_done done;
  t->collectives.exchange(t->collectives.self, &collective);
  while (t->poll(t, &done, 1) == 0) {
  }
  if (done.error != NULL) exchange_give_up(t, done.error->text);
  for (int64_t k = 0; k < t->ranks; ++k)
    if (all[k] != k * 7 + 5) exchange_give_up(t, "bytes differ");
  cel_free(all);
  cel_free(count);
  cel_free(start);
}

/* ---- threads ------------------------------------------------------------- */

typedef struct putter {
  run *run;
  cel_chained end;
  _Atomic(bool) through;
} putter;

static void *put_slowly(void *context) {
  putter *p = context;
  put(p->run, &p->end);
  atomic_store(&p->through, true);
  return NULL;
}

static void share(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  run r;
  cel_done done;
  pthread_t thread;
  putter p = {.run = &r};
  fake_nccl_slow();
  p.end = begin_one(&r, t, cuda, set);
  if (pthread_create(&thread, NULL, put_slowly, &p) != 0)
    exchange_give_up(t, "there is no thread");
  while (!atomic_load(&p.through)) t->poll(t, &done, 1);
  pthread_join(thread, NULL);
  while (r.ended < r.posted) end_some(&r);
  finish(&r);
}

/* ---- main ---------------------------------------------------------------- */

static const cel_cuda *fake_gpus(const cel_transport *t, const settings *set) {
  static cel_cuda cuda;
  cuda = *fake_cuda(set->seed + (uint64_t)t->rank);
  fake_cuda_devices(&cuda, set->devices);
  return &cuda;
}

/* Its own GPUs, one rank's behind the other's. */
static const cel_cuda *open_gpus(const cel_transport *t, const settings *set) {
  char why[256];
  cel_cuda *cuda = NULL;
  int32_t ordinal[CEL_DEVICES], n = cel_cuda_count(why, sizeof why);
  if (n == 0) return NULL;
  for (int32_t d = 0; d < set->devices; ++d)
    ordinal[d] = (t->local_rank * set->devices + d) % n;
  if (cel_cuda_open(ordinal, set->devices, &cuda) != CEL_E_OK) return NULL;
  const char *text = cel_embedded_find("kernels/strided.cuh")->data;
  if (cel_cuda_pack_load(cuda, text) != CEL_E_OK)
    fprintf(stderr, "nccl_check: %s\n", cel_error_last()->text);
  return cuda;
}

static int carry_out(const char *mode, cel_transport *t, const cel_cuda *cuda,
                     const settings *set) {
  if (strcmp(mode, "differ") == 0) return differ(t, cuda, set);
  if (strcmp(mode, "halt") == 0) return halt(t, cuda, set);
  if (strcmp(mode, "refuse") == 0) return refuse(t, cuda, set);
  if (strcmp(mode, "missing") == 0) miss(t);
  if (strcmp(mode, "die") == 0) die(t, cuda, set);
  if (strcmp(mode, "share") == 0)
    share(t, cuda, set);
  else
    spread_all(t, cuda, set);
  return 0;
}

static int work(const char *mode, const settings *set) {
  cel_transport *t;
  char why[256] = "";
  if (cel_transport_mpi(&t) != CEL_E_OK) {
    fprintf(stderr, "nccl_check: %s\n", cel_error_last()->text);
    return 1;
  }
  cel_nccl_config config = {
      .cuda = set->fake ? fake_gpus(t, set) : open_gpus(t, set),
      .api = set->fake ? fake_nccl(set->seed + (uint64_t)t->rank) : NULL};
  if (strcmp(mode, "absent") == 0 && t->rank == 1) exchange_fail_alone(t);
  if (cel_transport_nccl(t, &config, &t, why, sizeof why) != CEL_E_OK)
    exchange_give_up(t, cel_error_last()->text);
  bool can = t->collectives.limits.devices > 0, first = t->rank == 0;
  if (strcmp(mode, "late") == 0 && t->rank == 1) exchange_fail_alone(t);
  if (strcmp(mode, "refused") == 0 && t->rank == t->ranks - 1)
    fake_nccl_break(0);
  if (can && cel_nccl_join(t, why) != CEL_E_OK)
    exchange_give_up(t, cel_error_last()->text);
  bool joined = t->collectives.limits.devices > 0;
  if (can && !joined) exchange_numbers(t);
  if (joined) {
    int status = carry_out(mode, t, config.cuda, set);
    if (status != 0) t->control.abort(t->control.self, status);
  }
  t->destroy(t);
  if (first && joined) printf("1 passed, 0 failed\n");
  if (first && !joined) printf("pending: %s\n", why);
  return 0;
}

int main(int argc, char **argv) {
  settings set = {.seed = 1, .count = 60, .devices = 1};
  for (int i = 2; i < argc; ++i)
    if (strcmp(argv[i], "--fake") == 0)
      set.fake = true;
    else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
      set.seed = strtoull(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--count") == 0)
      set.count = strtoull(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--devices") == 0)
      set.devices = atoi(argv[++i]);
  if (argc >= 2) return work(argv[1], &set);
  fprintf(
      stderr,
      "nccl_check spread|differ|halt|die|refuse|share|absent|"
      "late|missing|refused [--seed S] [--count N] [--devices D] [--fake]\n");
  return 2;
}
