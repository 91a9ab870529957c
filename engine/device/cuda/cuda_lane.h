/* cuda_lane.h -- a GPU's streams, and the thread that submits to them.
 *
 * One thread per device takes jobs from the executor, in its order, and puts
 * each on its lane's stream, followed by an event. What a job comes after on
 * other lanes its stream waits for, on the device; the thread waits only until
 * the other device's thread has submitted that job. As every thread keeps the
 * executor's order, the oldest job that is not submitted never waits, so there
 * is no deadlock. Where the thread waits for its own stream, for a work with
 * `waits`, all that is on it is complete: else two ranks' threads could each
 * wait for what the other was to submit. The same thread asks the events which
 * jobs are complete.
 *
 * Invariants, per lane: completed <= submitted <= completed + CEL_CUDA_DEPTH;
 * job n (from 1) and its event are in slot n % DEPTH until it is complete.
 * An event that is used again while another thread asks for it makes that
 * stream wait for a later job of the lane: longer, but not wrong, as nothing
 * that has been submitted comes after the job that asks.
 *
 * A work with `lua` is called by that thread in place of a launch, with the
 * device's context current; it enqueues on the lane's stream. Until it returns,
 * nothing else is submitted to this device.
 *
 * After an error of the driver a device is lost: the job at fault gets the
 * error and comes back before what is in other lanes, so that nobody takes what
 * they should have made for good; all others come back undone.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_LANE_H
#define CEL_DEVICE_CUDA_CUDA_LANE_H

#ifndef CEL_CDEF
#include <pthread.h>

#include "base/ring.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_timer.h"
#include "device/finished.h"
#include "device/fold.h"
#include "device/topology.h"

enum { CEL_CUDA_DEPTH = 256 };

typedef struct cel_cuda_lane {
  CUstream stream;
  CUevent event[CEL_CUDA_DEPTH];
  CUevent begin[CEL_CUDA_DEPTH]; /* timed: before the job's work */
  /* Of slots that were used before jobs were timed: others may still be about
   * to wait for them. */
  CUevent untimed[CEL_CUDA_DEPTH];
  cel_entry *entry[CEL_CUDA_DEPTH];
  _Atomic(uint64_t) submitted, completed;
  int64_t next_query; /* ns; the thread's */
  _Atomic(bool) failed;
  /* One for each slot: of a C function on the stream. */
  struct cel_cuda_host_call {
    struct cel_cuda_lane *lane;
    cel_entry *entry;
  } host_call[CEL_CUDA_DEPTH];
} cel_cuda_lane;

typedef struct cel_cuda_worker {
  struct cel_cuda_crew *crew;
  int32_t device;
  pthread_t thread;
  bool started;
  _Atomic(bool) lost; /* the driver gives nothing but errors any more */
  uint64_t taken;     /* jobs, in all */
  int32_t told_of;    /* the lane whose error comes back first then */
  bool entered;
  void *state; /* for works with `lua`, once entered */
  cel_park park;
  cel_ring *ring; /* of cel_entry */
  bool timing;    /* the timer was started */
  cel_cuda_timer timer;
  cel_cuda_lane lane[CEL_CUDA_LANES];
} cel_cuda_worker;

typedef struct cel_cuda_crew {
  const cel_cuda *cuda;
  bool host_works;               /* as cel_backend_config's */
  _Atomic(bool) timed;           /* likewise; once true, it stays so */
  void *(*enter)(void *context); /* as cel_backend_config's */
  void (*leave)(void *context, void *state);
  void *context;
  cel_topology topology; /* cores 0: threads are not pinned */
  bool lingers;          /* cores are to spare for threads without work */
  cel_finished finished;
  _Atomic(bool) stop;
  cel_cuda_worker worker[CEL_DEVICES];
} cel_cuda_crew;

/* Makes streams and events and starts the threads. CEL_E_MISSING. Borrows
 * `cuda` and, for the call, `config`. Thread: main. */
cel_status cel_cuda_crew_start(cel_cuda_crew *crew, const cel_cuda *cuda,
                               const cel_backend_config *config);
/* Waits for what has been submitted; drops nothing. Thread: main. */
void cel_cuda_crew_stop(cel_cuda_crew *crew);
/* Thread: executor. */
void cel_cuda_crew_submit(cel_cuda_crew *crew, int32_t device, int32_t lane,
                          cel_job *job);

/* cuda_job.c: puts a job's work on a stream. CEL_E_TASK with the driver's
 * words, CEL_E_FAULT when it was waited for and failed; or no error and *lost,
 * when the device failed at something before. Thread: the device's. */
cel_status cel__cuda_enqueue(const cel_cuda *cuda, int32_t device,
                             const cel_job *job, int32_t lane, CUstream stream,
                             CUresult *lost);
/* What a job launches, of a fold the first; null: no kernel. */
static inline const cel_cuda_kernel *cel__cuda_kernel_of(const cel_job *job) {
  return job->kind == CEL_JOB_CALL   ? job->work->cuda
         : job->kind == CEL_JOB_FOLD ? job->fold->step[0].work->cuda
                                     : NULL;
}
/* How a launch is laid out, x first. */
typedef struct cel__launch_shape {
  uint32_t grid[3], block[3];
  uint32_t each; /* items of a thread along dimension 0 */
} cel__launch_shape;

enum { CEL__LAUNCH_BYTES = 64 }; /* celer::launch, before the arguments */
/* The parameter of a CALL's launch, by itself; the kernel's `bytes` of it. */
void cel__cuda_pack(const cel_job *job, uint32_t flags, unsigned char *out);
/* How the items of a CALL without groups are launched. False: its own blocks
 * would have to stride. */
bool cel__cuda_shape(const cel_job *job, int64_t threads,
                     cel__launch_shape *out);
/* Sets the error record: what failed, where, in the driver's words. */
cel_status cel__cuda_fail(const cel_cuda *cuda, int32_t device,
                          const cel_job *job, cel_status status, CUresult code);
#endif

#endif
