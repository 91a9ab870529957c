/* touch.h -- the plan of a command: its pieces, and what each of them touches;
 * internal to instr/.
 *
 * This is all that the graph tells its three parts of a command: memory sees to
 * it that each touch lies in an allocation, coherence that what it consumes is
 * current there, and emission tracks it. plan.c makes plans.
 *
 * Invariants: a hull covers its region, and both are empty or none is. Of a
 * plan that is *placed*, each touch with a hull lies in an allocation that
 * covers it. Touches of piece p of an execution are at[p * accesses ...].
 * Cost: the room of touches and regions is kept from command to command.
 * Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_TOUCH_H
#define CEL_INSTR_TOUCH_H

#include "base/vec.h"
#include "command/command.h"
#include "region/region.h"

struct cel__tracked;

/* A chunk of the present command on one device or lane. */
typedef struct cel__part {
  int32_t device; /* -1: the host */
  int32_t memory;
  int32_t priority; /* CEL__PRIORITY_BOUNDARY or RUN */
  bool continues;   /* another piece of the run that the part before is of */
  cel_box chunk;
} cel__part;

/* What one part touches through one access; or a box that pieces of messages
 * lie in. */
typedef struct cel__touch {
  const cel_buffer *buffer;
  int32_t memory;
  bool consumes, produces;
  bool arrives;   /* a message brings it, straight to where kernels need it */
  bool continues; /* as its part does */
  cel_region region;
  cel_box hull;
  struct cel__tracked *lies; /* in this allocation, once the plan is placed */
} cel__touch;

/* A message of a PUSH or AWAIT_PUSH. */
typedef struct cel__carried {
  const cel_message *message;
  bool direct, far;
  bool together; /* with others in one RECEIVE */
  uint64_t nth;  /* as in cel_instr, once the command is carried out */
} cel__carried;

typedef struct cel__plan {
  const cel_command *command;
  CEL_VEC(cel__carried) carried; /* direct ones come last */
  uint32_t hosted;               /* of these, not direct */
  uint32_t first, last;          /* of these [first, last) are planned */
  CEL_VEC(cel__part) parts;
  CEL_VEC(cel_box) views;      /* of a fold that is one: of each part's steps */
  CEL_VEC(cel__touch) touches; /* n counts those made; `used` those valid */
  uint32_t used;
  uint32_t accesses; /* the touches of a part; of a message 1 */
  uint32_t boxes;    /* of these, the first: of parts of many messages each */
  uint32_t together; /* those, and more, for one RECEIVE of many messages */
  int64_t rounds;    /* a kernel's chunk in so many runs, one after another */
  bool placed;
} cel__plan;

void cel__plan_release(cel__plan *plan);
/* The touch that covers a piece of a message in that memory; null: none does.
 * Looked for among the boxes, and from *at on, which becomes its place: pieces
 * come in the order of touches. */
const cel__touch *cel__plan_covering(const cel__plan *plan, int32_t memory,
                                     const cel_piece *piece, uint32_t *at);
/* The next touch, with its region's room kept from earlier commands. */
cel__touch *cel__plan_touch(cel__plan *plan);
/* The touch by the same access of the next piece of the run, or null: pieces of
 * a run lie in one memory. */
static inline const cel__touch *cel__plan_next_piece(const cel__plan *plan,
                                                     const cel__touch *touch) {
  const cel__touch *next = touch + plan->accesses;
  return next < plan->touches.at + plan->used && next->continues ? next : NULL;
}
/* Into *out what the command overwrites of `buffer` without reading it. */
void cel__plan_discards(const cel__plan *plan, const cel_buffer *buffer,
                        cel_region *out);
/* The first touch of two of different parts that write one element, and into
 * *both those elements; null if there is none. */
const cel__touch *cel__plan_overlap(const cel__plan *plan, cel_region *both);

#endif
