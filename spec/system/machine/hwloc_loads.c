/* Preloaded: says at the end how many threads have loaded a topology at a time,
 * at most, and how often with what hwloc asks OpenCL for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hwloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic(int) now, most, opencl;

int hwloc_topology_load(hwloc_topology_t t) {
  enum { LONG_US = 20000 };
  int (*load)(hwloc_topology_t);
  *(void **)&load = dlsym(RTLD_NEXT, "hwloc_topology_load");
  int n = atomic_fetch_add(&now, 1) + 1;
  if (n > atomic_load(&most)) atomic_store(&most, n);
  enum hwloc_type_filter_e filter;
  hwloc_topology_get_type_filter(t, HWLOC_OBJ_OS_DEVICE, &filter);
  if (filter != HWLOC_TYPE_FILTER_KEEP_NONE) atomic_fetch_add(&opencl, 1);
  usleep(LONG_US);
  int code = load(t);
  atomic_fetch_sub(&now, 1);
  return code;
}

__attribute__((destructor)) static void say(void) {
  fprintf(stderr, "topologies at a time: %d, by OpenCL: %d\n",
          atomic_load(&most), atomic_load(&opencl));
}
