/* Preloaded: says at the end how many threads have loaded a topology at a time,
 * at most. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hwloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic(int) now, most;

int hwloc_topology_load(hwloc_topology_t t) {
  enum { LONG_US = 20000 };
  int (*load)(hwloc_topology_t);
  *(void **)&load = dlsym(RTLD_NEXT, "hwloc_topology_load");
  int n = atomic_fetch_add(&now, 1) + 1;
  if (n > atomic_load(&most)) atomic_store(&most, n);
  usleep(LONG_US);
  int code = load(t);
  atomic_fetch_sub(&now, 1);
  return code;
}

__attribute__((destructor)) static void say(void) {
  fprintf(stderr, "topologies at a time: %d\n", atomic_load(&most));
}
