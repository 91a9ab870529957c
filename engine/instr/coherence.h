/* coherence.h -- where the current data of each part of a buffer are, and which
 * copies bring them where they are needed; internal to instr/.
 *
 * The last of the three parts of the instruction graph. For each buffer it has
 * a map from boxes to the set of memories where they are current, and has
 * emission copy between allocations that memory finds. It is the keeper that
 * memory asks before something is given back.
 *
 * Invariants, see cel__coherence_check:
 *   1. A box is current in a memory only where live allocations there cover it.
 *   2. Initial contents (CEL_MEMORY_INIT) are current nowhere else: they are
 *      made in host memory when somebody needs them, just the boxes needed.
 *   3. What a message brought is marked (CEL_MEMORY_ARRIVED) beside the memory
 *      that it came to.
 *   4. What is current nowhere was never written: any contents will do.
 * Cost: O(log n + entries that a region meets). 16 bytes for each buffer ever
 * mentioned. Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_COHERENCE_H
#define CEL_INSTR_COHERENCE_H

#include "instr/memory.h"

typedef struct cel__coherence cel__coherence;

/* Of the same `count` memories, and is their keeper. The caller owns it, and
 * keeps the others. `plan` is always that of the present command. */
cel__coherence *cel__coherence_create(const cel_instr_graph_config *config,
                                      int32_t count, cel__emission *emission,
                                      cel__memories *memories,
                                      const cel__plan *plan);
void cel__coherence_destroy(cel__coherence *coherence);
size_t cel__coherence_bytes(const cel__coherence *coherence);
/* Between commands, of which none has failed. */
void cel__coherence_check(const cel__coherence *coherence);

/* Copies to where it is needed what the plan, which is placed, consumes. */
void cel__coherence_fetch(cel__coherence *coherence, int32_t priority);
/* What the plan produces was overwritten: it is current in that memory alone.
 */
void cel__coherence_produce(cel__coherence *coherence);
/* Likewise for a collective between devices: what comes from other ranks is
 * current on the devices that get it alone; what comes from a device of this
 * one is current there, too. */
void cel__coherence_spread(cel__coherence *coherence);
/* What a fold leaves of an allocation that it writes in. Into *keep what is
 * current there beyond the range; what is so within is not any more, wherever
 * the fold does not write it, as other ranks have. To be called before what it
 * writes is produced. */
void cel__coherence_leave(cel__coherence *coherence, const cel__tracked *in,
                          const cel_box *range, cel_region *keep);
/* What the plan overwrites unread need not be kept until it does so. */
void cel__coherence_discard(cel__coherence *coherence);
/* Where a buffer is current, as an outline; valid until that changes. */
cel__outline *cel__coherence_outline(cel__coherence *coherence,
                                     const cel_buffer *buffer);
/* It is current as the outline says, which was one of it. */
void cel__coherence_become(cel__coherence *coherence, const cel_buffer *buffer,
                           cel__outline *outline);
/* Whether something of `region` is current only elsewhere, or was brought by a
 * message. */
bool cel__coherence_lacks(cel__coherence *coherence, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region);
/* Forgets a buffer. */
void cel__coherence_drop(cel__coherence *coherence, const cel_buffer *buffer);

#endif
