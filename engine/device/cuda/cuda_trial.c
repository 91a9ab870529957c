#include "device/cuda/cuda_trial.h"

#include <stdatomic.h>

#include "tuning.h"

static int64_t items_of(const cel_fold_job *fold) {
  return cel_box_volume(&fold->step[fold->steps - 1].call.chunk);
}

static cel_cuda_trial *of_size(cel_cuda_trial *trials, int64_t items) {
  int size = 0;
  while (size < CEL__CUDA_TRIAL_SIZES - 1 && (items >>= 2) > 0) ++size;
  return &trials[size];
}

bool cel__cuda_trial_in_one(cel_cuda_trial *trials, bool final,
                            cel_fold_job *fold) {
  cel_cuda_trial *trial = of_size(trials, items_of(fold));
  if (atomic_load_explicit(&trial->asked, memory_order_acquire)) return true;
  const uint32_t *times = trial->times;
  if (times[0] >= CEL_TUNE_FOLD_TRIALS && times[1] >= CEL_TUNE_FOLD_TRIALS)
    return trial->least[1] <= trial->least[0];
  /* For some there is never room to go in one. */
  if (!final || times[0] >= 4 * CEL_TUNE_FOLD_TRIALS) return true;
  fold->trial = trial;
  atomic_store_explicit(&trial->asked, true, memory_order_relaxed);
  return times[1] <= times[0];
}

CUresult cel__cuda_trial_mark(const cel_cuda_api *api, const cel_fold_job *fold,
                              bool end, CUstream stream) {
  if (fold->trial == NULL) return CUDA_SUCCESS;
  CUevent *event = end ? &fold->trial->to : &fold->trial->from;
  if (*event == NULL && api->cuEventCreate(event, 0) != CUDA_SUCCESS) {
    *event = NULL;
    return CUDA_SUCCESS;
  }
  return api->cuEventRecord(*event, stream);
}

void cel__cuda_trial_answer(const cel_cuda_api *api, const cel_job *job,
                            bool fine) {
  for (const cel_fold_job *f = job->fold; f != NULL; f = f->next) {
    cel_cuda_trial *trial = f->trial;
    float ms = 0;
    if (trial == NULL) continue;
    if (fine && trial->from != NULL && trial->to != NULL &&
        api->cuEventElapsedTime(&ms, trial->from, trial->to) == CUDA_SUCCESS) {
      int way = f->manner != CEL_FOLD_PLAIN;
      float each = ms / (float)items_of(f);
      if (trial->times[way] == 0 || each < trial->least[way])
        trial->least[way] = each;
      ++trial->times[way];
    }
    atomic_store_explicit(&trial->asked, false, memory_order_release);
  }
}

void cel__cuda_trials_clear(const cel_cuda_api *api, cel_cuda_trial *trials) {
  for (int i = 0; i < CEL__CUDA_TRIAL_SIZES; ++i) {
    if (trials[i].from != NULL) api->cuEventDestroy_v2(trials[i].from);
    if (trials[i].to != NULL) api->cuEventDestroy_v2(trials[i].to);
    trials[i] = (cel_cuda_trial){0};
  }
}
