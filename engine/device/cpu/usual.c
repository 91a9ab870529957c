#include "device/cpu/usual.h"

#include "tuning.h"

/* Samples are computed by another build, and take longer. */
static bool is_usual(const cel_job *job) {
  return job->kind == CEL_JOB_CALL && job->call.sample == NULL &&
         !cel_box_is_empty(&job->call.chunk);
}

static uint64_t key_of(const cel_job *job) {
  uint64_t items = (uint64_t)cel_box_volume(&job->call.chunk);
  uint64_t size = 64 - (uint64_t)__builtin_clzll(items);
  uint64_t key = (uint64_t)(uintptr_t)job->work->context;
  key = (key ^ size << 56) * UINT64_C(0x9e3779b97f4a7c15);
  key = (key ^ key >> 29 ^ (uint64_t)(uintptr_t)job->work->fn) *
        UINT64_C(0xbf58476d1ce4e5b9);
  return key | 1;
}

static uint32_t place_of(uint64_t key) {
  return (uint32_t)(key >> 40) % CEL__USUAL_KINDS;
}

int64_t cel__usual_ns(const cel__usual *usual, const cel_job *job) {
  if (!is_usual(job)) return 0;
  uint64_t key = key_of(job);
  const cel__usual_kind *kind = &usual->kind[place_of(key)];
  if (kind->key != key) return 0;
  return 1 + kind->item_ps * cel_box_volume(&job->call.chunk) / 1000;
}

void cel__usual_learn(cel__usual *usual, const cel_job *job, int64_t took_ns) {
  if (!is_usual(job)) return;
  uint64_t key = key_of(job);
  cel__usual_kind *kind = &usual->kind[place_of(key)];
  if (kind->key != key) *kind = (cel__usual_kind){.key = key};
  int64_t most = INT64_MAX / 1000;
  int64_t items = cel_box_volume(&job->call.chunk);
  int64_t item_ps = (took_ns < most ? took_ns : most) * 1000 / items;
  /* The first runs touch memory that nobody has touched before. */
  bool warms = kind->runs++ < CEL_TUNE_USUAL_WARM;
  if (warms || item_ps > kind->item_ps)
    kind->item_ps = item_ps;
  else
    kind->item_ps -= (kind->item_ps - item_ps) / CEL_TUNE_USUAL_SHRINKS;
}
