/* timeline_files.h -- the files that ranks write a timeline to, and what comes
 * of them. Thread: any, one at a time: of one rank main, or whichever thread
 * ends the process.
 */
#ifndef CEL_EXEC_TRACE_TIMELINE_FILES_H
#define CEL_EXEC_TRACE_TIMELINE_FILES_H

#include "base/status.h"

/* FILE for number 0, FILE.K for K, which is rank K's; the caller frees it. */
char *cel_timeline_path(const char *path, int64_t number);
/* Puts the files of ranks 1 to `ranks` - 1 to the end of rank 0's and removes
 * them; all ranks have closed theirs, or it waits up to `patience_us` for that
 * and takes what is there. *missing: how many could not be found, as their
 * hosts have disks of their own. CEL_E_IO. */
cel_status cel_timeline_merge(const char *path, int64_t ranks,
                              int64_t patience_us, int64_t *missing);
#endif
