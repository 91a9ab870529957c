#include "comm/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/vec.h"
#include "comm/clocks.h"
#include "comm/report.h"
#include "device/cuda/cuda_copy.h"
#include "embed/embedded.h"

enum { BACKGROUND = 0xA5, PATIENCE = 120 /* s */ };
enum { DIRECT = 4 /* lines before it */, WAYS };

_Noreturn void exchange_give_up(cel_transport *t, const char *why) {
  fprintf(stderr, "rank %lld: %s\n", (long long)t->rank, why);
  t->control.abort(t->control.self, 1);
  exit(1);
}

double exchange_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void exchange_nap(void) {
  struct timespec ts = {0, 20000};
  nanosleep(&ts, NULL);
}

cel_cuda *exchange_open_gpu(const cel_transport *t) {
  char why[256];
  cel_cuda *cuda = NULL;
  int32_t n = cel_cuda_count(why, sizeof why);
  int32_t ordinal = n > 0 ? t->local_rank % n : 0;
  if (n == 0 || cel_cuda_open(&ordinal, 1, &cuda) != CEL_E_OK) return NULL;
  const char *text = cel_embedded_find("kernels/strided.cuh")->data;
  if (cel_cuda_pack_load(cuda, text) != CEL_E_OK)
    fprintf(stderr, "short rows: %s\n", cel_error_last()->text);
  return cuda;
}

/* --- ends ----------------------------------------------------------------- */

void exchange_shape(exchange_planned *p, uint64_t bytes, int64_t most,
                    cel_random *r) {
  p->pieces = (uint32_t)cel_random_int(r, 1, cel_random_chance(r, 60) ? 1 : 3);
  bytes = bytes / p->pieces + 1;
  for (uint32_t i = 0; i < p->pieces; ++i) {
    bool dense = cel_random_chance(r, 40);
    uint64_t rows = dense ? 1 : (uint64_t)cel_random_int(r, 1, most);
    uint64_t planes = dense ? 1 : (uint64_t)cel_random_int(r, 1, 5);
    if (rows * planes > bytes) rows = planes = 1;
    p->count[i][0] = planes;
    p->count[i][1] = rows;
    p->run[i] = bytes / (rows * planes);
    p->bytes += planes * rows * p->run[i];
  }
}

void exchange_number(exchange_planned *plan, int64_t n, int64_t ranks) {
  uint64_t *next =
      cel_alloc_zero((size_t)(WAYS * ranks * ranks) * sizeof *next);
  for (exchange_planned *p = plan; p < plan + n; ++p) {
    int64_t way = p->direct ? DIRECT : p->line;
    p->sequence = next[(way * ranks + p->from) * ranks + p->to]++;
  }
  cel_free(next);
}

static unsigned char byte_of(const exchange_planned *p, uint64_t at) {
  return (unsigned char)((p->salt >> (at % 8 * 8)) + at * 31 + (at >> 12));
}

/* Strides of its own for this end; bases count from 0. */
static void lay_out(exchange_end *e, cel_random *r) {
  const exchange_planned *p = e->plan;
  bool dense = cel_random_chance(r, 30), odd = cel_random_chance(r, 50);
  for (uint32_t i = 0; i < p->pieces; ++i) {
    uint64_t gap = dense ? 0 : (uint64_t)cel_random_int(r, 0, odd ? 9 : 40);
    uint64_t stride = p->run[i] + gap;
    uint64_t plane =
        p->count[i][1] * stride + (dense ? 0 : gap % 4 * (odd ? 1 : stride));
    e->piece[i] = (cel_strided){(void *)e->size,
                                {p->count[i][0], p->count[i][1]},
                                {plane, stride},
                                p->run[i]};
    e->size += p->count[i][0] * plane + 8;
  }
  e->size += e->size == 0;
}

static void draw(exchange_end *e) {
  uint64_t at = 0;
  e->image = cel_alloc(e->size);
  memset(e->image, BACKGROUND, e->size);
  for (uint32_t i = 0; i < e->plan->pieces; ++i) {
    const cel_strided *s = &e->piece[i];
    for (uint64_t a = 0; a < s->count[0]; ++a)
      for (uint64_t b = 0; b < s->count[1]; ++b)
        for (uint64_t c = 0; c < s->run; ++c, ++at)
          e->image[(uintptr_t)s->base + a * s->stride[0] + b * s->stride[1] +
                   c] = byte_of(e->plan, at);
  }
}

/* Memory with what is sent, or the background. */
static void give_memory(exchange_end *e, const exchange_memory *memory) {
  unsigned char *first = cel_alloc(e->size);
  memset(first, BACKGROUND, e->size);
  if (e->sending) memcpy(first, e->image, e->size);
  if (e->plan->direct) {
    e->memory = memory->make(memory->context, first, e->size);
    cel_free(first);
  } else {
    e->memory = (uintptr_t)first;
  }
  for (uint32_t i = 0; i < e->plan->pieces; ++i)
    e->piece[i].base =
        (void *)(uintptr_t)(e->memory + (uintptr_t)e->piece[i].base);
}

void exchange_make_ends(exchange_ends *ends, const exchange_planned *plan,
                        int64_t n, int64_t rank, cel_random *r, int after,
                        const exchange_memory *memory) {
  uint32_t last = UINT32_MAX; /* a recent receive */
  *ends = (exchange_ends){.memory = memory};
  for (int64_t i = 0; i < n; ++i)
    for (int sending = 0; sending < 2; ++sending) {
      if ((sending ? plan[i].from : plan[i].to) != rank) continue;
      exchange_end e = {
          .plan = &plan[i], .sending = sending, .after = UINT32_MAX};
      bool self = plan[i].from == plan[i].to;
      lay_out(&e, r);
      draw(&e);
      give_memory(&e, memory);
      if (sending && !self && cel_random_chance(r, after)) e.after = last;
      if (!sending && !self) last = ends->n;
      cel_vec_push(ends, e);
    }
}

void exchange_free_ends(exchange_ends *ends) {
  for (uint32_t i = 0; i < ends->n; ++i) {
    exchange_end *e = &ends->at[i];
    cel_free(e->image);
    if (e->plan->direct)
      ends->memory->release(ends->memory->context, e->memory);
    else
      cel_free((void *)(uintptr_t)e->memory);
  }
  cel_vec_release(ends);
}

static bool has_arrived(const exchange_ends *ends, const exchange_end *e) {
  if (!e->plan->direct)
    return memcmp((void *)(uintptr_t)e->memory, e->image, e->size) == 0;
  unsigned char *got = cel_alloc(e->size);
  ends->memory->read(ends->memory->context, got, e->memory, e->size);
  bool same = memcmp(got, e->image, e->size) == 0;
  cel_free(got);
  return same;
}

/* --- running -------------------------------------------------------------- */

static void shuffle(uint32_t *order, uint32_t n, cel_random *r) {
  for (uint32_t i = n; i > 1; --i) {
    uint32_t j = (uint32_t)cel_random_int(r, 0, i - 1), x = order[i - 1];
    order[i - 1] = order[j];
    order[j] = x;
  }
}

void exchange_post(cel_transport *t, exchange_ends *ends, uint32_t i) {
  exchange_end *e = &ends->at[i];
  e->posted = true;
  e->posting = (cel_posted){.ticket = i,
                            .peer = e->sending ? e->plan->to : e->plan->from,
                            .sequence = e->plan->sequence,
                            .bytes = e->plan->bytes,
                            .pieces = e->plan->pieces,
                            .piece = e->piece,
                            .direct = e->plan->direct,
                            .chained = e->plan->chained,
                            .far = e->plan->far,
                            .line = e->plan->line};
  if (e->sending)
    t->messages.send(t->messages.self, &e->posting);
  else
    t->messages.receive(t->messages.self, &e->posting);
}

/* Posts a few more, in the order given, skipping sends that must wait. */
static void post_some(cel_transport *t, exchange_ends *ends, uint32_t *order,
                      uint32_t *n, cel_random *r) {
  uint32_t quota = (uint32_t)cel_random_int(r, 0, 20), kept = 0;
  for (uint32_t i = 0; i < *n; ++i) {
    const exchange_end *e = &ends->at[order[i]];
    if (quota > 0 && (e->after == UINT32_MAX || ends->at[e->after].ended)) {
      exchange_post(t, ends, order[i]);
      --quota;
    } else {
      order[kept++] = order[i];
    }
  }
  *n = kept;
}

void exchange_end_at(exchange_ends *ends, uint32_t i) {
  exchange_end *e = &ends->at[i];
  e->ended = true;
  ++ends->ended;
  if (!e->sending) ends->faults += !has_arrived(ends, e);
}

static uint32_t take_ended(cel_transport *t, exchange_ends *ends) {
  cel_done done[16];
  uint32_t n = t->poll(t, done, 16);
  for (uint32_t i = 0; i < n; ++i) {
    exchange_end *e = &ends->at[done[i].ticket];
    if (done[i].error != NULL) exchange_give_up(t, done[i].error->text);
    if (e->ended || !e->posted) exchange_give_up(t, "a ticket came twice");
    exchange_end_at(ends, (uint32_t)done[i].ticket);
  }
  return n;
}

void exchange_run(cel_transport *t, exchange_ends *ends, cel_random *r,
                  bool (*more)(void *context, uint64_t *did), void *context) {
  uint32_t n = ends->n, left = n;
  uint32_t *order = cel_alloc(n * sizeof *order + 1);
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  shuffle(order, n, r);
  double last = exchange_now();
  for (bool others = true; ends->ended < n || others;) {
    uint64_t did = 0;
    post_some(t, ends, order, &left, r);
    uint32_t ended = take_ended(t, ends);
    others = more != NULL && more(context, &did);
    if (ended + did > 0)
      last = exchange_now();
    else if (exchange_now() - last > PATIENCE)
      exchange_give_up(t, "nothing has happened for 120 s");
    else
      exchange_nap();
  }
  cel_free(order);
}

void exchange_break(cel_transport *t, exchange_ends *ends,
                    void (*broken)(void)) {
  uint32_t back = 0, failed = 0, direct = 0;
  for (uint32_t i = 0; i < ends->n; ++i) {
    if (!ends->at[i].plan->direct) continue;
    exchange_post(t, ends, i);
    ++direct;
  }
  while (back < direct || t->rank != 0) {
    cel_done done[16];
    uint32_t got = t->poll(t, done, 16);
    for (uint32_t i = 0; i < got; ++i) {
      exchange_end *e = &ends->at[done[i].ticket];
      if (e->ended) exchange_give_up(t, "a ticket came twice");
      e->ended = true;
      failed += done[i].error != NULL;
      if (done[i].error != NULL && failed == 1)
        printf("%s\n", done[i].error->text);
      cel_free(done[i].error);
    }
    if (t->rank == 0 && back == 0 && got > 0) broken();
    back += got;
  }
  printf("%s came back\n", failed > 0 && failed < direct ? "all" : "not all");
  fflush(stdout);
  t->control.abort(t->control.self, 3);
  abort();
}

/* Ranks that do not know that they are on one host: their clocks are alike, and
 * they find out as well as they can. */
void exchange_compare_clocks(cel_transport *t) {
  cel_clock clock;
  cel_clock_offset found = {-1, -1};
  cel_clock_here(&clock);
  t->local_ranks = 1;
  snprintf(clock.host, sizeof clock.host, "rank %lld", (long long)t->rank);
  if (cel_clocks_compare(t, &clock, &found) != CEL_E_OK)
    exchange_give_up(t, cel_error_last()->text);
  if (found.ahead > found.within || -found.ahead > found.within ||
      (t->rank > 0 && found.within == 0))
    exchange_give_up(t, "a clock that is not what it is");
}

/* Until rank 0 leaves it to this rank to say what went wrong. */
static void ask_for_word(cel_transport *t) {
  cel_done done;
  bool heard = false;
  t->control.tell(t->control.self, 0, CEL_REPORT_ASK, NULL, 0);
  for (double since = exchange_now(); !heard; exchange_nap()) {
    if (exchange_now() - since > 60) exchange_give_up(t, "rank 0 is deaf");
    t->poll(t, &done, 1);
    for (cel_told *told; (told = t->control.told(t->control.self)) != NULL;
         cel_free(told))
      heard |= told->kind == CEL_REPORT_YOURS;
  }
}

void exchange_fail_alone(cel_transport *t) {
  ask_for_word(t);
  puts("heard");
  fflush(stdout);
  t->control.abort(t->control.self, 4);
  abort();
}
