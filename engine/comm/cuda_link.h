/* cuda_link.h -- direct messages between the GPUs of one host's ranks.
 *
 * A transport around another one: it moves the direct messages itself and hands
 * everything else on.
 *
 *   receiver                            sender
 *   wants message n       --WANT-->     has been given it, too:
 *                                       copies a part into a slot of the
 *                                       receiver, records the slot's event
 *   its stream waits for  <--FILL--     (before the copy is done)
 *   the event, copies the slot to
 *   where it belongs, and then
 *                         --FREE-->     the slot is empty
 *
 * The words go through rings in shared memory, the bytes from GPU to GPU. Slots
 * are filled for messages only that the receiver waits for, so each is emptied
 * in time whatever others do: nothing can hang. Long messages go through
 * several slots, of which one is filled while others are emptied; of all but
 * the last of them FILL says that the bytes are there.
 *
 *   cuda_link.c          the table, completions, the end
 *   cuda_link_start.c    who takes part: handles exchanged, a probe
 *   cuda_link_send.c     sender: slots filled
 *   cuda_link_receive.c  receiver: slots emptied
 *   cuda_link_chain.c    chained messages: one slot, carried by the poster
 *   cuda_mailbox.c       slots and their events
 *   host_rings.c         rings in shared memory
 *
 * After a failing call of the driver all direct messages fail, now and later.
 */
#ifndef CEL_COMM_CUDA_LINK_H
#define CEL_COMM_CUDA_LINK_H

#include "comm/transport.h"
#include "device/cuda.h"

/* Where the ranks of this host all have one GPU each, and reach each other's
 * memory, *out is such a transport, which owns `inner` and borrows `cuda` until
 * it is destroyed; else it is `inner`, and `why` says what is missing ("rank 2:
 * cuIpcGetMemHandle: operation not supported"). All of them come to the same.
 * `cuda` is null in a rank without a GPU. Collective over the ranks of the
 * host. CEL_E_COMM. Thread: main. */
cel_status cel_transport_cuda_link(cel_transport *inner, const cel_cuda *cuda,
                                   cel_transport **out, char *why, size_t size);
#endif
