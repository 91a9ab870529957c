/* memory.h -- which allocations there are, where a box lies, what is committed,
 * and what goes when a memory is full; internal to instr/.
 *
 * The second of the three parts of the instruction graph. It has emission make
 * ALLOC, COMMIT, DECOMMIT and FREE, and COPY where contents move to a larger
 * allocation. Where data is current it does not know: it asks a keeper.
 *
 * Invariants, of which cel__memory_check asserts all but the order in 4 and 5:
 *   1. Live allocations of one buffer in one memory do not meet. Each takes all
 *      of dimension 0 and covers what was needed of it.
 *   2. What is wanted of one buffer in one memory does not meet either, and is
 *      forgotten after the command, or with the lookahead.
 *   3. Committed rows lie in their allocation; no more is committed than is
 *      reserved. An allocation that is *whole* has all its memory, always.
 *   4. Whichever order instructions are carried out in, what is committed never
 *      exceeds the capacity. An instruction that takes memory comes after as
 *      many of those that give some back as that takes; the others count as if
 *      they were still to come.
 *   5. An ALLOC comes after so many FREEs of buffers that ended before it that
 *      all others have no more than freed_bytes.
 * Cost: O(log n) to find, where n layouts of the buffer differ in dimensions 1
 * and 2; a command whose plan is placed costs nothing else. 16 bytes for each
 * buffer ever mentioned. Confined to the scheduler thread.
 *
 *   places = cel__memory_place(all);     is all there already?
 *   cel__memory_want(...);               if not: so much, at least
 *   cel__memory_prepare(all);            now it is, and has memory
 *   cel__memory_forget(all);
 */
#ifndef CEL_INSTR_MEMORY_H
#define CEL_INSTR_MEMORY_H

#include "instr/emission.h"

typedef struct cel__memories cel__memories;

/* Who knows where data is current; asked before memory goes. */
typedef struct cel__keeper {
  void *context;
  /* What of the box, which lies in `in`, is current there. */
  void (*current)(void *context, const cel__tracked *in, const cel_box *box,
                  cel_region *out);
  /* Copies to the host what of the box is current in that memory alone; nothing
   * of it is current there any more. */
  void (*save)(void *context, cel__tracked *in, const cel_box *box);
} cel__keeper;

/* `count` memories. The caller owns it, and keeps the others. `plan` is always
 * that of the present command. */
cel__memories *cel__memory_create(const cel_instr_graph_config *config,
                                  int32_t count, cel__emission *emission,
                                  cel__plan *plan);
void cel__memory_destroy(cel__memories *all);
/* To be called once, before anything is needed; *keeper is borrowed. */
void cel__memory_ask(cel__memories *all, const cel__keeper *keeper);
size_t cel__memory_bytes(const cel__memories *all);
/* Between commands, of which none has failed. */
void cel__memory_check(const cel__memories *all);

/* ---- where something lies ------------------------------------------------ */

/* The live allocation that covers `box`, or null. */
cel__tracked *cel__memory_find(cel__memories *all, const cel_buffer *buffer,
                               int32_t memory, const cel_box *box);
/* The next live allocation that meets `box`, from *next on, which is 0 at
 * first, and the part of the box that lies there; null after the last one. */
cel__tracked *cel__memory_meets(cel__memories *all, const cel_buffer *buffer,
                                int32_t memory, const cel_box *box,
                                uint32_t *next, cel_box *part);

/* ---- one box ------------------------------------------------------------- */

/* Announces a need, so that one allocation serves all that overlap; whether it
 * goes beyond what is live and what was announced. */
bool cel__memory_want(cel__memories *all, const cel_buffer *buffer,
                      int32_t memory, const cel_box *box);
/* Forgets what was announced. */
void cel__memory_forget(cel__memories *all);
/* Makes sure that one allocation covers `box`: emits ALLOC, COPY and FREE as
 * needed. Earlier ones may be gone then: find them again. Null when there is no
 * room for one that is whole, which in the host's memory there is. */
cel__tracked *cel__memory_need(cel__memories *all, const cel_buffer *buffer,
                               int32_t memory, const cel_box *box);
/* Emits a COMMIT for each run of rows that `region` meets and that have no
 * memory yet; nothing where they get it on touch. */
void cel__memory_commit(cel__memories *all, cel__tracked *tracked,
                        const cel_region *region);

/* ---- the plan ------------------------------------------------------------ */

/* Places the plan, if there are allocations for all that it touches. */
bool cel__memory_place(cel__memories *all);
/* Allocations for all that the plan touches, and memory for what they have none
 * for yet; the plan is placed. CEL_E_MEMORY: it needs more than there is at
 * once. */
cel_status cel__memory_prepare(cel__memories *all);
/* How often an allocation was made or freed. */
uint64_t cel__memory_changes(const cel__memories *all);
/* Whether there is a memory that has a capacity. */
bool cel__memory_limited(const cel__memories *all);
/* Whether what is planned fits `parts` times into each memory. */
bool cel__memory_fits(cel__memories *all, uint64_t parts);

/* ---- ends ---------------------------------------------------------------- */

/* Gives back all memory of a buffer and forgets it. */
void cel__memory_drop(cel__memories *all, const cel_buffer *buffer);
/* An epoch was emitted: whatever left before it has gone. */
void cel__memory_settle(cel__memories *all);

#endif
