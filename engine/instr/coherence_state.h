/* coherence_state.h -- what coherence.h is made of.
 *
 *   coherence.c  where data is current, and copies to where it is needed
 *   alike.c      what several devices need alike
 */
#ifndef CEL_INSTR_COHERENCE_STATE_H
#define CEL_INSTR_COHERENCE_STATE_H

#include "instr/memory.h"
#include "region/map.h"

/* How data is copied. */
typedef struct cel__manner {
  int32_t priority;
  uint64_t from; /* memories preferred to others that have it, too */
  /* By memory: the last copy out of it, and into it, after which the next one
   * comes; null: they keep no order. */
  uint64_t *last_out, *last_in;
} cel__manner;

/* What several devices need alike and one of them has, or gets first. */
typedef struct cel__slice {
  cel_box box;
  int32_t owner; /* memory */
} cel__slice;

/* A box that is current in the memories `where`, of which some memory is none;
 * it is copied from one of `from`. */
typedef struct cel__lacking {
  cel_box box;
  uint64_t where, from;
} cel__lacking;

typedef CEL_VEC(cel__lacking) cel__lacking_list;

/* What the pieces of a run lack by one access: up to `end` of a list. */
typedef struct cel__lacking_run {
  const cel__touch *first;
  uint32_t end;
} cel__lacking_run;

/* Of one buffer. */
typedef struct cel__whereabouts {
  const cel_buffer *buffer; /* null: never mentioned, or freed */
  cel_map *current; /* box -> set of memories, as bits; 0: uninitialised */
  /* The same, where it is known; `ahead`: the map has still to be made so. */
  cel__outline *outline;
  bool ahead;
} cel__whereabouts;

typedef struct cel__coherence {
  const cel_instr_graph_config *config;
  int32_t count; /* of memories */
  cel__emission *emission;
  cel__memories *memories;
  cel__keeper keeper;                /* itself, as memory knows it */
  const cel__plan *plan;             /* the present command's */
  CEL_VEC(cel__whereabouts) buffers; /* by id */
  cel_map_entries found;     /* by a question that is answered at once */
  cel__lacking_list lacking; /* what a fetch is about */
  cel__lacking_list before;  /* of all runs, before the first copy */
  CEL_VEC(cel__lacking_run) runs;
  cel_region staged, fetched; /* what of it is made, or has one source */
  cel_region saved;           /* what has to be copied to the host */
  cel_region forgotten;
  CEL_VEC(cel_box) boxes; /* while a region is made of many */
  cel__outlines outlines; /* of maps */
  struct {
    cel_map_entries found;     /* where the data is */
    CEL_VEC(cel__slice) owned; /* what some device has */
    CEL_VEC(cel__slice) cut;   /* what its owner gets first */
  } alike;
} cel__coherence;

/* Of where an entry is current, the devices' memories. */
static inline uint64_t cel__devices_of(uint64_t where) {
  return where & ~(1ull << CEL_MEMORY_HOST | 1ull << CEL_MEMORY_ARRIVED |
                   1ull << CEL_MEMORY_INIT);
}
/* Makes a map at first mention, or what its outline says. */
cel_map *cel__coherence_renew(cel__coherence *all, const cel_buffer *buffer);
/* Where the parts of a buffer are current, to be asked and to be changed. */
static inline cel_map *cel__coherence_of(cel__coherence *all,
                                         const cel_buffer *buffer) {
  const cel__whereabouts *at = all->buffers.at + buffer->id;
  bool known = buffer->id < all->buffers.n && at->buffer != NULL;
  if (known && at->outline == NULL) return at->current;
  return cel__coherence_renew(all, buffer);
}
/* Makes `region` current in `memory`, where allocations cover it already. */
void cel__coherence_bring(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          const cel__manner *manner);
/* What of `region` is still initial contents, and not in `memory`, is made in
 * host memory. */
void cel__coherence_stage(cel__coherence *all, const cel_buffer *buffer,
                          int32_t memory, const cel_region *region,
                          int32_t priority);
/* Copies what several devices need alike so that as much leaves each of them,
 * where it is much; what is left is still to be brought. alike.c */
void cel__alike_fetch(cel__coherence *all, int32_t priority);

#endif
