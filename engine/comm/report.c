#include "comm/report.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  GRACE_US = 1000000, /* rank 0 may find the same error within */
  GAP_US = 50000,     /* between two ticks; what is more was not ours */
  PATIENCE = 5000,    /* naps until a rank takes rank 0 for deaf */
  STAGGER = 100,      /* from one rank to the next, */
  STAGGER_RANKS = 20, /* for so many */
  ENDED = 10000,      /* until whoever prints must have ended us */
  NAP_NS = 1000000,
  BATCH = 16
};

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* `given`: rank 0 has left it to another rank to print; `asker`: the first that
 * asked, or -1. The executor may have heard what main is to answer. */
static atomic_bool settled, given;
static _Atomic int64_t asker = -1;

bool cel_report_settled(void) {
  return atomic_load(&settled);
}

void cel_report_settle(void) {
  atomic_store(&settled, true);
}

cel_report cel_report_so_far(void) {
  int64_t who = atomic_load(&asker);
  return (cel_report){
      .asked = who >= 0, .answered = atomic_load(&given), .asker = who};
}

bool cel_report_told(cel_report *report, cel_transport *t,
                     const cel_told *told) {
  if (told->kind == CEL_REPORT_YOURS || told->kind == CEL_REPORT_HEARD)
    return true; /* it came too late */
  if (told->kind != CEL_REPORT_ASK) return false;
  atomic_store(&settled, true);
  t->control.tell(t->control.self, told->peer, CEL_REPORT_HEARD, NULL, 0);
  if (report->asked) return true;
  int64_t nobody = -1;
  atomic_compare_exchange_strong(&asker, &nobody, told->peer);
  *report =
      (cel_report){.asked = true, .asker = told->peer, .ticked_us = now_us()};
  return true;
}

static void answer(cel_report *report, cel_transport *t) {
  report->answered = true;
  atomic_store(&given, true);
  t->control.tell(t->control.self, report->asker, CEL_REPORT_YOURS, NULL, 0);
}

void cel_report_tick(cel_report *report, cel_transport *transport) {
  if (!report->asked || report->answered) return;
  int64_t now = now_us(), gap = now - report->ticked_us;
  report->ticked_us = now;
  report->waited_us += gap < GAP_US ? gap : GAP_US;
  if (report->waited_us >= GRACE_US) answer(report, transport);
}

/* Takes in what came: what was outstanding is of no interest any more. Whether
 * this rank is to print; lengthens its patience with a rank 0 that hears. */
static bool listen(cel_transport *t, cel_report *report, int64_t *most) {
  cel_done done[BATCH];
  bool yours = false;
  uint32_t n = t->poll(t, done, BATCH);
  for (uint32_t i = 0; i < n; ++i) cel_free(done[i].error);
  for (cel_told *told; (told = t->control.told(t->control.self)) != NULL;
       cel_free(told)) {
    yours = yours || told->kind == CEL_REPORT_YOURS;
    if (told->kind == CEL_REPORT_HEARD && *most < ENDED) *most += ENDED;
    cel_report_told(report, t, told);
  }
  return yours;
}

static void nap(void) {
  struct timespec t = {0, NAP_NS};
  nanosleep(&t, NULL);
}

/* Waits until this rank is to print. */
static void wait_for_turn(cel_transport *t, bool cancelled) {
  cel_report report = cel_report_so_far();
  int64_t place = t->rank < STAGGER_RANKS ? t->rank : STAGGER_RANKS;
  int64_t most = (cancelled ? ENDED : PATIENCE) + place * STAGGER;
  if (t->rank == 0 && !cancelled) return;
  if (!cancelled) t->control.tell(t->control.self, 0, CEL_REPORT_ASK, NULL, 0);
  for (int64_t naps = 0; naps < most; ++naps, nap()) {
    if (listen(t, &report, &most)) return;
    /* Rank 0 has been cancelled by the one that asks. */
    if (report.asked && !report.answered) answer(&report, t);
  }
}

void cel_report_error(cel_transport *transport, const cel_error *error,
                      void (*print)(const char *text)) {
  char text[CEL_ERROR_TEXT + 400], who[100] = "", where[300] = "";
  char host[64] = "";
  atomic_store(&settled, true);
  wait_for_turn(transport,
                error->code == CEL_E_CANCELLED || atomic_load(&given));
  int n = snprintf(who, sizeof who, "rank %lld", (long long)transport->rank);
  bool said =
      strncmp(error->text, who, (size_t)n) == 0 && error->text[n] == ' ';
  if (transport->local_ranks != transport->ranks)
    (void)gethostname(host, sizeof host - 1);
  snprintf(who + n, sizeof who - (size_t)n,
           "%s%s: ", host[0] != '\0' ? " on " : "", host);
  if (said || transport->rank == 0) who[0] = '\0';
  if (error->file[0] != '\0')
    snprintf(where, sizeof where, "%s:%d: ", error->file, (int)error->line);
  snprintf(text, sizeof text, "%s%s%s", who, where, error->text);
  print(text);
  transport->control.abort(transport->control.self,
                           transport->broken != NULL ? CEL_EXIT_LOST : 1);
}

void cel_report_exit(cel_transport *transport, int status) {
  cel_report report = {0};
  atomic_store(&settled, true);
  if (transport->rank > 0)
    for (int64_t naps = 0, most = ENDED; naps < most; ++naps, nap())
      listen(transport, &report, &most);
  transport->control.abort(transport->control.self, status);
}
