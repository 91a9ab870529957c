/* message.h -- from the boxes that travel for one task to messages.
 *
 * Both ends of a transfer find the same boxes, perhaps cut differently; here
 * they are brought into canonical order and form, and packed, so that both ends
 * have the same messages with the same pieces.
 * Cost: O(n log n) for n boxes; one box takes a fast path. Confined.
 */
#ifndef CEL_COMMAND_MESSAGE_H
#define CEL_COMMAND_MESSAGE_H

#include "command/traffic.h"
#include "region/region.h"

/* The messages of one direction, and their pieces, one behind the other; valid
 * until the next packing. `sequence` is left to the caller. */
typedef struct cel__messages {
  CEL_VEC(cel_message) message;
  CEL_VEC(cel_piece) piece;
  CEL_VEC(cel_piece) large; /* scratch, as below */
  CEL_VEC(cel_box) boxes;
  cel_region region;
} cel__messages;

/* Bytes up to which pieces travel together, and that a message may have; one of
 * a single piece with a near rank. */
typedef struct cel__limits {
  uint64_t small, large, near_large;
  const int64_t *near; /* ascending */
  int32_t nears;
} cel__limits;

/* Packs all transfers, which it sorts, by peer in ascending `order`. */
void cel__messages_pack(cel__messages *messages, cel__transfers *transfers,
                        const cel__limits *limits);
void cel__messages_release(cel__messages *messages);

#endif
