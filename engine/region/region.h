/* region.h -- sets of points as disjoint boxes in one canonical form.
 *
 * Canonical form: slab decomposition. Cut along dimension 0 at every coordinate
 * where the cross-section changes, fuse neighbouring slabs of equal
 * cross-section, and treat each cross-section likewise in dimension 1, then 2;
 * list slabs in ascending order.
 *
 * Invariants: boxes are non-empty, disjoint and in canonical form, so two
 * regions hold the same points iff their lists are equal, box by box.
 * Cost: O(n log n) for building from n boxes in one dimension; operations on
 * single boxes take a fast path without allocation.
 * The holder owns a region: init (or zero) ... release. Confined. Pure.
 *
 *   cel_region r = {0};
 *   cel_region_add(&r, &box);
 *   for (uint32_t i = 0; i < r.n; ++i) use(&r.at[i]);
 *   cel_region_release(&r);
 */
#ifndef CEL_REGION_REGION_H
#define CEL_REGION_REGION_H

#include "region/box.h"

typedef struct cel_region {
  cel_box *at;
  uint32_t n, cap;
} cel_region;

void cel_region_release(cel_region *r);
/* Empties it and keeps the room. */
void cel_region_clear(cel_region *r);
/* Becomes the union of `n` boxes, which may overlap or be empty. `boxes` must
 * not point into r. */
void cel_region_assign(cel_region *r, const cel_box *boxes, uint32_t n);
/* The same, but false, and nothing, where that is more than `most` boxes. */
bool cel_region_assign_most(cel_region *r, const cel_box *boxes, uint32_t n,
                            uint32_t most);
void cel_region_copy(cel_region *out, const cel_region *a);

/* out becomes the result; out may be a (or b). */
void cel_region_unite(cel_region *out, const cel_region *a,
                      const cel_region *b);
void cel_region_intersect(cel_region *out, const cel_region *a,
                          const cel_region *b);
void cel_region_subtract(cel_region *out, const cel_region *a,
                         const cel_region *b);

/* In place, with one box. */
void cel_region_add(cel_region *r, const cel_box *box);
void cel_region_clip(cel_region *r, const cel_box *box);
void cel_region_remove(cel_region *r, const cel_box *box);

bool cel_region_equal(const cel_region *a, const cel_region *b);
bool cel_region_covers_box(const cel_region *r, const cel_box *box);
bool cel_region_meets_box(const cel_region *r, const cel_box *box);
/* The smallest box around all; the zero box when empty. */
cel_box cel_region_hull(const cel_region *r);
int64_t cel_region_volume(const cel_region *r);

/* Asserts the invariants. */
void cel_region_check(const cel_region *r);

/* A box of a map (map.h), and the value of its points. */
typedef struct cel_map_entry {
  cel_box box;
  uint64_t value;
} cel_map_entry;

/* Results of a query; the caller owns it (zero to begin) and may reuse it. */
typedef struct cel_map_entries {
  cel_map_entry *at;
  uint32_t n, cap;
} cel_map_entries;

#endif
