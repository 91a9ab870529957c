#include "comm/report.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum {
  GRACE_US = 1000000,    /* rank 0 may find the same error within */
  PATIENCE_US = 2000000, /* until a rank takes rank 0 for deaf */
  STAGGER_US = 100000,   /* from one rank to the next, */
  STAGGER_RANKS = 20,    /* for so many */
  ENDED_US = 6000000,    /* until whoever prints must have ended us */
  NAP_NS = 1000000,
  BATCH = 16
};

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static atomic_bool left; /* to another rank */

bool cel_report_left(void) {
  return atomic_load(&left);
}

bool cel_report_told(cel_report *report, const cel_told *told) {
  if (told->kind == CEL_REPORT_YOURS) return true; /* it came too late */
  if (told->kind != CEL_REPORT_ASK) return false;
  atomic_store(&left, true);
  if (report->asked) return true;
  *report =
      (cel_report){.asked = true, .asker = told->peer, .since_us = now_us()};
  return true;
}

static void answer(cel_report *report, cel_transport *t) {
  report->answered = true;
  t->tell(t, report->asker, CEL_REPORT_YOURS, NULL, 0);
}

void cel_report_tick(cel_report *report, cel_transport *transport) {
  if (!report->asked || report->answered) return;
  if (now_us() - report->since_us >= GRACE_US) answer(report, transport);
}

/* Takes in what came: what was outstanding is of no interest any more. */
static bool listen(cel_transport *t, cel_report *report) {
  cel_done done[BATCH];
  bool yours = false;
  uint32_t n = t->poll(t, done, BATCH);
  for (uint32_t i = 0; i < n; ++i) cel_free(done[i].error);
  for (cel_told *told; (told = t->told(t)) != NULL; cel_free(told)) {
    yours = yours || told->kind == CEL_REPORT_YOURS;
    cel_report_told(report, told);
  }
  return yours;
}

static void nap(void) {
  struct timespec t = {0, NAP_NS};
  nanosleep(&t, NULL);
}

/* Waits until this rank is to print. */
static void wait_for_turn(cel_transport *t, bool cancelled) {
  cel_report report = {0};
  int64_t place = t->rank < STAGGER_RANKS ? t->rank : STAGGER_RANKS;
  int64_t most = (cancelled ? ENDED_US : PATIENCE_US) + place * STAGGER_US;
  if (t->rank == 0 && !cancelled) return;
  if (!cancelled) t->tell(t, 0, CEL_REPORT_ASK, NULL, 0);
  for (int64_t start = now_us(); now_us() - start < most; nap()) {
    if (listen(t, &report)) return;
    /* Rank 0 has been cancelled by the one that asks. */
    if (report.asked && !report.answered) answer(&report, t);
  }
}

void cel_report_error(cel_transport *transport, const cel_error *error,
                      void (*print)(const char *text)) {
  char text[CEL_ERROR_TEXT + 400], who[32] = "", where[300] = "";
  wait_for_turn(transport, error->code == CEL_E_CANCELLED);
  if (transport->rank > 0)
    snprintf(who, sizeof who, "rank %lld: ", (long long)transport->rank);
  if (error->file[0] != '\0')
    snprintf(where, sizeof where, "%s:%d: ", error->file, (int)error->line);
  snprintf(text, sizeof text, "%s%s%s", who, where, error->text);
  print(text);
  transport->abort(transport, 1);
}

void cel_report_exit(cel_transport *transport, int status) {
  cel_report report = {0};
  if (transport->rank > 0)
    for (int64_t start = now_us(); now_us() - start < ENDED_US; nap())
      listen(transport, &report);
  transport->abort(transport, status);
}
