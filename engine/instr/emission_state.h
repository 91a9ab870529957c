/* emission_state.h -- what emission.h is made of.
 *
 *   emission.c  instructions, one function for each kind
 *   tape.c      what is emitted again
 */
#ifndef CEL_INSTR_EMISSION_STATE_H
#define CEL_INSTR_EMISSION_STATE_H

#include "base/eras.h"
#include "instr/tracked.h"
#include "region/front.h"
#include "task/effect.h"

typedef struct cel__emission {
  const cel_instr_graph_config *config;
  const cel_task *task; /* of the present command */
  cel_front front;
  cel_deps deps; /* of the next instruction */
  cel_eras eras; /* each keeps the allocations whose FREE is in it */
  cel_collective_tasks collectives;
  cel_effect_track effects;
  cel__outlines outlines; /* of trackers */
  struct cel__tape *tape; /* onto which instructions go, too; or null */
  cel_track_words slots;  /* what is in those of a tracker, for a moment */
} cel__emission;

/* Gives the instruction its dependencies and emits it; its id. */
uint64_t cel__emission_end(cel__emission *e, cel_instr *instr);

/* ---- tape.c -------------------------------------------------------------- */

/* A dependency: on the instruction in a slot of a tracker, as it was when the
 * tape began; or, of tracker CEL__TAPE_OWN, on the nth of the tape. */
typedef struct cel__tape_dep {
  uint32_t tracker, slot;
  cel_dep_kind kind;
} cel__tape_dep;

#define CEL__TAPE_OWN UINT32_MAX

/* Up to `deps` and `places` of the tape's. */
typedef struct cel__tape_instr {
  cel_instr instr;
  uint32_t deps, places;
} cel__tape_instr;

/* A tracker's state when the tape began and when it ended. */
typedef struct cel__tape_tracker {
  cel__tracked *tracked;
  cel__outline *before, *after;
  cel_track_words ids;          /* before; while the tape is made */
  CEL_VEC(cel__tape_dep) slots; /* what is in those of `after` */
} cel__tape_tracker;

typedef struct cel__tape {
  uint64_t first; /* id of the first instruction; while the tape is made */
  bool broken;
  cel_deps own; /* of one access; while the tape is made */
  CEL_VEC(cel__tape_instr) instrs;
  CEL_VEC(cel__tape_dep) deps;
  CEL_VEC(cel_place_in) places;
  CEL_VEC(cel__tape_tracker) trackers;
} cel__tape;

/* Which of the tape's it is; it is added when first told of. */
uint32_t cel__tape_note_tracked(cel__emission *e, cel__tracked *tracked);
/* Of the instruction that comes next. */
void cel__tape_note_dep(cel__tape *tape, uint32_t tracker, const cel_dep *dep);
void cel__tape_note_after(cel__tape *tape, uint64_t id, cel_dep_kind kind);
void cel__tape_note_instr(cel__tape *tape, const cel_instr *instr);

#endif
