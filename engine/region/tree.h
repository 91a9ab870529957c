/* tree.h -- an R-tree over disjoint boxes with 64-bit values; internal to
 * region/, the body of cel_map.
 *
 * Every node is one flat list of boxes: entries in a leaf, hulls around the
 * children elsewhere. Up to CEL__TREE_FAN entries are a lone leaf, which is
 * what most maps are: all operations are then a scan of one array.
 *
 * Invariants: entries are disjoint; a hull is exact; every node but an empty
 * root has 1 to CEL__TREE_FAN boxes; all leaves are equally deep; a leaf is in
 * ascending box order.
 * What replaces entries of one leaf without changing their union keeps all
 * hulls, so it may be done in the leaf itself, without the path to it.
 * Cost: O(log n + hits) where hulls hardly overlap, as they do around boxes
 * that tile. Confined. Pure.
 *
 * After Guttman, "R-trees", SIGMOD 1984. Differences: entries never overlap; a
 * node splits at the median of the dimension that leaves the smallest hulls;
 * an underfull node joins a sibling and is not inserted again.
 */
#ifndef CEL_REGION_TREE_H
#define CEL_REGION_TREE_H

#include "region/region.h"

enum { CEL__TREE_FAN = 16 };

typedef struct cel_tree_node {
  uint32_t n;
  uint16_t height; /* 0: a leaf */
  bool own;        /* the tree's first */
  cel_box box[CEL__TREE_FAN];
  union {
    uint64_t value[CEL__TREE_FAN];
    struct cel_tree_node *child[CEL__TREE_FAN];
  };
} cel_tree_node;

typedef struct cel_tree {
  cel_tree_node *root;
  uint32_t count;
  uint32_t tidy_at;    /* the holder's: entries at which to make it afresh */
  cel_tree_node first; /* the lone leaf; somewhere below, or unused, later */
} cel_tree;

/* An entry; valid until the tree changes. A null leaf: none. */
typedef struct cel_tree_position {
  cel_tree_node *leaf;
  uint32_t i;
} cel_tree_position;

/* Unsigned distances: one comparison each, and right for any 64 bits. */
static inline bool cel__box_holds(const cel_box *b, const int64_t p[3]) {
  return (uint64_t)p[0] - (uint64_t)b->min[0] <
             (uint64_t)b->max[0] - (uint64_t)b->min[0] &&
         (uint64_t)p[1] - (uint64_t)b->min[1] <
             (uint64_t)b->max[1] - (uint64_t)b->min[1] &&
         (uint64_t)p[2] - (uint64_t)b->min[2] <
             (uint64_t)b->max[2] - (uint64_t)b->min[2];
}

/* The last entry that begins at or before the point in the leaf's order is
 * mostly the one, so from the end. */
static inline cel_tree_position cel__leaf_find(cel_tree_node *leaf,
                                               const int64_t point[3]) {
  for (uint32_t i = leaf->n; i-- > 0;)
    if (leaf->box[i].min[0] <= point[0] && cel__box_holds(&leaf->box[i], point))
      return (cel_tree_position){leaf, i};
  return (cel_tree_position){0};
}

/* As cel_box_meets, of boxes that are not empty. */
static inline bool cel__boxes_meet(const cel_box *a, const cel_box *b) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->min[d] >= b->max[d] || b->min[d] >= a->max[d]) return false;
  return true;
}

/* What an update wants to know of the entries that meet its box. */
typedef struct cel_tree_probe {
  cel_tree_node *leaf; /* of one of them */
  bool one_leaf;       /* it is the leaf of all */
  bool uniform;        /* all have the value asked for */
} cel_tree_probe;

/* The holder owns the nodes: init ... release. A tree stays where it is. */
void cel__tree_init(cel_tree *tree);
void cel__tree_release(cel_tree *tree);
/* `box` meets no entry. */
void cel__tree_insert(cel_tree *tree, const cel_box *box, uint64_t value);
/* Takes out the entries that meet `box` and appends them, whole. */
void cel__tree_extract(cel_tree *tree, const cel_box *box,
                       cel_map_entries *out);
/* cel__tree_find where the root is no leaf. */
cel_tree_position cel__tree_descend(const cel_tree *tree,
                                    const int64_t point[3],
                                    cel_tree_node *near);
/* The entry that holds `point`; looks into the leaf `near` first unless it is
 * null. */
static inline cel_tree_position cel__tree_find(const cel_tree *tree,
                                               const int64_t point[3],
                                               cel_tree_node *near) {
  if (tree->root->height == 0) return cel__leaf_find(tree->root, point);
  return cel__tree_descend(tree, point, near);
}
/* Makes `n` <= 7 entries of one, in its place; their union is the old box. */
void cel__tree_divide(cel_tree *tree, cel_tree_position at,
                      const cel_map_entry *parts, uint32_t n);
/* Appends the entries that meet `box`, clipped to it. */
void cel__tree_collect(const cel_tree *tree, const cel_box *box,
                       cel_map_entries *out);
/* Tells `seen` the value of each of them. */
void cel__tree_visit(const cel_tree *tree, const cel_box *box,
                     void (*seen)(uint64_t, void *), void *context);
cel_tree_probe cel__tree_probe(const cel_tree *tree, const cel_box *box,
                               uint64_t value);
/* Asserts the invariants that concern nodes. */
void cel__tree_check(const cel_tree *tree);

/* Within one leaf, which has room; the union of its entries is the same when
 * all such calls are done. */
void cel__leaf_insert(cel_tree *tree, cel_tree_node *leaf, const cel_box *box,
                      uint64_t value);
void cel__leaf_remove(cel_tree *tree, cel_tree_node *leaf, uint32_t i);
/* Removes the entries whose bits are in `set`. */
void cel__leaf_remove_all(cel_tree *tree, cel_tree_node *leaf, uint32_t set);

#endif
