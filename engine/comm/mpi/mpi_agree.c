/* Agreements: all ranks learn whether all said the same.
 *
 * By dissemination: in step k a rank tells the one 2^k above it what it says,
 * and whether all it has heard of say the same, and hears that from the one 2^k
 * below. After the steps it has heard of everybody; where two ranks differ,
 * something differed on the way from each of them to everyone. One receive per
 * step stands open, so that a ballot is there as soon as it has come, and a
 * vote costs no more than a message of a few words per step.
 *
 * Invariant: a vote is in no later step than those before it. Ballots of a
 * step come from one rank, in order, so the one at hand is of the oldest vote
 * that has not been through that step.
 */
#include "comm/mpi/mpi.h"

enum { WORDS = sizeof(cel__mpi_ballot) / sizeof(uint64_t) };

static void expect(cel__mpi *m, uint32_t k) {
  int64_t n = m->base.ranks, from = (m->base.rank + n - (1 << k)) % n;
  MPI_Request request;
  int code = MPI_Irecv(&m->step[k].ballot, WORDS, MPI_UINT64_T, (int)from,
                       CEL__TAG_VOTE + (int)k, m->agreement, &request);
  if (!cel__mpi_breaks(m, code, "agreeing", -1))
    cel__mpi_track(m, request, CEL__BALLOT_IN, &m->step[k]);
}

static void say(cel__mpi *m, const cel__mpi_vote *vote) {
  uint32_t k = vote->step;
  int64_t to = (m->base.rank + (1 << k)) % m->base.ranks;
  cel__mpi_ballot *said = cel_alloc(sizeof *said);
  *said = vote->said;
  MPI_Request request;
  int code = MPI_Isend(said, WORDS, MPI_UINT64_T, (int)to,
                       CEL__TAG_VOTE + (int)k, m->agreement, &request);
  if (cel__mpi_breaks(m, code, "agreeing", -1)) {
    cel_free(said);
    return;
  }
  ++m->words_out;
  cel__mpi_track(m, request, CEL__WORD_OUT, said);
}

static bool is_same(const cel__mpi_ballot *a, const cel__mpi_ballot *b) {
  return a->index == b->index && a->hash == b->hash && a->count == b->count &&
         a->same != 0 && b->same != 0;
}

/* As many steps as there are ballots for. */
static void go_on(cel__mpi *m, cel__mpi_vote *vote) {
  while (vote->step < m->steps && m->step[vote->step].here) {
    uint32_t k = vote->step++;
    vote->said.same = is_same(&vote->said, &m->step[k].ballot);
    m->step[k].here = false;
    expect(m, k);
    if (vote->step < m->steps) say(m, vote);
  }
}

void cel__mpi_voted(cel__mpi *m, cel__mpi_step *step) {
  step->here = true;
  for (cel__mpi_vote *v = m->first_vote; v != NULL; v = v->next) go_on(m, v);
}

void cel__mpi_agree(void *self, const cel_agreement *mine) {
  cel__mpi *m = self;
  cel_assert_driver();
  cel_assert(mine->index == m->next_vote);
  m->next_vote = mine->index + 1;
  if (m->base.broken != NULL) return;
  if (m->step == NULL) {
    while ((INT64_C(1) << m->steps) < m->base.ranks) ++m->steps;
    m->step = cel_alloc_zero((m->steps + 1) * sizeof *m->step);
    for (uint32_t k = 0; k < m->steps; ++k) expect(m, k);
  }
  cel__mpi_vote *vote = cel_alloc_zero(sizeof *vote);
  *vote = (cel__mpi_vote){.said = {mine->index, mine->hash, mine->count, true},
                          .awaited = mine->awaited};
  if (m->last_vote != NULL)
    m->last_vote->next = vote;
  else
    m->first_vote = vote;
  m->last_vote = vote;
  if (vote->awaited) ++m->awaited;
  if (m->steps > 0) say(m, vote);
  go_on(m, vote);
}

cel_agreed cel__mpi_agreed(void *self, uint64_t *index) {
  cel__mpi *m = self;
  cel_assert_driver();
  cel__mpi_vote *vote = m->first_vote;
  if (vote == NULL || vote->step < m->steps) return CEL_AGREED_PENDING;
  bool same = vote->said.same != 0;
  *index = vote->said.index;
  if (vote->awaited) --m->awaited;
  m->first_vote = vote->next;
  if (m->first_vote == NULL) m->last_vote = NULL;
  cel_free(vote);
  return same ? CEL_AGREED_SAME : CEL_AGREED_DIFFERENT;
}

void cel__mpi_release_votes(cel__mpi *m) {
  for (cel__mpi_vote *vote; (vote = m->first_vote) != NULL;) {
    m->first_vote = vote->next;
    cel_free(vote);
  }
  cel_free(m->step);
}
