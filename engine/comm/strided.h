/* strided.h -- between boxes in memory and the bytes of a message.
 * Pure; what transports that copy share. Thread: any.
 */
#ifndef CEL_COMM_STRIDED_H
#define CEL_COMM_STRIDED_H

#include "comm/transport.h"

/* Bytes of all pieces together. */
uint64_t cel__strided_bytes(const cel_strided *piece, uint32_t pieces);
/* With runs that touch merged: a dense piece becomes one run. */
cel_strided cel__strided_merged(cel_strided piece);
/* Piece by piece, row by row, into or out of `dense`. */
void cel__strided_gather(const cel_strided *piece, uint32_t pieces,
                         void *dense);
void cel__strided_scatter(const cel_strided *piece, uint32_t pieces,
                          const void *dense);

#endif
