/* host_rings.h -- small records between the ranks of one host, through shared
 * memory.
 *
 * One ring for each ordered pair of ranks, single producer and single consumer,
 * in one POSIX segment that all of them map. A rank that dies leaves its rings
 * as they are.
 *
 * Invariants: 0 <= tail - head <= CEL_HOST_RING; both only grow.
 * Cost: a push or pop is some ten ns and no system call. Confined, each rank's
 * end to one thread.
 */
#ifndef CEL_COMM_LINK_HOST_RINGS_H
#define CEL_COMM_LINK_HOST_RINGS_H

#include "base/status.h"

enum { CEL_HOST_RING = 256, CEL_HOST_WORDS = 32 };

typedef struct cel_host_record {
  uint32_t kind, slot; /* the caller's meaning, as all */
  uint64_t sequence, bytes;
} cel_host_record;

typedef struct cel_host_rings cel_host_rings;

/* Makes the segment, of a name that no other has, for `ranks`. CEL_E_IO; the
 * caller owns *out, as from open. */
cel_status cel_host_rings_create(const char *name, int32_t ranks,
                                 cel_host_rings **out);
cel_status cel_host_rings_open(const char *name, int32_t ranks,
                               cel_host_rings **out);
/* Takes the name away: nobody opens it any more. */
void cel_host_rings_unlink(const char *name);
void cel_host_rings_close(cel_host_rings *rings);
/* From rank `from` to rank `to` of the host. False: it is full. */
bool cel_host_rings_push(cel_host_rings *rings, int32_t from, int32_t to,
                         const cel_host_record *record);
bool cel_host_rings_pop(cel_host_rings *rings, int32_t from, int32_t to,
                        cel_host_record *out);
/* CEL_HOST_WORDS words that rank `from` writes and rank `to` reads; 0 at first.
 * Thread: any. */
_Atomic(uint64_t) *cel_host_rings_words(cel_host_rings *rings, int32_t from,
                                        int32_t to);
#endif
