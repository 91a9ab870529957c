/* simulated_collectives.h -- collectives within one process.
 *
 * Each rank's part in a collective goes two steps, at moments that the caller
 * picks: what the rank has is taken, then, once all is there that it is to get,
 * that is put into its memory. So one rank may have all of a broadcast before
 * another has begun it.
 *
 * Invariant: the collectives of a rank are posted by ascending number; they
 * complete in any order. The caller holds a lock where ranks are threads.
 */
#ifndef CEL_COMM_SIMULATED_SIMULATED_COLLECTIVES_H
#define CEL_COMM_SIMULATED_SIMULATED_COLLECTIVES_H

#include "comm/transport.h"

typedef struct cel__simulated_collectives cel__simulated_collectives;

/* `at_once`: what is posted is taken at once, so that nobody needs to ask again
 * for that. */
cel__simulated_collectives *cel__simulated_collectives_create(int64_t ranks,
                                                              bool at_once);
void cel__simulated_collectives_destroy(
    cel__simulated_collectives *collectives);
void cel__simulated_collectives_post(cel__simulated_collectives *collectives,
                                     int64_t rank,
                                     const cel_collective *collective);
/* Lets what `rank` has posted move on where `moves` says so; true when one is
 * complete: then call it again. */
bool cel__simulated_collectives_step(cel__simulated_collectives *collectives,
                                     int64_t rank, bool (*moves)(void *context),
                                     void *context, cel_done *done);

#endif
