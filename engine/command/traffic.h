/* traffic.h -- what travels for a task, before it becomes commands.
 *
 * read.h finds it, coalesce.h puts some of it together, and exchange.h,
 * bcast_tree.h and message.h say what of it this rank gives and gets. Plain
 * records, so that these need not know one another. The holder owns it: zero
 * ... release. Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_TRAFFIC_H
#define CEL_COMMAND_TRAFFIC_H

#include "command/command.h"

/* A box that travels between this rank and a peer. */
typedef struct cel__transfer {
  int64_t order; /* of the peer among the peers of a task */
  int64_t peer;
  const cel_buffer *buffer;
  cel_box box;
} cel__transfer;

typedef CEL_VEC(cel__transfer) cel__transfers;

typedef struct cel__choice {
  cel_pattern pattern;
  int64_t root;
  bool pairs, wide; /* as in cel_exchange */
  bool some;        /* BROADCAST: not all ranks read it */
  int64_t subgroup; /* as in cel_exchange */
  int64_t most;     /* elements that some rank counts, or more */
  /* Representations of who has what (none: the root has all) and of who reads
   * what. */
  uint32_t have, read;
} cel__choice;

/* A box that all ranks exchange together. */
typedef struct cel__together {
  cel__choice choice;
  const cel_buffer *buffer;
  cel_box box;
  bool coalesced; /* with the one before it: see collective/coalesce.h */
} cel__together;

/* A box that one rank has and others pass on: collective/bcast_tree.h. */
typedef struct cel__bcast_tree {
  int64_t root;
  uint32_t read; /* the representation of who reads it, and reads all of it */
  const cel_buffer *buffer;
  cel_box box;
} cel__bcast_tree;

/* All that travels for a task. */
typedef struct cel__traffic {
  /* The same on all ranks, in order, as are the trees. */
  CEL_VEC(cel__together) together;
  cel__transfers sends, receives;
  CEL_VEC(cel__bcast_tree) trees;
} cel__traffic;

static inline void cel__traffic_clear(cel__traffic *traffic) {
  cel_vec_clear(&traffic->together);
  cel_vec_clear(&traffic->sends);
  cel_vec_clear(&traffic->receives);
  cel_vec_clear(&traffic->trees);
}

static inline void cel__traffic_release(cel__traffic *traffic) {
  cel_vec_release(&traffic->together);
  cel_vec_release(&traffic->sends);
  cel_vec_release(&traffic->receives);
  cel_vec_release(&traffic->trees);
}

#endif
