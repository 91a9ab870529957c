#include "region/tree.h"

#include <stddef.h>
#include <string.h>

#include "base/vec.h"

enum { FAN = CEL__TREE_FAN };

static cel_tree_node *make_node(uint32_t height) {
  cel_tree_node *node = cel_alloc(sizeof *node);
  node->n = 0;
  node->height = height;
  return node;
}

static void free_node(cel_tree_node *node) {
  if (node->height > 0)
    for (uint32_t i = 0; i < node->n; ++i) free_node(node->child[i]);
  cel_free(node);
}

void cel__tree_init(cel_tree *tree) {
  *tree = (cel_tree){.root = make_node(0)};
}

void cel__tree_release(cel_tree *tree) {
  free_node(tree->root);
  *tree = (cel_tree){0};
}

/* -------------------------------------------------------------- one node */

/* Box and item i, where `value` also stands for a child: same size, same
 * place. */
_Static_assert(sizeof(uint64_t) == sizeof(cel_tree_node *),
               "values and children share their slots");

static void put(cel_tree_node *node, uint32_t i, const cel_box *box,
                uint64_t item) {
  memmove(&node->box[i + 1], &node->box[i], (node->n - i) * sizeof *node->box);
  memmove(&node->value[i + 1], &node->value[i],
          (node->n - i) * sizeof *node->value);
  node->box[i] = *box;
  node->value[i] = item;
  node->n++;
}

static void drop(cel_tree_node *node, uint32_t i) {
  node->n--;
  memmove(&node->box[i], &node->box[i + 1], (node->n - i) * sizeof *node->box);
  memmove(&node->value[i], &node->value[i + 1],
          (node->n - i) * sizeof *node->value);
}

static cel_box hull_of(const cel_tree_node *node) {
  cel_box hull = node->box[0];
  for (uint32_t i = 1; i < node->n; ++i)
    hull = cel_box_hull(&hull, &node->box[i]);
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

/* ------------------------------------------------------------- splitting */

/* A measure only: doubles do not overflow for unbounded boxes. */
static double size_of(const cel_box *b) {
  return ((double)b->max[0] - (double)b->min[0]) *
         ((double)b->max[1] - (double)b->min[1]) *
         ((double)b->max[2] - (double)b->min[2]);
}

typedef struct item {
  cel_box box;
  uint64_t value;
} item;

static void sort_items(item *items, uint32_t n, int d) {
  for (uint32_t i = 1; i < n; ++i) {
    item x = items[i];
    uint32_t k = i;
    for (; k > 0; --k) {
      const cel_box *p = &items[k - 1].box;
      if (p->min[d] < x.box.min[d] ||
          (p->min[d] == x.box.min[d] && cel_box_compare(p, &x.box) < 0))
        break;
      items[k] = items[k - 1];
    }
    items[k] = x;
  }
}

static double halves_size(const item *items, uint32_t n) {
  cel_box low = items[0].box, high = items[n - 1].box;
  for (uint32_t i = 1; i < n / 2; ++i) low = cel_box_hull(&low, &items[i].box);
  for (uint32_t i = n / 2; i < n; ++i)
    high = cel_box_hull(&high, &items[i].box);
  return size_of(&low) + size_of(&high);
}

static void fill(cel_tree_node *node, const item *items, uint32_t n) {
  node->n = 0;
  for (uint32_t i = 0; i < n; ++i) {
    bool ordered = node->height == 0;
    put(node, ordered ? slot_for(node, &items[i].box) : i, &items[i].box,
        items[i].value);
  }
}

/* Divides a full node and one more item; returns the new upper half, which the
 * caller puts behind it. */
static cel_tree_node *split(cel_tree_node *node, uint32_t at,
                            const cel_box *box, uint64_t value) {
  item items[FAN + 1];
  for (uint32_t i = 0, o = 0; i <= FAN; ++i) {
    if (i == at)
      items[i] = (item){*box, value};
    else
      items[i] = (item){node->box[o], node->value[o]}, ++o;
  }
  int best = 0;
  double least = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    sort_items(items, FAN + 1, d);
    double size = halves_size(items, FAN + 1);
    if (d == 0 || size < least) best = d, least = size;
  }
  sort_items(items, FAN + 1, best);
  cel_tree_node *upper = make_node(node->height);
  enum { LOW = (FAN + 1) / 2 };
  fill(node, items, LOW);
  fill(upper, items + LOW, FAN + 1 - LOW);
  return upper;
}

/* ------------------------------------------------- inserting, extracting */

/* The child whose hull grows least. */
static uint32_t choose(const cel_tree_node *node, const cel_box *box) {
  uint32_t best = 0;
  double least = 0, least_size = 0;
  for (uint32_t i = 0; i < node->n; ++i) {
    cel_box hull = cel_box_hull(&node->box[i], box);
    double size = size_of(&node->box[i]), growth = size_of(&hull) - size;
    if (i == 0 || growth < least || (growth == least && size < least_size))
      best = i, least = growth, least_size = size;
  }
  return best;
}

/* Returns the upper half if the node had to split. */
static cel_tree_node *insert(cel_tree_node *node, const cel_box *box,
                             uint64_t value) {
  uint32_t at;
  cel_tree_node *upper;
  cel_box hull;
  if (node->height == 0) {
    at = slot_for(node, box);
  } else {
    at = choose(node, box);
    upper = insert(node->child[at], box, value);
    if (!upper) {
      node->box[at] = cel_box_hull(&node->box[at], box);
      return NULL;
    }
    node->box[at] = hull_of(node->child[at]);
    hull = hull_of(upper);
    box = &hull;
    value = (uint64_t)(uintptr_t)upper;
    ++at;
  }
  if (node->n == FAN) return split(node, at, box, value);
  put(node, at, box, value);
  return NULL;
}

void cel__tree_insert(cel_tree *tree, const cel_box *box, uint64_t value) {
  tree->count++;
  cel_tree_node *upper = insert(tree->root, box, value);
  if (!upper) return;
  cel_tree_node *root = make_node(upper->height + 1);
  cel_box low = hull_of(tree->root), high = hull_of(upper);
  put(root, 0, &low, (uint64_t)(uintptr_t)tree->root);
  put(root, 1, &high, (uint64_t)(uintptr_t)upper);
  tree->root = root;
}

/* Moves the boxes of a small child into the sibling whose hull grows least, if
 * any has room. */
static void join_sibling(cel_tree_node *node, uint32_t i) {
  cel_tree_node *child = node->child[i];
  uint32_t best = i;
  double least = 0;
  for (uint32_t k = 0; k < node->n; ++k) {
    if (k == i || node->child[k]->n + child->n > FAN * 3 / 4) continue;
    cel_box hull = cel_box_hull(&node->box[k], &node->box[i]);
    double growth = size_of(&hull) - size_of(&node->box[k]);
    if (best == i || growth < least) best = k, least = growth;
  }
  if (best == i) return;
  cel_tree_node *into = node->child[best];
  for (uint32_t k = 0; k < child->n; ++k)
    put(into, into->height ? into->n : slot_for(into, &child->box[k]),
        &child->box[k], child->value[k]);
  node->box[best] = cel_box_hull(&node->box[best], &node->box[i]);
  cel_free(child);
  drop(node, i);
}

/* Whether anything was taken. */
static bool extract(cel_tree_node *node, const cel_box *box,
                    cel_map_entries *out) {
  bool taken = false;
  for (uint32_t i = node->n; i-- > 0;) {
    if (!cel_box_meets(&node->box[i], box)) continue;
    if (node->height == 0) {
      cel_vec_push(out, (cel_map_entry){node->box[i], node->value[i]});
      drop(node, i);
      taken = true;
    } else if (extract(node->child[i], box, out)) {
      taken = true;
      if (node->child[i]->n == 0) {
        cel_free(node->child[i]);
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
    cel_free(root);
  }
}

/* --------------------------------------------------------------- looking */

static inline bool holds(const cel_box *b, const int64_t p[3]) {
  /* Unsigned distances: one comparison each, and right for any 64 bits. */
  return (uint64_t)p[0] - (uint64_t)b->min[0] <
             (uint64_t)b->max[0] - (uint64_t)b->min[0] &&
         (uint64_t)p[1] - (uint64_t)b->min[1] <
             (uint64_t)b->max[1] - (uint64_t)b->min[1] &&
         (uint64_t)p[2] - (uint64_t)b->min[2] <
             (uint64_t)b->max[2] - (uint64_t)b->min[2];
}

static cel_tree_place find(cel_tree_node *node, const int64_t point[3]) {
  for (uint32_t i = 0; i < node->n; ++i) {
    if (!holds(&node->box[i], point)) continue;
    if (node->height == 0) return (cel_tree_place){node, i};
    cel_tree_place found = find(node->child[i], point);
    if (found.leaf) return found;
  }
  return (cel_tree_place){0};
}

cel_tree_place cel__tree_find(const cel_tree *tree, const int64_t point[3],
                              cel_tree_node *near) {
  if (near) {
    cel_tree_place found = find(near, point);
    if (found.leaf || near == tree->root) return found;
  }
  return find(tree->root, point);
}

static void collect(const cel_tree_node *node, const cel_box *box,
                    cel_map_entries *out) {
  if (node->height == 0) cel_vec_reserve(out, node->n);
  for (uint32_t i = 0; i < node->n; ++i) {
    if (node->height > 0) {
      if (cel_box_meets(&node->box[i], box)) collect(node->child[i], box, out);
    } else if (cel_box_intersect(&node->box[i], box, &out->at[out->n].box)) {
      out->at[out->n++].value = node->value[i];
    }
  }
}

void cel__tree_collect(const cel_tree *tree, const cel_box *box,
                       cel_map_entries *out) {
  collect(tree->root, box, out);
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
