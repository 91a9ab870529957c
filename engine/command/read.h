/* read.h -- what a task's read of a buffer brings, and how it travels.
 *
 * Entry by entry: the version afterwards says whether anything has to travel.
 * If so it is a collective (pattern.h), or is passed on from rank to rank
 * (bcast_tree.h), or goes in messages between pairs of ranks.
 *
 * Cost: O(entries met * (log ranks + peers)); a repeated read is one look-up.
 * Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_READ_H
#define CEL_COMMAND_READ_H

#include "command/own/own.h"

/* The task reads `footprint`: appends what all exchange, what is passed on, and
 * what `me` must send and receive besides, so that every rank has its part, and
 * notes that they then do: what one read of a task brings, another one lacks no
 * more. */
void cel__read(cel__own *own, cel_map *map, const cel_buffer *buffer,
               cel__footprint *footprint, cel__traffic *traffic);

#endif
