/* footprint.h -- what one access of a task touches, on every rank at once.
 *
 * A footprint is an access as the split of its task makes it: either one
 * *shape* per box of the rule, in closed form, or, where the rule has none, the
 * list of every rank's boxes. It depends on (rule, parameters, range, extent,
 * split) alone; equal ones are looked up.
 *
 * Cost: a look-up is O(1); making one O(boxes); a listed one O(ranks).
 * Dropping the cache changes no result. Confined.
 */
#ifndef CEL_COMMAND_OWN_FOOTPRINT_H
#define CEL_COMMAND_OWN_FOOTPRINT_H

#include "base/arena.h"
#include "command/own/rep.h"
#include "task/task.h"

enum { CEL__VARIANTS = 4 };

/* One box of a rule: on rank k it is [line(lo), line(hi)) within the frame. */
typedef struct cel__shape {
  cel_box frame;        /* all that is constant: the clip, constant ends */
  cel_box hull;         /* around all ranks; within the frame */
  cel__line line[3][2]; /* [dimension][cel__side] */
  int64_t n;            /* ranks with a chunk */
  const int64_t *who;   /* as of representations */
  bool partition; /* disjoint over the ranks, and without gaps in the hull */
  uint32_t owner; /* where partition: the representation within the hull */
  /* Representations known so far, by which of the ends are closed. */
  uint32_t variants;
  struct {
    uint32_t closed, rep;
  } variant[CEL__VARIANTS];
} cel__shape;

typedef struct cel__footprint {
  cel__interned head;
  struct cel__footprint_key *key;
  /* With a copy of the parameters. The rule is there only while it is made: it
   * may be gone before the footprint is. */
  cel_rule_use use;
  cel_split_kind permitted;
  cel_split split; /* with sums of its own */
  bool rows;       /* the rule is of the chunks' numbers: see cel_access */
  bool tiled;      /* every shape partitions: as a write it stays symbolic */
  bool disjoint;   /* no two ranks meet: proved, or seen on this split */
  uint32_t list;   /* no closed form: the representation; else CEL__NO_ID */
  cel_box hull;
  uint32_t shapes;
  cel__shape *shape;
} cel__footprint;

enum { CEL__FOOTPRINTS_RECENT = 8 };

typedef struct cel__footprints {
  cel__interner in;
  cel_arena arena; /* all that footprints are made of */
  cel__reps *reps;
  int64_t ranks;
  uint32_t most; /* kept by trim */
  /* By hashes of rules, what was asked for last: loops ask for it again. */
  cel__footprint *recent[CEL__FOOTPRINTS_RECENT];
} cel__footprints;

void cel__footprints_init(cel__footprints *all, cel__reps *reps, int64_t ranks);
/* Forgets all when there are many. Only between tasks. */
void cel__footprints_trim(cel__footprints *all);
/* Forgets all: at the end, and when representations are swept. */
void cel__footprints_clear(cel__footprints *all);
/* What `access` of `task` touches; borrowed until trim or clear. Fails as the
 * rule does when it has no closed form. */
cel_status cel__footprint_find(cel__footprints *all, const cel_task *task,
                               const cel_access *access, cel__footprint **out);
/* The representation of a shape within `box`, an entry's part in the frame: an
 * end that cuts the box is closed, any other open. */
uint32_t cel__shape_rep(cel__reps *reps, cel__shape *shape, const cel_box *box);
/* What rank k touches of the buffer, appended to `out`. Interns nothing, so it
 * may be asked for `me`. */
void cel__footprint_boxes(const cel__footprints *all,
                          const cel__footprint *footprint, int64_t k,
                          cel__boxes *out);
size_t cel__footprints_bytes(const cel__footprints *all);

#endif
