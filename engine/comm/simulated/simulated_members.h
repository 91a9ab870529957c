/* simulated_members.h -- collectives between devices, within one process.
 *
 * An end is given out when all members have posted theirs. To put it takes what
 * the member gives; once all that it is to get has been taken from others, that
 * goes into its memory, and until then it is to be put again. So one member may
 * be through before another has begun.
 *
 * Invariant: the collectives of a member are posted, given out and put by
 * ascending number. Confined to one thread.
 */
#ifndef CEL_COMM_SIMULATED_SIMULATED_MEMBERS_H
#define CEL_COMM_SIMULATED_SIMULATED_MEMBERS_H

#include "comm/transport.h"

typedef struct cel__members cel__members;

cel__members *cel__members_create(int64_t members);
void cel__members_destroy(cel__members *m);
void cel__members_post(cel__members *m, int64_t member,
                       const cel_device_collective *collective);
/* The next end of a member, if it may be given out; its owner gives it back
 * with unjoin. */
bool cel__members_next(cel__members *m, int64_t member, cel_chained *out);
/* The end has been put, or never will be. */
void cel__members_unjoin(cel__members *m, void *context);
/* From now on what is put waits for nobody, and fails. */
void cel__members_halt(cel__members *m, int64_t member);

#endif
