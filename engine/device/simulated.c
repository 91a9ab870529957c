/* A backend without threads: jobs run inside poll, in orders that real
 * hardware may choose. A lane's jobs wait in `queued`; those that have run wait
 * in `finished` until poll hands their completions over. What is put and waits
 * for others (CEL_E_AGAIN) stays in `queued`. */

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/vec.h"
#include "device/backend.h"
#include "device/bands.h"
#include "device/host_memory.h"

enum {
  KERNEL_LANES = 2,
  COPY_LANES = 2,
  COLLECTIVE_LANES = 1,
  WAITING_LANES = 1,
  LANES = KERNEL_LANES + COPY_LANES + COLLECTIVE_LANES + WAITING_LANES
};

typedef struct lane {
  CEL_VEC(cel_job *) queued;
  CEL_VEC(cel_done) finished;
  uint64_t left;  /* jobs that have left `queued` */
  uint64_t ended; /* the nth that was not carried out, as none later; or 0 */
} lane;

/* What reserve gave out: which memory an address belongs to. */
typedef struct span {
  char *begin;
  uint64_t bytes;
  int32_t memory;
  bool *committed; /* by grain; null where it is on touch, or all is */
} span;

typedef struct simulated {
  cel_backend face; /* first */
  cel_random random;
  cel_park *park;
  lane lane[CEL_DEVICES * LANES];
  CEL_VEC(span) spans;
  uint64_t used[1 + CEL_DEVICES]; /* by memory: in whole grains, or bytes */
} simulated;

#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const volatile void *p, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *p, size_t bytes);
#endif

/* Under the address sanitizer, kernels cannot touch what is not committed. Not
 * for mapped memory, of which there may be too much. */
static void forbid(const span *at, uint64_t begin, uint64_t end, bool forbids) {
  if (at->bytes >= CEL_MEMORY_SMALL) return;
#ifdef __SANITIZE_ADDRESS__
  if (forbids)
    __asan_poison_memory_region(at->begin + begin, end - begin);
  else
    __asan_unpoison_memory_region(at->begin + begin, end - begin);
#else
  (void)begin, (void)end, (void)forbids;
#endif
}

/* Whoever is above knows the capacity. */
static void use(simulated *s, int32_t memory, uint64_t bytes) {
  uint64_t capacity = s->face.capacity[memory];
  s->used[memory] += bytes;
  if (capacity != 0 && s->used[memory] > capacity)
    cel_bug("memory %d holds %llu bytes, and there are %llu", memory,
            (unsigned long long)s->used[memory], (unsigned long long)capacity);
}

static bool is_whole(const cel_backend *b, uint64_t bytes) {
  return b->grain == 0 || bytes < b->whole;
}

static cel_status reserve(cel_backend *b, int32_t memory, uint64_t bytes,
                          void **out) {
  simulated *s = (simulated *)b;
  cel_assert(memory >= 0 && memory < b->memories);
  if (is_whole(b, bytes)) use(s, memory, bytes);
  void *p;
  if (bytes >= CEL_MEMORY_SMALL) {
    CEL_TRY(cel__memory_map(bytes, &p));
  } else {
    /* Not from a pool, so that sanitizers see what is used too late; not
     * zero, so that nobody gets used to that. */
    p = cel_alloc((size_t)bytes);
    memset(p, 0xcb, (size_t)bytes);
  }
  cel_vec_push(&s->spans, (span){p, bytes, memory, NULL});
  span *at = &cel_vec_last(&s->spans);
  if (!is_whole(b, bytes)) {
    at->committed = cel_alloc_zero((size_t)(bytes / b->grain + 1));
    forbid(at, 0, bytes, true);
  }
  *out = p;
  return CEL_E_OK;
}

static void release(cel_backend *b, int32_t memory, void *p, uint64_t bytes) {
  simulated *s = (simulated *)b;
  for (uint32_t i = 0; i < s->spans.n; ++i) {
    span *at = &s->spans.at[i];
    if (at->begin != p) continue;
    if (at->memory != memory || at->bytes != bytes)
      cel_bug("released as %llu bytes of memory %d, reserved as %llu of %d",
              (unsigned long long)bytes, memory, (unsigned long long)at->bytes,
              at->memory);
    if (is_whole(b, bytes)) {
      s->used[memory] -= bytes;
    } else {
      for (uint64_t g = 0; g * b->grain < bytes; ++g)
        if (at->committed[g]) s->used[memory] -= b->grain;
      forbid(at, 0, bytes, false);
    }
    cel_free(at->committed);
    cel_vec_swap_out(&s->spans, i);
    break;
  }
  if (bytes >= CEL_MEMORY_SMALL)
    cel__memory_unmap(p, bytes);
  else
    cel_free(p);
}

/* The span that an address lies in; null for one that is not from reserve. */
static span *span_of(const simulated *s, const void *address) {
  const char *p = address;
  for (uint32_t i = 0; i < s->spans.n; ++i) {
    span *at = &s->spans.at[i];
    if (p >= at->begin && p < at->begin + at->bytes) return at;
  }
  return NULL;
}

/* The reservation that begins at `p` and of which bytes are committed or given
 * back, at multiples of `unit` or the end. */
static span *part_of(cel_backend *b, int32_t memory, const void *p,
                     uint64_t begin, uint64_t end, uint64_t unit) {
  span *at = span_of((simulated *)b, p);
  if (at == NULL || at->begin != p || at->memory != memory ||
      at->committed == NULL || begin >= end || end > at->bytes ||
      begin % unit != 0 || (end % unit != 0 && end != at->bytes))
    cel_bug("bytes %llu to %llu of what is none of memory %d",
            (unsigned long long)begin, (unsigned long long)end, memory);
  return at;
}

static cel_status commit(cel_backend *b, int32_t memory, void *p,
                         uint64_t begin, uint64_t end) {
  span *at = part_of(b, memory, p, begin, end, b->grain);
  for (uint64_t g = begin / b->grain; g * b->grain < end; ++g) {
    if (!at->committed[g]) use((simulated *)b, memory, b->grain);
    at->committed[g] = true;
  }
  forbid(at, begin, end, false);
  return CEL_E_OK;
}

static void decommit(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                     uint64_t end) {
  simulated *s = (simulated *)b;
  span *at = part_of(b, memory, p, begin, end, b->block);
  for (uint64_t g = begin / b->grain; g * b->grain < end; ++g) {
    if (at->committed[g]) s->used[memory] -= b->grain;
    at->committed[g] = false;
  }
  forbid(at, begin, end, false);
  memset(at->begin + begin, 0xcb, end - begin);
  forbid(at, begin, end, true);
}

/* The bytes of a box have been committed, run by run. */
static void check_committed(const simulated *s, const cel_job *job,
                            const cel_layout *layout) {
  const span *at = span_of(s, layout->base);
  if (at == NULL || at->committed == NULL) return;
  const cel_box *l = &layout->box, *b = &job->box;
  uint64_t grain = s->face.grain, size = job->element_size;
  int64_t n1 = l->max[1] - l->min[1], n2 = l->max[2] - l->min[2];
  for (int64_t i = b->min[0]; i < b->max[0]; ++i)
    for (int64_t k = b->min[1]; k < b->max[1]; ++k) {
      int64_t first = ((i - l->min[0]) * n1 + k - l->min[1]) * n2 - l->min[2];
      uint64_t begin = (uint64_t)(first + b->min[2]) * size;
      uint64_t end = (uint64_t)(first + b->max[2]) * size;
      for (uint64_t g = begin / grain; g * grain < end; ++g)
        if (!at->committed[g])
          cel_bug("job %llu copies byte %llu of a reservation of %llu in "
                  "memory %d, which has not been committed",
                  (unsigned long long)job->ticket, (unsigned long long)begin,
                  (unsigned long long)at->bytes, at->memory);
    }
}

/* What a job begins after was submitted before it, to other lanes. */
static void check_afters(const simulated *s, const lane *own,
                         const cel_job *job) {
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *a = &job->after[i];
    cel_assert(s->face.chains && a->device >= 0 && a->lane >= 0 &&
               a->device < s->face.devices && a->lane < LANES);
    const lane *l = &s->lane[a->device * LANES + a->lane];
    if (l == own || a->nth == 0 || a->nth > l->left + l->queued.n)
      cel_bug("job %llu is to begin after job %llu of lane %d of device %d",
              (unsigned long long)job->ticket, (unsigned long long)a->nth,
              a->lane, a->device);
  }
}

/* Views lie in the device's memory. Addresses that reserve did not give out are
 * the caller's own business. */
static void check_views(const simulated *s, int32_t device,
                        const cel_call *call) {
  for (int32_t i = 0; i < call->views; ++i) {
    const void *base = call->view[i].base;
    const span *at = base == NULL ? NULL : span_of(s, base);
    if (at != NULL && at->memory != s->face.device_memory[device])
      cel_bug("a kernel on device %d is given memory %d", device, at->memory);
  }
}

static uint64_t left(cel_backend *b, int32_t memory) {
  uint64_t capacity = b->capacity[memory];
  return capacity == 0 ? UINT64_MAX
                       : capacity - ((const simulated *)b)->used[memory];
}

/* Its last step is carried out as a whole. */
static bool ends_reducing(const cel_fold_job *fold) {
  return fold->steps > 1 && fold->step[fold->steps - 1].work->reducers > 0;
}

/* Some steps, in any manner. */
static cel_fold_manner folds(cel_backend *b, int32_t device,
                             cel_fold_job *fold) {
  simulated *s = (simulated *)b;
  cel_fold_job in_bands = *fold;
  (void)device;
  in_bands.steps -= ends_reducing(fold);
  if (!cel__bands_suit(&in_bands)) return CEL_FOLD_PLAIN;
  if (!b->spares) return CEL_FOLD_IN_PLACE;
  if (cel_random_chance(&s->random, cel_fold_turns(fold) ? 80 : 30))
    fold->steps = (int32_t)cel_random_int(&s->random, 1, fold->steps);
  if (cel_random_chance(&s->random, 60) && cel_fold_narrows(fold))
    return CEL_FOLD_TO_SPARE;
  return cel_random_chance(&s->random, 50) && !cel_fold_turns(fold)
             ? CEL_FOLD_IN_PLACE
             : CEL_FOLD_PLAIN;
}

/* So have those of a box that may leave `ring`, whose ends meet. */
static void check_on_ring(const simulated *s, cel_job job, const cel_box *box,
                          const cel_box *ring, const cel_layout *layout) {
  cel_box part[CEL_BOX_PARTS];
  for (int32_t n = cel_box_on_ring(box, ring, part); n-- > 0;) {
    job.box = part[n];
    check_committed(s, &job, layout);
  }
}

static void check_fold(const simulated *s, int32_t device, const cel_job *job) {
  for (const cel_fold_job *f = job->fold; f != NULL; f = f->next) {
    for (int32_t i = 0; i < f->steps; ++i)
      check_views(s, device, &f->step[i].call);
    for (uint32_t i = 0; i < f->copies; ++i) {
      const cel_fold_array *a = &f->array[f->copy[i].array];
      const cel_job copy = {.ticket = job->ticket,
                            .element_size = a->element_size,
                            .box = f->copy[i].box};
      check_committed(s, &copy, &a->memory);
      check_committed(s, &copy, &(cel_layout){a->spare, a->memory.box});
    }
    for (int32_t i = 0; i < f->arrays; ++i) {
      const cel_fold_array *a = &f->array[i];
      const cel_call *last = &f->step[f->steps - 1].call;
      const cel_box touched = cel_fold_touched(f, i);
      const cel_job of = {.ticket = job->ticket,
                          .element_size = a->element_size};
      if (f->manner != CEL_FOLD_TO_SPARE) continue;
      if (cel_fold_needs_spare(f, i) != (a->spare != NULL))
        cel_bug("job %llu: array %d has spare memory, or none",
                (unsigned long long)job->ticket, i);
      check_on_ring(s, of, &touched, &a->memory.box, &a->memory);
      if (a->spare != NULL)
        check_on_ring(s, of, &last->chunk, &last->range,
                      &(cel_layout){a->spare, a->memory.box});
    }
  }
}

static void submit(cel_backend *b, int32_t device, int32_t l, cel_job *job) {
  simulated *s = (simulated *)b;
  cel_assert(device >= 0 && device < b->devices && l >= 0 && l < LANES);
  const bool waits = job->kind == CEL_JOB_CALL && job->work->waits &&
                     s->face.waiting_lanes > 0;
  cel_assert(waits == (l >= LANES - WAITING_LANES));
  const bool kernel = job->kind == CEL_JOB_CALL || job->kind == CEL_JOB_FOLD;
  cel_assert(waits || kernel == (l < KERNEL_LANES) ||
             job->kind == CEL_JOB_INIT);
  if (waits && job->afters > 0)
    cel_bug("job %llu waits for its device, and is to begin after others",
            (unsigned long long)job->ticket);
  if (job->kind == CEL_JOB_CALL) check_views(s, device, &job->call);
  if (job->kind == CEL_JOB_FOLD) check_fold(s, device, job);
  if (job->kind == CEL_JOB_COPY) {
    check_committed(s, job, &job->from);
    check_committed(s, job, &job->to);
  }
  lane *own = &s->lane[device * LANES + l];
  check_afters(s, own, job);
  cel_vec_push(&own->queued, job);
}

/* Whether the lane's head has had all that it begins after. */
static bool may_run(const simulated *s, const lane *l) {
  if (l->queued.n == 0) return false;
  const cel_job *job = l->queued.at[0];
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *a = &job->after[i];
    if (s->lane[a->device * LANES + a->lane].left < a->nth) return false;
  }
  return true;
}

/* Whether something that the job begins after was not carried out. */
static bool is_lost(const simulated *s, const cel_job *job) {
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *a = &job->after[i];
    uint64_t ended = s->lane[a->device * LANES + a->lane].ended;
    if (ended != 0 && ended <= a->nth) return true;
  }
  return false;
}

/* In some number of runs, one after another, with their seams. */
static cel_status run_bands(simulated *s, const cel_job *job) {
  cel__bands bands;
  cel__bands_plan(job, cel_random_int(&s->random, 1, 8), &bands);
  if (!bands.in_turns) bands.band = cel_random_int(&s->random, 1, bands.band);
  for (int32_t i = 0; i < bands.runs; ++i) {
    CEL_TRY(cel__bands_run(&bands, i));
    if (i > 0) CEL_TRY(cel__bands_seam(&bands, i));
  }
  return bands.ring ? cel__bands_seam(&bands, 0) : CEL_E_OK;
}

static void spoil_box(const cel_fold_array *array, const cel_box *box,
                      const cel_box *range) {
  size_t bytes = (size_t)cel_box_volume(box) * array->element_size;
  cel_layout none = {.base = memset(cel_alloc(bytes), 0xcb, bytes)};
  cel_box part[CEL_BOX_PARTS];
  for (int32_t n = cel_box_on_ring(box, range, part); n-- > 0;) {
    none.box = part[n];
    cel_copy_box(&none, &array->memory, &part[n], array->element_size);
  }
  cel_free(none.base);
}

/* A device stores nothing of what nobody reads. What no step writes, it leaves
 * as it is: chunks of steps whose results few read may be smaller. */
static void spoil_unread(const cel_fold_job *fold, int32_t a) {
  const cel_call *last = &fold->step[fold->steps - 1].call;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    for (int32_t k = 0; k < step->call.views; ++k) {
      cel_box box;
      if (step->use[k].array == a && step->use[k].writes &&
          cel_box_intersect(&step->call.chunk, &last->chunk, &box))
        spoil_box(&fold->array[a], &box, &last->range);
    }
  }
}

/* What was left in spare memory nobody is to look for where it was. */
static void spoil(const simulated *s, const cel_fold_job *fold) {
  for (int32_t a = 0; a < fold->arrays; ++a) {
    const cel_fold_array *array = &fold->array[a];
    const span *at = span_of(s, array->memory.base);
    if (!array->live) spoil_unread(fold, a);
    if (array->spare == NULL || at == NULL) continue;
    uint64_t unit = at->committed != NULL ? s->face.grain : at->bytes;
    for (uint64_t g = 0; g * unit < at->bytes; ++g) {
      uint64_t left_of = at->bytes - g * unit;
      if (at->committed == NULL || at->committed[g])
        memset(at->begin + g * unit, 0xcb, left_of < unit ? left_of : unit);
    }
  }
}

static cel_status run_fold(simulated *s, const cel_job *job) {
  for (const cel_fold_job *f = job->fold; f != NULL; f = f->next) {
    cel_fold_job alone = *f;
    cel_job part = *job;
    alone.next = NULL;
    part.fold = &alone;
    bool bands = (!s->face.spares || f->manner == CEL_FOLD_IN_PLACE) &&
                 !ends_reducing(f);
    CEL_TRY(bands ? run_bands(s, &part) : cel__fold_carry_out(&part));
    if (f->manner != CEL_FOLD_PLAIN) spoil(s, f);
  }
  return CEL_E_OK;
}

static cel_status carry_out(simulated *s, const cel_job *job) {
  return job->kind == CEL_JOB_FOLD ? run_fold(s, job) : cel_job_run(job);
}

static void run_head(simulated *s, lane *l) {
  cel_job *job = l->queued.at[0];
  bool lost = is_lost(s, job);
  cel_status status = l->ended != 0 || lost ? CEL_E_OK : carry_out(s, job);
  if (status == CEL_E_AGAIN) return; /* what is put waits for others */
  memmove(l->queued.at, l->queued.at + 1, --l->queued.n * sizeof *l->queued.at);
  l->left++;
  cel_done done = {job->ticket, NULL};
  if (l->ended == 0 && lost) l->ended = l->left;
  if (status != CEL_E_OK) {
    l->ended = l->left;
    done.error = cel_alloc(sizeof *done.error);
    *done.error = *cel_error_last();
  }
  cel_vec_push(&l->finished, done);
  if (s->park != NULL) cel_park_wake(s->park);
}

/* A lane that has something to do, chosen by the seed; null if none has. */
static lane *choose(simulated *s) {
  lane *busy[CEL_DEVICES * LANES];
  int n = 0;
  for (int i = 0; i < s->face.devices * LANES; ++i)
    if (s->lane[i].finished.n > 0 || may_run(s, &s->lane[i]))
      busy[n++] = &s->lane[i];
  return n == 0 ? NULL : busy[cel_random_int(&s->random, 0, n - 1)];
}

static uint32_t poll(cel_backend *b, cel_done *out, uint32_t max) {
  simulated *s = (simulated *)b;
  int64_t moves = cel_random_int(&s->random, 1, 4);
  uint32_t n = 0;
  while (moves-- > 0 && n < max) {
    lane *l = choose(s);
    if (l == NULL) break;
    bool run = l->finished.n == 0 ||
               (may_run(s, l) && cel_random_chance(&s->random, 50));
    if (run) {
      run_head(s, l);
    } else {
      out[n++] = l->finished.at[0];
      cel_vec_drop_first(&l->finished, 1);
    }
  }
  return n;
}

static void destroy(cel_backend *b) {
  simulated *s = (simulated *)b;
  for (int i = 0; i < CEL_DEVICES * LANES; ++i) {
    lane *l = &s->lane[i];
    for (uint32_t k = 0; k < l->finished.n; ++k)
      cel_free(l->finished.at[k].error);
    cel_vec_release(&l->queued);
    cel_vec_release(&l->finished);
  }
  while (s->spans.n > 0) {
    span last = cel_vec_last(&s->spans);
    release(b, last.memory, last.begin, last.bytes);
  }
  cel_vec_release(&s->spans);
  cel_free(s);
}

cel_status cel_backend_simulated(const cel_backend_config *config,
                                 cel_backend **out) {
  if (config->devices < 1 || config->devices > CEL_DEVICES)
    return cel_fail(CEL_E_RANGE, "1 to %d devices, not %d", CEL_DEVICES,
                    config->devices);
  simulated *s = cel_alloc_zero(sizeof *s);
  bool own = config->own_memory || config->devices > 1;
  s->random.state = config->seed;
  s->park = config->park;
  s->face = (cel_backend){
      .name = "simulated",
      .devices = config->devices,
      .memories = own ? 1 + config->devices : 1,
      .kernel_lanes = KERNEL_LANES,
      .urgent_lanes = 1,
      .copy_lanes = COPY_LANES,
      .collective_lanes = config->chains ? COLLECTIVE_LANES : 0,
      .waiting_lanes = config->chains ? WAITING_LANES : 0,
      .chains = config->chains,
      .puts = config->chains,
      .grain = config->grain,
      .whole = config->whole,
      .block = config->block != 0 ? config->block : config->grain,
      .commit = commit,
      .decommit = decommit,
      .reserve = reserve,
      .release = release,
      .spares = config->spares,
      .left = left,
      .folds = folds,
      .submit = submit,
      .poll = poll,
      .destroy = destroy,
  };
  for (int32_t d = 0; own && d < config->devices; ++d) {
    s->face.device_memory[d] = 1 + d;
    s->face.capacity[1 + d] = config->capacity;
  }
  *out = &s->face;
  return CEL_E_OK;
}
