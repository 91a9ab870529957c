#include "command/own/footprint.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "task/assignment.h"
#include "tuning.h"

enum { LISTED = 1 << 22 }; /* boxes of all ranks: 200 MB */

/* All that a footprint depends on, followed by the parameters. The number of
 * ranks is the same for all. No padding: it is hashed and compared as bytes. */
struct cel__footprint_key {
  uint64_t rule; /* its hash, which is the same on all ranks at all times */
  uint64_t weights;
  int64_t placement, home, params, rows;
  cel_box range, extent;
  int64_t granularity[3]; /* 0 where it may not be cut */
  int64_t param[CEL_RULE_PARAMS];
};
typedef struct cel__footprint_key footprint_key;

static size_t key_size(const footprint_key *key) {
  return offsetof(footprint_key, param) +
         (size_t)key->params * sizeof *key->param;
}

static void make_key(const cel_task *task, const cel_access *access,
                     footprint_key *key) {
  const cel_rule_use *use = &access->use;
  key->rule = use->rule->hash;
  key->weights = task->split != NULL ? task->weights : 0;
  key->placement = task->placement;
  key->home = task->home != NULL ? task->home->rank : 0;
  key->params = use->rule->desc.params;
  key->rows = access->rows;
  key->range = task->range;
  key->extent = use->extent;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t g = task->permitted.granularity[d];
    key->granularity[d] = !task->permitted.cut[d] ? 0 : g < 1 ? 1 : g;
  }
  if (key->params > 0)
    memcpy(key->param, use->params, (size_t)key->params * sizeof *key->param);
}

void cel__footprints_init(cel__footprints *all, cel__reps *reps,
                          int64_t ranks) {
  *all = (cel__footprints){
      .reps = reps, .ranks = ranks, .most = CEL_TUNE_FOOTPRINTS};
}

/* The arena has all of it. */
static void drop(cel__interned *object) {
  (void)object;
}

void cel__footprints_clear(cel__footprints *all) {
  cel__interner_release(&all->in, drop);
  cel_arena_release(&all->arena);
  memset(all->recent, 0, sizeof all->recent);
}

void cel__footprints_trim(cel__footprints *all) {
  if (all->in.count > all->most) cel__footprints_clear(all);
}

/* ---- one box --------------------------------------------------------------
 */

/* Whether [lo, hi) of one dimension tiles it along the axis of both. */
static bool tiles(const cel__line *lo, const cel__line *hi) {
  return lo->open && hi->open && lo->stride == hi->stride && lo->a == hi->a &&
         lo->c == hi->c && lo->end == (lo->a > 0 ? 0 : 1) &&
         hi->end == 1 - lo->end && cel_cut_equal(lo->cut, hi->cut);
}

/* Each axis with several pieces drives one dimension of its own, and nothing
 * else happens along it: then the images of the chunks tile the hull. */
static bool partitions(const cel__shape *shape, const cel_split *split) {
  int64_t ranks = 1;
  int64_t used[3] = {0};
  int n = 0;
  for (int j = 0; j < CEL_DIMS; ++j) {
    const cel__line *lo = &shape->line[j][CEL__LO];
    const cel__line *hi = &shape->line[j][CEL__HI];
    if (!lo->open && !hi->open) continue;
    if (!tiles(lo, hi)) return false;
    for (int i = 0; i < n; ++i)
      if (used[i] == lo->stride) return false;
    used[n++] = lo->stride;
    ranks *= lo->cut->P;
  }
  return ranks == split->n;
}

/* The extremes of the ends, within the frame: constant ones are the frame's. */
static void set_hull(cel__shape *shape) {
  for (int j = 0; j < CEL_DIMS; ++j) {
    const cel__line *lo = &shape->line[j][CEL__LO];
    const cel__line *hi = &shape->line[j][CEL__HI];
    cel_box *frame = &shape->frame, *hull = &shape->hull;
    if (!lo->open && lo->extreme > frame->min[j]) frame->min[j] = lo->extreme;
    if (!hi->open && hi->extreme < frame->max[j]) frame->max[j] = hi->extreme;
    hull->min[j] = frame->min[j];
    hull->max[j] = frame->max[j];
    if (lo->open && lo->extreme > hull->min[j]) hull->min[j] = lo->extreme;
    if (hi->open && hi->extreme < hull->max[j]) hull->max[j] = hi->extreme;
  }
}

/* False when the box has no closed form. An empty one gets an empty hull. */
static bool shape_make(const cel_rule_use *use, int b, const cel_split *split,
                       const int64_t *who, cel__reps *reps, cel__shape *out) {
  cel_affine_box box;
  if (!cel_rule_to_affine(use, b, &box)) return false;
  *out = (cel__shape){.frame = box.clip, .n = split->n, .who = who};
  for (int j = 0; j < CEL_DIMS; ++j)
    if (!cel__line_make(&box.lo[j], split, CEL__LO, &out->line[j][CEL__LO]) ||
        !cel__line_make(&box.hi[j], split, CEL__HI, &out->line[j][CEL__HI]))
      return false;
  set_hull(out);
  if (cel_box_is_empty(&out->hull)) return true;
  out->partition = partitions(out, split);
  if (out->partition) out->owner = cel__shape_rep(reps, out, &out->hull);
  return true;
}

uint32_t cel__shape_rep(cel__reps *reps, cel__shape *shape,
                        const cel_box *box) {
  uint32_t closed = 0;
  for (int j = 0; j < CEL_DIMS; ++j) {
    const cel__line *lo = &shape->line[j][CEL__LO];
    const cel__line *hi = &shape->line[j][CEL__HI];
    if (lo->open && lo->extreme > box->min[j]) closed |= 1u << (2 * j);
    if (hi->open && hi->extreme < box->max[j]) closed |= 2u << (2 * j);
  }
  for (uint32_t i = 0; i < shape->variants; ++i)
    if (shape->variant[i].closed == closed) return shape->variant[i].rep;
  cel__rep rep = {.n = shape->n, .who = shape->who};
  for (int j = 0; j < CEL_DIMS; ++j)
    for (int side = CEL__LO; side <= CEL__HI; ++side)
      if (shape->line[j][side].open)
        rep.end[j][side] = cel__reps_edge(reps, &shape->line[j][side],
                                          closed >> (2 * j + side) & 1);
  uint32_t id = cel__reps_intern(reps, &rep);
  uint32_t i = shape->variants < CEL__VARIANTS ? shape->variants++ : 0;
  shape->variant[i].closed = closed;
  shape->variant[i].rep = id;
  return id;
}

/* ---- the whole rule -------------------------------------------------------
 */

/* Whether the boxes of different ranks meet, so far as shapes can tell: within
 * one shape they do not, and two shapes that meet must agree on the owner. */
static bool shapes_disjoint(const cel__footprint *footprint) {
  for (uint32_t i = 0; i < footprint->shapes; ++i)
    for (uint32_t j = 0; j < i; ++j) {
      const cel__shape *a = &footprint->shape[i], *b = &footprint->shape[j];
      if (cel_box_meets(&a->hull, &b->hull) && a->owner != b->owner)
        return false;
    }
  return true;
}

static void classify(cel__footprint *footprint) {
  for (uint32_t i = 0; i < footprint->shapes; ++i)
    if (!footprint->shape[i].partition) return;
  footprint->tiled = true;
  cel_counter_example why;
  footprint->disjoint =
      shapes_disjoint(footprint) ||
      cel_rule_prove_disjoint(&footprint->use, &footprint->permitted, &why) ==
          CEL_PROVED;
}

/* The split as the proofs know it. */
static cel_split_kind kind_of(const cel_task *task) {
  if (task->placement == CEL_PLACE_SPLIT) return task->permitted;
  bool each =
      task->placement == CEL_PLACE_EACH || task->placement == CEL_PLACE_ALL;
  return (cel_split_kind){{each, false, false}, {1, 1, 1}};
}

/* The split of the task, with sums of its own. */
static void take_split(cel__footprints *all, cel__footprint *footprint,
                       const cel_split *split) {
  footprint->split = *split;
  size_t n = 0;
  for (int d = 0; d < CEL_DIMS; ++d)
    if (split->cut[d].sums != NULL) n += (size_t)split->cut[d].P + 1;
  if (n == 0) return;
  int64_t *room = cel_arena_alloc(&all->arena, n * sizeof *room);
  for (int d = 0; d < CEL_DIMS; ++d) {
    if (split->cut[d].sums == NULL) continue;
    size_t count = (size_t)split->cut[d].P + 1;
    footprint->split.cut[d].sums =
        memcpy(room, split->cut[d].sums, count * sizeof *room);
    room += count;
  }
}

/* False when some box has no closed form, or rows would be of nobody. */
static bool bind_shapes(cel__footprints *all, cel__footprint *footprint) {
  const cel_split *split = &footprint->split;
  if (footprint->use.rule->listing != NULL) return false;
  const int64_t *who = cel__reps_who(all->reps, split);
  if (footprint->rows && who != NULL) return false;
  if (footprint->rows) {
    cel_split counted = cel_split_1d(&footprint->use.range, split->n, 1);
    split = cel_arena_copy(&all->arena, &counted, sizeof counted);
  }
  int boxes = footprint->use.rule->desc.boxes;
  footprint->shape =
      cel_arena_alloc(&all->arena, (size_t)boxes * sizeof(cel__shape));
  for (int b = 0; b < boxes; ++b) {
    cel__shape *shape = &footprint->shape[footprint->shapes];
    if (!shape_make(&footprint->use, b, split, who, all->reps, shape)) {
      footprint->shapes = 0;
      return false;
    }
    if (cel_box_is_empty(&shape->hull)) continue;
    footprint->hull = cel_box_hull(&footprint->hull, &shape->hull);
    ++footprint->shapes;
  }
  classify(footprint);
  return true;
}

/* Of as many ranks, which have too many boxes together. */
static cel_status fail_many(const cel__footprint *footprint, int64_t ranks,
                            uint32_t boxes) {
  return cel_fail(CEL_E_RANGE,
                  "the boxes of a range mapper lie apart, and %" PRId64
                  " of %" PRId64 " ranks have %u of them together: %d are the"
                  " most",
                  ranks, footprint->split.n, boxes, LISTED);
}

/* Every rank's boxes, for a rule that has no closed form. O(ranks). */
static cel_status evaluate(cel__footprints *all, cel__footprint *footprint) {
  int64_t n = footprint->split.n;
  cel__list *list = cel_alloc_zero(sizeof *list);
  list->start = cel_alloc(((size_t)n + 1) * sizeof *list->start);
  cel__boxes boxes = {0};
  cel_region region = {0};
  cel_status status = CEL_E_OK;
  for (int64_t k = 0; k < n && status == CEL_E_OK; ++k) {
    list->start[k] = boxes.n;
    cel_box chunk;
    if (!cel_split_chunk(&footprint->split, k, &chunk)) continue;
    int64_t row = footprint->key->placement == CEL_PLACE_ONCE ? 0 : k;
    if (footprint->rows) chunk = (cel_box){{row, 0, 0}, {row + 1, 1, 1}};
    status = cel_rule_eval(&footprint->use, &chunk, &region);
    for (uint32_t i = 0; status == CEL_E_OK && i < region.n; ++i) {
      cel_vec_push(&boxes, region.at[i]);
      list->hull = cel_box_hull(&list->hull, &region.at[i]);
    }
    if (boxes.n > LISTED) status = fail_many(footprint, k + 1, boxes.n);
  }
  cel_region_release(&region);
  list->start[n] = boxes.n;
  list->box = boxes.at;
  footprint->hull = list->hull;
  if (status == CEL_E_OK)
    footprint->list = cel__reps_intern_list(all->reps, n, list);
  else
    cel__list_destroy(list);
  return status;
}

static bool is_of(const cel__footprint *footprint, const footprint_key *key,
                  size_t size) {
  return key_size(footprint->key) == size &&
         memcmp(footprint->key, key, size) == 0;
}

cel_status cel__footprint_find(cel__footprints *all, const cel_task *task,
                               const cel_access *access, cel__footprint **out) {
  footprint_key key;
  make_key(task, access, &key);
  size_t size = key_size(&key);
  cel__footprint **recent =
      &all->recent[access->use.rule->hash % CEL__FOOTPRINTS_RECENT];
  if (*recent != NULL && is_of(*recent, &key, size)) {
    *out = *recent;
    return CEL_E_OK;
  }
  uint64_t hash = cel_hash(&key, size, 0);
  uint32_t id = cel__interner_first(&all->in, hash);
  for (; id != CEL__NO_ID; id = cel__interner_next(&all->in, id, hash)) {
    cel__footprint *old = cel__interner_at(&all->in, id);
    if (!is_of(old, &key, size)) continue;
    *out = *recent = old;
    return CEL_E_OK;
  }
  cel__footprint *made = cel_arena_alloc(&all->arena, sizeof *made);
  *made = (cel__footprint){.key = cel_arena_copy(&all->arena, &key, size),
                           .use = access->use};
  made->rows = access->rows > 0;
  if (!made->rows) made->use.range = task->range;
  made->use.params = made->key->param;
  made->permitted = kind_of(task);
  cel_split split = cel_task_split(task, all->ranks);
  take_split(all, made, &split);
  if (!bind_shapes(all, made)) CEL_TRY(evaluate(all, made));
  cel__interner_add(&all->in, &made->head, hash);
  *out = *recent = made;
  return CEL_E_OK;
}

void cel__footprint_boxes(const cel__footprints *all,
                          const cel__footprint *footprint, int64_t k,
                          cel__boxes *out) {
  cel_box chunk;
  if (!cel_split_chunk(&footprint->split, k, &chunk)) return;
  if (footprint->list != CEL__NO_ID) {
    const cel__rep *rep = cel__rep_at(all->reps, footprint->list);
    cel__rep_boxes(rep, k, &footprint->use.extent, out);
    return;
  }
  for (uint32_t i = 0; i < footprint->shapes; ++i) {
    const cel__shape *shape = &footprint->shape[i];
    cel_box box;
    for (int j = 0; j < CEL_DIMS; ++j) {
      box.min[j] = cel__line_of_rank(&shape->line[j][CEL__LO], k);
      box.max[j] = cel__line_of_rank(&shape->line[j][CEL__HI], k);
    }
    if (cel_box_intersect(&box, &shape->frame, &box)) cel_vec_push(out, box);
  }
}

size_t cel__footprints_bytes(const cel__footprints *all) {
  return cel_arena_bytes(&all->arena) + cel__interner_bytes(&all->in);
}
