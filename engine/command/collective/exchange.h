/* exchange.h -- one rank's side of what all ranks exchange.
 *
 * Who gives what to whom is the same two functions of the rank on all of them
 * (pattern.h); here they are evaluated as one rank, and written out where those
 * who carry the collective out need that.
 *
 * Cost: O(1) where the parts are kept (parts.h), else O(ranks). Confined.
 * Thread: scheduler.
 */
#ifndef CEL_COMMAND_COLLECTIVE_EXCHANGE_H
#define CEL_COMMAND_COLLECTIVE_EXCHANGE_H

#include "base/arena.h"
#include "command/collective/parts.h"
#include "command/own/own.h"

/* The side of own->me in `t` and what is coalesced with it, `n` in all, which
 * are collective number `nth`: a list in the arena. */
cel_exchange *cel__exchange_make(cel__parts_kept *kept, const cel__own *own,
                                 const cel__together *t, uint32_t n,
                                 uint64_t nth, cel_arena *arena);

#endif
