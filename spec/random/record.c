#include <stdlib.h>
#include <string.h>

#include "random/program.h"

record *record_create(void) {
  return cel_alloc_zero(sizeof(record));
}

static void nodes_release(nodes *all) {
  for (uint32_t i = 0; i < all->n; ++i) {
    cel_free(all->at[i].dep);
    cel_free(all->at[i].piece);
    cel_free(all->at[i].buffer);
  }
  cel_vec_release(all);
}

static tally all;

tally records_tally(void) {
  return all;
}

void record_destroy(record *r) {
  all.collectives += r->tally.collectives;
  for (int k = 0; k <= CEL_PATTERN_ALL_REDUCE; ++k) all.of[k] += r->tally.of[k];
  all.pairs += r->tally.pairs;
  all.groups += r->tally.groups;
  all.joined += r->tally.joined;
  all.holes += r->tally.holes;
  all.passed += r->tally.passed;
  all.together += r->tally.together;
  for (int n = 0; n <= CEL_FOLD_STEPS; ++n) all.folds[n] += r->tally.folds[n];
  nodes_release(&r->tasks);
  nodes_release(&r->commands);
  nodes_release(&r->instrs);
  nodes_release(&r->command_messages);
  nodes_release(&r->instr_messages);
  cel_free(r);
}

void record_step(record *r, int step) {
  r->step = step;
}

static node *add(nodes *all, uint64_t id, int kind, uint32_t deps,
                 const cel_dep *dep) {
  node n = {.id = id, .kind = kind, .deps = deps, .step = -1};
  n.dep = cel_alloc(deps * sizeof *dep + 1);
  if (deps > 0) memcpy(n.dep, dep, deps * sizeof *dep);
  cel_vec_push(all, n);
  return &cel_vec_last(all);
}

/* Which of the program's; -1: rows of partial results. */
static int buffer_of(const cel_buffer *buffer) {
  return strchr(buffer->name, ',') != NULL ? -1 : atoi(buffer->name + 1);
}

static void saw_task(void *context, const cel_task *task) {
  record *r = context;
  node *n = add(&r->tasks, task->id, (int)task->kind, task->deps, task->dep);
  n->task = task->id;
  n->lap = task->lap;
  if (task->kind == CEL_TASK_KERNEL || task->kind == CEL_TASK_HOST)
    n->step = r->step;
  n->alike = task->placement == CEL_PLACE_ALL;
  if (task->accesses != 2 || buffer_of(task->access[0].buffer) >= 0) return;
  if (task->access[0].mode != CEL_MODE_READ) return;
  n->combined = buffer_of(task->access[1].buffer) + 1;
  n->onto = task->access[1].mode == CEL_MODE_READ_WRITE;
}

static void room_for_pieces(node *n, uint32_t pieces) {
  n->piece = cel_alloc(pieces * sizeof *n->piece + 1);
  n->buffer = cel_alloc(pieces * sizeof *n->buffer + 1);
}

static void note_piece(node *n, const cel_buffer *buffer, const cel_box *box) {
  n->piece[n->pieces] = (cel_piece){.box = *box};
  n->buffer[n->pieces++] = buffer_of(buffer);
}

/* The first box of a list and what the rank gives of it; what it gets of all.
 */
static void note_exchange(node *n, const cel_exchange *x) {
  n->peer = x->root;
  n->sequence = x->nth;
  n->nth = (uint64_t)x->pattern;
  n->bytes = (uint64_t)x->devices;
  uint32_t pieces = 2;
  for (const cel_exchange *e = x; e != NULL; e = e->next) pieces += e->gets;
  room_for_pieces(n, pieces);
  note_piece(n, x->buffer, &x->box);
  note_piece(n, x->buffer, &x->mine);
  for (; x != NULL; x = x->next)
    for (uint32_t i = 0; i < x->gets; ++i) note_piece(n, x->buffer, &x->get[i]);
}

static bool has_hole(const cel_parts *parts) {
  bool some = false, ended = false, hole = false;
  for (int64_t k = 0; parts != NULL && k < parts->ranks; ++k) {
    bool here = cel_parts_count(parts, k) > 0;
    hole |= here && ended;
    ended |= some && !here;
    some |= here;
  }
  return hole;
}

static void count_exchange(tally *t, const cel_exchange *x) {
  ++t->collectives;
  ++t->of[x->pattern];
  t->groups += x->subgroup > 0;
  t->pairs += x->to != NULL;
  t->joined += x->next != NULL;
  t->holes += has_hole(x->parts);
}

static void note_pieces(node *n, const cel_message *m) {
  for (uint32_t i = 0; i < m->pieces; ++i)
    note_piece(n, m->piece[i].buffer, &m->piece[i].box);
}

static void note_message(record *r, const cel_command *c,
                         const cel_message *m) {
  node *n = add(&r->command_messages, c->id, (int)c->kind, 0, NULL);
  n->task = c->task->id;
  n->peer = m->peer;
  n->sequence = m->sequence;
  n->bytes = m->bytes;
  if (m->object != NULL) n->object = m->object->id + 1;
  room_for_pieces(n, m->pieces);
  note_pieces(n, m);
}

static void note_reads(node *n, const cel_access *access,
                       const cel_box *chunk) {
  cel_region image = {0};
  if (cel_mode_produces(access->mode)) return;
  if (cel_rule_eval(&access->use, chunk, &image) != CEL_E_OK)
    cel_bug("what a fold reads: %s", cel_error_last()->text);
  for (uint32_t i = 0; i < image.n; ++i)
    note_piece(n, access->buffer, &image.at[i]);
  cel_region_release(&image);
}

static void note_fold(record *r, node *n, const cel_task *task,
                      const cel_box *chunk) {
  const cel_fold *fold = task->folded;
  ++r->tally.folds[fold->steps];
  n->last = fold->step[fold->steps - 1].task->id;
  room_for_pieces(n, MOST_IMAGE * task->accesses);
  for (uint32_t i = 0; i < task->accesses; ++i)
    note_reads(n, &task->access[i], chunk);
}

static void saw_command(void *context, const cel_command *c) {
  record *r = context;
  node *n = add(&r->commands, c->id, (int)c->kind, c->deps, c->dep);
  n->task = c->task != NULL ? c->task->id : 0;
  if (c->kind == CEL_COMMAND_EXECUTE && c->task->folded != NULL)
    note_fold(r, n, c->task, &c->chunk);
  if (c->kind == CEL_COMMAND_COLLECTIVE) {
    note_exchange(n, c->exchange);
    count_exchange(&r->tally, c->exchange);
  }
  if (c->kind != CEL_COMMAND_PUSH && c->kind != CEL_COMMAND_AWAIT_PUSH) return;
  uint32_t pieces = 0;
  for (const cel_message *m = &c->message; m != NULL; m = m->next)
    pieces += m->pieces;
  room_for_pieces(n, pieces);
  for (const cel_message *m = &c->message; m != NULL; m = m->next) {
    note_pieces(n, m);
    note_message(r, c, m);
  }
  if (c->kind == CEL_COMMAND_AWAIT_PUSH && pieces > 0) r->awaited = n->task;
  if (c->kind == CEL_COMMAND_PUSH && pieces > 0)
    r->tally.passed += r->awaited == n->task;
}

static void saw_instr(void *context, const cel_instr *i) {
  record *r = context;
  node *n = add(&r->instrs, i->id, (int)i->kind, i->deps, i->dep);
  n->task = i->task != NULL ? i->task->id : 0;
  if (i->kind == CEL_INSTR_COLLECTIVE)
    n->sequence = i->collective.exchange->nth;
  if (i->kind != CEL_INSTR_SEND && i->kind != CEL_INSTR_RECEIVE) return;
  r->tally.together += i->message.next != NULL;
  for (const cel_sent *m = &i->message; m != NULL; m = m->next) {
    n = add(&r->instr_messages, i->id, (int)i->kind, 0, NULL);
    n->peer = m->peer;
    n->sequence = m->sequence;
    n->direct = m->direct;
    n->nth = m->nth;
  }
}

static uint64_t frees_before(const record *r, uint64_t task) {
  uint64_t frees = 0;
  for (uint32_t k = 0; k < r->tasks.n; ++k)
    frees += r->tasks.at[k].kind == CEL_TASK_FREE && r->tasks.at[k].id < task;
  return frees;
}

static void renumber(const record *r, nodes *all) {
  for (uint32_t i = 0; i < all->n; ++i) {
    all->at[i].last -= frees_before(r, all->at[i].last);
    all->at[i].task -= frees_before(r, all->at[i].task);
  }
}

void record_share_numbers(record *r) {
  renumber(r, &r->commands);
  renumber(r, &r->command_messages);
  renumber(r, &r->instrs);
  renumber(r, &r->tasks);
}

void record_hook(record *r, cel_engine_config *config) {
  config->saw_task = saw_task;
  config->saw_command = saw_command;
  config->saw_instr = saw_instr;
  config->saw_context = r;
}
