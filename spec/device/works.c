/* works.c -- C callbacks for backend_spec.lua, which compiles this. */
#include "device/backend.h"

#include <stdatomic.h>
#include <time.h>

/* a := a * factor + 1 over the chunk of one view; the context is the factor.
 * `busy` repeats make a kernel long enough to be shared, from a row on. */
typedef struct cel_spec_context {
  int64_t factor, busy;
  _Atomic(int64_t) items; /* touched so far */
  int64_t fail_at;        /* row that fails, or -1 */
  int64_t busy_from;
} cel_spec_context;

cel_status cel_spec_scale(const cel_work *work, const cel_call *call);
cel_status cel_spec_fill(const cel_init *init, const cel_box *box, void *out);
cel_status cel_spec_stamp(const cel_work *work, const cel_call *call);
cel_status cel_spec_meet(const cel_work *work, const cel_call *call);

cel_status cel_spec_scale(const cel_work *work, const cel_call *call) {
  cel_spec_context *c = work->context;
  const cel_view *v = &call->view[0];
  const cel_box *l = &v->layout, *b = &call->chunk;
  int64_t e1 = l->max[1] - l->min[1], e2 = l->max[2] - l->min[2];
  for (int64_t i = b->min[0]; i < b->max[0]; ++i) {
    if (i == c->fail_at) return cel_fail(CEL_E_TASK, "row %d", (int)i);
    for (int64_t j = b->min[1]; j < b->max[1]; ++j)
      for (int64_t k = b->min[2]; k < b->max[2]; ++k) {
        int64_t *p = (int64_t *)v->base +
                     ((i - l->min[0]) * e1 + j - l->min[1]) * e2 + k -
                     l->min[2];
        *p = (int64_t)((uint64_t)*p * (uint64_t)c->factor + 1);
        for (volatile int64_t n = i < c->busy_from ? c->busy : 0; n < c->busy;
             ++n) {
        }
        atomic_fetch_add(&c->items, 1);
      }
  }
  return CEL_E_OK;
}

/* Element (i, j, k) becomes i * 10000 + j * 100 + k, as 32 bits. */
cel_status cel_spec_fill(const cel_init *init, const cel_box *box, void *out) {
  int32_t *p = out;
  _Atomic(int64_t) *calls = init->context;
  atomic_fetch_add(calls, 1);
  for (int64_t i = box->min[0]; i < box->max[0]; ++i)
    for (int64_t j = box->min[1]; j < box->max[1]; ++j)
      for (int64_t k = box->min[2]; k < box->max[2]; ++k)
        *p++ = (int32_t)(i * 10000 + j * 100 + k);
  return CEL_E_OK;
}

/* The only item: how many have been carried out, with this one; the chunk
 * begins at the job's number, and one may fail. */
cel_status cel_spec_stamp(const cel_work *work, const cel_call *call) {
  cel_spec_context *c = work->context;
  if (call->chunk.min[0] == c->fail_at) return cel_fail(CEL_E_TASK, "planted");
  *(int64_t *)call->view[0].base = 1 + atomic_fetch_add(&c->items, 1);
  return CEL_E_OK;
}

static int64_t seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec;
}

/* Two items at a time have to be under way: every other one waits for the next,
 * or fails. With `busy`, each takes long instead. */
cel_status cel_spec_meet(const cel_work *work, const cel_call *call) {
  cel_spec_context *c = work->context;
  for (int64_t i = call->chunk.min[0]; i < call->chunk.max[0]; ++i) {
    int64_t mine = 1 + atomic_fetch_add(&c->items, 1), until = seconds() + 20;
    for (volatile int64_t n = 0; n < c->busy; ++n) {
    }
    while (c->busy == 0 && mine % 2 != 0 && atomic_load(&c->items) == mine)
      if (seconds() > until) return cel_fail(CEL_E_TASK, "nobody came");
  }
  return CEL_E_OK;
}
