/* Runs a random program through one command graph per rank and compares with
 * what brute force says, point by point; then executes the commands in a random
 * order that their dependencies permit and looks at the data. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "command/fuzz.h"
#include "command/graph.h"

enum { NOBODY = -1, EVERYBODY = -2, VALUE_INIT = 100, VALUE_FREED = 200 };

/* A command, with copies of what its arena holds. */
typedef struct seen {
  cel_command command;
  const cel_command *emitted;
  int task;   /* in the program; -1 for the epochs around it */
  int waits;  /* commands it depends on that are not done */
  bool sent;  /* AWAIT_PUSH: the message is there */
  bool begun; /* COLLECTIVE */
  bool done;
  uint8_t *data; /* AWAIT_PUSH: what the sender had */
  cel_exchange exchange;
} seen;

typedef CEL_VEC(seen) seen_list;

typedef struct run {
  fuzz_program program;
  fuzz_records *records;
  cel_random random;
  fuzz_stats *stats;
  cel_command_graph *graph[FUZZ_RANKS];
  seen_list seen[FUZZ_RANKS];
  uint32_t task_begin[FUZZ_RANKS]; /* first command of the task at hand */
  int task;
  uint64_t retired[FUZZ_RANKS];
  uint64_t sequence[FUZZ_RANKS][FUZZ_RANKS];
  int64_t exchanges;           /* emitted by each rank */
  CEL_VEC(uint8_t *) gathered; /* their contents, by number */
  uint64_t begins[FUZZ_RANKS]; /* the next to begin */
  int64_t near[FUZZ_RANKS][FUZZ_RANKS];
  /* Truth: who wrote last, who holds it, and which task wrote it. */
  int owner[FUZZ_BUFFERS][FUZZ_POINTS];
  uint32_t fresh[FUZZ_BUFFERS][FUZZ_POINTS];
  uint8_t value[FUZZ_BUFFERS][FUZZ_POINTS];
  uint8_t before[FUZZ_TASKS][FUZZ_BUFFERS][FUZZ_POINTS];
  uint8_t local[FUZZ_RANKS][FUZZ_BUFFERS][FUZZ_POINTS];
  bool got[FUZZ_BUFFERS][FUZZ_POINTS], want[FUZZ_BUFFERS][FUZZ_POINTS];
  bool shared[FUZZ_BUFFERS][FUZZ_POINTS]; /* comes by a collective */
  int reads[FUZZ_BUFFERS]; /* boxes: the most that a version may hold */
  fuzz_fault fault;
} run;

static bool fail(run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keeps the first fault; false, to be returned. */
static bool fail(run *r, const char *format, ...) {
  if (r->fault.text[0] != 0) return false;
  char text[900];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  snprintf(r->fault.text, sizeof r->fault.text, "task %d: %s", r->task, text);
  return false;
}

/* ---- points ----------------------------------------------------------------
 */

typedef struct points {
  const int64_t *ext;
  cel_box box;
  int64_t at[3];
} points;

static int index_of(const points *p) {
  return (int)((p->at[0] * p->ext[1] + p->at[1]) * p->ext[2] + p->at[2]);
}

static points points_of(const run *r, int buffer, const cel_box *box) {
  points p = {.ext = r->program.buffer[buffer].ext, .box = *box};
  memcpy(p.at, box->min, sizeof p.at);
  return p;
}

static bool next(points *p) {
  for (int d = 3; d-- > 0;) {
    if (++p->at[d] < p->box.max[d]) return true;
    p->at[d] = p->box.min[d];
  }
  return false;
}

/* Each point x of a box of buffer b. */
#define EACH_POINT(r, b, box, x)                                               \
  for (points p_##x = points_of((r), (b), (box)),                              \
              *more_##x = cel_box_is_empty(box) ? NULL : &p_##x;               \
       more_##x != NULL; more_##x = next(&p_##x) ? &p_##x : NULL)              \
    for (int x = index_of(&p_##x), once_##x = 1; once_##x; once_##x = 0)

static bool chunk_of(const run *r, int rank, cel_box *out) {
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

static void on_emit(void *context, const cel_command *command) {
  listener *l = context;
  run *r = l->run;
  seen s = {.command = *command, .emitted = command, .task = r->task};
  copy_in((const void **)&s.command.dep, command->deps * sizeof *command->dep);
  copy_in((const void **)&s.command.message.piece,
          command->message.pieces * sizeof *command->message.piece);
  if (command->kind == CEL_COMMAND_COLLECTIVE) s.exchange = *command->exchange;
  s.waits = (int)command->deps;
  cel_vec_push(&r->seen[l->rank], s);
}

/* The last epoch before command i, or the last horizon but one since. */
static uint64_t applied_before(const seen_list *all, uint32_t i) {
  uint64_t applied = 0, pending = 0;
  for (uint32_t j = 0; j < i; ++j) {
    cel_command_kind kind = all->at[j].command.kind;
    if (kind == CEL_COMMAND_EPOCH) {
      applied = j + 1;
      pending = 0;
    } else if (kind == CEL_COMMAND_HORIZON) {
      if (pending != 0) applied = pending;
      pending = j + 1;
    }
  }
  return applied;
}

/* Ids, dependencies and order of one command. */
static bool check_command(run *r, int rank, uint32_t i) {
  const seen *s = &r->seen[rank].at[i];
  const cel_command *c = &s->command;
  if (c->id != i + 1)
    return fail(r, "rank %d: command %u has another id", rank, i + 1);
  if (i > 0 && c->deps == 0)
    return fail(r, "rank %d: command %u floats", rank, i + 1);
  uint64_t applied = applied_before(&r->seen[rank], i);
  for (uint32_t d = 0; d < c->deps; ++d)
    if (c->dep[d].id >= c->id || c->dep[d].id < applied)
      return fail(r, "rank %d: command %u depends on %u", rank, i + 1,
                  (unsigned)c->dep[d].id);
  if (i > r->task_begin[rank] && r->seen[rank].at[i - 1].task == s->task) {
    static const int order[] = {3, 1, 2, 0, 4, 4, 4};
    if (order[r->seen[rank].at[i - 1].command.kind] > order[c->kind])
      return fail(r, "rank %d: command %u is out of order", rank, i + 1);
  }
  return true;
}

static bool is_near(const run *r, int a, int64_t b) {
  int hosts = r->program.hosts;
  return hosts > 0 && a % hosts == b % hosts && a != b;
}

/* `whole`: what is large is not cut. */
static bool check_pieces(run *r, const cel_message *m, bool whole) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < m->pieces; ++i) {
    const cel_piece *p = &m->piece[i];
    uint64_t bytes =
        (uint64_t)cel_box_volume(&p->box) * p->buffer->element_size;
    sum += bytes;
    if (cel_box_is_empty(&p->box)) return fail(r, "an empty piece");
    if (m->pieces > 1 && bytes > r->program.small_bytes)
      return fail(r, "a large piece travels with others");
    if (m->pieces == 1 && !whole && bytes > r->program.small_bytes &&
        bytes > r->program.large_bytes && cel_box_volume(&p->box) > 1)
      return fail(r, "a piece is too large");
    if (i == 0) continue;
    const cel_piece *q = &m->piece[i - 1];
    if (q->buffer->id > p->buffer->id ||
        (q->buffer == p->buffer && cel_box_compare(&q->box, &p->box) >= 0))
      return fail(r, "pieces are not in canonical order");
  }
  uint64_t large = r->program.large_bytes > r->program.small_bytes
                       ? r->program.large_bytes
                       : r->program.small_bytes;
  if (m->pieces > 1 && sum > large) return fail(r, "too much in a message");
  if (m->pieces == 0 || sum != m->bytes) return fail(r, "a wrong size");
  return true;
}

/* The next message of `rank` with `peer` in this task from *at on, or null. */
static const cel_message *next_message(const run *r, int rank, int peer,
                                       cel_command_kind kind, uint32_t *at) {
  while (*at < r->seen[rank].n) {
    const seen *s = &r->seen[rank].at[(*at)++];
    if (s->command.kind == kind && s->command.message.peer == peer)
      return &s->command.message;
  }
  return NULL;
}

static bool same_message(const cel_message *a, const cel_message *b) {
  if (a->sequence != b->sequence || a->bytes != b->bytes ||
      a->pieces != b->pieces)
    return false;
  for (uint32_t i = 0; i < a->pieces; ++i) {
    /* The buffer may be freed by now, its records are not. */
    if (a->piece[i].buffer != b->piece[i].buffer ||
        !cel_box_equal(&a->piece[i].box, &b->piece[i].box))
      return false;
  }
  return true;
}

static bool check_pair(run *r, int from, int to) {
  uint32_t i = r->task_begin[from], j = r->task_begin[to];
  for (;;) {
    const cel_message *push = next_message(r, from, to, CEL_COMMAND_PUSH, &i);
    const cel_message *await =
        next_message(r, to, from, CEL_COMMAND_AWAIT_PUSH, &j);
    if (push == NULL && await == NULL) return true;
    if (from == to) return fail(r, "rank %d sends to itself", from);
    if (push == NULL || await == NULL)
      return fail(r, "rank %d %s rank %d, which does not expect it",
                  push ? from : to, push ? "sends to" : "waits for",
                  push ? to : from);
    if (!same_message(push, await))
      return fail(r, "%d -> %d: the two ends name different messages", from,
                  to);
    if (push->sequence != r->sequence[from][to]++)
      return fail(r, "%d -> %d: sequence", from, to);
    bool whole =
        is_near(r, from, to) && r->program.task[r->task].kind != CEL_TASK_HOST;
    if (!check_pieces(r, push, whole)) return false;
    ++r->stats->messages;
  }
}

/* ---- truth -----------------------------------------------------------------
 */

typedef void visit(run *r, int buffer, int x, int rank, void *context);

static void each_access_point(run *r, bool produces, int rank, visit *fn,
                              void *context) {
  const fuzz_task *t = &r->program.task[r->task];
  cel_box chunk, box[FUZZ_BOXES];
  if (!chunk_of(r, rank, &chunk)) return;
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

static void note_want(run *r, int b, int x, int rank, void *context) {
  (void)context;
  r->want[b][x] = r->owner[b][x] >= 0 && !(r->fresh[b][x] >> rank & 1);
}

static void note_fresh(run *r, int b, int x, int rank, void *context) {
  (void)context;
  if (r->owner[b][x] >= 0) r->fresh[b][x] |= 1u << rank;
}

/* What collectives of this task bring to `rank`. */
static void find_shared(run *r, int rank) {
  memset(r->shared, 0, sizeof r->shared);
  for (uint32_t i = r->task_begin[rank]; i < r->seen[rank].n; ++i) {
    const seen *s = &r->seen[rank].at[i];
    if (s->command.kind != CEL_COMMAND_COLLECTIVE) continue;
    int b = (int)s->exchange.buffer->id;
    for (uint32_t j = 0; j < s->exchange.gets; ++j)
      EACH_POINT(r, b, &s->exchange.get[j], x) r->shared[b][x] = true;
  }
}

static bool check_received(run *r, int rank) {
  memset(r->got, 0, sizeof r->got);
  memset(r->want, 0, sizeof r->want);
  each_access_point(r, false, rank, note_want, NULL);
  find_shared(r, rank);
  for (uint32_t i = r->task_begin[rank]; i < r->seen[rank].n; ++i) {
    const cel_command *c = &r->seen[rank].at[i].command;
    if (c->kind != CEL_COMMAND_AWAIT_PUSH) continue;
    for (uint32_t j = 0; j < c->message.pieces; ++j) {
      int b = (int)c->message.piece[j].buffer->id;
      EACH_POINT(r, b, &c->message.piece[j].box, x) {
        if (r->got[b][x])
          return fail(r, "rank %d gets point %d of %c twice", rank, x, 'a' + b);
        r->got[b][x] = true;
        if (r->owner[b][x] != c->message.peer)
          return fail(r, "rank %d gets point %d of %c from %d, not from %d",
                      rank, x, 'a' + b, (int)c->message.peer, r->owner[b][x]);
      }
    }
  }
  for (int b = 0; b < r->program.buffers; ++b) {
    bool all_kept = r->reads[b] <= r->program.replications;
    for (int x = 0; x < FUZZ_POINTS; ++x) {
      if (r->want[b][x] && !r->got[b][x] && !r->shared[b][x])
        return fail(r, "rank %d lacks point %d of %c and does not get it", rank,
                    x, 'a' + b);
      if (r->shared[b][x] && !r->want[b][x] && !(r->fresh[b][x] >> rank & 1))
        return fail(r, "rank %d does not read point %d of %c, but gets it",
                    rank, x, 'a' + b);
      if (all_kept && r->got[b][x] && !r->want[b][x])
        return fail(r, "rank %d gets point %d of %c in vain", rank, x, 'a' + b);
      r->stats->points += r->got[b][x];
    }
  }
  return true;
}

static void apply_truth(run *r, const writers *w) {
  for (int k = 0; k < r->program.ranks; ++k)
    each_access_point(r, false, k, note_fresh, NULL);
  for (int b = 0; b < r->program.buffers; ++b)
    for (int x = 0; x < FUZZ_POINTS; ++x) {
      if (w->rank[b][x] == 0) continue;
      r->owner[b][x] = w->rank[b][x] - 1;
      r->fresh[b][x] = 1u << r->owner[b][x];
      r->value[b][x] = (uint8_t)(r->task + 1);
    }
}

/* ---- collectives -----------------------------------------------------------
 */

/* The next collective of the rank's commands from *at on, or null. */
static const cel_exchange *next_exchange(const run *r, int rank, uint32_t *at) {
  while (*at < r->seen[rank].n) {
    const seen *s = &r->seen[rank].at[(*at)++];
    if (s->command.kind == CEL_COMMAND_COLLECTIVE) return &s->exchange;
  }
  return NULL;
}

/* Whether weights leave some rank without a chunk though one after it has
 * one. */
static bool leaves_out(const run *r) {
  bool ended = false;
  cel_box chunk;
  if (r->program.task[r->task].weights == 0) return false;
  for (int k = r->program.ranks; k-- > 0;) {
    bool some = chunk_of(r, k, &chunk);
    if (ended && !some) return true;
    ended |= some;
  }
  return false;
}

static bool check_exchanges(run *r) {
  uint32_t at[FUZZ_RANKS];
  memcpy(at, r->task_begin, sizeof at);
  for (;;) {
    const cel_exchange *of[FUZZ_RANKS];
    for (int k = 0; k < r->program.ranks; ++k) {
      of[k] = next_exchange(r, k, &at[k]);
      if ((of[k] == NULL) != (of[0] == NULL))
        return fail(r, "rank %d has other collectives than rank 0", k);
    }
    if (of[0] == NULL) return true;
    int b = (int)of[0]->buffer->id;
    const char *fault =
        fuzz_exchange_check(of, r->program.ranks, r->exchanges++,
                            r->program.buffer[b].ext, r->owner[b]);
    if (fault != NULL) return fail(r, "%s", fault);
    cel_vec_push(&r->gathered, cel_alloc_zero(FUZZ_POINTS));
    ++r->stats->patterns[of[0]->pattern];
    r->stats->pairs += of[0]->to != NULL;
    r->stats->groups += of[0]->group > 0;
    r->stats->left_out += leaves_out(r);
  }
}

/* Whether every rank reads all by its only access, whose rule is one box of
 * constants. */
static bool all_read_all(const run *r) {
  const fuzz_task *t = &r->program.task[r->task];
  cel_box chunk;
  if (t->accesses != 1 || t->access[0].boxes != 1) return false;
  if (!cel_mode_consumes(t->access[0].mode)) return false;
  for (int i = 0; i < 6; ++i)
    if (t->access[0].bound[0][i / 2][i % 2].a != 0) return false;
  for (int k = 0; k < r->program.ranks; ++k)
    if (!chunk_of(r, k, &chunk)) return false;
  return true;
}

/* What is in the clear is decided so: of a buffer that nobody but its writers
 * has any part of, what kernels of all ranks read comes by collectives. */
static bool check_clear_case(run *r) {
  enum { FEW = 6 }; /* entries, or about */
  int runs = 1, b = r->program.task[r->task].access[0].buffer;
  bool host = r->program.task[r->task].kind == CEL_TASK_HOST;
  if (!r->program.collectives || host || !all_read_all(r)) return true;
  for (int x = 1; x < FUZZ_POINTS; ++x)
    runs += r->owner[b][x] != r->owner[b][x - 1];
  if (runs > FEW) return true;
  for (int x = 0; x < FUZZ_POINTS; ++x)
    if (r->owner[b][x] >= 0 && r->fresh[b][x] != 1u << r->owner[b][x])
      return true;
  for (int k = 0; k < r->program.ranks; ++k)
    for (uint32_t i = r->task_begin[k]; i < r->seen[k].n; ++i)
      if (r->seen[k].at[i].command.kind == CEL_COMMAND_PUSH)
        return fail(r, "rank %d sends what a collective could bring", k);
  return true;
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
      return fail(r, "rank %d: overlapping writes were not refused", k);
    if (status != CEL_E_OK)
      return fail(r, "rank %d: %s", k, cel_error_last()->text);
  }
  return true;
}

/* Before which task the FREE at `i` of the program comes to `rank`. */
static int free_at(const run *r, int i, int rank) {
  int late = r->program.task[i].late[rank];
  return late > i ? late : i + 1;
}

/* Whether all ranks have been told of the same frees. */
static bool frees_agree(const run *r) {
  for (int i = 0; i < r->task; ++i)
    for (int k = 1; k < r->program.ranks; ++k)
      if (r->program.task[i].kind == CEL_TASK_FREE &&
          (free_at(r, i, k) <= r->task) != (free_at(r, i, 0) <= r->task))
        return false;
  return true;
}

static bool check_counts(run *r) {
  if (!frees_agree(r)) return true;
  uint64_t first[3] = {0}, other[3];
  for (int k = 0; k < r->program.ranks; ++k) {
    uint64_t *out = k == 0 ? first : other;
    cel_command_graph_counts(r->graph[k], &out[0], &out[1], &out[2]);
    if (k > 0 && (first[0] != other[0] || first[1] != other[1]))
      return fail(r, "ranks 0 and %d hold different states", k);
  }
  if (first[1] > first[0] * (uint64_t)r->program.replications)
    return fail(r, "more replications than were to be kept");
  if (first[0] > r->stats->entries_most) r->stats->entries_most = first[0];
  return true;
}

static bool check_task(run *r) {
  if (!check_exchanges(r)) return false;
  for (int k = 0; k < r->program.ranks; ++k) {
    bool executed = false;
    cel_box chunk;
    for (uint32_t i = r->task_begin[k]; i < r->seen[k].n; ++i) {
      const cel_command *c = &r->seen[k].at[i].command;
      if (!check_command(r, k, i)) return false;
      if (c->kind != CEL_COMMAND_EXECUTE) continue;
      executed = true;
      if (!chunk_of(r, k, &chunk) || !cel_box_equal(&chunk, &c->chunk))
        return fail(r, "rank %d executes another chunk", k);
    }
    const fuzz_task *t = &r->program.task[r->task];
    bool works = t->kind == CEL_TASK_KERNEL || t->kind == CEL_TASK_HOST;
    if (works && chunk_of(r, k, &chunk) != executed)
      return fail(r, "rank %d: execution", k);
    for (int s = 0; s < r->program.ranks; ++s)
      if (!check_pair(r, s, k)) return false;
    if (works && !check_received(r, k)) return false;
    if (works && k == 0 && !check_clear_case(r)) return false;
  }
  return check_counts(r);
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
        return fail(r, "rank %d: a command was retired too early", k);
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
        return fail(r, "rank %d: %s", k, cel_error_last()->text);
      if (!check_command(r, k, r->task_begin[k])) return false;
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
    each_access_point(r, true, k, note_writer, &w);
  if (w.overlap) {
    ++r->stats->refused;
    if (!add_everywhere(r, task, true)) return false;
    read_only(r);
    memset(&w, 0, sizeof w);
  }
  count_reads(r, &r->program.task[at]);
  if (!add_everywhere(r, task, false) || !check_task(r)) return false;
  apply_truth(r, &w);
  ++r->stats->tasks;
  return retire(r);
}

/* ---- execution -------------------------------------------------------------
 */

static seen *find_await(run *r, int rank, int from, uint64_t sequence) {
  for (uint32_t i = 0; i < r->seen[rank].n; ++i) {
    seen *s = &r->seen[rank].at[i];
    if (s->command.kind == CEL_COMMAND_AWAIT_PUSH &&
        s->command.message.peer == from &&
        s->command.message.sequence == sequence)
      return s;
  }
  return NULL;
}

static void execute_push(run *r, int rank, const seen *s) {
  const cel_message *m = &s->command.message;
  seen *await = find_await(r, (int)m->peer, rank, m->sequence);
  await->data = cel_alloc((size_t)m->bytes + 1);
  uint8_t *at = await->data;
  for (uint32_t i = 0; i < m->pieces; ++i) {
    int b = (int)m->piece[i].buffer->id;
    EACH_POINT(r, b, &m->piece[i].box, x)
    *at++ = r->local[rank][b][x];
  }
  await->sent = true;
}

static void execute_await(run *r, int rank, const seen *s) {
  const cel_message *m = &s->command.message;
  const uint8_t *at = s->data;
  for (uint32_t i = 0; i < m->pieces; ++i) {
    int b = (int)m->piece[i].buffer->id;
    EACH_POINT(r, b, &m->piece[i].box, x)
    r->local[rank][b][x] = *at++;
  }
}

/* Whether all that `rank` is to get has been given. */
static bool all_given(const run *r, const seen *s) {
  bool all = true;
  if (s->exchange.gets == 0) return true;
  for (int k = 0; k < r->program.ranks; ++k)
    for (uint32_t i = 0; i < r->seen[k].n && all; ++i) {
      const seen *t = &r->seen[k].at[i];
      if (t->command.kind == CEL_COMMAND_COLLECTIVE &&
          t->exchange.nth == s->exchange.nth)
        all = t->begun || cel_box_is_empty(&t->exchange.mine);
    }
  return all;
}

/* First it gives what it has, some time later it gets the rest. */
static void execute_collective(run *r, int rank, seen *s) {
  int b = (int)s->exchange.buffer->id;
  uint8_t *data = r->gathered.at[s->exchange.nth];
  if (!s->begun) {
    EACH_POINT(r, b, &s->exchange.mine, x) data[x] = r->local[rank][b][x];
    s->begun = true;
    ++r->begins[rank];
    return;
  }
  for (uint32_t i = 0; i < s->exchange.gets; ++i)
    EACH_POINT(r, b, &s->exchange.get[i], x) r->local[rank][b][x] = data[x];
  s->done = true;
}

static void read_point(run *r, int b, int x, int rank, void *context) {
  (void)context;
  int expected = r->before[r->task][b][x];
  if (expected != 0 && r->local[rank][b][x] != expected)
    fail(r, "rank %d reads %d at point %d of %c, not %d", rank,
         r->local[rank][b][x], x, 'a' + b, expected);
}

static void write_point(run *r, int b, int x, int rank, void *context) {
  (void)context;
  r->local[rank][b][x] = (uint8_t)(r->task + 1);
}

/* A horizon or epoch comes after all before it, and all comes after the last
 * epoch. */
static bool check_serialised(run *r, int rank, uint32_t i) {
  const seen_list *all = &r->seen[rank];
  cel_command_kind kind = all->at[i].command.kind;
  bool barrier = kind == CEL_COMMAND_EPOCH || kind == CEL_COMMAND_HORIZON;
  bool epoch = false;
  for (uint32_t j = i; j-- > 0 && !epoch;) {
    epoch = all->at[j].command.kind == CEL_COMMAND_EPOCH;
    if ((barrier || epoch) && !all->at[j].done)
      return fail(r, "rank %d: command %u runs before %u", rank, i + 1, j + 1);
  }
  return true;
}

static bool execute(run *r, int rank, uint32_t i) {
  seen *s = &r->seen[rank].at[i];
  r->task = s->task;
  if (!check_serialised(r, rank, i)) return false;
  switch (s->command.kind) {
  case CEL_COMMAND_PUSH: execute_push(r, rank, s); break;
  case CEL_COMMAND_AWAIT_PUSH: execute_await(r, rank, s); break;
  case CEL_COMMAND_COLLECTIVE:
    execute_collective(r, rank, s);
    if (!s->done) return true;
    break;
  case CEL_COMMAND_EXECUTE:
    each_access_point(r, false, rank, read_point, NULL);
    each_access_point(r, true, rank, write_point, NULL);
    break;
  case CEL_COMMAND_FREE:
    memset(r->local[rank][r->program.task[s->task].freed], VALUE_FREED,
           sizeof r->local[rank][0]);
    break;
  default: break;
  }
  s->done = true;
  for (uint32_t j = i + 1; j < r->seen[rank].n; ++j) {
    seen *t = &r->seen[rank].at[j];
    for (uint32_t d = 0; d < t->command.deps; ++d)
      t->waits -= t->command.dep[d].id == s->command.id;
  }
  return r->fault.text[0] == 0;
}

static bool ready(const run *r, int rank, const seen *s) {
  if (s->done || s->waits > 0) return false;
  switch (s->command.kind) {
  case CEL_COMMAND_AWAIT_PUSH: return s->sent;
  case CEL_COMMAND_COLLECTIVE:
    return s->begun ? all_given(r, s) : s->exchange.nth == r->begins[rank];
  default: return true;
  }
}

/* A random one of the commands that may run now. */
static bool choose(run *r, int *rank, uint32_t *at) {
  int64_t n = 0;
  for (int k = 0; k < r->program.ranks; ++k)
    for (uint32_t i = 0; i < r->seen[k].n; ++i)
      if (ready(r, k, &r->seen[k].at[i]) &&
          cel_random_int(&r->random, 0, n++) == 0) {
        *rank = k;
        *at = i;
      }
  return n > 0;
}

static bool execute_all(run *r) {
  memset(r->local, 0, sizeof r->local);
  int64_t left = r->exchanges * r->program.ranks; /* they take two steps */
  for (int k = 0; k < r->program.ranks; ++k) {
    left += r->seen[k].n;
    for (int b = 0; b < r->program.buffers; ++b)
      if (r->program.buffer[b].init)
        memset(r->local[k][b], VALUE_INIT, sizeof r->local[k][b]);
  }
  int rank = 0;
  for (uint32_t i = 0; left > 0 && choose(r, &rank, &i); --left)
    if (!execute(r, rank, i)) return false;
  return left == 0 || fail(r, "%d commands never run", (int)left);
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
      cel_free((void *)s->command.message.piece);
      cel_free(s->data);
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
  return add_everywhere(r, last, false) && execute_all(r);
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
