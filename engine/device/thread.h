/* thread.h -- starts a thread, or says why the system refuses one. */
#ifndef CEL_DEVICE_THREAD_H
#define CEL_DEVICE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* As pthread_create; `purpose` follows "a thread for". Fails with
 * CEL_E_MISSING. Thread: any. */
cel_status cel_thread_start(pthread_t *out, void *(*run)(void *),
                            void *argument, const char *purpose);

#endif
