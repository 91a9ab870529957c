/* wires.h -- a connection between rank 0 and each other rank.
 *
 * Where ranks of several hosts meet, a network may drop what it likes,
 * strangers may connect, and the system may refuse one more file. A rank whose
 * connection does not come about tells all others, so that none waits for it.
 */
#ifndef CEL_COMM_HUB_WIRES_H
#define CEL_COMM_HUB_WIRES_H

#include "comm/transport.h"

/* Fills file[1 .. ranks) on rank 0 and file[0] on the others, by which the
 * caller owns them; each was -1. Collective. CEL_E_COMM where a rank cannot
 * reach rank 0, or rank 0 cannot take it in; CEL_E_CANCELLED on the others
 * then, and what there is in `file` is to be closed. Thread: main. */
cel_status cel__wires_connect(cel_transport *transport, int *file);

/* All of it, whatever signals come; false: the connection has ended. Thread:
 * any, one at a time and direction. */
bool cel__wires_write(int file, const void *data, uint64_t size);
bool cel__wires_read(int file, void *data, uint64_t size);

#endif
