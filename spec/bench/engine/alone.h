/* alone.h -- an engine of one rank on one core, with threads, for benchmarks
 * and checks. Header only, as each of them is one source. */
#ifndef SPEC_BENCH_ALONE_H
#define SPEC_BENCH_ALONE_H

#include <stdio.h>
#include <stdlib.h>

#include "runtime/engine.h"

typedef struct alone {
  cel_park park;
  cel_engine_config config;
  cel_engine *engine;
} alone;

static inline void must(cel_status status) {
  if (status == CEL_E_OK) return;
  fprintf(stderr, "%s\n", cel_error_last()->text);
  exit(2);
}

/* The contents of a buffer of one number. */
static inline cel_status alone_zero(const cel_init *init, const cel_box *box,
                                    void *out) {
  (void)init, (void)box;
  *(int64_t *)out = 0;
  return CEL_E_OK;
}

/* Of works that are variables. */
static inline void alone_keep(cel_work *work) {
  (void)work;
}

/* `config` but for what this makes. */
static inline void alone_open(alone *a, const cel_engine_config *config) {
  *a = (alone){.config = *config};
  a->config.park = &a->park;
  a->config.threads = true;
  cel_park_init(&a->park);
  cel_backend_config cpu = {.devices = 1, .cores = 1, .park = &a->park};
  cel_host_config host = {.lanes = 1, .park = &a->park};
  must(cel_transport_single(&a->config.transport));
  must(cel_backend_cpu(&cpu, &a->config.backend));
  a->config.host = cel_host_lanes_create(&host);
  must(cel_engine_create(&a->config, &a->engine));
}

static inline void alone_close(alone *a) {
  must(cel_engine_finish(a->engine, (cel_location){0}, NULL));
  cel_engine_destroy(a->engine);
  cel_host_lanes_destroy(a->config.host);
  a->config.backend->destroy(a->config.backend);
  a->config.transport->destroy(a->config.transport);
}

#endif
