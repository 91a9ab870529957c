/* link.h -- direct messages between the GPUs of one host's ranks.
 *
 * A transport around another one: it moves the direct messages itself and
 * leaves the others, and all else, to that one.
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
 * in time whatever others do: nothing can hang. Longer messages go through
 * several slots, of which one is filled while others are emptied; of all but
 * the last of them FILL says that the bytes are there.
 *
 * Of long ones the receiver lends the sender the memory that they are for:
 *
 *   the blocks' files, once,
 *   then for each message --LANDING-->
 *                         --WANT-->     opens the blocks, for good;
 *                                       copies the message there
 *                         <--THERE--    when the copy is done
 *
 * What cannot be lent, or opened, goes through the mailbox.
 *
 *   link_transport.c  the tables, completions, the end
 *   link_start.c      who takes part: handles exchanged
 *   link_probe.c      a few bytes each way from each to each
 *   link_send.c       sender: slots filled
 *   link_receive.c    receiver: slots emptied
 *   link_chain.c      chained messages: one slot, carried by the poster
 *   link_landing.c    both: long messages, written to where they belong
 *   mailbox.c         slots and their events
 *   host_rings.c      rings in shared memory
 *   host_fds.c        open files from rank to rank
 *
 * After a failing call of the driver all direct messages fail, now and later.
 */
#ifndef CEL_COMM_LINK_LINK_H
#define CEL_COMM_LINK_LINK_H

#include "comm/transport.h"
#include "device/cuda/cuda.h"

enum { CEL_LINK_WHY = 256 };

/* Where the ranks of this host all have one GPU each, and reach each other's
 * memory, *out is such a transport, which owns `inner` and borrows `cuda` until
 * it is destroyed; else it is `inner`, and `why` says what is missing ("rank 2:
 * cuIpcGetMemHandle: operation not supported"). Where it is, `unlent` is empty,
 * and cuda->lends set: what has memory of the GPU then lends it
 * (cel_cuda_memory_lend); or it says why no memory can be lent. All of them
 * come to the same. `cuda` is null in a rank without a GPU. Both texts have
 * CEL_LINK_WHY bytes. Collective over the ranks of the host. CEL_E_COMM.
 * Thread: main. */
cel_status cel_transport_cuda_link(cel_transport *inner, cel_cuda *cuda,
                                   cel_transport **out, char *why,
                                   char *unlent);
#endif
