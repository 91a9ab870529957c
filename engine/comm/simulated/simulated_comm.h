/* simulated_comm.h -- communicators between the ranks of one process.
 *
 * With threads a call blocks until all ranks have made it. Without, nothing can
 * block: a call that others have not made yet fails with CEL_E_AGAIN, and what
 * made it is run again, from its start, until it comes through; the calls that
 * it made before are answered as they were. So all of what was exchanged is
 * kept until the end: these are for programs that are short.
 *
 * It can do what random programs need: gather, exchange parts of all ranks, be
 * a barrier. Thread: any, each communicator one at a time.
 */
#ifndef CEL_COMM_SIMULATED_SIMULATED_COMM_H
#define CEL_COMM_SIMULATED_SIMULATED_COMM_H

#include "comm/communicator.h"

typedef struct cel_simulated_comms cel_simulated_comms;

/* The caller owns it, and destroys it after its communicators. */
cel_simulated_comms *cel_simulated_comms_create(int64_t ranks, bool threads);
void cel_simulated_comms_destroy(cel_simulated_comms *comms);
/* The caller owns the result. */
cel_comm *cel_simulated_comms_join(cel_simulated_comms *comms, int64_t rank,
                                   uint32_t group);
/* Calls that wait for others fail with CEL_E_CANCELLED, now and later. */
void cel_simulated_comms_end(cel_simulated_comms *comms);

#endif
