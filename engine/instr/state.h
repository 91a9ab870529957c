/* state.h -- what the instruction graph is made of; internal to instr/.
 *
 *   lookahead.c    which command is next, or held back
 *   plan.c         what a command touches: device chunks, regions, hulls
 *   interior.c     what of a chunk lacks nothing
 *   memory.c       allocations: demand, growth, giving back
 *   commit.c       memory behind allocations, where it is not there on touch
 *   spill.c        what memories hold of their capacity; who goes when full
 *   need.c         what the present command needs there, and that it has it
 *   layouts.c        the layouts of one buffer in one memory
 *   coherence.c    where data is current, and copies to where it is needed
 *   join.c         many messages as one writer
 *   node.c         instructions, their dependencies, horizons, retirement
 *   alike.c        what several devices need alike
 *   instr_graph.c  one function per command kind, on top of these
 *
 * Invariants: live allocations of one buffer in one memory never overlap, and
 * a box is current in a memory only where a live allocation there covers it.
 * Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_STATE_H
#define CEL_INSTR_STATE_H

#include "base/eras.h"
#include "instr/instr.h"
#include "instr/layouts.h"
#include "region/front.h"
#include "region/map.h"

/* An allocation with what only this folder knows of it. */
typedef struct cel__record {
  cel_allocation made;  /* what others see */
  cel_box used;         /* the hull of what was needed of made.layout */
  cel_region committed; /* rows: boxes [a, b) x 1 x 1; where there is a grain */
  cel_track *track;     /* over made.layout */
  uint64_t floor;       /* applied to `track` */
  bool whole;           /* has all its memory, always */
  /* Where memories have a capacity: */
  uint64_t bytes; /* that it holds */
  uint32_t place; /* among its room's records */
  uint64_t used_at;
  cel_map *grains; /* unless whole: grain -> used at; 0: holds no memory */
} cel__record;

/* A FREE or DECOMMIT, or some that are older than the floor. */
typedef struct cel__leaving {
  uint64_t id, bytes;
  uint64_t used_at; /* if a message used it then, else 0 */
} cel__leaving;

/* What one memory holds once all that was emitted is carried out. Moments are
 * counted by graph->now.
 *
 * Invariant: whichever order instructions are carried out in, what is committed
 * never exceeds the capacity. An instruction that takes memory comes after as
 * many of those that `leaving` lists as that takes; the others count as if they
 * were still to come. */
typedef struct cel__room {
  uint64_t capacity; /* 0: any amount, and nothing here is counted */
  uint64_t used;
  uint64_t going;    /* of all that leave */
  uint64_t awaited;  /* of these, what a message of the present task used */
  uint64_t promised; /* to the present command, which may have taken it */
  CEL_VEC(cel__leaving) leaving; /* ids ascend, from the floor on */
  CEL_VEC(cel__record *) records;
} cel__room;

/* Something that may go: `count` blocks of a record, or all of one that is
 * whole. */
typedef struct cel__victim {
  cel__record *record;
  uint64_t first, count, used_at;
} cel__victim;

/* One buffer in one memory. */
typedef struct cel__backing {
  cel__layouts live;
  cel__layouts wants;  /* what commands seen so far will need, hull-merged */
  cel__record *recent; /* the live one found last, or null */
  int32_t moves;       /* into larger allocations */
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

/* What several devices need alike and one of them has, or gets first. */
typedef struct cel__alike {
  cel_box box;
  int32_t owner; /* memory */
} cel__alike;

/* How data is copied. */
typedef struct cel__manner {
  int32_t priority;
  uint64_t from; /* memories preferred to others that have it, too */
  /* By memory: the last copy out of it, and into it, after which the next one
   * comes; null: they keep no order. */
  uint64_t *last_out, *last_in;
} cel__manner;

/* What one part touches through one access; or one piece of a message. */
typedef struct cel__touch {
  const cel_buffer *buffer;
  int32_t memory;
  bool consumes, produces;
  bool arrives; /* a message brings it, straight to where kernels need it */
  cel_region region;
  cel_box hull;
  cel__record *record; /* that covers the hull, once the plan is *placed* */
} cel__touch;

/* What the present command needs; the room is reused. Touches of part p are
 * touch[p * accesses ...]. */
typedef struct cel__plan {
  const cel_command *command;
  CEL_VEC(cel__part) parts;
  CEL_VEC(cel__touch) touches; /* n counts those made; `used` those valid */
  uint32_t used;
  int64_t rounds; /* a kernel's chunk in so many runs, one after another */
  bool placed;    /* every touch with a hull has its record */
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
  /* Room. */
  cel__room *rooms;     /* by memory */
  bool limited;         /* some memory has a capacity */
  bool warned;          /* that it does not suffice */
  bool advised;         /* that memory grows again and again */
  bool backwards;       /* the rounds of the next task that has some */
  uint64_t now;         /* counts commands; messages of one task are one */
  const cel_task *told; /* the task whose messages are being made, or null */
  cel_collective_tasks collectives;
  cel_effect_track effects;
  cel_front front;
  cel_deps deps;              /* of the instruction being made */
  cel_eras eras;              /* each keeps the records whose FREE is in it */
  CEL_VEC(cel_piece) arrived; /* by messages for the task that comes next */
  /* Lookahead. */
  CEL_VEC(const cel_command *) held;
  int32_t held_horizons, quiet_horizons;
  /* Scratch. */
  cel_map_entries entries;
  CEL_VEC(cel_map_entry) lacking; /* what a fetch is about */
  CEL_VEC(cel__alike) owned;      /* of what devices need alike */
  CEL_VEC(cel__alike) slices;     /* that their owners get first */
  cel_map_entries alike_found;    /* where that is */
  cel_region alike_box;
  cel_region boxes;           /* what of it comes from one place */
  cel_region kept, discarded; /* of an allocation that grows */
  cel_region reads;           /* of a chunk or its interior */
  cel_region rows, fresh;     /* to commit, and completed by that */
  cel_region spilled;         /* what has to be copied to the host */
  cel_map_entries grains;     /* of a record */
  cel_region blocks;          /* that the command needs of a record */
  CEL_VEC(cel__victim) victims;
  CEL_VEC(cel_place_in) places;
  CEL_VEC(cel_box) parts; /* of what arrived of a buffer */
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
cel__held *cel__held_new(cel_instr_graph *graph, const cel_buffer *buffer);
static inline cel__held *cel__held_of(cel_instr_graph *graph,
                                      const cel_buffer *buffer) {
  cel__held *held = graph->buffers.at + buffer->id;
  if (buffer->id < graph->buffers.n && held->buffer != NULL) return held;
  return cel__held_new(graph, buffer);
}
/* The live allocation that covers `box`, or null. */
cel__record *cel__memory_find(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box);
/* Announces a need, so that one allocation serves all that overlap; whether it
 * goes beyond what is live and what was announced. */
bool cel__memory_want(cel_instr_graph *graph, const cel_buffer *buffer,
                      int32_t memory, const cel_box *box);
/* Forgets what was announced. */
void cel__memory_forget(cel_instr_graph *graph);
/* All of dimension 0, so that growth along it stays in place. */
cel_box cel__memory_layout(const cel_buffer *buffer, const cel_box *box);
/* Makes sure that one allocation covers `box`: emits ALLOC, COPY and FREE as
 * needed. Earlier records may be gone then: look them up again. Null when there
 * is no room for one that is whole. */
cel__record *cel__memory_need(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box);
/* The same, with just this layout; whatever meets it otherwise is spilled. */
bool cel__memory_need_exactly(cel_instr_graph *graph, const cel_buffer *buffer,
                              int32_t memory, const cel_box *layout);
/* Copies to the host what is current only there, and frees it. */
void cel__memory_spill(cel_instr_graph *graph, cel__record *record);
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
/* Emits a DECOMMIT of bytes at blocks, or at the end of the record, and forgets
 * the rows that they meet, of which nothing is current there. */
void cel__memory_decommit(cel_instr_graph *graph, cel__record *record,
                          uint64_t begin, uint64_t end);
/* Bytes of a row of a layout. */
uint64_t cel__memory_row(const cel_buffer *buffer, const cel_box *layout);
/* Whether the rows of `box` have memory. */
bool cel__memory_is_committed(const cel__record *record, const cel_box *box);

/* ---- spill.c --------------------------------------------------------------
 */

void cel__rooms_init(cel_instr_graph *graph);
void cel__rooms_release(cel_instr_graph *graph);
/* An epoch: whatever left before it has gone. */
void cel__rooms_settle(cel_instr_graph *graph);
/* The record is made, or about to be freed by instruction `id`. */
void cel__room_enter(cel_instr_graph *graph, cel__record *record);
void cel__room_leave(cel_instr_graph *graph, cel__record *record, uint64_t id);
/* The instruction being made commits what `record` has no memory for yet of
 * [begin, end), out to the grain: it comes after those that make room. */
void cel__room_take(cel_instr_graph *graph, cel__record *record, uint64_t begin,
                    uint64_t end);
/* Instruction `id` gives the bytes back. */
void cel__room_give(cel_instr_graph *graph, cel__record *record, uint64_t begin,
                    uint64_t end, uint64_t id);
/* How many bytes a commitment of [begin, end) would take. */
uint64_t cel__room_lacks(cel_instr_graph *graph, const cel__record *record,
                         uint64_t begin, uint64_t end);
/* Whether so many more bytes fit as it is. */
bool cel__room_has(const cel_instr_graph *graph, int32_t memory,
                   uint64_t bytes);
/* Makes room for so many by spilling what was not used now; whether there is
 * enough then. */
bool cel__room_make(cel_instr_graph *graph, int32_t memory, uint64_t bytes);
/* What the present command touches is used now, as far as it is there. */
void cel__room_touch(cel_instr_graph *graph, int32_t memory);
/* Another moment begins. */
void cel__rooms_move_on(cel_instr_graph *graph);

/* ---- need.c -------------------------------------------------------------- */

/* Places the plan where there are allocations for all that it touches. */
bool cel__need_find(cel_instr_graph *graph);
/* Allocations for all that the plan touches, and room for what they have no
 * memory for yet. CEL_E_MEMORY: it needs more than there is at once. */
cel_status cel__need_plan(cel_instr_graph *graph);
/* Whether what is planned fits `parts` times into each memory. */
bool cel__need_fits(cel_instr_graph *graph, uint64_t parts);

/* ---- coherence.c --------------------------------------------------------- */

/* A device that works in the memory; -1 for the host's. */
int32_t cel__device_in(const cel_instr_graph *graph, int32_t memory);
/* Copies to the host what is current only in the record's memory, of the rows
 * of `rows`; nothing there is current any more. */
void cel__coherence_spill(cel_instr_graph *graph, cel__record *record,
                          const cel_box *rows);
/* Nothing of the region counts as written. */
void cel__coherence_forget(cel_instr_graph *graph, const cel_buffer *buffer,
                           const cel_region *region);

/* Makes `region` current in `memory`, where allocations cover it already. */
void cel__coherence_fetch(cel_instr_graph *graph, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          const cel__manner *manner);
/* What of `region` is still initial contents, and not in `memory`, is made in
 * host memory. */
void cel__coherence_stage(cel_instr_graph *graph, const cel_buffer *buffer,
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
/* A message has brought the region there, too: it is current in `memory`
 * besides where it is. */
void cel__coherence_join(cel_instr_graph *graph, const cel_buffer *buffer,
                         int32_t memory, const cel_region *region);
/* Emits a copy of `box` and tracks it at both ends. */
void cel__copy(cel_instr_graph *graph, cel__record *from, cel__record *to,
               const cel_box *box, const cel__manner *manner);

/* ---- alike.c ------------------------------------------------------------- */

/* Copies what several devices need alike so that as much leaves each of them,
 * where it is much; a fetch of all of it follows. */
void cel__alike_fetch(cel_instr_graph *graph, int32_t priority);

/* ---- plan.c -------------------------------------------------------------- */

/* Fills graph->plan with what `command` touches. */
cel_status cel__plan_make(cel_instr_graph *graph, const cel_command *command);
/* With what round i of them touches, from 0. */
cel_status cel__plan_round(cel_instr_graph *graph, int64_t rounds, int64_t i);
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

/* ---- join.c -------------------------------------------------------------- */

/* The planned message has arrived in host memory. */
void cel__join_note(cel_instr_graph *graph);
/* A JOIN of what has, where that is worth it; all is forgotten. */
void cel__join_emit(cel_instr_graph *graph);

/* ---- lookahead.c --------------------------------------------------------- */

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command);
cel_status cel__lookahead_flush(cel_instr_graph *graph);

/* ---- instr_graph.c ------------------------------------------------------- */

/* Emits what graph->plan's command leads to. CEL_E_MEMORY, see instr.h. */
cel_status cel__generate(cel_instr_graph *graph);

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
