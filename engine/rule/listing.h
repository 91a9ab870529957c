/* listing.h -- what a mapper gave for the chunks that it was asked about.
 *
 * A mapper that branches on its chunk, or looks things up in a table, has no
 * program. The binding calls it for every chunk that the layers below will ask
 * about, and they find the boxes here: a rule with a listing is evaluated for
 * these chunks, and for no others.
 *
 * The chunks come in two parts. The first are the same on all ranks, so
 * that a rule has one hash there: each rank's chunk, then those of splits that
 * other numbers of ranks would make, by which a mapper that is wrong there is
 * found out here. Then come those of this rank's own devices and runs.
 *
 * Invariants: chunks differ; boxes lie within the buffer, canonical for each.
 * Cost: a look-up is O(log chunks). Immutable. Pure. Thread: any.
 */
#ifndef CEL_RULE_LISTING_H
#define CEL_RULE_LISTING_H

#include "rule/rule.h"

struct cel_listing {
  int32_t chunks;
  int32_t ranks;  /* the first are chunks of ranks */
  int32_t common; /* so many are the same on all ranks */
  int32_t mine;   /* which one is this rank's; -1: it has none */
  int32_t parts;  /* what this rank's is cut into, by devices and runs */
  const int32_t *part;
  /* Splits of the range that were asked about, one after the other: how many
   * chunks, two at least, then which. And which is the whole range; -1: there
   * are no splits. */
  int32_t whole, words;
  const int32_t *split;
  const cel_box *chunk;
  const int32_t *start; /* box[start[i]] to box[start[i + 1]] are chunk i's */
  const cel_box *box;
  const int32_t *order; /* the chunks, ascending; made by copying */
};

/* A copy, canonical; the caller owns it and gives it to destroy. */
cel_listing *cel__listing_copy(const cel_listing *listing);
void cel__listing_destroy(cel_listing *listing); /* may be null */
/* Of what is the same on all ranks. */
uint64_t cel__listing_hash(const cel_listing *listing);
bool cel__listing_equal(const cel_listing *a, const cel_listing *b);
/* The split at *at, from 0 on, and moves on: how many chunks it has, 0 after
 * the last, and which. */
int32_t cel__listing_split(const cel_listing *listing, int32_t *at,
                           const int32_t **chunk);

/* What a chunk is to have of what its parts have. */
typedef enum cel__made_of {
  CEL__AT_LEAST, /* all of it */
  CEL__AROUND,   /* and nothing beyond the box around it */
  CEL__EXACTLY   /* and nothing else */
} cel__made_of;

/* Refuted where it is not so, with a part as *a of why, the chunk as *b and a
 * point; else unknown. Where some part has nothing, which may have been cut off
 * at the buffer, the box around the parts is not known. */
cel_proof cel__listing_compare(const cel_listing *listing, int32_t chunk,
                               const int32_t *part, int32_t parts,
                               cel__made_of what, cel_counter_example *why);
/* The same of the whole range and each of the splits. */
cel_proof cel__listing_union(const cel_listing *listing, cel__made_of what,
                             cel_counter_example *why);
/* The boxes of a chunk; false when the mapper was not asked about it. */
bool cel__listing_find(const cel_listing *listing, const cel_box *chunk,
                       const cel_box **box, int32_t *n);

#endif
