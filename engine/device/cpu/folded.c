#include "device/cpu/folded.h"

#include <stdatomic.h>

#include "device/bands.h"
#include "tuning.h"

/* What calls in a lane come to as a fold. */
typedef struct joined {
  cel_job job;
  cel_fold_job fold;
  cel_fold_call call[CEL_TUNE_FOLD_CALLS];
  cel_fold_view use[CEL_TUNE_FOLD_CALLS][CEL_FOLD_VIEWS];
  cel_fold_array array[CEL_FOLD_ARRAYS];
} joined;

struct cel__folded {
  cel__bands bands;
  joined *joined;            /* owned; null: of a job FOLD */
  _Atomic(int32_t) beside[]; /* of seam i: the runs at it that have ended */
};

/* ---- gathering ----------------------------------------------------------- */

/* Arrays that calls touch. */
typedef struct touched {
  int32_t n;
  struct {
    const void *base;
    bool written, anywhere; /* read other than around items */
    int64_t bytes;
  } at[CEL_FOLD_ARRAYS];
} touched;

static int32_t array_at(const touched *all, const void *base) {
  int32_t a = 0;
  while (a < all->n && all->at[a].base != base) ++a;
  return a;
}

static bool is_call(const cel_job *job) {
  return job->kind == CEL_JOB_CALL && job->use != NULL &&
         job->call.views <= CEL_FOLD_VIEWS && job->call.effects == 0 &&
         job->call.comm == NULL && job->call.stream == NULL;
}

static bool is_one(const cel_job *job) {
  return is_call(job) && cel__bands_take(job->work, &job->call);
}

/* Adds what a call touches. False where it may not be a step behind the others:
 * an array would be written, and read anywhere; or it touches nothing that they
 * touch, and is better by itself. */
static bool add(touched *all, const cel_job *job) {
  bool meets = all->n == 0;
  for (int32_t k = 0; k < job->call.views; ++k) {
    const cel_view *view = &job->call.view[k];
    const cel_fold_view *use = &job->use[k];
    if (view->base == NULL) continue;
    int32_t a = array_at(all, view->base);
    if (a == CEL_FOLD_ARRAYS) return false;
    meets |= a < all->n;
    if (a == all->n) {
      all->at[all->n].base = view->base;
      all->at[all->n].written = all->at[all->n].anywhere = false;
      all->at[all->n++].bytes = cel_box_volume(&view->box) * use->element_size;
    }
    all->at[a].written |= use->writes;
    all->at[a].anywhere |= use->array < 0;
    if (all->at[a].written && all->at[a].anywhere) return false;
  }
  return meets;
}

static bool same_range(const cel_job *a, const cel_job *b) {
  return cel_box_equal(&a->call.range, &b->call.range);
}

/* Whether memory is what the head takes. */
static bool is_worth(const cel_entry *head, const touched *all) {
  int64_t items = cel_box_volume(&head->job->call.chunk), bytes = 0;
  for (int32_t a = 0; a < all->n; ++a) bytes += all->at[a].bytes;
  return items > 0 && bytes > CEL_TUNE_FOLD_BYTES && head->expected_ns > 0 &&
         head->expected_ns / items < CEL_TUNE_FOLD_ITEM_PS / 1000;
}

static bool is_flat(const cel_job *job, const cel_box *chunk) {
  for (int32_t k = 0; k < job->call.views; ++k)
    if (job->use[k].array >= 0 && cel_fold_reaches(&job->use[k])) return false;
  return cel_box_equal(&job->call.chunk, chunk);
}

/* Each block has a whole row of its own, and items come to it in the order in
 * which they are computed, whether by one call or by several. */
static bool reduces_in_order(const cel_job *job) {
  const cel_work *work = job->work;
  int64_t items = cel_box_volume(&job->call.chunk);
  for (int32_t i = 0; i < work->reducers; ++i)
    if (work->reducer[i].begins &&
        cel_box_volume(&work->reducer[i].extent) * CEL_TUNE_PARTIAL_BLOCKS >
            items * CEL_TUNE_PARTIAL_FEW)
      return false;
  return work->reducers > 0 && !work->combines && work->work_group[0] == 0 &&
         !work->marks && !work->waits && !work->lua && !work->turns &&
         job->call.sample == NULL;
}

/* Whether a reducing call may be the last one behind others that touch `all`:
 * it reads what they touch, and reduces into something else. */
static bool may_end(const touched *all, const cel_job *job) {
  bool meets = false;
  for (int32_t k = 0; k < job->call.views; ++k) {
    const cel_fold_view *use = &job->use[k];
    const void *base = job->call.view[k].base;
    if (base == NULL) continue;
    int32_t a = array_at(all, base);
    if (a == all->n) continue;
    bool other = use->array < 0;
    if (other && (use->writes || all->at[a].written)) return false;
    if (use->writes && all->at[a].anywhere) return false;
    meets = true;
  }
  return meets;
}

int32_t cel__folded_gather(const cel_entry *head, bool always,
                           const cel_job **reducing) {
  touched all = {.n = 0};
  int32_t calls = 0;
  const cel_entry *at = head;
  bool flat = true;
  *reducing = NULL;
  for (; at != NULL && calls < CEL_TUNE_FOLD_CALLS; at = at->next, ++calls) {
    touched before = all;
    if (!is_one(at->job) || !same_range(at->job, head->job)) break;
    if (!add(&all, at->job)) {
      all = before;
      break;
    }
    if (calls == 0 && !always && !is_worth(head, &all)) return 1;
    flat = flat && is_flat(at->job, &head->job->call.chunk);
  }
  if (calls == 0) return 1;
  if (!flat || at == NULL || !is_call(at->job) ||
      !same_range(at->job, head->job) ||
      !is_flat(at->job, &head->job->call.chunk) || !reduces_in_order(at->job) ||
      !may_end(&all, at->job))
    return calls;
  *reducing = at->job;
  return calls + 1;
}

/* ---- as a fold ----------------------------------------------------------- */

static void join_call(joined *j, touched *all, int32_t s, const cel_job *job) {
  j->call[s] = (cel_fold_call){.work = job->work,
                               .call = job->call,
                               .use = j->use[s],
                               .name = job->name,
                               .location = job->location};
  for (int32_t k = 0; k < job->call.views; ++k) {
    const cel_view *view = &job->call.view[k];
    cel_fold_view *use = &j->use[s][k];
    *use = job->use[k];
    use->array = -1;
    if (view->base == NULL || job->use[k].array < 0) continue;
    use->array = array_at(all, view->base);
    cel_assert(use->array < all->n);
    j->array[use->array] =
        (cel_fold_array){.dims = CEL_DIMS,
                         .element_size = use->element_size,
                         .memory = {view->base, view->layout},
                         .live = true};
  }
}

static cel__folded *create(const cel_job *job, joined *joined, int32_t threads,
                           int64_t *blocks) {
  cel__bands bands;
  cel__bands_plan(job, (int64_t)threads * CEL_TUNE_BAND_RUNS, &bands);
  cel__folded *folded =
      cel_alloc(sizeof *folded + (size_t)bands.runs * sizeof folded->beside[0]);
  folded->bands = bands;
  folded->joined = joined;
  for (int32_t i = 0; i < bands.runs; ++i) atomic_init(&folded->beside[i], 0);
  *blocks = bands.runs;
  return folded;
}

cel__folded *cel__folded_create(const cel_job *job, int32_t threads,
                                int64_t *blocks) {
  return create(job, NULL, threads, blocks);
}

cel__folded *cel__folded_join(const cel_entry *head, int32_t calls,
                              int32_t threads, bool always, int64_t *blocks) {
  joined *j = cel_alloc_zero(sizeof *j);
  touched all = {.n = 0};
  const cel_job *job[CEL_TUNE_FOLD_CALLS];
  for (int32_t s = 0; s < calls; ++s) {
    if (s > 0) head = head->next; /* of the last one others may write it */
    job[s] = head->job;
    add(&all, job[s]);
  }
  for (int32_t s = 0; s < calls; ++s) join_call(j, &all, s, job[s]);
  j->fold = (cel_fold_job){
      .steps = calls, .step = j->call, .arrays = all.n, .array = j->array};
  j->job = (cel_job){
      .ticket = job[0]->ticket, .kind = CEL_JOB_FOLD, .fold = &j->fold};
  cel__folded *folded = create(&j->job, j, threads, blocks);
  if (always) cel__bands_refine(&folded->bands, 1 + calls % 3);
  if (always || *blocks >= threads) return folded;
  cel__folded_destroy(folded);
  return NULL;
}

void cel__folded_destroy(cel__folded *folded) {
  if (folded == NULL) return;
  cel_free(folded->joined);
  cel_free(folded);
}

/* ---- carrying out -------------------------------------------------------- */

/* What one thread has written before its fetch, the other one reads behind its
 * own. */
static cel_status pass(cel__folded *folded, int64_t i) {
  bool second = atomic_fetch_add(&folded->beside[i], 1) == 1;
  return second ? cel__bands_seam(&folded->bands, i) : CEL_E_OK;
}

cel_status cel__folded_run(cel__folded *folded, int64_t i) {
  const cel__bands *bands = &folded->bands;
  const int64_t next = (i + 1) % bands->runs;
  CEL_TRY(cel__bands_run(bands, i));
  if (i > 0 || bands->ring) CEL_TRY(pass(folded, i));
  return next > 0 || bands->ring ? pass(folded, next) : CEL_E_OK;
}
