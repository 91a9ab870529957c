#include "command/collective/bcast_tree.h"
#include "tuning.h"

/* Who is in the tree: the root is at position 0, the readers after it follow in
 * their order, around. */
typedef struct readers {
  const cel__rep *read;
  int64_t first; /* the reader that the root is, or -1 */
  int64_t readers, n;
} readers;

/* Which of the readers rank k is, or -1. */
static int64_t reader_of(const cel__rep *read, int64_t k) {
  if (k >= read->n || cel__rep_leaves_out(read, k)) return -1;
  return read->who != NULL ? read->who[k] : k;
}

static int64_t rank_of(const cel__rep *read, int64_t reader) {
  int64_t from = 0, to = read->n;
  if (read->who == NULL) return reader;
  while (to - from > 1) { /* who[from] <= reader */
    int64_t middle = from + (to - from) / 2;
    if (read->who[middle] <= reader)
      from = middle;
    else
      to = middle;
  }
  return from;
}

static readers readers_of(const cel__own *own, const cel__bcast_tree *tree) {
  readers t = {.read = cel__rep_at(&own->reps, tree->read)};
  t.readers = cel__rep_ranks(t.read);
  t.first = reader_of(t.read, tree->root);
  t.n = t.readers + (t.first < 0);
  return t;
}

/* The position of a rank, or -1. */
static int64_t position_of(const readers *t, const cel__bcast_tree *tree,
                           int64_t k) {
  int64_t reader = reader_of(t->read, k);
  if (k == tree->root) return 0;
  if (reader < 0) return -1;
  if (t->first < 0) return reader + 1;
  return (reader - t->first + t->readers) % t->readers;
}

static int64_t rank_at(const readers *t, const cel__bcast_tree *tree,
                       int64_t position) {
  if (position == 0) return tree->root;
  if (t->first < 0) return rank_of(t->read, position - 1);
  return rank_of(t->read, (position + t->first) % t->readers);
}

/* A link between hosts carries much to one after the other. */
static int64_t least_of(const cel__own *own, uint64_t bytes) {
  bool much = own->several_hosts && bytes > own->small &&
              own->tree_least > CEL_TUNE_TREE_LEAST_HOSTS;
  return much ? CEL_TUNE_TREE_LEAST_HOSTS : own->tree_least;
}

bool cel__bcast_tree_may(const cel__own *own, const cel__version *v,
                         uint32_t read, uint64_t bytes) {
  const cel__rep *readers = cel__rep_at(&own->reps, read);
  return v->reps == 0 && own->collective.devices == 0 &&
         cel__rep_is_full(readers) &&
         cel__rep_ranks(readers) >= least_of(own, bytes);
}

bool cel__bcast_tree_find(const cel__own *own, const cel__version *v,
                          uint32_t read, const cel_box *box,
                          const cel_buffer *buffer, cel__bcast_tree *out) {
  uint64_t bytes = (uint64_t)cel_box_volume(box) * buffer->element_size;
  if (!cel__bcast_tree_may(own, v, read, bytes)) return false;
  *out = (cel__bcast_tree){.root = cel__own_sole(own, v, box),
                           .read = read,
                           .buffer = buffer,
                           .box = *box};
  return out->root >= 0;
}

static void add(const cel__bcast_tree *tree, int64_t peer,
                cel__transfers *out) {
  cel__transfer t = {
      .order = out->n, .peer = peer, .buffer = tree->buffer, .box = tree->box};
  cel_vec_push(out, t);
}

/* The one at the first of some positions sends to the second, and to the first
 * of the later half of the others. */
static int64_t half_of(int64_t first, int64_t end) {
  return first + 1 + (end - first) / 2;
}

void cel__bcast_tree_side(const cel__own *own, const cel__bcast_tree *tree,
                          cel__transfers *receives, cel__transfers *sends) {
  readers t = readers_of(own, tree);
  int64_t me = position_of(&t, tree, own->me), above = -1, first = 0, end = t.n;
  cel_vec_clear(receives);
  cel_vec_clear(sends);
  if (me < 0) return;
  while (first != me) {
    int64_t half = half_of(first, end);
    above = first;
    if (me < half) end = half;
    first = me < half ? first + 1 : half;
  }
  int64_t half = half_of(me, end);
  if (above >= 0) add(tree, rank_at(&t, tree, above), receives);
  if (half < end) add(tree, rank_at(&t, tree, half), sends);
  if (me + 1 < half && me + 1 < end)
    add(tree, rank_at(&t, tree, me + 1), sends);
}
