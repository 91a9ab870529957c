/* process.h -- runs a compiler and keeps what it says. */
#ifndef CEL_DEVICE_COMPILE_PROCESS_H
#define CEL_DEVICE_COMPILE_PROCESS_H

#include "base/status.h"

#ifndef CEL_CDEF
#include "base/text.h"

/* Runs argv (ends with null; argv[0] is looked up in PATH) and appends its
 * stdout and stderr to `said`; `*code` becomes its exit code, 128 + N for
 * signal N. Its temporary files go into `folder`, if that is not null. It ends
 * with this process, and all that it has started. CEL_E_MISSING when it cannot
 * be started. Thread: any. */
cel_status cel_process_run(const char *const *argv, const char *folder,
                           cel_text *said, int *code);
/* The path of a program, or null. The caller frees it. Thread: any. */
char *cel_process_find(const char *name);
#endif

#endif
