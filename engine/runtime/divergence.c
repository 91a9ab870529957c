#include "runtime/divergence.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* NAME, from whom to whom, what it says. */
enum {
  TOLD_SUSPECT = 1, /* to rank 0: nothing moves here */
  TOLD_ASK,         /* from rank 0: send your log */
  TOLD_LOG,         /* to rank 0: a log_text */
  TOLD_VERDICT,     /* from rank 0: a cel_error */
  TOLD_CANCEL,      /* to all: a cel_error */
  TOLD_DOUBT,       /* to rank 0: something failed that a divergence explains */
  TOLD_ALIKE        /* from rank 0: it does not */
};

/* Rank 0, of each rank: has no doubt; has one since rank 0 asked last, if it
 * did; had one before that. */
enum { CONTENT, DOUBTS, DOUBTED };

enum {
  LOG_MOST = 4096,
  WHAT = 420,
  PLACE = 200,
  ARGUMENTS = 64,
  LONGEST_US = 60000000
};

/* A log as it travels. */
typedef struct log_row {
  uint64_t hash;
  int32_t line, kind;
  char file[PLACE], name[44];
} log_row;

typedef struct log_text {
  uint64_t first;
  uint32_t rows, ended;
  int32_t devices, line;
  char file[PLACE]; /* with the line, where it ended; or empty */
  char backend[12], arguments[ARGUMENTS];
  log_row row[];
} log_text;

void cel__divergence_init(cel_divergence *d, cel_transport *transport,
                          const cel_backend *backend, const char *arguments,
                          void (*failed)(void *, const cel_error *),
                          void *context) {
  *d = (cel_divergence){.transport = transport,
                        .backend = backend,
                        .arguments = arguments,
                        .failed = failed,
                        .context = context,
                        .report = cel_report_so_far()};
  pthread_mutex_init(&d->lock, NULL);
  if (transport->rank != 0) return;
  d->answer = cel_alloc_zero((size_t)transport->ranks * sizeof *d->answer);
  d->doubter = cel_alloc_zero((size_t)transport->ranks);
}

static void drop_answers(cel_divergence *d) {
  if (d->answer == NULL) return;
  for (int64_t k = 0; k < d->transport->ranks; ++k) {
    cel_free(d->answer[k]);
    d->answer[k] = NULL;
  }
  d->answers = 0;
}

void cel__divergence_release(cel_divergence *d) {
  drop_answers(d);
  cel_free(d->answer);
  cel_free(d->doubter);
  cel_free(d->doubt);
  cel_vec_release(&d->log);
  cel_vec_release(&d->marks);
  pthread_mutex_destroy(&d->lock);
}

/* ---- main ------------------------------------------------------------------
 */

static void ask_agreement(cel_divergence *d, uint64_t hash, uint64_t count,
                          uint64_t epoch) {
  cel_agreement mine = {.index = d->next_index++,
                        .hash = hash,
                        .count = count,
                        .awaited = epoch != 0 || d->ended};
  cel_vec_push(&d->marks, (cel_log_mark){mine, d->log0 + d->log.n, epoch});
  atomic_store_explicit(&d->asked, d->next_index, memory_order_release);
}

void cel__divergence_log(cel_divergence *d, const cel_task *task) {
  pthread_mutex_lock(&d->lock);
  /* A FREE comes when this rank's collector likes; see task/task_graph.c. */
  if (task->kind != CEL_TASK_HORIZON && task->kind != CEL_TASK_FREE) {
    cel_log_entry entry = {.hash = task->hash,
                           .location = task->location,
                           .kind = (int32_t)task->kind};
    if (task->name != NULL) /* as much of it as there is room for */
      memcpy(entry.name, task->name, strnlen(task->name, CEL_LOG_NAME - 1));
    cel_vec_push(&d->log, entry);
  }
  if (task->kind == CEL_TASK_HORIZON || task->kind == CEL_TASK_EPOCH)
    ask_agreement(d, task->agreement_hash, task->agreement_count,
                  task->kind == CEL_TASK_EPOCH ? task->id : 0);
  pthread_mutex_unlock(&d->lock);
}

void cel__divergence_end(cel_divergence *d, cel_location location) {
  pthread_mutex_lock(&d->lock);
  bool first = !d->ended;
  d->ended = true;
  if (first) d->end = location;
  if (first) ask_agreement(d, UINT64_MAX, UINT64_MAX, 0);
  pthread_mutex_unlock(&d->lock);
}

void cel__divergence_executed(cel_divergence *d, uint64_t epoch) {
  d->executed = epoch;
}

uint64_t cel__divergence_executed_by_all(const cel_divergence *d) {
  return atomic_load_explicit(&d->executed_by_all, memory_order_acquire);
}

bool cel__divergence_settled(const cel_divergence *d) {
  return atomic_load_explicit(&d->agreed, memory_order_acquire) ==
         atomic_load_explicit(&d->asked, memory_order_acquire);
}

/* ---- the log as a text -----------------------------------------------------
 */

static void write_place(cel_location location, char file[PLACE],
                        int32_t *line) {
  *line = location.line;
  if (location.file != NULL) snprintf(file, PLACE, "%s", location.file);
}

/* The caller frees it. */
static log_text *write_log(cel_divergence *d, uint32_t *size) {
  pthread_mutex_lock(&d->lock);
  uint32_t skip = d->log.n > LOG_MOST ? d->log.n - LOG_MOST : 0;
  uint32_t rows = d->log.n - skip;
  *size = (uint32_t)(sizeof(log_text) + rows * sizeof(log_row));
  log_text *text = cel_alloc_zero(*size);
  text->first = d->log0 + skip;
  text->rows = rows;
  text->ended = d->ended;
  write_place(d->end, text->file, &text->line);
  text->devices = d->backend->devices;
  snprintf(text->backend, sizeof text->backend, "%s", d->backend->name);
  if (d->arguments != NULL)
    snprintf(text->arguments, sizeof text->arguments, "%s", d->arguments);
  for (uint32_t i = 0; i < rows; ++i) {
    const cel_log_entry *e = &d->log.at[skip + i];
    log_row *row = &text->row[i];
    row->hash = e->hash;
    row->kind = e->kind;
    memcpy(row->name, e->name, sizeof row->name);
    write_place(e->location, row->file, &row->line);
  }
  pthread_mutex_unlock(&d->lock);
  return text;
}

static void agree_up_to(cel_divergence *d) {
  pthread_mutex_lock(&d->lock);
  uint64_t entries = d->marks.at[0].entries, epoch = d->marks.at[0].epoch;
  memmove(d->marks.at, d->marks.at + 1, --d->marks.n * sizeof *d->marks.at);
  uint32_t drop = (uint32_t)(entries - d->log0);
  d->log.n -= drop;
  memmove(d->log.at, d->log.at + drop, d->log.n * sizeof *d->log.at);
  d->log0 = entries;
  pthread_mutex_unlock(&d->lock);
  if (epoch != 0)
    atomic_store_explicit(&d->executed_by_all, epoch, memory_order_release);
  atomic_fetch_add_explicit(&d->agreed, 1, memory_order_release);
}

/* ---- comparing, on rank 0 --------------------------------------------------
 */

/* Null where the log does not reach. */
static const log_row *row_at(const log_text *log, uint64_t number) {
  if (number < log->first || number >= log->first + log->rows) return NULL;
  return &log->row[number - log->first];
}

static void say_place(const char *file, int32_t line, char text[PLACE + 16]) {
  text[0] = '\0';
  if (file[0] != '\0') snprintf(text, PLACE + 16, " at %s:%d", file, line);
}

static void say(const log_text *log, uint64_t number, char *text) {
  const log_row *row = row_at(log, number);
  char name[64] = "", location[PLACE + 16];
  if (row == NULL) {
    say_place(log->file, log->line, location);
    snprintf(text, WHAT, "%s%s",
             log->ended ? "ended" : "submitted nothing more yet", location);
    return;
  }
  static const char *const kinds[] = {"a kernel", "a host task", "a horizon",
                                      "a synchronisation",
                                      "the end of a buffer"};
  if (row->name[0] != '\0') snprintf(name, sizeof name, " '%s'", row->name);
  say_place(row->file, row->line, location);
  snprintf(text, WHAT, "submitted %s%s%s", kinds[row->kind], name, location);
}

/* What one rank said at an entry. */
typedef struct saying {
  const log_text *log;
  int64_t rank;
} saying;

static void describe_devices(const log_text *log, char *text, size_t size) {
  snprintf(text, size, "has %d device%s (%s)", log->devices,
           log->devices == 1 ? "" : "s", log->backend);
}

static void describe_arguments(const log_text *log, char *text, size_t size) {
  if (log->arguments[0] == '\0')
    snprintf(text, size, "was given no arguments");
  else
    snprintf(text, size, "was given the arguments '%s'", log->arguments);
}

/* What the program of a rank may depend on, though it should not. */
static void say_difference(saying a, saying b,
                           void (*describe)(const log_text *, char *, size_t),
                           char *text, size_t size) {
  char mine[ARGUMENTS + 40], theirs[ARGUMENTS + 40];
  describe(a.log, mine, sizeof mine);
  describe(b.log, theirs, sizeof theirs);
  text[0] = '\0';
  if (strcmp(mine, theirs) != 0)
    snprintf(text, size, "; rank %lld %s, rank %lld %s", (long long)a.rank,
             mine, (long long)b.rank, theirs);
}

static void set_verdict(saying a, saying b, uint64_t number, cel_error *out) {
  char mine[WHAT], theirs[WHAT], devices[280], arguments[280];
  say(a.log, number, mine);
  say(b.log, number, theirs);
  const char *hint = "";
  if (strcmp(mine, theirs) == 0)
    hint = ", with another range, buffer, type, init, host object, mapper, "
           "function, hint or argument";
  say_difference(a, b, describe_devices, devices, sizeof devices);
  say_difference(a, b, describe_arguments, arguments, sizeof arguments);
  *out = (cel_error){.code = CEL_E_DIVERGED};
  snprintf(
      out->text, sizeof out->text,
      "the ranks run different programs: rank %lld %s, but rank %lld %s%s%s%s",
      (long long)a.rank, mine, (long long)b.rank, theirs, hint, devices,
      arguments);
  const log_row *row = row_at(a.log, number);
  if (row == NULL) row = row_at(b.log, number);
  if (row == NULL) return;
  snprintf(out->file, sizeof out->file, "%s", row->file);
  out->line = row->line;
}

static const log_text *log_of(const cel_divergence *d, int64_t rank) {
  return (const log_text *)d->answer[rank]->data;
}

/* Whether two ranks differ at entry `number`. `certain`: the hashes differ, so
 * a rank that has submitted less counts too, as does one that has ended. */
static bool differs(const log_text *a, const log_text *b, bool certain,
                    uint64_t number) {
  const log_row *x = row_at(a, number), *y = row_at(b, number);
  if (x == NULL && y == NULL) return false;
  if (x == NULL) return certain || a->ended;
  if (y == NULL) return certain || b->ended;
  return x->hash != y->hash || x->kind != y->kind;
}

/* Against the first rank that has got so far. */
static bool compare_entry(const cel_divergence *d, uint64_t number,
                          cel_error *verdict) {
  int64_t ranks = d->transport->ranks, a = 0;
  while (a < ranks - 1 && row_at(log_of(d, a), number) == NULL) ++a;
  for (int64_t b = 0; b < ranks; ++b) {
    if (!differs(log_of(d, a), log_of(d, b), d->asked_certain, number))
      continue;
    saying low = {log_of(d, a < b ? a : b), a < b ? a : b};
    saying high = {log_of(d, a < b ? b : a), a < b ? b : a};
    set_verdict(low, high, number, verdict);
    return true;
  }
  return false;
}

static bool compare(const cel_divergence *d, cel_error *verdict) {
  uint64_t first = 0, end = 0;
  for (int64_t k = 0; k < d->transport->ranks; ++k) {
    const log_text *log = log_of(d, k);
    if (log->first > first) first = log->first;
    if (log->first + log->rows > end) end = log->first + log->rows;
  }
  for (uint64_t i = first; i < end; ++i)
    if (compare_entry(d, i, verdict)) return true;
  if (!d->asked_certain) return false;
  *verdict = (cel_error){.code = CEL_E_DIVERGED};
  snprintf(verdict->text, sizeof verdict->text,
           "the ranks run different programs");
  return true;
}

static void ask(cel_divergence *d);

/* The failure that was held back is no consequence of a divergence. */
static void admit(cel_divergence *d) {
  if (d->doubt == NULL) return;
  cel_error *error = d->doubt;
  d->doubt = NULL;
  d->failed(d->context, error);
  cel_free(error);
}

static void acquit(cel_divergence *d) {
  cel_transport *t = d->transport;
  bool too_early = d->certain && !d->asked_certain;
  for (int64_t k = 0; k < t->ranks; ++k) {
    if (d->doubter[k] == DOUBTS) too_early = true;
    if (d->doubter[k] != DOUBTED) continue;
    d->doubter[k] = CONTENT;
    if (k == 0)
      admit(d);
    else
      t->control.tell(t->control.self, k, TOLD_ALIKE, NULL, 0);
  }
  if (too_early) ask(d);
}

static void judge(cel_divergence *d) {
  cel_error verdict;
  cel_transport *t = d->transport;
  bool guilty = compare(d, &verdict);
  drop_answers(d);
  d->asking = false;
  if (!guilty) {
    acquit(d);
    return;
  }
  for (int64_t k = 1; k < t->ranks; ++k)
    t->control.tell(t->control.self, k, TOLD_VERDICT, &verdict, sizeof verdict);
  d->over = true;
  d->failed(d->context, &verdict);
}

static void take_answer(cel_divergence *d, cel_told *told) {
  cel_free(d->answer[told->peer]);
  d->answer[told->peer] = told;
  if (++d->answers == d->transport->ranks) judge(d);
}

/* Rank 0 asks every rank for its log. */
static void ask(cel_divergence *d) {
  cel_transport *t = d->transport;
  if (t->rank != 0 || d->asking || d->over) return;
  d->asking = true;
  d->asked_certain = d->certain;
  for (int64_t k = 0; k < t->ranks; ++k)
    if (d->doubter[k] == DOUBTS) d->doubter[k] = DOUBTED;
  uint32_t size;
  log_text *mine = write_log(d, &size);
  cel_told *told = cel_alloc(sizeof *told + size);
  *told = (cel_told){.kind = TOLD_LOG, .size = size};
  memcpy(told->data, mine, size);
  cel_free(mine);
  for (int64_t k = 1; k < t->ranks; ++k)
    t->control.tell(t->control.self, k, TOLD_ASK, NULL, 0);
  take_answer(d, told);
}

/* ---- executor --------------------------------------------------------------
 */

/* On many ranks a long kernel makes all of them suspicious, again and again. */
static void hear_suspicion(cel_divergence *d) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  int64_t now = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
  if (now < d->next_us) return;
  d->rested_us = d->rested_us == 0 ? d->patience_us : 2 * d->rested_us;
  if (d->rested_us > LONGEST_US) d->rested_us = LONGEST_US;
  d->next_us = now + d->rested_us;
  ask(d);
}

static void answer(cel_divergence *d) {
  uint32_t size;
  log_text *mine = write_log(d, &size);
  d->transport->control.tell(d->transport->control.self, 0, TOLD_LOG, mine,
                             size);
  cel_free(mine);
}

static void hear_doubt(cel_divergence *d, int64_t rank) {
  d->doubter[rank] = DOUBTS;
  ask(d);
}

void cel__divergence_doubt(cel_divergence *d, const cel_error *error) {
  if (d->over || d->doubt != NULL) return;
  d->doubt = cel_alloc(sizeof *error);
  *d->doubt = *error;
  cel_transport *t = d->transport;
  if (t->rank == 0)
    hear_doubt(d, 0);
  else
    t->control.tell(t->control.self, 0, TOLD_DOUBT, NULL, 0);
}

static void hear_failure(cel_divergence *d, const cel_told *told) {
  cel_error error;
  memcpy(&error, told->data, sizeof error);
  if (told->kind == TOLD_CANCEL) error.code = CEL_E_CANCELLED;
  d->over = true;
  d->failed(d->context, &error);
}

static void hear(cel_divergence *d, cel_told *told) {
  if (cel_report_told(&d->report, d->transport, told) || d->over) {
    cel_free(told);
    return;
  }
  switch (told->kind) {
  case TOLD_SUSPECT: hear_suspicion(d); break;
  case TOLD_ASK: answer(d); break;
  case TOLD_LOG: take_answer(d, told); return;
  case TOLD_DOUBT: hear_doubt(d, told->peer); break;
  case TOLD_ALIKE: admit(d); break;
  default: hear_failure(d, told);
  }
  cel_free(told);
}

static bool start_agreements(cel_divergence *d) {
  uint64_t asked = atomic_load_explicit(&d->asked, memory_order_acquire);
  if (d->started == asked || d->executed < d->awaited) return false;
  pthread_mutex_lock(&d->lock);
  cel_log_mark mark = d->marks.at[d->marks.n - (d->next_index - d->started)];
  pthread_mutex_unlock(&d->lock);
  if (mark.epoch > d->executed) {
    d->awaited = mark.epoch;
    return false;
  }
  d->started++;
  d->transport->control.agree(d->transport->control.self, &mark.agreement);
  return true;
}

static bool take_agreements(cel_divergence *d) {
  if (atomic_load_explicit(&d->agreed, memory_order_relaxed) == d->started)
    return false;
  uint64_t index;
  cel_agreed agreed =
      d->transport->control.agreed(d->transport->control.self, &index);
  if (agreed == CEL_AGREED_PENDING) return false;
  if (agreed == CEL_AGREED_SAME) {
    agree_up_to(d);
    d->rested_us = d->next_us = 0;
    return true;
  }
  d->certain = true;
  ask(d);
  return true;
}

static void suspect(cel_divergence *d) {
  if (!atomic_exchange_explicit(&d->suspicious, false, memory_order_acquire))
    return;
  cel_transport *t = d->transport;
  if (t->rank == 0)
    hear_suspicion(d);
  else
    t->control.tell(t->control.self, 0, TOLD_SUSPECT, NULL, 0);
}

bool cel__divergence_tick(cel_divergence *d) {
  bool progress = false;
  if (!d->over && d->transport->broken != NULL) {
    /* No other rank will ever be heard of: what was held back is told now. */
    d->over = true;
    if (d->doubt != NULL)
      admit(d);
    else
      d->failed(d->context, d->transport->broken);
  }
  if (!d->over) {
    progress = start_agreements(d);
    if (!d->certain) progress |= take_agreements(d);
    if (atomic_load_explicit(&d->suspicious, memory_order_relaxed)) suspect(d);
  }
  cel_told *told = d->transport->control.told(d->transport->control.self);
  if (told != NULL) hear(d, told);
  cel_report_tick(&d->report, d->transport);
  return progress || told != NULL;
}

void cel__divergence_cancel(cel_divergence *d, const cel_error *error) {
  if (d->over) return;
  d->over = true;
  cel_transport *t = d->transport;
  for (int64_t k = 0; k < t->ranks; ++k)
    if (k != t->rank)
      t->control.tell(t->control.self, k, TOLD_CANCEL, error, sizeof *error);
}
