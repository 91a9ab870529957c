/* Collectives by an NCCL without GPUs, between processes whose devices are
 * simulated. Those have no streams: a part that is put goes on a stream of the
 * fake driver, and is to be put again until that has carried it out. */
#include "comm/fake_nccl.h"
#include "comm/nccl/nccl.h"
#include "device/fake_cuda.h"
#include "random/program.h"

typedef struct gpus {
  cel_transport base; /* first */
  cel_transport *inner;
  cel_cuda cuda;
  CUstream stream[CEL_DEVICES];
  CUevent through[CEL_DEVICES];
  uint64_t posted, joined; /* parts, and those that are through */
} gpus;

/* A device's part that was given out. */
typedef struct end {
  gpus *gpus;
  cel_chained inner;
  int32_t device;
  bool put;
} end;

static void must(CUresult code) {
  if (code != CUDA_SUCCESS) cel_bug("the fake driver refuses");
}

static cel_status put(void *context, void *stream) {
  end *e = context;
  gpus *g = e->gpus;
  const cel_cuda_api *api = g->cuda.api;
  (void)stream;
  if (!e->put) {
    CEL_TRY(e->inner.enqueue(e->inner.context, g->stream[e->device]));
    must(api->cuEventRecord(g->through[e->device], g->stream[e->device]));
    e->put = true;
  }
  return api->cuEventQuery(g->through[e->device]) == CUDA_SUCCESS ? CEL_E_OK
                                                                  : CEL_E_AGAIN;
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  cel_transport *inner = ((gpus *)t)->inner;
  uint32_t n = inner->poll(inner, out, max);
  t->broken = inner->broken;
  return n;
}

static void exchange_devices(void *self,
                             const cel_device_collective *collective) {
  gpus *g = self;
  const cel_collective_table *inner = &g->inner->collectives;
  ++g->posted;
  inner->exchange_devices(inner->self, collective);
}

static cel_status join(void *self, cel_joined *out, char *why) {
  gpus *g = self;
  const cel_collective_table *inner = &g->inner->collectives;
  CEL_TRY(inner->join(inner->self, out, why));
  if (*out == CEL_JOIN_REFUSED) g->base.collectives.limits = inner->limits;
  return CEL_E_OK;
}

static void exchange(void *self, const cel_collective *collective) {
  const cel_collective_table *inner = &((gpus *)self)->inner->collectives;
  inner->exchange(inner->self, collective);
}

/* They come in the order of the devices. */
static uint32_t chained(cel_transport *t, cel_chained *out, uint32_t max) {
  gpus *g = (gpus *)t;
  uint32_t n = g->inner->chained(g->inner, out, max);
  for (uint32_t i = 0; i < n; ++i) {
    end *made = cel_alloc(sizeof *made);
    int32_t device = (int32_t)i % t->collectives.limits.devices;
    *made = (end){.gpus = g, .inner = out[i], .device = device};
    out[i] = (cel_chained){out[i].ticket, put, made};
  }
  return n;
}

static void unjoin(void *self, void *context) {
  gpus *g = self;
  const cel_collective_table *inner = &g->inner->collectives;
  end *e = context;
  ++g->joined;
  inner->unjoin(inner->self, e->inner.context);
  cel_free(e);
}

static void halt(cel_transport *t) {
  cel_transport *inner = ((gpus *)t)->inner;
  inner->halt(inner);
}

/* Nobody else asks the streams. */
static bool busy(cel_transport *t) {
  const gpus *g = (const gpus *)t;
  return g->joined < g->posted || g->inner->busy(g->inner);
}

static void destroy(cel_transport *t) {
  gpus *g = (gpus *)t;
  g->inner->destroy(g->inner);
  for (int32_t d = 0; d < g->cuda.devices; ++d)
    g->cuda.api->cuStreamDestroy_v2(g->stream[d]);
  cel_free(g);
}

/* What goes there is as long as the program says, which has memory for it. */
static void limit(cel_collective_limits *collective, const program *p) {
  collective->least = p->collective.least;
  collective->least_parts = p->collective.least_parts;
  collective->pairs &= p->collective.pairs;
  if (p->collective.most < collective->most)
    collective->most = p->collective.most;
  if (p->collective.packed_most < collective->packed_most)
    collective->packed_most = p->collective.packed_most;
}

void rank_fake_gpus(rank *r) {
  char why[256];
  const program *p = r->program;
  gpus *g = cel_alloc_zero(sizeof *g);
  uint64_t seed = p->seed * 16 + (uint64_t)r->index;
  g->cuda = *fake_cuda(seed);
  fake_cuda_devices(&g->cuda, p->devices);
  cel_nccl_config config = {.cuda = &g->cuda, .api = fake_nccl(seed)};
  cel_transport *inner;
  if (cel_transport_nccl(r->transport, &config, &inner, why, sizeof why) !=
          CEL_E_OK ||
      inner->collectives.limits.devices != p->devices)
    cel_bug("no NCCL, not even a fake: %s", why);
  /* On one rank NCCL does not start, so none uses it. */
  if (p->seed % 4 == 1 && r->index == 0) fake_nccl_break(0);
  cel_transport *t = &g->base;
  g->inner = inner;
  *t = *inner;
  t->name = "mpi, and fake GPUs";
  t->collectives.self = g;
  t->collectives.join = join;
  t->collectives.exchange = exchange;
  t->collectives.exchange_devices = exchange_devices;
  t->collectives.unjoin = unjoin;
  limit(&t->collectives.limits, p);
  t->poll = poll;
  t->chained = chained;
  t->halt = halt;
  t->busy = busy;
  t->destroy = destroy;
  for (int32_t d = 0; d < p->devices; ++d) {
    must(g->cuda.api->cuStreamCreate(&g->stream[d], CU_STREAM_NON_BLOCKING));
    must(g->cuda.api->cuEventCreate(&g->through[d], CU_EVENT_DISABLE_TIMING));
  }
  r->transport = t;
}
