/* parts.h -- which part of a box each rank has, written out.
 *
 * The one place where something is made for every rank: who carries a
 * collective out needs counts of all. They are made once for a representation
 * and a box and kept; boxes that differ in where they begin along dimensions
 * that no rank cuts (the rows that RSIM appends) share them. So are sums of
 * them, for what is exchanged together.
 *
 * Invariant: what is kept changes no result. What is dropped lives on in the
 * era that is open then, so as long as any command that names it.
 * Cost: O(1) when kept, else O(ranks). The holder owns it: init ... release.
 * Confined.
 */
#ifndef CEL_COMMAND_COLLECTIVE_PARTS_H
#define CEL_COMMAND_COLLECTIVE_PARTS_H

#include "base/eras.h"
#include "command/command.h"
#include "command/own/rep.h"

enum { CEL__NO_RANK = -1 };

/* Who has parts: the representation, or where there is none the one rank that
 * has all; that is of no account else. */
typedef struct cel__giver {
  uint32_t rep;
  int64_t rank;
} cel__giver;

/* What a sum is of: parts, and the size of their elements. */
typedef struct cel__summed {
  uint64_t serial, size;
} cel__summed;

typedef struct cel__known_parts {
  cel_parts parts; /* first */
  cel__giver of;
  int64_t but;
  cel_box box; /* begins at 0 where the representation has no edges */
  uint64_t serial;
  cel__summed *summed; /* of a sum, else null; owned */
  uint32_t terms;
} cel__known_parts;

/* Parts of one box, whose elements have so many bytes. */
typedef struct cel__term {
  const cel_parts *parts;
  uint64_t size;
} cel__term;

typedef struct cel__parts_kept {
  int64_t ranks;
  cel_eras *eras; /* borrowed */
  CEL_VEC(cel__known_parts *) known;
  uint32_t most, oldest;
  uint64_t serials;
} cel__parts_kept;

void cel__parts_init(cel__parts_kept *kept, int64_t ranks, cel_eras *eras);
void cel__parts_release(cel__parts_kept *kept);
/* Drops all of them: representations get other ids. */
void cel__parts_clear(cel__parts_kept *kept);
/* What rank k has of `box`; rank `but` has none. The representation is not a
 * listed one; the box may be empty. Borrowed. */
const cel_parts *cel__parts_find(cel__parts_kept *kept, const cel__reps *reps,
                                 cel__giver of, const cel_box *box,
                                 int64_t but);
/* What each rank has in all of them, all of which were found here: bytes, of a
 * unit of 1, and where they begin if ranks lie one behind the other. */
const cel_parts *cel__parts_sum(cel__parts_kept *kept, const cel__term *term,
                                uint32_t terms);
/* For the eras that keep them. */
void cel__parts_destroy(void *parts);

#endif
