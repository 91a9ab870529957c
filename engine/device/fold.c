#include "device/fold.h"

#include <string.h>

/* ---- one step after another ---------------------------------------------- */

static cel_status run_part(const cel_job *job, const cel_fold_call *step,
                           const cel_view *view, const cel_box *part) {
  cel_job one = {.ticket = job->ticket,
                 .kind = CEL_JOB_CALL,
                 .work = step->work,
                 .call = step->call,
                 .name = step->name,
                 .location = step->location};
  one.call.view = view;
  one.call.chunk = *part;
  if (cel_job_run(&one) == CEL_E_OK) return CEL_E_OK;
  return cel_fail_at(step->location.file, step->location.line);
}

static cel_status run_step(const cel_job *job, const cel_fold_call *step,
                           const cel_view *view) {
  cel_box part[CEL_BOX_PARTS];
  int32_t n = cel_box_on_ring(&step->call.chunk, &step->call.range, part);
  for (int32_t i = 0; i < n; ++i) CEL_TRY(run_part(job, step, view, &part[i]));
  return CEL_E_OK;
}

/* ---- to spare memory ----------------------------------------------------- */

/* Around the parts of a box that lie in the memory. */
static cel_box placed(const cel_box *box, const cel_box *memory) {
  cel_box part[CEL_BOX_PARTS], hull = {{0, 0, 0}, {0, 0, 0}};
  for (int32_t n = cel_box_on_ring(box, memory, part); n-- > 0;)
    hull = cel_box_hull(&hull, &part[n]);
  return hull;
}

/* The array as it was before, where steps touch it and that is of account; the
 * rest is nothing that a kernel should look at. Between what they touch at both
 * ends of a range that meet there need not even be memory. */
static cel_layout load(const cel_fold_job *fold, int32_t a) {
  const cel_fold_array *array = &fold->array[a];
  const cel_box *all = &array->memory.box, none = {{0, 0, 0}, {0, 0, 0}};
  const cel_box *range = &fold->step[0].call.range;
  const cel_box *const without[] = {[CEL_FOLD_LOADS_NOTHING] = all,
                                    [CEL_FOLD_LOADS_RIM] = range,
                                    [CEL_FOLD_LOADS_ALL] = &none};
  const cel_box *left_out = without[cel_fold_loads_of(fold, a)];
  const cel_box touched = cel_fold_touched(fold, a);
  const cel_box hull = placed(&touched, all);
  size_t bytes = (size_t)cel_box_volume(&hull) * array->element_size;
  cel_layout tile = {memset(cel_alloc(bytes), 0xcb, bytes), hull};
  cel_box part[CEL_BOX_PARTS], box[6];
  for (int32_t n = cel_box_on_ring(&touched, all, part); n-- > 0;)
    for (int i = cel_box_subtract(&part[n], left_out, box); i-- > 0;)
      cel_copy_box(&array->memory, &tile, &box[i], array->element_size);
  return tile;
}

static cel_status run_tiled(const cel_job *job, const cel_fold_job *fold,
                            const cel_layout *tile) {
  cel_view view[CEL_FOLD_VIEWS];
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    for (int32_t k = 0; k < step->call.views; ++k) {
      int32_t a = step->use[k].array;
      view[k] = step->call.view[k];
      if (view[k].base != NULL)
        view[k].box = placed(&view[k].box, &view[k].layout);
      if (a < 0) continue;
      view[k].base = tile[a].base;
      view[k].layout = tile[a].box;
    }
    CEL_TRY(run_step(job, step, view));
  }
  return CEL_E_OK;
}

static void leave(const cel_fold_job *fold, int32_t a, const cel_layout *tile) {
  const cel_fold_array *array = &fold->array[a];
  const cel_call *last = &fold->step[fold->steps - 1].call;
  cel_box part[CEL_BOX_PARTS];
  int32_t n = cel_box_on_ring(&last->chunk, &last->range, part);
  cel_layout to = array->memory;
  if (array->spare != NULL) to.base = array->spare;
  for (int32_t i = 0; i < n && array->live; ++i)
    cel_copy_box(tile, &to, &part[i], array->element_size);
}

static cel_status carry_out_to_spare(const cel_job *job,
                                     const cel_fold_job *fold) {
  cel_layout tile[CEL_FOLD_ARRAYS];
  for (int32_t a = 0; a < fold->arrays; ++a) tile[a] = load(fold, a);
  cel_status status = run_tiled(job, fold, tile);
  for (int32_t a = 0; a < fold->arrays; ++a) {
    if (status == CEL_E_OK) leave(fold, a, &tile[a]);
    cel_free(tile[a].base);
  }
  return status;
}

/* ---- a job --------------------------------------------------------------- */

static cel_status carry_out(const cel_job *job, const cel_fold_job *fold) {
  if (fold->manner == CEL_FOLD_TO_SPARE) {
    CEL_TRY(carry_out_to_spare(job, fold));
  } else {
    for (int32_t s = 0; s < fold->steps; ++s)
      CEL_TRY(run_step(job, &fold->step[s], fold->step[s].call.view));
  }
  for (uint32_t i = 0; i < fold->copies; ++i) {
    const cel_fold_array *array = &fold->array[fold->copy[i].array];
    const cel_layout to = {array->spare, array->memory.box};
    cel_copy_box(&array->memory, &to, &fold->copy[i].box, array->element_size);
  }
  return CEL_E_OK;
}

cel_status cel__fold_carry_out(const cel_job *job) {
  for (const cel_fold_job *f = job->fold; f != NULL; f = f->next)
    CEL_TRY(carry_out(job, f));
  return CEL_E_OK;
}
