/* Over MPI: each process is a rank, and all programs run on one engine, one
 * after another, with the settings of the first. */
#include "comm/fake_nccl.h"
#include "comm/link/link_state.h"
#include "comm/mpi/mpi.h"
#include "comm/nccl/nccl.h"
#include "comm/road/road.h"
#include "device/fake_cuda.h"
#include "random/program.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void must(cel_status status) {
  if (status != CEL_E_OK) cel_bug("%s", cel_error_last()->text);
}

/* Between GPUs half of what is not chained is long; without, none is lent. */
static void link_up(rank *r, cel_cuda *cuda) {
  const program *p = r->program;
  char why[CEL_LINK_WHY], unlent[CEL_LINK_WHY];
  cel_transport *inner = r->transport;
  must(cel_transport_cuda_link(inner, cuda, &r->transport, why, unlent));
  if (r->transport == inner) return;
  ((cel__link *)r->transport)->landing_least = 2 * p->direct_bytes;
  if (p->seed % 2 == 0) r->transport->messages.chain_bytes = p->chain_bytes;
}

/* As between hosts, in chunks of a few elements; by each way where all of it is
 * simulated, and some of it by NCCL then. */
static void take_road(rank *r, cel_cuda *cuda) {
  static const cel_road_way ways[] = {CEL_ROAD_STAGED, CEL_ROAD_NCCL,
                                      CEL_ROAD_MPI, CEL_ROAD_CHOSEN};
  enum { WAYS = 4, LANES = 4 };
  bool fake = !r->program->cuda;
  char why[CEL_ROAD_WHY];
  cel_road_config config = {.cuda = cuda,
                            .way = fake ? ways[r->program->seed % WAYS]
                                        : CEL_ROAD_STAGED,
                            .nccl = fake ? fake_nccl(r->program->seed) : NULL,
                            .takes_gpus = fake,
                            .part_most = 100,
                            .try_bytes = 1000,
                            .lanes = LANES,
                            .far_bytes = r->program->far_bytes,
                            .chunk_least = 16,
                            .chunk_most = 64,
                            .buffers = 3};
  if (fake && config.way >= CEL_ROAD_NCCL) fake_nccl_pairs(r->index, LANES);
  must(cel_transport_road(r->transport, &config, &r->transport, why));
}

/* Direct messages between device memories, which lie in the host where there is
 * no GPU. */
static void come_near(rank *r) {
  const program *p = r->program;
  bool far = p->far_bytes > 0 && r->transport->ranks > 1;
  if (p->hosts == 0 && !far) return;
  if (p->devices != 1 || (!p->cuda && !p->own_memory)) return;
  if (p->cuda) rank_open_gpus(r);
  cel_cuda *cuda =
      p->cuda ? r->cuda : fake_cuda(p->seed * 16 + (uint64_t)r->index);
  if (p->hosts > 0) link_up(r, cuda);
  r->transport->messages.direct_bytes = p->direct_bytes;
  if (far) take_road(r, cuda);
}

/* Whether what all exchange goes by the fake of NCCL, between simulated
 * devices. */
static bool is_fake(const program *p, const cel_transport *t) {
  enum { MOST_MEMBERS = 16 };
  return !p->cuda && p->collective.devices > 0 && t->ranks > 1 &&
         t->ranks * p->devices <= MOST_MEMBERS;
}

/* Between GPUs what all exchange goes by NCCL, where there is one for each. */
static void join(rank *r) {
  char why[256];
  cel_nccl_config config = {.cuda = r->cuda};
  if (r->program->cuda && r->program->exchanges)
    must(cel_transport_nccl(r->transport, &config, &r->transport, why,
                            sizeof why));
}

static void start(rank *r, const program *p, cel_transport *t) {
  *r = (rank){.program = p, .index = (int)t->rank, .transport = t};
  cel_park_init(&r->park);
  if (is_fake(p, t)) {
    rank_simulated(r);
    rank_fake_gpus(r);
  } else {
    come_near(r);
    rank_backend(r);
    join(r);
  }
  cel_host_config host = {
      .lanes = 2, .park = &r->park, .transport = r->transport};
  r->host = cel_host_lanes_create(&host);
  rank_start(r, true);
}

static bool wait_here(rank *r, const step *s) {
  const void *data;
  uint64_t size;
  if (!s->wait) return true;
  if (step_fences(s))
    return cel_engine_fence_get(r->engine, r->fence[r->pc], NULL, &data,
                                &size) == CEL_E_OK;
  return cel_engine_wait(r->engine, r->epoch, NULL) == CEL_E_OK;
}

static bool run(rank *r, char *text, size_t size) {
  const program *p = r->program;
  for (r->pc = 0; r->pc < p->steps; ++r->pc) {
    if (!rank_submit(r, text, size)) return false;
    if (wait_here(r, p->step[r->pc])) continue;
    snprintf(text, size, "mismatch: step %d: %.1500s", r->pc,
             cel_error_last()->text);
    return false;
  }
  return rank_verify(r, text, size);
}

/* Gives back what the program left. */
static void forget(rank *r) {
  for (int i = 0; i < r->program->steps; ++i) {
    if (r->fence[i] != NULL) cel_fence_destroy(r->fence[i]);
    r->fence[i] = NULL;
  }
  for (int i = 0; i < IMAGES; ++i) {
    if (r->plan[i] != NULL) cel_fence_destroy(r->plan[i]);
    r->plan[i] = NULL;
  }
  for (int b = 0; b < MOST_BUFFERS; ++b) {
    if (r->buffer[b] != NULL) cel_engine_buffer_free(r->engine, r->buffer[b]);
    r->buffer[b] = NULL;
    r->late[b] = false;
  }
  for (int o = 0; o < MOST_OBJECTS; ++o)
    if (r->object[o] != NULL) object_end(r, o);
  cel_engine_barrier(r->engine, (cel_location){0}, NULL);
  memset(r->own, 0, sizeof r->own);
  memset(r->ended, 0, sizeof r->ended);
  memset(r->late_object, 0, sizeof r->late_object);
}

bool programs_run_mpi(uint64_t seed, uint64_t count) {
  cel_transport *t;
  rank r;
  char text[2048];
  cel_mpi_config config = {.window = 16,
                           .sends = 8,
                           .receives = 8,
                           .small_bytes = 1024,
                           .announced_bytes = 64,
                           .part_bytes = 48,
                           .apart = true};
  must(cel_transport_mpi_with(&config, &t));
  program *settings = program_generate(seed, (int)t->ranks);
  settings->room = 0; /* enough for one program is not for another */
  start(&r, settings, t);
  for (uint64_t i = 0; i < count; ++i) {
    program *p = program_generate(seed + i, (int)t->ranks);
    r.program = p;
    if (!run(&r, text, sizeof text)) {
      printf("seed %" PRIu64 " on rank %d: %s\n", seed + i, r.index, text);
      fflush(stdout);
      t->control.abort(t->control.self, 1);
    }
    forget(&r);
    /* Works are released later, but never run again. */
    program_destroy(p);
  }
  must(cel_engine_finish(r.engine, (cel_location){0}, NULL));
  cel_engine_stop(r.engine);
  bool first = r.index == 0;
  rank_release(&r);
  program_destroy(settings);
  return first;
}
