/* timeline.h -- what happened when, written to a file while it happens.
 *
 * Chrome's JSON trace format, as Perfetto reads it: an array of events, one to
 * a line. A process is a rank; a thread of it is one of ours, a lane, or one of
 * the messages that are under way at a time. An arrow leads from each send to
 * its receive.
 *
 * main, scheduler and executor each have a ring of records that only they fill;
 * a thread of the timeline's own turns records into text and writes it. Nobody
 * takes a lock or writes a file but that thread. Where a ring is full, because
 * the file is slow, its owner waits: what is written is all that happened.
 *
 * Every rank writes a file of its own: rank 0 FILE, rank K FILE.K, each of
 * which Perfetto opens by itself, also when the end is missing because the rank
 * was killed. timeline_files.h puts them into one. Times are rank 0's: what
 * its clock says is so much more than ours is given by whoever starts it.
 *
 * Invariants: spans of one track follow each other or lie within each other;
 * what a lane gives, within the accuracy of its clock, is cut to that.
 * Cost: 0.1 us per record for who adds it and 1 us for the timeline's thread;
 * memory for CEL_TUNE_TIMELINE_RECORDS per ring; nothing without a timeline.
 */
#ifndef CEL_EXEC_TRACE_TIMELINE_H
#define CEL_EXEC_TRACE_TIMELINE_H

#include "exec/trace/span.h"

typedef struct cel_timeline cel_timeline;

typedef struct cel_timeline_config {
  const char *path; /* of the file of all ranks; copied */
  int64_t rank;
  int64_t number; /* which file is ours: 0 is the one of all, K another's */
} cel_timeline_config;

/* Makes this rank's file, so that one which cannot be made is known before the
 * work begins. The caller owns *out. CEL_E_IO. Thread: main. */
cel_status cel_timeline_open(const cel_timeline_config *config,
                             cel_timeline **out);
/* What is known later: rank 0's clock less ours, in ns, and which lanes of a
 * device are for kernels. Starts the thread; before the first record. Later
 * calls do nothing. CEL_E_MISSING where the system refuses it. Thread: main. */
cel_status cel_timeline_start(cel_timeline *timeline, int64_t offset,
                              int32_t kernel_lanes);
/* Writes down what happened. Of the kinds of one track, of the lanes' and
 * messages', one thread at a time. Thread: main, scheduler or executor, by the
 * span's track; a lane's and a message's are the executor's. */
void cel_timeline_add(cel_timeline *timeline, const cel_span *span);
/* The track of a message that is posted now, until cel_timeline_arrive; the
 * lowest that no other has. Thread: executor. */
int16_t cel_timeline_post(cel_timeline *timeline, bool sending);
void cel_timeline_arrive(cel_timeline *timeline, bool sending, int16_t track);
/* Writes what there is to its end and closes the file; what is added later is
 * lost. The status says whether all could be written. Later calls do nothing.
 * Thread: any. */
cel_status cel_timeline_close(cel_timeline *timeline);
/* Or is being closed. Thread: any. */
bool cel_timeline_is_closed(const cel_timeline *timeline);
/* Closed, and nobody adds any more. */
void cel_timeline_destroy(cel_timeline *timeline);
#endif
