#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/link/link_state.h"
#include "tuning.h"

enum { WHY = 160 };

/* What a rank tells the others of its host. */
typedef struct hello {
  int64_t rank;
  char why[WHY];                 /* it cannot take part; empty: it can */
  char rings[64];                /* local rank 0: the name of the segment */
  cel_mailbox_handles handles[]; /* for each of them, by local_rank */
} hello;

static size_t size_of_hello(const cel__link *link) {
  return sizeof(hello) +
         (size_t)link->base.local_ranks * sizeof(cel_mailbox_handles);
}

static const hello *hello_of(const cel__link *link, const void *all,
                             int32_t local) {
  return (const void *)((const char *)all +
                        (size_t)local * size_of_hello(link));
}

/* ---- the end ------------------------------------------------------------- */

/* Where others would not, or could not, it is called twice. */
static void let_peer_go(cel__link *link, cel__link_peer *peer) {
  const cel_cuda_api *api = link->cuda->api;
  for (int i = 0; i < CEL__LINK_STREAMS; ++i) {
    if (peer->stream[i] != NULL) api->cuStreamDestroy_v2(peer->stream[i]);
    peer->stream[i] = NULL;
  }
  for (int i = 0; i < CEL_MAIL_SLOTS; ++i) {
    if (peer->emptied[i] != NULL) api->cuEventDestroy_v2(peer->emptied[i]);
    if (peer->sent[i] != NULL) api->cuEventDestroy_v2(peer->sent[i]);
    peer->emptied[i] = peer->sent[i] = NULL;
  }
  cel_mailbox_let_go(&peer->mailbox);
  cel__link_close_loans(link, peer);
  cel_vec_release(&peer->slots);
  cel_vec_release(&peer->receives);
  cel_vec_release(&peer->sends);
  cel_vec_release(&peer->wants);
  cel_vec_release(&peer->words);
}

void cel__link_let_go(cel__link *link) {
  if (link->cuda != NULL)
    link->cuda->api->cuCtxSetCurrent(link->cuda->device[0].context);
  for (int32_t p = 0; p < link->peers; ++p) let_peer_go(link, &link->peer[p]);
  cel_host_rings_close(link->rings);
  cel_host_fds_close(link->fds);
  link->rings = NULL;
  link->fds = NULL;
}

void cel__link_release(cel__link *link) {
  if (link->cuda != NULL)
    link->cuda->api->cuCtxSetCurrent(link->cuda->device[0].context);
  if (link->stream != NULL) link->cuda->api->cuStreamDestroy_v2(link->stream);
  for (int32_t p = 0; p < link->peers; ++p)
    cel_mailbox_close(&link->peer[p].mailbox);
  for (uint32_t i = 0; i < link->spare.n; ++i)
    link->cuda->api->cuEventDestroy_v2(link->spare.at[i]);
  for (uint32_t i = 0; i < link->done.n; ++i) cel_free(link->done.at[i].error);
  cel_vec_release(&link->spare);
  cel_vec_release(&link->written);
  cel_vec_release(&link->loans);
  cel_vec_release(&link->done);
  cel_vec_release(&link->slots);
  cel_vec_release(&link->wanted);
  cel_vec_release(&link->chained);
  cel_free(link->near);
  cel_free(link->peer);
  cel_free(link);
}

/* ---- what we offer ------------------------------------------------------- */

static cel_status make_rings(cel__link *link, hello *mine) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  snprintf(mine->rings, sizeof mine->rings, "/celer-%ld-%lld%09ld",
           (long)getpid(), (long long)t.tv_sec, t.tv_nsec);
  return cel_host_rings_create(mine->rings, link->base.local_ranks,
                               &link->rings);
}

/* Copies within a GPU may be kernels: they are not to wait for one that fills
 * it. */
static CUresult make_stream(const cel__link *link, CUstream *out) {
  return link->cuda->api->cuStreamCreateWithPriority(
      out, CU_STREAM_NON_BLOCKING, -1);
}

static cel_status make_peer(cel__link *link, int32_t local, hello *mine) {
  cel__link_peer *peer = &link->peer[link->peers++];
  peer->local = local;
  CEL_TRY(cel_mailbox_make(&peer->mailbox, link->cuda, &mine->handles[local]));
  CUresult code = CUDA_SUCCESS;
  for (int i = 0; i < CEL__LINK_STREAMS && code == CUDA_SUCCESS; ++i)
    code = make_stream(link, &peer->stream[i]);
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel_mailbox_fail(link->cuda, "cuStreamCreateWithPriority", code);
}

static cel_status offer(cel__link *link, hello *mine) {
  const cel_cuda *cuda = link->cuda;
  const cel_transport *base = &link->base;
  if (cuda == NULL) return cel_fail(CEL_E_MISSING, "it uses no GPU");
  if (cuda->devices != 1)
    return cel_fail(CEL_E_MISSING, "it has %d GPUs, not one", cuda->devices);
  for (int32_t i = 0; i < base->local_ranks; ++i)
    if (i != base->local_rank) CEL_TRY(make_peer(link, i, mine));
  CUresult code = make_stream(link, &link->stream);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(cuda, "cuStreamCreateWithPriority", code);
  return base->local_rank == 0 ? make_rings(link, mine) : CEL_E_OK;
}

/* ---- what others offer --------------------------------------------------- */

static int by_rank(const void *left, const void *right) {
  const cel__link_peer *a = left, *b = right;
  return a->rank < b->rank ? -1 : 1;
}

static cel_status open_all(cel__link *link, const void *all) {
  const cel_transport *base = &link->base;
  const char *name = hello_of(link, all, 0)->rings;
  if (link->rings == NULL)
    CEL_TRY(cel_host_rings_open(name, base->local_ranks, &link->rings));
  for (int32_t p = 0; p < link->peers; ++p) {
    cel__link_peer *peer = &link->peer[p];
    const hello *theirs = hello_of(link, all, peer->local);
    peer->rank = theirs->rank;
    CEL_TRY(
        cel_mailbox_open(&peer->mailbox, &theirs->handles[base->local_rank]));
    CEL_TRY(cel__link_probe_send(link, peer));
  }
  return CEL_E_OK;
}

static cel_status take_probes(cel__link *link) {
  for (int32_t p = 0; p < link->peers; ++p)
    CEL_TRY(cel__link_probe_take(link, &link->peer[p]));
  return CEL_E_OK;
}

/* Before others send something there. */
static cel_status open_fds(cel__link *link, const void *all) {
  return cel_host_fds_open(hello_of(link, all, 0)->rings, link->base.local_rank,
                           &link->fds);
}

/* ---- agreement ----------------------------------------------------------- */

/* All ranks' words; false and why where one of them cannot. */
static cel_status hear(cel__link *link, hello *mine, cel_status status,
                       void *all, bool *good, char *why) {
  const cel_control_table *control = &link->inner->control;
  mine->rank = link->base.rank;
  snprintf(mine->why, sizeof mine->why, "%.*s", WHY - 1,
           status == CEL_E_OK ? "" : cel_error_last()->text);
  CEL_TRY(
      control->gather(control->self, mine, (uint32_t)size_of_hello(link), all));
  *good = true;
  for (int32_t i = 0; i < link->base.local_ranks && *good; ++i) {
    const hello *theirs = hello_of(link, all, i);
    if (theirs->why[0] == '\0') continue;
    snprintf(why, CEL_LINK_WHY, "rank %lld: %s", (long long)theirs->rank,
             theirs->why);
    *good = false;
  }
  return CEL_E_OK;
}

/* What all offer, whether all could take it, and whether a first message came.
 * Where not, nobody frees what another has still open. */
static cel_status agree(cel__link *link, hello *mine, void *all, bool *good,
                        char *why) {
  const cel_control_table *control = &link->inner->control;
  CEL_TRY(hear(link, mine, offer(link, mine), all, good, why));
  if (!*good) return CEL_E_OK;
  CEL_TRY(hear(link, mine, open_all(link, all), all, good, why));
  if (*good) CEL_TRY(hear(link, mine, take_probes(link), all, good, why));
  if (*good) return CEL_E_OK;
  cel__link_let_go(link);
  return control->gather(control->self, mine, (uint32_t)size_of_hello(link),
                         all);
}

/* Whether all can lend each other memory. */
static cel_status agree_to_lend(cel__link *link, hello *mine, void *all,
                                char *why) {
  bool good;
  why[0] = '\0';
  CEL_TRY(hear(link, mine, open_fds(link, all), all, &good, why));
  if (good)
    CEL_TRY(hear(link, mine, cel__link_probe_lend(link), all, &good, why));
  if (good)
    CEL_TRY(hear(link, mine, cel__link_probe_write(link), all, &good, why));
  if (good)
    CEL_TRY(hear(link, mine, cel__link_probe_verify(link), all, &good, why));
  cel__link_probe_end(link);
  if (good) return CEL_E_OK;
  cel_host_fds_close(link->fds);
  link->fds = NULL;
  return CEL_E_OK;
}

static void come_near(cel__link *link) {
  qsort(link->peer, (size_t)link->peers, sizeof *link->peer, by_rank);
  link->near = cel_alloc((size_t)link->peers * sizeof *link->near);
  for (int32_t p = 0; p < link->peers; ++p) link->near[p] = link->peer[p].rank;
  cel_message_table *messages = &link->base.messages;
  messages->near = link->near;
  messages->nears = link->peers;
  messages->direct_bytes = 1;
  messages->chain_bytes = CEL_TUNE_LINK_CHAIN_BYTES;
}

cel_status cel_transport_cuda_link(cel_transport *inner, cel_cuda *cuda,
                                   cel_transport **out, char *why,
                                   char *unlent) {
  bool good = false;
  cel_transport *result = inner;
  cel__link *link = cel_alloc_zero(sizeof *link);
  cel__link_init(link, inner);
  link->cuda = cuda;
  link->landing_least = CEL_TUNE_LINK_LANDING_BYTES;
  link->peer = cel_alloc_zero((size_t)inner->local_ranks * sizeof *link->peer);
  hello *mine = cel_alloc_zero(size_of_hello(link));
  void *all = cel_alloc_zero((size_t)inner->local_ranks * size_of_hello(link));
  cel_status status = agree(link, mine, all, &good, why);
  if (status == CEL_E_OK && good) {
    cuda->lends = true;
    status = agree_to_lend(link, mine, all, unlent);
    cuda->lends = link->fds != NULL;
  }
  if (status == CEL_E_OK && good) {
    come_near(link);
    result = &link->base;
  } else {
    cel__link_let_go(link);
    cel__link_release(link);
  }
  if (mine->rings[0] != '\0') cel_host_rings_unlink(mine->rings);
  cel_free(mine);
  cel_free(all);
  if (status == CEL_E_OK) *out = result;
  return status;
}
