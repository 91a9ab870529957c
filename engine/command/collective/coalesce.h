/* coalesce.h -- several boxes that a task asks for, exchanged as one
 * collective.
 *
 * What one task reads may be in pieces that different tasks wrote, or in
 * several buffers: each such box alone is a collective (pattern.h), and each
 * costs what a collective costs, however small it is. So boxes that are small
 * go together, where that is a collective, too:
 *
 *   broadcasts from one root       a broadcast
 *   broadcasts, all-gathers        an all-gather: the root has a part, others
 *                                  have none
 *   the others                     in pairs, if any one is or there are two
 *
 * Their parts are packed, so what is large goes alone, as a message of one box
 * does, from memory to memory. Nor is anything coalesced whose boxes meet, as
 * they may where replicas are ignored, nor what takes place between devices.
 *
 * Invariant: a function of what all ranks exchange, so that all ranks mean the
 * same. Cost: O(boxes squared); they are few. Pure. Thread: scheduler.
 */
#ifndef CEL_COMMAND_COLLECTIVE_COALESCE_H
#define CEL_COMMAND_COLLECTIVE_COALESCE_H

#include "command/own/own.h"

/* Puts what goes together side by side, in order of the first of each, and
 * marks it `coalesced`: of at most `small` bytes each and `large` together. */
void cel__coalesce(cel__traffic *traffic, const cel__own *own, uint64_t small,
                   uint64_t large);

#endif
