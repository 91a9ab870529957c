/* Dry runs: each rank alone, one after the other, on devices and a transport
 * that do nothing. Together their graphs must be what they are where all ranks
 * are there: what one would send, another would receive. */
#include <stdio.h>
#include <string.h>

#include "random/program.h"

static void must(cel_status status) {
  if (status != CEL_E_OK) cel_bug("no dry run: %s", cel_error_last()->text);
}

static void start(rank *r, const program *p, int k) {
  *r = (rank){.program = p, .index = k};
  cel_park_init(&r->park);
  must(cel_transport_dry(k, p->ranks, &r->transport));
  cel_backend_config backend = {.devices = p->devices,
                                .grain = p->grain,
                                .whole = p->whole,
                                .block = p->block,
                                .capacity = program_capacity(p, p->block),
                                .own_memory = p->own_memory};
  must(cel_backend_dry(&backend, &r->backend));
  cel_host_config host = {.lanes = 1, .dry = true, .park = &r->park};
  r->host = cel_host_lanes_create(&host);
  r->record = record_create();
  rank_start(r, false);
}

static bool step_engine(rank *r) {
  bool scheduled = cel_engine_step_scheduler(r->engine);
  return cel_engine_step_executor(r->engine) || scheduled;
}

/* Until nothing moves any more. */
static void settle(rank *r) {
  while (step_engine(r)) {
  }
}

static bool arrive(rank *r, const step *s) {
  const void *data;
  uint64_t size;
  if (!s->wait || s->dropped) return true;
  settle(r);
  if (!step_fences(s)) return cel_engine_reached(r->engine, r->epoch);
  /* What the lookahead holds back goes out when it is asked for. */
  cel_engine_fence_get(r->engine, r->fence[r->pc], NULL, &data, &size);
  settle(r);
  return cel_fence_ready(r->fence[r->pc]);
}

static bool is_zero(const char *data, uint64_t size) {
  return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* All fences are there, and bring zeros. */
static bool verify(const rank *r, char *text, size_t size) {
  for (int i = 0; i < r->program->steps; ++i) {
    const void *data;
    uint64_t bytes;
    if (r->fence[i] == NULL) continue;
    if (cel_engine_fence_get(r->engine, r->fence[i], NULL, &data, &bytes) ==
            CEL_E_OK &&
        is_zero(data, bytes))
      continue;
    snprintf(text, size, "mismatch: a dry run's fence %d brings no zeros", i);
    return false;
  }
  return true;
}

static bool run_steps(rank *r, char *text, size_t size) {
  const program *p = r->program;
  for (r->pc = 0; r->pc < p->steps; ++r->pc) {
    while (cel_engine_congested(r->engine) && step_engine(r)) {
    }
    if (!rank_submit(r, text, size)) return false;
    if (arrive(r, p->step[r->pc])) continue;
    snprintf(text, size, "mismatch: a dry run waits at step %d: %.1500s", r->pc,
             cel_engine_check(r->engine) != CEL_E_OK ? cel_error_last()->text
                                                     : "nothing moves");
    return false;
  }
  while (cel_engine_finish(r->engine, (cel_location){0}, NULL) != CEL_E_OK)
    if (!step_engine(r)) break;
  settle(r);
  return verify(r, text, size);
}

/* The account is even when all was given back, and has kept to what there is.
 * Destroys the engine. */
static bool close_account(rank *r, char *text, size_t size) {
  cel_dry_work work;
  cel_engine_destroy(r->engine);
  r->engine = NULL;
  cel_backend_dry_count(r->backend, &work);
  for (int m = 0; m < r->backend->memories; ++m) {
    uint64_t capacity = r->backend->capacity[m];
    if (work.used[m] == 0 && (capacity == 0 || work.peak[m] <= capacity))
      continue;
    snprintf(text, size,
             "mismatch: memory %d of a dry run: %llu bytes in the end, %llu at "
             "most, of %llu",
             m, (unsigned long long)work.used[m],
             (unsigned long long)work.peak[m], (unsigned long long)capacity);
    return false;
  }
  return true;
}

static bool lacks_room(const rank *r) {
  return r->program->room > 0 && r->program->room < 100 &&
         cel_engine_check(r->engine) == CEL_E_MEMORY;
}

bool program_run_dry(const program *p, char *text, size_t size) {
  record *records[MOST_RANKS];
  bool passed = true, full = false;
  int k = 0;
  for (; k < p->ranks && passed && !full; ++k) {
    rank *r = cel_alloc(sizeof *r);
    start(r, p, k);
    passed = run_steps(r, text, size);
    full = lacks_room(r);
    passed = close_account(r, text, size) && (passed || full);
    records[k] = r->record;
    rank_release(r);
    cel_free(r);
  }
  if (passed && !full) passed = records_check(p, records, text, size);
  while (k > 0) record_destroy(records[--k]);
  return passed;
}
