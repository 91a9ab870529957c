#include <sched.h>
#include <string.h>

#include "base/hash.h"
#include "comm/nccl/nccl_state.h"
#include "device/clock.h"
#include "tuning.h"

#define HANDSHAKE (1ull << 63)

/* ---- failure ------------------------------------------------------------- */

cel_status cel__nccl_fail(const cel__nccl *n, int32_t device, const char *doing,
                          ncclResult_t code) {
  const char *more = n->device[device].comm != NULL
                         ? n->api->ncclGetLastError(n->device[device].comm)
                         : NULL;
  bool says = more != NULL && more[0] != '\0';
  return cel_fail(CEL_E_COMM, "GPU %d: NCCL failed while %s: %s%s%.300s",
                  n->cuda->device[device].ordinal, doing,
                  n->api->ncclGetErrorString(code), says ? ": " : "",
                  says ? more : "");
}

cel_status cel__nccl_await(cel__nccl *n, int32_t device, const char *doing,
                           ncclResult_t code, int64_t deadline) {
  ncclComm_t comm = n->device[device].comm;
  while (code == ncclInProgress) {
    if (atomic_load_explicit(&n->halted, memory_order_relaxed))
      return cel_fail(CEL_E_CANCELLED, "others do not go on");
    if (deadline != 0 && cel_now_ns() > deadline)
      return cel_fail(CEL_E_COMM, "GPU %d: NCCL takes too long while %s",
                      n->cuda->device[device].ordinal, doing);
    if (n->api->ncclCommGetAsyncError(comm, &code) != ncclSuccess) break;
    if (code == ncclInProgress) sched_yield();
  }
  return code == ncclSuccess ? CEL_E_OK
                             : cel__nccl_fail(n, device, doing, code);
}

void cel__nccl_abort(cel__nccl *n) {
  for (int32_t d = 0; d < n->devices; ++d) {
    if (n->device[d].comm == NULL) continue;
    n->cuda->api->cuCtxSetCurrent(n->cuda->device[d].context);
    n->api->ncclCommAbort(n->device[d].comm);
    n->device[d].comm = NULL;
  }
}

static void note_failure(cel__nccl *n) {
  if (!n->failed) n->error = *cel_error_last();
  n->failed = true;
}

static void find_error(cel__nccl *n, int32_t d) {
  ncclResult_t code;
  if (n->api->ncclCommGetAsyncError(n->device[d].comm, &code) != ncclSuccess ||
      code == ncclSuccess || code == ncclInProgress)
    return;
  cel__nccl_fail(n, d, "exchanging with all ranks", code);
  note_failure(n);
  n->base.broken = &n->error;
  atomic_store(&n->halted, true);
}

/* What NCCL has found out by itself: a peer that is lost. A thread that puts
 * sees it itself. */
static void find_errors(cel__nccl *n) {
  for (int32_t d = 0; d < n->devices && !n->failed; ++d) {
    if (pthread_mutex_trylock(&n->device[d].lock) != 0) continue;
    find_error(n, d);
    pthread_mutex_unlock(&n->device[d].lock);
  }
}

/* ---- posting ------------------------------------------------------------- */

/* What all ranks must mean alike. */
static uint64_t meaning(const cel_device_collective *collective) {
  uint64_t what[] = {collective->nth,
                     (uint64_t)collective->pattern,
                     (uint64_t)collective->root,
                     collective->bytes,
                     collective->even,
                     (uint64_t)collective->by.op};
  return cel_hash(what, sizeof what, 0);
}

/* The inner transport matches collectives by the order in which they are
 * posted, whatever their numbers. */
static void exchange(void *self, const cel_collective *collective) {
  const cel_collective_table *inner = &((cel__nccl *)self)->inner->collectives;
  inner->exchange(inner->self, collective);
}

static cel__nccl_handshake *begin_handshake(cel__nccl *n, uint64_t word) {
  cel_transport *inner = n->inner;
  size_t ranks = (size_t)inner->ranks, bytes = ranks * sizeof(uint64_t);
  cel__nccl_handshake *h = cel_alloc_zero(sizeof *h + bytes);
  h->word[inner->rank] = word;
  h->piece = (cel_strided){h->word, {1, 1}, {bytes, bytes}, bytes};
  h->collective = (cel_collective){.ticket = HANDSHAKE | n->handshakes,
                                   .nth = n->handshakes,
                                   .pattern = CEL_PATTERN_ALL_GATHER,
                                   .bytes = bytes,
                                   .unit = sizeof(uint64_t),
                                   .count = n->count,
                                   .start = n->start,
                                   .pieces = 1,
                                   .piece = &h->piece};
  ++n->handshakes;
  inner->collectives.exchange(inner->collectives.self, &h->collective);
  return h;
}

static void report(cel__nccl *n, uint64_t ticket) {
  cel_done done = {ticket, cel_alloc(sizeof(cel_error))};
  *done.error = n->error;
  cel_vec_push(&n->done, done);
}

static void exchange_devices(void *self,
                             const cel_device_collective *collective) {
  cel__nccl *n = self;
  cel_assert_driver();
  cel_assert(n->stage == CEL__NCCL_JOINED);
  if (n->failed) {
    report(n, collective->ticket);
    return;
  }
  cel__nccl_end *end = cel_alloc(sizeof *end);
  *end = (cel__nccl_end){n, collective};
  cel_vec_push(&n->posted, end);
  if (collective->device < n->devices - 1) return;
  cel__nccl_handshake *h = begin_handshake(n, meaning(collective));
  h->nth = collective->nth;
  cel_vec_push(&n->handshake, h);
}

/* ---- handshakes ---------------------------------------------------------- */

static void fail_posted(cel__nccl *n) {
  for (uint32_t i = 0; i < n->posted.n; ++i) {
    report(n, n->posted.at[i]->collective->ticket);
    cel_free(n->posted.at[i]);
  }
  cel_vec_clear(&n->posted);
}

static void check_words(cel__nccl *n, const cel__nccl_handshake *h) {
  const cel_transport *t = &n->base;
  for (int64_t k = 0; k < t->ranks && !n->failed; ++k) {
    if (h->word[k] == h->word[t->rank]) continue;
    cel_fail(CEL_E_COMM,
             "ranks %lld and %lld mean different collectives by number %llu: "
             "they do not run the same program",
             (long long)t->rank, (long long)k, (unsigned long long)h->nth);
    note_failure(n);
  }
}

static void end_handshake(cel__nccl *n, uint64_t number,
                          const cel_error *error) {
  if (n->meeting != NULL) {
    n->meeting->over = true;
    if (error == NULL) return;
    cel_fail_with(error);
    note_failure(n);
  }
  for (uint32_t i = 0; i < n->handshake.n; ++i) {
    cel__nccl_handshake *h = n->handshake.at[i];
    if (h->collective.nth != number) continue;
    h->over = true;
    if (error != NULL) {
      cel_fail_with(error);
      note_failure(n);
    } else {
      check_words(n, h);
    }
  }
}

/* ---- joining ------------------------------------------------------------- */

/* All ranks have come: what they wait for from now on is NCCL, which has its
 * time, and none of them does anything else meanwhile. */
static cel_status end_meeting(cel__nccl *n) {
  bool good;
  cel_free(n->meeting);
  n->meeting = NULL;
  if (n->failed) return cel_fail_with(&n->error);
  CEL_TRY(cel__nccl_start(n, &good));
  n->stage = good ? CEL__NCCL_JOINED : CEL__NCCL_REFUSED;
  if (!good) n->base.collectives.limits = (cel_collective_limits){0};
  return CEL_E_OK;
}

static cel_status join(void *self, cel_joined *out, char *why) {
  cel__nccl *n = self;
  cel_assert_driver();
  if (n->stage == CEL__NCCL_APART) {
    n->meeting = begin_handshake(n, 0);
    n->stage = CEL__NCCL_MEETS;
  }
  bool met = n->meeting != NULL && n->meeting->over;
  if (n->stage == CEL__NCCL_MEETS && met) CEL_TRY(end_meeting(n));
  *out = n->stage == CEL__NCCL_JOINED    ? CEL_JOIN_DONE
         : n->stage == CEL__NCCL_REFUSED ? CEL_JOIN_REFUSED
                                         : CEL_JOIN_PENDING;
  if (*out == CEL_JOIN_REFUSED) memcpy(why, n->why, sizeof n->why);
  return CEL_E_OK;
}

cel_status cel_nccl_join(cel_transport *t, char *why) {
  const cel_collective_table *by = &t->collectives;
  const cel_control_table *control = &t->control;
  cel_joined joined = CEL_JOIN_DONE;
  cel_done done;
  why[0] = '\0';
  if (by->join == NULL) return CEL_E_OK;
  CEL_TRY(by->join(by->self, &joined, why));
  while (joined == CEL_JOIN_PENDING) {
    if (t->poll(t, &done, 1) > 0) cel_bug("something is under way");
    if (control->attend != NULL) control->attend(control->self);
    sched_yield();
    CEL_TRY(by->join(by->self, &joined, why));
  }
  return CEL_E_OK;
}

/* ---- progress ------------------------------------------------------------ */

/* Of what the inner transport says, what is not of handshakes. */
static uint32_t sort_out(cel__nccl *n, cel_done *out, uint32_t got) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < got; ++i) {
    if ((out[i].ticket & HANDSHAKE) == 0) {
      out[kept++] = out[i];
      continue;
    }
    end_handshake(n, out[i].ticket & ~HANDSHAKE, out[i].error);
    cel_free(out[i].error);
  }
  return kept;
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  cel__nccl *n = (cel__nccl *)t;
  cel_assert_driver();
  cel_transport *inner = n->inner;
  uint32_t got = sort_out(n, out, inner->poll(inner, out, max));
  if (t->broken == NULL) t->broken = inner->broken;
  bool halted = atomic_load(&n->halted);
  if (!halted && n->put > 0 && ++n->polls % CEL_TUNE_NCCL_POLLS == 0)
    find_errors(n);
  if (halted && atomic_load(&n->putting) == 0) cel__nccl_abort(n);
  if (n->failed) fail_posted(n);
  while (got < max && n->done.n > 0) out[got++] = cel_vec_pop(&n->done);
  return got;
}

/* The ends of what all ranks have posted. */
static uint32_t chained(cel_transport *t, cel_chained *out, uint32_t max) {
  cel__nccl *n = (cel__nccl *)t;
  cel_assert_driver();
  cel_transport *inner = n->inner;
  uint32_t got = 0;
  while (!n->failed && n->handshake.n > 0 && n->handshake.at[0]->over &&
         got + (uint32_t)n->devices <= max) {
    for (int32_t d = 0; d < n->devices; ++d) {
      cel__nccl_end *end = n->posted.at[d];
      out[got++] = (cel_chained){end->collective->ticket, cel__nccl_put, end};
    }
    n->put += (uint64_t)n->devices;
    cel_vec_drop_first(&n->posted, (uint32_t)n->devices);
    cel_free(n->handshake.at[0]);
    cel_vec_drop_first(&n->handshake, 1);
  }
  if (inner->chained != NULL && got < max)
    got += inner->chained(inner, out + got, max - got);
  return got;
}

static void unjoin(void *self, void *context) {
  cel__nccl *n = self;
  cel_assert_driver();
  --n->put;
  cel_free(context);
}

/* ---- the end ----------------------------------------------- */

/* Threads that wait within a put give up; then poll ends what waits on the
 * GPUs. */
static void halt(cel_transport *t) {
  cel__nccl *n = (cel__nccl *)t;
  cel_transport *inner = n->inner;
  atomic_store(&n->halted, true);
  if (inner->halt != NULL) inner->halt(inner);
}

static bool busy(cel_transport *t) {
  const cel__nccl *n = (const cel__nccl *)t;
  return n->posted.n > 0 || n->done.n > 0 || n->meeting != NULL ||
         n->inner->busy(n->inner);
}

/* All ranks come here, and nothing is under way; unless something failed. */
static void let_go(cel__nccl *n) {
  enum { PATIENCE_S = 30 };
  int64_t deadline = cel_now_ns() + (int64_t)PATIENCE_S * 1000000000;
  bool good =
      n->stage == CEL__NCCL_JOINED && !n->failed && !atomic_load(&n->halted);
  for (int32_t d = 0; d < n->devices && good; ++d) {
    n->cuda->api->cuCtxSetCurrent(n->cuda->device[d].context);
    ncclResult_t code = n->api->ncclCommFinalize(n->device[d].comm);
    good = code == ncclSuccess || code == ncclInProgress;
  }
  for (int32_t d = 0; d < n->devices && good; ++d)
    good =
        cel__nccl_await(n, d, "ending", ncclInProgress, deadline) == CEL_E_OK;
  for (int32_t d = 0; d < n->devices && good; ++d) {
    n->cuda->api->cuCtxSetCurrent(n->cuda->device[d].context);
    n->api->ncclCommDestroy(n->device[d].comm);
    n->device[d].comm = NULL;
  }
  cel__nccl_abort(n);
}

static void destroy(cel_transport *t) {
  cel__nccl *n = (cel__nccl *)t;
  cel_transport *inner = n->inner;
  if (n->failed || n->posted.n > 0 || n->meeting != NULL)
    inner->control.abort(inner->control.self, 1);
  let_go(n);
  inner->destroy(inner);
  cel__nccl_release(n);
}

/* ---- life ---------------------------------------------------------------- */

cel_status cel__nccl_gather(cel__nccl *n, const void *mine, uint32_t size,
                            void *all) {
  cel_transport *inner = n->inner;
  const cel_control_table *control = &inner->control;
  size_t ranks = (size_t)inner->ranks;
  memcpy((char *)all + (size_t)inner->rank * size, mine, size);
  cel_strided piece = {all, {1, 1}, {0, 0}, ranks * size};
  piece.stride[0] = piece.stride[1] = piece.run;
  cel_collective collective = {.ticket = HANDSHAKE | n->handshakes,
                               .nth = n->handshakes,
                               .pattern = CEL_PATTERN_ALL_GATHER,
                               .bytes = ranks * size,
                               .unit = size,
                               .count = n->count,
                               .start = n->start,
                               .pieces = 1,
                               .piece = &piece};
  ++n->handshakes;
  cel_done done;
  inner->collectives.exchange(inner->collectives.self, &collective);
  /* Once the ranks have met none is missing, and what they tell each other is
   * the executor's. */
  bool attends = n->stage == CEL__NCCL_APART && control->attend != NULL;
  while (inner->poll(inner, &done, 1) == 0) {
    if (attends) control->attend(control->self);
    sched_yield();
  }
  cel_assert(done.ticket == collective.ticket);
  if (done.error == NULL) return CEL_E_OK;
  cel_status status = cel_fail_with(done.error);
  cel_free(done.error);
  return status;
}

void cel__nccl_init(cel__nccl *n, cel_transport *inner) {
  size_t ranks = (size_t)inner->ranks;
  n->count = cel_alloc(ranks * sizeof *n->count);
  n->start = cel_alloc(ranks * sizeof *n->start);
  for (int32_t k = 0; k < (int32_t)ranks; ++k) {
    n->count[k] = 1;
    n->start[k] = k;
  }
  n->inner = inner;
  n->base = *inner;
  n->base.name = "mpi, and NCCL between GPUs";
  n->base.collectives =
      (cel_collective_table){.self = n,
                             .exchange = exchange,
                             .join = join,
                             .exchange_devices = exchange_devices,
                             .unjoin = unjoin};
  n->base.poll = poll;
  n->base.chained = chained;
  n->base.halt = halt;
  n->base.busy = busy;
  n->base.destroy = destroy;
}

void cel__nccl_release(cel__nccl *n) {
  const cel_cuda *cuda = n->cuda;
  for (int32_t d = 0; n->device != NULL && d < cuda->devices; ++d) {
    cuda->api->cuCtxSetCurrent(cuda->device[d].context);
    if (n->device[d].staging != 0)
      cuda->api->cuMemFree_v2(n->device[d].staging);
    pthread_mutex_destroy(&n->device[d].lock);
  }
  for (uint32_t i = 0; i < n->posted.n; ++i) cel_free(n->posted.at[i]);
  for (uint32_t i = 0; i < n->handshake.n; ++i) cel_free(n->handshake.at[i]);
  for (uint32_t i = 0; i < n->done.n; ++i) cel_free(n->done.at[i].error);
  cel_free(n->meeting);
  cel_vec_release(&n->posted);
  cel_vec_release(&n->handshake);
  cel_vec_release(&n->done);
  cel_free(n->device);
  cel_free(n->count);
  cel_free(n->start);
  cel_free(n);
}
