#define _GNU_SOURCE
#include "device/topology.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

/* Null when hwloc fails. */
static hwloc_topology_t load(void) {
  hwloc_topology_t t;
  if (hwloc_topology_init(&t) != 0) return NULL;
  /* Cores, processing units and what comes with them; no caches, no devices:
   * it is loaded at every start. */
  hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(t) == 0) return t;
  hwloc_topology_destroy(t);
  return NULL;
}

static hwloc_obj_t next_core(hwloc_topology_t t, hwloc_obj_t core) {
  bool known = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0;
  return hwloc_get_next_obj_by_type(t, known ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU,
                                    core);
}

/* One processing unit of each core that `set` touches, in hwloc's order. */
static int32_t list_cores(hwloc_topology_t t, hwloc_const_cpuset_t set,
                          int16_t out[CEL_CPUS]) {
  int32_t n = 0;
  hwloc_bitmap_t common = hwloc_bitmap_alloc();
  for (hwloc_obj_t core = NULL; (core = next_core(t, core)) != NULL;) {
    hwloc_bitmap_and(common, core->cpuset, set);
    int unit = hwloc_bitmap_first(common);
    if (unit >= 0 && unit < CEL_CPUS) out[n++] = (int16_t)unit;
  }
  hwloc_bitmap_free(common);
  return n;
}

/* All processing units of the cores that are listed, as far as in `set`. */
static void list_units(hwloc_topology_t t, hwloc_const_cpuset_t set,
                       cel_topology *out) {
  hwloc_bitmap_t common = hwloc_bitmap_alloc();
  int32_t i = 0;
  for (hwloc_obj_t core = NULL; (core = next_core(t, core)) != NULL;) {
    hwloc_bitmap_and(common, core->cpuset, set);
    if (i == out->cores || hwloc_bitmap_first(common) != out->core[i]) continue;
    ++i;
    int unit;
    hwloc_bitmap_foreach_begin(unit, common) if (unit < CEL_CPUS)
        out->pu[unit / 64] |= (uint64_t)1 << unit % 64;
    hwloc_bitmap_foreach_end();
  }
  hwloc_bitmap_free(common);
}

/* Keeps this rank's part of the cores that so many ranks have. */
static void divide(cel_topology *t, int32_t rank, int32_t ranks) {
  int64_t n = t->cores;
  int64_t begin = n * rank / ranks, end = n * (rank + 1) / ranks;
  if (n < ranks) end = begin + 1;
  t->keeps = n >= ranks || ranks % n == 0;
  t->sharers = n >= ranks ? 1 : t->keeps ? (int32_t)(ranks / n) : ranks;
  memmove(t->core, t->core + begin, (size_t)(end - begin) * sizeof *t->core);
  t->cores = (int32_t)(end - begin);
}

/* For the system, which takes words of bits as well. */
typedef union processors {
  uint64_t pu[CEL_CPUS / 64];
  cpu_set_t set[CEL_CPUS / CPU_SETSIZE];
} processors;
_Static_assert(sizeof(processors) == CEL_CPUS / 8, "a bit for each");

uint64_t cel_topology_identity(void) {
  processors mine = {{0}};
  sched_getaffinity(0, sizeof mine, mine.set);
  return cel_hash(&mine, sizeof mine, 0);
}

cel_status cel_topology_find(int32_t rank, int32_t ranks, cel_topology *out) {
  hwloc_topology_t t = load();
  if (t == NULL)
    return cel_fail(CEL_E_MISSING, "hwloc cannot describe this machine");
  cel_topology found = {.sharers = 1};
  int16_t host[CEL_CPUS];
  hwloc_const_cpuset_t whole = hwloc_topology_get_topology_cpuset(t);
  hwloc_bitmap_t mine = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(t, mine, HWLOC_CPUBIND_PROCESS) != 0 ||
      hwloc_bitmap_iszero(mine))
    hwloc_bitmap_copy(mine, whole);
  hwloc_bitmap_and(mine, mine, whole);
  found.restricted = !hwloc_bitmap_isequal(mine, whole);
  found.host_cores = list_cores(t, whole, host);
  found.cores = list_cores(t, mine, found.core);
  if (found.cores < 1) { /* nothing we understand: one core, wherever */
    found.cores = 1;
    found.core[0] = -1;
  }
  if (ranks > 1) divide(&found, rank, ranks);
  list_units(t, mine, &found);
  hwloc_bitmap_free(mine);
  hwloc_topology_destroy(t);
  *out = found;
  return CEL_E_OK;
}

/* PCI devices and what they hang from; null when hwloc fails. Loaded once, for
 * all: libudev, which hwloc asks, is not made for several threads at a time. No
 * more is asked for: to tell what the system calls them, hwloc starts each
 * OpenCL platform, with its compiler and its threads. */
static hwloc_topology_t devices;

static void load_devices(void) {
  hwloc_topology_t t;
  if (hwloc_topology_init(&t) != 0) return;
  hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE,
                                 HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(t) == 0)
    devices = t;
  else
    hwloc_topology_destroy(t);
}

void cel_topology_near(const cel_topology *topology, const char *bus,
                       cel_topology *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  *out = *topology;
  pthread_once(&once, load_devices);
  hwloc_topology_t t = devices;
  if (t == NULL) return;
  hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(t, bus);
  hwloc_obj_t home =
      device == NULL ? NULL : hwloc_get_non_io_ancestor_obj(t, device);
  int32_t n = 0;
  for (int32_t i = 0; home != NULL && i < topology->cores; ++i)
    if (topology->core[i] >= 0 &&
        hwloc_bitmap_isset(home->cpuset, (unsigned)topology->core[i]))
      out->core[n++] = topology->core[i];
  if (n > 0)
    out->cores = n;
  else
    *out = *topology;
}

void cel_topology_pin(const cel_topology *topology, int32_t core) {
  processors to = {{0}};
  for (int32_t i = 0; i < topology->cores; ++i) {
    int32_t unit = topology->core[i];
    if ((core < 0 || i == core) && unit >= 0)
      CPU_SET_S((size_t)unit, sizeof to, to.set);
  }
  if (CPU_COUNT_S(sizeof to, to.set) > 0)
    pthread_setaffinity_np(pthread_self(), sizeof to, to.set);
}

void cel_topology_keep(const cel_topology *topology) {
  processors to;
  memcpy(to.pu, topology->pu, sizeof to);
  if (topology->keeps && CPU_COUNT_S(sizeof to, to.set) > 0)
    sched_setaffinity(0, sizeof to, to.set);
  cel_park_count_cores(topology->sharers);
}

int32_t cel_topology_spare(const cel_topology *topology, int32_t local_ranks) {
  enum { ENOUGH = 4 };
  int32_t each = topology->host_cores / (local_ranks < 1 ? 1 : local_ranks);
  if (!topology->restricted || each < 2 * topology->cores) return 0;
  return each < ENOUGH ? each : ENOUGH;
}

void cel_topology_describe(char *text, size_t size) {
  char model[128] = "", line[512];
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "model name : %127[^\n]", model) == 1) break;
  if (file != NULL) fclose(file);
  cel_topology t = {0};
  int32_t cores = cel_topology_find(0, 1, &t) == CEL_E_OK ? t.host_cores : 1;
  snprintf(text, size, "%s%s%d core%s", model, model[0] != '\0' ? ", " : "",
           cores, cores == 1 ? "" : "s");
}
