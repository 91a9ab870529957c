/* own.h -- who owns and who holds each part of a buffer, as functions of the
 * rank.
 *
 * Per buffer a region map from boxes to *versions*. A version says who wrote
 * last (everyone alike, one rank, or a representation that partitions the
 * entry) and who has received it since (replications). The state is identical
 * on all ranks, but for the ids in it, and never depends on who asks.
 *
 * Invariants:
 * 1. on an entry, owner(k) and the union of the replications at k are exactly
 *    what rank k wrote last and holds fresh, or less after a replication was
 *    forgotten, which none is while the reads of a task are looked at;
 * 2. what k lacks is the same whoever computes it, so both ends of a transfer
 *    name the same boxes;
 * 3. whether two ids are equal decides things, what they are does not: ids
 *    come and go with sweeps, and a rank's sweeps with when its buffers are
 *    freed, which a garbage collector decides for each rank by itself;
 * 4. reading splits entries at constants of the rule alone, never at chunks.
 * Cost: per read O(entries met * (log ranks + peers)); a repeated read is one
 * look-up. Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_OWN_OWN_H
#define CEL_COMMAND_OWN_OWN_H

#include "command/own/footprint.h"
#include "command/traffic.h"
#include "region/map.h"

typedef enum cel__owner_kind {
  CEL__EVERYONE, /* fresh on every rank; no replications then */
  CEL__ONE_RANK,
  CEL__BY_REP /* a representation, not a listed one */
} cel__owner_kind;

/* The age of replications decides which one is forgotten, so it is part of
 * what a version is: the same ones in another order are another version. There
 * are at most `cap` of them, and more only while a task's reads are looked
 * at. */
typedef struct cel__version {
  cel__interned head;
  uint32_t owner_kind, owner; /* rank or representation */
  uint32_t reps;
  uint32_t rep[]; /* oldest first */
} cel__version;

/* A part of a buffer that has been given more replications than are kept. */
typedef struct cel__surplus {
  cel_map *map;
  cel_box box;
} cel__surplus;

enum {
  CEL__AFTERS = 256,
  CEL__CHOSEN = 8,
  CEL__GIVEN = 16,
  CEL__GIVEN_MOST = 6
};

/* How many elements of something a rank owns. */
typedef struct cel__holding {
  int64_t rank, elements;
} cel__holding;

typedef struct cel__own {
  int64_t me, ranks;
  uint32_t cap;     /* replications per version */
  bool collectives; /* are looked for */
  cel_collective_limits collective;
  bool (*join)(void *context); /* as in the configuration; null: was asked */
  void *context;
  bool messages_else;             /* likewise */
  int64_t count_most, tree_least; /* as in the configuration */
  bool several_hosts;
  uint64_t small; /* bytes of a box that is rather packed than sent alone */
  cel__reps reps;
  cel__interner versions;
  /* version + representation read -> version; direct-mapped */
  struct cel__after {
    uint32_t version, rep, after;
  } * afters;
  uint32_t after_slots;
  /* What was found of reads of an entry, for loops; direct-mapped. */
  struct cel__chosen {
    uint32_t version, rep;
    bool tiles;
    uint64_t size; /* of an element */
    cel_box extent, box;
    cel__choice choice;
  } chosen[CEL__CHOSEN];
  /* What this rank gives and gets where an entry is read, if that is not much;
   * null until it is asked for. */
  struct cel__given {
    uint32_t version, rep;
    cel_box box;
    uint32_t sends, receives;
    struct {
      int64_t order, peer;
      cel_box box;
    } at[CEL__GIVEN_MOST]; /* what it sends first */
  } * given;
  uint32_t sweep_least, sweep_at; /* versions and representations held */
  uint64_t sweep_at_bytes;        /* of representations */
  CEL_VEC(cel__surplus) surplus;  /* until the task's reads are done */
  cel_map_entries entries;        /* scratch, as all below */
  CEL_VEC(cel_map_entry) changes;
  cel__boxes lacks, rest, mine, fresh;
  CEL_VEC(uint32_t) kept; /* replications */
  CEL_VEC(cel__holding) holdings;
} cel__own;

/* Before a collective between devices: whether it can be, for which all ranks
 * start them now. If not, there are none any more. */
bool cel__own_join(cel__own *own);

void cel__own_init(cel__own *own, int64_t me, int64_t ranks, uint32_t cap);
void cel__own_release(cel__own *own);

/* Values of a buffer's map: 0 is uninitialised. */
enum { CEL__UNINITIALISED = 0 };
uint64_t cel__own_everyone(cel__own *own);

static inline const cel__version *cel__own_version(const cel__own *own,
                                                   uint32_t id) {
  return cel__interner_at(&own->versions, id);
}

/* The version after all have read their part of `rep`; the same one when they
 * have it already, so that nothing has to travel. */
uint32_t cel__own_after_reading(cel__own *own, uint32_t version, uint32_t rep);
/* Gives the entries in own->changes their new versions, and empties it. */
void cel__own_change(cel__own *own, cel_map *map);
/* After all reads of a task: forgets the oldest replications beyond `cap`, so
 * that what they brought is sent again when a later task reads it. Not before,
 * or what one box of the task has brought, or what a rank had, would be sent
 * for another box. */
void cel__own_forget(cel__own *own);
/* What rank k wrote of `within`, which is of version v: one box; false when it
 * is none. Not of what everyone has. */
bool cel__own_part(const cel__own *own, const cel__version *v, int64_t k,
                   const cel_box *within, cel_box *out);
/* The rank that has all of `box`, which is of version v, or -1. An entry may
 * lie within one rank's part. Not of what everyone has. */
int64_t cel__own_sole(const cel__own *own, const cel__version *v,
                      const cel_box *box);
/* What rank k reads by `rep` of `box`, which is of version v, and does not
 * hold; borrowed until the next call. */
const cel__boxes *cel__own_lacks(cel__own *own, const cel__version *v,
                                 uint32_t rep, int64_t k, const cel_box *box);
/* How many elements that is. */
int64_t cel__own_lacked(cel__own *own, const cel__version *v, uint32_t rep,
                        int64_t k, const cel_box *box);

/* The rank that owns most of `box`, the lowest of several; of what all have, or
 * none, nobody does. 0 where that is all of it. O(entries met * peers). */
int64_t cel__own_most(cel__own *own, const cel_map *map, const cel_box *box);

/* The task has written `footprint`: each rank its own part. */
void cel__own_write(cel__own *own, cel_map *map, const cel__footprints *all,
                    const cel__footprint *footprint);
/* Every rank has written all of it, alike. */
void cel__own_write_alike(cel__own *own, cel_map *map,
                          const cel__footprint *footprint);

/* Between tasks: whether there is so much that a sweep is due; then mark every
 * map in use, and sweep. Footprints must be cleared with it. */
bool cel__own_crowded(const cel__own *own);
void cel__own_mark(cel__own *own, const cel_map *map);
void cel__own_sweep(cel__own *own);
/* Replications held in a map, for the growth specs. */
uint64_t cel__own_replications(const cel__own *own, const cel_map *map);
uint64_t cel__own_bytes(const cel__own *own);
/* Asserts what must hold of a map between tasks: its values are versions that
 * live and differ, with at most `cap` replications, none twice; what everyone
 * has has none. The parts of an owner that is a representation tile their
 * entry, and each rank with a part is found by inverting it; tried for few
 * ranks. O(entries * ranks^2). Debug builds run it after each task. */
void cel__own_check(cel__own *own, const cel_map *map);

#endif
