#include <string.h>

#include "command/fuzz.h"

/* ---- random programs ------------------------------------------------------
 */

typedef struct generator {
  cel_random random;
  fuzz_program *program;
  int live;   /* buffers from here on have been freed */
  int repeat; /* how many tasks are earlier ones again, in percent */
  bool widen; /* the next task is to be a wider read of what this one wrote */
  bool reads; /* few writes, one access each: replications grow old */
} generator;

static int64_t in(generator *g, int64_t lo, int64_t hi) {
  return cel_random_int(&g->random, lo, hi);
}

static bool chance(generator *g, int percent) {
  return cel_random_chance(&g->random, percent);
}

static int pick(generator *g, const int *of, int n) {
  return of[in(g, 0, n - 1)];
}
#define PICK(g, ...)                                                           \
  pick(g, (const int[]){__VA_ARGS__},                                          \
       sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static fuzz_bound constant(int64_t c) {
  return (fuzz_bound){.divisor = 1, .c = (int)c};
}

static fuzz_bound linear(int a, int of_max, int dim, int64_t c) {
  return (fuzz_bound){a, of_max, dim, 1, (int)c};
}

/* The image [a*min + lo, a*max + hi), reversed for a negative a. */
static void image(fuzz_bound b[2], int a, int dim, int64_t lo, int64_t hi) {
  b[0] = linear(a, a < 0, dim, lo);
  b[1] = linear(a, a > 0, dim, hi);
}

static void span(fuzz_bound b[2], int64_t lo, int64_t hi) {
  b[0] = constant(lo);
  b[1] = constant(hi);
}

static void random_span(generator *g, fuzz_bound b[2], int64_t n) {
  int64_t lo = in(g, 0, n - 1);
  span(b, lo, in(g, lo + 1, n));
}

static void write_dim(generator *g, fuzz_bound b[2], int64_t n, int dims) {
  int d = (int)in(g, 0, dims - 1);
  int64_t r = in(g, 0, 99), c;
  if (r < 45) {
    image(b, 1, d, 0, 0);
  } else if (r < 60) {
    c = in(g, -3, 3);
    image(b, 1, d, c, c);
  } else if (r < 70) {
    c = in(g, -2, 2);
    image(b, PICK(g, 2, 3), d, c, c);
  } else if (r < 80) {
    c = in(g, 0, n * 2);
    image(b, PICK(g, -1, -2), d, c, c);
  } else if (r < 84) { /* leaves gaps */
    c = in(g, -1, 2);
    image(b, 2, d, c, c - 1);
  } else if (r < 86) { /* two slopes: overlaps, or nearly */
    b[0] = linear(PICK(g, 1, 2, 3), 0, d, 0);
    b[1] = linear(PICK(g, 1, 2, 3), 1, d, 0);
  } else if (r < 93) {
    random_span(g, b, n);
  } else {
    span(b, 0, n);
  }
}

static void read_dim(generator *g, fuzz_bound b[2], int64_t n, int dims) {
  int d = (int)in(g, 0, dims - 1);
  int64_t r = in(g, 0, 99), c;
  if (r < 20) {
    image(b, 1, d, 0, 0);
  } else if (r < 40) {
    c = in(g, 0, 2);
    image(b, 1, d, -c, in(g, 0, 2));
  } else if (r < 50) {
    c = in(g, -4, 4);
    image(b, 1, d, c, c + in(g, -1, 2));
  } else if (r < 58) {
    c = in(g, -3, 3);
    image(b, PICK(g, 2, 3), d, c, c + in(g, -1, 2));
  } else if (r < 68) {
    c = in(g, 0, n * 2);
    image(b, PICK(g, -1, -2), d, c, c + in(g, -1, 2));
  } else if (r < 73) { /* a prefix */
    b[0] = constant(0);
    b[1] = linear(1, 1, d, in(g, -1, 1));
  } else if (r < 77) { /* a suffix */
    b[0] = linear(1, 0, d, in(g, -1, 1));
    b[1] = constant(n);
  } else if (r < 80) { /* around the upper edge */
    c = in(g, 0, 1);
    b[0] = linear(1, 1, d, c);
    b[1] = linear(1, 1, d, c + in(g, 1, 2));
  } else if (r < 83) { /* around the lower edge */
    c = in(g, -1, 1);
    b[0] = linear(1, 0, d, c - in(g, 1, 2));
    b[1] = linear(1, 0, d, c);
  } else if (r < 85) { /* two slopes */
    b[0] = linear(1, 0, d, 0);
    b[1] = linear(2, 1, d, 0);
  } else if (r < 92) {
    random_span(g, b, n);
  } else {
    span(b, 0, n);
  }
}

static void permuted_box(generator *g, fuzz_bound box[3][2], int dims,
                         bool write) {
  int to[3] = {0, 1, 2};
  if (chance(g, 40))
    for (int j = dims - 1; j > 0; --j) {
      int q = (int)in(g, 0, j), swap = to[j];
      to[j] = to[q];
      to[q] = swap;
    }
  int64_t halo = !write && chance(g, 50) ? in(g, 0, 2) : 0;
  for (int j = 0; j < dims; ++j) image(box[j], 1, to[j], -halo, halo);
}

/* Each task dimension drives a buffer dimension of its own. */
static void tiling_box(generator *g, fuzz_bound box[3][2], const int64_t *ext,
                       int buffer_dims, int dims) {
  int left[3], n = buffer_dims;
  for (int j = 0; j < buffer_dims; ++j) {
    left[j] = j;
    if (chance(g, 50))
      span(box[j], 0, ext[j]);
    else
      random_span(g, box[j], ext[j]);
  }
  for (int d = 0; d < dims; ++d) {
    int i = (int)in(g, 0, n - 1), j = left[i];
    left[i] = left[--n];
    int a = PICK(g, 1, 1, 1, 1, 2, -1);
    int64_t c = a > 0 ? in(g, -2, 2) : in(g, 0, ext[j] + 2);
    if (a > 0 && chance(g, 50)) c = 0;
    image(box[j], a, d, c, c);
  }
}

/* What has no closed form. */
static void divide(generator *g, fuzz_bound box[3][2], int dims) {
  int j = (int)in(g, 0, dims - 1), divisor = (int)in(g, 2, 3);
  for (int side = 0; side < 2; ++side)
    if (box[j][side].a != 0) box[j][side].divisor = divisor;
}

/* By numbers of its own, so that programs without one stay what they are. */
static void random_family(generator *g, const fuzz_task *t, fuzz_access *a) {
  cel_random own = {g->random.state ^ 0x65616368};
  if (cel_random_chance(&own, 15))
    a->each = (int)cel_random_int(&own, 1, t->dims);
}

static void random_rule(generator *g, const fuzz_task *t, fuzz_access *a) {
  const int64_t *ext = g->program->buffer[a->buffer].ext;
  int buffer_dims = g->program->buffer[a->buffer].dims;
  bool write = cel_mode_produces(a->mode);
  a->boxes = chance(g, 80) ? 1 : (int)in(g, 2, 3);
  a->params = chance(g, 30);
  int64_t style = in(g, 0, 99);
  bool general = chance(g, 6);
  random_family(g, t, a);
  for (int b = 0; b < a->boxes; ++b) {
    fuzz_bound(*box)[2] = a->bound[b];
    if (style < 30 && t->dims == buffer_dims) {
      permuted_box(g, box, buffer_dims, write);
    } else if (write && style < 80 && t->dims <= buffer_dims) {
      tiling_box(g, box, ext, buffer_dims, t->dims);
    } else {
      for (int j = 0; j < buffer_dims; ++j)
        if (write)
          write_dim(g, box[j], ext[j], t->dims);
        else
          read_dim(g, box[j], ext[j], t->dims);
    }
    if (general && buffer_dims > 0) divide(g, box, buffer_dims);
  }
}

static void random_space(generator *g, fuzz_task *t) {
  fuzz_program *p = g->program;
  t->dims = PICK(g, 1, 1, 2, 2, 3);
  int64_t most = t->dims == 1 ? (p->ranks > 9 ? 80 : 24) : 8;
  t->range = cel_box_sized(1, 1, 1);
  for (int d = 0; d < t->dims; ++d) t->range.max[d] = in(g, 1, most);
  if (chance(g, 60)) {
    int b = (int)in(g, 0, p->buffers - 1);
    for (int d = 0; d < t->dims && d < p->buffer[b].dims; ++d)
      t->range.max[d] = p->buffer[b].ext[d];
  }
  if (chance(g, 20))
    for (int d = 0; d < t->dims; ++d) {
      int64_t at = in(g, -2, 3);
      t->range.min[d] += at;
      t->range.max[d] += at;
    }
  int64_t how = in(g, 0, 9);
  t->placement = how == 0 ? CEL_PLACE_ONCE : CEL_PLACE_SPLIT;
  for (int d = 0; d < 3; ++d)
    t->permitted.granularity[d] = PICK(g, 1, 1, 1, 2, 3, 4);
  t->permitted.cut[0] = how < 8;
  t->permitted.cut[1] = t->dims > 1 && how > 5;
  t->permitted.cut[2] = t->dims > 2 && how == 9;
  if (how > 0 && chance(g, 30)) t->weights = (int)in(g, 1, FUZZ_WEIGHTS);
  if (!chance(g, 8)) return;
  t->dims = 1;
  t->placement = CEL_PLACE_EACH;
  t->range = cel_box_sized(p->ranks, 1, 1);
  t->permitted = (cel_split_kind){{true, false, false}, {1, 1, 1}};
  t->weights = 0;
}

static bool twins(const fuzz_program *p, int a, int b) {
  return p->buffer[a].dims == p->buffer[b].dims &&
         p->buffer[a].init == p->buffer[b].init &&
         memcmp(p->buffer[a].ext, p->buffer[b].ext, sizeof p->buffer[a].ext) ==
             0;
}

/* Makes it an access of a buffer that is there, perhaps of a twin; false when
 * there is none. */
static bool revive(generator *g, fuzz_access *a) {
  int b = (int)in(g, 0, g->live - 1);
  bool gone = a->buffer >= g->live;
  if ((gone || chance(g, 50)) && twins(g->program, a->buffer, b)) a->buffer = b;
  return a->buffer < g->live;
}

/* Sometimes an earlier access again. */
static void random_access(generator *g, const fuzz_task *t, int earlier,
                          fuzz_access *a) {
  if (earlier > 0 && chance(g, 35)) {
    const fuzz_task *old = &g->program->task[in(g, 0, earlier - 1)];
    if (old->accesses > 0 && old->dims == t->dims) {
      *a = old->access[in(g, 0, old->accesses - 1)];
      if (revive(g, a)) return;
    }
  }
  *a = (fuzz_access){.buffer = (int)in(g, 0, g->live - 1)};
  a->mode =
      (cel_mode)PICK(g, CEL_MODE_READ, CEL_MODE_READ, CEL_MODE_DISCARD_WRITE,
                     CEL_MODE_READ_WRITE, CEL_MODE_WRITE);
  if (g->reads && earlier > 0 && chance(g, 80)) a->mode = CEL_MODE_READ;
  random_rule(g, t, a);
}

/* An earlier task again, as in a loop, perhaps of other buffers. */
static bool repeat_task(generator *g, int at) {
  fuzz_task t = g->program->task[in(g, 0, at - 1)];
  for (int a = 0; a < t.accesses; ++a)
    if (!revive(g, &t.access[a])) return false;
  g->program->task[at] = t;
  return t.accesses > 0;
}

/* Tiles of a buffer are written over a grid of ranks. */
static bool grid_task(generator *g, fuzz_task *t) {
  int b = (int)in(g, 0, g->live - 1);
  const int64_t *ext = g->program->buffer[b].ext;
  if (g->program->buffer[b].dims < 2) return false;
  *t = (fuzz_task){.kind = CEL_TASK_KERNEL,
                   .placement = CEL_PLACE_SPLIT,
                   .dims = 2,
                   .range = cel_box_sized(ext[0], ext[1], 1),
                   .permitted = {{true, true, false}, {1, 1, 1}},
                   .accesses = 1};
  fuzz_access *a = &t->access[0];
  a->buffer = b;
  a->mode = CEL_MODE_DISCARD_WRITE;
  a->boxes = 1;
  for (int j = 0; j < 2; ++j) image(a->bound[0][j], 1, j, 0, 0);
  if (g->program->buffer[b].dims == 3) span(a->bound[0][2], 0, ext[2]);
  return true;
}

/* What the last task wrote is read as it wrote it, but for one dimension, of
 * which all is: rows or columns of tiles. */
static void widen_task(generator *g, int at) {
  fuzz_task *t = &g->program->task[at];
  *t = t[-1];
  t->access[0].mode = CEL_MODE_READ;
  int d = (int)in(g, 0, 1);
  span(t->access[0].bound[0][d], 0,
       g->program->buffer[t->access[0].buffer].ext[d]);
}

/* A collector frees the last of the buffers, on each rank when it pleases. */
static void free_buffer(generator *g, fuzz_task *t) {
  *t = (fuzz_task){.kind = CEL_TASK_FREE, .freed = --g->live};
  int most = chance(g, 50) ? 0 : FUZZ_TASKS;
  for (int k = 0; k < g->program->ranks; ++k)
    t->late[k] = chance(g, 50) ? 0 : (int)in(g, 0, most);
}

static void random_task(generator *g, const fuzz_task *spaces, int n_spaces,
                        int at) {
  fuzz_task *t = &g->program->task[at];
  if (at > 0 && chance(g, g->repeat) && repeat_task(g, at)) return;
  if (g->widen) {
    g->widen = false;
    widen_task(g, at);
    return;
  }
  if (chance(g, 4) && grid_task(g, t)) {
    g->widen = true;
    return;
  }
  *t = spaces[in(g, 0, n_spaces - 1)];
  int64_t kind = in(g, 0, 99);
  if (kind < 4 + g->repeat / 4 && g->live > 1) {
    free_buffer(g, t);
  } else if (kind < 8) {
    t->kind = CEL_TASK_HORIZON;
  } else if (kind < 11) {
    t->kind = CEL_TASK_EPOCH;
  } else {
    t->kind = CEL_TASK_KERNEL;
    t->accesses = g->reads ? 1 : (int)in(g, 1, FUZZ_ACCESSES);
    for (int a = 0; a < t->accesses; ++a)
      random_access(g, t, at, &t->access[a]);
  }
}

/* A fence: every rank gets all of it, so owners show. */
static void read_everything(fuzz_program *p, int b) {
  fuzz_task *t = &p->task[p->tasks++];
  *t = (fuzz_task){.kind = CEL_TASK_HOST,
                   .placement = CEL_PLACE_EACH,
                   .dims = 1,
                   .range = cel_box_sized(p->ranks, 1, 1),
                   .permitted = {{true, false, false}, {1, 1, 1}},
                   .accesses = 1};
  t->access[0] = (fuzz_access){.buffer = b, .mode = CEL_MODE_READ, .boxes = 1};
  for (int j = 0; j < 3; ++j)
    span(t->access[0].bound[0][j], 0, p->buffer[b].ext[j]);
}

/* Never 0 on the first rank, so that not all are when there are fewer. */
static void random_weights(generator *g, int64_t weight[FUZZ_RANKS]) {
  bool zeros = chance(g, 40);
  for (int k = 0; k < FUZZ_RANKS; ++k) {
    int some = PICK(g, 1, 1, 2, 3, 5, 17);
    weight[k] = k == 0 || !zeros || chance(g, 75) ? some : 0;
  }
}

void fuzz_generate(fuzz_program *p, uint64_t seed, int max_ranks) {
  generator g = {.random = {seed * 1000003 + 17}, .program = p};
  *p = (fuzz_program){.ranks = (int)in(&g, 1, max_ranks)};
  p->buffers = (int)in(&g, 1, FUZZ_BUFFERS);
  for (int i = 0; i < FUZZ_WEIGHTS; ++i) random_weights(&g, p->weight[i]);
  p->replications = PICK(&g, 1, 2, 2, 3, 8, 16, 16, 16);
  if (chance(&g, 40)) p->squeeze = (uint32_t)in(&g, 1, (1 << FUZZ_RANKS) - 1);
  p->small_bytes = (uint64_t)PICK(&g, 1, 4, 16, 1000, FUZZ_SMALL, FUZZ_SMALL);
  p->large_bytes = (uint64_t)PICK(&g, 1, 8, 40, 100000);
  p->tree_least = PICK(&g, 0, 2, 3, 4, 6);
  p->hosts = PICK(&g, 0, 0, 1, 2, 3);
  p->collectives = chance(&g, 60);
  p->count_most = PICK(&g, 0, 0, 2, 10, 40);
  for (int b = 0; b < p->buffers; ++b) {
    p->buffer[b].dims = chance(&g, 3) ? 0 : PICK(&g, 1, 1, 2, 2, 3);
    p->buffer[b].init = chance(&g, 40);
    p->buffer[b].element_size = PICK(&g, 1, 4, 8, 12);
    int64_t most = p->buffer[b].dims == 1   ? (max_ranks > 9 ? 80 : 24)
                   : p->buffer[b].dims == 2 ? 8
                                            : 5;
    for (int d = 0; d < 3; ++d)
      p->buffer[b].ext[d] = d < p->buffer[b].dims ? in(&g, 1, most) : 1;
    if (b > 0 && chance(&g, 50)) p->buffer[b] = p->buffer[b - 1];
  }
  g.live = p->buffers;
  g.repeat = PICK(&g, 0, 20, 80);
  g.reads = chance(&g, 30);
  fuzz_task spaces[4] = {0};
  int n = g.reads ? 1 : (int)in(&g, 1, 4);
  for (int i = 0; i < n; ++i) random_space(&g, &spaces[i]);
  p->tasks = (int)in(&g, 1, FUZZ_TASKS - FUZZ_BUFFERS - 1);
  for (int i = 0; i < p->tasks; ++i) random_task(&g, spaces, n, i);
  if (chance(&g, 60))
    for (int b = 0; b < g.live; ++b) read_everything(p, b);
  if (chance(&g, 30)) free_buffer(&g, &p->task[p->tasks++]);
}

/* ---- evaluation ------------------------------------------------------------
 */

static int64_t value(const fuzz_bound *b, const cel_box *chunk) {
  if (b->a == 0) return b->c;
  int64_t x = b->of_max ? chunk->max[b->dim] : chunk->min[b->dim];
  int64_t v = b->a * x, q = v / b->divisor;
  if (v % b->divisor < 0) --q;
  return q + b->c;
}

static int image_of(const fuzz_program *p, const fuzz_access *a,
                    const cel_box *chunk, cel_box out[FUZZ_BOXES]) {
  int n = 0, dims = p->buffer[a->buffer].dims;
  for (int b = 0; b < a->boxes; ++b) {
    cel_box box = cel_box_sized(1, 1, 1);
    for (int j = 0; j < dims; ++j) {
      int64_t lo = value(&a->bound[b][j][0], chunk);
      int64_t hi = value(&a->bound[b][j][1], chunk);
      int64_t end = p->buffer[a->buffer].ext[j];
      box.min[j] = lo > 0 ? lo : 0;
      box.max[j] = hi < end ? hi : end;
    }
    if (!cel_box_is_empty(&box)) out[n++] = box;
  }
  return n;
}

int fuzz_image(const fuzz_program *p, const fuzz_access *a,
               const cel_box *chunk, cel_box out[FUZZ_IMAGE]) {
  if (a->each == 0) return image_of(p, a, chunk, out);
  int n = 0, d = a->each - 1;
  for (int64_t i = chunk->min[d]; i < chunk->max[d]; ++i) {
    cel_box one = *chunk;
    one.min[d] = i;
    one.max[d] = i + 1;
    n += image_of(p, a, &one, out + n);
  }
  return n;
}

/* ---- records ---------------------------------------------------------------
 */

typedef struct code {
  int64_t at[FUZZ_BOXES * 6 * 16];
  int n;
} code;

static void word(code *c, int64_t op, int64_t operand) {
  c->at[c->n++] = op;
  if (op < CEL_RULE_ADD) c->at[c->n++] = operand;
}

static void bound_code(code *c, const fuzz_bound *b, int each, int *params,
                       int64_t *param) {
  if (b->a != 0) {
    if (b->dim == each - 1) {
      word(c, CEL_RULE_ITEM, b->dim);
      word(c, CEL_RULE_CONST, b->of_max);
      word(c, CEL_RULE_ADD, 0);
    } else {
      word(c, b->of_max ? CEL_RULE_MAX : CEL_RULE_MIN, b->dim);
    }
    word(c, CEL_RULE_CONST, b->a);
    word(c, CEL_RULE_MUL, 0);
    if (b->divisor > 1) {
      word(c, CEL_RULE_CONST, b->divisor);
      word(c, CEL_RULE_FLOORDIV, 0);
    }
  }
  if (params != NULL) {
    param[*params] = b->c;
    word(c, CEL_RULE_PARAM, (*params)++);
  } else {
    word(c, CEL_RULE_CONST, b->c);
  }
  if (b->a != 0) word(c, CEL_RULE_ADD, 0);
}

static const cel_rule *make_rule(cel_rules *rules, const fuzz_program *p,
                                 const fuzz_task *t, const fuzz_access *a,
                                 int64_t *param) {
  int dims = p->buffer[a->buffer].dims;
  cel_rule_desc desc = {
      .task_dims = t->dims, .buffer_dims = dims, .boxes = a->boxes};
  code c = {.n = 0};
  cel_rule_box box[CEL_RULE_BOXES];
  desc.box = box;
  for (int b = 0; b < a->boxes; ++b) {
    box[b].clamp = true;
    box[b].each = a->each;
    for (int j = 0; j < dims; ++j)
      for (int side = 0; side < 2; ++side) {
        box[b].start[j][side] = c.n;
        bound_code(&c, &a->bound[b][j][side], a->each,
                   a->params ? &desc.params : NULL, param);
        box[b].length[j][side] = c.n - box[b].start[j][side];
      }
  }
  desc.code = c.at;
  desc.code_length = c.n;
  const cel_rule *rule;
  if (cel_rules_intern(rules, &desc, &rule) != CEL_E_OK)
    cel_bug("a rule of the fuzz: %s", cel_error_last()->text);
  return rule;
}

/* What the task graph does for a task with weights. */
static void weigh(fuzz_records *r, const fuzz_program *p, int i) {
  const fuzz_task *t = &p->task[i];
  cel_task *task = &r->task[i + 1];
  if (t->weights == 0) return;
  task->weights = (uint64_t)t->weights;
  r->split[i] = cel_task_cut(task, &t->range, p->ranks,
                             p->weight[t->weights - 1], r->sums[i]);
  task->split = &r->split[i];
}

static void make_task(fuzz_records *r, const fuzz_program *p, int i) {
  const fuzz_task *t = &p->task[i];
  cel_task *task = &r->task[i + 1];
  *task = (cel_task){.id = (uint64_t)i + 2,
                     .kind = t->kind,
                     .placement = t->placement,
                     .dims = t->dims,
                     .range = t->range,
                     .permitted = t->permitted,
                     .accesses = (uint32_t)t->accesses,
                     .access = r->access[i],
                     .name = "fuzz"};
  weigh(r, p, i);
  if (t->kind == CEL_TASK_FREE) task->freed = &r->buffer[t->freed];
  for (int a = 0; a < t->accesses; ++a) {
    const fuzz_access *from = &t->access[a];
    cel_buffer *buffer = &r->buffer[from->buffer];
    cel_rule_use use = {
        .params = r->params[i][a], .range = t->range, .extent = buffer->extent};
    use.rule = make_rule(r->rules, p, t, from, r->params[i][a]);
    r->access[i][a] =
        (cel_access){.buffer = buffer, .mode = from->mode, .use = use};
  }
}

void fuzz_records_make(fuzz_records *r, const fuzz_program *p) {
  memset(r, 0, sizeof *r);
  r->rules = cel_rules_create();
  for (int b = 0; b < p->buffers; ++b) {
    const int64_t *ext = p->buffer[b].ext;
    r->buffer[b] =
        (cel_buffer){.id = (uint32_t)b,
                     .dims = p->buffer[b].dims,
                     .extent = cel_box_sized(ext[0], ext[1], ext[2]),
                     .element_size = (uint32_t)p->buffer[b].element_size,
                     .name = b == 0 ? "a" : "b",
                     .init = p->buffer[b].init ? &r->init : NULL};
  }
  r->task[0] = (cel_task){.id = 1, .kind = CEL_TASK_EPOCH};
  for (int i = 0; i < p->tasks; ++i) make_task(r, p, i);
  r->task[p->tasks + 1] =
      (cel_task){.id = (uint64_t)p->tasks + 2, .kind = CEL_TASK_EPOCH};
}

void fuzz_records_release(fuzz_records *r) {
  cel_rules_destroy(r->rules);
}
