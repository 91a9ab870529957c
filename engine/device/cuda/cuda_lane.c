#define _GNU_SOURCE
#include "device/cuda/cuda_lane.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/confined.h"
#include "base/text.h"
#include "device/clock.h"
#include "device/cuda/cuda_trial.h"
#include "device/cuda/nvtx.h"
#include "device/thread.h"
#include "tuning.h"

_Static_assert((int)CEL_CUDA_DEPTH >= (int)CEL_TUNE_LANE_DEPTH,
               "the executor would fill a lane beyond its events");

enum {
  OTHERS_NS = 2000000000, /* for another device to say that it is lost */
  LANES = CEL_CUDA_LANES,
  DEPTH = CEL_CUDA_DEPTH
};

/* ---- failure ------------------------------------------------------------- */

static bool is_call(const cel_entry *entry) {
  return entry->job->kind == CEL_JOB_CALL || entry->job->kind == CEL_JOB_FOLD;
}

/* Calls f for each job that is not known to be complete. */
static void each_under_way(cel_cuda_worker *w,
                           void (*f)(void *context, cel_entry *entry),
                           void *context) {
  for (int l = 0; l < LANES; ++l) {
    cel_cuda_lane *lane = &w->lane[l];
    uint64_t n = atomic_load_explicit(&lane->completed, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&lane->submitted, memory_order_relaxed);
    while (++n <= end) f(context, lane->entry[n % DEPTH]);
  }
}

/* The kernel that was submitted first, or copy if there is no kernel; none that
 * has been refused. */
static void find_first(void *context, cel_entry *entry) {
  cel_entry **first = context;
  if (entry->error != NULL) return;
  if (*first == NULL || is_call(entry) > is_call(*first) ||
      (is_call(entry) == is_call(*first) && entry->nth < (*first)->nth))
    *first = entry;
}

typedef struct kernels {
  const cel_cuda_kernel *at[5];
  int n;
} kernels;

static void find_kernels(void *context, cel_entry *entry) {
  kernels *k = context;
  const int most = sizeof k->at / sizeof *k->at;
  const cel_cuda_kernel *kernel = cel__cuda_kernel_of(entry->job);
  if (kernel == NULL) return;
  for (int i = 0; i < k->n; ++i)
    if (k->at[i] == kernel) return;
  if (k->n < most) k->at[k->n++] = kernel;
}

/* Errors of the driver do not say whose they are, and what has run may not have
 * been told yet: other kernels are named, too. */
static void add_others(cel_cuda_worker *w, const cel_entry *first,
                       cel_error *error) {
  if (!is_call(first)) return;
  kernels all = {.n = 1, .at = {cel__cuda_kernel_of(first->job)}};
  each_under_way(w, find_kernels, &all);
  for (int i = 1; i < all.n; ++i)
    cel_text_append(error->text, sizeof error->text, "%s%s",
                    i == 1 ? "; or it was one submitted after it: " : ", ",
                    all.at[i]->name);
}

/* Whether what the driver said when a job was submitted is for others to answer
 * for: a message, or a library that an interop task calls, fails because of a
 * kernel before it; one with checks has been waited for. */
static bool yields(const cel_entry *known, const cel_entry *first) {
  bool waited = is_call(known) && known->error->code == CEL_E_FAULT;
  return is_call(first) && !waited;
}

typedef struct awaited {
  const cel_cuda_worker *worker;
  uint64_t nth; /* of no interest is what was submitted later */
  bool any;
} awaited;

/* Whether it begins after something that another device has not completed. */
static void find_awaited(void *context, cel_entry *entry) {
  awaited *a = context;
  const cel_job *job = entry->job;
  if (entry->nth > a->nth) return;
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *after = &job->after[i];
    const cel_cuda_worker *other = &a->worker->crew->worker[after->device];
    a->any |= other != a->worker &&
              atomic_load_explicit(&other->lane[after->lane].completed,
                                   memory_order_acquire) < after->nth;
  }
}

/* A device that waits for one that is lost is lost with it, and may be told so
 * first. The other is to come back before it, with the kernel whose fault it
 * is. Devices that wait for each other here do so for OTHERS_NS. */
static void let_others_speak(cel_cuda_worker *w, const cel_entry *first) {
  int64_t end = cel_now_ns() + OTHERS_NS;
  awaited a;
  do {
    a = (awaited){.worker = w, .nth = first->nth};
    each_under_way(w, find_awaited, &a);
    if (a.any) sched_yield();
  } while (a.any && cel_now_ns() < end);
}

/* Says whose fault it is. `known`, or null, is what was being submitted. */
static void lose(cel_cuda_worker *w, CUresult code, cel_entry *known) {
  if (w->lost) return;
  w->lost = true;
  cel_entry *entry = NULL;
  each_under_way(w, find_first, &entry);
  bool speaks = known != NULL && known->error != NULL;
  bool keeps = speaks && (entry == NULL || !yields(known, entry));
  if (keeps) entry = known;
  if (entry == NULL) return;
  w->told_of = entry->lane;
  let_others_speak(w, entry);
  if (keeps) return;
  if (speaks) cel_free(known->error);
  if (speaks) known->error = NULL;
  cel__cuda_fail(w->crew->cuda, w->device, entry->job, CEL_E_FAULT, code);
  entry->error = cel_finished_error();
  add_others(w, entry, entry->error);
}

/* ---- submission ---------------------------------------------------------- */

/* Whether something that came before has failed, so that what comes after it
 * must not be carried out. */
static bool is_spoilt(const cel_cuda_crew *crew, const cel_after *after) {
  const cel_cuda_worker *other = &crew->worker[after->device];
  return atomic_load_explicit(&other->lost, memory_order_relaxed) ||
         atomic_load_explicit(&other->lane[after->lane].failed,
                              memory_order_relaxed);
}

/* Makes the lane wait on the device, or ends it. */
static CUresult wait_for(cel_cuda_worker *w, const cel_job *job,
                         cel_cuda_lane *mine) {
  for (uint32_t i = 0; i < job->afters; ++i) {
    const cel_after *after = &job->after[i];
    cel_cuda_lane *lane = &w->crew->worker[after->device].lane[after->lane];
    /* Until the other device's thread has submitted what comes before. */
    while (atomic_load_explicit(&lane->submitted, memory_order_acquire) <
           after->nth)
      sched_yield();
    if (is_spoilt(w->crew, after)) {
      atomic_store(&mine->failed, true);
      return CUDA_SUCCESS; /* a lost device may have recorded no event */
    }
    if (atomic_load_explicit(&lane->completed, memory_order_acquire) >=
        after->nth)
      continue;
    CUresult code = w->crew->cuda->api->cuStreamWaitEvent(
        mine->stream, lane->event[after->nth % DEPTH], 0);
    if (code != CUDA_SUCCESS) return code;
  }
  return CUDA_SUCCESS;
}

static bool collect(cel_cuda_worker *w);

/* In stream order, in a thread of the driver. */
static void call_host(void *argument) {
  const struct cel_cuda_host_call *call = argument;
  cel_cuda_lane *lane = call->lane;
  const cel_job *job = call->entry->job;
  if (atomic_load_explicit(&lane->failed, memory_order_relaxed) ||
      (job->kind == CEL_JOB_FOLD ? cel__fold_carry_out(job)
                                 : cel_job_run(job)) == CEL_E_OK)
    return;
  call->entry->error = cel_finished_error();
  atomic_store_explicit(&lane->failed, true, memory_order_relaxed);
}

/* Has been submitted when it returns: what it does is for the stream to do. */
static cel_status call_lua(cel_cuda_worker *w, const cel_cuda_lane *lane,
                           const cel_job *job) {
  cel_cuda_crew *crew = w->crew;
  const cel_cuda_device *device = &crew->cuda->device[w->device];
  if (cel_box_is_empty(&job->call.chunk)) return CEL_E_OK;
  if (!w->entered && crew->enter != NULL) w->state = crew->enter(crew->context);
  w->entered = true;
  cel_call call = job->call;
  call.device = device->ordinal;
  call.stream = lane->stream;
  cel_status status = job->work->fn(job->work, &call);
  /* Libraries are told which device to use by making another one current. */
  crew->cuda->api->cuCtxSetCurrent(device->context);
  return status;
}

static cel_status enqueue(cel_cuda_worker *w, cel_cuda_lane *lane,
                          cel_entry *entry, struct cel_cuda_host_call *call,
                          CUresult *lost) {
  const cel_cuda *cuda = w->crew->cuda;
  if (entry->job->kind == CEL_JOB_PUT)
    return entry->job->put(entry->job->context, lane->stream);
  if (entry->job->kind == CEL_JOB_CALL && entry->job->work->lua)
    return call_lua(w, lane, entry->job);
  if (!w->crew->host_works || !is_call(entry))
    return cel__cuda_enqueue(cuda, w->device, entry->job, entry->lane,
                             lane->stream, lost);
  *call = (struct cel_cuda_host_call){lane, entry};
  CUresult code = cuda->api->cuLaunchHostFunc(lane->stream, call_host, call);
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel__cuda_fail(cuda, w->device, entry->job, CEL_E_TASK, code);
}

/* On the lane's stream; the event is made when it is first needed. */
static CUresult record(const cel_cuda_worker *w, const cel_cuda_lane *lane,
                       CUevent *event) {
  const cel_cuda_api *api = w->crew->cuda->api;
  CUresult code = CUDA_SUCCESS;
  if (*event == NULL)
    code = api->cuEventCreate(event, w->timing ? 0 : CU_EVENT_DISABLE_TIMING);
  return code == CUDA_SUCCESS ? api->cuEventRecord(*event, lane->stream) : code;
}

/* Begins a job that is to be timed. */
static CUresult begin_time(cel_cuda_worker *w, cel_cuda_lane *lane,
                           cel_job *job, uint64_t slot) {
  const cel_cuda_api *api = w->crew->cuda->api;
  if (!w->timing) cel_cuda_timer_start(&w->timer, api);
  w->timing = true;
  if (lane->begin[slot] == NULL && lane->event[slot] != NULL) {
    CUevent timed;
    CUresult code = api->cuEventCreate(&timed, 0);
    if (code != CUDA_SUCCESS) return code;
    lane->untimed[slot] = lane->event[slot];
    lane->event[slot] = timed;
  }
  job->begin = 1; /* to be looked up */
  return record(w, lane, &lane->begin[slot]);
}

/* Puts the job on the stream; its own failure ends the lane. */
static CUresult carry_out(cel_cuda_worker *w, cel_cuda_lane *lane,
                          cel_entry *entry, uint64_t slot) {
  cel_job *job = entry->job;
  CUresult code = CUDA_SUCCESS;
  if (atomic_load_explicit(&w->crew->timed, memory_order_relaxed))
    code = begin_time(w, lane, job, slot);
  if (code != CUDA_SUCCESS) return code;
  cel_nvtx_begin(is_call(entry) && job->name != NULL ? job->name : "copy");
  if (enqueue(w, lane, entry, &lane->host_call[slot], &code) != CEL_E_OK) {
    entry->error = cel_finished_error();
    atomic_store(&lane->failed, true);
  }
  cel_nvtx_end();
  return code;
}

static void submit(cel_cuda_worker *w, cel_entry *entry) {
  cel_assert_thread(CEL_THREAD_WORKER);
  cel_cuda_lane *lane = &w->lane[entry->lane];
  uint64_t n = atomic_load_explicit(&lane->submitted, memory_order_relaxed) + 1;
  uint64_t slot = n % DEPTH;
  while (n - atomic_load_explicit(&lane->completed, memory_order_relaxed) >
         DEPTH)
    collect(w);
  lane->entry[slot] = entry;
  entry->nth = ++w->taken;
  CUresult code = CUDA_SUCCESS;
  if (!atomic_load(&lane->failed) && !w->lost) {
    code = wait_for(w, entry->job, lane);
    if (code == CUDA_SUCCESS && !atomic_load(&lane->failed))
      code = carry_out(w, lane, entry, slot);
  }
  if (code == CUDA_SUCCESS && !w->lost)
    code = record(w, lane, &lane->event[slot]);
  /* Before others may go on that begin after it. */
  if (code != CUDA_SUCCESS) atomic_store(&lane->failed, true);
  atomic_store_explicit(&lane->submitted, n, memory_order_release);
  if (code != CUDA_SUCCESS) lose(w, code, entry);
}

/* ---- completion ---------------------------------------------------------- */

/* Whether job n of the lane is complete, and with it all before; false, too,
 * when the device is found lost. */
static bool is_complete(cel_cuda_worker *w, cel_cuda_lane *lane, uint64_t n) {
  if (w->lost) return true;
  CUresult code = w->crew->cuda->api->cuEventQuery(lane->event[n % DEPTH]);
  if (code == CUDA_ERROR_NOT_READY) return false;
  if (code != CUDA_SUCCESS) lose(w, code, NULL);
  return code == CUDA_SUCCESS;
}

/* When the device worked on the job in a slot, which is complete. */
static void read_times(cel_cuda_worker *w, const cel_cuda_lane *lane,
                       uint64_t slot) {
  cel_job *job = lane->entry[slot]->job;
  job->begin = 0;
  if (!w->lost && lane->entry[slot]->error == NULL)
    cel_cuda_timer_read(&w->timer, lane->begin[slot], lane->event[slot],
                        &job->begin, &job->end);
}

/* A question costs over a microsecond while a stream runs, so a whole stride is
 * asked for first, then the oldest. */
static bool collect_lane(cel_cuda_worker *w, cel_cuda_lane *lane) {
  cel_assert_thread(CEL_THREAD_WORKER);
  uint64_t n = atomic_load_explicit(&lane->completed, memory_order_relaxed);
  uint64_t end = atomic_load_explicit(&lane->submitted, memory_order_relaxed);
  bool any = false;
  while (n < end) {
    uint64_t to =
        end - n < CEL_TUNE_CUDA_STRIDE ? end : n + CEL_TUNE_CUDA_STRIDE;
    if (!is_complete(w, lane, to)) {
      to = n + 1;
      if (any || w->lost || !is_complete(w, lane, to)) break;
    }
    any = true;
    while (n < to) {
      cel_entry *entry = lane->entry[++n % DEPTH];
      if (entry->job->begin != 0) read_times(w, lane, n % DEPTH);
      if (entry->job->kind == CEL_JOB_FOLD)
        cel__cuda_trial_answer(w->crew->cuda->api, entry->job,
                               !w->lost && entry->error == NULL);
      cel_finished_push(&w->crew->finished, entry); /* no longer ours */
      atomic_store_explicit(&lane->completed, n, memory_order_release);
    }
  }
  return any;
}

/* Whether to look at a lane: at one with much to do only now and then, as the
 * GPU has enough, and a look is time in which nothing is submitted. */
static bool is_due(cel_cuda_lane *lane, int64_t now) {
  uint64_t n = atomic_load_explicit(&lane->completed, memory_order_relaxed);
  uint64_t end = atomic_load_explicit(&lane->submitted, memory_order_relaxed);
  if (n == end || (end - n >= CEL_TUNE_CUDA_DEEP && now < lane->next_query))
    return false;
  lane->next_query = now + CEL_TUNE_CUDA_DEEP_NS;
  return true;
}

static bool collect(cel_cuda_worker *w) {
  int64_t now = cel_now_ns();
  bool lost = w->lost, any = lost && collect_lane(w, &w->lane[w->told_of]);
  for (int l = 0; l < LANES && lost == w->lost; ++l)
    if (is_due(&w->lane[l], now)) any |= collect_lane(w, &w->lane[l]);
  if (any && w->crew->finished.park != NULL)
    cel_park_wake(w->crew->finished.park);
  return any;
}

static bool is_busy(const cel_cuda_worker *w) {
  for (int l = 0; l < LANES; ++l)
    if (atomic_load_explicit(&w->lane[l].completed, memory_order_relaxed) <
        atomic_load_explicit(&w->lane[l].submitted, memory_order_relaxed))
      return true;
  return false;
}

/* ---- the thread ---------------------------------------------------------- */

static bool submit_some(cel_cuda_worker *w) {
  int n = 0;
  for (; n < CEL_TUNE_CUDA_BATCH; ++n) {
    cel_entry *entry = cel_ring_pop(w->ring);
    if (entry == NULL) break;
    submit(w, entry);
  }
  return n > 0;
}

/* Whether the thread is not to sleep yet, having had no work `since`: to wake
 * it takes 40 us, and 250 where its core sleeps, too. */
static bool lingers(const cel_cuda_crew *crew, int64_t *since) {
  int64_t now = cel_now_ns();
  if (*since == 0) *since = now;
  return crew->lingers && now - *since < CEL_TUNE_CUDA_LINGER_NS;
}

static void pin(const cel_cuda_worker *w) {
  const cel_cuda_crew *crew = w->crew;
  cel_topology near_gpu;
  if (crew->topology.cores == 0) return;
  cel_topology_near(&crew->topology, crew->cuda->device[w->device].bus,
                    &near_gpu);
  cel_topology_pin(&near_gpu, -1);
}

static void *worker_main(void *argument) {
  cel_cuda_worker *w = argument;
  cel_cuda_crew *crew = w->crew;
  cel_overflow_room room;
  cel_overflow_prepare(&room);
  cel_thread_act(CEL_THREAD_WORKER);
  pin(w);
  crew->cuda->api->cuCtxSetCurrent(crew->cuda->device[w->device].context);
  int64_t idle = 0;
  for (int polls = 0;;) {
    uint32_t seen = cel_park_prepare(&w->park);
    bool any = submit_some(w);
    if (collect(w) || any)
      polls = 0, idle = 0;
    else if (is_busy(w) && ++polls < CEL_TUNE_CUDA_POLLS)
      sched_yield();
    else if (is_busy(w))
      cel_park_wait(&w->park, seen, CEL_TUNE_CUDA_NAP_US);
    else if (atomic_load(&crew->stop))
      break;
    else if (lingers(crew, &idle))
      sched_yield();
    else
      cel_park_wait(&w->park, seen, UINT32_MAX);
  }
  cel_cuda_timer_stop(&w->timer);
  if (w->entered && crew->leave != NULL) crew->leave(crew->context, w->state);
  return NULL;
}

void cel_cuda_crew_submit(cel_cuda_crew *crew, int32_t device, int32_t lane,
                          cel_job *job) {
  cel_cuda_worker *w = &crew->worker[device];
  cel_entry *entry = cel_finished_entry(&crew->finished, job, lane);
  while (!cel_ring_push(w->ring, entry)) sched_yield();
  cel_park_wake(&w->park);
}

/* ---- life ---------------------------------------------------------------- */

static cel_status make_worker(cel_cuda_crew *crew, int32_t device) {
  const cel_cuda *cuda = crew->cuda;
  cel_cuda_worker *w = &crew->worker[device];
  w->crew = crew;
  w->device = device;
  cel_park_init(&w->park);
  w->ring = cel_ring_create(CEL_TUNE_CUDA_RING);
  cuda->api->cuCtxSetCurrent(cuda->device[device].context);
  for (int l = 0; l < LANES; ++l) {
    bool urgent = l >= CEL_CUDA_KERNEL_LANES - CEL_CUDA_URGENT_LANES;
    CUresult code = cuda->api->cuStreamCreateWithPriority(
        &w->lane[l].stream, CU_STREAM_NON_BLOCKING, urgent ? -1 : 0);
    if (code != CUDA_SUCCESS)
      return cel_fail(CEL_E_MISSING, "GPU %d: no stream: %s",
                      cuda->device[device].ordinal,
                      cel_cuda_api_text(cuda->api, code));
  }
  CEL_TRY(cel_thread_start(&w->thread, worker_main, w, "a GPU"));
  w->started = true;
  char name[16];
  snprintf(name, sizeof name, "celer gpu %d", cuda->device[device].ordinal);
  pthread_setname_np(w->thread, name);
  return CEL_E_OK;
}

cel_status cel_cuda_crew_start(cel_cuda_crew *crew, const cel_cuda *cuda,
                               const cel_backend_config *config) {
  crew->cuda = cuda;
  if (config->topology != NULL) crew->topology = *config->topology;
  crew->finished.park = config->park;
  crew->host_works = config->host_works;
  atomic_init(&crew->timed, config->timed);
  crew->enter = config->enter;
  crew->leave = config->leave;
  crew->context = config->context;
  crew->lingers = cel_park_share(config->local_ranks) >=
                  CEL_TUNE_CUDA_SPARE_CORES + cuda->devices;
  cel_nvtx_start();
  cel_status status = CEL_E_OK;
  for (int32_t d = 0; d < cuda->devices && status == CEL_E_OK; ++d)
    status = make_worker(crew, d);
  if (status != CEL_E_OK) cel_cuda_crew_stop(crew);
  return status;
}

static void free_lane(const cel_cuda_api *api, cel_cuda_lane *lane) {
  for (int i = 0; i < DEPTH; ++i)
    if (lane->event[i] != NULL) api->cuEventDestroy_v2(lane->event[i]);
  for (int i = 0; i < DEPTH; ++i)
    if (lane->begin[i] != NULL) api->cuEventDestroy_v2(lane->begin[i]);
  for (int i = 0; i < DEPTH; ++i)
    if (lane->untimed[i] != NULL) api->cuEventDestroy_v2(lane->untimed[i]);
  if (lane->stream != NULL) api->cuStreamDestroy_v2(lane->stream);
}

void cel_cuda_crew_stop(cel_cuda_crew *crew) {
  const cel_cuda *cuda = crew->cuda;
  atomic_store(&crew->stop, true);
  for (int32_t d = 0; d < cuda->devices; ++d) {
    cel_cuda_worker *w = &crew->worker[d];
    if (!w->started) continue;
    cel_park_wake(&w->park);
    pthread_join(w->thread, NULL);
  }
  for (int32_t d = 0; d < cuda->devices; ++d) {
    cel_cuda_worker *w = &crew->worker[d];
    if (w->crew == NULL) continue;
    cuda->api->cuCtxSetCurrent(cuda->device[d].context);
    for (int l = 0; l < LANES; ++l) free_lane(cuda->api, &w->lane[l]);
    if (w->ring != NULL) cel_ring_destroy(w->ring);
  }
  cel_finished_release(&crew->finished);
}
