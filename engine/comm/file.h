/* file.h -- one file that all ranks of a communicator read and write: MPI-IO.
 *
 * Offsets and lengths are in bytes; any number of them. Opening and closing are
 * collective; reading and writing are so with `all`, which lets MPI put what
 * the ranks have together.
 *
 * Lua calls these functions through FFI (lua/celer/host/shared_file.lua).
 * Threads: the communicator's.
 */
#ifndef CEL_COMM_FILE_H
#define CEL_COMM_FILE_H

#include "comm/communicator.h"

typedef enum cel_file_mode {
  CEL_FILE_READ,
  CEL_FILE_WRITE, /* made anew, whatever it held */
  CEL_FILE_UPDATE /* both; there already, or made */
} cel_file_mode;

typedef struct cel_file cel_file;

/* Of all ranks, in one mode: else each fails. The caller owns *out, and closes
 * it before the communicator ends. Starts MPI where it does not run. CEL_E_IO
 * says what the system says. */
cel_status cel_file_open(cel_comm *c, const char *path, cel_file_mode mode,
                         cel_file **out);
cel_status cel_file_write(cel_file *f, uint64_t offset, const void *data,
                          uint64_t bytes, bool all);
/* *got is less than `bytes` where the file ends before. */
cel_status cel_file_read(cel_file *f, uint64_t offset, void *data,
                         uint64_t bytes, bool all, uint64_t *got);
cel_status cel_file_size(cel_file *f, uint64_t *out);
/* Frees it, also where that fails. */
cel_status cel_file_close(cel_file *f);

#endif
