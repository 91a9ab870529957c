#include "device/cpu/usual.h"

#include "device/fold.h"
#include "tuning.h"

static int64_t items_of(const cel_job *job) {
  if (job->kind == CEL_JOB_CALL) return cel_box_volume(&job->call.chunk);
  int64_t items = 0;
  for (int32_t s = 0; job->kind == CEL_JOB_FOLD && s < job->fold->steps; ++s)
    items += cel_box_volume(&job->fold->step[s].call.chunk);
  return items;
}

/* Samples are computed by another build, and take longer. */
static bool is_usual(const cel_job *job) {
  return (job->kind == CEL_JOB_CALL || job->kind == CEL_JOB_FOLD) &&
         job->call.sample == NULL && items_of(job) > 0;
}

/* A fold is known by its first step's work. */
static uint64_t key_of(const cel_job *job) {
  bool fold = job->kind == CEL_JOB_FOLD;
  const cel_work *work = fold ? job->fold->step[0].work : job->work;
  uint64_t items = (uint64_t)items_of(job);
  uint64_t size = 64 - (uint64_t)__builtin_clzll(items);
  uint64_t key = (uint64_t)(uintptr_t)work->context + (fold ? 1 : 0);
  key = (key ^ size << 56) * UINT64_C(0x9e3779b97f4a7c15);
  key = (key ^ key >> 29 ^ (uint64_t)(uintptr_t)work->fn) *
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
  return 1 + kind->item_ps * items_of(job) / 1000;
}

void cel__usual_learn(cel__usual *usual, const cel_job *job, int64_t took_ns) {
  if (!is_usual(job)) return;
  uint64_t key = key_of(job);
  cel__usual_kind *kind = &usual->kind[place_of(key)];
  if (kind->key != key) *kind = (cel__usual_kind){.key = key};
  int64_t most = INT64_MAX / 1000;
  int64_t items = items_of(job);
  int64_t item_ps = (took_ns < most ? took_ns : most) * 1000 / items;
  /* The first runs touch memory that nobody has touched before. */
  bool warms = kind->runs++ < CEL_TUNE_USUAL_WARM;
  if (warms || item_ps > kind->item_ps)
    kind->item_ps = item_ps;
  else
    kind->item_ps -= (kind->item_ps - item_ps) / CEL_TUNE_USUAL_SHRINKS;
}
