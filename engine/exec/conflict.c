#include "exec/conflict.h"
#include "tuning.h"

enum { WORDS = CEL_CONFLICT_MOST / 64 };

/* ---- sets -----------------------------------------------------------------
 */

static void include(cel_conflict_set *set, uint32_t i) {
  set->word[i / 64] |= (uint64_t)1 << (i % 64);
}

static void exclude(cel_conflict_set *set, uint32_t i) {
  set->word[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static bool has(const cel_conflict_set *set, uint32_t i) {
  return (set->word[i / 64] >> (i % 64) & 1) != 0;
}

static uint32_t count(const cel_conflict_set *set) {
  uint32_t n = 0;
  for (int w = 0; w < WORDS; ++w)
    n += (uint32_t)__builtin_popcountll(set->word[w]);
  return n;
}

static void unite(cel_conflict_set *set, const cel_conflict_set *with) {
  for (int w = 0; w < WORDS; ++w) set->word[w] |= with->word[w];
}

static void subtract(const cel_conflict_set *set, const cel_conflict_set *less,
                     cel_conflict_set *out) {
  for (int w = 0; w < WORDS; ++w) out->word[w] = set->word[w] & ~less->word[w];
}

/* ---- the search -----------------------------------------------------------
 */

/* By number of neighbours, then as they are. */
static void sort(const cel_conflict_set *near, uint32_t n, uint16_t *order) {
  uint16_t degree[CEL_CONFLICT_MOST], begin[CEL_CONFLICT_MOST + 1] = {0};
  for (uint32_t i = 0; i < n; ++i) {
    degree[i] = (uint16_t)count(&near[i]);
    ++begin[degree[i] + 1];
  }
  for (uint32_t d = 1; d < n; ++d)
    begin[d] = (uint16_t)(begin[d] + begin[d - 1]);
  for (uint32_t i = 0; i < n; ++i) order[begin[degree[i]]++] = (uint16_t)i;
}

typedef struct search {
  const cel_conflict_set *near;
  const uint16_t *order;
  cel_conflict_room *room;
  uint32_t depth, best;
} search;

/* Takes vertices from position `at` on until none is left, or until what is
 * left cannot make a better candidate. What a depth has left lies at positions
 * that were not looked at. */
static void extend(search *s, uint32_t at) {
  for (;; ++at) {
    cel_conflict_set *left = &s->room->left[s->depth];
    uint32_t more = count(left);
    if (more == 0 || s->depth + more <= s->best) return;
    while (!has(left, s->order[at])) ++at;
    uint32_t v = s->order[at];
    exclude(left, v); /* for when it is put back */
    subtract(left, &s->near[v], left + 1);
    s->room->picked[s->depth++] = at;
  }
}

static void save(search *s, cel_conflict_set *chosen) {
  *chosen = (cel_conflict_set){0};
  for (uint32_t d = 0; d < s->depth; ++d)
    include(chosen, s->order[s->room->picked[d]]);
  s->best = s->depth;
}

uint32_t cel_conflict_search(const cel_conflict_set *near, uint32_t n,
                             uint32_t rejected, cel_conflict_room *room,
                             cel_conflict_set *chosen) {
  cel_assert(n <= CEL_CONFLICT_MOST);
  uint16_t order[CEL_CONFLICT_MOST];
  sort(near, n, order);
  search s = {.near = near, .order = order, .room = room};
  room->left[0] = (cel_conflict_set){0};
  for (uint32_t i = 0; i < n; ++i) include(&room->left[0], i);
  *chosen = (cel_conflict_set){0};
  uint32_t at = 0;
  for (;;) {
    uint32_t before = s.depth;
    extend(&s, at);
    if (s.depth > s.best)
      save(&s, chosen);
    else if (s.depth > before && rejected-- == 1)
      break;
    if (s.depth == 0) break;
    at = room->picked[--s.depth] + 1;
  }
  return s.best;
}

/* ---- who waits, who runs --------------------------------------------------
 */

/* An object that somebody waits for or runs with. */
typedef struct object {
  struct object *next;         /* while spare */
  uint32_t mentions;           /* effects of those that wait or run */
  uint32_t exclusive, relaxed; /* of these, of those that run */
  /* Of the candidates of a pick: who has effects, and who exclusive ones. */
  cel_conflict_set users, owners;
} object;

struct cel_conflicts {
  CEL_VEC(const cel_instr *) waiting; /* as they came */
  CEL_VEC(object *) objects;          /* by id; null: not mentioned */
  object *spare;
  bool changed; /* since the last pick */
  CEL_VEC(uint64_t) picked;
  /* Of one pick. */
  const cel_instr *candidate[CEL_CONFLICT_MOST];
  cel_conflict_set near[CEL_CONFLICT_MOST];
  cel_conflict_room room;
};

cel_conflicts *cel_conflicts_create(void) {
  return cel_alloc_zero(sizeof(cel_conflicts));
}

void cel_conflicts_destroy(cel_conflicts *conflicts) {
  cel_conflicts *c = conflicts;
  for (uint32_t i = 0; i < c->objects.n; ++i) cel_free(c->objects.at[i]);
  while (c->spare != NULL) {
    object *next = c->spare->next;
    cel_free(c->spare);
    c->spare = next;
  }
  cel_vec_release(&c->waiting);
  cel_vec_release(&c->objects);
  cel_vec_release(&c->picked);
  cel_free(c);
}

/* Sequential effects have dependencies, and so has all at cluster scope. */
static bool concerns(const cel_effect *effect) {
  return effect->object->scope == CEL_SCOPE_RANK &&
         effect->order != CEL_ORDER_SEQUENTIAL;
}

bool cel_conflicts_concern(const cel_task *task) {
  for (uint32_t i = 0; i < task->effects; ++i)
    if (concerns(&task->effect[i])) return true;
  return false;
}

static void mention(cel_conflicts *c, const cel_effect *effect) {
  uint32_t id = effect->object->id;
  while (c->objects.n <= id) cel_vec_push(&c->objects, NULL);
  object *o = c->objects.at[id];
  if (o == NULL) {
    o = c->spare;
    if (o != NULL)
      c->spare = o->next;
    else
      o = cel_alloc(sizeof *o);
    *o = (object){0};
    c->objects.at[id] = o;
  }
  ++o->mentions;
}

static object *object_of(const cel_conflicts *c, const cel_effect *effect) {
  return c->objects.at[effect->object->id];
}

void cel_conflicts_wait(cel_conflicts *conflicts, const cel_instr *instr) {
  const cel_task *task = instr->task;
  for (uint32_t i = 0; i < task->effects; ++i)
    if (concerns(&task->effect[i])) mention(conflicts, &task->effect[i]);
  cel_vec_push(&conflicts->waiting, instr);
  conflicts->changed = true;
}

static void hold(cel_conflicts *c, const cel_instr *instr, int by) {
  const cel_task *task = instr->task;
  for (uint32_t i = 0; i < task->effects; ++i) {
    const cel_effect *effect = &task->effect[i];
    if (!concerns(effect)) continue;
    object *o = object_of(c, effect);
    if (effect->order == CEL_ORDER_EXCLUSIVE)
      o->exclusive += (uint32_t)by;
    else
      o->relaxed += (uint32_t)by;
  }
}

void cel_conflicts_done(cel_conflicts *conflicts, const cel_instr *instr) {
  const cel_task *task = instr->task;
  hold(conflicts, instr, -1);
  for (uint32_t i = 0; i < task->effects; ++i) {
    if (!concerns(&task->effect[i])) continue;
    object *o = object_of(conflicts, &task->effect[i]);
    if (--o->mentions > 0) continue;
    conflicts->objects.at[task->effect[i].object->id] = NULL;
    o->next = conflicts->spare;
    conflicts->spare = o;
  }
  conflicts->changed = true;
}

/* ---- a pick ---------------------------------------------------------------
 */

/* Whether nothing that runs excludes it. */
static bool is_free(const cel_conflicts *c, const cel_task *task) {
  for (uint32_t i = 0; i < task->effects; ++i) {
    const cel_effect *effect = &task->effect[i];
    if (!concerns(effect)) continue;
    const object *o = object_of(c, effect);
    if (o->exclusive > 0 ||
        (o->relaxed > 0 && effect->order == CEL_ORDER_EXCLUSIVE))
      return false;
  }
  return true;
}

/* Those that came first, of those that are free. */
static uint32_t collect(cel_conflicts *c) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->waiting.n && n < CEL_CONFLICT_MOST; ++i)
    if (is_free(c, c->waiting.at[i]->task))
      c->candidate[n++] = c->waiting.at[i];
  return n;
}

static void clear(cel_conflicts *c, const cel_task *task) {
  for (uint32_t i = 0; i < task->effects; ++i) {
    if (!concerns(&task->effect[i])) continue;
    object *o = object_of(c, &task->effect[i]);
    o->users = o->owners = (cel_conflict_set){0};
  }
}

static void enter(cel_conflicts *c, uint32_t n, const cel_task *task) {
  for (uint32_t i = 0; i < task->effects; ++i) {
    const cel_effect *effect = &task->effect[i];
    if (!concerns(effect)) continue;
    object *o = object_of(c, effect);
    include(&o->users, n);
    if (effect->order == CEL_ORDER_EXCLUSIVE) include(&o->owners, n);
  }
}

static void find_neighbours(cel_conflicts *c, uint32_t n,
                            const cel_task *task) {
  cel_conflict_set *near = &c->near[n];
  *near = (cel_conflict_set){0};
  for (uint32_t i = 0; i < task->effects; ++i) {
    const cel_effect *effect = &task->effect[i];
    if (!concerns(effect)) continue;
    const object *o = object_of(c, effect);
    unite(near, effect->order == CEL_ORDER_EXCLUSIVE ? &o->users : &o->owners);
  }
  exclude(near, n);
}

/* Takes the chosen candidates out of what waits; both are in one order. */
static void take(cel_conflicts *c, const cel_conflict_set *chosen, uint32_t n) {
  uint32_t kept = 0, k = 0;
  for (uint32_t i = 0; i < c->waiting.n; ++i) {
    const cel_instr *instr = c->waiting.at[i];
    bool candidate = k < n && c->candidate[k] == instr;
    bool taken = candidate && has(chosen, k);
    if (candidate) ++k;
    if (!taken) {
      c->waiting.at[kept++] = instr;
      continue;
    }
    hold(c, instr, 1);
    cel_vec_push(&c->picked, instr->id);
  }
  c->waiting.n = kept;
}

const uint64_t *cel_conflicts_pick(cel_conflicts *conflicts, uint32_t *n) {
  cel_conflicts *c = conflicts;
  cel_vec_clear(&c->picked);
  *n = 0;
  if (!c->changed) return NULL;
  c->changed = false;
  uint32_t candidates = collect(c);
  if (candidates == 0) return NULL;
  cel_conflict_set chosen = {{1}};
  if (candidates > 1) {
    for (uint32_t i = 0; i < candidates; ++i) clear(c, c->candidate[i]->task);
    for (uint32_t i = 0; i < candidates; ++i)
      enter(c, i, c->candidate[i]->task);
    for (uint32_t i = 0; i < candidates; ++i)
      find_neighbours(c, i, c->candidate[i]->task);
    cel_conflict_search(c->near, candidates, CEL_TUNE_CONFLICT_REJECTED,
                        &c->room, &chosen);
  }
  take(c, &chosen, candidates);
  *n = c->picked.n;
  return c->picked.at;
}
