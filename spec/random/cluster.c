/* The simulated cluster in one thread: the seed picks which rank's which part
 * moves next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random/program.h"

enum { PARTS = 3, PATIENCE = 400 };
enum { MOVE_NS = 2000000 }; /* that a move takes, where there is a clock */

typedef struct cluster {
  const program *program;
  cel_random random;
  rank ranks[MOST_RANKS];
  object_state shared[MOST_OBJECTS];
  int weight[MOST_RANKS][PARTS]; /* how eagerly each part moves, in percent */
  char *text;
  size_t size;
  bool failed;
} cluster;

static void fail(cluster *c, const char *what) {
  if (!c->failed) snprintf(c->text, c->size, "%s", what);
  c->failed = true;
}

/* ---- what is ready ------------------------------------------------------- */

static cluster *simulated; /* null: none runs */

/* Whoever waits for a fence may look as soon as it is ready. */
static void saw_fence(void *context, const cel_fence *fence) {
  (void)context;
  cluster *c = simulated;
  if (c == NULL || c->failed || program_troubled(c->program)) return;
  for (int k = 0; k < c->program->ranks; ++k)
    for (int i = 0; i < c->program->steps; ++i)
      if (c->ranks[k].fence[i] == fence)
        c->failed = !rank_verify_fence(&c->ranks[k], i, c->text, c->size);
}

/* ---- life --------------------------------------------------------------- */

static void must(cel_status status) {
  if (status != CEL_E_OK) cel_bug("no cluster: %s", cel_error_last()->text);
}

static void start(cluster *c) {
  const program *p = c->program;
  cel_transport *transports[MOST_RANKS];
  cel_inprocess_config config = {.ranks = p->ranks,
                                 .hosts = p->hosts,
                                 .direct_bytes = p->direct_bytes,
                                 .far_bytes = p->far_bytes,
                                 .chain_bytes = p->chain_bytes,
                                 .collective = p->collective,
                                 .seed = cel_random_next(&c->random),
                                 .fault = p->fault,
                                 .fault_at = p->fault_at,
                                 .lost_ns = p->loss.lost_ns,
                                 .fault_rank = p->loss.rank,
                                 .fault_begin_ns = p->loss.begin_ns,
                                 .fault_ns = p->loss.ns};
  must(cel_transport_inprocess(&config, transports));
  for (int k = 0; k < p->ranks; ++k) {
    rank *r = &c->ranks[k];
    *r = (rank){.program = p,
                .index = k,
                .transport = transports[k],
                .saw_fence = saw_fence,
                .shared = c->shared};
    cel_park_init(&r->park);
    cel_backend_config backend = {.devices = p->devices,
                                  .park = &r->park,
                                  .seed = cel_random_next(&c->random),
                                  .chains = p->chains,
                                  .spares = p->spares,
                                  .grain = p->grain,
                                  .whole = p->whole,
                                  .block = p->block,
                                  .capacity = program_capacity(p, p->block),
                                  .own_memory = p->own_memory};
    must(cel_backend_simulated(&backend, &r->backend));
    rank_watch(r);
    cel_host_config host = {.lanes = 1,
                            .simulated = true,
                            .seed = cel_random_next(&c->random),
                            .park = &r->park,
                            .transport = r->transport};
    r->host = cel_host_lanes_create(&host);
    r->record = record_create();
    rank_start(r, false);
    for (int part = 0; part < PARTS; ++part)
      c->weight[k][part] = (int)cel_random_int(&c->random, 5, 100);
  }
}

static void stop(cluster *c) {
  for (int k = 0; k < c->program->ranks; ++k)
    cel_engine_stop(c->ranks[k].engine);
  for (int k = 0; k < c->program->ranks; ++k) rank_release(&c->ranks[k]);
}

/* ---- steps -------------------------------------------------------------- */

static void next_step(cluster *c, rank *r) {
  const step *s = c->program->step[r->pc];
  if (!rank_submit(r, c->text, c->size)) {
    c->failed = true;
    return;
  }
  r->asked = false;
  if (s->dropped || !s->wait)
    r->pc++;
  else
    r->waiting = step_fences(s) ? 1 : 2;
}

/* An epoch is reached when all ranks have come to it. */
static bool met(cluster *c, const rank *r) {
  if (!cel_engine_reached(r->engine, r->epoch)) return false;
  for (int k = 0; k < c->program->ranks; ++k)
    if (c->ranks[k].pc < r->pc) {
      fail(c, "mismatch: an epoch is reached that a rank has not submitted");
      return false;
    }
  return true;
}

static bool arrived(cluster *c, rank *r) {
  if (r->waiting == 2) return met(c, r);
  const void *data;
  uint64_t size;
  if (!r->asked)
    cel_engine_fence_get(r->engine, r->fence[r->pc], NULL, &data, &size);
  r->asked = true;
  return cel_fence_ready(r->fence[r->pc]);
}

static bool step_main(cluster *c, rank *r) {
  if (r->finished) return false;
  if (cel_engine_check(r->engine) != CEL_E_OK) {
    if (program_troubled(c->program)) {
      r->finished = true;
      return true;
    }
    char text[3000];
    snprintf(text, sizeof text, "mismatch: rank %d failed: %s:%d: %s", r->index,
             cel_error_last()->file, cel_error_last()->line,
             cel_error_last()->text);
    fail(c, text);
    return false;
  }
  if (r->waiting != 0) {
    if (!arrived(c, r)) return false;
    r->waiting = 0;
    r->pc++;
    return true;
  }
  if (r->pc == c->program->steps) {
    r->finished =
        cel_engine_finish(r->engine, (cel_location){0}, NULL) == CEL_E_OK;
    return r->finished;
  }
  if (cel_engine_congested(r->engine)) return false;
  next_step(c, r);
  return true;
}

static bool move(cluster *c) {
  rank *r = &c->ranks[cel_random_int(&c->random, 0, c->program->ranks - 1)];
  int part = (int)cel_random_int(&c->random, 0, PARTS - 1);
  if (cel_inprocess_life_of(r->transport) != CEL_LIFE_ON) return false;
  if (!cel_random_chance(&c->random, c->weight[r->index][part])) return false;
  switch (part) {
  case 0: return step_main(c, r);
  case 1: return cel_engine_step_scheduler(r->engine);
  default: return cel_engine_step_executor(r->engine);
  }
}

static bool all_finished(const cluster *c) {
  for (int k = 0; k < c->program->ranks; ++k)
    if (!c->ranks[k].finished) return false;
  return true;
}

static void describe_hang(cluster *c) {
  size_t at = (size_t)snprintf(c->text, c->size, "hang: nothing moves\n");
  for (int k = 0; k < c->program->ranks && at + 200 < c->size; ++k) {
    const rank *r = &c->ranks[k];
    at += (size_t)snprintf(c->text + at, c->size - at, "main at step %d, ",
                           r->pc);
    cel_engine_describe(r->engine, c->text + at, c->size - at);
    at += strlen(c->text + at);
  }
  c->failed = true;
}

static void run(cluster *c) {
  int idle = 0, patience = PATIENCE * PARTS * c->program->ranks * 8;
  const program *p = c->program;
  while (!c->failed && !all_finished(c) && !program_is_lost(p, c->ranks)) {
    if (p->loss.lost_ns > 0) cel_inprocess_pass(c->ranks[0].transport, MOVE_NS);
    idle = move(c) ? 0 : idle + 1;
    if (idle == patience / 2 && program_troubled(c->program))
      for (int k = 0; k < c->program->ranks; ++k)
        cel_engine_suspect(c->ranks[k].engine);
    if (idle > patience) describe_hang(c);
  }
}

bool program_run(const program *p, char *text, size_t size) {
  cluster *c = cel_alloc_zero(sizeof *c);
  c->program = p;
  c->random.state = p->seed ^ 0x5eed;
  c->text = text;
  c->size = size;
  start(c);
  simulated = c;
  run(c);
  simulated = NULL;
  bool full = c->failed && program_lacks_room(p, c->ranks);
  bool lost = program_is_lost(p, c->ranks);
  if (p->loss.lost_ns > 0 && !c->failed)
    c->failed = !program_verify_loss(p, c->ranks, text, size);
  bool (*verify)(const rank *, char *, size_t) =
      program_troubled(p) ? rank_troubled : rank_verify;
  for (int k = 0; k < p->ranks && !c->failed && !lost; ++k)
    c->failed = !verify(&c->ranks[k], text, size);
  record *records[MOST_RANKS];
  for (int k = 0; k < p->ranks; ++k) records[k] = c->ranks[k].record;
  stop(c);
  if (!c->failed && !lost && !program_troubled(p))
    c->failed = !records_check(p, records, text, size);
  for (int k = 0; k < p->ranks; ++k) record_destroy(records[k]);
  bool passed = !c->failed || full;
  cel_free(c);
  return passed;
}
