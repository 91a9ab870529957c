/* span.h -- what happened from when to when on this rank: a job, a message, a
 * submission, a wait.
 *
 * One record for whoever adds up (profile.h) and whoever writes down
 * (timeline.h). Made on the stack by whoever saw it; nothing is kept of it.
 */
#ifndef CEL_EXEC_TRACE_SPAN_H
#define CEL_EXEC_TRACE_SPAN_H

#include "device/backend.h"
#include "instr/instr.h"

/* Whose thread saw it, or which lane carried it out. */
typedef enum cel_span_track {
  CEL_TRACK_MAIN,
  CEL_TRACK_SCHEDULER,
  CEL_TRACK_EXECUTOR,
  CEL_TRACK_LANE,   /* of a device, or of the host */
  CEL_TRACK_MESSAGE /* between being posted and being complete */
} cel_span_track;

/* NAME, name, track. What a lane carried out is a row of a profile: the kinds
 * of LANE, and of MESSAGE those that were jobs (chained, or between devices).
 */
#define CEL_SPAN_KINDS(_)                                                      \
  _(KERNEL, kernel, LANE)                                                      \
  _(COPY, copy, LANE)                                                          \
  _(INTEROP, interop, LANE) /* what the task enqueued on a GPU, or did */      \
  _(SEND, send, MESSAGE)    /* chained ones are jobs of a lane */              \
  _(RECEIVE, receive, MESSAGE)                                                 \
  _(HOST, host, LANE)                                                          \
  _(INIT, init, LANE)                                                          \
  _(RELEASE, release, LANE)                                                    \
  _(ALLOC, alloc, EXECUTOR)                                                    \
  _(COMMIT, commit, EXECUTOR)                                                  \
  _(DECOMMIT, decommit, EXECUTOR)                                              \
  _(FREE, free, EXECUTOR)                                                      \
  _(COLLECTIVE, collective, MESSAGE)                                           \
  _(HORIZON, horizon, EXECUTOR)                                                \
  _(EPOCH, epoch, EXECUTOR)                                                    \
  _(SCHEDULE, schedule, SCHEDULER) /* a task becomes instructions */           \
  _(SUBMIT, submit, MAIN)                                                      \
  _(WAIT, wait, MAIN)

typedef enum cel_span_kind {
#define CEL_SPAN_ENUM(NAME, name, track) CEL_SPAN_##NAME,
  CEL_SPAN_KINDS(CEL_SPAN_ENUM)
#undef CEL_SPAN_ENUM
} cel_span_kind;

typedef struct cel_span {
  int64_t begin, end; /* ns of cel_now_ns, see device/clock.h */
  int64_t issued;     /* when the executor handed it over; 0: nobody noted */
  uint64_t task;      /* id; 0: none */
  uint64_t bytes;     /* that were copied, sent, received or reserved */
  int64_t peer;       /* SEND, RECEIVE */
  uint64_t sequence;  /* likewise: of messages between the two, that way */
  cel_box box;        /* the chunk, or what was copied; see dims */
  const char *name;   /* of the task; borrowed; null: none */
  cel_location location;
  uint8_t kind;
  int8_t dims;     /* of the box; -1: there is none */
  int8_t from, to; /* memories, 0 the host's; -1: none */
  int16_t device;  /* -1: none */
  int16_t lane;    /* of the device; or a host lane, as in cel_job; of a message
                      that is no job, the number of its track */
  int16_t together; /* of a kernel: calls in one pass over memory; 0: alone */
  bool failed;
} cel_span;

const char *cel_span_name(cel_span_kind kind);
cel_span_track cel_span_track_of(cel_span_kind kind);
/* A job that came back from a backend's lane, or from a host lane (device and
 * lane -1). False when it has no times. Thread: executor. */
bool cel_span_of_job(const cel_instr *instr, const cel_job *job, int64_t issued,
                     int32_t device, int32_t lane, cel_span *out);
/* A message of an instruction, or a collective, where `sent` is null, that was
 * posted then and is complete. Thread: executor. */
void cel_span_of_message(const cel_instr *instr, const cel_sent *sent,
                         int64_t posted, int64_t now, int32_t track,
                         cel_span *out);
/* What the executor did itself, from `begin` to `now`. Thread: executor. */
void cel_span_of_step(const cel_instr *instr, int64_t begin, int64_t now,
                      cel_span *out);
#endif
