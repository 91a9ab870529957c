/* backend.h -- a kind of device: memory, in-order lanes, completions.
 *
 * A backend drives all devices of its kind that belong to one rank. Jobs go
 * into lanes; a lane carries its jobs out in the order in which they came, and
 * lanes run at the same time. Where a backend chains, a job may also begin
 * after jobs of other lanes. Completions come back by poll, in any order across
 * lanes. A job that fails ends its lane: what is behind it, and all that comes
 * later, may need its results, and comes back in its turn without an error and
 * without having been carried out. So does a job that begins after one that
 * failed or was not carried out, and it ends its lane likewise. Host lanes
 * (exec/host.h) have the same face.
 *
 * To add a backend: fill one table, and choose it in embed/session_start.c.
 * Threads: every call from the executor, except what a table says otherwise.
 */
#ifndef CEL_DEVICE_BACKEND_H
#define CEL_DEVICE_BACKEND_H

#include "base/limits.h"
#include "base/park.h"
#include "base/status.h"
#include "task/task.h"

typedef enum cel_job_kind {
  CEL_JOB_COPY, /* strided copy between two layouts */
  CEL_JOB_CALL, /* run a work over a chunk */
  CEL_JOB_PUT,  /* put something on the lane's stream */
  CEL_JOB_INIT, /* initial contents of a box, into host memory */
  CEL_JOB_FOLD  /* several calls, in one pass over memory: fold.h */
} cel_job_kind;

/* How a device would carry a fold out as one job. */
typedef enum cel_fold_manner {
  CEL_FOLD_PLAIN,    /* it would not: one step after another */
  CEL_FOLD_IN_PLACE, /* each array stays where it is */
  CEL_FOLD_TO_SPARE /* live arrays are left in their spare memory, see fold.h */
} cel_fold_manner;

/* Dense row-major memory that holds the points of `box`. */
typedef struct cel_layout {
  void *base;
  cel_box box;
} cel_layout;

/* The nth job, counted from 1, that was submitted to a lane. */
typedef struct cel_after {
  int32_t device, lane;
  uint64_t nth;
} cel_after;

/* The submitter owns it and keeps it until its ticket comes back. */
typedef struct cel_job {
  uint64_t ticket;
  /* Where the backend chains: jobs of other lanes, submitted before, that it
   * begins after. The backend does the waiting. What these, or jobs before it
   * in its lane, begin after need not be named again. */
  uint32_t afters;
  const cel_after *after;
  cel_job_kind kind;
  uint32_t collective_group; /* CALL: the task's */
  uint32_t element_size;
  cel_layout from, to;            /* COPY: both; INIT: to */
  int32_t from_memory, to_memory; /* COPY; 0, too, where devices reach both */
  cel_box box;                    /* COPY, INIT */
  const cel_init *init;
  const cel_work *work; /* CALL */
  int32_t lane;         /* of a host's, once it is there */
  bool follows;         /* what it begins after may be before it there */
  cel_call call;        /* CALL; call.view is the submitter's too */
  /* CALL: what each view is (fold.h), for a backend that carries several calls
   * of a lane out in one pass over memory; all of these come back at once.
   * Null: it is to be by itself. */
  const struct cel_fold_view *use;
  const char *name;      /* of the task, for profilers; may be null */
  cel_location location; /* of the task, for what ends the process */
  /* By a backend that is `timed`: when the device worked on it, in ns of
   * cel_now_ns (device/clock.h); 0, both, when it was not carried out. */
  int64_t begin, end;
  int32_t together; /* likewise: calls that it was one pass over memory with,
                       itself among them; 0: with none */
  /* PUT: called in the device's thread with its context current; `stream` is
   * null where jobs are simulated, and may be refused for now then, see
   * cel_chained. */
  cel_status (*put)(void *context, void *stream);
  void *context;
  const struct cel_fold_job *fold; /* FOLD */
  /* Last, as hush changes them while the job is under way: who copies a job
   * then leaves them out. */
  bool quiet;         /* who waits for it is behind it there; see exec/host.h */
  bool holds_horizon; /* and so does a horizon or an epoch */
} cel_job;

#define CEL_POLL_GONE UINT32_MAX

/* A completion. On failure `error` is the submitter's to free with cel_free. */
typedef struct cel_done {
  uint64_t ticket;
  cel_error *error; /* null: fine */
} cel_done;

typedef struct cel_backend cel_backend;
struct cel_backend {
  const char *name;
  int32_t devices, memories; /* memory 0 is the host's */
  int32_t device_memory[CEL_DEVICES];
  int32_t kernel_lanes, copy_lanes; /* per device */
  /* The last so many of the kernel lanes, less than all, are for jobs that
   * others wait for: the device prefers them. */
  int32_t urgent_lanes;
  bool chains; /* takes jobs with `after` */
  bool holds;  /* calls combine onto what a view `holds` */
  bool puts;   /* takes jobs that are PUT, in copy lanes and those below */
  /* Per device, behind the copy lanes: for a device's part in collectives. With
   * `chains` and `puts`. */
  int32_t collective_lanes;
  /* Per device, behind these: for works with `waits`, until whose end the
   * device takes nothing else. They begin after nothing that is under way, as
   * that might wait for what the device was to take then. With `chains`. */
  int32_t waiting_lanes;
  /* Where polls carry out short calls: so that another thread can take the
   * executor's place. Null: they do not. */
  struct cel_aside *aside;
  /* Takes jobs FOLD, and each array of theirs may have spare memory. */
  bool spares;
  bool lua; /* takes works that need a Lua state; else host lanes do */
  /* Bytes that memory is committed in, a power of two: what a job touches has
   * been committed before. 0: memory is committed by being touched. */
  uint64_t grain;
  /* Where there is a grain: what is smaller than `whole` has all its memory
   * when it is reserved, and is not committed; memory is taken back by blocks,
   * a power of two and no less than the grain. */
  uint64_t whole, block;
  /* Bytes that are to be committed in each memory at once, in whole grains; 0:
   * as many as there are. Whoever reserves and commits keeps to it. */
  uint64_t capacity[1 + CEL_DEVICES];
  /* Memory of at least `bytes`, page-aligned where large, committed as it is
   * touched, uninitialised. CEL_E_MEMORY says how much was asked and what is
   * free. */
  cel_status (*reserve)(cel_backend *b, int32_t memory, uint64_t bytes,
                        void **out);
  void (*release)(cel_backend *b, int32_t memory, void *p, uint64_t bytes);
  /* Puts memory behind the bytes [begin, end) of what reserve gave as `p`, at
   * multiples of the grain or the end of it; what is committed already stays as
   * it is. Null where the grain is 0. CEL_E_MEMORY as reserve. */
  cel_status (*commit)(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                       uint64_t end);
  /* Takes memory back from the bytes [begin, end), at multiples of the block or
   * the end; no job uses them, and they may be committed again. Null where no
   * memory has a capacity. */
  void (*decommit)(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                   uint64_t end);
  /* Bytes that may be committed or reserved there beside what is; UINT64_MAX:
   * any number. Null unless it has `spares`. */
  uint64_t (*left)(cel_backend *b, int32_t memory);
  /* How it would carry a fold out, as a job in a kernel lane. Looks at works,
   * chunks and reaches, not at memory. With `spares` it may lower fold->steps,
   * to no less than 1: so many of them it would carry out in that manner; and
   * the fold it was asked about is to be one of so many then. It fills in
   * `fused`. Null: no fold is a job of its. */
  cel_fold_manner (*folds)(cel_backend *b, int32_t device,
                           struct cel_fold_job *fold);
  /* Lanes of device d: [0, kernel_lanes) for kernels, then copy_lanes, then
   * collective_lanes, then waiting_lanes. A copy between host memories may use
   * any device's copy lane. */
  void (*submit)(cel_backend *b, int32_t device, int32_t lane, cel_job *job);
  /* Whether all that waits for a job under way is behind it in its lane: then
   * nobody need be woken when it is done, as long as the lane goes on, for a
   * while. Null: somebody always is. */
  void (*hush)(cel_backend *b, int32_t device, int32_t lane, cel_job *job,
               bool quiet);
  /* Takes up to `max` completions; returns how many. CEL_POLL_GONE: the caller
   * is the executor no more (device/aside.h). */
  uint32_t (*poll)(cel_backend *b, cel_done *out, uint32_t max);
  /* From now on it is `timed`. Null: it was made so, or never is. Thread: any.
   */
  void (*time)(cel_backend *b);
  /* Asserts its invariants. Null: it has none to assert. */
  void (*check)(cel_backend *b);
  void (*destroy)(cel_backend *b);
};

typedef struct cel_backend_config {
  int32_t devices; /* asked for; 1 to CEL_DEVICES */
  int32_t cores;   /* CPU: worker threads in all; 0: all of the topology's */
  cel_park *park;  /* woken at each completion; may be null */
  bool timed;      /* CPU, CUDA: fills in begin and end of its jobs */
  bool spares;     /* simulated */
  uint64_t seed;   /* simulated: chooses every order */
  bool chains;     /* simulated */
  uint64_t grain;  /* simulated, dry: of all its memories; 0: none */
  uint64_t whole;  /* simulated, dry */
  uint64_t block;  /* simulated, dry; 0: the grain, or a good one */
  /* Of each device's own memory, at most; with one, a CPU has such. 0: CPU,
   * simulated, dry: no limit; CUDA: what is free, divided by those who share
   * the device. */
  uint64_t capacity;
  int32_t sharing;     /* CUDA: ranks that use these devices; 0: one */
  int32_t local_ranks; /* CUDA: of this host, that may share cores; 0: one */
  bool own_memory;     /* CPU, simulated, dry: each device has a memory of its
                          own, as always when there are several */
  /* CUDA: device memory lies in the host and works are C functions, called in
   * stream order; for programs that check what is above the kernels. */
  bool host_works;
  /* CPU, for specs: calls in a lane are one where they may, whatever they take,
   * and in short bands. */
  bool folds_always;
  /* CPU: workers are pinned to its cores; borrowed for the call. Null: what
   * hwloc says is ours when cores is 0, and no pinning otherwise. */
  const struct cel_topology *topology;
  /* CUDA: makes and frees what a device's thread keeps for works with `lua`, as
   * in exec/host.h; both run in that thread, the first when it is first needed.
   * May be null where there are no such works. */
  void *(*enter)(void *context);
  void (*leave)(void *context, void *state);
  void *context;
} cel_backend_config;

/* Threads that compute: C callbacks and compiled kernels over all cores. The
 * caller owns *out. Thread: main. */
cel_status cel_backend_cpu(const cel_backend_config *config, cel_backend **out);
/* No threads: jobs run inside poll, which job and when chosen by the seed.
 * Where there is any, a poll hands a completion over, runs a job, or tries one
 * that is put and waits for other ranks: that gives CEL_E_AGAIN, stays the
 * first of its lane and is tried again by a later poll. So a poll that gives
 * nothing may have done something, or nothing. The park is woken by what was
 * run. A kernel that is given another memory than its device's is a bug. */
cel_status cel_backend_simulated(const cel_backend_config *config,
                                 cel_backend **out);

/* Devices that do nothing: a job is complete when it has been submitted, and
 * what is reserved are addresses that nobody may touch. With a grain, memory is
 * accounted as it is committed; without, as it is reserved. */
cel_status cel_backend_dry(const cel_backend_config *config, cel_backend **out);

typedef struct cel_dry_work {
  uint64_t kernels;
  uint64_t used[1 + CEL_DEVICES], peak[1 + CEL_DEVICES]; /* by memory */
} cel_dry_work;
/* Of a dry backend. When nothing is under way. */
void cel_backend_dry_count(const cel_backend *b, cel_dry_work *out);

/* Blocks that a memory of some capacity is given back in: some thousand of
 * them, of at least a grain and at most 64 MiB. Thread: any. */
uint64_t cel__backend_block(uint64_t capacity, uint64_t grain);
/* Copies `box` of elements between two layouts that cover it. Thread: any. */
void cel_copy_box(const cel_layout *from, const cel_layout *to,
                  const cel_box *box, uint32_t element_size);
/* The same, by several threads where there is much to copy and the process has
 * several cores. They end with the call. Pages that are touched for the first
 * time cost more than the copy: they too are divided. Thread: any. */
void cel_copy_box_wide(const cel_layout *from, const cel_layout *to,
                       const cel_box *box, uint32_t element_size);
/* Carries out one job in the calling thread. */
cel_status cel_job_run(const cel_job *job);
/* Makes elements [begin, end) of a row the identity. Thread: any. */
void cel__reducer_begin(const cel_reducer *r, void *row, int64_t begin,
                        int64_t end);
/* What the calling thread is carrying out so; null: nothing. Thread: any; in
 * signal handlers where the thread has called it, or run a job, before. */
const cel_job *cel_job_under_way(void);

#endif
