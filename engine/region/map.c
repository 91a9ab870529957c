#include "region/map.h"

#include <stddef.h>
#include <string.h>

#include "base/sort.h"
#include "base/vec.h"
#include "region/tree.h"

struct cel_map {
  cel_box extent;
  cel_map_entries old;  /* scratch: entries taken out by an update */
  cel_map_entries made; /* scratch: entries whose neighbours are to be tried */
  cel_map_entries hits; /* scratch: entries to be changed */
  /* No entry has a value above the one of its parity. Trackers' values ascend
   * in two series, writers and readers: what is new has no partner. */
  uint64_t highest[2];
  cel_tree tree;
};

/* Trackers and allocations come and go, each with a map: glibc keeps what was
 * freed of up to so much at hand. */
_Static_assert(sizeof(struct cel_map) <= 1032, "a map is made fast");

/* Joining pairs can end in a pattern of many entries of one value. So a map
 * that has grown or shrunk this many times over is put together afresh, which
 * costs O(log n) per update; small maps never are. */
enum { REGROUP_GROWTH = 2, REGROUP_LEAST = 128 };

cel_map *cel_map_create(const cel_box *extent, uint64_t value) {
  cel_map *map = cel_alloc(sizeof *map);
  memset(map, 0, offsetof(cel_map, tree));
  cel__tree_init(&map->tree);
  map->tree.tidy_at = REGROUP_LEAST;
  map->highest[value & 1] = value;
  if (!cel_box_is_empty(extent)) {
    map->extent = *extent;
    cel__tree_insert(&map->tree, extent, value);
  }
  return map;
}

void cel_map_destroy(cel_map *map) {
  if (!map) return;
  cel__tree_release(&map->tree);
  cel_map_entries_release(&map->old);
  cel_map_entries_release(&map->made);
  cel_map_entries_release(&map->hits);
  cel_free(map);
}

uint32_t cel_map_count(const cel_map *map) {
  return map->tree.count;
}

const cel_box *cel_map_extent(const cel_map *map) {
  return &map->extent;
}

void cel_map_entries_release(cel_map_entries *entries) {
  cel_vec_release(entries);
}

/* --------------------------------------------------------------- merging */

/* cel_box_covers for boxes that are not empty. */
static inline bool within(const cel_box *inner, const cel_box *outer) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (inner->min[d] < outer->min[d] || inner->max[d] > outer->max[d])
      return false;
  return true;
}

static inline bool same_section(const cel_box *a, const cel_box *b, int d) {
  for (int e = 0; e < CEL_DIMS; ++e)
    if (e != d && (a->min[e] != b->min[e] || a->max[e] != b->max[e]))
      return false;
  return true;
}

static inline bool touches(const cel_box *a, const cel_box *b) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->min[d] > b->max[d] || b->min[d] > a->max[d]) return false;
  return true;
}

/* Which face of x the box y shares, so that both together are a box: in the
 * order in which faces are tried, or FACES. */
enum { FACES = 2 * CEL_DIMS };

static int shared_face(const cel_box *x, const cel_box *y) {
  int d = 0;
  while (x->min[d] == y->min[d] && x->max[d] == y->max[d])
    if (++d == CEL_DIMS) return FACES; /* the same box */
  if (!same_section(x, y, d)) return FACES;
  if (y->max[d] == x->min[d]) return 2 * d;
  return y->min[d] == x->max[d] ? 2 * d + 1 : FACES;
}

/* The entry that makes a box of one value with the one at `at`, the first in
 * the order of faces; a null leaf: there is none. */
typedef struct search {
  cel_tree_position at, found;
  int face;
} search;

/* Values lie side by side, and few if any of the others have this one. */
static void look_in_leaf(search *s, cel_tree_node *leaf) {
  uint64_t value = s->at.leaf->value[s->at.i];
  for (uint32_t i = 0; i < leaf->n; ++i) {
    if (leaf->value[i] != value) continue;
    int face = shared_face(&s->at.leaf->box[s->at.i], &leaf->box[i]);
    if (face >= s->face) continue;
    s->face = face;
    s->found = (cel_tree_position){leaf, i};
  }
}

static void look_near(search *s, cel_tree_node *node) {
  if (node->height == 0) {
    look_in_leaf(s, node);
    return;
  }
  const cel_box *x = &s->at.leaf->box[s->at.i];
  for (uint32_t i = 0; i < node->n; ++i)
    if (touches(x, &node->box[i])) look_near(s, node->child[i]);
}

static cel_tree_position partner(const cel_map *map, cel_tree_position at) {
  search s = {.at = at, .face = FACES};
  look_near(&s, map->tree.root);
  return s.found;
}

/* Makes one entry of two; returns it. */
static cel_tree_position join(cel_map *map, cel_tree_position x,
                              cel_tree_position y) {
  cel_box both = cel_box_hull(&x.leaf->box[x.i], &y.leaf->box[y.i]);
  if (x.leaf == y.leaf) {
    /* The lower of the two begins where both do: the order stays. */
    uint32_t low = x.i < y.i ? x.i : y.i, high = x.i < y.i ? y.i : x.i;
    x.leaf->box[low] = both;
    cel__leaf_remove(&map->tree, x.leaf, high);
    return (cel_tree_position){x.leaf, low};
  }
  uint64_t value = x.leaf->value[x.i];
  map->old.n = 0;
  cel__tree_extract(&map->tree, &both, &map->old);
  cel__tree_insert(&map->tree, &both, value);
  return cel__tree_find(&map->tree, both.min, NULL);
}

/* Joins the entry with neighbours for as long as there is a partner. Returns
 * whether leaves stayed as they were. */
static bool settle_at(cel_map *map, cel_tree_position at) {
  bool stayed = true;
  for (;;) {
    cel_tree_position y = partner(map, at);
    if (!y.leaf) return stayed;
    stayed = stayed && y.leaf == at.leaf;
    at = join(map, at, y);
  }
}

/* Whether more than n entries have the value; or there are too many to ask. */
static bool more_have(const cel_map *map, uint64_t value, uint32_t n) {
  const cel_tree_node *leaf = map->tree.root;
  uint32_t have = 0;
  if (leaf->height > 0) return true;
  for (uint32_t i = 0; i < leaf->n; ++i) have += leaf->value[i] == value;
  return have > n;
}

/* The same for an entry that may have been joined to another since, probably
 * in the leaf `near`, or null. Returns a leaf that is safe to look into next,
 * or null. */
static cel_tree_node *settle(cel_map *map, const cel_map_entry *entry,
                             cel_tree_node *near) {
  const cel_box *box = &entry->box;
  if (!more_have(map, entry->value, 1)) return near;
  cel_tree_position at = cel__tree_find(&map->tree, box->min, near);
  if (!cel_box_equal(&at.leaf->box[at.i], box)) return near;
  return settle_at(map, at) ? near : NULL;
}

/* ------------------------------------------------------------ regrouping */

static int by_box(const void *a, const void *b) {
  return cel_box_compare(&((const cel_map_entry *)a)->box,
                         &((const cel_map_entry *)b)->box);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = ((const cel_map_entry *)a)->value;
  uint64_t y = ((const cel_map_entry *)b)->value;
  return x != y ? (x < y ? -1 : 1) : by_box(a, b);
}

/* Replaces entries of one value by the canonical boxes of their union, in
 * place; returns how many there are now, or n if there would be more. */
static uint32_t regroup_value(cel_map_entry *at, uint32_t n, cel_region *region,
                              cel_box *boxes) {
  for (uint32_t i = 0; i < n; ++i) boxes[i] = at[i].box;
  cel_region_assign(region, boxes, n);
  if (region->n >= n) return n;
  for (uint32_t i = 0; i < region->n; ++i) at[i].box = region->at[i];
  return region->n;
}

/* Brings the entries of each value, sorted by it, into canonical form where
 * that is fewer. */
static void regroup_values(cel_map_entries *all) {
  cel_box *boxes = cel_alloc(all->n * sizeof *boxes);
  cel_region region = {0};
  uint32_t n = 0;
  for (uint32_t i = 0, end; i < all->n; i = end) {
    for (end = i + 1; end < all->n && all->at[end].value == all->at[i].value;)
      ++end;
    uint32_t left = end - i;
    if (left > 1) left = regroup_value(&all->at[i], left, &region, boxes);
    memmove(&all->at[n], &all->at[i], left * sizeof *all->at);
    n += left;
  }
  all->n = n;
  cel_free(boxes);
  cel_region_release(&region);
}

/* How many entries have a value; of an open hash table. */
typedef struct tally {
  uint64_t value;
  uint32_t n; /* 0: a free slot */
} tally;

static tally *tally_of(tally *slots, uint32_t n_slots, uint64_t value) {
  uint32_t i = (uint32_t)(value * 0x9e3779b97f4a7c15u >> 32) & (n_slots - 1);
  while (slots[i].n != 0 && slots[i].value != value)
    i = (i + 1) & (n_slots - 1);
  return &slots[i];
}

/* Moves the entries whose value another one has, too. */
static void take_shared(cel_map_entries *all, cel_map_entries *shared) {
  uint32_t n_slots = 64, left = 0;
  while (n_slots < 2 * all->n) n_slots *= 2;
  tally *slots = cel_alloc_zero(n_slots * sizeof *slots);
  for (uint32_t i = 0; i < all->n; ++i) {
    tally *t = tally_of(slots, n_slots, all->at[i].value);
    *t = (tally){all->at[i].value, t->n + 1};
  }
  shared->n = 0;
  for (uint32_t i = 0; i < all->n; ++i) {
    if (tally_of(slots, n_slots, all->at[i].value)->n > 1)
      cel_vec_push(shared, all->at[i]);
    else
      all->at[left++] = all->at[i];
  }
  all->n = left;
  cel_free(slots);
}

/* Leaves are in order, and mostly so is the whole. */
static void sort_by_box(cel_map_entries *entries) {
  for (uint32_t i = 1; i < entries->n; ++i)
    if (by_box(&entries->at[i - 1], &entries->at[i]) > 0) {
      cel_sort(entries->at, entries->n, sizeof *entries->at, by_box);
      return;
    }
}

/* The tree of these alone, made in the order of boxes: that of values means
 * nothing. */
static void plant(cel_map *map, cel_map_entries *all) {
  sort_by_box(all);
  cel__tree_release(&map->tree);
  cel__tree_init(&map->tree);
  for (uint32_t i = 0; i < all->n; ++i)
    cel__tree_insert(&map->tree, &all->at[i].box, all->at[i].value);
}

/* `rewritten`: values have changed, so any two entries of one may be partners.
 * After a floor most values are an entry's own. */
static void regroup(cel_map *map, bool rewritten) {
  cel_map_entries *all = &map->made, *shared = &map->hits;
  all->n = 0;
  cel__tree_collect(&map->tree, &map->extent, all);
  take_shared(all, shared);
  uint32_t before = shared->n;
  if (before > 0) {
    cel_sort(shared->at, before, sizeof *shared->at, by_value);
    regroup_values(shared);
    sort_by_box(shared);
  }
  bool fewer = shared->n < before;
  if (fewer) {
    for (uint32_t i = 0; i < shared->n; ++i) cel_vec_push(all, shared->at[i]);
    plant(map, all);
  }
  /* The canonical form may leave partners in neighbouring slabs. */
  if (fewer || rewritten)
    for (uint32_t i = 0; i < shared->n; ++i) settle(map, &shared->at[i], NULL);
  map->tree.tidy_at = map->tree.count * REGROUP_GROWTH;
  if (map->tree.tidy_at < REGROUP_LEAST) map->tree.tidy_at = REGROUP_LEAST;
}

/* -------------------------------------------------------------- updating */

/* Notes that an entry is to have the value; whether none has it yet. */
static bool is_new(cel_map *map, uint64_t value) {
  uint64_t *highest = &map->highest[value & 1];
  if (value <= *highest) return false;
  *highest = value;
  return true;
}

/* One entry covers the box. */
static void overwrite_part(cel_map *map, cel_tree_position at,
                           const cel_box *box, uint64_t value) {
  uint64_t old = at.leaf->value[at.i];
  if (old == value) return;
  bool lone = is_new(map, value);
  if (cel_box_equal(&at.leaf->box[at.i], box)) {
    at.leaf->value[at.i] = value;
    if (!lone) settle_at(map, at);
    return;
  }
  cel_box rest[6], whole = at.leaf->box[at.i];
  cel_map_entry parts[7];
  parts[0] = (cel_map_entry){*box, value};
  uint32_t n = 1 + (uint32_t)cel_box_subtract(&whole, box, rest);
  for (uint32_t i = 1; i < n; ++i) parts[i] = (cel_map_entry){rest[i - 1], old};
  cel__tree_divide(&map->tree, at, parts, n);
  /* No two parts are partners. A split keeps the lower half in the leaf. */
  cel_tree_node *near = at.leaf;
  if (!lone) near = settle(map, &parts[0], near);
  if (!more_have(map, old, n - 1)) return;
  for (uint32_t i = 1; i < n; ++i) near = settle(map, &parts[i], near);
}

/* Appends what is left of an entry outside `box`. */
static void push_rest(cel_map_entries *out, const cel_box *entry,
                      const cel_box *box, uint64_t value) {
  if (within(entry, box)) return;
  cel_box rest[6];
  int n = cel_box_subtract(entry, box, rest);
  for (int i = 0; i < n; ++i)
    cel_vec_push(out, (cel_map_entry){rest[i], value});
}

/* All entries that meet the box are in one leaf: whatever becomes of them has
 * the same union. False, and nothing done, if that does not fit. */
static bool overwrite_in_leaf(cel_map *map, cel_tree_node *leaf,
                              const cel_box *box, uint64_t value) {
  cel_map_entries *made = &map->made;
  uint32_t met = 0, n = 0;
  for (uint32_t i = 0; i < leaf->n; ++i) {
    if (!cel__boxes_meet(&leaf->box[i], box)) continue;
    push_rest(made, &leaf->box[i], box, leaf->value[i]);
    met |= 1u << i;
    ++n;
  }
  if (leaf->n - n + 1 + made->n > CEL__TREE_FAN) {
    made->n = 0;
    return false;
  }
  cel__leaf_remove_all(&map->tree, leaf, met);
  cel__leaf_insert(&map->tree, leaf, box, value);
  for (uint32_t i = 0; i < made->n; ++i)
    cel__leaf_insert(&map->tree, leaf, &made->at[i].box, made->at[i].value);
  return true;
}

static void overwrite_anywhere(cel_map *map, const cel_box *box,
                               uint64_t value) {
  cel_map_entries *old = &map->old, *made = &map->made;
  old->n = 0;
  cel__tree_extract(&map->tree, box, old);
  cel__tree_insert(&map->tree, box, value);
  for (uint32_t i = 0; i < old->n; ++i)
    push_rest(made, &old->at[i].box, box, old->at[i].value);
  for (uint32_t i = 0; i < made->n; ++i)
    cel__tree_insert(&map->tree, &made->at[i].box, made->at[i].value);
}

/* The box meets several entries. */
static void overwrite_many(cel_map *map, const cel_box *box, uint64_t value) {
  cel_map_entries *made = &map->made;
  bool lone = is_new(map, value);
  cel_tree_probe seen = {.leaf = map->tree.root, .one_leaf = true};
  if (seen.leaf->height > 0 || !lone)
    seen = cel__tree_probe(&map->tree, box, value);
  if (seen.uniform) return;
  made->n = 0;
  cel_tree_node *near = seen.leaf;
  if (!seen.one_leaf || !overwrite_in_leaf(map, near, box, value)) {
    overwrite_anywhere(map, box, value);
    near = NULL;
  }
  if (!lone) near = settle(map, &(cel_map_entry){*box, value}, near);
  for (uint32_t i = 0; i < made->n; ++i) near = settle(map, &made->at[i], near);
}

static void keep_tidy(cel_map *map) {
  uint32_t n = map->tree.count, high = map->tree.tidy_at;
  uint32_t low = high / (REGROUP_GROWTH * REGROUP_GROWTH);
  if (n > high || (n < low && high > REGROUP_LEAST)) regroup(map, false);
}

/* The part of `asked` within the extent, `clipped` if it is not all; null if
 * there is none. */
static const cel_box *clip(const cel_map *map, const cel_box *asked,
                           cel_box *clipped) {
  if (within(asked, &map->extent) && !cel_box_is_empty(asked)) return asked;
  return cel_box_intersect(asked, &map->extent, clipped) ? clipped : NULL;
}

void cel_map_update(cel_map *map, const cel_box *asked, uint64_t value) {
  cel_box clipped;
  const cel_box *box = clip(map, asked, &clipped);
  if (box == NULL) return;
  cel_tree_position at = cel__tree_find(&map->tree, box->min, NULL);
  if (within(box, &at.leaf->box[at.i]))
    overwrite_part(map, at, box, value);
  else
    overwrite_many(map, box, value);
  keep_tidy(map);
}

void cel_map_replace(cel_map *map, const cel_box *asked, uint64_t value,
                     void (*seen)(uint64_t, void *), void *context) {
  cel_box clipped;
  const cel_box *box = clip(map, asked, &clipped);
  if (box == NULL) return;
  cel_tree_position at = cel__tree_find(&map->tree, box->min, NULL);
  if (within(box, &at.leaf->box[at.i])) {
    seen(at.leaf->value[at.i], context);
    overwrite_part(map, at, box, value);
  } else {
    cel__tree_visit(&map->tree, box, seen, context);
    overwrite_many(map, box, value);
  }
  keep_tidy(map);
}

typedef struct change {
  cel_map *map;
  const cel_box *box;
  uint64_t (*fn)(uint64_t, void *);
  void *context;
} change;

/* Changes the values of entries within the box in their places, of which those
 * that may have partners now go to `made`; what is cut by it goes to `hits`. */
static void change_below(const change *c, cel_tree_node *node) {
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!cel__boxes_meet(&node->box[i], c->box)) continue;
    if (node->height > 0) {
      change_below(c, node->child[i]);
      continue;
    }
    cel_map_entry entry = {node->box[i], node->value[i]};
    if (!within(&entry.box, c->box)) {
      cel_box_intersect(&node->box[i], c->box, &entry.box);
      cel_vec_push(&c->map->hits, entry);
      continue;
    }
    entry.value = c->fn(node->value[i], c->context);
    if (entry.value == node->value[i]) continue;
    node->value[i] = entry.value;
    if (!is_new(c->map, entry.value)) cel_vec_push(&c->map->made, entry);
  }
}

void cel_map_change(cel_map *map, const cel_box *asked,
                    uint64_t (*fn)(uint64_t, void *), void *context) {
  cel_box clipped;
  const cel_box *box = clip(map, asked, &clipped);
  if (box == NULL) return;
  cel_tree_position at = cel__tree_find(&map->tree, box->min, NULL);
  if (within(box, &at.leaf->box[at.i])) {
    overwrite_part(map, at, box, fn(at.leaf->value[at.i], context));
    keep_tidy(map);
    return;
  }
  map->hits.n = map->made.n = 0;
  change_below(&(change){map, box, fn, context}, map->tree.root);
  sort_by_box(&map->made);
  for (uint32_t i = 0; i < map->made.n; ++i)
    settle(map, &map->made.at[i], NULL);
  sort_by_box(&map->hits);
  for (uint32_t i = 0; i < map->hits.n; ++i) {
    const cel_map_entry *hit = &map->hits.at[i];
    cel_tree_position there = cel__tree_find(&map->tree, hit->box.min, NULL);
    cel_assert(within(&hit->box, &there.leaf->box[there.i]));
    overwrite_part(map, there, &hit->box, fn(hit->value, context));
  }
  keep_tidy(map);
}

/* ------------------------------------------------- querying and rewriting */

void cel_map_visit(const cel_map *map, const cel_box *box,
                   void (*seen)(uint64_t, void *), void *context) {
  if (!cel_box_is_empty(box)) cel__tree_visit(&map->tree, box, seen, context);
}

void cel_map_query(const cel_map *map, const cel_box *box,
                   cel_map_entries *out) {
  out->n = 0;
  if (cel_box_is_empty(box)) return;
  cel__tree_collect(&map->tree, box, out);
  sort_by_box(out);
}

bool cel_map_holds(const cel_map *map, const cel_box *box, uint64_t *value) {
  if (cel_box_is_empty(box) || !cel__box_holds(&map->extent, box->min))
    return false;
  cel_tree_position at = cel__tree_find(&map->tree, box->min, NULL);
  *value = at.leaf->value[at.i];
  return within(box, &at.leaf->box[at.i]);
}

bool cel_map_at(const cel_map *map, const int64_t point[3],
                cel_map_entry *out) {
  if (!cel__box_holds(&map->extent, point)) return false;
  cel_tree_position at = cel__tree_find(&map->tree, point, NULL);
  *out = (cel_map_entry){at.leaf->box[at.i], at.leaf->value[at.i]};
  return true;
}

/* Rewrites the values below `node` and lists the entries that changed. */
static void rewrite(cel_map *map, cel_tree_node *node,
                    uint64_t (*fn)(uint64_t, void *), void *context) {
  cel_map_entries *changed = &map->made;
  for (uint32_t i = 0; i < node->n; ++i) {
    if (node->height > 0) {
      rewrite(map, node->child[i], fn, context);
      continue;
    }
    uint64_t value = fn(node->value[i], context);
    is_new(map, value);
    if (value == node->value[i]) continue;
    node->value[i] = value;
    cel_vec_push(changed, (cel_map_entry){node->box[i], value});
  }
}

static bool all_equal(const cel_map_entries *entries, uint64_t value) {
  for (uint32_t i = 0; i < entries->n; ++i)
    if (entries->at[i].value != value) return false;
  return true;
}

void cel_map_rewrite(cel_map *map, uint64_t (*fn)(uint64_t, void *),
                     void *context) {
  cel_map_entries *made = &map->made;
  made->n = 0;
  map->highest[0] = map->highest[1] = 0;
  rewrite(map, map->tree.root, fn, context);
  if (made->n == 0) return;
  if (made->n == map->tree.count && all_equal(made, made->at[0].value)) {
    uint64_t value = made->at[0].value;
    cel__tree_release(&map->tree);
    cel__tree_init(&map->tree);
    cel__tree_insert(&map->tree, &map->extent, value);
    return;
  }
  if (made->n > CEL__TREE_FAN) {
    regroup(map, true);
    return;
  }
  for (uint32_t i = 0; i < made->n; ++i) settle(map, &made->at[i], NULL);
}

/* -------------------------------------------------------------- checking */

void cel_map_check(const cel_map *map) {
  cel__tree_check(&map->tree);
  cel_map_entries all = {0};
  cel_map_query(map, &map->extent, &all);
  cel_assert(all.n == map->tree.count);
  cel_region cover = {0};
  for (uint32_t i = 0; i < all.n; ++i) {
    const cel_box *box = &all.at[i].box;
    uint64_t value = all.at[i].value;
    cel_assert(value <= map->highest[value & 1]);
    cel_assert(!cel_region_meets_box(&cover, box));
    cel_region_add(&cover, box);
    cel_tree_position at = cel__tree_find(&map->tree, box->min, NULL);
    cel_assert(cel_box_equal(&at.leaf->box[at.i], box));
    cel_assert(!partner(map, at).leaf);
  }
  cel_assert(cel_region_covers_box(&cover, &map->extent));
  cel_region_release(&cover);
  cel_map_entries_release(&all);
}
