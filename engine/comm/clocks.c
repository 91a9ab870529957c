#include "comm/clocks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "device/clock.h"

enum { QUESTIONS = 16 };

/* What rank 0 answers. */
typedef struct answer {
  int64_t now;
  char host[64];
} answer;

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

/* Rank 0, until all others have asked enough. */
static cel_status answer_all(cel_transport *t, const cel_clock *clock) {
  answer mine = {0};
  memcpy(mine.host, clock->host, sizeof mine.host);
  for (int64_t left = t->ranks - 1; left > 0;) {
    cel_told *told = listen(t);
    if (told == NULL) return broken(t);
    mine.now = clock->now(clock->context);
    if (told->kind == CEL_CLOCKS_ASK)
      t->control.tell(t->control.self, told->peer, CEL_CLOCKS_TIME, &mine,
                      sizeof mine);
    left -= told->kind == CEL_CLOCKS_DONE;
    cel_free(told);
  }
  return CEL_E_OK;
}

static cel_status ask(cel_transport *t, answer *out) {
  t->control.tell(t->control.self, 0, CEL_CLOCKS_ASK, NULL, 0);
  for (;;) {
    cel_told *told = listen(t);
    if (told == NULL) return broken(t);
    bool answered = told->kind == CEL_CLOCKS_TIME && told->size == sizeof *out;
    if (answered) memcpy(out, told->data, sizeof *out);
    cel_free(told);
    if (answered) return CEL_E_OK;
  }
}

static cel_status ask_some(cel_transport *t, const cel_clock *clock,
                           cel_clock_offset *best) {
  answer theirs;
  for (int i = 0; i < QUESTIONS; ++i) {
    int64_t before = clock->now(clock->context);
    CEL_TRY(ask(t, &theirs));
    int64_t after = clock->now(clock->context), half = (after - before + 1) / 2;
    if (clock->host[0] != '\0' &&
        memcmp(theirs.host, clock->host, sizeof theirs.host) == 0) {
      *best = (cel_clock_offset){0};
      break;
    }
    if (i == 0 || half < best->within)
      *best = (cel_clock_offset){theirs.now - before - half, half};
  }
  t->control.tell(t->control.self, 0, CEL_CLOCKS_DONE, NULL, 0);
  return CEL_E_OK;
}

cel_status cel_clocks_compare(cel_transport *transport, const cel_clock *clock,
                              cel_clock_offset *out) {
  cel_transport *t = transport;
  cel_clock_offset offset = {0};
  if (!t->dry && t->local_ranks != t->ranks) {
    if (t->rank == 0)
      CEL_TRY(answer_all(t, clock));
    else
      CEL_TRY(ask_some(t, clock, &offset));
    /* What others tell rank 0 from now on is not for this. */
    void *data = NULL;
    uint64_t size = 0;
    CEL_TRY(t->control.broadcast(t->control.self, &data, &size));
    cel_free(data);
  }
  *out = offset;
  return CEL_E_OK;
}
