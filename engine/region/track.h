/* track.h -- from reads and writes in program order to dependencies.
 *
 * One tracker serves one box-shaped thing: a buffer in the task graph, a buffer
 * on this rank in the command graph, an allocation in the instruction graph.
 * It is told, node by node in ascending id order, which boxes the node reads
 * and writes, and answers which earlier nodes it must come after:
 *
 *   true     it reads what that node wrote last
 *   anti     it overwrites what that node reads
 *   output   it overwrites what that node wrote and nobody read since
 *
 * For one node, report all of its reads before its writes. A node never depends
 * on itself.
 *
 * Horizons: cel_track_floor(t, id) replaces every tracked id below `id` by
 * `id`, and merges: what the talk on Celerity calls applying a horizon, without
 * a walk over the graph. The id 0 means "nobody": a read of it gives no
 * dependency and sets `uninitialised`; the floor leaves it alone.
 *
 * Invariant: what is tracked is bounded by the accesses since the floor.
 * Cost: O(log n + hits) per box; floor O(n). Confined. Pure.
 */
#ifndef CEL_REGION_TRACK_H
#define CEL_REGION_TRACK_H

#include "region/region.h"

typedef struct cel_track cel_track;

/* The caller owns it; zero to begin. */
typedef struct cel_track_words {
  uint64_t *at;
  uint32_t n, cap;
} cel_track_words;

typedef enum cel_dep_kind {
  CEL_DEP_TRUE,
  CEL_DEP_ANTI,
  CEL_DEP_OUTPUT,
  CEL_DEP_ORDER /* serialisation by horizons and epochs; made by graphs */
} cel_dep_kind;

typedef struct cel_dep {
  uint64_t id;
  cel_dep_kind kind;
} cel_dep;

/* A set of dependencies in ascending order of ids, each once (the strongest
 * kind, the lowest in the enum, stays). The caller owns it; zero to begin. */
typedef struct cel_deps {
  cel_dep *at;
  uint32_t n, cap;
  bool uninitialised; /* some box read was never written */
} cel_deps;

/* `written_by` is the id that counts as the first writer of all, or 0. */
cel_track *cel_track_create(const cel_box *extent, uint64_t written_by);
void cel_track_destroy(cel_track *track);
/* Node `id` reads `box`: adds true dependencies to *deps. */
void cel_track_read(cel_track *track, const cel_box *box, uint64_t id,
                    cel_deps *deps);
/* Node `id` writes `box`: adds anti and output dependencies to *deps. */
void cel_track_write(cel_track *track, const cel_box *box, uint64_t id,
                     cel_deps *deps);
/* Both: reads `box`, then writes it, where the node touches nothing else. */
void cel_track_update(cel_track *track, const cel_box *box, uint64_t id,
                      cel_deps *deps);
/* Only asks: everybody whose access is still remembered there, readers and
 * writers: what freeing the memory must come after. */
void cel_track_users(cel_track *track, const cel_box *box, cel_deps *deps);
/* Ids below `id` become `id` (0 stays 0). */
void cel_track_floor(cel_track *track, uint64_t id);
/* What the tracker knows, as words, into *out: for each entry, in ascending
 * order of boxes, the six bounds, the writer, how many readers, and these, the
 * newest first. Loaded again it gives the same dependencies. */
void cel_track_save(const cel_track *track, cel_track_words *out);
void cel_track_load(cel_track *track, const cel_track_words *words);
/* Entries held: bounded, see above. */
uint32_t cel_track_count(const cel_track *track);

void cel_deps_add(cel_deps *deps, uint64_t id, cel_dep_kind kind);
void cel_deps_clear(cel_deps *deps);
void cel_deps_release(cel_deps *deps);

#endif
