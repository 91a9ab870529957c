/* link_check.c -- direct messages between the GPUs of one host's ranks.
 *
 *   mpirun -n 4 link_check exchange [--seed S] [--messages N] [--fake]
 *   mpirun -n 2 link_check speed|mismatch|breaks
 *
 * `exchange`: N messages for each rank, between random pairs, of one byte to 40
 * MiB, dense and strided, each end laid out in its own way; some sends begin
 * only when an earlier receive has ended. Every byte is compared, also those
 * between the runs. A part of the messages goes the inner transport's way.
 * `mismatch`: the two ends of a message expect other lengths, and both are
 * told. `breaks`: rank 0's driver fails, and it gets back all that it posted.
 * `speed`: from each even rank to the next odd one.
 * With --fake there is no GPU (fake_cuda.h). The last line of a good run is
 * `N passed, 0 failed`; where the ranks cannot be linked, `pending: WHY`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "base/vec.h"
#include "comm/cuda_link.h"
#include "comm/fake_cuda.h"
#include "device/cuda_pack.h"
#include "embed/embedded.h"

typedef struct settings {
  uint64_t seed;
  int64_t messages;
  bool fake;
} settings;

typedef struct planned {
  int64_t from, to;
  uint64_t sequence, bytes, salt;
  bool direct;
  uint32_t pieces;
  uint64_t count[3][2], run[3];
} planned;

typedef struct end {
  const planned *plan;
  bool sending, posted, ended;
  uint32_t after;
  cel_posted posting;
  cel_strided piece[3];
  CUdeviceptr memory;  /* direct: of the GPU */
  unsigned char *host; /* what must be there in the end */
  size_t size;
} end;

static _Noreturn void give_up(cel_transport *t, const char *why) {
  fprintf(stderr, "link_check: rank %lld: %s\n", (long long)t->rank, why);
  t->abort(t, 1);
  exit(1);
}

static double now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* --- the list ------------------------------------------------------------- */

static uint64_t random_bytes(cel_random *r) {
  int64_t kind = cel_random_int(r, 0, 99);
  if (kind < 30) return (uint64_t)cel_random_int(r, 1, 1000);
  if (kind < 70) return (uint64_t)cel_random_int(r, 1000, 256 << 10);
  if (kind < 95) return (uint64_t)cel_random_int(r, 256 << 10, 4 << 20);
  return (uint64_t)cel_random_int(r, 8 << 20, 40 << 20);
}

/* About so many bytes; no more rows than a copy of rows bears. */
static void plan_shape(planned *p, cel_random *r) {
  p->pieces = (uint32_t)cel_random_int(r, 1, cel_random_chance(r, 60) ? 1 : 3);
  uint64_t bytes = random_bytes(r) / p->pieces + 1;
  for (uint32_t i = 0; i < p->pieces; ++i) {
    bool dense = cel_random_chance(r, 40);
    uint64_t rows = dense ? 1 : (uint64_t)cel_random_int(r, 1, 3000);
    uint64_t planes = dense ? 1 : (uint64_t)cel_random_int(r, 1, 5);
    if (rows * planes > bytes) rows = planes = 1;
    p->count[i][0] = planes;
    p->count[i][1] = rows;
    p->run[i] = bytes / (rows * planes);
    p->bytes += planes * rows * p->run[i];
  }
}

static planned *make_plan(const settings *set, int64_t ranks, int64_t *n) {
  cel_random r = {set->seed};
  *n = set->messages * ranks;
  planned *plan = cel_alloc_zero((size_t)*n * sizeof *plan);
  uint64_t *next = cel_alloc_zero((size_t)(2 * ranks * ranks) * sizeof *next);
  for (int64_t i = 0; i < *n; ++i) {
    planned *p = &plan[i];
    p->from = cel_random_int(&r, 0, ranks - 1);
    p->to = (p->from + cel_random_int(&r, 1, ranks - 1)) % ranks;
    p->direct = cel_random_chance(&r, 85);
    p->sequence = next[(p->direct * ranks + p->from) * ranks + p->to]++;
    p->salt = cel_random_next(&r);
    plan_shape(p, &r);
  }
  cel_free(next);
  return plan;
}

static unsigned char byte_of(const planned *p, uint64_t at) {
  return (unsigned char)((p->salt >> (at % 8 * 8)) + at * 31 + (at >> 12));
}

/* --- ends ----------------------------------------------------------------- */

static uint64_t lay_out(end *e, cel_random *r) {
  bool dense = cel_random_chance(r, 30);
  uint64_t size = 0;
  for (uint32_t i = 0; i < e->plan->pieces; ++i) {
    const uint64_t *count = e->plan->count[i];
    uint64_t gap = dense ? 0 : (uint64_t)cel_random_int(r, 0, 40);
    uint64_t stride = e->plan->run[i] + gap;
    uint64_t plane = count[1] * stride + (dense ? 0 : gap % 4 * stride);
    e->piece[i] = (cel_strided){(void *)(uintptr_t)size,
                                {count[0], count[1]},
                                {plane, stride},
                                e->plan->run[i]};
    size += count[0] * plane + 8;
  }
  return size;
}

static void write_image(end *e) {
  uint64_t at = 0;
  memset(e->host, 0xA5, e->size);
  for (uint32_t i = 0; i < e->plan->pieces; ++i) {
    const cel_strided *s = &e->piece[i];
    for (uint64_t a = 0; a < s->count[0]; ++a)
      for (uint64_t b = 0; b < s->count[1]; ++b)
        for (uint64_t c = 0; c < s->run; ++c, ++at)
          e->host[(uintptr_t)s->base + a * s->stride[0] + b * s->stride[1] +
                  c] = byte_of(e->plan, at);
  }
}

/* Memory with what is sent, or a background. */
static void give_memory(end *e, const cel_cuda *cuda) {
  unsigned char *first = cel_alloc(e->size);
  memset(first, 0xA5, e->size);
  if (e->sending) memcpy(first, e->host, e->size);
  if (e->plan->direct) {
    if (cuda->api->cuMemAlloc_v2(&e->memory, e->size) != CUDA_SUCCESS ||
        cuda->api->cuMemcpyHtoD_v2(e->memory, first, e->size) != CUDA_SUCCESS)
      cel_bug("no memory of the GPU");
    cel_free(first);
  } else {
    e->memory = (uintptr_t)first;
  }
  for (uint32_t i = 0; i < e->plan->pieces; ++i)
    e->piece[i].base =
        (void *)(uintptr_t)(e->memory + (uintptr_t)e->piece[i].base);
}

static end *make_ends(const planned *plan, int64_t n, int64_t rank,
                      const cel_cuda *cuda, cel_random *r, uint32_t *count) {
  CEL_VEC(end) ends = {0};
  uint32_t last = UINT32_MAX;
  for (int64_t i = 0; i < n; ++i) {
    if (plan[i].from != rank && plan[i].to != rank) continue;
    end e = {
        .plan = &plan[i], .sending = plan[i].from == rank, .after = UINT32_MAX};
    e.size = lay_out(&e, r);
    e.host = cel_alloc(e.size);
    write_image(&e);
    give_memory(&e, cuda);
    if (e.sending && cel_random_chance(r, 40)) e.after = last;
    if (!e.sending) last = ends.n;
    cel_vec_push(&ends, e);
  }
  *count = ends.n;
  return ends.at;
}

static uint64_t check_and_free(end *e, const cel_cuda *cuda) {
  unsigned char *got = cel_alloc(e->size);
  if (!e->plan->direct)
    memcpy(got, (void *)(uintptr_t)e->memory, e->size);
  else if (cuda->api->cuMemcpyDtoH_v2(got, e->memory, e->size) != CUDA_SUCCESS)
    cel_bug("the GPU does not give its memory");
  uint64_t faults = memcmp(got, e->host, e->size) != 0;
  cel_free(got);
  cel_free(e->host);
  if (e->plan->direct)
    cuda->api->cuMemFree_v2(e->memory);
  else
    cel_free((void *)(uintptr_t)e->memory);
  return faults;
}

/* --- exchange ------------------------------------------------------------- */

static void post(cel_transport *t, end *e, uint32_t ticket) {
  e->posted = true;
  e->posting = (cel_posted){.ticket = ticket,
                            .peer = e->sending ? e->plan->to : e->plan->from,
                            .sequence = e->plan->sequence,
                            .bytes = e->plan->bytes,
                            .pieces = e->plan->pieces,
                            .piece = e->piece,
                            .direct = e->plan->direct};
  if (e->sending)
    t->send(t, &e->posting);
  else
    t->receive(t, &e->posting);
}

static void post_some(cel_transport *t, end *ends, uint32_t n, cel_random *r) {
  for (int64_t k = cel_random_int(r, 0, 8); k > 0; --k) {
    uint32_t i = (uint32_t)cel_random_int(r, 0, (int64_t)n - 1);
    for (uint32_t tries = 0; tries < n; ++tries, i = (i + 1) % n) {
      end *e = &ends[i];
      if (e->posted || (e->after != UINT32_MAX && !ends[e->after].ended))
        continue;
      post(t, e, i);
      break;
    }
  }
}

static void run_exchange(cel_transport *t, end *ends, uint32_t n,
                         uint64_t seed) {
  cel_random r = {seed * 1000 + (uint64_t)t->rank};
  double last = now();
  for (uint32_t over = 0; over < n;) {
    cel_done done[16];
    post_some(t, ends, n, &r);
    uint32_t got = t->poll(t, done, 16);
    for (uint32_t i = 0; i < got; ++i) {
      end *e = &ends[done[i].ticket];
      if (done[i].error != NULL) give_up(t, done[i].error->text);
      if (e->ended || !e->posted) give_up(t, "a ticket came twice");
      e->ended = true;
    }
    over += got;
    if (got > 0) last = now();
    if (now() - last > 20) give_up(t, "nothing has happened for 20 s");
  }
}

static int exchange(cel_transport *t, const cel_cuda *cuda,
                    const settings *set) {
  int64_t planned_messages;
  planned *plan = make_plan(set, t->ranks, &planned_messages);
  cel_random r = {set->seed * 77 + (uint64_t)t->rank};
  uint32_t n;
  end *ends = make_ends(plan, planned_messages, t->rank, cuda, &r, &n);
  run_exchange(t, ends, n, set->seed);
  uint64_t faults = 0;
  for (uint32_t i = 0; i < n; ++i) faults += check_and_free(&ends[i], cuda);
  if (faults > 0) give_up(t, "bytes differ");
  cel_free(ends);
  cel_free(plan);
  return 0;
}

/* --- what ends badly -------------------------------------------------------
 */

static int mismatch(cel_transport *t, const cel_cuda *cuda) {
  uint64_t bytes = t->rank == 0 ? 100 : 120;
  CUdeviceptr memory;
  cuda->api->cuMemAlloc_v2(&memory, bytes);
  cel_strided piece = {
      (void *)(uintptr_t)memory, {1, 1}, {bytes, bytes}, bytes};
  cel_posted message = {1, 1 - t->rank, 0, bytes, 1, &piece, true};
  cel_done done;
  if (t->rank == 0)
    t->send(t, &message);
  else
    t->receive(t, &message);
  while (t->poll(t, &done, 1) == 0) {
  }
  printf("rank %d: %s\n", (int)t->rank,
         done.error != NULL ? done.error->text : "fine");
  cel_free(done.error);
  cuda->api->cuMemFree_v2(memory);
  return 0;
}

/* Ends the job. */
static int breaks(cel_transport *t, const cel_cuda *cuda, const settings *set) {
  int64_t planned_messages;
  planned *plan = make_plan(set, t->ranks, &planned_messages);
  cel_random r = {set->seed * 77 + (uint64_t)t->rank};
  uint32_t n, back = 0, failed = 0, direct = 0;
  end *ends = make_ends(plan, planned_messages, t->rank, cuda, &r, &n);
  if (t->rank == 0) fake_cuda_break(set->messages / 2);
  for (uint32_t i = 0; i < n; ++i) {
    if (!ends[i].plan->direct) continue;
    post(t, &ends[i], i);
    ++direct;
  }
  while (back < direct || t->rank != 0) {
    cel_done done[16];
    uint32_t got = t->poll(t, done, 16);
    for (uint32_t i = 0; i < got; ++i) {
      if (ends[done[i].ticket].ended) give_up(t, "a ticket came twice");
      ends[done[i].ticket].ended = true;
      failed += done[i].error != NULL;
      if (done[i].error != NULL && failed == 1)
        printf("%s\n", done[i].error->text);
      cel_free(done[i].error);
    }
    back += got;
  }
  printf("%s came back\n", failed > 0 && failed < direct ? "all" : "not all");
  t->abort(t, 3);
  return 3;
}

/* --- speed ---------------------------------------------------------------- */

static void await(cel_transport *t, uint32_t n) {
  cel_done done[16];
  while (n > 0) {
    uint32_t got = t->poll(t, done, 16);
    for (uint32_t i = 0; i < got; ++i)
      if (done[i].error != NULL) give_up(t, done[i].error->text);
    n -= got;
  }
}

/* GB/s of messages, so many at once; the first round does not count. */
static double measure(cel_transport *t, CUdeviceptr memory, uint64_t bytes,
                      uint32_t at_once, uint64_t *sequence) {
  enum { ROUNDS = 20, MOST = 4 };
  cel_strided piece = {
      (void *)(uintptr_t)memory, {1, 1}, {bytes, bytes}, bytes};
  cel_posted message[MOST];
  double begin = 0;
  for (int i = 0; i <= ROUNDS; ++i) {
    if (i == 1) begin = now();
    for (uint32_t k = 0; k < at_once; ++k) {
      message[k] = (cel_posted){.ticket = k,
                                .peer = t->rank ^ 1,
                                .sequence = (*sequence)++,
                                .bytes = bytes,
                                .pieces = 1,
                                .piece = &piece,
                                .direct = true};
      if (t->rank % 2 == 0)
        t->send(t, &message[k]);
      else
        t->receive(t, &message[k]);
    }
    await(t, at_once);
  }
  return (double)bytes * at_once * ROUNDS / (now() - begin) * 1e-9;
}

static int speed(cel_transport *t, const cel_cuda *cuda) {
  static const uint64_t bytes[] = {32 << 10, 256 << 10, 1 << 20,
                                   8 << 20,  64 << 20,  256 << 20};
  CUdeviceptr memory;
  uint64_t sequence = 0;
  if (cuda->api->cuMemAlloc_v2(&memory, 256 << 20) != CUDA_SUCCESS)
    give_up(t, "no memory of the GPU");
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes && t->ranks % 2 == 0;
       ++i) {
    double one = measure(t, memory, bytes[i], 1, &sequence);
    double four = measure(t, memory, bytes[i], 4, &sequence);
    if (t->rank == 1)
      printf("%8llu KiB: %7.1f GB/s one by one, %7.1f GB/s four at once\n",
             (unsigned long long)bytes[i] >> 10, one, four);
  }
  cuda->api->cuMemFree_v2(memory);
  return 0;
}

/* --- main ----------------------------------------------------------------- */

/* Its own GPU, taken in turns. */
static const cel_cuda *open_gpu(const cel_transport *t) {
  char why[256];
  cel_cuda *cuda = NULL;
  int32_t n = cel_cuda_count(why, sizeof why);
  int32_t ordinal = n > 0 ? t->local_rank % n : 0;
  if (n == 0 || cel_cuda_open(&ordinal, 1, &cuda) != CEL_E_OK) return NULL;
  const char *text = cel_embedded_find("kernels/strided.cuh")->data;
  if (cel_cuda_pack_load(cuda, text) != CEL_E_OK)
    fprintf(stderr, "link_check: %s\n", cel_error_last()->text);
  return cuda;
}

static int run(const char *mode, const settings *set) {
  cel_transport *t;
  char why[256] = "";
  if (cel_transport_mpi(&t) != CEL_E_OK) {
    fprintf(stderr, "link_check: %s\n", cel_error_last()->text);
    return 1;
  }
  const cel_cuda *cuda =
      set->fake ? fake_cuda(set->seed + (uint64_t)t->rank) : open_gpu(t);
  if (cel_transport_cuda_link(t, cuda, &t, why, sizeof why) != CEL_E_OK)
    give_up(t, cel_error_last()->text);
  bool linked = t->nears > 0, first = t->rank == 0;
  if (linked && strcmp(mode, "speed") == 0)
    speed(t, cuda);
  else if (linked && strcmp(mode, "mismatch") == 0)
    mismatch(t, cuda);
  else if (linked && strcmp(mode, "breaks") == 0)
    breaks(t, cuda, set);
  else if (linked)
    exchange(t, cuda, set);
  t->destroy(t);
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
  fprintf(stderr, "link_check exchange|speed|mismatch|breaks [--seed S] "
                  "[--messages N] [--fake]\n");
  return 2;
}
