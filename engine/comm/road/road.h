/* road.h -- direct messages between ranks of several hosts.
 *
 * A transport around another one: it carries messages between the device
 * memories of ranks that are not near (`far_bytes` of cel_message_table) and
 * leaves all else to that one. For MPIs that take no device's addresses, a
 * message goes through pinned memory of both hosts, in chunks: while one chunk
 * is copied out of the device, the one before it is on its way, and the one
 * before that is copied into the other device.
 *
 *   a send, in the order of its numbers    a receive, likewise
 *     a buffer for its next chunk            a buffer for its next chunk
 *     -> copied there, on a stream           -> posted to the inner transport
 *     -> sent by the inner transport         -> copied out, on a stream
 *     -> the buffer is free                  -> the buffer is free
 *
 * Invariants:
 *   1. How a message is cut follows from its bytes alone, so both ends cut it
 *      alike; and a channel (one direction of one pair of ranks) takes its
 *      messages in the order of their numbers. So both ends number the chunks
 *      of a channel alike, from 0: these are the inner transport's numbers, on
 *      a line of their own.
 *   2. A channel holds at most CEL_TUNE_ROAD_DEPTH buffers.
 *   3. At most `buffers` of them are in use, and one more for each channel:
 * what has none gets one, whatever the others hold.
 *
 * Why nothing waits in a circle: take, of all messages of the job that are not
 * through, the one that comes first in command order. What it depends on is
 * through, so both ends have posted it, and all earlier ones of its channel are
 * through: by 1 it is the channel's first at both ends. By 3 it has a buffer,
 * or gets one, at both. So its next chunk is posted at both, and the inner
 * transport brings it there, as that does with the first of its own messages
 * (mpi/mpi_data.c).
 *
 * Thread: the transport's driver, which puts the copies on two streams of its
 * own. Failure: if the driver refuses something, or a chunk fails, all messages
 * here fail, now and later.
 *
 *   road_transport.c  the tables, failure, start and end
 *   road_staged.c     channels and chunks
 *   road_pool.c       pinned memory
 */
#ifndef CEL_COMM_ROAD_ROAD_H
#define CEL_COMM_ROAD_ROAD_H

#include "comm/transport.h"
#include "device/cuda/cuda.h"

/* All ranks have the same, but for `cuda`. */
typedef struct cel_road_config {
  cel_cuda *cuda;     /* null in a rank without a GPU; borrowed */
  uint64_t far_bytes; /* 0, as of all that follow: CEL_TUNE_ROAD_... */
  uint64_t chunk_least, chunk_most; /* bytes */
  uint32_t buffers;
} cel_road_config;

enum { CEL_ROAD_WHY = 160 };

/* Where each rank has one GPU, *out is such a transport, which owns `inner` and
 * borrows config->cuda until it is destroyed; else it is `inner`, and `why`, of
 * CEL_ROAD_WHY bytes, says who lacks what. All ranks come to the same.
 * Collective. CEL_E_COMM. Thread: main. */
cel_status cel_transport_road(cel_transport *inner,
                              const cel_road_config *config,
                              cel_transport **out, char *why);
/* How long the chunks of a message of so many bytes are, but for the last. */
uint64_t cel_road_chunk(const cel_road_config *config, uint64_t bytes);
#endif
