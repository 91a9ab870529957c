/* pattern.h -- whether what all ranks lack for a read is a collective.
 *
 * Who has a part of an entry and who reads what of it are two functions of the
 * rank (rep.h), known to all; so each rank sees by itself, from their forms and
 * without looking at the others, what the exchange is:
 *
 *   has it         reads it            is
 *   one rank       all ranks, all      a broadcast
 *   one rank       each a part         a scatter
 *   each a part    one rank, all       a gather
 *   each a part    all ranks, all      an all-gather
 *   each a part    some of each part   an all-to-all
 *   each a part    all of the group's  an all-gather in groups
 *   else                               messages between pairs of ranks
 *
 * That a rank reads some of each part is seen from the dimensions: what cuts
 * one function leaves the other whole. So a matrix that was written by rows and
 * is read by columns is an all-to-all, whether columns overlap or not.
 *
 * Since it is decided when the reader is scheduled, by what is missing then, a
 * part that was read before does not hide the rest: "gather, then all read" is
 * found. Where some ranks hold replicas a collective brings them what they
 * have; three ranks, the same ones everywhere, are asked what they lack (of a
 * gather the one that gets all), and unless that is half of what they would get
 * it goes by messages. So does what concerns less than half of the ranks, but
 * for what few have and all read, what all have and few read all of, and what
 * concerns 64 ranks and a 64th of them.
 *
 * What cuts both functions alike divides the ranks into groups, and each of
 * them does that for itself: rows or columns of a grid of ranks. Groups have no
 * communicators of their own, which would have to be made by all at once: they
 * are rows of zeros in tables. A group must have four ranks at least, or half
 * of all.
 *
 * Broadcast, scatter, gather and all-gather have parts that tile the whole, of
 * which ranks have one, none or all. What is like them but has parts that
 * overlap, leaves out ranks that have no chunk and so read nothing, or has more
 * elements than can be counted is carried out *in pairs*, as an all-to-all is:
 * each rank has a table of what it gives to each and gets from each. But of a
 * broadcast those that do not read it throw away what they get.
 *
 * A collective saves what messages cost that are small. So what is large goes
 * by messages: a broadcast of more bytes than a piece that travels with others
 * may have, and where one rank gives so much to one other; but not an
 * all-gather. Between devices it is the limits of these (cel_collective_limits)
 * that decide.
 *
 * Invariant: a function of the program, its configuration and the number of
 * ranks, not of who asks.
 * Cost: O(log ranks), whatever there is. Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_COLLECTIVE_PATTERN_H
#define CEL_COMMAND_COLLECTIVE_PATTERN_H

#include "command/own/own.h"

/* What it takes to bring `box`, which is of version v, to all that read it by
 * the representation `read`, some of whom lack something; `tiles`: what they
 * read is disjoint. */
cel__choice cel__pattern_choose(cel__own *own, const cel__version *v,
                                uint32_t read, bool tiles, const cel_box *box,
                                const cel_buffer *buffer);

/* The representation of the parts of what is not carried out in pairs, or none.
 */
static inline uint32_t cel__choice_parts(const cel__choice *choice) {
  return choice->pattern == CEL_PATTERN_SCATTER ? choice->read : choice->have;
}

#endif
