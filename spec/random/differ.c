/* Programs that one rank runs otherwise: in one thing, of all that goes into a
 * submission. Ranks must find out each of them. */
#include <stdio.h>
#include <string.h>

#include "random/program.h"

enum { TRIES = 8, MOST_PLAIN = 8 /* bytes of an element that is no struct */ };

static int64_t pick(cel_random *r, int64_t lo, int64_t hi) {
  return cel_random_int(r, lo, hi);
}

static access *some_access(cel_random *r, step *s) {
  return s->accesses == 0 ? NULL : &s->access[pick(r, 0, s->accesses - 1)];
}

/* ---- what a group is otherwise ------------------------------------------- */

/* Each changes one thing of a step, which may then be none that stands, or
 * says that it has none of it. */
typedef bool change(cel_random *r, const program *p, step *s);

static bool change_value(cel_random *r, const program *p, step *s) {
  (void)p;
  s->salt = cel_random_next(r);
  return s->task == CEL_TASK_KERNEL;
}

static bool change_text(cel_random *r, const program *p, step *s) {
  (void)p;
  s->salt = cel_random_next(r);
  return s->task == CEL_TASK_HOST;
}

static bool change_number(cel_random *r, const program *p, step *s) {
  access *a = some_access(r, s);
  (void)p;
  if (a == NULL || a->rule->opaque || reduces(a) || a->rule->desc.params == 0)
    return false;
  int64_t *number = &a->rule->param[pick(r, 0, a->rule->desc.params - 1)];
  *number += cel_random_chance(r, 50) ? 1 : -1;
  return true;
}

/* Two programs that come to the same when their constants are computed are one
 * rule, and no difference. */
static bool are_one_rule(const rule *a, const rule *b) {
  cel_rules *rules = cel_rules_create();
  const cel_rule *first = NULL, *second = NULL;
  bool both = cel_rules_intern(rules, &a->desc, &first) == CEL_E_OK &&
              cel_rules_intern(rules, &b->desc, &second) == CEL_E_OK;
  cel_rules_destroy(rules);
  return both && first == second;
}

static bool change_mapper(cel_random *r, const program *p, step *s) {
  access *a = some_access(r, s);
  if (a == NULL || reduces(a)) return false;
  rule *old = a->rule;
  a->rule =
      rule_generate(r, s, &p->buffer[a->buffer], cel_mode_produces(a->mode));
  bool other = !old->opaque && !a->rule->opaque && !are_one_rule(old, a->rule);
  cel_free(old);
  return other;
}

static bool change_mode(cel_random *r, const program *p, step *s) {
  access *a = some_access(r, s);
  (void)p;
  if (a == NULL || reduces(a)) return false;
  cel_mode old = a->mode;
  a->mode = (cel_mode)pick(r, CEL_MODE_READ, CEL_MODE_READ_WRITE);
  return a->mode != old;
}

static bool change_buffer(cel_random *r, const program *p, step *s) {
  access *a = some_access(r, s);
  if (a == NULL || a->rule->opaque) return false;
  int old = a->buffer;
  a->buffer = (int)pick(r, 0, p->buffers - 1);
  return a->buffer != old && p->buffer[a->buffer].dims == p->buffer[old].dims &&
         (!reduces(a) ||
          p->buffer[a->buffer].element_size == p->buffer[old].element_size);
}

static bool change_range(cel_random *r, const program *p, step *s) {
  (void)p;
  if (s->placement == CEL_PLACE_EACH || s->dims == 0) return false;
  int d = (int)pick(r, 0, s->dims - 1);
  if (cel_random_chance(r, 50))
    s->range.max[d]++;
  else
    s->range.min[d]++;
  return true;
}

/* {n, 1} for {n}. */
static bool change_dims(cel_random *r, const program *p, step *s) {
  (void)r;
  (void)p;
  if (s->placement == CEL_PLACE_EACH || s->dims == CEL_DIMS) return false;
  ++s->dims;
  for (int k = 0; k < s->accesses; ++k) {
    if (s->access[k].rule->opaque) return false;
    s->access[k].rule->desc.task_dims++;
  }
  return true;
}

static bool change_kind(cel_random *r, const program *p, step *s) {
  (void)r;
  (void)p;
  if (s->effects > 0 || s->collective != 0) return false;
  for (int k = 0; k < s->accesses; ++k)
    if (reduces(&s->access[k])) return false;
  s->task = s->task == CEL_TASK_HOST ? CEL_TASK_KERNEL : CEL_TASK_HOST;
  return true;
}

static bool change_placement(cel_random *r, const program *p, step *s) {
  (void)r;
  (void)p;
  if (s->placement == CEL_PLACE_EACH) return false;
  s->placement =
      s->placement == CEL_PLACE_ONCE ? CEL_PLACE_SPLIT : CEL_PLACE_ONCE;
  return true;
}

/* At another rank, or where something else lies. */
static bool change_home(cel_random *r, const program *p, step *s) {
  if (s->placement != CEL_PLACE_ONCE) return false;
  home old = s->home;
  if (!step_placed(s)) old = (home){.buffer = -1};
  s->home = (home){.given = true, .rank = (int)pick(r, 0, p->ranks - 1)};
  s->home.buffer = (int)pick(r, -1, p->buffers - 1);
  if (s->home.buffer >= 0) s->home.box = p->buffer[s->home.buffer].extent;
  if (s->home.buffer != old.buffer || !old.given) return true;
  return old.buffer < 0 ? s->home.rank != old.rank
                        : !cel_box_equal(&s->home.box, &old.box);
}

static bool change_collective(cel_random *r, const program *p, step *s) {
  (void)r;
  (void)p;
  if (s->collective == 0) return false;
  s->collective = s->collective % MOST_GROUPS + 1;
  return true;
}

static bool change_cut(cel_random *r, const program *p, step *s) {
  (void)p;
  if (s->dims == 0) return false;
  int d = (int)pick(r, 0, s->dims - 1);
  s->permitted.cut[d] = !s->permitted.cut[d];
  return true;
}

static bool change_granularity(cel_random *r, const program *p, step *s) {
  (void)p;
  if (s->dims == 0) return false;
  s->permitted.granularity[pick(r, 0, s->dims - 1)]++;
  return true;
}

static bool change_runs(cel_random *r, const program *p, step *s) {
  (void)r;
  (void)p;
  s->oversubscribe = s->oversubscribe < 2 ? 2 : s->oversubscribe + 1;
  return true;
}

static bool change_rank_weights(cel_random *r, const program *p, step *s) {
  (void)p;
  if (s->placement == CEL_PLACE_EACH) return false;
  for (int k = 0; !s->rank_weights && k < MOST_RANKS; ++k)
    s->rank_weight[k] = 1;
  s->rank_weights = true;
  s->rank_weight[pick(r, 0, MOST_RANKS - 1)]++;
  return true;
}

/* Also of ranks that are others: all agree on all of them. */
static bool change_device_weights(cel_random *r, const program *p, step *s) {
  (void)p;
  for (int k = 0; !s->device_weights && k < MOST_RANKS; ++k)
    for (int d = 0; d < MOST_DEVICES; ++d) s->device_weight[k][d] = 1;
  s->device_weights = true;
  s->device_weight[pick(r, 0, MOST_RANKS - 1)][pick(r, 0, MOST_DEVICES - 1)]++;
  return true;
}

static bool change_operator(cel_random *r, const program *p, step *s) {
  access *a = some_access(r, s);
  (void)p;
  if (a == NULL || !reduces(a) || a->reduce == REDUCE_DOUBLES) return false;
  reduce_op old = a->reduce;
  a->reduce = (reduce_op)pick(r, REDUCE_NOT + 1, REDUCE_DOUBLES - 1);
  return a->reduce != old;
}

static bool change_onto(cel_random *r, const program *p, step *s) {
  access *a = some_access(r, s);
  (void)p;
  if (a == NULL || !reduces(a)) return false;
  a->mode = a->mode == CEL_MODE_READ_WRITE ? CEL_MODE_DISCARD_WRITE
                                           : CEL_MODE_READ_WRITE;
  return true;
}

static bool change_effect(cel_random *r, const program *p, step *s) {
  if (s->effects == 0) return false;
  int o = (int)pick(r, 0, p->objects - 1);
  for (int k = 0; k < s->effects; ++k)
    if (s->effect[k].object == o) return false;
  s->effect[pick(r, 0, s->effects - 1)].object = o;
  return true;
}

static bool change_order(cel_random *r, const program *p, step *s) {
  (void)p;
  if (s->effects == 0) return false;
  effect *e = &s->effect[pick(r, 0, s->effects - 1)];
  cel_order old = e->order;
  e->order = (cel_order)pick(r, CEL_ORDER_SEQUENTIAL, CEL_ORDER_RELAXED);
  return e->order != old;
}

/* ---- what a capture is otherwise ----------------------------------------- */

static bool change_box(cel_random *r, const program *p, step *s) {
  if (s->accesses > 0 || p->buffer[s->buffer].dims == 0) return false;
  int d = (int)pick(r, 0, p->buffer[s->buffer].dims - 1);
  if (s->box.max[d] - s->box.min[d] == 1) return false;
  s->box.min[d]++;
  return true;
}

/* A number of the rule for what each rank captures. */
static bool change_part(cel_random *r, const program *p, step *s) {
  return s->accesses > 0 && change_number(r, p, s);
}

static bool change_captured(cel_random *r, const program *p, step *s) {
  int old = s->buffer;
  s->buffer = (int)pick(r, 0, p->buffers - 1);
  if (s->accesses > 0 || s->buffer == old) return false;
  s->box = p->buffer[s->buffer].extent;
  return true;
}

static bool change_looked(cel_random *r, const program *p, step *s) {
  int old = s->object;
  s->object = (int)pick(r, 0, p->objects - 1);
  return s->object != old;
}

static bool change_taken(cel_random *r, const program *p, step *s) {
  (void)p;
  s->salt = cel_random_next(r);
  return true;
}

/* ---- what a buffer or an object is otherwise ------------------------------
 */

static void change_type(cel_random *r, buffer *b) {
  (void)r;
  b->type += b->element_size <= MOST_PLAIN;
}

/* As large as it was. */
static void change_layout(cel_random *r, buffer *b) {
  (void)r;
  b->type += b->element_size > MOST_PLAIN;
}

static void change_size(cel_random *r, buffer *b) {
  (void)r;
  b->element_size = b->element_size == 8 ? 16 : 8;
}

static void change_extent(cel_random *r, buffer *b) {
  if (b->dims > 0) b->extent.max[pick(r, 0, b->dims - 1)]++;
}

/* Whether there are some, or what they are. */
static void change_contents(cel_random *r, buffer *b) {
  if (cel_random_chance(r, 50))
    b->init = !b->init;
  else
    b->contents++;
}

/* ---- the list -------------------------------------------------------------
 */

typedef struct row {
  const char *words;
  step_kind of; /* what `step` changes */
  change *step;
  void (*buffer)(cel_random *r, buffer *b);
  bool maker, scope; /* of an object */
} row;

static const row rows[] = {
    [DIFFERS_NOT_AT_ALL] = {.words = NULL},
    [DIFFERS_BY_A_GROUP] = {.words = "a group that is missing"},
    [DIFFERS_IN_VALUE] = {"a value", STEP_GROUP, change_value},
    [DIFFERS_IN_TEXT] = {"the text of a host task", STEP_GROUP, change_text},
    [DIFFERS_IN_NUMBER] = {"a captured number", STEP_GROUP, change_number},
    [DIFFERS_IN_MAPPER] = {"a mapper", STEP_GROUP, change_mapper},
    [DIFFERS_IN_MODE] = {"an access mode", STEP_GROUP, change_mode},
    [DIFFERS_IN_BUFFER] = {"which buffer", STEP_GROUP, change_buffer},
    [DIFFERS_IN_RANGE] = {"a range", STEP_GROUP, change_range},
    [DIFFERS_IN_DIMS] = {"a range's dimensions", STEP_GROUP, change_dims},
    [DIFFERS_IN_KIND] = {"kernel or host task", STEP_GROUP, change_kind},
    [DIFFERS_IN_PLACEMENT] = {"a placement", STEP_GROUP, change_placement},
    [DIFFERS_IN_HOME] = {"at which rank", STEP_GROUP, change_home},
    [DIFFERS_IN_COLLECTIVE] = {"a collective group", STEP_GROUP,
                               change_collective},
    [DIFFERS_IN_CUT] = {"a split", STEP_GROUP, change_cut},
    [DIFFERS_IN_GRANULARITY] = {"a granularity", STEP_GROUP,
                                change_granularity},
    [DIFFERS_IN_RUNS] = {"runs", STEP_GROUP, change_runs},
    [DIFFERS_IN_RANK_WEIGHTS] = {"weights of ranks", STEP_GROUP,
                                 change_rank_weights},
    [DIFFERS_IN_DEVICE_WEIGHTS] = {"weights of devices", STEP_GROUP,
                                   change_device_weights},
    [DIFFERS_IN_OPERATOR] = {"an operator", STEP_GROUP, change_operator},
    [DIFFERS_IN_ONTO] = {"what a reduction begins with", STEP_GROUP,
                         change_onto},
    [DIFFERS_IN_EFFECT] = {"which object", STEP_GROUP, change_effect},
    [DIFFERS_IN_ORDER] = {"an order of effects", STEP_GROUP, change_order},
    [DIFFERS_IN_BOX] = {"a captured box", STEP_FENCE, change_box},
    [DIFFERS_IN_PART] = {"a number of captured parts", STEP_FENCE, change_part},
    [DIFFERS_IN_CAPTURED] = {"a captured buffer", STEP_FENCE, change_captured},
    [DIFFERS_IN_LOOKED] = {"a captured object", STEP_LOOK, change_looked},
    [DIFFERS_IN_TAKEN] = {"what of it is captured", STEP_LOOK, change_taken},
    [DIFFERS_IN_TYPE] = {.words = "an element type", .buffer = change_type},
    [DIFFERS_IN_LAYOUT] = {.words = "a struct's layout",
                           .buffer = change_layout},
    [DIFFERS_IN_SIZE] = {.words = "an element's size", .buffer = change_size},
    [DIFFERS_IN_EXTENT] = {.words = "an extent", .buffer = change_extent},
    [DIFFERS_IN_CONTENTS] = {.words = "initial contents",
                             .buffer = change_contents},
    [DIFFERS_IN_MAKER] = {.words = "what makes an object", .maker = true},
    [DIFFERS_IN_SCOPE] = {.words = "an object's scope", .scope = true},
};

enum { ROWS = sizeof rows / sizeof *rows };

static uint64_t seen[ROWS];

/* ---- planting one ---------------------------------------------------------
 */

static step *copy_step(const step *from) {
  step *to = cel_alloc(sizeof *to);
  *to = *from;
  to->expect = to->known = NULL;
  for (int k = 0; k < to->accesses; ++k) {
    rule *made = cel_alloc(sizeof *made);
    *made = *from->access[k].rule;
    made->desc.code = made->code;
    to->access[k].rule = made;
    to->access[k].mask = NULL;
  }
  return to;
}

/* All that it touches is alive before step `at`. */
static bool is_alive(const program *p, const step *s, int at) {
  for (int i = 0; i < at; ++i) {
    const step *before = p->step[i];
    if (before->kind == STEP_FREE) {
      if (step_fences(s) && s->buffer == before->buffer) return false;
      if (step_placed(s) && s->home.buffer == before->buffer) return false;
      for (int k = 0; k < s->accesses; ++k)
        if (s->access[k].buffer == before->buffer) return false;
    } else if (before->kind == STEP_END) {
      if (s->kind == STEP_LOOK && s->object == before->object) return false;
      for (int k = 0; k < s->effects; ++k)
        if (s->effect[k].object == before->object) return false;
    }
  }
  return true;
}

/* Submits something. */
static bool is_task(const step *s) {
  return s->kind != STEP_GROUP || !cel_box_is_empty(&s->range);
}

static bool plant_step(cel_random *r, program *p, const row *how) {
  for (int i = 0; i < TRIES * p->steps; ++i) {
    int at = (int)pick(r, 0, p->steps - 1);
    const step *s = p->step[at];
    if (s->kind != how->of || !is_task(s) || touches_apart(p, s)) continue;
    step *other = copy_step(s);
    if (how->step(r, p, other) && is_task(other) && !touches_apart(p, other) &&
        step_valid(p, other) && is_alive(p, other, at)) {
      p->odd.step = at;
      p->odd.instead = other;
      return true;
    }
    step_destroy(other);
  }
  return false;
}

static bool touches(const step *s, int buffer) {
  if (s->kind == STEP_FENCE) return s->buffer == buffer;
  for (int k = 0; k < s->accesses; ++k)
    if (s->access[k].buffer == buffer) return true;
  return false;
}

/* Whether no step is refused, or accepted, for what the buffer now is. */
static bool suits_all(program *p, int b, const buffer *made) {
  buffer old = p->buffer[b];
  bool suits = true;
  p->buffer[b] = *made;
  for (int i = 0; i < p->steps && suits; ++i) {
    const step *s = p->step[i];
    suits = s->kind == STEP_BAD ? !touches(s, b) : step_valid(p, s);
    for (int k = 0; k < s->accesses; ++k)
      suits = suits && (!reduces(&s->access[k]) ||
                        made->element_size == old.element_size);
  }
  p->buffer[b] = old;
  return suits;
}

/* What shows that is the first task that touches it. */
static bool plant_buffer(cel_random *r, program *p, const row *how) {
  for (int i = 0; i < TRIES * p->buffers; ++i) {
    int b = (int)pick(r, 0, p->buffers - 1), at = 0;
    buffer made = p->buffer[b];
    how->buffer(r, &made);
    if (memcmp(&made, &p->buffer[b], sizeof made) == 0 ||
        (made.init == p->buffer[b].init && !made.init &&
         made.contents != p->buffer[b].contents) ||
        !suits_all(p, b, &made))
      continue;
    while (at < p->steps && !(is_task(p->step[at]) && touches(p->step[at], b)))
      ++at;
    if (at == p->steps) continue;
    p->odd.step = at;
    p->odd.buffer = b;
    p->odd.made = made;
    return true;
  }
  return false;
}

static bool has_effect_on(const step *s, int o) {
  if (s->kind == STEP_LOOK) return s->object == o;
  if (s->kind != STEP_GROUP || !is_task(s)) return false;
  for (int k = 0; k < s->effects; ++k)
    if (s->effect[k].object == o) return true;
  return false;
}

static bool plant_object(cel_random *r, program *p) {
  if (p->objects == 0) return false;
  int o = (int)pick(r, 0, p->objects - 1), at = 0;
  while (at < p->steps && !has_effect_on(p->step[at], o)) ++at;
  p->odd.object = o;
  p->odd.step = at;
  return at < p->steps;
}

static bool plant(cel_random *r, program *p, const row *how) {
  if (how->step != NULL) return plant_step(r, p, how);
  if (how->buffer != NULL) return plant_buffer(r, p, how);
  if (how->maker || how->scope) return plant_object(r, p);
  p->odd.step = some_group(r, p);
  return p->odd.step >= 0;
}

void program_diverge(program *p) {
  cel_random r = {p->seed ^ 0xd1ff};
  p->room = 0; /* the only trouble */
  if (p->ranks == 1) return;
  for (uint64_t i = 0; i < ROWS; ++i) {
    int what = (int)(1 + (p->seed + i) % (ROWS - 1));
    p->odd.buffer = p->odd.object = -1;
    if (!plant(&r, p, &rows[what])) continue;
    p->odd.what = (difference)what;
    p->odd.rank = (int)pick(&r, 0, p->ranks - 1);
    ++seen[what];
    return;
  }
}

void difference_print(const program *p) {
  if (p->odd.what == DIFFERS_NOT_AT_ALL) return;
  printf("  rank %d differs from step %d on by %s\n", p->odd.rank, p->odd.step,
         rows[p->odd.what].words);
}

void differences_print(void) {
  for (int i = 1; i < ROWS; ++i)
    printf("%s%llu by %s", i == 1 ? "one rank differs: " : ", ",
           (unsigned long long)seen[i], rows[i].words);
  printf("\n");
}

/* ---- what a rank runs -----------------------------------------------------
 */

static bool is_odd(const program *p, int rank) {
  return p->odd.what != DIFFERS_NOT_AT_ALL && p->odd.rank == rank;
}

const step *step_on(const program *p, int rank, int at) {
  if (!is_odd(p, rank) || p->odd.step != at) return p->step[at];
  if (p->odd.what == DIFFERS_BY_A_GROUP) return NULL;
  return p->odd.instead != NULL ? p->odd.instead : p->step[at];
}

const buffer *buffer_on(const program *p, int rank, int b) {
  return is_odd(p, rank) && p->odd.buffer == b ? &p->odd.made : &p->buffer[b];
}

uint64_t maker_on(const program *p, int rank, int o) {
  return is_odd(p, rank) && p->odd.object == o && rows[p->odd.what].maker ? 2
                                                                          : 1;
}

cel_scope scope_on(const program *p, int rank, int o) {
  cel_scope other =
      p->scope[o] == CEL_SCOPE_RANK ? CEL_SCOPE_CLUSTER : CEL_SCOPE_RANK;
  return is_odd(p, rank) && p->odd.object == o && rows[p->odd.what].scope
             ? other
             : p->scope[o];
}
