/* memory_state.h -- what memory.h is made of.
 *
 *   memory.c   allocations: demand, growth, giving back
 *   layouts.c  the layouts of one buffer in one memory
 *   commit.c   memory behind allocations, where it is not there on touch
 *   spill.c    what memories hold of their capacity; who goes when full
 *   need.c     what the present command needs there, and that it has it
 *
 * Regions and lists that are kept for their room alone are named after their
 * use and belong to one function, which empties them first.
 */
#ifndef CEL_INSTR_MEMORY_STATE_H
#define CEL_INSTR_MEMORY_STATE_H

#include "instr/emission.h"
#include "instr/layouts.h"
#include "region/map.h"

/* An allocation with what only this part knows of it. */
typedef struct cel__record {
  cel__tracked tracked; /* first: emission frees the record by it */
  cel_box used;         /* the hull of what was needed of the layout */
  cel_region committed; /* rows: boxes [a, b) x 1 x 1; where there is a grain */
  bool whole;           /* has all its memory, always */
  /* Where memories have a capacity: */
  uint64_t bytes; /* that it holds */
  uint32_t index; /* among its room's records */
  uint64_t used_at;
  cel_map *grains; /* unless whole: grain -> used at; 0: holds no memory */
} cel__record;

_Static_assert(offsetof(cel__record, tracked) == 0,
               "emission frees the record by its first field");

static inline cel__record *cel__record_of(cel__tracked *tracked) {
  return (cel__record *)tracked;
}

/* A FREE or DECOMMIT, or some that are older than the floor. */
typedef struct cel__leaving {
  uint64_t id, bytes;
  uint64_t used_at; /* if a message used it then, else 0 */
} cel__leaving;

/* The FREE of a buffer that has ended. */
typedef struct cel__freed {
  uint64_t id;
  uint64_t bytes;   /* of what was used */
  uint64_t reserve; /* 0: an ALLOC has taken its place */
} cel__freed;

/* What one memory holds once all that was emitted is carried out. */
typedef struct cel__room {
  uint64_t capacity; /* 0: any amount, and nothing here is counted */
  uint64_t used;
  uint64_t going;    /* of all that leave */
  uint64_t awaited;  /* of these, what a message of the present task used */
  uint64_t promised; /* to the present command, which may have taken it */
  CEL_VEC(cel__leaving) leaving; /* ids ascend, from the floor on */
  CEL_VEC(cel__record *) records;
  CEL_VEC(cel__freed) freed; /* ids ascend; of any memory */
} cel__room;

/* Something that may go: `count` blocks of a record, or all of one that is
 * whole. */
typedef struct cel__victim {
  cel__record *record;
  uint64_t first, count, used_at;
} cel__victim;

/* What is used, and when: moments are counted by `now`. */
typedef struct cel__eviction {
  bool limited;           /* some memory has a capacity */
  bool warned;            /* that it does not suffice */
  uint64_t now;           /* counts commands; messages of one task are one */
  const cel_task *told;   /* the task whose messages are being made, or null */
  cel_map_entries grains; /* of a record */
  CEL_VEC(cel__victim) victims; /* in the order in which they go */
} cel__eviction;

/* One buffer in one memory. */
typedef struct cel__backing {
  cel__layouts live;
  cel__layouts wants;  /* what commands seen so far will need, hull-merged */
  cel__record *recent; /* the live one found last, or null */
  int32_t moves;       /* into larger allocations */
} cel__backing;

typedef struct cel__backed {
  const cel_buffer *buffer; /* null: never mentioned, or freed */
  cel__backing *in;         /* by memory */
} cel__backed;

typedef struct cel__backing_id {
  uint32_t buffer;
  int32_t memory;
} cel__backing_id;

typedef CEL_VEC(cel_box) cel__boxes;

typedef struct cel__memories {
  const cel_instr_graph_config *config;
  int32_t count;
  cel__emission *emission;
  cel__plan *plan; /* the present command's */
  const struct cel__keeper *keeper;
  CEL_VEC(cel__backed) buffers;    /* by id */
  CEL_VEC(cel__backing_id) wanted; /* backings whose `wants` is not empty */
  uint64_t next_allocation;
  uint64_t freed;
  bool advised; /* that memory grows again and again */
  cel__eviction eviction;
  cel_region moving, discarded; /* of an allocation that grows */
  cel_region together;          /* what shares a COMMIT */
  cel_region rows, fresh;       /* to commit, and completed by that */
  cel_region units;             /* that the command needs of a record */
  cel__boxes smallest;          /* layouts for what it needs of a buffer */
  cel__room room[];             /* by memory */
} cel__memories;

/* ---- memory.c ------------------------------------------------------------ */

cel__record *cel__record_find(cel__memories *all, const cel_buffer *buffer,
                              int32_t memory, const cel_box *box);
/* Saves what is current only there, and frees it. */
void cel__record_spill(cel__memories *all, cel__record *record);
/* All of dimension 0, so that growth along it stays in place. */
cel_box cel__memory_layout(const cel_buffer *buffer, const cel_box *box);
/* As cel__memory_need, with just this layout; whatever meets it otherwise is
 * spilled. */
bool cel__memory_need_exactly(cel__memories *all, const cel_buffer *buffer,
                              int32_t memory, const cel_box *layout);

/* ---- commit.c ------------------------------------------------------------ */

/* Emits a DECOMMIT of bytes at blocks, or at the end of the record, and forgets
 * the rows that they meet, of which nothing is current there. */
void cel__record_decommit(cel__memories *all, cel__record *record,
                          uint64_t begin, uint64_t end);
/* Bytes of a row of a layout. */
uint64_t cel__memory_row(const cel_buffer *buffer, const cel_box *layout);
/* Whether the rows of `box` have memory. */
bool cel__record_is_committed(const cel__record *record, const cel_box *box);

/* ---- spill.c ------------------------------------------------------------- */

void cel__rooms_init(cel__memories *all);
void cel__rooms_release(cel__memories *all);
void cel__rooms_check(const cel__memories *all);
/* The record is about to be made, or was freed by instruction `id`. */
void cel__room_enter(cel__memories *all, cel__record *record);
void cel__room_leave(cel__memories *all, cel__record *record, uint64_t id);
/* The record's buffer has ended, and instruction `id` frees the record. */
void cel__room_freed(cel__memories *all, const cel__record *record,
                     uint64_t id);
/* The next instruction is the record's ALLOC: it comes after those FREEs of
 * ended buffers that it has to wait for. */
void cel__room_follow(cel__memories *all, const cel__record *record);
/* The next instruction commits what `record` has no memory for yet of
 * [begin, end), out to the grain: it comes after those that make room. */
void cel__room_take(cel__memories *all, cel__record *record, uint64_t begin,
                    uint64_t end);
/* Instruction `id` gives the bytes back. */
void cel__room_give(cel__memories *all, cel__record *record, uint64_t begin,
                    uint64_t end, uint64_t id);
/* How many bytes a commitment of [begin, end) would take. */
uint64_t cel__room_lacks(cel__memories *all, const cel__record *record,
                         uint64_t begin, uint64_t end);
/* Whether so many more bytes fit as it is. */
bool cel__room_has(const cel__memories *all, int32_t memory, uint64_t bytes);
/* Makes room for so many by spilling what was not used now; whether there is
 * enough then. */
bool cel__room_make(cel__memories *all, int32_t memory, uint64_t bytes);
/* What the present command touches is used now, as far as it is there. */
void cel__room_touch(cel__memories *all, int32_t memory);

#endif
