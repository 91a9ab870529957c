/* report.h -- a job that fails says why once.
 *
 * An error that all ranks share (a syntax error, ranks that diverge) is printed
 * by rank 0; one that another rank alone has, by that rank, after it has asked
 * rank 0. Whoever prints ends the job.
 *
 *   rank 0 fails: prints, ends the job; unless it has said YOURS
 *   rank k fails: asks rank 0 --HEARD--> waits --YOURS--> prints, ends the job
 *                          \--5 s-> the same: rank 0 is deaf
 *   rank 0 is asked, and is well: says HEARD, waits 1 s; if it has not failed
 * by then, it says YOURS to the first that asked. Others are ended by that one.
 *   a failure that is another rank's (CEL_E_CANCELLED): waits for the end, and
 *     prints only if that does not come
 *
 * So one message appears, unless two ranks find rank 0 deaf at one moment: each
 * rank waits a little longer than the one before it. Times are those in which a
 * rank runs: a machine that is busy, or stops for a while, takes no rank for
 * deaf.
 *
 * Threads: the transport has one driver at a time. While main waits for other
 * ranks, before the executor runs, the transport itself does what follows.
 * While the executor runs, it hands what it is told to cel_report_told and
 * calls cel_report_tick; before main calls cel_report_error it ends the
 * executor, and drives the transport itself from then on.
 */
#ifndef CEL_COMM_REPORT_H
#define CEL_COMM_REPORT_H

#include "comm/transport.h"

/* The status of a process whose job ends as a rank is lost, or its messages
 * are: started again, the script may come to its end. That of sysexits'
 * EX_TEMPFAIL. An error of the script ends with 1. */
enum { CEL_EXIT_LOST = 75 };

/* Kinds of control messages; the caller's own are positive. */
enum { CEL_REPORT_ASK = -1, CEL_REPORT_YOURS = -2, CEL_REPORT_HEARD = -3 };

/* Who asked rank 0. All zero: nobody has. Guard: the transport's driver. */
typedef struct cel_report {
  bool asked, answered;
  int64_t asker;
  int64_t ticked_us, waited_us;
} cel_report;

/* What this process has been asked so far, by whoever drove the transport. */
cel_report cel_report_so_far(void);

/* Whether the message was one of this module's; then it has been dealt with.
 * The caller frees it, either way. Thread: the transport's driver. */
bool cel_report_told(cel_report *report, cel_transport *transport,
                     const cel_told *told);
/* Answers when it is time. Cheap when nobody has asked. Thread: likewise. */
void cel_report_tick(cel_report *report, cel_transport *transport);

/* Whether the job's end is on its way, and this rank or another one says why:
 * this one has nothing to say when it is told to end. Thread: any. */
bool cel_report_settled(void);
/* It is: a rank that was lost, say, and another one says so. Thread: any. */
void cel_report_settle(void);

/* Ends the job with status 1, or CEL_EXIT_LOST where the transport is broken;
 * `print` is called with the line to show if it is this rank that shows it.
 * Returns only where `abort` does. Blocks for some seconds at most. Thread:
 * main, when nobody else drives the transport. */
void cel_report_error(cel_transport *transport, const cel_error *error,
                      void (*print)(const char *text));
/* Ends the job with `status`, not 0, where all ranks come to the same end and
 * have said what there is to say. A launcher that sees ranks exit one by one
 * with such a status would complain of it. Otherwise as above. */
void cel_report_exit(cel_transport *transport, int status);

#endif
