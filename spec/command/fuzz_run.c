/* Runs a random program through one command graph per rank and compares with
 * what brute force says, point by point; then executes the commands in a random
 * order that their dependencies permit and looks at the data. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "command/fuzz_state.h"

bool fuzz_fail(run *r, const char *format, ...) {
  if (r->fault.text[0] != 0) return false;
  char text[900];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  snprintf(r->fault.text, sizeof r->fault.text, "task %d: %s", r->task, text);
  return false;
}

bool fuzz_chunk_of(const run *r, int rank, cel_box *out) {
  cel_split split =
      cel_task_split(&r->records->task[r->task + 1], r->program.ranks);
  return cel_split_chunk(&split, rank, out);
}

/* ---- what is emitted -------------------------------------------------------
 */

typedef struct listener {
  run *run;
  int rank;
} listener;

static void copy_in(const void **at, size_t size) {
  void *copy = cel_alloc(size);
  if (size > 0) memcpy(copy, *at, size);
  *at = copy;
}

/* A list, with copies of what its arena holds. */
static void copy_exchange(cel_exchange *to, const cel_exchange *from) {
  *to = *from;
  copy_in((const void **)&to->get, to->gets * sizeof *to->get);
  if (to->next == NULL) return;
  cel_exchange *next = cel_alloc(sizeof *next);
  copy_exchange(next, to->next);
  to->next = next;
}

static void release_exchange(const cel_exchange *list) {
  cel_free((void *)(uintptr_t)list->get);
  if (list->next != NULL) release_exchange(list->next);
  cel_free((void *)(uintptr_t)list->next);
}

/* A list, with copies of what its arena holds; *n: how many. */
static const cel_message *copy_messages(const cel_message *from, uint32_t *n) {
  if (from == NULL) return NULL;
  ++*n;
  cel_message *to = cel_alloc(sizeof *to);
  *to = *from;
  copy_in((const void **)&to->piece, from->pieces * sizeof *from->piece);
  to->next = copy_messages(from->next, n);
  return to;
}

static void release_messages(seen *s) {
  uint32_t i = 0;
  for (const cel_message *m = s->message, *next; m != NULL; m = next) {
    next = m->next;
    cel_free(s->data[i++]);
    cel_free((void *)(uintptr_t)m->piece);
    cel_free((void *)(uintptr_t)m);
  }
  cel_free(s->data);
}

static void on_emit(void *context, const cel_command *command) {
  listener *l = context;
  run *r = l->run;
  seen s = {.command = *command, .emitted = command, .task = r->task};
  copy_in((const void **)&s.command.dep, command->deps * sizeof *command->dep);
  if (command->kind == CEL_COMMAND_PUSH ||
      command->kind == CEL_COMMAND_AWAIT_PUSH)
    s.message = copy_messages(&command->message, &s.awaited);
  s.data = cel_alloc_zero((s.awaited + 1) * sizeof *s.data);
  if (command->kind == CEL_COMMAND_COLLECTIVE)
    copy_exchange(&s.exchange, command->exchange);
  s.waits = (int)command->deps;
  cel_vec_push(&r->seen[l->rank], s);
}

/* ---- truth -----------------------------------------------------------------
 */

void fuzz_each_access_point(run *r, bool produces, int rank, visit *fn,
                            void *context) {
  const fuzz_task *t = &r->program.task[r->task];
  cel_box chunk, box[FUZZ_IMAGE];
  if (!fuzz_chunk_of(r, rank, &chunk)) return;
  for (int a = 0; a < t->accesses; ++a) {
    const fuzz_access *access = &t->access[a];
    if (produces ? !cel_mode_produces(access->mode)
                 : !cel_mode_consumes(access->mode))
      continue;
    int n = fuzz_image(&r->program, access, &chunk, box);
    for (int i = 0; i < n; ++i) EACH_POINT(r, access->buffer, &box[i], x)
    fn(r, access->buffer, x, rank, context);
  }
}

typedef struct writers {
  int8_t rank[FUZZ_BUFFERS][FUZZ_POINTS]; /* plus 1 */
  bool overlap;
} writers;

static void note_writer(run *r, int b, int x, int rank, void *context) {
  (void)r;
  writers *w = context;
  if (w->rank[b][x] != 0 && w->rank[b][x] != rank + 1) w->overlap = true;
  w->rank[b][x] = (int8_t)(rank + 1);
}

static void note_fresh(run *r, int b, int x, int rank, void *context) {
  (void)context;
  if (r->owner[b][x] >= 0) r->fresh[b][x] |= 1u << rank;
}

static void apply_truth(run *r, const writers *w) {
  for (int k = 0; k < r->program.ranks; ++k)
    fuzz_each_access_point(r, false, k, note_fresh, NULL);
  for (int b = 0; b < r->program.buffers; ++b)
    for (int x = 0; x < FUZZ_POINTS; ++x) {
      if (w->rank[b][x] == 0) continue;
      r->owner[b][x] = w->rank[b][x] - 1;
      r->fresh[b][x] = 1u << r->owner[b][x];
      r->value[b][x] = (uint8_t)(r->task + 1);
    }
}

/* ---- one task --------------------------------------------------------------
 */

static bool add_everywhere(run *r, const cel_task *task, bool overlap) {
  for (int k = 0; k < r->program.ranks; ++k) {
    r->task_begin[k] = r->seen[k].n;
    cel_status status = cel_command_graph_add(r->graph[k], task);
    if (overlap && status == CEL_E_OVERLAP && r->seen[k].n == r->task_begin[k])
      continue;
    if (overlap)
      return fuzz_fail(r, "rank %d: overlapping writes were not refused", k);
    if (status != CEL_E_OK)
      return fuzz_fail(r, "rank %d: %s", k, cel_error_last()->text);
  }
  return true;
}

/* What would overlap is to be refused, and is read instead. */
static void read_only(run *r) {
  fuzz_task *t = &r->program.task[r->task];
  for (int a = 0; a < t->accesses; ++a) {
    t->access[a].mode = CEL_MODE_READ;
    r->records->access[r->task][a].mode = CEL_MODE_READ;
  }
}

/* Now and then everything before some horizon or epoch has been executed; the
 * arenas of all that came after the one before it are still there. */
static bool retire(run *r) {
  for (int k = 0; k < r->program.ranks; ++k) {
    uint64_t barrier = 0, older = 0;
    for (uint32_t i = 0; i < r->seen[k].n; ++i) {
      cel_command_kind kind = r->seen[k].at[i].command.kind;
      if (kind != CEL_COMMAND_EPOCH && kind != CEL_COMMAND_HORIZON) continue;
      older = barrier;
      barrier = i + 1;
      if (cel_random_chance(&r->random, 30)) break;
    }
    if (barrier <= r->retired[k]) continue;
    r->retired[k] = barrier;
    cel_command_graph_retire(r->graph[k], barrier);
    for (uint64_t i = older; i < r->seen[k].n; ++i) {
      const cel_command *emitted = r->seen[k].at[i].emitted;
      if (emitted->id != i + 1 ||
          emitted->deps != r->seen[k].at[i].command.deps)
        return fuzz_fail(r, "rank %d: a command was retired too early", k);
    }
  }
  return true;
}

/* The frees that come to a rank before task `now` and after task `last`. */
static bool free_late(run *r, int last, int now) {
  for (int i = 0; i < now && i < r->program.tasks; ++i)
    for (int k = 0; k < r->program.ranks; ++k) {
      int at = free_at(r, i, k);
      if (r->program.task[i].kind != CEL_TASK_FREE || at <= last || at > now)
        continue;
      r->task = i;
      r->task_begin[k] = r->seen[k].n;
      const cel_task *task = &r->records->task[i + 1];
      if (cel_command_graph_add(r->graph[k], task) != CEL_E_OK)
        return fuzz_fail(r, "rank %d: %s", k, cel_error_last()->text);
      if (!fuzz_check_command(r, k, r->task_begin[k])) return false;
    }
  return true;
}

static void count_reads(run *r, const fuzz_task *t) {
  for (int a = 0; a < t->accesses; ++a)
    if (cel_mode_consumes(t->access[a].mode))
      r->reads[t->access[a].buffer] += t->access[a].boxes;
}

static bool step(run *r) {
  int at = r->task;
  if (!free_late(r, at - 1, at)) return false;
  r->task = at;
  const cel_task *task = &r->records->task[r->task + 1];
  memcpy(r->before[r->task], r->value, sizeof r->value);
  if (r->program.task[at].kind == CEL_TASK_FREE) return true;
  writers w = {0};
  for (int k = 0; k < r->program.ranks; ++k)
    fuzz_each_access_point(r, true, k, note_writer, &w);
  if (w.overlap) {
    ++r->stats->refused;
    if (!add_everywhere(r, task, true)) return false;
    read_only(r);
    memset(&w, 0, sizeof w);
  }
  if (!add_everywhere(r, task, false) || !fuzz_check_task(r)) return false;
  count_reads(r, &r->program.task[at]);
  apply_truth(r, &w);
  ++r->stats->tasks;
  return retire(r);
}

/* ---- all of it -------------------------------------------------------------
 */

static void begin(run *r, listener *l) {
  const fuzz_program *p = &r->program;
  for (int b = 0; b < p->buffers; ++b)
    for (int x = 0; x < FUZZ_POINTS; ++x) {
      r->owner[b][x] = p->buffer[b].init ? EVERYBODY : NOBODY;
      r->value[b][x] = p->buffer[b].init ? VALUE_INIT : 0;
    }
  for (int k = 0; k < p->ranks; ++k) {
    l[k] = (listener){r, k};
    int32_t nears = 0;
    for (int i = 0; i < p->ranks; ++i)
      if (is_near(r, k, i)) r->near[k][nears++] = i;
    cel_command_graph_config config = {.rank = k,
                                       .ranks = p->ranks,
                                       .small_bytes = p->small_bytes,
                                       .large_bytes = p->large_bytes,
                                       .near = r->near[k],
                                       .nears = nears,
                                       .replications = p->replications,
                                       .collectives = p->collectives,
                                       .count_most = p->count_most,
                                       .tree_least = p->tree_least,
                                       .several_hosts = p->hosts > 1,
                                       .emit = on_emit,
                                       .context = &l[k]};
    r->graph[k] = cel_command_graph_create(&config);
    if (p->squeeze >> k & 1) cel__command_graph_squeeze(r->graph[k]);
  }
}

static void end(run *r) {
  for (int k = 0; k < r->program.ranks; ++k) {
    cel_command_graph_destroy(r->graph[k]);
    for (uint32_t i = 0; i < r->seen[k].n; ++i) {
      seen *s = &r->seen[k].at[i];
      cel_free((void *)s->command.dep);
      release_messages(s);
      release_exchange(&s->exchange);
    }
    cel_vec_release(&r->seen[k]);
  }
  for (uint32_t i = 0; i < r->gathered.n; ++i) cel_free(r->gathered.at[i]);
  cel_vec_release(&r->gathered);
  fuzz_records_release(r->records);
}

static bool run_all(run *r) {
  r->task = -1;
  if (!add_everywhere(r, &r->records->task[0], false)) return false;
  for (r->task = 0; r->task < r->program.tasks; ++r->task)
    if (!step(r)) return false;
  if (!free_late(r, r->program.tasks - 1, INT_MAX)) return false;
  r->task = -1;
  const cel_task *last = &r->records->task[r->program.tasks + 1];
  return add_everywhere(r, last, false) && fuzz_execute_all(r);
}

fuzz_fault fuzz_run(const fuzz_program *program, uint64_t seed,
                    fuzz_stats *stats) {
  run *r = cel_alloc_zero(sizeof *r);
  listener listeners[FUZZ_RANKS];
  r->program = *program;
  r->random.state = seed;
  r->stats = stats;
  r->records = cel_alloc_zero(sizeof *r->records);
  fuzz_records_make(r->records, program);
  begin(r, listeners);
  run_all(r);
  end(r);
  fuzz_fault fault = r->fault;
  cel_free(r->records);
  cel_free(r);
  return fault;
}
