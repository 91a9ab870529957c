/* host_fds.h -- open files handed from rank to rank of one host, through
 * sockets without a path.
 *
 * What was sent before a word in shared memory is there when the word is. From
 * other users' processes nothing is taken.
 * Cost: a system call each, of a few us. Confined.
 */
#ifndef CEL_COMM_LINK_HOST_FDS_H
#define CEL_COMM_LINK_HOST_FDS_H

#include "base/status.h"

typedef struct cel_host_fds cel_host_fds;

/* What comes with a file. */
typedef struct cel_host_fd {
  int32_t from;    /* the sender, as it is in `local` there */
  uint32_t number; /* the sender's meaning, as `bytes` */
  uint64_t bytes;
  int file; /* the taker's to close */
} cel_host_fd;

/* The end of rank `local`; `name` is the same for all ranks of the job on this
 * host, and no other's. CEL_E_IO; the caller owns *out. */
cel_status cel_host_fds_open(const char *name, int32_t local,
                             cel_host_fds **out);
void cel_host_fds_close(cel_host_fds *fds);
/* The file stays the caller's. CEL_E_IO where it is not taken: too many are
 * under way, or the other one has no end. */
cel_status cel_host_fds_send(cel_host_fds *fds, int32_t to,
                             const cel_host_fd *what);
/* The oldest that has come; false: none. */
bool cel_host_fds_take(cel_host_fds *fds, cel_host_fd *out);
#endif
