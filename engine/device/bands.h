/* bands.h -- a fold carried out in place, band after band.
 *
 * Along one dimension the steps sweep over the items one band at a time: the
 * first step's band r, then the second step's, which ends `lag` items further
 * back, and so on. What a step makes is read by the next one while it is still
 * in a cache, so that memory is passed over once for all steps.
 *
 * For several threads the dimension is cut into runs (split tiling). At a cut
 * the run below leaves out what needs the run above, `lag` items of each step,
 * and the run above `lead` items at its beginning. What they leave out is the
 * seam: a wedge, for whoever comes to the end of the second of the two runs.
 *
 * Where a step reads around the ends of the range, along that dimension, what
 * some step computes, they are one more cut: what lies around the ends is seam
 * 0, of the last run and the first one. Where even one run is shorter than
 * seams are apart, steps are carried out one after another.
 *
 * Invariants. Call t@j an item j of step t. Where t reads what s < t wrote, or
 * one of them writes what the other one touches, s@i comes before t@j for all i
 * from j - E to j + D: by `above` and `below` of what is read. Then, for all
 * s < t that meet so, lag[t] >= lag[s] + D and lead[t] >= lead[s] + E. It
 * follows that (1) behind the front of a band all is there that the next step's
 * band touches, and so of blocks, whose drift keeps the same; (2) no run
 * touches what another run touches, where one of them writes it; (3) two seams
 * that are `apart` or more do not, either.
 *
 * Cost: a plan takes a few ns per view of each step and allocates nothing; a
 * band costs a call of its work's function.
 */
#ifndef CEL_DEVICE_BANDS_H
#define CEL_DEVICE_BANDS_H

#include "device/fold.h"

typedef struct cel__bands {
  const cel_job *job;
  int32_t dim;           /* along which it sweeps */
  int64_t begin, end;    /* all items of all steps lie there */
  int64_t skip, skipped; /* so many from `skip` on are no step's, of a ring */
  int64_t band;          /* items of a step at a time */
  int64_t apart;
  int64_t lag[CEL_FOLD_CALLS], lead[CEL_FOLD_CALLS];
  int64_t most_lag; /* of any step */
  /* Where the rows of all steps' bands are more than a cache holds: blocks of
   * `width` along this dimension, each swept over by itself; else -1. A block
   * of a step lies `drift` items back, as its bands do by `lag`. */
  int32_t across;
  int64_t width, across_begin, across_end;
  int64_t drift[CEL_FOLD_CALLS], most_drift;
  int32_t runs;  /* at least 1 */
  bool ring;     /* both ends are a cut, too */
  bool in_turns; /* a step's band is all of it */
} cel__bands;

/* Whether a step's work is such that its items may be computed in any order,
 * and part by part. Thread: any. */
bool cel__bands_take(const cel_work *work, const cel_call *call);
/* Whether all steps' are, and bands give what launches one after another give.
 * Thread: any. */
bool cel__bands_suit(const cel_fold_job *fold);
/* Into at most `runs` runs, 1 at least; fewer where they would be short. `job`
 * is a FOLD, borrowed. Thread: any. */
void cel__bands_plan(const cel_job *job, int64_t runs, cel__bands *out);
/* For specs, whose folds are small: in bands of `items` rows, and in blocks of
 * as many across, where it may be. Thread: any. */
void cel__bands_refine(cel__bands *bands, int64_t items);
/* Computes run i, from 0 on, or the seam between runs i - 1 and i, from 1 on
 * or, of a ring, from 0 on, when those are done. CEL_E_TASK and what works fail
 * with. Thread: any; runs at the same time, seams too. */
cel_status cel__bands_run(const cel__bands *bands, int64_t i);
cel_status cel__bands_seam(const cel__bands *bands, int64_t i);
/* All of a FOLD in the calling thread. */
cel_status cel__bands_carry_out(const cel_job *job);

#endif
