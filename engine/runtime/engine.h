/* engine.h -- one rank: the layers wired together, and their threads.
 *
 *   main --task ring--> scheduler --instruction ring--> executor
 *
 * main builds the task graph inside submit; the scheduler turns tasks into
 * commands and instructions; the executor carries them out. Without `threads`
 * nothing runs by itself: a driver calls the step functions in the order it
 * likes (the simulated cluster, one process, many engines).
 *
 * Back-pressure: submit waits while the newest horizon is more than
 * `laps_ahead` laps (task/task_graph.h) after the newest that has been
 * executed, or two folds while one is that has so many (with threads only; a
 * driver steps until cel_engine_congested is false).
 *
 * Errors: the first asynchronous failure is kept; the next call of submit,
 * wait or get returns it, with both places. After a failure nothing more is
 * executed. When ranks diverge the error names both lines.
 */
#ifndef CEL_RUNTIME_ENGINE_H
#define CEL_RUNTIME_ENGINE_H

#include "command/command.h"
#include "exec/executor.h"
#include "task/chunks.h"
#include "task/task_graph.h"

typedef struct cel_engine cel_engine;
typedef struct cel_fence cel_fence;

typedef struct cel_engine_config {
  cel_transport *transport; /* borrowed, as is all below */
  cel_backend *backend;
  cel_host_lanes *host;
  cel_rules *rules; /* may be null: then it has its own */
  cel_park *park;   /* the executor's, given to backend, host and transport */
  cel_profile *profile; /* may be null, as the next three: see executor.h */
  cel_timeline *timeline;
  cel_pace *pace;
  cel_audit *audit;
  const char *arguments; /* the script's, which ranks that diverge are told */
  bool threads;
  bool shares_cores; /* with other ranks, though it may be bound to them */
  bool lookahead;
  /* A host task that raises ends nothing: what it has done stays, and what
   * comes after it runs; cel_engine_mishap tells. For a session.
   */
  bool forgiving;
  int32_t horizon_step, horizon_breadth;
  int32_t laps_ahead;                /* default 8 */
  uint64_t small_bytes, large_bytes; /* see command.h; 0: default */
  int64_t interior_bytes;            /* see instr.h */
  uint64_t sweep_bytes;              /* likewise */
  uint32_t together_peers;           /* likewise */
  uint64_t freed_bytes;              /* likewise */
  /* Whether what all ranks exchange is one step: by collectives, or still by
   * messages, as between GPUs these are faster. The same on all. */
  bool collectives, by_messages;
  bool messages_else; /* by those, too, if collectives between devices cannot
                         start when they are first needed */
  int64_t count_most, tree_least; /* see command.h */
  bool alike; /* devices of all ranks are of one kind and compute the same bits;
                 the same on all ranks */
  bool gpus;  /* and that is a GPU */
  /* Bytes of a device where each rank has one: of the smallest; 0: any number.
   * The same on all ranks. */
  uint64_t room;
  int64_t reducing; /* devices of a rank that take part in a reduction; the same
                       on all ranks; default: the backend's */
  /* Thread: any of the engine's. */
  void (*warn)(void *context, const cel_task *task, const char *text);
  void *warn_context;
  bool advise; /* warns also of what is slow */
  /* With threads, after so many ns in which nothing moved although the executor
   * waits for something: told what for, once per stall. 0: never. Thread:
   * executor. */
  int64_t watchdog_ns;
  void (*stalled)(void *context, const char *text);
  void *stalled_context;
  /* Polled while submit waits its turn; true ends that with CEL_E_CANCELLED.
   * May be null. */
  bool (*interrupted)(void);
  /* Asked before main submits something, when nothing else is in its way; false
   * ends that with CEL_E_CANCELLED. May be null. */
  bool (*pass)(void *context);
  void *pass_context;
  /* Who draws or checks the graphs; each may be null. A node is shown when it
   * is emitted and lives until it is retired. Thread: main for tasks, scheduler
   * for the others. */
  void (*saw_task)(void *context, const cel_task *task);
  void (*saw_command)(void *context, const cel_command *command);
  void (*saw_instr)(void *context, const cel_instr *instr);
  /* What a fence brings is there. Thread: any of the engine's. */
  void (*saw_fence)(void *context, const cel_fence *fence);
  void *saw_context;
} cel_engine_config;

/* Fails with CEL_E_MISSING where the system refuses a thread. Thread: main. */
cel_status cel_engine_create(const cel_engine_config *config, cel_engine **out);
/* The program has ended, at `location` or after its last line: agrees with all
 * ranks that nothing more comes, so that a rank which still submits or waits is
 * found out. After wait. With threads it waits for the others; without, call it
 * again, between steps, until it gives something else than CEL_E_CANCELLED.
 * Thread: main. */
cel_status cel_engine_finish(cel_engine *engine, cel_location location,
                             bool (*interrupted)(void));
/* Ends the threads once no device and no host lane is at work; nothing more is
 * executed. After a failure, with an in-process transport: stop all engines
 * before the first is destroyed. Thread: main. */
void cel_engine_stop(cel_engine *engine);
/* The same, but false where something is still at work after so many seconds,
 * as a collective task is that waits for a rank which does not come; then
 * cel_engine_abandon follows. Of an engine with threads. Thread: main. */
bool cel_engine_stop_within(cel_engine *engine, int32_t seconds);
/* Ends the executor's thread at once, whatever is under way, in a process that
 * is about to end: from then on the caller drives the transport (see
 * comm/report.h). Nothing else may be asked of the engine. Thread: main. */
void cel_engine_abandon(cel_engine *engine);
/* Stops it; drains nothing: call wait and finish first. Thread: main. */
void cel_engine_destroy(cel_engine *engine);

/* Thread: main, all of these. */

/* A buffer; the engine owns it. `type`, `apart`: as cel_buffer has them. `init`
 * is the engine's from now on; may be null. */
const cel_buffer *cel_engine_buffer(cel_engine *engine, int32_t dims,
                                    const int64_t extent[3],
                                    uint32_t element_size, uint64_t type,
                                    const char *name, cel_init *init,
                                    bool apart);
/* Before it is used: a memory that gets any of the box gets room for all of it
 * at once, where there is that much. */
void cel_engine_buffer_reserve(cel_engine *engine, const cel_buffer *buffer,
                               const cel_box *box);
void cel_engine_buffer_free(cel_engine *engine, const cel_buffer *buffer);
/* A host object like *what, but for its id; the engine owns it, its context and
 * its reference on what->release. The name is copied. */
const cel_object *cel_engine_object(cel_engine *engine, const cel_object *what);
/* It is not mentioned again: it ends after the last task that touches it. */
void cel_engine_object_free(cel_engine *engine, const cel_object *object);
cel_rules *cel_engine_rules(cel_engine *engine);
/* The chunks of a group for which an opaque mapper is asked (task/chunks.h, as
 * is `tried`), before its accesses have rules; `reduces`: some of them will
 * reduce. */
void cel_engine_chunks(const cel_engine *engine, const cel_group *group,
                       bool reduces, uint32_t tried, cel_chunks *out);
cel_status cel_engine_submit(cel_engine *engine, const cel_group *group);
/* What is held back to become a fold (fold/window.h) is so no longer; on all
 * ranks at the same place of the program. */
void cel_engine_unhold(cel_engine *engine);

/* A snapshot of a box of a buffer, the same on every rank: a future. The
 * result is dense, row-major. The caller owns *out. */
cel_status cel_engine_fence(cel_engine *engine, const cel_buffer *buffer,
                            const cel_box *box, cel_location location,
                            cel_fence **out);
/* The same of another box on each rank: what `rule`, of one box over an index
 * space of one dimension, gives for the chunk [rank, rank + 1) of [0, ranks).
 * Borrows both for the call. */
cel_status cel_engine_fence_each(cel_engine *engine, const cel_buffer *buffer,
                                 const cel_rule *rule, const int64_t *params,
                                 cel_location location, cel_fence **out);
/* What a host task on every rank takes of a host object. */
typedef struct cel_taking {
  /* Leaves a copy, made by malloc, in *data. Thread: worker. */
  cel_status (*take)(const struct cel_taking *taking, const cel_call *call,
                     void **data, uint64_t *size);
  void (*destroy)(struct cel_taking *taking);
  bool lua, objects; /* where it must run, as in cel_work */
  uint64_t hash;     /* equal on all ranks */
} cel_taking;
/* A snapshot of what the object holds, on each rank its own: after all that has
 * an effect on it until now, before what comes. `taking` is the engine's from
 * now on. The caller owns *out. */
cel_status cel_engine_fence_object(cel_engine *engine, const cel_object *object,
                                   cel_taking *taking, cel_location location,
                                   cel_fence **out);
/* A snapshot of what the devices of all ranks have computed since the last
 * time, see exec/trace/measure.h: a row for each rank, and in it how many
 * devices it has, then items and seconds for each that there may be. After an
 * epoch. The caller owns *out. */
enum { CEL_PACE_NUMBERS = 1 + 2 * CEL_DEVICES };
cel_status cel_engine_paces(cel_engine *engine, cel_location location,
                            cel_fence **out);
/* What it holds as words of what is late: of int64_t, known when it is ready.
 * It lives as long as the fence, or a reference to it. */
cel_late *cel_fence_late(cel_fence *fence);
/* What of the buffer it holds, on this rank. */
const cel_box *cel_fence_box(const cel_fence *fence);
bool cel_fence_ready(const cel_fence *fence);
/* Whether nothing has been submitted since: who waits for it waits for all. */
bool cel_fence_is_last(const cel_engine *engine, const cel_fence *fence);
/* Waits for it (with threads), flushing the lookahead. `interrupted` is
 * polled while waiting (may be null): true ends the wait with
 * CEL_E_CANCELLED. The data stays the fence's. */
cel_status cel_engine_fence_get(cel_engine *engine, cel_fence *fence,
                                bool (*interrupted)(void), const void **data,
                                uint64_t *size);
void cel_fence_destroy(cel_fence *fence);

/* Submits an epoch, the barrier between what all ranks have done before and
 * what main does when it is reached; returns its task id. */
uint64_t cel_engine_epoch(cel_engine *engine, cel_location location);
/* Whether the epoch has been executed, on all ranks. */
bool cel_engine_reached(const cel_engine *engine, uint64_t epoch);
/* Waits until it has been (with threads). */
cel_status cel_engine_wait(cel_engine *engine, uint64_t epoch,
                           bool (*interrupted)(void));
/* Both in one, for who has nothing else to do in between: on one core main then
 * does the scheduler's work itself. */
cel_status cel_engine_barrier(cel_engine *engine, cel_location location,
                              bool (*interrupted)(void));
/* The first failure, if any: fills this thread's error record. CEL_E_CANCELLED
 * with the other rank's text when it happened elsewhere. */
cel_status cel_engine_check(cel_engine *engine);
/* A call of the driver has failed with CEL_E_FAULT, the last error, as a device
 * is lost: waits for the failure of what was at fault, and returns that; or the
 * error itself, where nothing is under way. */
cel_status cel_engine_lost(cel_engine *engine, bool (*interrupted)(void));
/* The same of the first thing that was forgiven since it was last asked for. */
cel_status cel_engine_mishap(cel_engine *engine);

/* Nothing has moved for a while: asks all ranks what they submitted, in case
 * they wait for each other because they differ. With threads the waiting calls
 * do that by themselves. */
void cel_engine_suspect(cel_engine *engine);

/* Without threads: one step of a part; whether anything happened. */
bool cel_engine_step_scheduler(cel_engine *engine);
bool cel_engine_step_executor(cel_engine *engine);
bool cel_engine_congested(const cel_engine *engine);
/* What everything waits for, for a stuck run. */
void cel_engine_describe(const cel_engine *engine, char *text, size_t size);
/* What the executor waits for, for people; whether there is anything. Thread:
 * executor. */
bool cel_engine_tell(const cel_engine *engine, char *text, size_t size);

typedef struct cel_engine_counts {
  uint64_t tasks, commands, instructions, messages, bytes_sent, copies,
      bytes_copied, allocations;
  uint64_t horizons; /* and epochs: that many of the tasks */
  uint64_t done;     /* of the others: have been executed for certain */
} cel_engine_counts;
/* Thread: any. */
void cel_engine_count(const cel_engine *engine, cel_engine_counts *out);

/* Since the first submission, in ns: the clock on the wall, and the time that
 * each thread had a core. All zero before; of main alone without threads. */
typedef struct cel_engine_times {
  int64_t wall, main, scheduler, executor;
  int64_t waited; /* by main, for something to be executed */
} cel_engine_times;
void cel_engine_time(const cel_engine *engine, cel_engine_times *out);
#endif
