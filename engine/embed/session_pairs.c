/* Which way messages between GPUs take from host to host, for `celer info`. Of
 * each of the first hosts the first rank takes part. They meet in rounds, in
 * each of which every host has another one for itself, so that it takes as long
 * as one host with all others. */
#include "comm/road/road.h"
#include "embed/session.h"

enum { HOSTS = 8 };

typedef struct round {
  cel_session *session;
  int64_t host[HOSTS]; /* its rank that takes part */
  int32_t hosts;
  cel_session_pair *out;
  int32_t pairs;
} round;

static cel_status all_reduce_max(const cel_session *s, int64_t *n) {
  const cel_control_table *control = &s->transport->control;
  return control->all_reduce_max(control->self, n);
}

/* In ascending order; all ranks find the same. */
static cel_status find_hosts(round *r) {
  const cel_transport *t = r->session->transport;
  bool one = t->local_rank == 0 || r->session->options.apart;
  int64_t last = -1;
  while (r->hosts < HOSTS) {
    int64_t next = one && t->rank > last ? -t->rank : INT64_MIN;
    CEL_TRY(all_reduce_max(r->session, &next));
    if (next == INT64_MIN) break;
    r->host[r->hosts++] = last = -next;
  }
  return CEL_E_OK;
}

/* Between hosts a and b, of which this rank may be one. */
static cel_status try_pair(const cel_session *s, int64_t a, int64_t b,
                           cel_road_found *mine) {
  int64_t me = s->transport->rank;
  if (me != a && me != b) return CEL_E_OK;
  return cel_road_measure(s->road, me == a ? b : a, me == a, mine);
}

/* Rank `from` has found it. */
static cel_status tell_all(round *r, int64_t from, int64_t to,
                           const cel_road_found *mine) {
  bool found = r->session->transport->rank == from;
  int64_t way = found ? (int64_t)mine->way : -1;
  int64_t rate = found ? (int64_t)(mine->rate * 1e6) : -1;
  CEL_TRY(all_reduce_max(r->session, &way));
  CEL_TRY(all_reduce_max(r->session, &rate));
  r->out[r->pairs++] =
      (cel_session_pair){from, to, (int32_t)way, (double)rate * 1e-6};
  return CEL_E_OK;
}

/* The i-th pair of a round: the last host stays, the others go round. */
static bool pair_of(const round *r, int32_t round, int32_t i, int64_t *a,
                    int64_t *b) {
  int32_t n = r->hosts + r->hosts % 2, turn = n - 1;
  int32_t x = (round + i) % turn, y = (round + turn - i) % turn;
  if (i == 0) y = turn;
  if (x >= r->hosts || y >= r->hosts) return false;
  *a = r->host[x < y ? x : y];
  *b = r->host[x < y ? y : x];
  return true;
}

static cel_status meet(round *r, int32_t round) {
  int64_t a, b;
  cel_road_found mine = {0};
  int32_t pairs = (r->hosts + 1) / 2;
  for (int32_t i = 0; i < pairs; ++i)
    if (pair_of(r, round, i, &a, &b))
      CEL_TRY(try_pair(r->session, a, b, &mine));
  for (int32_t i = 0; i < pairs; ++i)
    if (pair_of(r, round, i, &a, &b)) CEL_TRY(tell_all(r, a, b, &mine));
  return CEL_E_OK;
}

cel_status cel_session_pairs(cel_session *s,
                             cel_session_pair out[CEL_SESSION_PAIRS],
                             int32_t *pairs) {
  _Static_assert(HOSTS * (HOSTS - 1) / 2 == CEL_SESSION_PAIRS, "all of them");
  round r = {.session = s, .out = out};
  CEL_TRY(cel_session_connect(s));
  *pairs = 0;
  if (s->road == NULL) return CEL_E_OK;
  CEL_TRY(find_hosts(&r));
  for (int32_t k = 0; k < r.hosts + r.hosts % 2 - 1; ++k) CEL_TRY(meet(&r, k));
  *pairs = r.pairs;
  return CEL_E_OK;
}
