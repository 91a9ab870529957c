#include "fold/compose.h"

#include <stdio.h>
#include <string.h>

/* Boxes: one for each way in which ends of a range meet, of three dimensions.
 */
enum { WORDS = 2048, BOXES = 27 };

/* ---- rules --------------------------------------------------------------- */

/* Of dimension j the parameters are: how far the chunk grows below, how far
 * items reach below, and both above. */
enum { GROWS_BELOW, REACHES_BELOW, GROWS_ABOVE, REACHES_ABOVE, DISTANCES };

typedef struct writing {
  int64_t code[WORDS];
  int n;
} writing;

static void put(writing *w, int64_t word) {
  cel_assert(w->n < WORDS);
  w->code[w->n++] = word;
}

static void put_variable(writing *w, cel_rule_op op, int64_t word) {
  put(w, op);
  put(w, word);
}

/* Where items of the grown chunk begin to read, or end. Where ends meet, they
 * go beyond the range by a turn, -1 to 1, around it. */
static void put_reach(writing *w, int j, bool upper, bool wraps, int turn) {
  int at = DISTANCES * j + (upper ? GROWS_ABOVE : GROWS_BELOW);
  put_variable(w, upper ? CEL_RULE_MAX : CEL_RULE_MIN, j);
  put_variable(w, CEL_RULE_PARAM, at);
  put(w, upper ? CEL_RULE_ADD : CEL_RULE_SUB);
  if (!wraps) {
    put_variable(w, upper ? CEL_RULE_GLOBAL_MAX : CEL_RULE_GLOBAL_MIN, j);
    put(w, upper ? CEL_RULE_LOW : CEL_RULE_HIGH);
  }
  put_variable(w, CEL_RULE_PARAM, at + 1);
  put(w, upper ? CEL_RULE_ADD : CEL_RULE_SUB);
  if (turn == 0) return;
  put_variable(w, CEL_RULE_GLOBAL_MAX, j);
  put(w, turn > 0 ? CEL_RULE_ADD : CEL_RULE_SUB);
  put_variable(w, CEL_RULE_GLOBAL_MIN, j);
  put(w, turn > 0 ? CEL_RULE_SUB : CEL_RULE_ADD);
}

/* One box; `side` of dimension `of`: 0, beyond the range below; 1, above; -1:
 * no side. `wraps` has a bit for each dimension whose ends meet. */
static void put_box(writing *w, cel_rule_box *box, int dims, int of, int side,
                    unsigned wraps, const int turn[CEL_DIMS]) {
  *box = (cel_rule_box){.clamp = true};
  for (int j = 0; j < dims; ++j)
    for (int upper = 0; upper < 2; ++upper) {
      box->start[j][upper] = w->n;
      if (j == of && side == 1 - upper)
        put_variable(w, upper ? CEL_RULE_GLOBAL_MIN : CEL_RULE_GLOBAL_MAX, j);
      else
        put_reach(w, j, upper, (wraps >> j & 1) != 0, turn[j]);
      box->length[j][upper] = w->n - box->start[j][upper];
    }
}

/* The next of the turns around ends that meet; false behind the last one. */
static bool next_turn(unsigned wraps, int turn[CEL_DIMS]) {
  for (int j = 0; j < CEL_DIMS; ++j) {
    if ((wraps >> j & 1) == 0) continue;
    if (++turn[j] <= 1) return true;
    turn[j] = -1;
  }
  return false;
}

static const cel_rule *intern(cel__fold_rules *rules, int dims, bool rim,
                              unsigned wraps) {
  writing w = {.n = 0};
  cel_rule_box box[BOXES];
  int boxes = 0, turn[CEL_DIMS];
  const cel_rule *rule;
  for (int j = 0; j < CEL_DIMS; ++j) turn[j] = -(int)(wraps >> j & 1);
  do {
    if (!rim) put_box(&w, &box[boxes++], dims, -1, -1, wraps, turn);
    for (int j = 0; j < dims && rim; ++j)
      for (int side = 0; side < 2 && (wraps >> j & 1) == 0; ++side)
        put_box(&w, &box[boxes++], dims, j, side, wraps, turn);
  } while (next_turn(wraps, turn));
  cel_rule_desc desc = {.task_dims = dims,
                        .buffer_dims = dims,
                        .boxes = boxes,
                        .params = DISTANCES * dims,
                        .box = box,
                        .code = w.code,
                        .code_length = w.n};
  if (cel_rules_intern(rules->store, &desc, &rule) != CEL_E_OK)
    cel_bug("a fold's rule: %s", cel_error_last()->text);
  return rule;
}

static const cel_rule *rule_of(cel__fold_rules *rules, int dims, bool rim,
                               const bool wraps[CEL_DIMS]) {
  unsigned bits = 0;
  for (int j = 0; j < CEL_DIMS; ++j) bits |= (unsigned)wraps[j] << j;
  const cel_rule **at =
      rim ? &rules->rim[dims][bits] : &rules->around[dims][bits];
  if (*at == NULL) *at = intern(rules, dims, rim, bits);
  return *at;
}

void cel__fold_rules_release(cel__fold_rules *rules) {
  for (int d = 0; d <= CEL_DIMS; ++d)
    for (int i = 0; i < 1 << CEL_DIMS; ++i) {
      if (rules->around[d][i] != NULL) cel_rule_release(rules->around[d][i]);
      if (rules->rim[d][i] != NULL) cel_rule_release(rules->rim[d][i]);
    }
}

/* ---- what is read of a buffer -------------------------------------------- */

/* How far steps grow that read there, and how far around an item; and both
 * together. */
typedef struct extent {
  bool some;
  cel_reach reach, both;
} extent;

static void widen(int64_t *most, int64_t by) {
  if (by > *most) *most = by;
}

static void add(extent *e, const cel_reach *grows, const cel_reach *reach) {
  e->some = true;
  for (int d = 0; d < CEL_DIMS; ++d) {
    widen(&e->reach.below[d], reach->below[d]);
    widen(&e->reach.above[d], reach->above[d]);
    widen(&e->both.below[d], grows->below[d] + reach->below[d]);
    widen(&e->both.above[d], grows->above[d] + reach->above[d]);
  }
}

/* Of what was there before the chain. */
typedef struct reading {
  extent around; /* what no step has written before */
  extent rim;    /* and what others have, within the range */
} reading;

static reading reading_of(const cel__fold_chain *chain,
                          const cel_buffer *buffer) {
  reading r = {{0}, {0}};
  for (uint32_t s = 0, i = 0; s < chain->tasks.n; ++s)
    for (; i < chain->ends.at[s]; ++i) {
      const cel__fold_access *a = &chain->accesses.at[i];
      if (a->access->buffer != buffer || !cel_mode_consumes(a->access->mode) ||
          a->role == CEL_FOLD_TABLE)
        continue;
      add(a->from < 0 ? &r.around : &r.rim, &chain->grows[s], &a->reach);
    }
  return r;
}

/* Whether items of the range reach beyond it within the buffer. */
static bool leaves_range(const extent *e, const cel_box *range,
                         const cel_box *buffer) {
  for (int d = 0; d < CEL_DIMS && e->some; ++d)
    if ((e->reach.below[d] > 0 && range->min[d] > buffer->min[d]) ||
        (e->reach.above[d] > 0 && range->max[d] < buffer->max[d]))
      return true;
  return false;
}

/* ---- the task ------------------------------------------------------------ */

typedef struct composing {
  cel__fold_rules *rules;
  const cel__fold_chain *chain;
  cel_arena *arena;
  const cel_task *first;
  cel_access *access;
  uint32_t n;
} composing;

static void add_read(composing *c, const cel_buffer *buffer, const extent *e,
                     bool rim) {
  int64_t params[DISTANCES * CEL_DIMS];
  int dims = c->first->dims;
  for (int j = 0; j < dims; ++j) {
    int64_t *own = params + (size_t)DISTANCES * (size_t)j;
    own[REACHES_BELOW] = e->reach.below[j];
    own[REACHES_ABOVE] = e->reach.above[j];
    own[GROWS_BELOW] = e->both.below[j] - e->reach.below[j];
    own[GROWS_ABOVE] = e->both.above[j] - e->reach.above[j];
  }
  size_t size = (size_t)(DISTANCES * dims) * sizeof *params;
  c->access[c->n++] = (cel_access){
      .buffer = buffer,
      .mode = CEL_MODE_READ,
      .use = {.rule = rule_of(c->rules, dims, rim, c->chain->wraps),
              .params = cel_arena_copy(c->arena, params, size),
              .range = c->first->range,
              .extent = buffer->extent}};
}

static bool is_first_of_buffer(const cel__fold_chain *chain, uint32_t i) {
  for (uint32_t k = 0; k < i; ++k)
    if (chain->accesses.at[k].access->buffer ==
        chain->accesses.at[i].access->buffer)
      return false;
  return true;
}

static const cel_access *written(const cel__fold_chain *chain,
                                 const cel_buffer *buffer) {
  for (uint32_t i = 0; i < chain->accesses.n; ++i)
    if (chain->accesses.at[i].access->buffer == buffer &&
        (chain->accesses.at[i].role == CEL_FOLD_WRITTEN ||
         chain->accesses.at[i].role == CEL_FOLD_REDUCED))
      return chain->accesses.at[i].access;
  return NULL;
}

/* A buffer that is read both as a table and around items is read as both. */
static void add_tables(composing *c, const cel_buffer *buffer) {
  for (uint32_t i = 0; i < c->chain->accesses.n; ++i) {
    const cel__fold_access *a = &c->chain->accesses.at[i];
    if (a->access->buffer == buffer && a->role == CEL_FOLD_TABLE)
      c->access[c->n++] = *a->access;
  }
}

static void add_buffer(composing *c, const cel_buffer *buffer) {
  reading r = reading_of(c->chain, buffer);
  if (r.around.some) add_read(c, buffer, &r.around, false);
  if (leaves_range(&r.rim, &c->first->range, &buffer->extent))
    add_read(c, buffer, &r.rim, true);
  add_tables(c, buffer);
  const cel_access *write = written(c->chain, buffer);
  if (write == NULL) return;
  c->access[c->n] = *write;
  c->access[c->n++].mode = CEL_MODE_DISCARD_WRITE;
}

static const cel_fold *steps_of(const cel__fold_chain *chain,
                                cel_arena *arena) {
  uint32_t n = chain->tasks.n;
  cel_fold_step *step = cel_arena_alloc(arena, n * sizeof *step);
  for (uint32_t s = 0; s < n; ++s)
    step[s] = (cel_fold_step){chain->tasks.at[s], chain->grows[s]};
  cel_fold fold = {.steps = (int32_t)n, .step = step};
  memcpy(fold.wraps, chain->wraps, sizeof fold.wraps);
  fold.unread = cel_arena_alloc(arena, sizeof *fold.unread);
  *fold.unread = 0;
  return cel_arena_copy(arena, &fold, sizeof fold);
}

/* "step x8", or "step and others x8". */
static const char *name_of(const cel__fold_chain *chain, cel_arena *arena) {
  char text[160];
  const char *first = cel__name_of(chain->tasks.at[0]->name);
  bool same = true;
  for (uint32_t s = 1; s < chain->tasks.n; ++s)
    same = same && strcmp(first, cel__name_of(chain->tasks.at[s]->name)) == 0;
  snprintf(text, sizeof text, "%.120s%s x%u", first, same ? "" : " and others",
           chain->tasks.n);
  return cel_arena_copy(arena, text, strlen(text) + 1);
}

const cel_task *cel__fold_compose(cel__fold_rules *rules,
                                  const cel__fold_chain *chain,
                                  cel_arena *arena) {
  cel_task *task = cel_arena_copy(arena, chain->tasks.at[0], sizeof(cel_task));
  /* Each access of a step comes to one, or of a buffer's first one to two. */
  size_t room = 2 * (size_t)chain->accesses.n * sizeof(cel_access);
  composing c = {.rules = rules,
                 .chain = chain,
                 .arena = arena,
                 .first = chain->tasks.at[0],
                 .access = cel_arena_alloc(arena, room)};
  for (uint32_t i = 0; i < chain->accesses.n; ++i)
    if (is_first_of_buffer(chain, i))
      add_buffer(&c, chain->accesses.at[i].access->buffer);
  task->access = c.access;
  task->accesses = c.n;
  task->disjoint = true;
  task->folded = steps_of(chain, arena);
  task->name = name_of(chain, arena);
  return task;
}
