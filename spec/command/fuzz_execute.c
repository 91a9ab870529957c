/* Executes the commands of all ranks in a random order that their dependencies
 * permit, and looks at the data. */
#include "command/fuzz_state.h"

/* Where `rank` awaits a message, and in *which the place in the list. */
static seen *find_await(run *r, int rank, int from, uint64_t sequence,
                        uint32_t *which) {
  for (uint32_t i = 0; i < r->seen[rank].n; ++i) {
    seen *s = &r->seen[rank].at[i];
    if (s->command.kind != CEL_COMMAND_AWAIT_PUSH) continue;
    *which = 0;
    for (const cel_message *m = s->message; m != NULL; m = m->next, ++*which)
      if (m->peer == from && m->sequence == sequence) return s;
  }
  return NULL;
}

static void push(run *r, int rank, const cel_message *m) {
  uint32_t which = 0;
  seen *await = find_await(r, (int)m->peer, rank, m->sequence, &which);
  uint8_t *at = await->data[which] = cel_alloc((size_t)m->bytes + 1);
  for (uint32_t i = 0; i < m->pieces; ++i) {
    int b = (int)m->piece[i].buffer->id;
    EACH_POINT(r, b, &m->piece[i].box, x)
    *at++ = r->local[rank][b][x];
  }
  --await->awaited;
}

static void execute_push(run *r, int rank, const seen *s) {
  for (const cel_message *m = s->message; m != NULL; m = m->next)
    push(r, rank, m);
}

static void execute_await(run *r, int rank, const seen *s) {
  uint32_t which = 0;
  for (const cel_message *m = s->message; m != NULL; m = m->next) {
    const uint8_t *at = s->data[which++];
    for (uint32_t i = 0; i < m->pieces; ++i) {
      int b = (int)m->piece[i].buffer->id;
      EACH_POINT(r, b, &m->piece[i].box, x)
      r->local[rank][b][x] = *at++;
    }
  }
}

static bool gets_any(const cel_exchange *x) {
  while (x != NULL && x->gets == 0) x = x->next;
  return x != NULL;
}

/* Whether all that `rank` is to get has been given. */
static bool all_given(const run *r, const seen *s) {
  bool all = true;
  if (!gets_any(&s->exchange)) return true;
  for (int k = 0; k < r->program.ranks; ++k)
    for (uint32_t i = 0; i < r->seen[k].n && all; ++i) {
      const seen *t = &r->seen[k].at[i];
      if (t->command.kind == CEL_COMMAND_COLLECTIVE &&
          t->exchange.nth == s->exchange.nth)
        all = t->begun || cel_exchange_given(&t->exchange) == 0;
    }
  return all;
}

/* First it gives what it has, some time later it gets the rest. */
static void execute_collective(run *r, int rank, seen *s) {
  for (const cel_exchange *e = &s->exchange; e != NULL; e = e->next) {
    int b = (int)e->buffer->id;
    uint8_t *data = r->gathered.at[e->nth] + (ptrdiff_t)b * FUZZ_POINTS;
    if (!s->begun) EACH_POINT(r, b, &e->mine, x) data[x] = r->local[rank][b][x];
    for (uint32_t i = 0; s->begun && i < e->gets; ++i)
      EACH_POINT(r, b, &e->get[i], x) r->local[rank][b][x] = data[x];
  }
  if (!s->begun) ++r->begins[rank];
  s->done = s->begun;
  s->begun = true;
}

static void read_point(run *r, int b, int x, int rank, void *context) {
  (void)context;
  int expected = r->before[r->task][b][x];
  if (expected != 0 && r->local[rank][b][x] != expected)
    fuzz_fail(r, "rank %d reads %d at point %d of %c, not %d", rank,
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
      return fuzz_fail(r, "rank %d: command %u runs before %u", rank, i + 1,
                       j + 1);
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
    fuzz_each_access_point(r, false, rank, read_point, NULL);
    fuzz_each_access_point(r, true, rank, write_point, NULL);
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
  case CEL_COMMAND_AWAIT_PUSH: return s->awaited == 0;
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

bool fuzz_execute_all(run *r) {
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
  return left == 0 || fuzz_fail(r, "%d commands never run", (int)left);
}
