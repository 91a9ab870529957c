/* divergence.h -- finds out when ranks submit different things.
 *
 * At each horizon and epoch all ranks compare a hash of all they have
 * submitted. What was submitted since the last agreement is kept, so that rank
 * 0 can ask all ranks for it, find the first entry that differs and tell every
 * rank both places.
 *
 * A rank may also wait for another that will never come (one has ended, or
 * waits elsewhere): a rank where nothing moves suspects, and rank 0 asks. Only
 * an entry that differs, or an end before the others', is a verdict then; a
 * rank that is merely behind is not.
 *
 *   AGREED --different--> ASKING --all logs--> verdict: fail on every rank
 *     \-----suspicion---> ASKING --all logs--> nothing differs: AGREED
 *
 * The same exchange is the barrier that an epoch is: a second agreement, which
 * a rank joins when it has executed the epoch, is reached when all have.
 *
 * Invariant: entries are numbered alike on all ranks (so frees, which come when
 * each rank's collector likes, are none); the log starts at an
 * entry that all ranks agree on, or earlier.
 * Guard: `lock`; main adds, the executor compares.
 */
#ifndef CEL_RUNTIME_DIVERGENCE_H
#define CEL_RUNTIME_DIVERGENCE_H

#include <pthread.h>

#include "base/vec.h"
#include "comm/report.h"
#include "comm/transport.h"
#include "task/task.h"

enum { CEL_LOG_NAME = 44 };

typedef struct cel_log_entry {
  uint64_t hash;
  cel_location location;
  int32_t kind;            /* cel_task_kind */
  char name[CEL_LOG_NAME]; /* the task's, cut */
} cel_log_entry;

/* An agreement that main has asked for. */
typedef struct cel_log_mark {
  cel_agreement agreement;
  uint64_t entries; /* logged before it */
  uint64_t epoch;   /* 0, or the task that this rank executes before it joins */
} cel_log_mark;

typedef struct cel_divergence {
  cel_transport *transport;
  const cel_backend *backend;
  const char *arguments; /* may be null */
  /* Called at a verdict and when another rank has failed. Thread: executor. */
  void (*failed)(void *context, const cel_error *error);
  void *context;
  /* Set once, as what is above, before the threads run: rank 0 asks all ranks
   * on a suspicion at most once in this time, which doubles until something is
   * agreed. */
  int64_t patience_us;
  /* main's, for each task */
  _Alignas(CEL_LINE) pthread_mutex_t lock;
  CEL_VEC(cel_log_entry) log;
  uint64_t log0;               /* number of log.at[0] */
  CEL_VEC(cel_log_mark) marks; /* asked for and not agreed; oldest first */
  uint64_t next_index;
  bool ended;
  cel_location end;
  _Alignas(CEL_LINE) _Atomic(uint64_t) asked; /* agreements asked for */
  _Atomic(uint64_t) agreed;                   /* agreements reached */
  _Atomic(uint64_t)
      executed_by_all; /* the newest epoch that all ranks have executed */
  _Atomic(bool) suspicious;
  /* Executor only. */
  uint64_t started;
  uint64_t executed, awaited; /* the newest epoch here; before the next can be
                                 started */
  int64_t rested_us, next_us; /* rank 0: the time as it has doubled; when it may
                                 ask next */
  bool asking, over;
  bool certain, asked_certain; /* hashes differ; did when rank 0 asked */
  uint8_t *doubter;            /* rank 0: by rank */
  cel_error *doubt;            /* held back until rank 0 has looked */
  int64_t answers;
  cel_told **answer; /* rank 0: by rank */
  cel_report report; /* which rank wants to print an error of its own */
} cel_divergence;

/* The backend and the script's arguments are only named, where ranks differ in
 * them: borrowed, as all. */
void cel__divergence_init(cel_divergence *d, cel_transport *transport,
                          const cel_backend *backend, const char *arguments,
                          void (*failed)(void *, const cel_error *),
                          void *context);
void cel__divergence_release(cel_divergence *d);
/* Notes a task; starts an agreement at a horizon or epoch. Thread: main. */
void cel__divergence_log(cel_divergence *d, const cel_task *task);
/* Starts the last agreement. The program ends at `location`, or after its last
 * line. Thread: main. */
void cel__divergence_end(cel_divergence *d, cel_location location);
/* This rank has executed an epoch. Thread: executor. */
void cel__divergence_executed(cel_divergence *d, uint64_t epoch);
/* The newest epoch that all ranks have executed; 0: none. Thread: any. */
uint64_t cel__divergence_executed_by_all(const cel_divergence *d);
/* Whether all agreements that were asked for have been reached. Thread: any. */
bool cel__divergence_settled(const cel_divergence *d);
/* Moves agreements and control messages on; whether anything happened.
 * Thread: executor. */
bool cel__divergence_tick(cel_divergence *d);
/* A failure that ranks which differ could have caused (a message of another
 * size): reported as it is only when rank 0 finds no difference, or cannot be
 * asked. Thread: executor. */
void cel__divergence_doubt(cel_divergence *d, const cel_error *error);
/* Tells the other ranks that this one has failed. Thread: executor. */
void cel__divergence_cancel(cel_divergence *d, const cel_error *error);

#endif
