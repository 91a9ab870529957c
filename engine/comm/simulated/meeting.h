/* meeting.h -- communicators between the ranks of one process.
 *
 * With threads a call blocks until all ranks have made it. Without, nothing can
 * block: a call that others have not made yet fails with CEL_E_AGAIN, and what
 * made it is run again, from its start, until it comes through; the calls that
 * it made before are answered as they were. So all of what was exchanged is
 * kept until the end: these are for programs that are short.
 *
 * It can gather and be a barrier, no more: what random programs need.
 * Thread: any, each communicator one at a time.
 */
#ifndef CEL_COMM_SIMULATED_MEETING_H
#define CEL_COMM_SIMULATED_MEETING_H

#include "comm/communicator.h"

typedef struct cel_meeting cel_meeting;

/* The caller owns it, and destroys it after its communicators. */
cel_meeting *cel_meeting_create(int64_t ranks, bool threads);
void cel_meeting_destroy(cel_meeting *meeting);
/* The caller owns the result. */
cel_comm *cel_meeting_join(cel_meeting *meeting, int64_t rank, uint32_t group);
/* Calls that wait for others fail with CEL_E_CANCELLED, now and later. */
void cel_meeting_end(cel_meeting *meeting);

#endif
