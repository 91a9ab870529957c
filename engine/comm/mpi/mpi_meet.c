/* The first words between ranks.
 *
 * MPI connects two ranks when one of them first sends to the other, and a call
 * that waits for a connection that never comes waits for ever. So before such a
 * call all ranks greet those at the distances 1, 2, 4, ... both ways, with whom
 * trees and rings have to do, and say who does not answer.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/heartbeat/reach.h"
#include "comm/mpi/mpi.h"
#include "device/clock.h"

enum {
  PATIENCE_S = 120, /* as settings.lua has it for --lost */
  WORD_S = 20,      /* until rank 0 warns */
  /* A launcher takes up to END_S to end a job. Each later speaker waits that
   * much longer. Of two ranks that do not hear each other, the lower speaks
   * first. */
  END_S = 4,
  SPEAKERS = 4
};

/* Those below are waited for and then answered, as two that send to each other
 * at a time each make a connection; those above are sent to first. */
enum { BELOW, ABOVE, SENT, ANSWERED, KINDS, MOST = 32 };

typedef struct greetings {
  MPI_Request request[KINDS * MOST]; /* of each kind one per distance */
  int distances, answered;
  int64_t begun_ns;
  bool warned;
} greetings;

static int64_t patience_s(void) {
  char *end;
  const char *text = getenv("CELER_LOST");
  if (text == NULL) return PATIENCE_S;
  int64_t seconds = strtoll(text, &end, 10);
  return end == text || *end != '\0' ? PATIENCE_S : seconds;
}

/* The rank 2^i above or below. */
static int peer_of(const cel__mpi *m, int kind, int i) {
  int n = (int)m->base.ranks, by = 1 << i;
  bool above = kind == ABOVE || kind == SENT;
  return ((int)m->base.rank + (above ? by : n - by)) % n;
}

static int start(cel__mpi *m, greetings *g, int kind, int i) {
  int peer = peer_of(m, kind, i);
  MPI_Request *request = &g->request[kind * MOST + i];
  return kind == SENT || kind == ANSWERED
             ? MPI_Isend(NULL, 0, MPI_BYTE, peer, CEL__TAG_GREETING,
                         MPI_COMM_WORLD, request)
             : MPI_Irecv(NULL, 0, MPI_BYTE, peer, CEL__TAG_GREETING,
                         MPI_COMM_WORLD, request);
}

static int greet(cel__mpi *m, greetings *g) {
  int code = MPI_SUCCESS;
  for (int i = 0; i < KINDS * MOST; ++i) g->request[i] = MPI_REQUEST_NULL;
  while ((INT64_C(1) << g->distances) < m->base.ranks) ++g->distances;
  for (int kind = BELOW; kind <= SENT; ++kind)
    for (int i = 0; i < g->distances && code == MPI_SUCCESS; ++i)
      code = start(m, g, kind, i);
  return code;
}

/* Notes who has come, and answers those below. */
static int listen(cel__mpi *m, greetings *g) {
  int code = MPI_SUCCESS;
  for (int at = 0; at < 2 * g->distances && code == MPI_SUCCESS; ++at) {
    int kind = at % 2 == 0 ? BELOW : ABOVE, here = 0;
    MPI_Request *request = &g->request[kind * MOST + at / 2];
    if (*request == MPI_REQUEST_NULL) continue;
    code = MPI_Test(request, &here, MPI_STATUS_IGNORE);
    if (!here || code != MPI_SUCCESS || kind == ABOVE) continue;
    ++g->answered;
    code = start(m, g, ANSWERED, at / 2);
  }
  return code;
}

/* The first of whom nothing has come; -1: it is greetings that do not leave. */
static int find_silent(const cel__mpi *m, const greetings *g) {
  for (int kind = BELOW; kind <= ABOVE; ++kind)
    for (int i = 0; i < g->distances; ++i)
      if (g->request[kind * MOST + i] != MPI_REQUEST_NULL)
        return peer_of(m, kind, i);
  return -1;
}

/* On stderr at once: ranks cannot agree yet on who speaks. */
static void complain(const cel__mpi *m, const greetings *g, const char *what,
                     int64_t past_s) {
  char host[64] = "?", here[256], who[32] = "some ranks";
  int silent = find_silent(m, g);
  (void)gethostname(host, sizeof host - 1);
  cel_reach_describe(here, sizeof here);
  if (silent >= 0) snprintf(who, sizeof who, "rank %d", silent);
  fprintf(
      stderr,
      "celer: %srank %lld on host %s hears nothing of %s by MPI, for %lld s "
      "from the start. A firewall between their hosts may drop MPI's ports, or "
      "another celer may run there, or MPI takes a network that leads nowhere: "
      "%s has %s. Name the one that joins all hosts: "
      "OMPI_MCA_btl_tcp_if_include=ADDRESS/BITS\n",
      what, (long long)m->base.rank, host, who, (long long)past_s, host, here);
}

/* Seconds that a rank leaves to others, so that one of them speaks. */
static int64_t deference(const cel__mpi *m, const greetings *g) {
  int64_t rank = m->base.rank, place = rank < SPEAKERS ? rank : SPEAKERS;
  return END_S * (place + (find_silent(m, g) < rank ? SPEAKERS + 1 : 0));
}

/* Complains when it is time. */
static void look_at_clock(const cel__mpi *m, greetings *g) {
  int64_t past = (cel_now_ns() - g->begun_ns) / 1000000000;
  int64_t patience = patience_s();
  if (patience > 0 && past >= patience + deference(m, g)) {
    complain(m, g, "", past);
    m->base.control.abort(m->base.control.self, 1);
  }
  if (!g->warned && past >= WORD_S) {
    complain(m, g, "warning: ", past);
    g->warned = true;
  }
}

int cel__mpi_meet(cel__mpi *m) {
  greetings g = {.begun_ns = cel_now_ns(), .warned = m->base.rank > 0};
  int code = greet(m, &g), over = 0;
  while (code == MPI_SUCCESS && !over) {
    code = listen(m, &g);
    if (code == MPI_SUCCESS && g.answered == g.distances)
      code = MPI_Testall(KINDS * MOST, g.request, &over, MPI_STATUSES_IGNORE);
    if (!over) look_at_clock(m, &g);
    sched_yield();
  }
  return code;
}
