/* What must hold of every graph, and of the messages of all ranks together. */
#include <stdio.h>
#include <string.h>

#include "random/program.h"
#include "task/assignment.h"
#include "tuning.h"

typedef struct check {
  const program *program;
  record **records;
  char *text;
  size_t size;
} check;

/* Says what is wrong; false. */
static bool say(const check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool say(const check *c, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(c->text, c->size, format, list);
  va_end(list);
  return false;
}

typedef unsigned long long ull;

/* ---- one graph ---------------------------------------------------------- */

typedef struct graph {
  const char *name;
  int rank, horizon, epoch; /* kinds */
  const nodes *nodes;
} graph;

/* Ids are dense, dependencies lie before their node and not before the epoch or
 * the horizon that was applied last. */
static bool check_order(const check *c, const graph *g) {
  uint64_t floor = 1, last = 1;
  for (uint32_t i = 0; i < g->nodes->n; ++i) {
    const node *n = &g->nodes->at[i];
    if (n->id != i + 1)
      return say(c, "%s graph of rank %d: id %llu comes after %u", g->name,
                 g->rank, (ull)n->id, i);
    for (uint32_t k = 0; k < n->deps; ++k)
      if (n->dep[k].id >= n->id || n->dep[k].id < floor)
        return say(c, "%s graph of rank %d: %llu depends on %llu, floor %llu",
                   g->name, g->rank, (ull)n->id, (ull)n->dep[k].id, (ull)floor);
    if (n->kind == g->horizon) {
      floor = last;
      last = n->id;
    } else if (n->kind == g->epoch) {
      floor = last = n->id;
    }
  }
  return true;
}

/* From each node a path of dependencies leads back from the next horizon or
 * epoch. */
static bool check_reach(const check *c, const graph *g) {
  uint32_t n = g->nodes->n, from = 0;
  uint8_t *reached = cel_alloc_zero(n + 1);
  bool good = true;
  for (uint32_t i = 0; i < n && good; ++i) {
    int kind = g->nodes->at[i].kind;
    if (kind != g->horizon && kind != g->epoch) continue;
    reached[i] = 1;
    for (uint32_t k = i + 1; k-- > from && good;) {
      const node *at = &g->nodes->at[k];
      good = reached[k] != 0;
      if (!good)
        say(c, "%s graph of rank %d: %llu does not lead to %llu", g->name,
            g->rank, (ull)at->id, (ull)g->nodes->at[i].id);
      for (uint32_t d = 0; d < at->deps; ++d) reached[at->dep[d].id - 1] = 1;
    }
    from = i;
  }
  cel_free(reached);
  return good;
}

static bool check_graphs(const check *c) {
  for (int k = 0; k < c->program->ranks; ++k) {
    const record *r = c->records[k];
    graph graphs[] = {
        {"task", k, CEL_TASK_HORIZON, CEL_TASK_EPOCH, &r->tasks},
        {"command", k, CEL_COMMAND_HORIZON, CEL_COMMAND_EPOCH, &r->commands},
        {"instruction", k, CEL_INSTR_HORIZON, CEL_INSTR_EPOCH, &r->instrs}};
    for (int i = 0; i < 3; ++i)
      if (!check_order(c, &graphs[i]) || !check_reach(c, &graphs[i]))
        return false;
  }
  return true;
}

/* ---- laps ---------------------------------------------------------------- */

/* The next task but frees, which come on each rank at another time. */
static const node *next_shared(const nodes *tasks, uint32_t *i) {
  while (*i < tasks->n)
    if (tasks->at[(*i)++].kind != CEL_TASK_FREE) return &tasks->at[*i - 1];
  return NULL;
}

/* Whether rank k has the horizons, epochs and laps of rank 0. Laps rise one by
 * one, and each horizon or epoch begins one: an epoch right after the end of a
 * lap leaves an empty one. */
static bool check_laps(const check *c, int k) {
  uint32_t at[2] = {0};
  for (uint64_t lap = 0;;) {
    const node *mine = next_shared(&c->records[k]->tasks, &at[0]);
    const node *first = next_shared(&c->records[0]->tasks, &at[1]);
    if (mine == NULL && first == NULL) return true;
    if (mine == NULL || first == NULL || mine->kind != first->kind ||
        mine->lap != first->lap)
      return say(c, "rank %d has another task than rank 0 in lap %llu", k,
                 (ull)lap);
    bool barrier =
        mine->kind == CEL_TASK_HORIZON || mine->kind == CEL_TASK_EPOCH;
    if (mine->lap < lap + barrier || mine->lap > lap + 1 + barrier)
      return say(c, "rank %d: lap %llu comes after %llu", k, (ull)mine->lap,
                 (ull)lap);
    lap = mine->lap;
  }
}

/* ---- messages ----------------------------------------------------------- */

/* The next message of a kind of node with this peer, from *i on. */
static const node *next_message(const nodes *all, int kind, int64_t peer,
                                uint32_t *i) {
  while (*i < all->n) {
    const node *n = &all->at[(*i)++];
    if (n->kind == kind && n->peer == peer) return n;
  }
  return NULL;
}

static bool same_pieces(const node *a, const node *b) {
  if (a->pieces != b->pieces || a->bytes != b->bytes || a->object != b->object)
    return false;
  for (uint32_t i = 0; i < a->pieces; ++i)
    if (a->buffer[i] != b->buffer[i] ||
        !cel_box_equal(&a->piece[i].box, &b->piece[i].box))
      return false;
  return true;
}

static bool check_commands(const check *c, int from, int to, uint64_t *n) {
  uint32_t i = 0, j = 0;
  for (*n = 0;; ++*n) {
    const node *push = next_message(&c->records[from]->command_messages,
                                    CEL_COMMAND_PUSH, to, &i);
    const node *await = next_message(&c->records[to]->command_messages,
                                     CEL_COMMAND_AWAIT_PUSH, from, &j);
    if (push == NULL && await == NULL) return true;
    if (push == NULL || await == NULL)
      return say(c, "message %llu from rank %d to rank %d is only %s", (ull)*n,
                 from, to, push != NULL ? "pushed" : "awaited");
    if (push->sequence != *n || await->sequence != *n)
      return say(c,
                 "message %llu from rank %d to rank %d has numbers %llu and "
                 "%llu",
                 (ull)*n, from, to, (ull)push->sequence, (ull)await->sequence);
    if (push->task != await->task || !same_pieces(push, await))
      return say(c,
                 "message %llu from rank %d to rank %d has other contents on "
                 "the other side",
                 (ull)*n, from, to);
  }
}

/* Each of the `n` messages is in one instruction; in their order, direct ones
 * and the others are numbered without gaps. */
static bool check_instrs(const check *c, int on, int kind, int64_t peer,
                         uint64_t n) {
  const nodes *all = &c->records[on]->instr_messages;
  const node **of = cel_alloc_zero((n + 1) * sizeof *of);
  bool good = true;
  uint32_t i = 0;
  uint64_t found = 0, nth[2] = {0};
  for (const node *m; good && (m = next_message(all, kind, peer, &i)) != NULL;
       ++found) {
    good = m->sequence < n && of[m->sequence] == NULL;
    if (good) of[m->sequence] = m;
  }
  for (uint64_t k = 0; k < n && good && found == n; ++k)
    good = of[k]->nth == nth[of[k]->direct]++;
  cel_free(of);
  if (good && found == n) return true;
  return say(c,
             "rank %d has %llu messages in %s instructions for %llu with %lld",
             on, (ull)found, cel_instr_name((cel_instr_kind)kind), (ull)n,
             (long long)peer);
}

static bool check_messages(const check *c) {
  for (int a = 0; a < c->program->ranks; ++a) {
    for (int b = 0; b < c->program->ranks; ++b) {
      uint64_t n;
      if (!check_commands(c, a, b, &n) ||
          !check_instrs(c, a, CEL_INSTR_SEND, b, n) ||
          !check_instrs(c, b, CEL_INSTR_RECEIVE, a, n))
        return false;
    }
  }
  return true;
}

/* ---- collectives -------------------------------------------------------- */

/* The next node of a kind, from *i on. */
static const node *next_of(const nodes *all, int kind, uint32_t *i) {
  while (*i < all->n)
    if (all->at[(*i)++].kind == kind) return &all->at[*i - 1];
  return NULL;
}

/* Whether a collective has an instruction on rank k, or one for each device
 * where it is between them. */
static bool has_instrs(const check *c, int k, const node *command,
                       uint32_t *at) {
  uint64_t parts = command->bytes > 0 ? command->bytes : 1;
  for (uint64_t i = 0; i < parts; ++i) {
    const node *of = next_of(&c->records[k]->instrs, CEL_INSTR_COLLECTIVE, at);
    if (of == NULL || of->sequence != command->sequence) return false;
  }
  return true;
}

/* Whether rank k has the same collectives as rank 0, with instructions in
 * order. */
static bool check_exchanges_of(const check *c, int k) {
  uint32_t at[3] = {0};
  for (uint64_t n = 0;; ++n) {
    const node *of[] = {
        next_of(&c->records[0]->commands, CEL_COMMAND_COLLECTIVE, &at[0]),
        next_of(&c->records[k]->commands, CEL_COMMAND_COLLECTIVE, &at[1])};
    if (of[0] == NULL && of[1] == NULL) return true;
    if (of[0] == NULL || of[1] == NULL || !has_instrs(c, k, of[1], &at[2]))
      return say(c, "rank %d has no collective %llu", k, (ull)n);
    if (of[0]->sequence != n || of[1]->sequence != n)
      return say(c, "collective %llu has another number on rank %d", (ull)n, k);
    if (of[0]->task != of[1]->task || of[0]->nth != of[1]->nth ||
        of[0]->peer != of[1]->peer || of[0]->buffer[0] != of[1]->buffer[0] ||
        !cel_box_equal(&of[0]->piece[0].box, &of[1]->piece[0].box))
      return say(c, "collective %llu is another one on rank %d", (ull)n, k);
  }
}

static bool check_exchanges(const check *c) {
  for (int k = 0; k < c->program->ranks; ++k)
    if (!check_exchanges_of(c, k)) return false;
  return true;
}

/* ---- who has what ------------------------------------------------------- */

/* Of an element and a rank, in a task. */
enum { LACKS = 1, GETS = 2, SHARES = 4, TWICE = 8 };

/* Brute force over all ranks: `has` is a bit for each rank that holds the
 * current value of an element; 0: nobody ever wrote it. */
typedef struct holdings {
  const program *program;
  uint32_t has[MOST_BUFFERS][MOST_ELEMENTS];
  uint8_t lacks[MOST_BUFFERS][MOST_ELEMENTS]; /* the rank being looked at */
  /* How often a buffer was read, by tasks; and when an element was written. */
  int reads[MOST_BUFFERS], written[MOST_BUFFERS][MOST_ELEMENTS];
  int rank, buffer;
  bool alike; /* what one rank writes the others write, too */
} holdings;

static int64_t at_point(const holdings *h, const int64_t *point) {
  return index_of(&h->program->buffer[h->buffer].extent, point);
}

static void lack(void *context, const int64_t *point) {
  holdings *h = context;
  int64_t i = at_point(h, point);
  uint32_t has = h->has[h->buffer][i];
  if (has != 0 && (has >> h->rank & 1) == 0) h->lacks[h->buffer][i] = LACKS;
}

static void gain(void *context, const int64_t *point) {
  holdings *h = context;
  uint32_t *has = &h->has[h->buffer][at_point(h, point)];
  if (*has != 0) *has |= 1u << h->rank;
}

static void own(void *context, const int64_t *point) {
  holdings *h = context;
  int64_t i = at_point(h, point);
  uint32_t *has = &h->has[h->buffer][i];
  *has = (h->alike && h->rank > 0 ? *has : 0) | 1u << h->rank;
  h->written[h->buffer][i] = h->reads[h->buffer];
}

bool step_placed(const step *s) {
  return s->placement == CEL_PLACE_ONCE && s->home.given && !s->home.unclear;
}

/* A kernel of one item over numbers alone is every rank's, where kernels give
 * the same on all. */
bool step_for_all(const program *p, const step *s) {
  if (!p->alike || p->ranks == 1 || s->kind != STEP_GROUP ||
      s->task != CEL_TASK_KERNEL || s->placement != CEL_PLACE_SPLIT ||
      s->dims > 0 || !step_alike(s) || s->effects > 0 || s->rank_weights ||
      s->device_weights)
    return false;
  for (int i = 0; i < s->accesses; ++i)
    if (reduces(&s->access[i]) || s->access[i].rule->opaque ||
        is_apart(p, &s->access[i]) || p->buffer[s->access[i].buffer].dims > 0)
      return false;
  return s->accesses > 0;
}

bool step_chunk(const program *p, const step *s, int k, cel_box *chunk) {
  if (step_for_all(p, s)) {
    *chunk = s->range;
    return true;
  }
  if (s->kind == STEP_FENCE) {
    *chunk = (cel_box){{k, 0, 0}, {k + 1, 1, 1}};
    return true;
  }
  cel_task task = {.kind = s->task,
                   .placement = s->placement,
                   .dims = s->dims,
                   .range = s->range,
                   .permitted = s->permitted};
  int64_t room[CEL_TASK_CUT_ROOM(MOST_RANKS)];
  cel_split split;
  if (s->rank_weights && s->placement == CEL_PLACE_SPLIT) {
    split = cel_task_cut(&task, &s->range, p->ranks, s->rank_weight, room);
    task.split = &split;
  }
  split = cel_task_split(&task, p->ranks);
  if (s->placement == CEL_PLACE_ONCE)
    return cel_split_chunk(&split, 0, chunk) &&
           k == (step_placed(s) ? s->home.rank : 0);
  return cel_split_chunk(&split, k, chunk);
}

/* Visits what a chunk consumes, or produces. */
static void each_touched(holdings *h, const step *s, const cel_box *chunk,
                         bool (*does)(cel_mode),
                         void (*visit)(void *, const int64_t *)) {
  if (s->kind == STEP_FENCE && h->program->buffer[s->buffer].apart) return;
  if (s->kind == STEP_FENCE && s->accesses == 0) {
    h->buffer = s->buffer;
    if (does(CEL_MODE_READ)) each_point(&s->box, 1, visit, h);
    return;
  }
  for (int i = 0; i < s->accesses; ++i) {
    const access *a = &s->access[i];
    cel_box box[MOST_IMAGE];
    if (!does(a->mode) || reduces(a) || is_apart(h->program, a)) continue;
    h->buffer = a->buffer;
    const cel_box *extent = &h->program->buffer[a->buffer].extent;
    int n = 1;
    if (a->rule != NULL)
      n = rule_image(a->rule, &s->range, extent, chunk, box, NULL);
    else
      box[0] = *extent;
    each_point(box, n, visit, h);
  }
}

static void each_rank(holdings *h, const step *s, bool (*does)(cel_mode),
                      void (*visit)(void *, const int64_t *)) {
  cel_box chunk;
  for (h->rank = 0; h->rank < h->program->ranks; ++h->rank)
    if (step_chunk(h->program, s, h->rank, &chunk))
      each_touched(h, s, &chunk, does, visit);
}

static void arrive(void *context, const int64_t *point) {
  holdings *h = context;
  uint8_t *lacks = &h->lacks[h->buffer][at_point(h, point)];
  *lacks |= (*lacks & GETS) != 0 ? TWICE : GETS;
}

/* A collective may bring what is there already, or what a message brings for
 * another box of the task. */
static void share(void *context, const int64_t *point) {
  holdings *h = context;
  uint8_t *lacks = &h->lacks[h->buffer][at_point(h, point)];
  if ((*lacks & LACKS) != 0) *lacks |= SHARES;
}

static void arrive_all(holdings *h, const node *n) {
  bool together = n->kind == CEL_COMMAND_COLLECTIVE;
  if (!together && n->kind != CEL_COMMAND_AWAIT_PUSH) return;
  for (uint32_t i = together ? 2 : 0; i < n->pieces; ++i) {
    h->buffer = n->buffer[i];
    if (h->buffer < 0) continue;
    each_point(&n->piece[i].box, 1, together ? share : arrive, h);
  }
}

/* Whether ranks forget who has an element: they are made to, or reads since it
 * was written, or mappers of many boxes, leave more replications than ranks
 * keep. */
static bool forgets(const program *p, const holdings *h, int b, int i) {
  if (h->reads[b] - h->written[b][i] >= CEL_TUNE_REPLICATIONS) return true;
  if (p->cap > 0) return true;
  for (int i = 0; i < p->steps; ++i)
    for (int k = 0; k < p->step[i]->accesses; ++k)
      if (p->step[i]->access[k].rule != NULL &&
          p->step[i]->access[k].rule->desc.boxes > 3)
        return true;
  return false;
}

/* What is wrong with what a rank gets of an element, or null. Only what was
 * forgotten comes though it is there. */
static const char *wrong(const check *c, const holdings *h, int b, int i) {
  uint8_t lacks = h->lacks[b][i];
  if (lacks == LACKS) return "does not get";
  if ((lacks & TWICE) != 0) return "gets twice";
  return lacks == GETS && !forgets(c->program, h, b, i) ? "gets, but has,"
                                                        : NULL;
}

/* What a rank reads for a fold that it executes. */
static void each_read(holdings *h, const node *fold,
                      void (*visit)(void *, const int64_t *)) {
  for (uint32_t i = 0; fold != NULL && i < fold->pieces; ++i) {
    h->buffer = fold->buffer[i];
    each_point(&fold->piece[i].box, 1, visit, h);
  }
}

/* The command by which a rank executes a fold that begins with the task; null:
 * it executes none. */
static const node *fold_of(const check *c, int rank, uint64_t task) {
  const nodes *all = &c->records[rank]->commands;
  for (uint32_t i = 0; i < all->n; ++i)
    if (all->at[i].task == task && all->at[i].last != 0) return &all->at[i];
  return NULL;
}

/* What rank h->rank awaits for a task is what it lacks, each point once; and it
 * executes the task where it has a chunk of it. */
static bool check_lacks(const check *c, holdings *h, const step *s,
                        uint64_t task, uint32_t *from) {
  cel_box chunk;
  memset(h->lacks, 0, sizeof h->lacks);
  bool here = step_chunk(h->program, s, h->rank, &chunk), executes = false;
  const node *fold = fold_of(c, h->rank, task);
  each_read(h, fold, lack);
  if (here && fold == NULL) each_touched(h, s, &chunk, cel_mode_consumes, lack);
  const nodes *all = &c->records[h->rank]->commands;
  for (; *from < all->n && all->at[*from].task <= task; ++*from) {
    if (all->at[*from].task != task) continue;
    executes |= all->at[*from].kind == CEL_COMMAND_EXECUTE;
    arrive_all(h, &all->at[*from]);
  }
  if (s->kind == STEP_GROUP && here != executes)
    return say(c, "step %d: rank %d %s", s->number, h->rank,
               here ? "does not do its part" : "does what is not its part");
  for (int b = 0; b < h->program->buffers; ++b)
    for (int i = 0; i < MOST_ELEMENTS; ++i)
      if (h->lacks[b][i] != 0 && wrong(c, h, b, i) != NULL)
        return say(c, "step %d: rank %d %s element %d of b%d", s->number,
                   h->rank, wrong(c, h, b, i), i, b);
  return true;
}

/* Rank 0 combines what was reduced into a buffer, all of it at once; or all
 * ranks do. */
static const step *combine_step(const node *task, step *out) {
  int b = task->combined - 1;
  out->placement = task->alike ? CEL_PLACE_ALL : CEL_PLACE_ONCE;
  out->range = cel_box_sized(1, 1, 1);
  out->accesses = 1;
  out->access[0] = (access){.buffer = b,
                            .mode = task->onto ? CEL_MODE_READ_WRITE
                                               : CEL_MODE_DISCARD_WRITE};
  return out;
}

static bool check_task(const check *c, holdings *h, const node *task,
                       uint32_t *from) {
  const step *s = h->program->step[task->step];
  step combining = {.kind = STEP_GROUP, .number = s->number};
  if (task->combined > 0) s = combine_step(task, &combining);
  h->alike = task->alike;
  if (task->combined == 0 && s->kind == STEP_GROUP &&
      task->alike != step_for_all(c->program, s))
    return say(c, "step %d is %severy rank's", s->number,
               task->alike ? "" : "not ");
  for (h->rank = 0; h->rank < h->program->ranks; ++h->rank)
    if (!check_lacks(c, h, s, task->task, &from[h->rank])) return false;
  each_rank(h, s, cel_mode_consumes, gain);
  for (int k = 0; k < s->accesses; ++k) ++h->reads[s->access[k].buffer];
  if (s->kind == STEP_FENCE) ++h->reads[s->buffer];
  each_rank(h, s, cel_mode_produces, own);
  return true;
}

/* The last task of the fold that begins with this one, on all ranks that have a
 * part of it; 0: none does. False where they differ. */
static bool find_fold(const check *c, uint64_t task, uint64_t *last) {
  *last = 0;
  for (int k = 0; k < c->program->ranks; ++k) {
    const node *fold = fold_of(c, k, task);
    if (fold == NULL) continue;
    if (*last != 0 && *last != fold->last)
      return say(c, "rank %d folds other tasks from %llu on", k, (ull)task);
    *last = fold->last;
  }
  return true;
}

/* Tasks from number i on, up to the last of a fold, are one to who looks at
 * what ranks get; the index of the last one into *i. */
static bool check_fold(const check *c, holdings *h, uint64_t last,
                       uint32_t *from, uint32_t *i) {
  const nodes *tasks = &c->records[0]->tasks;
  uint64_t first = tasks->at[*i].task;
  const step *s = h->program->step[tasks->at[*i].step];
  h->alike = false;
  for (h->rank = 0; h->rank < h->program->ranks; ++h->rank)
    if (!check_lacks(c, h, s, first, &from[h->rank])) return false;
  for (h->rank = 0; h->rank < h->program->ranks; ++h->rank)
    each_read(h, fold_of(c, h->rank, first), gain);
  for (int b = 0; b < h->program->buffers; ++b) ++h->reads[b];
  for (uint32_t k = *i; k < tasks->n && tasks->at[k].task <= last; ++k) {
    if (tasks->at[k].step < 0) continue;
    s = h->program->step[tasks->at[k].step];
    if (s->chain == 0)
      return say(c, "step %d is none of a chain, and folded", s->number);
    each_rank(h, s, cel_mode_produces, own);
    *i = k;
  }
  return true;
}

static bool check_holdings(const check *c) {
  holdings *h = cel_alloc_zero(sizeof *h);
  h->program = c->program;
  for (int b = 0; b < c->program->buffers; ++b)
    if (c->program->buffer[b].init) memset(h->has[b], 255, sizeof h->has[b]);
  uint32_t from[MOST_RANKS] = {0};
  const nodes *tasks = &c->records[0]->tasks;
  bool good = true;
  for (uint32_t i = 0; i < tasks->n && good; ++i) {
    uint64_t last;
    if (tasks->at[i].step < 0) continue;
    good = find_fold(c, tasks->at[i].task, &last) &&
           (last != 0 ? check_fold(c, h, last, from, &i)
                      : check_task(c, h, &tasks->at[i], from));
  }
  cel_free(h);
  return good;
}

bool records_check(const program *p, record **records, char *text,
                   size_t size) {
  check c = {p, records, text, size};
  for (int k = 0; k < p->ranks; ++k) record_share_numbers(records[k]);
  for (int k = 0; k < p->ranks; ++k)
    if (!check_laps(&c, k)) return false;
  return check_graphs(&c) && check_messages(&c) && check_exchanges(&c) &&
         check_holdings(&c);
}
