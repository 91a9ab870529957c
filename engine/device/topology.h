/* topology.h -- the cores that belong to this rank (hwloc).
 *
 * The launcher's binding is respected. Where ranks of one host are unbound
 * (every one sees all cores) the cores are divided among them.
 */
#ifndef CEL_DEVICE_TOPOLOGY_H
#define CEL_DEVICE_TOPOLOGY_H

#include "base/status.h"

enum { CEL_TOPOLOGY_CORES = 1024 };

typedef struct cel_topology {
  int32_t cores;      /* this rank's, at least 1 */
  int32_t host_cores; /* of the whole host */
  bool bound;         /* by the launcher */
  int32_t core[1024]; /* OS index of a processing unit of each core */
} cel_topology;

/* `local_rank` of `local_ranks` on this host. Thread: main. */
cel_status cel_topology_find(int32_t local_rank, int32_t local_ranks,
                             cel_topology *out);
/* Those of *topology's cores that are near the PCI device `bus`
 * ("0000:1b:00.0"); all of them where none is, or hwloc does not know. Takes
 * some 20 ms. Thread: any. */
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
