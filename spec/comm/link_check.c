/* link_check.c -- direct messages between the GPUs of one host's ranks.
 *
 *   mpirun -n 4 link_check exchange [--seed S] [--messages N] [--fake]
 *   mpirun -n 2 link_check speed|mismatch|breaks|refused|unlent|blocks|anew
 *
 * `exchange`: N messages for each rank, between random pairs, of one byte to 80
 * MiB (exchange.h). A part of them goes the inner transport's way, a part is
 * chained. Of the others the dense ones are written to where they land: with
 * every third seed as long as little has been lent, and with every third,
 * without a GPU, none, as loans cannot be opened. `mismatch`: the two ends of a
 * message expect other lengths, and both are told. `breaks`: rank 0's driver
 * fails, and it gets back all that it posted. `refused`: the last rank's driver
 * fails before that. `unlent`: it cannot open memory of others. `blocks`: each
 * of rank 0's messages is for one block more than the one before, and all are
 * written to their landings; and so in the end is one for more blocks than the
 * kernel holds files of under way. `anew`: two messages are for blocks of
 * memories that came one after the other. `speed`: from each even rank to the
 * next odd one. With --fake there is no GPU (fake_cuda.h). The last line of a
 * good run is `N passed, 0 failed`; where the ranks cannot be linked, `pending:
 * WHY`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/exchange.h"
#include "comm/link/link_state.h"
#include "device/cuda/cuda_copy.h"
#include "device/fake_cuda.h"

typedef struct settings {
  uint64_t seed;
  int64_t messages;
  bool fake;
} settings;

/* --- the list ------------------------------------------------------------- */

static uint64_t random_bytes(cel_random *r) {
  int64_t kind = cel_random_int(r, 0, 99);
  if (kind < 30) return (uint64_t)cel_random_int(r, 1, 1000);
  if (kind < 70) return (uint64_t)cel_random_int(r, 1000, 256 << 10);
  if (kind < 96) return (uint64_t)cel_random_int(r, 256 << 10, 4 << 20);
  if (kind < 99) return (uint64_t)cel_random_int(r, 8 << 20, 40 << 20);
  return (uint64_t)cel_random_int(r, 64 << 20, 80 << 20);
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
    p->direct = cel_random_chance(&r, 85);
    p->salt = cel_random_next(&r);
    exchange_shape(p, random_bytes(&r), 3000, &r);
    p->chained = p->direct && p->bytes <= t->messages.chain_bytes &&
                 cel_random_chance(&r, 60);
  }
  exchange_number(plan, *n, ranks);
  return plan;
}

/* --- the GPU's memory ----------------------------------------------------- */

/* As a backend has it, so that it can be lent. */
static cel_cuda_memory pool;
typedef struct piece {
  uint64_t at, size;
} piece;

static CEL_VEC(piece) made;

static uint64_t reserve(size_t size) {
  void *p;
  if (cel_cuda_memory_reserve(&pool, size, &p) != CEL_E_OK ||
      cel_cuda_memory_commit(&pool, p, 0, size) != CEL_E_OK)
    cel_bug("no memory of the GPU: %s", cel_error_last()->text);
  cel_vec_push(&made, (piece){(uintptr_t)p, size});
  return (uintptr_t)p;
}

static void give_back(uint64_t at) {
  for (uint32_t i = 0; i < made.n; ++i) {
    if (made.at[i].at != at) continue;
    // NOLINTNEXTLINE: the driver's addresses are integers
    cel_cuda_memory_release(&pool, (void *)(uintptr_t)at, made.at[i].size);
    cel_vec_swap_out(&made, i);
    return;
  }
}

static uint64_t gpu_make(void *context, const void *bytes, size_t size) {
  const cel_cuda_api *api = ((const cel_cuda *)context)->api;
  uint64_t memory = reserve(size);
  if (cel_cuda_write(api, memory, bytes, size) != CUDA_SUCCESS)
    cel_bug("the GPU does not take bytes");
  return memory;
}

static void gpu_read(void *context, void *out, uint64_t memory, size_t size) {
  const cel_cuda_api *api = ((const cel_cuda *)context)->api;
  if (api->cuMemcpyDtoH_v2(out, memory, size) != CUDA_SUCCESS)
    cel_bug("the GPU does not give its memory");
}

static void gpu_release(void *context, uint64_t memory) {
  (void)context;
  give_back(memory);
}

static exchange_memory memory_of(const cel_cuda *cuda) {
  return (exchange_memory){gpu_make, gpu_read, gpu_release,
                           (void *)(uintptr_t)cuda};
}

/* --- exchange ------------------------------------------------------------- */

/* Chained messages on streams of ours, one behind the other. */
typedef struct chains {
  cel_transport *t;
  const cel_cuda_api *api;
  exchange_ends *ends;
  CUstream stream[2];
  struct put {
    cel_chained end;
    CUevent after; /* null: it is over */
  } * put;
  uint32_t n, over;
} chains;

static void put(chains *c, const cel_chained *end) {
  CUstream stream = c->stream[end->ticket % 2];
  struct put *put = &c->put[c->n++];
  put->end = *end;
  c->t->messages.carry(c->t->messages.self, end->context);
  if (end->enqueue(end->context, stream) != CEL_E_OK)
    exchange_give_up(c->t, cel_error_last()->text);
  if (c->api->cuEventCreate(&put->after, CU_EVENT_DISABLE_TIMING) !=
          CUDA_SUCCESS ||
      c->api->cuEventRecord(put->after, stream) != CUDA_SUCCESS)
    exchange_give_up(c->t, "no event");
}

/* Puts some, and looks how far the streams have come. */
static bool move_chains(void *context, uint64_t *did) {
  chains *c = context;
  cel_chained given[4];
  uint32_t n =
      c->t->messages.chain_bytes > 0 ? c->t->chained(c->t, given, 4) : 0;
  for (uint32_t i = 0; i < n; ++i) put(c, &given[i]);
  for (uint32_t i = 0; i < c->n; ++i) {
    struct put *put = &c->put[i];
    if (put->after == NULL || c->api->cuEventQuery(put->after) != CUDA_SUCCESS)
      continue;
    c->api->cuEventDestroy_v2(put->after);
    put->after = NULL;
    exchange_end_at(c->ends, (uint32_t)put->end.ticket);
    c->t->messages.unchain(c->t->messages.self, put->end.context);
    ++c->over;
    ++n;
  }
  *did += n;
  return c->over < c->n;
}

static void exchange(cel_transport *t, const cel_cuda *cuda,
                     const settings *set) {
  int64_t messages;
  exchange_planned *plan = make_plan(set, t, &messages);
  exchange_memory memory = memory_of(cuda);
  exchange_ends ends;
  cel_random r = {set->seed * 77 + (uint64_t)t->rank};
  cel__link *link = (cel__link *)t;
  link->landing_least = 1000;
  exchange_make_ends(&ends, plan, messages, t->rank, &r, 40, &memory);
  chains c = {.t = t, .api = cuda->api, .ends = &ends};
  c.put = cel_alloc_zero((ends.n + 1) * sizeof *c.put);
  for (int i = 0; i < 2; ++i)
    if (cuda->api->cuStreamCreateWithPriority(
            &c.stream[i], CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
      exchange_give_up(t, "no stream");
  exchange_run(t, &ends, &r, move_chains, &c);
  for (int i = 0; i < 2; ++i) cuda->api->cuStreamDestroy_v2(c.stream[i]);
  cel_free(c.put);
  if (ends.faults > 0) exchange_give_up(t, "bytes differ");
  if (cuda->lends && set->seed % 3 == 2 && link->spare.n == 0)
    exchange_give_up(t, "nothing was written to its landing");
  exchange_free_ends(&ends);
  cel_free(plan);
}

/* --- what ends badly -------------------------------------------------------
 */

static int mismatch(cel_transport *t, const cel_cuda *cuda) {
  uint64_t bytes = t->rank == 0 ? 100 : 120;
  uint64_t memory = reserve(bytes);
  (void)cuda;
  cel_strided piece = {
      (void *)(uintptr_t)memory, {1, 1}, {bytes, bytes}, bytes};
  cel_posted message = {.ticket = 1,
                        .peer = 1 - t->rank,
                        .bytes = bytes,
                        .pieces = 1,
                        .piece = &piece,
                        .direct = true};
  cel_done done;
  if (t->rank == 0)
    t->messages.send(t->messages.self, &message);
  else
    t->messages.receive(t->messages.self, &message);
  while (t->poll(t, &done, 1) == 0) {
  }
  printf("rank %d: %s\n", (int)t->rank,
         done.error != NULL ? done.error->text : "fine");
  cel_free(done.error);
  give_back(memory);
  return 0;
}

static void break_all(void) {
  fake_cuda_break(0);
}

/* Ends the job. */
static int breaks(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  int64_t messages;
  exchange_planned *plan = make_plan(set, t, &messages);
  for (int64_t i = 0; i < messages; ++i) plan[i].chained = false;
  ((cel__link *)t)->landing_least = 1000;
  exchange_memory memory = memory_of(cuda);
  exchange_ends ends;
  cel_random r = {set->seed * 77 + (uint64_t)t->rank};
  exchange_make_ends(&ends, plan, messages, t->rank, &r, 0, &memory);
  exchange_break(t, &ends, break_all);
}

/* --- speed ---------------------------------------------------------------- */

static void await(cel_transport *t, uint32_t n) {
  cel_done done[16];
  while (n > 0) {
    uint32_t got = t->poll(t, done, 16);
    for (uint32_t i = 0; i < got; ++i)
      if (done[i].error != NULL) exchange_give_up(t, done[i].error->text);
    n -= got;
  }
}

enum { ROUNDS = 20, MEMORY = 256 << 20 };

/* GB/s of messages of this shape, so many at once; the first round does not
 * count. */
static double measure(cel_transport *t, cel_strided piece, uint32_t at_once,
                      uint64_t *sequence) {
  enum { MOST = 4 };
  uint64_t bytes = piece.count[1] * piece.run;
  cel_posted message[MOST];
  double begin = 0;
  for (int i = 0; i <= ROUNDS; ++i) {
    if (i == 1) begin = exchange_now();
    for (uint32_t k = 0; k < at_once; ++k) {
      message[k] = (cel_posted){.ticket = k,
                                .peer = t->rank ^ 1,
                                .sequence = (*sequence)++,
                                .bytes = bytes,
                                .pieces = 1,
                                .piece = &piece,
                                .direct = true};
      if (t->rank % 2 == 0)
        t->messages.send(t->messages.self, &message[k]);
      else
        t->messages.receive(t->messages.self, &message[k]);
    }
    await(t, at_once);
  }
  return (double)bytes * at_once * ROUNDS / (exchange_now() - begin) * 1e-9;
}

/* GB/s of bare copies into the other's mailbox; of as many bytes as it has. */
static double measure_bare(cel_transport *t, CUdeviceptr memory,
                           uint64_t bytes) {
  const cel__link *link = (const cel__link *)t;
  const cel_cuda_api *api = link->cuda->api;
  const cel_mail_size *last = &cel_mail_sizes[CEL_MAIL_SIZES - 1];
  CUdeviceptr to = 0;
  CUstream stream;
  double begin = 0;
  for (int32_t p = 0; p < link->peers; ++p)
    if (link->peer[p].rank == (t->rank ^ 1))
      to = cel_mailbox_slot(link->peer[p].mailbox.out, last->first);
  if (bytes > last->slots * last->bytes) bytes = last->slots * last->bytes;
  if (api->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    exchange_give_up(t, "no stream");
  for (int i = 0; i <= ROUNDS; ++i) {
    if (i == 1) begin = exchange_now();
    if (api->cuMemcpyAsync(to, memory, bytes, stream) != CUDA_SUCCESS ||
        api->cuStreamSynchronize(stream) != CUDA_SUCCESS)
      exchange_give_up(t, "a bare copy failed");
  }
  double seconds = exchange_now() - begin;
  api->cuStreamDestroy_v2(stream);
  return (double)bytes * ROUNDS / seconds * 1e-9;
}

static void speed_of(cel_transport *t, CUdeviceptr memory, uint64_t bytes,
                     uint64_t *sequence) {
  cel_strided piece = {
      (void *)(uintptr_t)memory, {1, 1}, {bytes, bytes}, bytes};
  double one = measure(t, piece, 1, sequence);
  double four = measure(t, piece, 4, sequence);
  if (t->rank != 1) return;
  printf(
      "%8llu KiB: %7.1f GB/s one by one, %7.1f four at once, %7.1f by a bare "
      "copy\n",
      (unsigned long long)bytes >> 10, one, four,
      measure_bare(t, memory, bytes));
}

static void speed(cel_transport *t, const cel_cuda *cuda) {
  static const uint64_t bytes[] = {32 << 10, 256 << 10, 1 << 20,
                                   8 << 20,  64 << 20,  MEMORY};
  uint64_t sequence = 0;
  if (t->ranks % 2 != 0) return;
  CUdeviceptr memory = reserve(MEMORY);
  (void)cuda;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; ++i)
    speed_of(t, memory, bytes[i], &sequence);
  for (uint64_t run = 4; run <= 256; run *= 4) {
    cel_strided column = {
        (void *)(uintptr_t)memory, {1, 16384}, {MEMORY, MEMORY >> 14}, run};
    double one = measure(t, column, 1, &sequence);
    if (t->rank == 1)
      printf("16384 rows of %3llu bytes: %7.1f us\n", (unsigned long long)run,
             (double)run * 16384 / one * 1e-3);
  }
  give_back(memory);
}

/* --- many blocks ---------------------------------------------------------- */

static void move_blocks(cel_transport *t, uint64_t memory, uint64_t bytes,
                        uint64_t sequence) {
  cel_strided piece = {
      (void *)(uintptr_t)memory, {1, 1}, {bytes, bytes}, bytes};
  cel_posted message = {.ticket = 1,
                        .peer = t->rank ^ 1,
                        .sequence = sequence,
                        .bytes = bytes,
                        .pieces = 1,
                        .piece = &piece,
                        .direct = true};
  if (t->rank == 0)
    t->messages.send(t->messages.self, &message);
  else
    t->messages.receive(t->messages.self, &message);
  await(t, 1);
}

static void blocks(cel_transport *t) {
  enum { BLOCK = 2 << 20, MOST = 40 };
  const cel__link *link = (cel__link *)t;
  pool.block = BLOCK;
  pool.lent_most = (uint64_t)MOST * BLOCK;
  uint64_t memory = reserve((size_t)MOST * BLOCK);
  for (uint64_t n = 5; n <= 9; ++n) move_blocks(t, memory, n * BLOCK, n);
  for (uint64_t n = 10; n <= 13; ++n)
    move_blocks(t, memory, (uint64_t)MOST * BLOCK, n);
  if (link->peer[0].refuses || (t->rank == 0 && link->spare.n == 0) ||
      (t->rank == 1 && link->peer[0].given.n <= MOST) ||
      (t->rank == 1 && !link->peer[0].given.at[MOST]))
    exchange_give_up(t, "something was not written to its landing");
  give_back(memory);
}

/* --- one memory after another --------------------------------------------- */

static void move_bytes(cel_transport *t, cel_cuda *cuda, uint64_t sequence) {
  enum { BYTES = 8 << 20 };
  unsigned char *bytes = cel_alloc(BYTES);
  memset(bytes, t->rank == 0 ? (int)sequence : 0, BYTES);
  uint64_t memory = gpu_make(cuda, bytes, BYTES);
  move_blocks(t, memory, BYTES, sequence);
  gpu_read(cuda, bytes, memory, BYTES);
  for (size_t i = 0; i < BYTES; ++i)
    if (bytes[i] != sequence) exchange_give_up(t, "bytes differ");
  give_back(memory);
  cel_free(bytes);
}

/* Memory that may be lent, once ranks are linked. */
static void open_pool(cel_cuda *cuda, const settings *set) {
  cel_cuda_memory_init(&pool, cuda, 0, false);
  if (!cuda->lends) return;
  cuda->lender = &pool;
  pool.lent_most = set->seed % 3 == 1 ? 16 << 20 : 1 << 30;
  if (set->seed % 3 == 0 && set->fake) fake_cuda_refuse_loans();
}

static void anew(cel_transport *t, cel_cuda *cuda, const settings *set) {
  move_bytes(t, cuda, 1);
  cel_cuda_memory_clear(&pool);
  open_pool(cuda, set);
  move_bytes(t, cuda, 2);
  if (t->rank == 0 && ((cel__link *)t)->spare.n == 0)
    exchange_give_up(t, "nothing was written to its landing");
}

/* --- main ----------------------------------------------------------------- */

static int run(const char *mode, const settings *set) {
  cel_transport *t;
  char why[CEL_LINK_WHY] = "", unlent[CEL_LINK_WHY] = "";
  if (cel_transport_mpi(&t) != CEL_E_OK) {
    fprintf(stderr, "link_check: %s\n", cel_error_last()->text);
    return 1;
  }
  cel_cuda *cuda = set->fake ? fake_cuda(set->seed + (uint64_t)t->rank)
                             : exchange_open_gpu(t);
  bool last = t->rank == t->ranks - 1;
  if (strcmp(mode, "refused") == 0 && last) fake_cuda_break(0);
  if (strcmp(mode, "unlent") == 0 && last) fake_cuda_refuse_loans();
  cel_status status = cel_transport_cuda_link(t, cuda, &t, why, unlent);
  if (status != CEL_E_OK) exchange_give_up(t, cel_error_last()->text);
  bool linked = t->messages.nears > 0, first = t->rank == 0;
  if (unlent[0] != '\0') printf("rank %d: unlent: %s\n", (int)t->rank, unlent);
  if (cuda != NULL) open_pool(cuda, set);
  if (linked && strcmp(mode, "speed") == 0)
    speed(t, cuda);
  else if (linked && strcmp(mode, "mismatch") == 0)
    mismatch(t, cuda);
  else if (linked && strcmp(mode, "blocks") == 0)
    blocks(t);
  else if (linked && strcmp(mode, "anew") == 0)
    anew(t, cuda, set);
  else if (linked && strcmp(mode, "breaks") == 0)
    breaks(t, cuda, set);
  else if (linked)
    exchange(t, cuda, set);
  t->destroy(t);
  if (cuda != NULL) cel_cuda_memory_clear(&pool);
  if (first && linked) printf("1 passed, 0 failed\n");
  if (first && !linked) printf("pending: %s\n", why);
  return 0;
}

int main(int argc, char **argv) {
  settings set = {.seed = 1, .messages = 60};
  for (int i = 2; i < argc; ++i)
    if (strcmp(argv[i], "--fake") == 0)
      set.fake = true;
    else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
      set.seed = strtoull(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--messages") == 0)
      set.messages = strtoll(argv[++i], NULL, 10);
  if (argc >= 2) return run(argv[1], &set);
  fprintf(stderr, "link_check exchange|speed|mismatch|breaks|refused "
                  "[--seed S] [--messages N] [--fake]\n");
  return 2;
}
