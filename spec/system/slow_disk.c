/* Preloaded: fsync takes SLOW_DISK more milliseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int fsync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  long ms = atol(getenv("SLOW_DISK"));
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
  return real(fd);
}
