/* outline.h -- states of trackers and of maps, so that equal ones are one
 * object; internal to instr/.
 *
 * A loop brings the graph's state back to what it was some steps ago, except
 * that its instructions are newer. An outline is a state without their ids: it
 * has slots in place of them, in ascending order. Two outlines are equal if
 * they are one object, so to compare them costs nothing.
 *
 * Invariant: of equal words there is one outline in a table, as long as
 * somebody holds it.
 * Cost: to intern is O(words). Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_OUTLINE_H
#define CEL_INSTR_OUTLINE_H

#include <stddef.h>

#include "base/vec.h"
#include "region/track.h"

typedef struct cel__outline {
  struct cel__outline *next; /* in its bucket */
  struct cel__outlines *all;
  uint64_t hash;
  uint32_t holders, n;
  uint64_t words[];
} cel__outline;

enum { CEL__OUTLINE_BUCKETS = 64 };

/* Zero to begin; nobody holds an outline when it is released. */
typedef struct cel__outlines {
  size_t bytes;
  cel_track_words words; /* of one that is to be interned, or was opened */
  cel__outline *bucket[CEL__OUTLINE_BUCKETS];
} cel__outlines;

void cel__outlines_release(cel__outlines *all);
/* The outline of all->words; the caller holds it. */
cel__outline *cel__outline_intern(cel__outlines *all);
cel__outline *cel__outline_hold(cel__outline *outline);
/* Null is no outline. */
void cel__outline_drop(cel__outline *outline);

#endif
