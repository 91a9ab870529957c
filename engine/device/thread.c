#include "device/thread.h"

#include <string.h>

cel_status cel_thread_start(pthread_t *out, void *(*run)(void *),
                            void *argument, const char *purpose) {
  int failed = pthread_create(out, NULL, run, argument);
  if (failed == 0) return CEL_E_OK;
  return cel_fail(CEL_E_MISSING,
                  "the system refuses a thread for %s: %s; raise the limit of "
                  "threads (ulimit -u) or of memory (ulimit -v), or those of "
                  "the container or batch job",
                  purpose, strerror(failed));
}
