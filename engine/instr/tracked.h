/* tracked.h -- an allocation, and the order of what is done to it; internal to
 * instr/.
 *
 * Its tracker has two forms: a cel_track, which is asked and told, and an
 * outline with the ids that are in its slots, which is compared. Each is made
 * from the other when it is wanted.
 *
 * Invariant: of `track` and `outline` at least one is what the tracker knows:
 * the first unless `ahead`, the second unless it is null.
 * Cost: from one form to the other O(entries and ids). Memory makes it and owns
 * it until its FREE is emitted. Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_TRACKED_H
#define CEL_INSTR_TRACKED_H

#include "instr/instr.h"
#include "instr/outline.h"

typedef struct cel__tracked {
  cel_allocation made; /* what others see; the rest is emission's */
  cel_track *track;    /* over made.layout */
  cel__outline *outline;
  cel_track_words ids; /* of the outline's slots, ascending */
  bool ahead;
  uint64_t floor; /* applied to what it knows */
} cel__tracked;

/* Ends one without a FREE, and frees it: the graph is at its end. */
void cel__tracked_destroy(cel__tracked *tracked);
/* What its tracker takes. */
size_t cel__tracked_bytes(const cel__tracked *tracked);

/* Has the cel_track say what it knows. */
void cel__tracked_open(cel__tracked *tracked);
/* The cel_track, up to date with the floor, and about to change. */
static inline cel_track *cel__tracked_track(cel__tracked *tracked,
                                            uint64_t floor) {
  if (tracked->outline != NULL) cel__tracked_open(tracked);
  if (tracked->floor != floor) cel_track_floor(tracked->track, floor);
  tracked->floor = floor;
  return tracked->track;
}
/* The outline, up to date with the floor; valid until the tracker changes. */
cel__outline *cel__tracked_outline(cel__tracked *tracked, cel__outlines *all,
                                   uint64_t floor);
/* It knows what the outline says, with these ids, from the floor on, in the
 * slots; *ids becomes what it had. */
void cel__tracked_become(cel__tracked *tracked, cel__outline *outline,
                         cel_track_words *ids);
/* The slot in which the id is; they ascend. */
uint32_t cel__slot_of(const cel_track_words *ids, uint64_t id);

#endif
