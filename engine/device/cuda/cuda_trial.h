/* cuda_trial.h -- whether steps of a fold are faster in one launch or in one
 * each.
 *
 * That depends on how much an item is to compute, on what its threads need of a
 * multiprocessor, and on what caches hold; no rule tells. Bits are the same
 * both ways, and no other rank learns which it was, so here a clock may decide:
 * for each pattern of steps (cel_fused) and size, the first folds go both ways
 * in turns, timed by events around them, until each has been tried
 * CEL_TUNE_FOLD_TRIALS times. What took the least time then stays. Only the
 * rank's first device is timed. Its others are alike and do as it does; with
 * folds of a size that it has had none of they go in one launch.
 *
 * One fold of a size is timed at a time. The executor asks for it, and the
 * device's thread, which times it, answers; in between a trial is that
 * thread's. Who is planned meanwhile goes as is thought faster, in one launch.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_TRIAL_H
#define CEL_DEVICE_CUDA_CUDA_TRIAL_H

#include "device/cuda/cuda.h"
#include "device/fold.h"

/* Of so many sizes, each four times as many items as the one before. */
enum { CEL__CUDA_TRIAL_SIZES = 16 };

/* All zero to begin. The first place of two is that of launches of their own.
 */
typedef struct cel_cuda_trial {
  _Atomic(bool) asked; /* a fold is on its way that is timed */
  CUevent from, to;    /* made when they are first needed */
  uint32_t times[2];   /* that it was timed */
  float least[2];      /* ms of an item */
} cel_cuda_trial;

/* Whether the fold, whose entry is there, is to go in one launch; `trials`, one
 * for each size, are its entry's. Asks for it to be timed, by fold->trial,
 * where that is of use, and the fold is `final`: it will be carried out as it
 * is, in one way or the other. Thread: executor. */
bool cel__cuda_trial_in_one(cel_cuda_trial *trials, bool final,
                            cel_fold_job *fold);
/* Puts the beginning, or the end, of a fold with a trial on its stream; nothing
 * where it has none, or there is no event for it. Thread: the device's. */
CUresult cel__cuda_trial_mark(const cel_cuda_api *api, const cel_fold_job *fold,
                              bool end, CUstream stream);
/* Answers for all folds of a job that is complete; `fine`, or else not carried
 * out to its end. Thread: the device's. */
void cel__cuda_trial_answer(const cel_cuda_api *api, const cel_job *job,
                            bool fine);
/* Destroys the events of all sizes. Thread: executor; no fold is on its way. */
void cel__cuda_trials_clear(const cel_cuda_api *api, cel_cuda_trial *trials);

#endif
