/* road.h -- direct messages between ranks of several hosts.
 *
 * A transport around another one: it carries messages between the device
 * memories of ranks that are not near (`far_bytes` of cel_message_table) and
 * leaves all else to that one. One direction of one pair of ranks is a channel,
 * which takes its messages in the order of their numbers. There are three ways:
 *
 *   STAGED  through pinned memory of both hosts, in chunks: while one is copied
 *           out of the device, the one before it is on its way, and the one
 *           before that is copied into the other device
 *   MPI     the same without pinned memory: the inner transport is given the
 *           devices' addresses, and only what has gaps is copied, to a buffer
 *           of the device
 *   NCCL    sends and receives of NCCL; each channel has a communicator of two,
 *           which starts with its first message, while all else goes on
 *   CHOSEN  STAGED; a channel that has moved much starts NCCL, tries it out,
 * and goes by it if that is faster
 *
 *   a send, in the order of its numbers    a receive, likewise
 *     a buffer for its next chunk            a buffer for its next chunk
 *     -> copied there, on a stream           -> posted to the inner transport
 *     -> sent by the inner transport         -> copied out, on a stream
 *     -> the buffer is free                  -> the buffer is free
 *
 * Invariants:
 *   1. How a message is cut follows from its bytes alone, so both ends cut it
 *      alike, and number the chunks of a channel alike, from 0: these are the
 *      inner transport's numbers, on a line of their own.
 *   2. A channel holds at most CEL_TUNE_ROAD_DEPTH buffers.
 *   3. At most `buffers` of them are in use, and one more for each channel:
 *      what has none gets one, whatever the others hold.
 *   4. At most `lanes` channels of a GPU go by NCCL, each of which has one part
 *      of one message under way, on a stream of its own.
 *   5. A part is put at the end of the lower rank first, once both ends have
 *      it; and at the other end when it has been put there (road_lane.c).
 *
 * Why nothing waits in a circle: take, of all messages of the job that are not
 * through, the one that comes first in command order. What it depends on is
 * through, so both ends have posted it, and all earlier ones of its channel are
 * through: by 1 it is the channel's first at both ends. By 3 it has a buffer,
 * or gets one, at both. So its next chunk is posted at both, and the inner
 * transport brings it there, as that does with the first of its own messages
 * (mpi/mpi_data.c).
 *   NCCL's kernels wait on the GPU. By 4 they all find room there, once kernels
 * have ended that wait for nobody; and none waits in a queue behind another
 * that does. So a part is through soon after it has been put at both ends. A
 * thread that polls may wait in the driver for all that its GPU does. There are
 * parts there that have been put at both ends, which come to an end, and by 5
 * parts that wait for a rank of a higher number. Of all ranks that wait so, the
 * highest waits for none of the latter: it goes on, and so do the others.
 *
 * Thread: the transport's driver, which puts the copies on streams of its own.
 * Failure: if the driver or NCCL refuses something, or a chunk fails, all
 * messages here fail, now and later, and what NCCL has on streams is aborted.
 *
 *   road_transport.c  the tables, failure, start and end
 *   road_staged.c     channels and chunks
 *   road_pool.c       their buffers
 *   road_meet.c       how NCCL starts between two ranks
 *   road_lane.c       messages by NCCL
 *   road_trial.c      whether that is faster
 *   road_measure.c    what `celer info` asks
 */
#ifndef CEL_COMM_ROAD_ROAD_H
#define CEL_COMM_ROAD_ROAD_H

#include "comm/nccl/nccl_api.h"
#include "comm/transport.h"
#include "device/cuda/cuda.h"

typedef enum cel_road_way {
  CEL_ROAD_STAGED, /* in pinned memory, by the inner transport */
  CEL_ROAD_MPI,    /* in the GPUs' memory, by the inner transport */
  CEL_ROAD_NCCL,
  CEL_ROAD_CHOSEN /* STAGED, or NCCL where a channel finds that faster */
} cel_road_way;

/* All ranks have the same, but for `cuda` and `nccl`. */
typedef struct cel_road_config {
  cel_cuda *cuda; /* null in a rank without a GPU; borrowed */
  cel_road_way way;
  bool takes_gpus;          /* the inner transport takes addresses of GPUs */
  const cel_nccl_api *nccl; /* null: the library, if there is one */
  uint64_t far_bytes;       /* 0, as of all that follow: CEL_TUNE_ROAD_... */
  uint64_t chunk_least, chunk_most; /* bytes */
  uint64_t part_most;               /* likewise, of what NCCL gets at a time */
  uint32_t buffers, lanes;
  uint64_t try_bytes;   /* after so many a channel finds out, */
  uint64_t trial_bytes; /* with messages of so many, part_most at most */
  int64_t patience_ns;  /* for the other end's NCCL, where it may fail */
} cel_road_config;

enum { CEL_ROAD_WHY = 160 };

/* Where each rank has one GPU, and what the way needs, *out is such a
 * transport, which owns `inner` and borrows config->cuda until it is destroyed;
 * else it is `inner`, and `why`, of CEL_ROAD_WHY bytes, says who lacks what.
 * All ranks come to the same. Collective. CEL_E_COMM. Thread: main. */
cel_status cel_transport_road(cel_transport *inner,
                              const cel_road_config *config,
                              cel_transport **out, char *why);
/* Which way messages from one rank to another go, and how fast. */
typedef struct cel_road_found {
  cel_road_way way;
  double rate; /* bytes per ns */
} cel_road_found;

/* Finds that out, with some messages, while nothing else goes between the two
 * ranks, which both call it. `road` is one of those transports, whatever is
 * around it. CEL_E_COMM. Thread: main. */
cel_status cel_road_measure(cel_transport *road, int64_t peer, bool sends,
                            cel_road_found *out);
/* How long the chunks of a message of so many bytes are, but for the last. */
uint64_t cel_road_chunk(const cel_road_config *config, uint64_t bytes);
#endif
