/* clocks.h -- how much rank 0's clock is ahead of this rank's.
 *
 * Processes of one host share a monotonic clock; those of different hosts count
 * from when each was started, and containers may have clocks of their own. A
 * rank asks another one for rank 0's time, a few times, and believes the answer
 * that came fastest: it is wrong by half of that time at most, and by what the
 * other's answer is wrong. Whom the ranks ask is a binomial tree with rank 0 at
 * its root: on the way are at most log2(ranks) ranks, and a rank that shares
 * the other's clock adds nothing. Clocks drift apart by some microseconds in a
 * second, or less; that is not corrected.
 * Cost: a few messages between each rank and log2(ranks) others, at the start;
 * none where all ranks are on one host.
 */
#ifndef CEL_COMM_CLOCKS_H
#define CEL_COMM_CLOCKS_H

#include "comm/transport.h"

/* Kinds of control messages; -1 to -3 are report.h's. */
enum { CEL_CLOCKS_ASK = -4, CEL_CLOCKS_TIME = -5, CEL_CLOCKS_DONE = -6 };

typedef struct cel_clock {
  int64_t (*now)(void *context); /* ns */
  void *context;
  char host[64]; /* equal where the clock is the same one */
} cel_clock;

/* CLOCK_MONOTONIC, of the kernel that runs here. */
void cel_clock_here(cel_clock *out);

typedef struct cel_clock_offset {
  int64_t ahead;  /* rank 0's clock, less this rank's, ns */
  int64_t within; /* it is known to that */
} cel_clock_offset;

/* Collective, blocking; when transport->broadcast may be called. CEL_E_COMM.
 * Thread: main. */
cel_status cel_clocks_compare(cel_transport *transport, const cel_clock *clock,
                              cel_clock_offset *out);
#endif
