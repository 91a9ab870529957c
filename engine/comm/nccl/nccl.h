/* nccl.h -- collectives between GPUs, by NCCL.
 *
 * A transport around another one: it carries out the collectives between the
 * devices of all ranks (exchange_devices) and leaves all else to that one. Each
 * device has one NCCL communicator, of which it is the member `rank * devices +
 * device`, and one stream, its lane for collectives; what is put there goes in
 * command order on every GPU.
 *
 *   join                             -> the ranks meet, and NCCL starts; or all
 *                                       know that it does not
 *   posted by all devices of a rank  -> this rank says so to all (*handshake*)
 *   all ranks have said so           -> the ends are given out, in order
 *   put, by the device's thread      -> packed where memory has gaps, NCCL's
 *                                       calls, unpacked; all on the stream
 *
 * Why nothing waits in a circle: NCCL's kernels wait for other GPUs, and what
 * is put behind them waits, too. By the handshake, what a collective comes
 * after is in lanes on every rank before the first part of it is put anywhere;
 * so of all that is put and not through, the first in command order waits only
 * for what is being put. The handshake goes by the inner transport's
 * collectives, 8 bytes of each rank. These are a hash of what the rank means,
 * so that ranks that mean different ones are told, where NCCL would wait for
 * ever. To put a part waits for nobody: NCCL connects two members when they
 * first exchange something, for which each waits for the other, so the probe
 * has each exchange something with each, and NCCL is told to connect the rest
 * at the start.
 *
 * Failure: where something has failed here the communicators are aborted, which
 * ends kernels that wait for others; a process that ends does that to the rest.
 * What NCCL reports of others by itself makes the transport `broken`.
 *
 *   nccl_transport.c  the tables, handshakes, the end
 *   nccl_put.c        a device's part, put on its stream
 *   nccl_start.c      who takes part
 *   nccl_probe.c      a probe, by which all are connected
 *   nccl_api.c        the library
 */
#ifndef CEL_COMM_NCCL_NCCL_H
#define CEL_COMM_NCCL_NCCL_H

#include "comm/nccl/nccl_api.h"
#include "comm/transport.h"
#include "device/cuda/cuda.h"

typedef struct cel_nccl_config {
  const cel_cuda *cuda;    /* null in a rank without a GPU; borrowed */
  const cel_nccl_api *api; /* null: the library, if there is one */
  uint64_t memory; /* bytes of each GPU that are used at most; 0: of all */
} cel_nccl_config;

/* Where all ranks have GPUs, as many each and none twice, and NCCL of one
 * version, *out is such a transport, which owns `inner` and borrows
 * config->cuda until it is destroyed; else it is `inner`, and `why` says what
 * is missing
 * ("rank 2: no NCCL: ..."). All ranks come to the same. Whether bytes go from
 * each to all is found out when NCCL starts (`join` of the collectives), which
 * this does not. A GPU counts twice if NCCL_HOSTID tells its ranks apart, as
 * for NCCL. Collective. CEL_E_COMM. Thread: main. */
cel_status cel_transport_nccl(cel_transport *inner,
                              const cel_nccl_config *config,
                              cel_transport **out, char *why, size_t size);
/* Starts it now, if it is one: `why` is empty then, and else says what is
 * missing. Waits for all ranks. Before an executor runs. Collective.
 * CEL_E_COMM. Thread: main. */
cel_status cel_nccl_join(cel_transport *t, char *why);
#endif
