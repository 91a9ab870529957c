/* fold.h -- several launches, each of which needs the ones before it, as one
 * job that passes over memory once.
 *
 * The steps of a fold are ordinary launches: a work, its chunk and its views,
 * just as a job CALL has them. Carried out one after another they give what the
 * fold gives, to the bit. What is told beside them is which views are one
 * array, and how far around its item a step reads. From that alone follows in
 * which order parts of steps may run: see bands.h.
 *
 * Where a step reads around the ends of the range, chunks and the boxes of
 * views may leave it: what they have beyond one end lies at the other
 * (cel_box_on_ring; of views in their memory). So does a device that computes
 * all steps at once; of those that are carried out one by one views lie in
 * their memory, and a chunk comes in its parts.
 *
 * A step writes an array at its items' own coordinates and nowhere else; what
 * it reads of arrays that a step of the fold writes lies within a fixed
 * distance of its item. So items of two steps meet only where they are near,
 * and a step may begin behind the front of the step before it.
 *
 * How a device carries a fold out is its own affair (cel_backend's `folds`),
 * and changes no bit. A job may hold several folds, one after another, each
 * carried out in its own manner.
 *
 *   fold.steps = as many as there are; manner = backend->folds(..., &fold);
 *   TO_SPARE: spare memory for arrays that need it (cel_fold_needs_spare), or
 *   else the manner is PLAIN; fold.manner = manner; and so on with the steps
 *   that it left out.
 */
#ifndef CEL_DEVICE_FOLD_H
#define CEL_DEVICE_FOLD_H

#include "device/backend.h"

/* At most; views of those that a lane gathers. */
enum {
  CEL_FOLD_CALLS = 64,
  CEL_FOLD_ARRAYS = 64,
  CEL_FOLD_VIEWS = 12,
  CEL_FOLD_REACH = 1024 /* of items around one */
};

/* What one view of a step is. */
typedef struct cel_fold_view {
  int32_t array; /* of the fold's; -1: something that no step writes, which may
                    be read anywhere, or with `writes` that is reduced into. Of
                    a job by itself: -1, or not. */
  uint32_t element_size;
  bool writes; /* at the item's own coordinates; may read there, too */
  bool keeps;  /* items that the kernel does not write stay as they were; not
                  so of a discard_write */
  /* Of a read: how far below and above its item, in each dimension. */
  int32_t below[CEL_DIMS], above[CEL_DIMS];
  bool wraps[CEL_DIMS]; /* around the ends of the range, which meet */
  bool along_axes;      /* in one of them at a time */
} cel_fold_view;

typedef struct cel_fold_call {
  const cel_work *work;
  cel_call call; /* the chunk may be empty, and differ from others' */
  const cel_fold_view *use; /* one for each of the call's views */
  const char *name;         /* as a job's */
  cel_location location;    /* likewise */
} cel_fold_call;

/* What one or several steps touch, and at least one writes. */
typedef struct cel_fold_array {
  int32_t dims;
  uint32_t element_size;
  cel_layout memory; /* of the views that are of it */
  /* As much memory, with the same layout: CEL_FOLD_TO_SPARE leaves there what
   * lies within the last step's chunk, and touches nothing else of it; so not
   * for steps of which somebody reads more, as of bands (instr/fold.c). Of one
   * that cel_fold_needs_spare. Else null. */
  void *spare;
  bool live; /* false: nobody reads what the fold leaves in it */
} cel_fold_array;

/* A box that goes from an array's memory to its spare memory, behind the steps.
 */
typedef struct cel_fold_copy {
  int32_t array;
  cel_box box;
} cel_fold_copy;

/* The submitter owns it and all that it names until its job's ticket comes
 * back. */
typedef struct cel_fold_job {
  const struct cel_fold_job *next; /* of the same job; or null */
  cel_fold_manner manner;          /* where the backend has `spares` */
  int32_t steps;
  const cel_fold_call *step;
  int32_t arrays;
  const cel_fold_array *array;
  /* Of GPUs: the entry that computes all steps, see cel_module_fuse. Else null.
   */
  const struct cel_fused *fused;
  bool stands_in; /* for one that is still compiled. When `folds` is asked:
                     that of more steps does, or of those before these */
  struct cel_cuda_trial *trial; /* null; or it is timed: cuda_trial.h */
  uint32_t copies;
  const cel_fold_copy *copy;
} cel_fold_job;

/* What of an array's old contents is of account to a fold. */
typedef enum cel_fold_loads {
  CEL_FOLD_LOADS_NOTHING,
  CEL_FOLD_LOADS_RIM, /* what no step writes: beyond the range */
  CEL_FOLD_LOADS_ALL
} cel_fold_loads;

#ifndef CEL_CDEF
/* Whether a step reads around its item. Thread: any. */
static inline bool cel_fold_reaches(const cel_fold_view *use) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (use->below[d] > 0 || use->above[d] > 0) return true;
  return false;
}

/* What array `a` held before is of account where its first step reads it, or
 * leaves some as it is. Where only a later step reads around its items, that is
 * what lies beyond the range. Thread: any. */
static inline cel_fold_loads cel_fold_loads_of(const cel_fold_job *fold,
                                               int32_t a) {
  cel_fold_loads loads = CEL_FOLD_LOADS_NOTHING;
  bool written = false;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    bool touched = false;
    for (int32_t k = 0; k < step->call.views; ++k) {
      const cel_fold_view *use = &step->use[k];
      if (use->array != a) continue;
      touched = true;
      if (!written && (!use->writes || use->keeps)) return CEL_FOLD_LOADS_ALL;
      if (!use->writes && cel_fold_reaches(use)) loads = CEL_FOLD_LOADS_RIM;
    }
    written = written || touched;
  }
  return loads;
}

/* Around all that steps touch of array `a`: a device that computes them at once
 * may load any of it. Thread: any. */
static inline cel_box cel_fold_touched(const cel_fold_job *fold, int32_t a) {
  cel_box hull = {{0, 0, 0}, {0, 0, 0}};
  for (int32_t s = 0; s < fold->steps; ++s)
    for (int32_t k = 0; k < fold->step[s].call.views; ++k)
      if (fold->step[s].use[k].array == a)
        hull = cel_box_hull(&hull, &fold->step[s].call.view[k].box);
  return hull;
}

/* Whether all steps compute what lies within the last one's chunk, which is
 * what CEL_FOLD_TO_SPARE leaves of each array. Thread: any. */
static inline bool cel_fold_narrows(const cel_fold_job *fold) {
  const cel_box *last = &fold->step[fold->steps - 1].call.chunk;
  for (int32_t s = 0; s < fold->steps; ++s)
    if (!cel_box_covers(&fold->step[s].call.chunk, last)) return false;
  return true;
}

/* Whether some step's chunk leaves the range. Thread: any. */
static inline bool cel_fold_turns(const cel_fold_job *fold) {
  for (int32_t s = 0; s < fold->steps; ++s)
    if (!cel_box_covers(&fold->step[s].call.range, &fold->step[s].call.chunk))
      return true;
  return false;
}

/* Whether blocks would write elements of array `a` that others still have to
 * load. Thread: any. */
static inline bool cel_fold_needs_spare(const cel_fold_job *fold, int32_t a) {
  return fold->array[a].live &&
         cel_fold_loads_of(fold, a) == CEL_FOLD_LOADS_ALL;
}

/* Carries a job FOLD out in the calling thread, without anything that a device
 * has for it: as launches of one block that holds all arrays would. For specs
 * (simulated.c, and CUDA with `host_works`). Thread: any. */
cel_status cel__fold_carry_out(const cel_job *job);
#endif

#endif
