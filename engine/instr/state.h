/* state.h -- what the instruction graph is made of; internal to instr/.
 *
 *   lookahead.c  which command is next, or held back
 *   plan.c       what a command touches: device chunks, regions, hulls
 *   interior.c   what of a chunk lacks nothing
 *   memory.c     allocations: demand, growth, giving back
 *   commit.c     memory behind allocations, where it is not there on touch
 *   spots.c      the layouts of one buffer in one memory
 *   coherence.c  where data is current, and copies to where it is needed
 *   node.c       instructions, their dependencies, horizons, retirement
 *   graph.c      one function per command kind, on top of these
 *
 * Invariants: live allocations of one buffer in one memory never overlap, and
 * a box is current in a memory only where a live allocation there covers it.
 * Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_STATE_H
#define CEL_INSTR_STATE_H

#include "base/eras.h"
#include "instr/instr.h"
#include "instr/spots.h"
#include "region/front.h"
#include "region/map.h"
#include "task/collective.h"

/* An allocation with what only this folder knows of it. */
typedef struct cel__record {
  cel_allocation made;  /* what others see */
  cel_box used;         /* the hull of what was needed of made.layout */
  cel_region committed; /* rows: boxes [a, b) x 1 x 1; where there is a grain */
  cel_track *track;     /* over made.layout */
  uint64_t floor;       /* applied to `track` */
} cel__record;

/* One buffer in one memory. */
typedef struct cel__backing {
  cel__spots live;
  cel__spots wants;    /* what commands seen so far will need, hull-merged */
  cel__record *recent; /* the live one found last, or null */
} cel__backing;

typedef struct cel__held {
  const cel_buffer *buffer; /* null: never mentioned, or freed */
  /* Box -> set of memories where it is current, as bits; 0: uninitialised. */
  cel_map *current;
  cel__backing *in; /* by memory */
} cel__held;

typedef struct cel__backing_id {
  uint32_t buffer;
  int32_t memory;
} cel__backing_id;

/* A chunk of the present command on one device or lane. */
typedef struct cel__part {
  int32_t device; /* -1: the host */
  int32_t memory;
  int32_t priority; /* CEL__PRIORITY_BOUNDARY or RUN */
  cel_box chunk;
} cel__part;

/* What one part touches through one access; or one piece of a message. */
typedef struct cel__touch {
  const cel_buffer *buffer;
  int32_t memory;
  bool consumes, produces;
  bool arrives; /* a message brings it, straight into a device's memory */
  cel_region region;
  cel_box hull;
} cel__touch;

/* What the present command needs; the room is reused. Touches of part p are
 * touch[p * accesses ...]. */
typedef struct cel__plan {
  const cel_command *command;
  CEL_VEC(cel__part) parts;
  CEL_VEC(cel__touch) touches; /* n counts those made; `used` those valid */
  uint32_t used;
} cel__plan;

struct cel_instr_graph {
  cel_instr_graph_config config;
  int32_t memories;
  CEL_VEC(cel__held) buffers;      /* by id; 24 bytes for each ever mentioned */
  CEL_VEC(cel__backing_id) wanted; /* backings whose `wants` is not empty */
  cel__plan plan;
  struct {
    uint64_t direct[2]; /* messages until now: in, out */
  } * near;             /* for each of config.near */
  /* Nodes. */
  uint64_t next_allocation;
  cel_collectives collectives;
  cel_effect_track effects;
  cel_front front;
  cel_deps deps; /* of the instruction being made */
  cel_eras eras; /* each keeps the records whose FREE is in it */
  /* Lookahead. */
  CEL_VEC(const cel_command *) held;
  int32_t held_horizons, quiet_horizons;
  /* Scratch. */
  cel_map_entries entries;
  CEL_VEC(cel_map_entry) lacking; /* what a fetch is about */
  cel_region boxes;               /* what of it comes from one place */
  cel_region kept, discarded;     /* of an allocation that grows */
  cel_region reads;               /* of a chunk or its interior */
  cel_region rows, fresh;         /* to commit, and completed by that */
  CEL_VEC(cel_place_in) places;
};

/* ---- node.c -------------------------------------------------------------- */

/* A fresh instruction; its dependencies collect in graph->deps until end. */
cel_instr *cel__instr_begin(cel_instr_graph *graph, cel_instr_kind kind,
                            const cel_task *task, int32_t priority);
/* Finishes and emits it. */
void cel__instr_end(cel_instr_graph *graph, cel_instr *instr);
/* A horizon or epoch: after the whole execution front. */
void cel__instr_bound(cel_instr_graph *graph, const cel_command *command);
/* The record dies with the era that is open now. */
void cel__record_bury(cel_instr_graph *graph, cel__record *record);
void cel__nodes_init(cel_instr_graph *graph);
void cel__nodes_release(cel_instr_graph *graph);

/* ---- memory.c ------------------------------------------------------------ */

/* The buffer's state, made at first mention. */
cel__held *cel__held_of(cel_instr_graph *graph, const cel_buffer *buffer);
/* The live allocation that covers `box`, or null. */
cel__record *cel__memory_find(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box);
/* Announces a need, so that one allocation serves all that overlap; whether it
 * goes beyond what is live and what was announced. */
bool cel__memory_want(cel_instr_graph *graph, const cel_buffer *buffer,
                      int32_t memory, const cel_box *box);
/* Forgets what was announced. */
void cel__memory_forget(cel_instr_graph *graph);
/* Makes sure that one allocation covers `box`: emits ALLOC, COPY and FREE as
 * needed. Earlier records may be gone then: look them up again. */
cel__record *cel__memory_need(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box);
/* Gives back all memory of a buffer and forgets it. */
void cel__memory_drop(cel_instr_graph *graph, const cel_command *command);
/* The record's tracker, up to date with the floor. */
cel_track *cel__record_track(cel_instr_graph *graph, cel__record *record);
void cel__record_destroy(cel__record *record);
void cel__held_release(cel_instr_graph *graph, cel__held *held);

/* ---- commit.c ------------------------------------------------------------ */

/* Emits a COMMIT for each run of rows that `region` meets and that have no
 * memory yet; nothing where they get it on touch. `region` may not be one of
 * graph->rows and fresh. */
void cel__memory_commit(cel_instr_graph *graph, cel__record *record,
                        const cel_region *region);
/* Whether the rows of `box` have memory. */
bool cel__memory_is_committed(const cel__record *record, const cel_box *box);

/* ---- coherence.c --------------------------------------------------------- */

/* Makes `region` current in `memory`, where allocations cover it already. */
void cel__coherence_fetch(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          int32_t priority);
/* Whether something of `region` is current only elsewhere, or was brought by a
 * message. */
bool cel__coherence_lacks(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region);
/* The region was overwritten: it is current in `memory` alone; by a message, if
 * it `arrives`. */
void cel__coherence_produce(cel_instr_graph *graph, const cel_buffer *buffer,
                            int32_t memory, const cel_region *region,
                            bool arrives);
/* Emits a copy of `box` and tracks it at both ends. */
void cel__copy(cel_instr_graph *graph, cel__record *from, cel__record *to,
               const cel_box *box, int32_t priority);

/* ---- plan.c -------------------------------------------------------------- */

/* Fills graph->plan with what `command` touches. */
cel_status cel__plan_make(cel_instr_graph *graph, const cel_command *command);
/* Which of config.near the message is exchanged with, where it is direct or
 * may be; else -1. */
int32_t cel__plan_near(const cel_instr_graph *graph,
                       const cel_command *command);
bool cel__plan_direct(const cel_instr_graph *graph, const cel_command *command);
/* What the present command overwrites of `buffer` without reading it. */
void cel__plan_discards(const cel_instr_graph *graph, const cel_buffer *buffer,
                        cel_region *out);
void cel__plan_release(cel__plan *plan);

/* ---- interior.c ---------------------------------------------------------- */

/* Cuts a part into its interior and what lies around it, and appends
 * them to graph->plan.parts; or the part as it is. */
cel_status cel__interior_cut(cel_instr_graph *graph, const cel__part *part);

/* ---- lookahead.c --------------------------------------------------------- */

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command);
cel_status cel__lookahead_flush(cel_instr_graph *graph);

/* ---- graph.c ------------------------------------------------------------- */

/* Emits what graph->plan's command leads to. */
void cel__generate(cel_instr_graph *graph);

/* Higher first: what other ranks wait for, then what many instructions wait
 * for, then computing. */
enum {
  CEL__PRIORITY_RECEIVE = 4,
  CEL__PRIORITY_SEND = 3,
  CEL__PRIORITY_MEMORY = 2,
  CEL__PRIORITY_BOUNDARY = 1, /* others wait for it */
  CEL__PRIORITY_RUN = 0
};

#endif
