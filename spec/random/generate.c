#include <stdio.h>
#include <string.h>

#include "random/program.h"

enum { TRIES = 12, MOST_ATOMS = 48 };

static int64_t pick(cel_random *r, int64_t lo, int64_t hi) {
  return cel_random_int(r, lo, hi);
}

static uint64_t pick_of(cel_random *r, const uint64_t *list, int n) {
  return list[pick(r, 0, n - 1)];
}

/* ---- buffers ------------------------------------------------------------ */

static void generate_buffer(cel_random *r, buffer *b) {
  static const int64_t most[] = {1, 64, 12, 6};
  static const uint64_t sizes[] = {1, 2, 4, 8, 8, 8, 12, 24};
  static const int dims[] = {0, 1, 1, 1, 2, 2, 2, 3};
  *b = (buffer){.dims = dims[pick(r, 0, 7)],
                .extent = cel_box_sized(1, 1, 1),
                .element_size = (uint32_t)pick_of(r, sizes, 8),
                .init = cel_random_chance(r, 60)};
  for (int d = 0; d < b->dims; ++d)
    b->extent.max[d] = pick(r, 1, most[b->dims]);
}

/* ---- groups ------------------------------------------------------------- */

static int64_t clip(int64_t x, int64_t most) {
  return x > most ? most : x;
}

/* Mostly the shape of a buffer, or of a part of it. */
static void generate_range(cel_random *r, const program *p, step *s) {
  const buffer *b = &p->buffer[pick(r, 0, p->buffers - 1)];
  s->dims = cel_random_chance(r, 75) ? b->dims : (int)pick(r, 0, 3);
  s->range = cel_box_sized(1, 1, 1);
  int64_t left = MOST_ATOMS;
  for (int d = 0; d < s->dims; ++d) {
    int64_t size = d < b->dims ? b->extent.max[d] : pick(r, 1, 5);
    int64_t lo = 0;
    if (cel_random_chance(r, 30)) lo = pick(r, 0, size - 1);
    if (cel_random_chance(r, 30)) size = pick(r, lo + 1, size);
    s->range.min[d] = lo;
    s->range.max[d] = lo + clip(size - lo, left);
    left /= s->range.max[d] - lo;
    if (left == 0) left = 1;
  }
  if (s->dims > 0 && cel_random_chance(r, 3)) s->range.max[0] = s->range.min[0];
}

/* Never 0 for the first, which may be alone. Few kinds, so that tasks share
 * them. */
static void generate_weights(cel_random *r, int64_t *weight, int n) {
  static const uint64_t some[] = {1, 1, 1, 2, 3, 17};
  cel_random kind = {(uint64_t)pick(r, 0, 5)};
  bool zeros = cel_random_chance(&kind, 50);
  for (int i = 0; i < n; ++i) {
    weight[i] = (int64_t)pick_of(&kind, some, 6);
    if (i > 0 && zeros && cel_random_chance(&kind, 25)) weight[i] = 0;
  }
}

void split_generate(cel_random *r, step *s) {
  s->permitted = (cel_split_kind){{true, false, false}, {1, 1, 1}};
  if (cel_random_chance(r, 30)) s->permitted.cut[1] = true;
  if (cel_random_chance(r, 30)) s->permitted.cut[2] = true;
  if (cel_random_chance(r, 10)) s->permitted.cut[0] = false;
  for (int d = 0; d < 3; ++d)
    if (cel_random_chance(r, 20)) s->permitted.granularity[d] = pick(r, 2, 5);
  for (int d = s->dims; d < 3; ++d) s->permitted.cut[d] = false;
  if (cel_random_chance(r, 25)) s->oversubscribe = (int)pick(r, 2, 5);
  s->rank_weights = cel_random_chance(r, 20);
  s->device_weights = cel_random_chance(r, 20);
  if (s->rank_weights) generate_weights(r, s->rank_weight, MOST_RANKS);
  for (int k = 0; s->device_weights && k < MOST_RANKS; ++k)
    generate_weights(r, s->device_weight[k], MOST_DEVICES);
}

static void place_each(const program *p, step *s) {
  s->placement = CEL_PLACE_EACH;
  s->dims = 1;
  s->range = cel_box_sized(p->ranks, 1, 1);
  s->permitted = (cel_split_kind){{true, false, false}, {1, 1, 1}};
  s->rank_weights = false;
}

static void generate_shape(cel_random *r, const program *p, step *s) {
  s->task = cel_random_chance(r, 70) ? CEL_TASK_KERNEL : CEL_TASK_HOST;
  s->placement = CEL_PLACE_SPLIT;
  if (cel_random_chance(r, 12)) s->placement = CEL_PLACE_ONCE;
  generate_range(r, p, s);
  split_generate(r, s);
  if (!cel_random_chance(r, p->collectives)) return;
  place_each(p, s);
  if (cel_random_chance(r, 40)) return;
  s->task = CEL_TASK_HOST;
  s->collective = (uint32_t)pick(r, 1, MOST_GROUPS);
}

/* What a program has freed so far. */
typedef struct dead {
  bool buffer[MOST_BUFFERS], object[MOST_OBJECTS];
} dead;

static int living(cel_random *r, const program *p, const dead *d) {
  int b = (int)pick(r, 0, p->buffers - 1);
  for (int i = 0; i < p->buffers; ++i, b = (b + 1) % p->buffers)
    if (!d->buffer[b] && p->buffer[b].role != ROLE_HIDDEN) return b;
  return -1;
}

static void drop_last(step *s) {
  cel_free(s->access[--s->accesses].rule);
}

/* What is apart only host tasks change, whole chunks of them, and keep the
 * rest.
 */
static bool may_access(const program *p, const step *s, int b, cel_mode mode) {
  if (!cel_mode_produces(mode)) return true;
  if (p->buffer[b].role != ROLE_NONE) return false;
  if (!p->buffer[b].apart) return true;
  bool runs = s->oversubscribe > 1 && s->placement == CEL_PLACE_SPLIT;
  return s->task == CEL_TASK_HOST && !runs && mode != CEL_MODE_DISCARD_WRITE;
}

/* Ranks may each write all of what is their own. */
static rule *generate_rule(cel_random *r, const program *p, const step *s,
                           int b, cel_mode mode) {
  const buffer *to = &p->buffer[b];
  if (to->apart && s->placement == CEL_PLACE_EACH && cel_random_chance(r, 60))
    return rule_whole(r, s, to);
  return rule_generate(r, s, to, cel_mode_produces(mode));
}

/* One more access that keeps the step valid, if one is found. */
static void generate_access(cel_random *r, const program *p, step *s,
                            const dead *d) {
  static const cel_mode modes[] = {
      CEL_MODE_READ,      CEL_MODE_READ,          CEL_MODE_READ,
      CEL_MODE_WRITE,     CEL_MODE_DISCARD_WRITE, CEL_MODE_DISCARD_WRITE,
      CEL_MODE_READ_WRITE};
  for (int i = 0; i < TRIES; ++i) {
    int b = living(r, p, d);
    if (b < 0) return;
    cel_mode mode = modes[pick(r, s->accesses == 0 ? 3 : 0, 6)];
    if (!may_access(p, s, b, mode)) continue;
    rule *made = generate_rule(r, p, s, b, mode);
    s->access[s->accesses++] =
        (access){.buffer = b, .mode = mode, .rule = made};
    if (step_valid_last(p, s)) return;
    drop_last(s);
  }
}

static bool has_effect(const step *s, int o) {
  for (int i = 0; i < s->effects; ++i)
    if (s->effect[i].object == o) return true;
  return false;
}

static void generate_effects(cel_random *r, const program *p, step *s,
                             const dead *d) {
  static const cel_order orders[] = {CEL_ORDER_SEQUENTIAL, CEL_ORDER_EXCLUSIVE,
                                     CEL_ORDER_EXCLUSIVE, CEL_ORDER_RELAXED,
                                     CEL_ORDER_RELAXED};
  if (p->objects == 0 || s->task != CEL_TASK_HOST) return;
  for (int64_t i = pick(r, 0, MOST_EFFECTS); i > 0; --i) {
    int o = (int)pick(r, 0, p->objects - 1);
    if (!d->object[o] && !has_effect(s, o))
      s->effect[s->effects++] = (effect){o, orders[pick(r, 0, 4)]};
  }
}

static void generate_group(cel_random *r, const program *p, step *s,
                           const dead *d) {
  s->kind = STEP_GROUP;
  s->salt = cel_random_next(r);
  generate_shape(r, p, s);
  if (p->objects > 0 && cel_random_chance(r, 30)) s->task = CEL_TASK_HOST;
  generate_effects(r, p, s, d);
  int wanted = (int)pick(r, s->effects > 0 ? 0 : 1, 3);
  if (cel_random_chance(r, 10)) wanted = MOST_ACCESSES;
  for (int i = 0; i < wanted; ++i) generate_access(r, p, s, d);
  /* Of no items they come to something, too. */
  int often = cel_box_is_empty(&s->range) ? 80 : 25;
  for (int64_t i = cel_random_chance(r, often) ? pick(r, 1, 2) : 0; i > 0;
       --i) {
    int b = living(r, p, d);
    if (b >= 0 && p->buffer[b].role == ROLE_NONE) reduce_generate(r, p, s, b);
  }
}

static void generate_bad(cel_random *r, const program *p, step *s,
                         const dead *d) {
  generate_group(r, p, s, d);
  int b = living(r, p, d);
  if (s->placement != CEL_PLACE_SPLIT || s->accesses == MOST_ACCESSES ||
      cel_box_is_empty(&s->range) || b < 0 || p->buffer[b].apart)
    return;
  for (int k = 0; k < s->accesses; ++k)
    if (reduces(&s->access[k])) return; /* may be refused for that first */
  cel_mode mode;
  cel_status code;
  rule *made = rule_generate_bad(r, s, &p->buffer[b], &mode, &code);
  if (made == NULL) return;
  s->kind = STEP_BAD;
  s->code = code;
  s->access[s->accesses++] = (access){.buffer = b, .mode = mode, .rule = made};
}

/* ---- the other steps ---------------------------------------------------- */

/* Another part on each rank, if a rule for that is found. */
static bool generate_parts(cel_random *r, const program *p, step *s) {
  place_each(p, s);
  for (int i = 0; i < TRIES; ++i) {
    rule *made = rule_generate(r, s, &p->buffer[s->buffer], false);
    s->access[s->accesses++] =
        (access){.buffer = s->buffer, .mode = CEL_MODE_READ, .rule = made};
    if (made->desc.boxes == 1 && !made->opaque && !rule_has_families(made) &&
        step_valid(p, s))
      return true;
    drop_last(s);
  }
  return false;
}

static void generate_fence(cel_random *r, const program *p, step *s, int b) {
  s->kind = STEP_FENCE;
  s->buffer = b;
  s->wait = cel_random_chance(r, 30);
  s->box = p->buffer[b].extent;
  if (cel_random_chance(r, 30) && generate_parts(r, p, s)) return;
  if (cel_random_chance(r, 50)) return;
  for (int d = 0; d < p->buffer[b].dims; ++d) {
    s->box.min[d] = pick(r, 0, s->box.max[d] - 1);
    s->box.max[d] = pick(r, s->box.min[d] + 1, s->box.max[d]);
  }
}

step *step_add(program *p) {
  cel_assert(p->steps < MOST_STEPS);
  step *s = cel_alloc_zero(sizeof *s);
  s->number = p->steps;
  p->step[p->steps++] = s;
  return s;
}

static void generate_step(cel_random *r, program *p, dead *d) {
  int b = living(r, p, d);
  if (b < 0) return;
  step *s = step_add(p);
  int64_t what = pick(r, 0, 99);
  if (what < 78) {
    generate_group(r, p, s, d);
  } else if (what < 83) {
    generate_bad(r, p, s, d);
  } else if (what < 92) {
    generate_fence(r, p, s, b);
  } else if (what < 97) {
    s->kind = STEP_EPOCH;
    s->wait = cel_random_chance(r, 60);
  } else {
    s->kind = STEP_FREE;
    s->buffer = b;
    d->buffer[b] = true;
  }
}

/* What was just reduced is often asked for by all ranks, before any task reads
 * it. By numbers of its own. */
static void generate_asking(program *p, int from) {
  cel_random r = {p->seed ^ 0x61736b ^ (uint64_t)from << 32};
  const step *s = from < p->steps ? p->step[from] : NULL;
  if (s == NULL || s->kind != STEP_GROUP || p->steps >= MOST_STEPS - 20 ||
      !cel_random_chance(&r, 40))
    return;
  for (int k = 0; k < s->accesses; ++k) {
    if (!reduces(&s->access[k])) continue;
    step *fence = step_add(p);
    fence->kind = STEP_FENCE;
    fence->buffer = s->access[k].buffer;
    fence->box = p->buffer[fence->buffer].extent;
    fence->wait = cel_random_chance(&r, 20);
  }
}

/* By numbers of its own. */
static void generate_tiles(program *p, const dead *d) {
  cel_random r = {p->seed ^ 0x74696c6573 ^ (uint64_t)p->steps << 32};
  if (p->steps >= MOST_STEPS - 20 || !cel_random_chance(&r, 15)) return;
  int first = living(&r, p, d), second = living(&r, p, d);
  if (first < 0 || !tiles_suit(p, first, second)) return;
  step *writes = step_add(p), *reads = step_add(p);
  tiles_generate(&r, p, first, second, writes, reads);
}

/* Tasks in a row at what ranks share, most of them with nothing else that would
 * order them. By numbers of its own. */
static void generate_turns(program *p, const dead *d) {
  cel_random r = {p->seed ^ 0x7475726e73 ^ (uint64_t)p->steps << 32};
  if (p->objects == 0 || p->steps >= MOST_STEPS - 20 ||
      !cel_random_chance(&r, 20))
    return;
  int o = (int)pick(&r, 0, p->objects - 1);
  if (d->object[o] || p->scope[o] != CEL_SCOPE_CLUSTER) return;
  for (int64_t i = pick(&r, 2, 4); i > 0; --i) {
    step *s = step_add(p);
    s->kind = STEP_GROUP;
    s->salt = cel_random_next(&r);
    generate_shape(&r, p, s);
    s->task = CEL_TASK_HOST;
    if (cel_random_chance(&r, 35)) {
      place_each(p, s);
      s->collective = (uint32_t)pick(&r, 1, MOST_GROUPS);
    }
    bool relaxed = cel_random_chance(&r, 50);
    s->effect[s->effects++] =
        (effect){o, relaxed ? CEL_ORDER_RELAXED : CEL_ORDER_SEQUENTIAL};
    if (cel_random_chance(&r, 25)) generate_access(&r, p, s, d);
  }
}

/* A buffer that a task before step `at` writes, often the last one that does;
 * or -1. */
static int some_written(cel_random *r, const program *p, int at) {
  int found = -1;
  for (int i = at; i-- > 0 && (found < 0 || cel_random_chance(r, 40));) {
    const step *s = p->step[i];
    for (int k = 0; s->kind == STEP_GROUP && k < s->accesses; ++k)
      if (cel_mode_produces(s->access[k].mode) && !is_apart(p, &s->access[k]))
        found = s->access[k].buffer;
  }
  return found;
}

static void generate_home(cel_random *r, const program *p, step *s) {
  int b = cel_random_chance(r, 35) ? -1 : some_written(r, p, s->number);
  s->placement = CEL_PLACE_ONCE;
  s->home =
      (home){.given = true, .rank = (int)pick(r, 0, p->ranks - 1), .buffer = b};
  if (b < 0) return;
  s->home.box = p->buffer[b].extent;
  for (int d = 0; d < p->buffer[b].dims && cel_random_chance(r, 60); ++d) {
    s->home.box.min[d] = pick(r, 0, s->home.box.max[d] - 1);
    s->home.box.max[d] = pick(r, s->home.box.min[d] + 1, s->home.box.max[d]);
  }
}

/* By numbers of its own. */
static void generate_homes(program *p) {
  cel_random r = {p->seed ^ 0x686f6d65};
  for (int i = 0; i < p->steps; ++i) {
    step *s = p->step[i];
    bool once = s->placement == CEL_PLACE_ONCE;
    bool cut = s->data == DATA_FIND || s->data == DATA_GATHER; /* alike */
    if (s->kind == STEP_GROUP && s->placement != CEL_PLACE_EACH && !cut &&
        cel_random_chance(&r, once ? 80 : 6))
      generate_home(&r, p, s);
  }
}

static void generate_look(cel_random *r, program *p, const dead *d) {
  int o = (int)pick(r, 0, p->objects - 1);
  if (d->object[o]) return;
  step *s = step_add(p);
  s->kind = STEP_LOOK;
  s->object = o;
  s->wait = cel_random_chance(r, 30);
}

static void generate_object_end(cel_random *r, program *p, dead *d) {
  int o = (int)pick(r, 0, p->objects - 1);
  if (d->object[o]) return;
  step *s = step_add(p);
  s->kind = STEP_END;
  s->object = o;
  d->object[o] = true;
}

static void generate_objects(cel_random *r, program *p) {
  if (cel_random_chance(r, 50)) return;
  p->objects = (int)pick(r, 1, MOST_OBJECTS);
  p->releases = (uint32_t)pick(r, 0, (1 << MOST_OBJECTS) - 1);
  for (int o = 0; o < p->objects; ++o)
    p->scope[o] = cel_random_chance(r, 60) ? CEL_SCOPE_RANK : CEL_SCOPE_CLUSTER;
}

/* Fences of all that lives, and a last epoch. */
static void generate_end(program *p, const dead *d) {
  for (int b = 0; b < p->buffers; ++b) {
    if (d->buffer[b] || p->buffer[b].role == ROLE_HIDDEN) continue;
    step *s = step_add(p);
    s->kind = STEP_FENCE;
    s->buffer = b;
    s->box = p->buffer[b].extent;
  }
  step *s = step_add(p);
  s->kind = STEP_EPOCH;
  s->wait = true;
}

/* ---- programs ----------------------------------------------------------- */

static int generate_ranks(cel_random *r) {
  int64_t what = pick(r, 0, 99);
  if (what < 15) return 1;
  if (what < 40) return 2;
  if (what < 70) return (int)pick(r, 3, 4);
  if (what < 90) return (int)pick(r, 5, 8);
  return (int)pick(r, 9, MOST_RANKS);
}

static void generate_settings(cel_random *r, program *p, int ranks) {
  static const uint64_t small[] = {0, 0, 1, 16, 64};
  static const uint64_t large[] = {0, 0, 24, 100, 256};
  static const uint64_t grain[] = {0, 0, 64, 64, 256, 4096};
  static const uint64_t breadth[] = {2, 4, 8, 64};
  static const uint64_t hosts[] = {0, 1, 1, 2, 3};
  static const uint64_t direct[] = {1, 1, 24, 100};
  static const uint64_t far[] = {0, 0, 1, 24, 100};
  static const uint64_t chain[] = {0, 64, 4096, 1 << 20};
  p->ranks = generate_ranks(r);
  if (ranks > 0) p->ranks = ranks;
  p->devices = cel_random_chance(r, 60) ? 1 : (int)pick(r, 2, 4);
  p->own_memory = cel_random_chance(r, 50);
  p->lookahead = cel_random_chance(r, 50);
  if (cel_random_chance(r, 25))
    p->squeeze = (uint32_t)cel_random_int(r, 1, (1 << MOST_RANKS) - 1);
  if (cel_random_chance(r, 25)) p->cap = (uint32_t)cel_random_int(r, 1, 3);
  p->horizon_step = (int)pick(r, 1, cel_random_chance(r, 50) ? 5 : 64);
  p->horizon_breadth = (int)pick_of(r, breadth, 4);
  p->laps_ahead = (int)pick(r, 1, 8);
  p->small_bytes = pick_of(r, small, 5);
  p->large_bytes = pick_of(r, large, 5);
  p->interior_bytes = 16 * pick(r, -6, 3);
  p->together_peers = (uint32_t)pick(r, 0, 3);
  p->chains = cel_random_chance(r, 50);
  p->grain = pick_of(r, grain, 6);
  p->hosts = (int)pick_of(r, hosts, 5);
  p->exchanges = cel_random_chance(r, 50);
  if (cel_random_chance(r, 30)) p->count_most = pick(r, 1, 30);
  p->collectives = cel_random_chance(r, 25) ? 60 : 12;
  p->direct_bytes = pick_of(r, direct, 4);
  p->block = p->grain << pick(r, 0, 2);
  p->whole = (uint64_t)pick(r, 0, 2) * 100;
  if (cel_random_chance(r, 50))
    p->room =
        (int)(cel_random_chance(r, 50) ? pick(r, 100, 130) : pick(r, 15, 99));
  p->chain_bytes = pick_of(r, chain, 4);
  p->far_bytes = pick_of(r, far, 5);
}

/* From how many readers on what one has is passed on; drawn apart, as what
 * follows is, so that other programs stay what they are. */
static void generate_trees(program *p) {
  cel_random r = {p->seed ^ 0x72656c6179};
  if (cel_random_chance(&r, 60)) p->tree_least = pick(&r, 1, 4);
}

/* Where collectives are not for what is exchanged, reductions may be one step
 * all the same. */
static void generate_steps(program *p) {
  cel_random r = {p->seed ^ 0x73746570};
  p->by_messages = !p->exchanges && cel_random_chance(&r, 40);
  p->alike = cel_random_chance(&r, 70);
}

/* How many steps of a chain are taken together, and of how many bytes they go
 * in sweeps. */
static void generate_folds(program *p) {
  static const uint64_t most[] = {0, 0, 0, 1, 2, 3, 8, 64};
  cel_random r = {p->seed ^ 0x666f6c64};
  p->fold = (int)pick_of(&r, most, 8);
  if (cel_random_chance(&r, 50)) p->sweep_bytes = 1 << pick(&r, 5, 12);
  p->spares = cel_random_chance(&r, 60);
}

/* How many bytes of ended buffers may be there when more is allocated. */
static void generate_freed(program *p) {
  cel_random r = {p->seed ^ 0x6672656564};
  if (cel_random_chance(&r, 40)) p->freed_bytes = 1 << pick(&r, 0, 10);
}

/* In such a program more buffers end, of those that there are several of. */
static void generate_ends(program *p, dead *d) {
  cel_random r = {p->seed ^ 0x656e6473 ^ (uint64_t)p->steps << 32};
  if (p->freed_bytes == 0 || p->steps >= MOST_STEPS - 20 ||
      !cel_random_chance(&r, 15))
    return;
  int b = living(&r, p, d);
  if (b < 0) return;
  d->buffer[b] = true;
  bool others = living(&r, p, d) >= 0;
  d->buffer[b] = others;
  if (!others) return;
  step *s = step_add(p);
  s->kind = STEP_FREE;
  s->buffer = b;
}

/* Collectives between devices, where they can be. */
static void generate_collective(program *p) {
  static const uint64_t most[] = {0, 64, 1000, UINT64_MAX};
  cel_random r = {p->seed ^ 0x6a6f696e74};
  bool own = p->own_memory || p->devices > 1;
  if (!p->chains || !own || !p->exchanges || cel_random_chance(&r, 30)) return;
  p->collective =
      (cel_collective_limits){.devices = p->devices,
                              .pairs = p->seed % 8 != 0,
                              .least = cel_random_chance(&r, 20) ? 100 : 0,
                              .most = pick_of(&r, most, 4),
                              .packed_most = pick_of(&r, most, 4)};
  if (cel_random_chance(&r, 60))
    p->collective.most = p->collective.packed_most = UINT64_MAX;
  if (cel_random_chance(&r, 20)) p->collective.least_parts = 200;
}

/* Buffers that are told apart by nothing but which they are. */
static void generate_likes(program *p) {
  cel_random r = {p->seed ^ 0x6c696b65};
  for (int b = 1; b < p->buffers; ++b)
    if (cel_random_chance(&r, p->freed_bytes != 0 ? 60 : 15))
      p->buffer[b] = p->buffer[b - 1];
}

/* Those of which each rank has its own. */
static void generate_apart(program *p) {
  cel_random r = {p->seed ^ 0x6170617274};
  if (!cel_random_chance(&r, 30)) return;
  for (int b = 0; b < p->buffers; ++b) {
    if (!cel_random_chance(&r, 40)) continue;
    p->buffer[b].apart = true;
    p->buffer[b].init = true;
  }
}

program *program_generate(uint64_t seed, int ranks) {
  cel_random r = {seed * 0x2545f4914f6cdd1du + 1};
  program *p = cel_alloc_zero(sizeof *p);
  p->seed = seed;
  p->failing_step = -1;
  generate_settings(&r, p, ranks);
  generate_collective(p);
  generate_trees(p);
  generate_steps(p);
  generate_folds(p);
  generate_freed(p);
  p->buffers = (int)pick(&r, 1, 5);
  for (int b = 0; b < p->buffers; ++b) generate_buffer(&r, &p->buffer[b]);
  generate_likes(p);
  generate_apart(p);
  data_buffers_generate(p);
  generate_objects(&r, p);
  fields_generate(p);
  dead d = {0};
  int64_t steps =
      cel_random_chance(&r, 20) ? pick(&r, 20, 45) : pick(&r, 1, 18);
  /* What one turn adds, and the end, have room. */
  for (int64_t i = 0; i < steps && p->steps < MOST_STEPS - 16; ++i) {
    int from = p->steps;
    generate_step(&r, p, &d);
    generate_asking(p, from);
    generate_ends(p, &d);
    generate_tiles(p, &d);
    generate_turns(p, &d);
    chain_generate(p, d.buffer);
    data_generate(p, d.buffer);
    if (p->objects > 0 && p->steps < MOST_STEPS - 20 &&
        cel_random_chance(&r, 8))
      generate_look(&r, p, &d);
    if (p->objects > 0 && cel_random_chance(&r, 5))
      generate_object_end(&r, p, &d);
  }
  generate_homes(p);
  generate_end(p, &d);
  if (!program_interpret(p))
    cel_bug("seed %llu: no program", (unsigned long long)seed);
  return p;
}

int some_group(cel_random *r, const program *p) {
  for (int i = 0; i < 8 * p->steps; ++i) {
    int at = (int)pick(r, 0, p->steps - 1);
    const step *s = p->step[at];
    if (s->kind == STEP_GROUP && !cel_box_is_empty(&s->range)) return at;
  }
  return -1;
}

void program_fail(program *p) {
  cel_random r = {p->seed ^ 0xfa11};
  p->room = 0; /* the only trouble */
  p->failing_step = some_group(&r, p);
}

bool program_troubled(const program *p) {
  return p->odd.what != DIFFERS_NOT_AT_ALL || p->failing_step >= 0;
}

void step_destroy(step *s) {
  for (int k = 0; k < s->accesses; ++k) {
    cel_free(s->access[k].rule);
    cel_free(s->access[k].mask);
  }
  cel_free(s->expect);
  cel_free(s->known);
  cel_free(s);
}

void program_destroy(program *p) {
  for (int i = 0; i < p->steps; ++i) step_destroy(p->step[i]);
  if (p->odd.instead != NULL) step_destroy(p->odd.instead);
  cel_free(p);
}

/* ---- printing ----------------------------------------------------------- */

static const char *box_text(const cel_box *box, int dims, char *text) {
  int n = 0;
  text[0] = '\0';
  for (int d = 0; d < dims; ++d)
    n += sprintf(text + n, "%s[%lld,%lld)", d == 0 ? "" : "x",
                 (long long)box->min[d], (long long)box->max[d]);
  return dims == 0 ? "()" : text;
}

static void print_rule(const rule *r) {
  char text[2048];
  if (r->opaque) {
    printf(" opaque");
    return;
  }
  cel_rules *rules = cel_rules_create();
  const cel_rule *made;
  if (cel_rules_intern(rules, &r->desc, &made) == CEL_E_OK)
    cel_rule_print(made, r->param, text, sizeof text);
  else
    snprintf(text, sizeof text, "malformed: %.1900s", cel_error_last()->text);
  printf(" %s", text);
  for (int b = 0; b < r->desc.boxes; ++b)
    if (r->box[b].clamp) printf(" clamp%d", b);
  cel_rules_destroy(rules);
}

static void print_accesses(const step *s) {
  for (int k = 0; k < s->accesses; ++k) {
    printf("      %s b%d", cel_mode_name(s->access[k].mode),
           s->access[k].buffer);
    if (reduces(&s->access[k])) printf(" by %d", s->access[k].reduce);
    print_rule(s->access[k].rule);
    printf("\n");
  }
}

static void print_group(const step *s) {
  static const char *const placements[] = {"split", "once", "each"};
  char text[128], collective[32];
  snprintf(collective, sizeof collective, "collective %u", s->collective);
  printf("%s%s %s %s %s", s->chain > 0 ? "item-wise" : "",
         s->kind == STEP_BAD ? "BAD " : "",
         s->task == CEL_TASK_KERNEL ? "kernel" : "host",
         s->collective != 0 ? collective : placements[s->placement],
         box_text(&s->range, s->dims, text));
  static const char *const does[] = {"",       " name",    " gather",
                                     " push",  " find",    " meet",
                                     " bring", " combine", " append"};
  printf("%s", does[s->data]);
  if (step_placed(s) && s->home.buffer < 0) printf(" at %d", s->home.rank);
  if (step_placed(s) && s->home.buffer >= 0)
    printf(" where b%d %s lies, at %d", s->home.buffer,
           box_text(&s->home.box, CEL_DIMS, text), s->home.rank);
  printf(" cut %d%d%d by %lld,%lld,%lld in %d\n", s->permitted.cut[0],
         s->permitted.cut[1], s->permitted.cut[2],
         (long long)s->permitted.granularity[0],
         (long long)s->permitted.granularity[1],
         (long long)s->permitted.granularity[2], s->oversubscribe);
  for (int k = 0; s->rank_weights && k < MOST_RANKS; ++k)
    printf("%s%lld", k == 0 ? "      by " : ":", (long long)s->rank_weight[k]);
  if (s->rank_weights) printf("\n");
  print_accesses(s);
}

static void print_effects(const step *s) {
  for (int k = 0; k < s->effects; ++k)
    printf("      %s o%d\n", cel_order_name(s->effect[k].order),
           s->effect[k].object);
}

static void print_step(const step *s) {
  char text[128];
  printf("  %2d: ", s->number);
  switch (s->kind) {
  case STEP_GROUP:
  case STEP_BAD:
    print_group(s);
    print_effects(s);
    break;
  case STEP_FENCE:
    printf("fence b%d %s%s\n", s->buffer,
           s->accesses > 0 ? "each" : box_text(&s->box, 3, text),
           s->wait ? " wait" : "");
    if (s->accesses > 0) print_accesses(s);
    break;
  case STEP_EPOCH: printf("epoch%s\n", s->wait ? " wait" : ""); break;
  case STEP_FREE: printf("free b%d\n", s->buffer); break;
  case STEP_LOOK:
    printf("look at o%d%s\n", s->object, s->wait ? " wait" : "");
    break;
  case STEP_END: printf("end o%d\n", s->object); break;
  }
}

void program_print(const program *p) {
  printf(
      "  seed %llu: %d ranks, %d devices%s%s%s%s%s, horizons %d/%d/%d, small "
      "%llu, "
      "large %llu, interior %lld, joins %u, grain %llu, %d hosts, direct "
      "from %llu, far from %llu, "
      "chained to %llu, blocks of %llu, whole below %llu, room %d %%, "
      "collectives between %d devices up to %llu and %llu, folds of %d%s, "
      "sweeps from %llu, freed up to %llu\n",
      (unsigned long long)p->seed, p->ranks, p->devices,
      p->own_memory ? ", own memory" : "", p->lookahead ? ", lookahead" : "",
      p->alike ? ", alike" : "", p->chains ? ", chains" : "",
      p->exchanges     ? ", collectives"
      : p->by_messages ? ", one step"
                       : "",
      p->horizon_step, p->horizon_breadth, p->laps_ahead,
      (unsigned long long)p->small_bytes, (unsigned long long)p->large_bytes,
      (long long)p->interior_bytes, p->together_peers,
      (unsigned long long)p->grain, p->hosts,
      (unsigned long long)p->direct_bytes, (unsigned long long)p->far_bytes,
      (unsigned long long)p->chain_bytes, (unsigned long long)p->block,
      (unsigned long long)p->whole, p->room, p->collective.devices,
      (unsigned long long)p->collective.most,
      (unsigned long long)p->collective.packed_most, p->fold,
      p->spares ? " as one" : "", (unsigned long long)p->sweep_bytes,
      (unsigned long long)p->freed_bytes);
  for (int b = 0; b < p->buffers; ++b) {
    char text[128];
    printf("  b%d: %s of %u bytes%s\n", b,
           box_text(&p->buffer[b].extent, p->buffer[b].dims, text),
           p->buffer[b].element_size,
           p->buffer[b].apart  ? ", apart"
           : p->buffer[b].init ? ", init"
                               : "");
  }
  for (int o = 0; o < p->objects; ++o)
    printf("  o%d: of %s%s\n", o,
           p->scope[o] == CEL_SCOPE_RANK ? "a rank" : "the cluster",
           (p->releases >> o & 1) != 0 ? ", released" : "");
  for (int i = 0; i < p->steps; ++i)
    if (!p->step[i]->dropped) print_step(p->step[i]);
  difference_print(p);
  if (p->odd.instead != NULL) print_step(p->odd.instead);
}
