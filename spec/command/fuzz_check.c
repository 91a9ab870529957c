/* What the command graphs of all ranks emitted, beside what brute force says,
 * point by point. */
#include "command/fuzz_state.h"

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

bool fuzz_check_command(run *r, int rank, uint32_t i) {
  const seen *s = &r->seen[rank].at[i];
  const cel_command *c = &s->command;
  if (c->id != i + 1)
    return fuzz_fail(r, "rank %d: command %u has another id", rank, i + 1);
  if (i > 0 && c->deps == 0)
    return fuzz_fail(r, "rank %d: command %u floats", rank, i + 1);
  uint64_t applied = applied_before(&r->seen[rank], i);
  for (uint32_t d = 0; d < c->deps; ++d)
    if (c->dep[d].id >= c->id || c->dep[d].id < applied)
      return fuzz_fail(r, "rank %d: command %u depends on %u", rank, i + 1,
                       (unsigned)c->dep[d].id);
  if (i > r->task_begin[rank] && r->seen[rank].at[i - 1].task == s->task) {
    static const int order[] = {3, 1, 1, 0, 4, 4, 4};
    if (order[r->seen[rank].at[i - 1].command.kind] > order[c->kind])
      return fuzz_fail(r, "rank %d: command %u is out of order", rank, i + 1);
  }
  return true;
}

/* ---- messages -------------------------------------------------------------
 */

/* `whole`: what is large is not cut. */
static bool check_pieces(run *r, const cel_message *m, bool whole) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < m->pieces; ++i) {
    const cel_piece *p = &m->piece[i];
    uint64_t bytes =
        (uint64_t)cel_box_volume(&p->box) * p->buffer->element_size;
    sum += bytes;
    if (cel_box_is_empty(&p->box)) return fuzz_fail(r, "an empty piece");
    if (m->pieces > 1 && bytes > r->program.small_bytes)
      return fuzz_fail(r, "a large piece travels with others");
    if (m->pieces == 1 && !whole && bytes > r->program.small_bytes &&
        bytes > r->program.large_bytes && cel_box_volume(&p->box) > 1)
      return fuzz_fail(r, "a piece is too large");
    if (i == 0) continue;
    const cel_piece *q = &m->piece[i - 1];
    if (q->buffer->id > p->buffer->id ||
        (q->buffer == p->buffer && cel_box_compare(&q->box, &p->box) >= 0))
      return fuzz_fail(r, "pieces are not in canonical order");
  }
  uint64_t large = r->program.large_bytes > r->program.small_bytes
                       ? r->program.large_bytes
                       : r->program.small_bytes;
  if (m->pieces > 1 && sum > large)
    return fuzz_fail(r, "too much in a message");
  if (m->pieces == 0 || sum != m->bytes) return fuzz_fail(r, "a wrong size");
  return true;
}

/* Where one looks for messages of a rank: the next of a list, then the lists of
 * commands from `at` on. */
typedef struct cursor {
  uint32_t at;
  const cel_message *next;
} cursor;

/* The next message of `rank` with `peer` in this task, or null. */
static const cel_message *next_message(const run *r, int rank, int peer,
                                       cel_command_kind kind, cursor *c) {
  for (;;) {
    while (c->next == NULL) {
      if (c->at == r->seen[rank].n) return NULL;
      const seen *s = &r->seen[rank].at[c->at++];
      if (s->command.kind == kind) c->next = s->message;
    }
    const cel_message *m = c->next;
    c->next = m->next;
    if (m->peer == peer) return m;
  }
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
  cursor i = {r->task_begin[from], NULL}, j = {r->task_begin[to], NULL};
  for (;;) {
    const cel_message *push = next_message(r, from, to, CEL_COMMAND_PUSH, &i);
    const cel_message *await =
        next_message(r, to, from, CEL_COMMAND_AWAIT_PUSH, &j);
    if (push == NULL && await == NULL) return true;
    if (from == to) return fuzz_fail(r, "rank %d sends to itself", from);
    if (push == NULL || await == NULL)
      return fuzz_fail(r, "rank %d %s rank %d, which does not expect it",
                       push ? from : to, push ? "sends to" : "waits for",
                       push ? to : from);
    if (!same_message(push, await))
      return fuzz_fail(r, "%d -> %d: the two ends name different messages",
                       from, to);
    if (push->sequence != r->sequence[from][to]++)
      return fuzz_fail(r, "%d -> %d: sequence", from, to);
    bool whole =
        is_near(r, from, to) && r->program.task[r->task].kind != CEL_TASK_HOST;
    if (!check_pieces(r, push, whole)) return false;
    ++r->stats->messages;
  }
}

/* ---- what a rank gets -----------------------------------------------------
 */

static void note_want(run *r, int b, int x, int rank, void *context) {
  (void)context;
  r->want[b][x] = r->owner[b][x] >= 0 && !(r->fresh[b][x] >> rank & 1);
}

/* What collectives of this task bring to `rank`. */
static void find_shared(run *r, int rank) {
  memset(r->shared, 0, sizeof r->shared);
  for (uint32_t i = r->task_begin[rank]; i < r->seen[rank].n; ++i) {
    const seen *s = &r->seen[rank].at[i];
    if (s->command.kind != CEL_COMMAND_COLLECTIVE) continue;
    for (const cel_exchange *e = &s->exchange; e != NULL; e = e->next)
      for (uint32_t j = 0; j < e->gets; ++j) {
        int b = (int)e->buffer->id;
        EACH_POINT(r, b, &e->get[j], x) r->shared[b][x] = true;
      }
  }
}

/* Whether `rank` gets the point by a message of this task. */
static bool is_passed_on(run *r, int rank, int b, int x) {
  for (uint32_t i = r->task_begin[rank]; i < r->seen[rank].n; ++i) {
    const seen *s = &r->seen[rank].at[i];
    if (s->command.kind != CEL_COMMAND_AWAIT_PUSH) continue;
    for (const cel_message *m = s->message; m != NULL; m = m->next)
      for (uint32_t j = 0; j < m->pieces; ++j) {
        if ((int)m->piece[j].buffer->id != b) continue;
        EACH_POINT(r, b, &m->piece[j].box, y) if (x == y) {
          ++r->stats->passed;
          return true;
        }
      }
  }
  return false;
}

/* `rank` gets a message: each point once, from who has it. */
static bool check_arrival(run *r, int rank, const cel_message *m) {
  for (uint32_t j = 0; j < m->pieces; ++j) {
    int b = (int)m->piece[j].buffer->id;
    EACH_POINT(r, b, &m->piece[j].box, x) {
      if (r->got[b][x])
        return fuzz_fail(r, "rank %d gets point %d of %c twice", rank, x,
                         'a' + b);
      r->got[b][x] = true;
      if (r->owner[b][x] != m->peer && !is_passed_on(r, (int)m->peer, b, x))
        return fuzz_fail(r, "rank %d gets point %d of %c from %d, not from %d",
                         rank, x, 'a' + b, (int)m->peer, r->owner[b][x]);
    }
  }
  return true;
}

static bool check_received(run *r, int rank) {
  memset(r->got, 0, sizeof r->got);
  memset(r->want, 0, sizeof r->want);
  fuzz_each_access_point(r, false, rank, note_want, NULL);
  find_shared(r, rank);
  for (uint32_t i = r->task_begin[rank]; i < r->seen[rank].n; ++i) {
    const seen *s = &r->seen[rank].at[i];
    if (s->command.kind != CEL_COMMAND_AWAIT_PUSH) continue;
    for (const cel_message *m = s->message; m != NULL; m = m->next)
      if (!check_arrival(r, rank, m)) return false;
  }
  for (int b = 0; b < r->program.buffers; ++b) {
    bool all_kept = r->reads[b] <= r->program.replications;
    for (int x = 0; x < FUZZ_POINTS; ++x) {
      if (r->want[b][x] && !r->got[b][x] && !r->shared[b][x])
        return fuzz_fail(r, "rank %d lacks point %d of %c and does not get it",
                         rank, x, 'a' + b);
      if (r->shared[b][x] && !r->want[b][x] && !(r->fresh[b][x] >> rank & 1))
        return fuzz_fail(r, "rank %d does not read point %d of %c, but gets it",
                         rank, x, 'a' + b);
      if (all_kept && r->got[b][x] && !r->want[b][x])
        return fuzz_fail(r, "rank %d gets point %d of %c in vain", rank, x,
                         'a' + b);
      r->stats->points += r->got[b][x];
    }
  }
  return true;
}

/* ---- collectives ----------------------------------------------------------
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
    bool some = fuzz_chunk_of(r, k, &chunk);
    if (ended && !some) return true;
    ended |= some;
  }
  return false;
}

/* Of a list; moves on to the next of it. */
static const char *check_one(run *r, const cel_exchange **of) {
  int b = (int)of[0]->buffer->id;
  const char *fault =
      fuzz_exchange_check(of, r->program.ranks, r->exchanges,
                          r->program.buffer[b].ext, r->owner[b]);
  ++r->stats->patterns[of[0]->pattern];
  r->stats->pairs += of[0]->to != NULL;
  r->stats->groups += of[0]->subgroup > 0;
  r->stats->left_out += leaves_out(r);
  for (int k = 1; k < r->program.ranks && fault == NULL; ++k)
    if ((of[k]->next != NULL) != (of[0]->next != NULL))
      return "two ranks have joined different ones";
  for (int k = 0; k < r->program.ranks; ++k) of[k] = of[k]->next;
  return fault;
}

static bool check_exchanges(run *r) {
  uint32_t at[FUZZ_RANKS];
  memcpy(at, r->task_begin, sizeof at);
  for (;;) {
    const cel_exchange *of[FUZZ_RANKS] = {NULL};
    for (int k = 0; k < r->program.ranks; ++k) {
      of[k] = next_exchange(r, k, &at[k]);
      if ((of[k] == NULL) != (of[0] == NULL))
        return fuzz_fail(r, "rank %d has other collectives than rank 0", k);
    }
    if (of[0] == NULL) return true;
    const char *fault = fuzz_exchange_sums(of, r->program.ranks);
    r->stats->joined += of[0]->next != NULL;
    while (fault == NULL && of[0] != NULL) fault = check_one(r, of);
    if (fault != NULL) return fuzz_fail(r, "%s", fault);
    ++r->exchanges;
    cel_vec_push(&r->gathered,
                 cel_alloc_zero((size_t)FUZZ_BUFFERS * FUZZ_POINTS));
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
    if (!fuzz_chunk_of(r, k, &chunk)) return false;
  return true;
}

/* What is in the clear is decided so: of a buffer that nobody but its writers
 * has any part of, what kernels of all ranks read comes by collectives. */
static bool check_clear_case(run *r) {
  enum { FEW = 6 }; /* entries, or about */
  int runs = 1, b = r->program.task[r->task].access[0].buffer;
  bool host = r->program.task[r->task].kind == CEL_TASK_HOST;
  if (!r->program.collectives || host || !all_read_all(r)) return true;
  if (r->program.small_bytes < FUZZ_SMALL) return true; /* much is passed on */
  for (int x = 1; x < FUZZ_POINTS; ++x)
    runs += r->owner[b][x] != r->owner[b][x - 1];
  if (runs > FEW) return true;
  for (int x = 0; x < FUZZ_POINTS; ++x)
    if (r->owner[b][x] >= 0 && r->fresh[b][x] != 1u << r->owner[b][x])
      return true;
  for (int k = 0; k < r->program.ranks; ++k)
    for (uint32_t i = r->task_begin[k]; i < r->seen[k].n; ++i)
      if (r->seen[k].at[i].command.kind == CEL_COMMAND_PUSH)
        return fuzz_fail(r, "rank %d sends what a collective could bring", k);
  return true;
}

/* ---- all of a task --------------------------------------------------------
 */

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
      return fuzz_fail(r, "ranks 0 and %d hold different states", k);
  }
  if (first[1] > first[0] * (uint64_t)r->program.replications)
    return fuzz_fail(r, "more replications than were to be kept");
  if (first[0] > r->stats->entries_most) r->stats->entries_most = first[0];
  return true;
}

bool fuzz_check_task(run *r) {
  if (!check_exchanges(r)) return false;
  for (int k = 0; k < r->program.ranks; ++k) {
    bool executed = false;
    cel_box chunk;
    for (uint32_t i = r->task_begin[k]; i < r->seen[k].n; ++i) {
      const cel_command *c = &r->seen[k].at[i].command;
      if (!fuzz_check_command(r, k, i)) return false;
      if (c->kind != CEL_COMMAND_EXECUTE) continue;
      executed = true;
      if (!fuzz_chunk_of(r, k, &chunk) || !cel_box_equal(&chunk, &c->chunk))
        return fuzz_fail(r, "rank %d executes another chunk", k);
    }
    const fuzz_task *t = &r->program.task[r->task];
    bool works = t->kind == CEL_TASK_KERNEL || t->kind == CEL_TASK_HOST;
    if (works && fuzz_chunk_of(r, k, &chunk) != executed)
      return fuzz_fail(r, "rank %d: execution", k);
    for (int s = 0; s < r->program.ranks; ++s)
      if (!check_pair(r, s, k)) return false;
    if (works && !check_received(r, k)) return false;
    if (works && k == 0 && !check_clear_case(r)) return false;
  }
  return check_counts(r);
}
