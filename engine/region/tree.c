#include "region/tree.h"

#include <stddef.h>
#include <string.h>

#include "base/vec.h"

enum { FAN = CEL__TREE_FAN };

static cel_tree_node *make_node(uint32_t height) {
  cel_tree_node *node = cel_alloc(sizeof *node);
  node->n = 0;
  node->height = (uint16_t)height;
  node->own = false;
  return node;
}

static void discard(cel_tree_node *node) {
  if (!node->own) cel_free(node);
}

static void discard_all(cel_tree_node *node) {
  if (node->height > 0)
    for (uint32_t i = 0; i < node->n; ++i) discard_all(node->child[i]);
  discard(node);
}

void cel__tree_init(cel_tree *tree) {
  tree->root = &tree->first;
  tree->count = 0;
  tree->first.n = 0;
  tree->first.height = 0;
  tree->first.own = true;
}

void cel__tree_release(cel_tree *tree) {
  discard_all(tree->root);
  tree->root = NULL;
  tree->count = 0;
}

/* -------------------------------------------------------------- one node */

/* Box and item i, where `value` also stands for a child: same size, same
 * place. */
_Static_assert(sizeof(uint64_t) == sizeof(cel_tree_node *),
               "values and children share their slots");

static void put(cel_tree_node *node, uint32_t i, const cel_box *box,
                uint64_t item) {
  for (uint32_t k = node->n++; k > i; --k) {
    node->box[k] = node->box[k - 1];
    node->value[k] = node->value[k - 1];
  }
  node->box[i] = *box;
  node->value[i] = item;
}

static void drop(cel_tree_node *node, uint32_t i) {
  for (--node->n; i < node->n; ++i) {
    node->box[i] = node->box[i + 1];
    node->value[i] = node->value[i + 1];
  }
}

/* As in box.h, of boxes that are not empty. */
static inline cel_box hull_both(const cel_box *a, const cel_box *b) {
  cel_box r;
  for (int d = 0; d < CEL_DIMS; ++d) {
    r.min[d] = a->min[d] < b->min[d] ? a->min[d] : b->min[d];
    r.max[d] = a->max[d] > b->max[d] ? a->max[d] : b->max[d];
  }
  return r;
}

static cel_box hull_of(const cel_tree_node *node) {
  cel_box hull = node->box[0];
  for (uint32_t i = 1; i < node->n; ++i) hull = hull_both(&hull, &node->box[i]);
  return hull;
}

static uint32_t slot_for(const cel_tree_node *node, const cel_box *box) {
  uint32_t i = node->n;
  while (i > 0 && cel_box_compare(&node->box[i - 1], box) > 0) --i;
  return i;
}

void cel__leaf_insert(cel_tree *tree, cel_tree_node *leaf, const cel_box *box,
                      uint64_t value) {
  cel_assert(leaf->height == 0 && leaf->n < FAN);
  put(leaf, slot_for(leaf, box), box, value);
  tree->count++;
}

void cel__leaf_remove(cel_tree *tree, cel_tree_node *leaf, uint32_t i) {
  cel_assert(leaf->height == 0 && i < leaf->n);
  drop(leaf, i);
  tree->count--;
}

void cel__leaf_remove_all(cel_tree *tree, cel_tree_node *leaf, uint32_t set) {
  uint32_t to = 0;
  for (uint32_t i = 0; i < leaf->n; ++i) {
    if (set >> i & 1) continue;
    if (to != i) {
      leaf->box[to] = leaf->box[i];
      leaf->value[to] = leaf->value[i];
    }
    ++to;
  }
  tree->count -= leaf->n - to;
  leaf->n = to;
}

/* ------------------------------------------------------------- splitting */

/* A measure only: doubles do not overflow for unbounded boxes. */
static double size_of(const cel_box *b) {
  return ((double)b->max[0] - (double)b->min[0]) *
         ((double)b->max[1] - (double)b->min[1]) *
         ((double)b->max[2] - (double)b->min[2]);
}

/* A box and its value or child. */
typedef struct item {
  cel_box box;
  uint64_t value;
} item;

/* What is split is mostly in order. */
static void sort_items(item *items, uint32_t n) {
  for (uint32_t i = 1; i < n; ++i) {
    item x = items[i];
    uint32_t k = i;
    for (; k > 0 && cel_box_compare(&items[k - 1].box, &x.box) > 0; --k)
      items[k] = items[k - 1];
    items[k] = x;
  }
}

/* The items in ascending order of where they begin in dimension d; they are in
 * the order of boxes, which decides where that is equal. */
static void order_along(const item *items, uint32_t n, int d, uint8_t *order) {
  for (uint32_t i = 0; i < n; ++i) {
    int64_t min = items[i].box.min[d];
    uint32_t k = i;
    for (; k > 0 && items[order[k - 1]].box.min[d] > min; --k)
      order[k] = order[k - 1];
    order[k] = (uint8_t)i;
  }
}

static double hull_size(const item *items, const uint8_t *order, uint32_t n) {
  cel_box hull = items[order[0]].box;
  for (uint32_t i = 1; i < n; ++i)
    hull = hull_both(&hull, &items[order[i]].box);
  return size_of(&hull);
}

/* Half of the items, as bits: the lower ones along the dimension whose halves
 * have the smallest hulls. */
static uint32_t lower_half(const item *items, uint32_t n) {
  uint32_t half = (1u << n / 2) - 1;
  double least = -1;
  for (int d = 0; d < CEL_DIMS; ++d) {
    bool differ = false;
    for (uint32_t i = 1; i < n && !differ; ++i)
      differ = items[i].box.min[d] != items[0].box.min[d];
    if (!differ) continue;
    uint8_t order[FAN + 6];
    order_along(items, n, d, order);
    double size = hull_size(items, order, n / 2) +
                  hull_size(items, order + n / 2, n - n / 2);
    if (least >= 0 && size >= least) continue;
    least = size;
    half = 0;
    for (uint32_t i = 0; i < n / 2; ++i) half |= 1u << order[i];
  }
  return half;
}

/* Gives the node the lower half of `items`, more than fit into it but at most
 * FAN + 6; returns a new node with the rest. */
static cel_tree_node *split(cel_tree_node *node, item *items, uint32_t n) {
  cel_tree_node *upper = make_node(node->height);
  sort_items(items, n);
  uint32_t lower = lower_half(items, n);
  node->n = 0;
  for (uint32_t i = 0; i < n; ++i) {
    cel_tree_node *to = lower >> i & 1 ? node : upper;
    put(to, to->n, &items[i].box, items[i].value);
  }
  return upper;
}

/* Puts one more item at `at`; returns the upper half if that did not fit. */
static cel_tree_node *put_or_split(cel_tree_node *node, uint32_t at,
                                   const cel_box *box, uint64_t value) {
  if (node->n < FAN) {
    put(node, at, box, value);
    return NULL;
  }
  item items[FAN + 1];
  for (uint32_t i = 0; i < FAN; ++i)
    items[i + (i >= at)] = (item){node->box[i], node->value[i]};
  items[at] = (item){*box, value};
  return split(node, items, FAN + 1);
}

/* Child `at` has split: its new upper half goes behind it. */
static cel_tree_node *put_upper(cel_tree_node *node, uint32_t at,
                                cel_tree_node *upper) {
  cel_box hull = hull_of(upper);
  node->box[at] = hull_of(node->child[at]);
  return put_or_split(node, at + 1, &hull, (uint64_t)(uintptr_t)upper);
}

static void grow_root(cel_tree *tree, cel_tree_node *upper) {
  cel_tree_node *root = make_node(upper->height + 1);
  cel_box low = hull_of(tree->root), high = hull_of(upper);
  put(root, 0, &low, (uint64_t)(uintptr_t)tree->root);
  put(root, 1, &high, (uint64_t)(uintptr_t)upper);
  tree->root = root;
}

/* ------------------------------------------------- inserting, extracting */

/* The child whose hull grows least. */
static uint32_t choose(const cel_tree_node *node, const cel_box *box) {
  uint32_t best = 0;
  double least = 0, least_size = 0;
  for (uint32_t i = 0; i < node->n; ++i) {
    cel_box hull = hull_both(&node->box[i], box);
    double size = size_of(&node->box[i]), growth = size_of(&hull) - size;
    if (i == 0 || growth < least || (growth == least && size < least_size))
      best = i, least = growth, least_size = size;
  }
  return best;
}

/* Returns the upper half if the node had to split. */
static cel_tree_node *insert(cel_tree_node *node, const cel_box *box,
                             uint64_t value) {
  if (node->height == 0)
    return put_or_split(node, slot_for(node, box), box, value);
  uint32_t at = choose(node, box);
  cel_tree_node *upper = insert(node->child[at], box, value);
  if (upper) return put_upper(node, at, upper);
  node->box[at] = hull_both(&node->box[at], box);
  return NULL;
}

void cel__tree_insert(cel_tree *tree, const cel_box *box, uint64_t value) {
  tree->count++;
  cel_tree_node *upper = insert(tree->root, box, value);
  if (upper) grow_root(tree, upper);
}

/* Finds the way to `leaf`, which is to give way to more items than it has room
 * for. */
static bool replace(cel_tree_node *node, const cel_tree_node *leaf,
                    const cel_box *hull, item *items, uint32_t n,
                    cel_tree_node **upper) {
  if (node == leaf) {
    *upper = split(node, items, n);
    return true;
  }
  if (node->height == 0) return false;
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!cel_box_covers(&node->box[i], hull) ||
        !replace(node->child[i], leaf, hull, items, n, upper))
      continue;
    if (*upper) *upper = put_upper(node, i, *upper);
    return true;
  }
  return false;
}

void cel__tree_divide(cel_tree *tree, cel_tree_position at,
                      const cel_map_entry *parts, uint32_t n) {
  cel_tree_node *leaf = at.leaf, *upper = NULL;
  cel_assert(n >= 1 && n <= 7);
  tree->count += n - 1;
  if (leaf->n + n - 1 <= FAN) {
    /* The part that begins where all of it does keeps the place. */
    const int64_t *min = leaf->box[at.i].min;
    uint32_t first = 0;
    while (memcmp(parts[first].box.min, min, sizeof leaf->box[0].min) != 0)
      ++first;
    leaf->box[at.i] = parts[first].box;
    leaf->value[at.i] = parts[first].value;
    for (uint32_t i = 0; i < n; ++i)
      if (i != first)
        put(leaf, slot_for(leaf, &parts[i].box), &parts[i].box, parts[i].value);
    return;
  }
  item items[FAN + 6];
  cel_box hull = hull_of(leaf);
  uint32_t m = 0;
  for (uint32_t i = 0; i < leaf->n; ++i)
    if (i != at.i) items[m++] = (item){leaf->box[i], leaf->value[i]};
  for (uint32_t i = 0; i < n; ++i)
    items[m++] = (item){parts[i].box, parts[i].value};
  if (!replace(tree->root, leaf, &hull, items, m, &upper))
    cel_bug("a leaf of another tree");
  if (upper) grow_root(tree, upper);
}

/* Moves the boxes of a small child into the sibling whose hull grows least, if
 * any has room. */
static void join_sibling(cel_tree_node *node, uint32_t i) {
  cel_tree_node *child = node->child[i];
  uint32_t best = i;
  double least = 0;
  for (uint32_t k = 0; k < node->n; ++k) {
    if (k == i || node->child[k]->n + child->n > FAN * 3 / 4) continue;
    cel_box hull = hull_both(&node->box[k], &node->box[i]);
    double growth = size_of(&hull) - size_of(&node->box[k]);
    if (best == i || growth < least) best = k, least = growth;
  }
  if (best == i) return;
  cel_tree_node *into = node->child[best];
  for (uint32_t k = 0; k < child->n; ++k)
    put(into, into->height ? into->n : slot_for(into, &child->box[k]),
        &child->box[k], child->value[k]);
  node->box[best] = hull_both(&node->box[best], &node->box[i]);
  discard(child);
  drop(node, i);
}

/* Whether anything was taken. */
static bool extract(cel_tree_node *node, const cel_box *box,
                    cel_map_entries *out) {
  bool taken = false;
  for (uint32_t i = node->n; i-- > 0;) {
    if (!cel__boxes_meet(&node->box[i], box)) continue;
    if (node->height == 0) {
      cel_vec_push(out, (cel_map_entry){node->box[i], node->value[i]});
      drop(node, i);
      taken = true;
    } else if (extract(node->child[i], box, out)) {
      taken = true;
      if (node->child[i]->n == 0) {
        discard(node->child[i]);
        drop(node, i);
      } else {
        node->box[i] = hull_of(node->child[i]);
      }
    }
  }
  if (taken && node->height > 0)
    for (uint32_t i = node->n; i-- > 0;)
      if (node->child[i]->n < FAN / 4) join_sibling(node, i);
  return taken;
}

void cel__tree_extract(cel_tree *tree, const cel_box *box,
                       cel_map_entries *out) {
  uint32_t before = out->n;
  extract(tree->root, box, out);
  tree->count -= out->n - before;
  while (tree->root->height > 0 && tree->root->n <= 1) {
    cel_tree_node *root = tree->root;
    tree->root = root->n ? root->child[0] : make_node(0);
    discard(root);
  }
}

/* --------------------------------------------------------------- looking */

static cel_tree_position find(cel_tree_node *node, const int64_t point[3]) {
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!cel__box_holds(&node->box[i], point)) continue;
    cel_tree_node *child = node->child[i];
    cel_tree_position found =
        child->height == 0 ? cel__leaf_find(child, point) : find(child, point);
    if (found.leaf) return found;
  }
  return (cel_tree_position){0};
}

cel_tree_position cel__tree_descend(const cel_tree *tree,
                                    const int64_t point[3],
                                    cel_tree_node *near) {
  if (near) {
    cel_tree_position found = cel__leaf_find(near, point);
    if (found.leaf) return found;
  }
  return find(tree->root, point);
}

static void collect(const cel_tree_node *node, const cel_box *box,
                    cel_map_entries *out) {
  if (node->height == 0) cel_vec_reserve(out, node->n);
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!cel__boxes_meet(&node->box[i], box)) continue;
    if (node->height > 0) {
      collect(node->child[i], box, out);
    } else {
      cel_map_entry *entry = &out->at[out->n++];
      cel_box_intersect(&node->box[i], box, &entry->box);
      entry->value = node->value[i];
    }
  }
}

void cel__tree_collect(const cel_tree *tree, const cel_box *box,
                       cel_map_entries *out) {
  collect(tree->root, box, out);
}

static void visit(const cel_tree_node *node, const cel_box *box,
                  void (*seen)(uint64_t, void *), void *context) {
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!cel__boxes_meet(&node->box[i], box)) continue;
    if (node->height > 0)
      visit(node->child[i], box, seen, context);
    else
      seen(node->value[i], context);
  }
}

void cel__tree_visit(const cel_tree *tree, const cel_box *box,
                     void (*seen)(uint64_t, void *), void *context) {
  visit(tree->root, box, seen, context);
}

static void probe(cel_tree_node *node, const cel_box *box, uint64_t value,
                  cel_tree_probe *seen) {
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!cel__boxes_meet(&node->box[i], box)) continue;
    if (node->height > 0) {
      probe(node->child[i], box, value, seen);
      continue;
    }
    seen->one_leaf = seen->one_leaf && (!seen->leaf || seen->leaf == node);
    seen->leaf = node;
    seen->uniform = seen->uniform && node->value[i] == value;
    if (!seen->one_leaf && !seen->uniform) return;
  }
}

cel_tree_probe cel__tree_probe(const cel_tree *tree, const cel_box *box,
                               uint64_t value) {
  cel_tree_probe seen = {.one_leaf = true, .uniform = true};
  probe(tree->root, box, value, &seen);
  return seen;
}

/* -------------------------------------------------------------- checking */

static uint32_t check(const cel_tree_node *node, bool root) {
  cel_assert(node->n <= FAN && (root || node->n > 0));
  if (node->height == 0) {
    for (uint32_t i = 1; i < node->n; ++i)
      cel_assert(cel_box_compare(&node->box[i - 1], &node->box[i]) < 0);
    return node->n;
  }
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->n; ++i) {
    cel_box hull = hull_of(node->child[i]);
    cel_assert(node->child[i]->height + 1 == node->height);
    cel_assert(cel_box_equal(&hull, &node->box[i]));
    count += check(node->child[i], false);
  }
  return count;
}

void cel__tree_check(const cel_tree *tree) {
  uint32_t count = check(tree->root, true);
  cel_assert(count == tree->count);
  (void)count;
}
