/* Tasks that are carried out as they were before.
 *
 * A loop submits the same tasks again and again, and after a step or two the
 * graph is in the states that it was in before, except for the ids. To cut a
 * task over several devices, find out what each lacks and ask every tracker
 * takes time for each piece; to see that nothing has changed takes a comparison
 * for each tracker and buffer. So a task that is submitted a second time is
 * remembered: where its buffers were current, what it emitted (tape.c), and
 * where they were current then.
 *
 * What is emitted is the same as without. Only tasks that emit nothing but
 * COPYs and KERNELs are remembered: others change allocations or what is in
 * them, and do not come again. */
#include "base/hash.h"
#include "instr/graph.h"
#include "tuning.h"

enum {
  SITES = 64, /* tasks that are remembered */
  TAPES = 4,  /* of a task: a loop over several buffers is in as many states */
};

/* Of a buffer: where it was current before and after. */
typedef struct shift {
  const cel_buffer *buffer;
  cel__outline *before, *after;
} shift;

typedef struct course {
  CEL_VEC(shift) shifts;
  cel__tape *tape; /* null: none yet */
} course;

/* All submissions that are alike. */
typedef struct cel__site {
  uint64_t hash;
  CEL_VEC(uint64_t) key;
  uint64_t changes; /* cel__memory_changes of its courses */
  uint64_t seen;
  uint32_t misses; /* courses made since one was of use */
  uint32_t next;   /* course to be made anew */
  course courses[TAPES];
} site;

/* ---- sites --------------------------------------------------------------- */

static void drop_course(course *c) {
  for (uint32_t i = 0; i < c->shifts.n; ++i) {
    cel__outline_drop(c->shifts.at[i].before);
    cel__outline_drop(c->shifts.at[i].after);
  }
  cel_vec_clear(&c->shifts);
  if (c->tape != NULL) cel__tape_destroy(c->tape);
  c->tape = NULL;
}

static void drop_courses(site *s) {
  for (int i = 0; i < TAPES; ++i) drop_course(&s->courses[i]);
  s->next = 0;
}

static void destroy(site *s) {
  drop_courses(s);
  for (int i = 0; i < TAPES; ++i) cel_vec_release(&s->courses[i].shifts);
  cel_vec_release(&s->key);
  cel_free(s);
}

/* Tasks whose plan depends on nothing but their key and on where their buffers
 * are current. */
static bool may_repeat(const cel_instr_graph *graph,
                       const cel_command *command) {
  const cel_task *task = command->task;
  if (graph->config.anew || graph->config.devices < 2 ||
      command->kind != CEL_COMMAND_EXECUTE || task->kind != CEL_TASK_KERNEL ||
      task->accesses == 0 || task->listed || task->folded != NULL ||
      task->device_weight != NULL || (task->work != NULL && task->work->lua) ||
      cel__memory_limited(graph->memories))
    return false;
  for (uint32_t a = 0; a < task->accesses; ++a)
    if (task->access[a].rows > 0 || task->access[a].in_place) return false;
  return true;
}

static void add_word(cel__again *again, int64_t word) {
  cel_vec_push(&again->key, (uint64_t)word);
}

static void add_box(cel__again *again, const cel_box *box) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    add_word(again, box->min[d]);
    add_word(again, box->max[d]);
  }
}

/* All that the plan depends on, into again->key. The space and the extents of
 * uses are the task's and the buffers'. */
static void make_key(cel__again *again, const cel_command *command) {
  const cel_task *task = command->task;
  cel_vec_clear(&again->key);
  add_box(again, &task->range);
  add_box(again, &command->chunk);
  for (int d = 0; d < CEL_DIMS; ++d) {
    add_word(again, task->permitted.cut[d]);
    add_word(again, task->permitted.granularity[d]);
  }
  add_word(again, task->placement);
  add_word(again, task->oversubscribe);
  add_word(again, task->disjoint);
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_access *access = &task->access[a];
    const cel_rule *rule = access->use.rule;
    add_word(again, access->buffer->id);
    add_word(again, access->mode);
    add_word(again, (int64_t)rule->id);
    for (int32_t p = 0; p < rule->desc.params; ++p)
      add_word(again, access->use.params[p]);
    add_word(again, access->late != NULL ? (int64_t)access->late->number : 0);
    add_word(again, access->late_at);
  }
}

/* The site of the key, if it was seen before; else it is from now on. */
static site *find_site(cel_instr_graph *graph) {
  cel__again *again = &graph->again;
  size_t bytes = again->key.n * sizeof *again->key.at;
  uint64_t hash = cel_hash(again->key.at, bytes, 0);
  if (again->sites == NULL)
    again->sites = cel_alloc_zero(SITES * sizeof *again->sites);
  site **at = &again->sites[hash % SITES], *s = *at;
  if (s != NULL && s->hash == hash && s->key.n == again->key.n &&
      memcmp(s->key.at, again->key.at, bytes) == 0)
    return s;
  if (s == NULL) s = *at = cel_alloc_zero(sizeof *s);
  drop_courses(s);
  s->hash = hash;
  s->seen = s->misses = 0;
  cel_vec_clear(&s->key);
  cel_vec_reserve(&s->key, again->key.n);
  memcpy(s->key.at, again->key.at, bytes);
  s->key.n = again->key.n;
  return NULL;
}

/* What changes all the time is tried seldom. */
static bool is_worth_it(site *s) {
  return s->misses < CEL_TUNE_AGAIN_MISSES ||
         ++s->seen % CEL_TUNE_AGAIN_PAUSE == 0;
}

/* ---- again --------------------------------------------------------------- */

static bool fits(cel_instr_graph *graph, const course *c) {
  if (c->tape == NULL) return false;
  for (uint32_t i = 0; i < c->shifts.n; ++i) {
    const shift *at = &c->shifts.at[i];
    if (cel__coherence_outline(graph->coherence, at->buffer) != at->before)
      return false;
  }
  return cel__tape_fits(graph->emission, c->tape);
}

static void play_course(cel_instr_graph *graph, const cel_command *command,
                        const course *c) {
  cel__emission_begin(graph->emission, command->task);
  cel__tape_play(graph->emission, c->tape);
  for (uint32_t i = 0; i < c->shifts.n; ++i)
    cel__coherence_become(graph->coherence, c->shifts.at[i].buffer,
                          c->shifts.at[i].after);
}

bool cel__again_play(cel_instr_graph *graph, const cel_command *command) {
  cel__again *again = &graph->again;
  again->site = NULL;
  if (!may_repeat(graph, command)) return false;
  make_key(again, command);
  site *s = find_site(graph);
  if (s == NULL || !is_worth_it(s)) return false;
  uint64_t changes = cel__memory_changes(graph->memories);
  if (s->changes != changes) drop_courses(s);
  s->changes = changes;
  for (int i = 0; i < TAPES; ++i) {
    if (!fits(graph, &s->courses[i])) continue;
    play_course(graph, command, &s->courses[i]);
    s->misses = 0;
    return true;
  }
  again->site = s;
  again->command = command;
  return false;
}

/* ---- remembering --------------------------------------------------------- */

static bool has_shift(const course *c, const cel_buffer *buffer) {
  for (uint32_t i = 0; i < c->shifts.n; ++i)
    if (c->shifts.at[i].buffer == buffer) return true;
  return false;
}

void cel__again_begin(cel_instr_graph *graph) {
  site *s = graph->again.site;
  if (s == NULL) return;
  cel_assert(graph->again.command == graph->plan.command);
  const cel_task *task = graph->plan.command->task;
  course *c = &s->courses[s->next];
  drop_course(c);
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_buffer *buffer = task->access[a].buffer;
    if (has_shift(c, buffer)) continue;
    cel__outline *before = cel__coherence_outline(graph->coherence, buffer);
    shift made = {.buffer = buffer, .before = cel__outline_hold(before)};
    cel_vec_push(&c->shifts, made);
  }
  cel__tape_begin(graph->emission);
}

void cel__again_end(cel_instr_graph *graph, cel_status status) {
  site *s = graph->again.site;
  graph->again.site = NULL;
  if (s == NULL) return;
  course *c = &s->courses[s->next];
  c->tape = cel__tape_end(graph->emission);
  bool useless =
      status != CEL_E_OK || s->changes != cel__memory_changes(graph->memories);
  if (c->tape == NULL || useless) {
    drop_course(c);
    return;
  }
  for (uint32_t i = 0; i < c->shifts.n; ++i)
    c->shifts.at[i].after = cel__outline_hold(
        cel__coherence_outline(graph->coherence, c->shifts.at[i].buffer));
  s->next = (s->next + 1) % TAPES;
  ++s->misses;
}

/* ---- life ---------------------------------------------------------------- */

void cel__again_release(cel_instr_graph *graph) {
  cel__again *again = &graph->again;
  for (int i = 0; again->sites != NULL && i < SITES; ++i)
    if (again->sites[i] != NULL) destroy(again->sites[i]);
  cel_free(again->sites);
  cel_vec_release(&again->key);
}

size_t cel__again_bytes(const cel_instr_graph *graph) {
  size_t sum = 0;
  for (int i = 0; graph->again.sites != NULL && i < SITES; ++i) {
    const site *s = graph->again.sites[i];
    if (s == NULL) continue;
    sum += sizeof *s + s->key.cap * sizeof *s->key.at;
    for (int k = 0; k < TAPES; ++k)
      if (s->courses[k].tape != NULL)
        sum += cel__tape_bytes(s->courses[k].tape);
  }
  return sum;
}
