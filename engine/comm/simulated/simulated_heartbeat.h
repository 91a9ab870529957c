/* simulated_heartbeat.h -- the heartbeat of the simulated cluster, on a clock
 * of its own, and the faults that it is there for.
 *
 * From `fault_begin_ns` on one rank is dead, or its links to all others are
 * silent, for a while or for ever. What was under way stays so meanwhile. As
 * between processes, beats are nobody's work but their own: time passes for all
 * ranks at once, whatever they do. Guard: the cluster's lock.
 */
#ifndef CEL_COMM_SIMULATED_SIMULATED_HEARTBEAT_H
#define CEL_COMM_SIMULATED_SIMULATED_HEARTBEAT_H

#include "base/random.h"
#include "comm/transport.h"

typedef struct cel__simulated_heartbeat cel__simulated_heartbeat;

/* The caller owns it. */
cel__simulated_heartbeat *
cel__simulated_heartbeat_create(const cel_inprocess_config *config);
void cel__simulated_heartbeat_destroy(cel__simulated_heartbeat *h);

void cel__simulated_heartbeat_pass(cel__simulated_heartbeat *h,
                                   cel_random *random, int64_t ns);
/* Whether nothing goes between two ranks now. May be asked of null. */
bool cel__simulated_heartbeat_cut(const cel__simulated_heartbeat *h, int64_t a,
                                  int64_t b);
/* Likewise, between some two. */
bool cel__simulated_heartbeat_cuts(const cel__simulated_heartbeat *h);
cel_inprocess_life
cel__simulated_heartbeat_life(const cel__simulated_heartbeat *h, int64_t rank);

#endif
