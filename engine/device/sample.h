/* sample.h -- mappers that promise too little, found on a sample of items.
 *
 * A task is right on any number of ranks and devices only if each item touches
 * what the mapper gives for the least chunk that the item may be part of, its
 * *unit*: of each dimension that may be cut one granule, of others all. Where
 * tasks may be carried out together (fold/shape.h) it is right only if that
 * holds for one item of those others, too. On one rank the chunk is the whole
 * range, and nothing shows. So in the first launches of a kernel a few items,
 * the chunk's corners among them, are computed by a build of it whose accessors
 * know what the mappers give for the item's unit (kernels/sample.cuh). On the
 * processor they stand in for those of the real build; whatever reduces is
 * computed in the same order. On a GPU they are computed once more and nothing
 * of that is kept, as another build contracts in another way: kernels that read
 * what they write are left out.
 *
 * Invariants: each item of a chunk takes effect once; the results have the bits
 * that they have without sampling; what is reported is wrong under a split that
 * the task permits, or in a fold.
 *
 * Cost: items whose check would take longer than is left of 20 ms and 1 % of
 * the time since the start are left to the real build.
 */
#ifndef CEL_DEVICE_SAMPLE_H
#define CEL_DEVICE_SAMPLE_H

#include "task/task.h"

/* A chunk of a launch that is sampled. Of its submitter, as the job is. */
typedef struct cel_sample {
  const cel_task *task;
  cel_box chunk;
} cel_sample;

/* Mirrored in kernels/sample.cuh. */
typedef struct cel__promise {
  const cel_box *at; /* on a GPU, in its memory */
  int64_t n;         /* boxes of each unit; less than 0: not looked at */
  struct cel__fault *noted;
} cel__promise;

typedef struct cel__units {
  int64_t first[3], step[3], count[3];
} cel__units;

#ifndef CEL_CDEF
#include "device/bounds.h"

enum { CEL__SAMPLE_CORNERS = 8, CEL__SAMPLE_POINTS = CEL__SAMPLE_CORNERS + 24 };

/* What may be spent on checks until now is not spent yet, by `ns` at least.
 * Thread: any. */
bool cel__sample_affords(int64_t ns);
void cel__sample_spend(int64_t ns);

/* The n-th item of the chunk to be looked at; corners come first. False: there
 * are no more. Pure. */
bool cel__sample_point(const cel_sample *sample, int n, int64_t out[3]);

/* The unit of an item. Pure. */
cel_box cel__sample_unit(const cel_task *task, const int64_t item[3]);
/* The units that a box of items meets; the number of them. Pure. */
int64_t cel__sample_units(const cel_task *task, const cel_box *items,
                          cel__units *out);
/* The n-th of those. Pure. */
cel_box cel__sample_nth_unit(const cel_task *task, const cel__units *units,
                             int64_t n);
/* Boxes that access `i` is promised for a unit, as many as for any other, empty
 * ones among them; -1: it is not looked at. Where the mapper cannot be asked,
 * as where it is opaque, it is what the chunk was promised, `view`. `out` has
 * room for CEL_RULE_BOXES. Thread: any. */
int32_t cel__sample_promise(const cel_task *task, int32_t i,
                            const cel_box *unit, const cel_view *view,
                            cel_box *out);

enum { CEL__SAMPLE_PARTS = 27 };
/* Cuts `items`, of whole groups, where units meet: at one place or two along
 * each dimension, others for each task. Items keep their order if they are to.
 * The number of parts. Pure. */
int32_t cel__sample_parts(const cel_task *task, const cel_box *items,
                          bool ordered, cel_box out[CEL__SAMPLE_PARTS]);
/* Views of a part: each one's box is around what the access is promised for it.
 * Thread: any. */
void cel__sample_views(const cel_task *task, const cel_box *part,
                       const cel_view *view, int32_t views, cel_view *out);

/* CEL_E_TASK: which item of `kernel` touched what, of which unit. `param` as
 * the compiler gave them. Thread: any. */
cel_status cel__sample_report(const cel_task *task, const cel__fault *fault,
                              const char *kernel,
                              const struct cel_param *param);

struct cel__kernel;
/* Computes the items of call->chunk, a part of the sample's chunk of whole
 * groups, some of them by the kernel's checked build. CEL_E_TASK.
 * Thread: worker. */
cel_status cel__sample_call(const cel_work *work, const cel_call *call);
#endif

#endif
