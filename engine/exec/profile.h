/* profile.h -- when each job of this rank ran, and what that adds up to.
 *
 * A span per job that was carried out: kernels, copies, interop tasks, host
 * tasks, initial contents; for whoever writes a trace. And totals by kind and
 * task, for a table. Spans are kept up to CEL_PROFILE_SPANS, totals always.
 * Cost: 64 bytes and about 0.1 us per job; nothing without a profile.
 * Threads: the executor adds; main reads when nothing is under way.
 */
#ifndef CEL_EXEC_PROFILE_H
#define CEL_EXEC_PROFILE_H

#include "device/backend.h"
#include "instr/instr.h"

enum { CEL_PROFILE_SPANS = 1 << 22 };

/* NAME, name. */
#define CEL_SPAN_KINDS(_)                                                      \
  _(KERNEL, kernel)                                                            \
  _(COPY, copy)                                                                \
  _(INTEROP, interop) /* what the task enqueued on a GPU, or did itself */     \
  _(SEND, send)       /* chained messages */                                   \
  _(RECEIVE, receive)                                                          \
  _(HOST, host)                                                                \
  _(INIT, init)

typedef enum cel_span_kind {
#define CEL_SPAN_ENUM(NAME, name) CEL_SPAN_##NAME,
  CEL_SPAN_KINDS(CEL_SPAN_ENUM)
#undef CEL_SPAN_ENUM
} cel_span_kind;

const char *cel_span_name(cel_span_kind kind);

typedef struct cel_span {
  uint64_t task;      /* id; 0: none */
  int64_t begin, end; /* ns, CLOCK_MONOTONIC */
  uint64_t bytes;     /* COPY, SEND, RECEIVE, INIT */
  const char *name;   /* of the task; the profile's; null: none */
  cel_place place;
  uint8_t kind;
  int8_t device, lane; /* -1: a host lane */
  int8_t from, to;     /* COPY: memories, 0 the host's; else -1 */
} cel_span;

/* Of one kind, task name and (copies) direction. */
typedef struct cel_profile_row {
  const char *name; /* the profile's; null: none */
  uint8_t kind;
  bool from_host, to_host; /* COPY */
  bool across;             /* COPY: from one device to another */
  uint64_t count, bytes;
  int64_t total, max; /* ns */
} cel_profile_row;

typedef struct cel_profile cel_profile;

/* The caller owns the result. Thread: main. */
cel_profile *cel_profile_create(void);
void cel_profile_destroy(cel_profile *profile);
/* A job that is complete, in a backend's lane or in a host lane (device and
 * lane -1); of one without times nothing is noted. Thread: executor. */
void cel_profile_add(cel_profile *profile, const cel_instr *instr,
                     const cel_job *job, int32_t device, int32_t lane);
/* In the order of completion; how many there would be without the bound, of
 * which the first min(n, CEL_PROFILE_SPANS) are there. */
uint64_t cel_profile_spans(const cel_profile *profile, const cel_span **out);
/* In the order of first appearance. */
uint32_t cel_profile_rows(const cel_profile *profile,
                          const cel_profile_row **out);
/* "to the device", for copies; else null. */
const char *cel_profile_way(const cel_profile_row *row);
#endif
