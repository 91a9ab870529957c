#include "task/reduce.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "task/assignment.h"
#include "tuning.h"

/* ---- what is pending ----------------------------------------------------- */

static cel__reduced *find(cel__reductions *r, const cel_buffer *buffer) {
  for (uint32_t i = 0; i < r->all.n; ++i)
    if (r->all.at[i].buffer == buffer) return &r->all.at[i];
  return NULL;
}

cel__reduced *cel__reductions_find(cel__reductions *reductions,
                                   const cel_buffer *buffer) {
  if (reductions->pending == 0) return NULL;
  cel__reduced *at = find(reductions, buffer);
  return at != NULL && at->rows != NULL ? at : NULL;
}

/* The reference becomes the caller's. */
static cel_work *take(cel__reductions *r, cel__reduced *at) {
  cel_work *work = at->combine;
  at->rows = NULL;
  at->combine = NULL;
  --r->pending;
  return work;
}

void cel__reductions_forget(cel__reductions *reductions, cel__reduced *at) {
  cel_work_release(take(reductions, at));
}

void cel__reductions_release(cel__reductions *reductions) {
  for (uint32_t i = 0; i < reductions->all.n; ++i)
    if (reductions->all.at[i].rows != NULL)
      cel__reductions_forget(reductions, &reductions->all.at[i]);
  if (reductions->row != NULL) cel_rule_release(reductions->row);
  for (int d = 0; d <= CEL_DIMS; ++d)
    if (reductions->whole[d] != NULL) cel_rule_release(reductions->whole[d]);
  cel_vec_release(&reductions->all);
  cel_vec_release(&reductions->gone);
}

void cel__reductions_tidy(cel__reductions *reductions) {
  const cel__reduce_config *config = &reductions->config;
  for (uint32_t i = 0; i < reductions->gone.n; ++i)
    config->drop(config->context, reductions->gone.at[i]);
  cel_vec_clear(&reductions->gone);
}

void cel__reductions_free(cel__reductions *reductions,
                          const cel_buffer *buffer) {
  cel__reduced *at = find(reductions, buffer);
  if (at == NULL) return;
  if (at->rows != NULL) cel__reductions_forget(reductions, at);
  const cel__reduce_config *config = &reductions->config;
  cel__reduced gone = *at;
  cel_vec_swap_out(&reductions->all, at - reductions->all.at);
  for (uint32_t i = 0; i < gone.partials; ++i)
    config->drop(config->context, gone.partial[i].buffer);
}

/* ---- checks -------------------------------------------------------------- */

enum { MOST_BYTES = 64 << 20 };

static cel_status refuse(const cel_group *group, const cel_buffer *buffer,
                         const char *why) {
  cel_fail(CEL_E_ARGUMENT, "task '%s': buffer '%s' %s",
           cel__name_of(group->name), cel__name_of(buffer->name), why);
  return cel_fail_at(group->location.file, group->location.line);
}

cel_status cel__reductions_check(const cel_group *group) {
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *access = &group->access[i];
    if (access->reducer == NULL) continue;
    if (cel_box_volume(&access->buffer->extent) >
        MOST_BYTES / access->reducer->element_size)
      return refuse(group, access->buffer,
                    "is too large to reduce into: every device has a copy of "
                    "all of it, of 64 MiB at most");
    if (group->kind != CEL_TASK_KERNEL)
      return refuse(group, access->buffer,
                    "is reduced into; only kernels reduce");
    for (uint32_t k = 0; k < group->accesses; ++k) {
      const cel_access *other = &group->access[k];
      if (k == i || other->buffer != access->buffer) continue;
      return refuse(group, access->buffer,
                    other->reducer != NULL
                        ? "is reduced into twice"
                        : "is reduced into and accessed as well; make that two "
                          "tasks");
    }
  }
  return CEL_E_OK;
}

/* ---- rules --------------------------------------------------------------- */

/* A rule of one box as it is put together. */
typedef struct coder {
  cel_rule_desc desc;
  cel_rule_box box;
  int64_t code[16];
} coder;

static void put(coder *c, int j, int side, const int64_t *words, int32_t n) {
  c->box.start[j][side] = c->desc.code_length;
  c->box.length[j][side] = n;
  memcpy(c->code + c->desc.code_length, words, (size_t)n * sizeof *words);
  c->desc.code_length += n;
}

static void put_whole(coder *c, int j) {
  const int64_t lo[] = {CEL_RULE_CONST, 0}, hi[] = {CEL_RULE_BUFFER, j};
  put(c, j, 0, lo, 2);
  put(c, j, 1, hi, 2);
}

static const cel_rule *intern(cel_rules *rules, coder *c) {
  const cel_rule *rule;
  c->desc.boxes = 1;
  c->desc.box = &c->box;
  c->desc.code = c->code;
  if (cel_rules_intern(rules, &c->desc, &rule) != CEL_E_OK)
    cel_bug("a rule of reductions: %s", cel_error_last()->text);
  return rule;
}

/* Rows k*p to (k+1)*p for the chunk [k, k+1). */
static const cel_rule *row_rule(cel__reductions *r) {
  coder c = {.desc = {.task_dims = 1, .buffer_dims = 2, .params = 1}};
  if (r->row != NULL) return r->row;
  for (int side = 0; side < 2; ++side) {
    const int64_t words[] = {side == 0 ? CEL_RULE_MIN : CEL_RULE_MAX, 0,
                             CEL_RULE_PARAM, 0, CEL_RULE_MUL};
    put(&c, 0, side, words, 5);
  }
  put_whole(&c, 1);
  return r->row = intern(r->config.rules, &c);
}

static const cel_rule *whole_rule(cel__reductions *r, int32_t dims) {
  coder c = {.desc = {.buffer_dims = dims}};
  if (r->whole[dims] != NULL) return r->whole[dims];
  for (int j = 0; j < dims; ++j) put_whole(&c, j);
  return r->whole[dims] = intern(r->config.rules, &c);
}

/* ---- rows ---------------------------------------------------------------- */

typedef struct identity {
  cel_init init; /* first */
  uint32_t size;
  char bytes[];
} identity;

static cel_status fill(const cel_init *init, const cel_box *box, void *out) {
  const identity *it = (const identity *)init;
  char *at = out;
  for (int64_t i = cel_box_volume(box); i > 0; --i, at += it->size)
    memcpy(at, it->bytes, it->size);
  return CEL_E_OK;
}

static void destroy(cel_init *init) {
  cel_free(init);
}

static cel_init *identity_init(const cel_reducer *reducer) {
  identity *it = cel_alloc_zero(sizeof *it + reducer->element_size);
  it->init = (cel_init){.fill = fill, .destroy = destroy};
  it->size = reducer->element_size;
  memcpy(it->bytes, reducer->identity, it->size);
  return &it->init;
}

/* How many rows a rank may write. */
static int64_t rows_of(const cel__reduce_config *config, const cel_task *task) {
  int64_t runs = task->placement == CEL_PLACE_SPLIT && task->oversubscribe > 1
                     ? task->oversubscribe
                     : 1;
  return (config->reducing > 1 ? config->reducing : 1) * runs;
}

/* Ranks have more or fewer devices, so their rows are different ones. */
static uint64_t key_of(const cel_task *task, const cel_reducer *reducer,
                       int64_t rows, int64_t home) {
  struct {
    cel_box range;
    int64_t granularity[3], cut[3];
    int64_t placement, oversubscribe, rows, home;
    uint64_t weights;
  } what = {.range = task->range,
            .rows = rows,
            .home = home,
            .placement = task->placement,
            .oversubscribe = task->oversubscribe,
            .weights = task->weights};
  for (int d = 0; d < CEL_DIMS; ++d) {
    what.granularity[d] = task->permitted.granularity[d];
    what.cut[d] = task->permitted.cut[d];
  }
  uint64_t hash = cel_hash(reducer->identity, reducer->element_size, 0);
  return cel_hash(&what, sizeof what, hash);
}

/* One that is still to be found may be another each time. */
static int64_t home_of(const cel__reductions *r, const cel_task *task) {
  if (task->home == NULL) return 0;
  return task->home->buffer == NULL ? task->home->rank : -1 - (int64_t)r->clock;
}

/* Room for one more, which may cost the one that was not used for longest.
 */
static cel__partial *make_room(cel__reductions *r, cel__reduced *at) {
  if (at->partials < CEL__PARTIALS) return &at->partial[at->partials++];
  cel__partial *oldest = &at->partial[0];
  for (uint32_t i = 1; i < at->partials; ++i)
    if (at->partial[i].used < oldest->used) oldest = &at->partial[i];
  cel_vec_push(&r->gone, oldest->buffer);
  return oldest;
}

static const cel_buffer *rows_for(cel__reductions *r, cel__reduced *at,
                                  const cel_reducer *reducer, uint64_t key,
                                  int64_t rows) {
  for (uint32_t i = 0; i < at->partials; ++i) {
    cel__partial *known = &at->partial[i];
    if (known->key != key) continue;
    known->used = ++r->clock;
    return known->buffer;
  }
  cel__partial *made = make_room(r, at);
  char name[128];
  snprintf(name, sizeof name, "%.100s" CEL_REDUCE_ROWS,
           cel__name_of(at->buffer->name));
  int64_t extent[] = {rows, cel_box_volume(&at->buffer->extent), 1};
  *made = (cel__partial){key, ++r->clock,
                         r->config.make(r->config.context, 2, extent,
                                        reducer->element_size, name,
                                        identity_init(reducer))};
  return made->buffer;
}

/* Whether an all-reduce can be of it. */
static bool all_reduces(const cel__reduce_config *config,
                        const cel_operator *by) {
  switch (config->all_reduces) {
  case CEL_ALL_REDUCES_ON_HOSTS: return cel_operator_is_exact(by);
  case CEL_ALL_REDUCES_ON_GPUS: return cel_operator_is_for_gpus(by);
  default: return false;
  }
}

static cel__reduced *entry_of(cel__reductions *r, const cel_buffer *buffer) {
  cel__reduced *at = find(r, buffer);
  if (at != NULL) return at;
  cel_vec_push(&r->all, (cel__reduced){.buffer = buffer});
  return &cel_vec_last(&r->all);
}

/* From now on the buffer is what these rows come to. */
static void pend(cel__reductions *r, cel__reduced *at, const cel_buffer *rows,
                 int64_t each, const cel_reducer *reducer, bool onto,
                 cel_location location) {
  cel_assert(at->rows == NULL);
  at->location = location;
  at->rows = rows;
  at->each = each;
  at->by = reducer->by;
  at->onto = onto;
  at->combine = reducer->settle == NULL
                    ? (onto ? reducer->combine_onto : reducer->combine)
                    : (onto ? reducer->settle_onto : reducer->settle);
  cel_work_retain(at->combine);
  ++r->pending;
}

/* Whether there would be one row, of an array, whose elements are the buffer's:
 * for a single number it is not worth that the task waits for those that read
 * the last one. */
static bool is_in_place(const cel__reduce_config *config, const cel_task *task,
                        const cel_reducer *reducer) {
  return config->in_place && config->ranks == 1 && rows_of(config, task) == 1 &&
         cel_box_volume(&reducer->extent) > 1 && reducer->settle == NULL;
}

/* The task writes the buffer itself, and is not cut. */
static void lower_in_place(cel__reductions *r, cel_access *access) {
  const cel_buffer *buffer = access->buffer;
  *access = (cel_access){.buffer = buffer,
                         .mode = access->mode,
                         .use = {.rule = whole_rule(r, buffer->dims),
                                 .range = cel_box_sized(1, 1, 1),
                                 .extent = buffer->extent},
                         .in_place = true};
  cel_rule_retain(access->use.rule);
}

static void lower(cel__reductions *r, cel_arena *arena, const cel_task *task,
                  cel_location location, cel_access *access) {
  const cel__reduce_config *config = &r->config;
  const cel_reducer *reducer = access->reducer;
  if (is_in_place(config, task, reducer)) {
    lower_in_place(r, access);
    return;
  }
  int64_t chunks = task->placement == CEL_PLACE_ONCE
                       ? 1 /* wherever it is */
                       : cel_task_split(task, config->ranks).n;
  int64_t rows = rows_of(config, task);
  cel__reduced *at = entry_of(r, access->buffer);
  int64_t home = home_of(r, task);
  int64_t ranks = home == 0 ? chunks : 1;
  /* Where all ranks may combine their own, each has some. */
  if (home == 0 && all_reduces(config, &reducer->by) && config->ranks > chunks)
    ranks = config->ranks;
  int64_t all = rows * ranks;
  uint64_t key = key_of(task, reducer, all, home);
  /* Rank 0's rows are not its own if another rank writes them. */
  pend(r, at, rows_for(r, at, reducer, key, all), home == 0 ? rows : 0, reducer,
       access->mode == CEL_MODE_READ_WRITE, location);
  *access =
      (cel_access){.buffer = at->rows,
                   .mode = CEL_MODE_DISCARD_WRITE,
                   .use = {.rule = row_rule(r),
                           .params = cel_arena_copy(arena, &rows, sizeof rows),
                           .range = cel_box_sized(chunks, 1, 1),
                           .extent = at->rows->extent},
                   .rows = rows};
  cel_rule_retain(access->use.rule);
}

void cel__reductions_none(cel__reductions *reductions, const cel_group *group) {
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_reducer *reducer = group->access[i].reducer;
    if (reducer == NULL || group->access[i].mode == CEL_MODE_READ_WRITE)
      continue;
    cel__reduced *at = entry_of(reductions, group->access[i].buffer);
    if (at->rows != NULL) cel__reductions_forget(reductions, at);
    uint64_t key = cel_hash(reducer->identity, reducer->element_size, 1);
    pend(reductions, at, rows_for(reductions, at, reducer, key, 1), 0, reducer,
         false, group->location);
  }
  cel__reductions_tidy(reductions);
}

/* From here on there are rows of partial results and who combines them; ranks
 * agree on what was asked for. */
static uint64_t hash_reduction(const cel_access *access, uint64_t seed) {
  const cel_reducer *reducer = access->reducer;
  struct {
    uint64_t combine;
    uint32_t op, class_, size, element_size;
  } what = {.combine = reducer->combine->hash,
            .op = (uint32_t)reducer->by.op,
            .class_ = (uint32_t)reducer->by.class_,
            .size = reducer->by.size,
            .element_size = reducer->element_size};
  seed = cel_hash(reducer->identity, reducer->element_size, seed);
  seed = cel_hash(&what, sizeof what, seed);
  seed = cel_hash_word(seed, (uint64_t)access->mode);
  return cel_buffer_hash(access->buffer, seed);
}

void cel__reductions_lower(cel__reductions *reductions, cel_arena *arena,
                           const cel_group *group, cel_task *task,
                           cel_access *access) {
  for (uint32_t i = 0; i < group->accesses; ++i) {
    if (access[i].reducer == NULL) continue;
    task->reduces = hash_reduction(&access[i], task->reduces);
    lower(reductions, arena, task, group->location, &access[i]);
  }
}

/* ---- combining ----------------------------------------------------------- */

/* Whether every rank has a chunk, but for one by weights that leave few. */
static bool on_all_ranks(const cel_group *group, int64_t ranks) {
  const cel_weights *weights = group->weights;
  if (group->placement != CEL_PLACE_SPLIT)
    return group->placement != CEL_PLACE_ONCE;
  for (int64_t k = 0; k < ranks && weights != NULL; ++k)
    if (weights->rank != NULL && weights->rank[k] == 0) return false;
  cel_task task = {.permitted = group->permitted};
  return cel_task_cut(&task, &group->range, ranks, NULL, NULL).n == ranks;
}

/* Whether the group reads the same of `buffer` on all ranks. */
static bool all_read(const cel_group *group, const cel_buffer *buffer,
                     int64_t ranks) {
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *access = &group->access[i];
    if (access->buffer == buffer && access->reducer == NULL &&
        cel_mode_consumes(access->mode) && access->use.rule->listing == NULL &&
        cel_rule_classify(&access->use) == CEL_RULE_IS_CONSTANT)
      return on_all_ranks(group, ranks);
  }
  return false;
}

/* All have all rows, and combine them. */
static bool is_shared(const cel__reduced *at) {
  return cel_operator_is_known(&at->by) &&
         cel_box_volume(&at->rows->extent) <=
             CEL_TUNE_SHARED_ROWS_BYTES / at->rows->element_size;
}

/* Each combines its own rows, and these come together in any order: not where
 * one of them is to begin with what the buffer holds. */
static bool is_folded(const cel__reduce_config *config,
                      const cel__reduced *at) {
  return at->each > 0 && !at->onto && all_reduces(config, &at->by) &&
         at->rows->extent.max[0] == at->each * config->ranks;
}

/* Of the rows each rank reads its own. */
static void read_own(cel__reductions *r, const cel__reduced *at,
                     cel_access access[2]) {
  access[0].rows = at->each;
  access[0].use = (cel_rule_use){.rule = row_rule(r),
                                 .params = &at->each,
                                 .range = cel_box_sized(r->config.ranks, 1, 1),
                                 .extent = at->rows->extent};
  access[1].by = at->by;
}

void cel__reductions_settle(cel__reductions *reductions,
                            const cel_group *asking, cel__reduced *at,
                            cel_group *group, cel_access access[2]) {
  const cel__reduce_config *config = &reductions->config;
  const cel_buffer *of[] = {at->rows, at->buffer};
  const cel_mode into = at->onto ? CEL_MODE_READ_WRITE : CEL_MODE_DISCARD_WRITE;
  cel_box elements = cel_box_sized(cel_box_volume(&at->buffer->extent), 1, 1);
  for (int i = 0; i < 2; ++i)
    access[i] =
        (cel_access){.buffer = of[i],
                     .mode = i == 0 ? CEL_MODE_READ : into,
                     .use = {.rule = whole_rule(reductions, of[i]->dims),
                             .range = elements,
                             .extent = of[i]->extent}};
  bool all = config->collectives && config->ranks > 1 &&
             all_read(asking, at->buffer, config->ranks);
  bool folded = all && is_folded(config, at);
  if (folded) read_own(reductions, at, access);
  all = folded || (all && is_shared(at));
  *group = (cel_group){.kind = CEL_TASK_KERNEL,
                       .placement = all ? CEL_PLACE_ALL : CEL_PLACE_ONCE,
                       .dims = 1,
                       .range = elements,
                       .permitted = {.granularity = {1, 1, 1}},
                       .accesses = 2,
                       .access = access,
                       .name = "combine",
                       .reduced = at->location};
  group->work = take(reductions, at);
}
