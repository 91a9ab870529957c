/* Chains of item-wise steps, as simulations have them: each element written is
 * a hash of what its own item reads, so that a step means the same on any part
 * of its range, also on one that is grown. */
#include <string.h>

#include "random/program.h"

enum { MOST_FIELDS = 4, MOST_CHAIN = 20, ROOM_LEFT = 20 };

typedef enum scheme {
  PING_PONG, /* from one field into the other, and back */
  WAVE,      /* likewise, where what is written counts too */
  LEAP,      /* from two fields into a third, by turns */
  SYSTEM,    /* from two fields into two others, and back */
  PIPELINE,  /* of radius 0: any field from any others */
  MIXED,     /* likewise, each at a radius of its own */
  SCHEMES
} scheme;

typedef struct chain {
  cel_random *random;
  program *program;
  bool *freed;
  scheme scheme;
  int field[MOST_FIELDS], fields;
  stencil stencil; /* of each step, where steps are alike */
  cel_mode mode;   /* likewise, of what it writes */
  int table;       /* a buffer that is only read, or -1 */
  bool one_kernel;
  step shape; /* what all steps are */
} chain;

static int64_t pick(cel_random *r, int64_t lo, int64_t hi) {
  return cel_random_int(r, lo, hi);
}

static bool chance(const chain *c, int percent) {
  return cel_random_chance(c->random, percent);
}

/* ---- fields -------------------------------------------------------------- */

/* Most have one shape, some are longer. */
static void make_fields(cel_random *r, program *p) {
  static const int64_t least[] = {0, 6, 3, 2}, most[] = {0, 64, 20, 6};
  static const uint32_t sizes[] = {4, 4, 8, 8, 8, 12};
  buffer like = {.dims = (int)pick(r, 1, 3),
                 .extent = cel_box_sized(1, 1, 1),
                 .element_size = sizes[pick(r, 0, 5)]};
  for (int d = 0; d < like.dims; ++d)
    like.extent.max[d] = pick(r, least[like.dims], most[like.dims]);
  int64_t n = pick(r, 2, MOST_FIELDS);
  for (; n > 0 && p->buffers < MOST_BUFFERS; --n) {
    buffer *b = &p->buffer[p->buffers++];
    *b = like;
    b->init = cel_random_chance(r, 80);
    if (cel_random_chance(r, 15)) b->extent.max[pick(r, 0, like.dims - 1)]++;
    ++p->fields;
  }
}

static bool has_fields(uint64_t seed, cel_random *r) {
  r->state = seed ^ 0x6669656c64;
  return cel_random_chance(r, 30);
}

bool seed_has_fields(uint64_t seed) {
  cel_random r;
  return has_fields(seed, &r);
}

void fields_generate(program *p) {
  cel_random r;
  if (has_fields(p->seed, &r)) make_fields(&r, p);
}

/* ---- what steps have in common ------------------------------------------- */

static bool find_fields(chain *c) {
  const program *p = c->program;
  for (int b = p->buffers - p->fields; b < p->buffers; ++b)
    if (!c->freed[b]) c->field[c->fields++] = b;
  for (int i = c->fields; i-- > 1;) {
    int other = (int)pick(c->random, 0, i), field = c->field[i];
    c->field[i] = c->field[other];
    c->field[other] = field;
  }
  return c->fields >= 2;
}

static void pick_scheme(chain *c) {
  static const int needed[] = {2, 2, 3, 4, 2, 2};
  do {
    c->scheme = (scheme)pick(c->random, 0, SCHEMES - 1);
  } while (needed[c->scheme] > c->fields);
  /* What is left is for tables. */
  if (c->scheme <= LEAP) c->fields = needed[c->scheme];
}

/* To one side of an item alone, as far as there is one: u[min(i + 1, n - 1)].
 * By numbers of its own. */
static void pick_held(cel_random r, stencil *s) {
  r.state ^= 0x68656c64;
  s->held = cel_random_chance(&r, 25);
  for (int d = 0; d < CEL_DIMS && s->held; ++d) {
    bool up = cel_random_chance(&r, 50);
    int64_t *far = up ? &s->high[d] : &s->low[d];
    if (*far > 0 && cel_random_chance(&r, 60))
      *(up ? &s->low[d] : &s->high[d]) = -pick(&r, 0, *far);
  }
}

/* Around the ends of fields, in some dimensions: most often where one device
 * has all of them. By numbers of its own. */
static void pick_wraps(cel_random r, const program *p, stencil *s) {
  r.state ^= 0x77726170;
  const int often = p->ranks * p->devices == 1 ? 70 : 50;
  if (s->in_range || s->held || !cel_random_chance(&r, often)) return;
  for (int d = 0; d < CEL_DIMS; ++d) s->wraps[d] = cel_random_chance(&r, 60);
  s->cut = cel_random_chance(&r, 40);
}

static void pick_stencil(chain *c) {
  static const int64_t radius[] = {0, 1, 1, 1, 1, 2, 2, 3};
  int64_t most = c->scheme == PIPELINE ? 0 : radius[pick(c->random, 0, 7)];
  bool even = chance(c, 70);
  c->stencil =
      (stencil){.axes = chance(c, 30), .in_range = most > 0 && chance(c, 25)};
  c->stencil.clamped = !c->stencil.in_range || chance(c, 50);
  for (int d = 0; d < 3; ++d) {
    c->stencil.low[d] = even ? most : pick(c->random, 0, most);
    c->stencil.high[d] = even ? most : pick(c->random, 0, most);
  }
  pick_held(*c->random, &c->stencil);
  if (most > 0) pick_wraps(*c->random, c->program, &c->stencil);
}

/* What all fields have; or a part of it, with a rim that nobody writes, but not
 * where ends meet. */
static void pick_range(chain *c) {
  const program *p = c->program;
  cel_box *range = &c->shape.range;
  *range = p->buffer[c->field[0]].extent;
  for (int i = 1; i < c->fields; ++i)
    cel_box_intersect(range, &p->buffer[c->field[i]].extent, range);
  const bool *wraps = c->stencil.wraps;
  bool inside = chance(c, 40) && !wraps[0] && !wraps[1] && !wraps[2];
  for (int d = 0; d < c->shape.dims && inside; ++d) {
    int64_t size = range->max[d], rim = size < 3 ? 0 : pick(c->random, 0, 2);
    range->min[d] += rim;
    range->max[d] -= size - 2 * rim > 1 ? rim : 0;
  }
}

static void pick_split(chain *c) {
  step *s = &c->shape;
  s->permitted = (cel_split_kind){{true, false, false}, {1, 1, 1}};
  for (int d = 1; d < s->dims; ++d) s->permitted.cut[d] = chance(c, 40);
  if (chance(c, 15)) s->permitted.granularity[0] = pick(c->random, 2, 5);
  s->oversubscribe = chance(c, 10) ? (int)pick(c->random, 2, 4) : 0;
}

static void pick_weights(chain *c) {
  step *s = &c->shape;
  s->rank_weights = chance(c, 70);
  s->device_weights = chance(c, 30);
  for (int k = 0; k < MOST_RANKS; ++k) {
    s->rank_weight[k] = k == 0 || chance(c, 80) ? pick(c->random, 1, 5) : 0;
    for (int d = 0; d < MOST_DEVICES; ++d)
      s->device_weight[k][d] = pick(c->random, 1, 3);
  }
}

static void pick_mode(chain *c) {
  static const cel_mode modes[] = {CEL_MODE_DISCARD_WRITE,
                                   CEL_MODE_DISCARD_WRITE, CEL_MODE_WRITE,
                                   CEL_MODE_READ_WRITE};
  c->mode = modes[pick(c->random, c->scheme == WAVE ? 2 : 0, 3)];
}

/* ---- one step -------------------------------------------------------------
 */

static void take(chain *c, step *s, int b, cel_mode mode, const stencil *what) {
  const buffer *of = &c->program->buffer[b];
  s->access[s->accesses++] = (access){
      .buffer = b, .mode = mode, .rule = rule_stencil(c->random, s, of, what)};
}

static void put(chain *c, step *s, int b) {
  static const stencil itself = {.clamped = false};
  take(c, s, b, c->mode, &itself);
}

/* Some field into which some others go. */
static void take_any(chain *c, step *s) {
  int to = (int)pick(c->random, 0, c->fields - 1), n = 0;
  pick_mode(c);
  for (int i = 0; i < c->fields && n < 2; ++i) {
    if (i == to || (n > 0 && chance(c, 50))) continue;
    if (c->scheme == MIXED) pick_stencil(c);
    take(c, s, c->field[i], CEL_MODE_READ, &c->stencil);
    ++n;
  }
  put(c, s, c->field[to]);
}

static void take_fields(chain *c, step *s, int64_t at) {
  const int *f = c->field;
  switch (c->scheme) {
  case PING_PONG:
  case WAVE:
    take(c, s, f[at % 2], CEL_MODE_READ, &c->stencil);
    put(c, s, f[(at + 1) % 2]);
    break;
  case LEAP:
    take(c, s, f[at % 3], CEL_MODE_READ, &c->stencil);
    take(c, s, f[(at + 1) % 3], CEL_MODE_READ, &c->stencil);
    put(c, s, f[(at + 2) % 3]);
    break;
  case SYSTEM:
    for (int i = 0; i < 2; ++i)
      take(c, s, f[at % 2 * 2 + i], CEL_MODE_READ, &c->stencil);
    for (int i = 0; i < 2; ++i) put(c, s, f[(at + 1) % 2 * 2 + i]);
    break;
  default: take_any(c, s);
  }
}

static bool touches(const step *s, int b) {
  for (int k = 0; k < s->accesses; ++k)
    if (s->access[k].buffer == b) return true;
  return false;
}

static step *add(chain *c, int64_t at) {
  step *s = step_add(c->program);
  int number = s->number;
  *s = c->shape;
  s->number = number;
  if (!c->one_kernel) s->salt = cel_random_next(c->random);
  take_fields(c, s, at);
  int b = c->table;
  if (b >= 0 && !c->freed[b] && !touches(s, b) && s->accesses < MOST_ACCESSES)
    s->access[s->accesses++] =
        (access){.buffer = b,
                 .mode = CEL_MODE_READ,
                 .rule = rule_whole(c->random, s, &c->program->buffer[b])};
  return s;
}

/* ---- what comes between ---------------------------------------------------
 */

static int some_living(chain *c, role most) {
  const program *p = c->program;
  int n = p->buffers, b = (int)pick(c->random, 0, n - 1);
  for (int i = 0; i < n; ++i, b = (b + 1) % n)
    if (!c->freed[b] && p->buffer[b].role <= most) return b;
  return -1;
}

static void add_fence(chain *c) {
  step *s = step_add(c->program);
  s->kind = STEP_FENCE;
  s->buffer = c->field[pick(c->random, 0, c->fields - 1)];
  s->box = c->program->buffer[s->buffer].extent;
  s->wait = chance(c, 40);
}

static void add_epoch(chain *c) {
  step *s = step_add(c->program);
  s->kind = STEP_EPOCH;
  s->wait = chance(c, 50);
}

/* Of a buffer that the chain does not name again. */
static void add_free(chain *c) {
  int b = some_living(c, ROLE_KEPT);
  for (int i = 0; i < c->fields; ++i)
    if (b == c->field[i]) return;
  if (b < 0) return;
  step *s = step_add(c->program);
  s->kind = STEP_FREE;
  s->buffer = b;
  c->freed[b] = true;
}

static void interrupt(chain *c, int64_t at) {
  switch (pick(c->random, 0, 7)) {
  case 0:
  case 1: add_fence(c); break;
  case 2: add_epoch(c); break;
  case 3: add(c, at)->task = CEL_TASK_HOST; break;
  case 4: pick_split(c); break;
  case 5: pick_weights(c); break;
  case 6: add_free(c); break;
  default: { /* a task whose mapper nobody can look into */
    step *s = add(c, at);
    s->access[pick(c->random, 0, s->accesses - 1)].rule->opaque = true;
  }
  }
}

/* Its last step may reduce, too; in a pipeline also others. */
static void reduce_too(chain *c, step *s) {
  int b = some_living(c, ROLE_NONE);
  if (b >= 0) reduce_generate(c->random, c->program, s, b);
}

void chain_generate(program *p, bool *freed) {
  cel_random r = {p->seed ^ 0x636861696e ^ (uint64_t)p->steps << 32};
  int64_t left = MOST_STEPS - ROOM_LEFT - p->steps;
  chain c = {.random = &r, .program = p, .freed = freed, .shape = {0}};
  if (p->fields == 0 || left < 4 || !cel_random_chance(&r, 30)) return;
  if (!find_fields(&c)) return;
  pick_scheme(&c);
  c.shape = (step){.kind = STEP_GROUP,
                   .task = CEL_TASK_KERNEL,
                   .placement = CEL_PLACE_SPLIT,
                   .chain = p->steps + 1,
                   .salt = cel_random_next(&r),
                   .dims = p->buffer[c.field[0]].dims};
  pick_stencil(&c);
  pick_mode(&c);
  pick_range(&c);
  pick_split(&c);
  if (chance(&c, 15)) pick_weights(&c);
  c.one_kernel = chance(&c, 50);
  c.table = chance(&c, 20) ? some_living(&c, ROLE_KEPT) : -1;
  int often = chance(&c, 40) ? 0 : 20;
  int64_t n = pick(&r, 2, MOST_CHAIN);
  /* What interrupts adds at most one step. */
  for (int64_t at = 0; at < n && left >= 2; ++at) {
    int before = p->steps;
    step *s = add(&c, at);
    if (at + 1 == n || c.scheme == PIPELINE)
      if (chance(&c, 25)) reduce_too(&c, s);
    if (chance(&c, often)) interrupt(&c, at + 1);
    left -= p->steps - before;
  }
}

/* ---- what is alike ------------------------------------------------------- */

bool same_weights(const step *a, const step *b) {
  return a->rank_weights == b->rank_weights &&
         a->device_weights == b->device_weights &&
         memcmp(a->rank_weight, b->rank_weight, sizeof a->rank_weight) == 0 &&
         memcmp(a->device_weight, b->device_weight, sizeof a->device_weight) ==
             0;
}

bool same_split(const step *a, const step *b) {
  return memcmp(&a->permitted, &b->permitted, sizeof a->permitted) == 0 &&
         a->oversubscribe == b->oversubscribe;
}
