/* members.h -- collectives between devices, within one process: for the
 * simulated cluster; and what is known of such a collective as such.
 *
 * An end is given out when all members have posted theirs. To put it takes what
 * the member gives; once all that it is to get has been taken from others, that
 * goes into its memory, and until then it is to be put again. So one member may
 * be through before another has begun.
 *
 * Invariant: the collectives of a member are posted, given out and put by
 * ascending number. Confined to one thread.
 */
#ifndef CEL_COMM_MEMBERS_H
#define CEL_COMM_MEMBERS_H

#include "comm/transport.h"

/* What member `me` gives, or gets, of the part of `member`, of no account
 * whose it is then; of a broadcast, whose only part is the root's; of an
 * all-reduce, in which each has the whole; in pairs,
 * what it gives to that member or gets from it. Null: nothing. Pure.
 * Thread: any. */
const cel_strided *cel__member_gives(const cel_device_collective *collective,
                                     int64_t me, int64_t member);
const cel_strided *cel__member_gets(const cel_device_collective *collective,
                                    int64_t me, int64_t member);

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
