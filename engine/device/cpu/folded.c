#include "device/cpu/folded.h"

#include <stdatomic.h>

#include "device/bands.h"
#include "tuning.h"

struct cel__folded {
  cel__bands bands;
  _Atomic(int32_t) beside[]; /* of seam i: the runs at it that have ended */
};

cel__folded *cel__folded_create(const cel_job *job, int32_t threads,
                                int64_t *blocks) {
  cel__bands bands;
  cel__bands_plan(job, (int64_t)threads * CEL_TUNE_BAND_RUNS, &bands);
  cel__folded *folded =
      cel_alloc(sizeof *folded + (size_t)bands.runs * sizeof folded->beside[0]);
  folded->bands = bands;
  for (int32_t i = 0; i < bands.runs; ++i) atomic_init(&folded->beside[i], 0);
  *blocks = bands.runs;
  return folded;
}

/* What one thread has written before its fetch, the other one reads behind its
 * own. */
static cel_status pass(cel__folded *folded, int64_t i) {
  bool second = atomic_fetch_add(&folded->beside[i], 1) == 1;
  return second ? cel__bands_seam(&folded->bands, i) : CEL_E_OK;
}

cel_status cel__folded_run(cel__folded *folded, int64_t i) {
  CEL_TRY(cel__bands_run(&folded->bands, i));
  if (i > 0) CEL_TRY(pass(folded, i));
  return i + 1 < folded->bands.runs ? pass(folded, i + 1) : CEL_E_OK;
}
