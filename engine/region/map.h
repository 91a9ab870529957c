/* map.h -- a total map from a box to 64-bit values.
 *
 * The one structure on every hot path: who wrote this last, where is it valid,
 * which version is it.
 *
 * Invariants: entries are disjoint and cover the extent exactly; an update
 * leaves no two face-adjacent entries of equal value that could form a box
 * (near the update); a query returns entries clipped to the box asked; what
 * the entries are depends on which values are equal, not on what they are.
 * Cost: O(log n + hits) for query and update.
 * The holder owns it: create ... destroy. Confined. Pure.
 */
#ifndef CEL_REGION_MAP_H
#define CEL_REGION_MAP_H

#include "region/region.h"

typedef struct cel_map cel_map;

/* Every point of `extent` maps to `value`. An empty extent is allowed. */
cel_map *cel_map_create(const cel_box *extent, uint64_t value);
void cel_map_destroy(cel_map *map);
/* Points of `box` (clipped to the extent) map to `value` from now on. */
void cel_map_update(cel_map *map, const cel_box *box, uint64_t value);
/* The same; tells `seen` the value of each entry that meets the box, in any
 * order, before it changes. */
void cel_map_replace(cel_map *map, const cel_box *box, uint64_t value,
                     void (*seen)(uint64_t, void *), void *context);
/* Tells `seen` the value of each entry that meets `box`, in any order. */
void cel_map_visit(const cel_map *map, const cel_box *box,
                   void (*seen)(uint64_t, void *), void *context);
/* Appends nothing: *out becomes the entries that meet `box`, clipped to it, in
 * ascending box order. */
void cel_map_query(const cel_map *map, const cel_box *box,
                   cel_map_entries *out);
/* The entry that holds `point`, whole; false outside of the extent. */
bool cel_map_at(const cel_map *map, const int64_t point[3], cel_map_entry *out);
/* Whether one entry holds all of `box`; *value is then its. */
bool cel_map_holds(const cel_map *map, const cel_box *box, uint64_t *value);
/* Replaces each value v within `box` by fn(v, context), once per entry, in
 * an order that only the changes so far decide. */
void cel_map_change(cel_map *map, const cel_box *box,
                    uint64_t (*fn)(uint64_t, void *), void *context);
/* Replaces each value v by fn(v, context) and merges what became equal. */
void cel_map_rewrite(cel_map *map, uint64_t (*fn)(uint64_t, void *),
                     void *context);
uint32_t cel_map_count(const cel_map *map);
const cel_box *cel_map_extent(const cel_map *map);
void cel_map_entries_release(cel_map_entries *entries);
/* Asserts the invariants. */
void cel_map_check(const cel_map *map);

#endif
