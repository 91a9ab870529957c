/* route.h -- values that items send to elements or bins of a buffer: what
 * comes of a task's pushes, on all ranks.
 *
 * A task's items lie in rows, which ranks share evenly, as they share the rows
 * of what is written. An item has slots for `most` pushes (kernels/route.cuh):
 * 32 bits that say how often it has pushed, the keys, and the values. A key is
 * an element's or a bin's place in the buffer, row by row. Each rank sends what
 * its items have pushed to the ranks that have the keys, by rank, and within
 * that by item and then by number: what arrives is in the order of all items.
 * So values of one key meet in that order on any number of ranks, and sums have
 * the same bits.
 *
 * Cost: a pass over the slots to look and two to pack; a message to each rank
 * that says what is to come, of many ranks to those that are sent something;
 * two more to these; a pass over what has come, or two to append, and what each
 * rank's bins hold to all. A rank alone packs nothing, and looks when it
 * combines or appends.
 *
 * Lua calls these functions through FFI (lua/celer/host/route.lua).
 * Threads: any; with a communicator its group's.
 */
#ifndef CEL_COMM_ROUTE_H
#define CEL_COMM_ROUTE_H

#ifndef CEL_CDEF /* the cdef of file.h has it */
#include "comm/communicator.h"
#endif

/* What items of this rank have pushed. */
typedef struct cel_route_slots {
  const char *at;      /* count and keys of the first item here */
  const char *values;  /* its values */
  int64_t step, pitch; /* bytes from an item to the next: of these and those */
  int64_t first;       /* its number among all items */
  int64_t items;
  int64_t most;   /* slots of an item */
  bool is_wide;   /* keys have 64 bits, not 32 */
  uint32_t bytes; /* of a value */
} cel_route_slots;

/* What keys lead to: rows, which ranks share evenly. */
typedef struct cel_route_keys {
  int64_t rows, row; /* keys in each */
} cel_route_keys;

/* What is wrong with what has been pushed; items by their numbers. */
typedef struct cel_route_fault {
  int64_t most, most_item; /* pushes of the item that has the most */
  int64_t key, item; /* the first one that leads nowhere; item < 0: none */
} cel_route_fault;

/* Of what has been pushed here. */
void cel_route_look(const cel_route_slots *slots, cel_route_fault *out);
/* Whether there is a mistake, where an item has so many slots. */
bool cel_route_is_fault(const cel_route_fault *fault, int64_t most);

/* What has come for this rank's keys, in the order of all items. A rank alone
 * takes it from the slots, where it lies. */
typedef struct cel_route_came {
  const cel_route_slots *slots; /* or null: */
  int64_t count;
  int64_t *key;
  char *value;
} cel_route_came;

/* Sends what was pushed. *fault becomes what is wrong on any rank, the same on
 * all: where that is a mistake, nothing has been sent, and *out is empty. A
 * rank alone learns that later. The caller releases *out, before the slots. All
 * ranks. */
cel_status cel_route_exchange(cel_comm *comm, const cel_route_slots *slots,
                              const cel_route_keys *keys,
                              cel_route_fault *fault, cel_route_came *out);
void cel_route_release(cel_route_came *came);

/* NAME of cel_op, name: how values are combined. */
typedef enum cel_route_op {
  CEL_ROUTE_SUM,
  CEL_ROUTE_PROD,
  CEL_ROUTE_MIN,
  CEL_ROUTE_MAX,
  CEL_ROUTE_AND,
  CEL_ROUTE_OR
} cel_route_op;

/* Numbers: 'i', 'u', 'f', or 'b'; bytes of each; how many an element has. */
typedef struct cel_route_type {
  cel_route_op op;
  int32_t class_, size, count;
} cel_route_type;

/* Values of an element that are combined one after the other; then what each
 * block of so many comes to is, in order. An element begins with what it holds,
 * or with the identity, and goes on with its first block. So GPUs take blocks
 * side by side (kernels/routed.cuh), and the bits are the same. */
enum { CEL_ROUTE_BLOCK = 64 };

/* Combines what came into this rank's elements at `into`, of which the first
 * has the key `first`. With an identity all of them, `n`, begin with it.
 * False where a rank alone finds a mistake: then they are as they were, or with
 * an identity have no meaning. */
bool cel_route_combine(const cel_route_came *came, const cel_route_type *type,
                       int64_t first, int64_t n, const void *identity,
                       void *into);

/* Bins one behind the other in a buffer of values, which ranks share evenly. */
typedef struct cel_route_bins {
  int64_t first, count; /* this rank's bins */
  int64_t room;         /* values that the buffer has */
  uint32_t bytes;       /* of a value */
  int64_t *offset;      /* where each of them begins; behind the last rank's the
                           end of all */
  void *values;         /* this rank's share */
  /* What bins hold, which comes first: this rank's share of it, perhaps where
   * `values` are, and how many values there is room for; 0: it is dropped. */
  const void *held;
  int64_t held_room;
} cel_route_bins;

/* Appends what came to the bins of all ranks. *total becomes how many values
 * there are then; where that exceeds the room, or is negative because a rank
 * alone finds a mistake, nothing has been written. Fails on all ranks alike.
 * All ranks. */
cel_status cel_route_append(cel_comm *comm, const cel_route_came *came,
                            const cel_route_bins *bins, int64_t *total);

#endif
