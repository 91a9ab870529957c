#include "comm/clocks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "device/clock.h"

enum { QUESTIONS = 16 };

/* A child of rank r is r plus a power of two below r's lowest bit. */
typedef struct answer {
  int64_t now; /* rank 0's, as far as the parent knows */
  cel_clock_offset offset;
  char host[64], first[64]; /* the parent's, and rank 0's */
} answer;

typedef struct comparison {
  cel_transport *t;
  const cel_clock *clock;
  answer mine;            /* for children */
  CEL_VEC(int64_t) early; /* children that asked before there was an answer */
  int64_t left;           /* children that have not had enough */
} comparison;

static int64_t now_here(void *context) {
  (void)context;
  return cel_now_ns();
}

void cel_clock_here(cel_clock *out) {
  *out = (cel_clock){.now = now_here};
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file == NULL) return; /* no host is the same then */
  if (fgets(out->host, sizeof out->host, file) == NULL) out->host[0] = '\0';
  fclose(file);
  /* Containers may have clocks of their own. An older kernel has no such link.
   */
  size_t length = strlen(out->host);
  if (length > 0 && readlink("/proc/self/ns/time", out->host + length,
                             sizeof out->host - length - 1) < 0)
    out->host[length] = '\0';
}

/* The next text; null once the transport is broken. The caller frees it. */
static cel_told *listen(cel_transport *t) {
  const cel_control_table *control = &t->control;
  cel_done done;
  for (;;) {
    if (control->attend != NULL) control->attend(control->self);
    cel_told *told = control->told(control->self);
    if (told != NULL || t->broken != NULL) return told;
    if (t->poll(t, &done, 1) > 0) cel_free(done.error);
    sched_yield();
  }
}

static cel_status broken(const cel_transport *t) {
  return cel_fail_with(t->broken);
}

static int64_t parent_of(int64_t rank) {
  return rank & (rank - 1);
}

static int64_t count_children(const cel_transport *t) {
  int64_t n = 0, last = t->rank == 0 ? t->ranks : t->rank & -t->rank;
  for (int64_t by = 1; by < last && t->rank + by < t->ranks; by *= 2) ++n;
  return n;
}

static void answer_one(comparison *c, int64_t child) {
  c->mine.now = c->clock->now(c->clock->context) + c->mine.offset.ahead;
  c->t->control.tell(c->t->control.self, child, CEL_CLOCKS_TIME, &c->mine,
                     sizeof c->mine);
}

/* Until all children, and theirs, know enough. */
static cel_status answer_all(comparison *c) {
  for (uint32_t i = 0; i < c->early.n; ++i) answer_one(c, c->early.at[i]);
  while (c->left > 0) {
    cel_told *told = listen(c->t);
    if (told == NULL) return broken(c->t);
    if (told->kind == CEL_CLOCKS_ASK) answer_one(c, told->peer);
    c->left -= told->kind == CEL_CLOCKS_DONE;
    cel_free(told);
  }
  return CEL_E_OK;
}

static cel_status ask(comparison *c, answer *out) {
  cel_transport *t = c->t;
  t->control.tell(t->control.self, parent_of(t->rank), CEL_CLOCKS_ASK, NULL, 0);
  for (;;) {
    cel_told *told = listen(t);
    if (told == NULL) return broken(t);
    bool answered = told->kind == CEL_CLOCKS_TIME && told->size == sizeof *out;
    if (answered) memcpy(out, told->data, sizeof *out);
    if (told->kind == CEL_CLOCKS_ASK) cel_vec_push(&c->early, told->peer);
    cel_free(told);
    if (answered) return CEL_E_OK;
  }
}

static bool is_here(const cel_clock *clock, const char *host) {
  return clock->host[0] != '\0' &&
         memcmp(host, clock->host, sizeof clock->host) == 0;
}

static cel_status ask_some(comparison *c) {
  answer theirs;
  cel_clock_offset *best = &c->mine.offset;
  const cel_clock *clock = c->clock;
  bool known = false;
  for (int i = 0; i < QUESTIONS && !known; ++i) {
    int64_t before = clock->now(clock->context);
    CEL_TRY(ask(c, &theirs));
    int64_t after = clock->now(clock->context), half = (after - before + 1) / 2;
    int64_t within = half + theirs.offset.within;
    if (i == 0 || within < best->within)
      *best = (cel_clock_offset){theirs.now - before - half, within};
    known = is_here(clock, theirs.host) || is_here(clock, theirs.first);
  }
  if (is_here(clock, theirs.host)) *best = theirs.offset;
  if (is_here(clock, theirs.first)) *best = (cel_clock_offset){0};
  memcpy(c->mine.first, theirs.first, sizeof c->mine.first);
  return CEL_E_OK;
}

static cel_status compare(comparison *c) {
  cel_transport *t = c->t;
  memcpy(c->mine.host, c->clock->host, sizeof c->mine.host);
  memcpy(c->mine.first, c->clock->host, sizeof c->mine.first);
  c->left = count_children(t);
  if (t->rank > 0) CEL_TRY(ask_some(c));
  CEL_TRY(answer_all(c));
  if (t->rank > 0)
    t->control.tell(t->control.self, parent_of(t->rank), CEL_CLOCKS_DONE, NULL,
                    0);
  /* What others tell this rank from now on is not for this. */
  void *data = NULL;
  uint64_t size = 0;
  CEL_TRY(t->control.broadcast(t->control.self, &data, &size));
  cel_free(data);
  return CEL_E_OK;
}

cel_status cel_clocks_compare(cel_transport *transport, const cel_clock *clock,
                              cel_clock_offset *out) {
  comparison c = {.t = transport, .clock = clock};
  if (!transport->dry && transport->local_ranks != transport->ranks) {
    cel_status status = compare(&c);
    cel_vec_release(&c.early);
    CEL_TRY(status);
  }
  *out = c.mine.offset;
  return CEL_E_OK;
}
