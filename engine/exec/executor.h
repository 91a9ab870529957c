/* executor.h -- carries instructions out as soon as they may start.
 *
 * Out of order, event driven. An instruction is issued when everything it
 * depends on has completed, or when in-order lanes do the rest of the waiting
 * (lanes.h). Among ready ones the higher priority goes first, then the older.
 * It never blocks; waiting is the caller's (run) business.
 *
 * State is kept by id in a window that starts at the newest completed horizon:
 * a dependency on an older id counts as complete.
 *
 * Driven in one of two ways: `step` by a caller that chooses every order (the
 * simulated cluster), or `run` as a thread of its own.
 */
#ifndef CEL_EXEC_EXECUTOR_H
#define CEL_EXEC_EXECUTOR_H

#include "comm/transport.h"
#include "device/aside.h"
#include "device/backend.h"
#include "exec/audit/audit.h"
#include "exec/host.h"
#include "exec/trace/measure.h"
#include "instr/instr.h"

typedef struct cel_executor cel_executor;

typedef struct cel_executor_config {
  int64_t rank, ranks;
  cel_backend *backend; /* borrowed, as is all below */
  cel_host_lanes *host;
  cel_transport *transport;
  cel_park *park; /* woken by whoever has news for the executor */
  cel_measures measure;
  cel_audit *audit; /* notes what tasks touch; null: nobody asked */
  /* Jobs that may be under way in a device's lane; 0: a few hundred. */
  uint32_t lane_depth;
  /* A horizon or epoch has completed. Thread: executor. */
  void (*completed)(void *context, const cel_instr *instr);
  /* An instruction failed: its task's place is already in `error`; null: what
   * cel_executor_lose was told of. The executor stops issuing. Called once:
   * what fails later failed because of it. Thread: executor. */
  void (*failed)(void *context, const cel_instr *instr, const cel_error *error);
  /* A host task raised, and counts as done: `error` has its place. Null: that
   * is a failure. Thread: executor. */
  void (*forgive)(void *context, const cel_error *error);
  void *context;
} cel_executor_config;

cel_executor *cel_executor_create(const cel_executor_config *config);
/* Quiet, and the transport is not polled any more for it. Gives back all memory
 * that was reserved. */
void cel_executor_destroy(cel_executor *executor);
/* Hands over the next instruction, in id order. Thread: executor. */
void cel_executor_add(cel_executor *executor, const cel_instr *instr);
/* Takes in completions and issues what is ready, a bounded number of each;
 * whether anything happened. Thread: executor. */
cel_step cel_executor_step(cel_executor *executor);
/* Issues nothing more, and drops what no host lane has begun; takes in
 * completions still. Thread: executor. */
void cel_executor_halt(cel_executor *executor);
/* Somebody else's call of the driver failed with CEL_E_FAULT: if the job at
 * fault is under way that fails when it is back, and else *error does. Thread:
 * executor. */
void cel_executor_lose(cel_executor *executor, const cel_error *error);
/* Everything that was added is done. Thread: executor. */
bool cel_executor_idle(const cel_executor *executor);
/* No device and no host lane works for it: its memory may go. Messages may be
 * outstanding, after a failure. */
bool cel_executor_quiet(const cel_executor *executor);

typedef struct cel_executor_counts {
  uint64_t messages, bytes_sent, copies, bytes_copied, allocations;
} cel_executor_counts;
/* Thread: any. */
void cel_executor_count(const cel_executor *executor, cel_executor_counts *out);

/* Every instruction that is not done, for a stuck test. Thread: executor. */
void cel_executor_describe(const cel_executor *executor, char *text,
                           size_t size);
/* What it waits for, for people (see waits.h); whether there is anything.
 * Thread: executor. */
bool cel_executor_tell(const cel_executor *executor, char *text, size_t size);
/* Asserts the invariants of its window, between two calls; for specs. Thread:
 * executor. */
void cel_executor_check(cel_executor *executor);
#endif
