/* share.h -- collectives of all shapes among ranks, for the programs that check
 * transports.
 *
 * All ranks make the same list up; each lays the bytes out in memory in its own
 * way, dense or with gaps, which must not be touched. Several are under way at
 * once, and each is compared when it is said to have ended.
 */
#ifndef SPEC_COMM_SHARE_H
#define SPEC_COMM_SHARE_H

#include "comm/transport.h"

/* Posts `n` collectives and waits for them; how many bytes are wrong. A
 * transport that hangs hangs this. */
uint64_t share_all(cel_transport *t, uint64_t seed, int64_t n);

#endif
