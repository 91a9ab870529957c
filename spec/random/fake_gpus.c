/* Collectives by an NCCL without GPUs, between processes whose devices are
 * simulated. Those have no streams: a part that is put goes on a stream of the
 * fake driver, and is to be put again until that has carried it out. */
#include "comm/fake_cuda.h"
#include "comm/fake_nccl.h"
#include "comm/nccl/nccl.h"
#include "comm/wrapper.h"
#include "random/program.h"

typedef struct gpus {
  cel_wrapper around; /* first */
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

static void exchange_devices(cel_transport *t,
                             const cel_device_collective *collective) {
  gpus *g = (gpus *)t;
  ++g->posted;
  g->around.inner->exchange_devices(g->around.inner, collective);
}

/* They come in the order of the devices. */
static uint32_t chained(cel_transport *t, cel_chained *out, uint32_t max) {
  gpus *g = (gpus *)t;
  uint32_t n = g->around.inner->chained(g->around.inner, out, max);
  for (uint32_t i = 0; i < n; ++i) {
    end *made = cel_alloc(sizeof *made);
    int32_t device = (int32_t)i % t->collective.devices;
    *made = (end){.gpus = g, .inner = out[i], .device = device};
    out[i] = (cel_chained){out[i].ticket, put, made};
  }
  return n;
}

static void unjoin(cel_transport *t, void *context) {
  gpus *g = (gpus *)t;
  end *e = context;
  ++g->joined;
  g->around.inner->unjoin(g->around.inner, e->inner.context);
  cel_free(e);
}

static void halt(cel_transport *t) {
  cel_transport *inner = ((gpus *)t)->around.inner;
  inner->halt(inner);
}

/* Nobody else asks the streams. */
static bool busy(cel_transport *t) {
  const gpus *g = (const gpus *)t;
  return g->joined < g->posted || g->around.inner->busy(g->around.inner);
}

static void destroy(cel_transport *t) {
  gpus *g = (gpus *)t;
  g->around.inner->destroy(g->around.inner);
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
      inner->collective.devices != p->devices)
    cel_bug("no NCCL, not even a fake: %s", why);
  cel_wrapper_init(&g->around, inner, "mpi, and fake GPUs");
  cel_transport *t = &g->around.base;
  t->collective = inner->collective;
  limit(&t->collective, p);
  t->exchange_devices = exchange_devices;
  t->chained = chained;
  t->unjoin = unjoin;
  t->halt = halt;
  t->busy = busy;
  t->destroy = destroy;
  for (int32_t d = 0; d < p->devices; ++d) {
    must(g->cuda.api->cuStreamCreate(&g->stream[d], CU_STREAM_NON_BLOCKING));
    must(g->cuda.api->cuEventCreate(&g->through[d], CU_EVENT_DISABLE_TIMING));
  }
  r->transport = t;
}
