/* Preloaded: the host counts 2,048 processors, and those that it has are from
 * FIRST on. A set of fewer is refused, as Linux does. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CPUS = 2048, FIRST = 1500 };

int sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set) {
  cpu_set_t real;
  CPU_ZERO(&real);
  if (8 * size < CPUS) return errno = EINVAL, -1;
  if (syscall(SYS_sched_getaffinity, thread, sizeof real, &real) < 0) return -1;
  CPU_ZERO_S(size, set);
  for (size_t i = 0; i < CPUS - FIRST; ++i)
    if (CPU_ISSET(i, &real)) CPU_SET_S(FIRST + i, size, set);
  return 0;
}

int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *set) {
  cpu_set_t real;
  CPU_ZERO(&real);
  for (size_t i = 0; i < CPUS - FIRST; ++i)
    if (CPU_ISSET_S(FIRST + i, size, set)) CPU_SET(i, &real);
  return syscall(SYS_sched_setaffinity, thread, sizeof real, &real) < 0 ? -1
                                                                        : 0;
}

/* `thread` is who calls. */
int pthread_setaffinity_np(pthread_t thread, size_t size,
                           const cpu_set_t *set) {
  (void)thread;
  return sched_setaffinity(0, size, set) == 0 ? 0 : errno;
}
