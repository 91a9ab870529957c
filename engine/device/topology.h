/* topology.h -- the cores that belong to this rank (hwloc).
 *
 * The launcher's binding is respected. Ranks that have the same cores, such as
 * all of a host's where the launcher binds none, divide them.
 */
#ifndef CEL_DEVICE_TOPOLOGY_H
#define CEL_DEVICE_TOPOLOGY_H

#include "base/park.h"
#include "base/status.h"

typedef struct cel_topology {
  int32_t cores;      /* this rank's, at least 1 */
  int32_t host_cores; /* of the whole host */
  bool restricted;    /* by the launcher, to some of these */
  bool keeps;         /* divided with other ranks; where those are more than
                         the cores, only if each core is as many ranks' */
  int32_t sharers;    /* ranks that have the cores which this one's threads may
                         be on, with it: 1, unless it has them with others */
  /* OS index of a processing unit of each core; a bit for each processing unit
   * of these cores. */
  int16_t core[CEL_CPUS];
  uint64_t pu[CEL_CPUS / 64];
} cel_topology;

/* Tells processes apart that have other cores than this one. Thread: main. */
uint64_t cel_topology_identity(void);
/* Of the ranks of this host that have the same cores, this is one of `ranks`.
 * Thread: main. */
cel_status cel_topology_find(int32_t rank, int32_t ranks, cel_topology *out);
/* Where it `keeps`, the calling thread, and those that it starts, keep to this
 * rank's cores. Left to all that the host's ranks have, threads that poll for
 * what others send sit down where yet others are to wake, which wait then for
 * the rest of a slice of time: 0.7 ms where 10 us would do. A refusal by the
 * system is not an error. How many have the cores is what cel_park_share goes
 * by then. Thread: main, before it starts any. */
void cel_topology_keep(const cel_topology *topology);
/* Those of *topology's cores that are near the PCI device `bus`
 * ("0000:1b:00.0"); all of them where none is, or hwloc does not know. The
 * first call takes some 20 ms. Thread: any. */
void cel_topology_near(const cel_topology *topology, const char *bus,
                       cel_topology *out);
/* Pins the calling thread to one processing unit; -1 to all of this rank's.
 * A refusal by the system is not an error. */
void cel_topology_pin(const cel_topology *topology, int32_t core);
/* How many cores each of a host's ranks could have, where they are bound to no
 * more than half of that; of all that there are, but 4 at most. Else 0. Pure.
 */
int32_t cel_topology_spare(const cel_topology *topology, int32_t local_ranks);
/* "AMD EPYC, 2 cores" for celer info. */
void cel_topology_describe(char *text, size_t size);

#endif
