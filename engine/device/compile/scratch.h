/* scratch.h -- what is on its way into the cache, or of use until it is there:
 * a file until it is whole, a compiler's intermediate files.
 *
 * All of it lies in the cache's folder `scratch`, and goes with the process
 * (leftover.h). SIGKILL may leave something: it is removed by the next process
 * that uses the cache while no other has anything in there. A lock on a file
 * says so: whoever has something there shares it.
 */
#ifndef CEL_DEVICE_COMPILE_SCRATCH_H
#define CEL_DEVICE_COMPILE_SCRATCH_H

#include "base/text.h"

typedef struct cel_scratch {
  cel_text path;
  int lock;
} cel_scratch;

/* A path in the scratch of the cache `folder` at which nothing is yet; the
 * caller ends it. CEL_E_IO. Thread: any. */
cel_status cel_scratch_begin(const char *folder, cel_scratch *out);
/* Removes what is there. Thread: any. */
void cel_scratch_end(cel_scratch *scratch);

/* Removes what processes have left that are no more. Thread: any. */
void cel_scratch_sweep(const char *folder);

/* A cache for this process alone, in place of one that cannot be used: in
 * $TMPDIR or /tmp; its path into `folder`. Removes those of processes that are
 * no more. CEL_E_IO where it cannot be made. Thread: main, once. */
cel_status cel_scratch_private(char *folder, size_t size);

/* Appends a file's bytes; false when it cannot be read. */
bool cel_text_read(cel_text *text, const char *path);
/* Writes a file of mode 0600; false when it cannot. */
bool cel_text_write(const cel_text *text, const char *path);

#endif
