/* Preloaded: fsync takes SLOW_DISK more milliseconds, and as long as there is a
 * file of the name SLOW_DISK_WHILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  long ms = atol(getenv("SLOW_DISK"));
  const char *hold = getenv("SLOW_DISK_WHILE");
  do nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
  while (hold != NULL && access(hold, F_OK) == 0);
  return real(fd);
}
