/* Preloaded: whoever sleeps by ppoll goes on half a second late. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

int ppoll(struct pollfd *files, nfds_t n, const struct timespec *most,
          const sigset_t *mask) {
  int (*real)(struct pollfd *, nfds_t, const struct timespec *,
              const sigset_t *) =
      (int (*)(struct pollfd *, nfds_t, const struct timespec *,
               const sigset_t *))dlsym(RTLD_NEXT, "ppoll");
  int ready = real(files, n, most, mask);
  nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  return ready;
}
