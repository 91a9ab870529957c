/* After a failure: a rank forgets what is under way, and begins anew.
 *
 * Messages are under way that nobody will receive, and receives stand open for
 * what nobody will send. Each rank takes its receives back. Then it sends a
 * stop to every other rank on each communicator, and throws away what comes
 * until it has all their stops. MPI delivers in order what one rank sends
 * another. So nothing is under way afterwards, the sends have ended, and the
 * communicators and all memory can be used again.
 * Cost: three empty messages to each other rank.
 */
#include <limits.h>
#include <stdlib.h>

#include "comm/mpi/mpi.h"

static bool is_receive(cel__mpi_role role) {
  return role == CEL__RECEIVE || role == CEL__CREDIT_IN ||
         role == CEL__TELL_IN || role == CEL__BALLOT_IN;
}

static bool is_send(cel__mpi_role role) {
  return role == CEL__SEND || role == CEL__WORD_OUT;
}

/* Messages that have met their receive arrive: their memory is in use until
 * then. */
static void take_receives_back(cel__mpi *m) {
  for (uint32_t i = 0; i < m->row.n; ++i)
    if (is_receive(m->row.at[i].role)) MPI_Cancel(&m->request.at[i]);
  for (uint32_t i = 0; i < m->row.n; ++i)
    if (is_receive(m->row.at[i].role))
      MPI_Wait(&m->request.at[i], MPI_STATUS_IGNORE);
}

/* Receives the message that `probed` tells of. */
static int throw_away(MPI_Comm comm, const MPI_Status *probed) {
  MPI_Count bytes;
  MPI_Datatype type;
  int count, code = MPI_Get_elements_x(probed, MPI_BYTE, &bytes);
  if (code != MPI_SUCCESS) return code;
  void *scratch = malloc((size_t)bytes + 1);
  if (scratch == NULL) return MPI_ERR_NO_MEM;
  code = cel__mpi_bytes_begin((uint64_t)bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = MPI_Recv(scratch, count, type, probed->MPI_SOURCE, probed->MPI_TAG,
                    comm, MPI_STATUS_IGNORE);
  cel__mpi_bytes_end(&type);
  free(scratch);
  return code;
}

/* Until the stops of all others have come. */
static int throw_all_away(const cel__mpi *m, MPI_Comm comm) {
  int64_t left = m->base.ranks - 1;
  int code = MPI_SUCCESS;
  while (left > 0 && code == MPI_SUCCESS) {
    MPI_Status probed;
    code = MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &probed);
    if (code == MPI_SUCCESS) code = throw_away(comm, &probed);
    if (probed.MPI_TAG == CEL__TAG_STOP) --left;
  }
  return code;
}

static int stop_all(cel__mpi *m, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  for (int64_t by = 1; by < m->base.ranks && code == MPI_SUCCESS; ++by) {
    MPI_Request request;
    code =
        MPI_Isend(NULL, 0, MPI_BYTE, (int)((m->base.rank + by) % m->base.ranks),
                  CEL__TAG_STOP, comm, &request);
    if (code == MPI_SUCCESS) cel__mpi_track(m, request, CEL__WORD_OUT, NULL);
  }
  return code;
}

/* What is sent ends as others throw it away: so all is sent first. */
static int drain(cel__mpi *m) {
  MPI_Comm comm[] = {m->data, m->control, m->agreement};
  int code = MPI_SUCCESS;
  for (int i = 0; i < 3 && code == MPI_SUCCESS; ++i)
    code = stop_all(m, comm[i]);
  for (int i = 0; i < 3 && code == MPI_SUCCESS; ++i)
    code = throw_all_away(m, comm[i]);
  for (uint32_t i = 0; i < m->row.n && code == MPI_SUCCESS; ++i)
    if (is_send(m->row.at[i].role))
      code = MPI_Wait(&m->request.at[i], MPI_STATUS_IGNORE);
  return code;
}

/* Of rows that have ended. What failed before has none. */
static void free_rows(cel__mpi *m) {
  for (uint32_t i = 0; i < m->row.n; ++i) {
    cel__mpi_role role = m->row.at[i].role;
    void *what = m->row.at[i].what;
    if (what == NULL) continue;
    if (role == CEL__SEND || role == CEL__RECEIVE) {
      cel__mpi_transfer *transfer = what;
      if (--transfer->parts > 0) continue;
      cel__mpi_unpack(m, transfer, false);
      cel_free(transfer);
    } else if (role == CEL__WORD_OUT || role == CEL__CREDIT_IN ||
               role == CEL__TELL_IN) {
      cel_free(what);
    }
  }
}

/* Whether collectives, or communicators, are being made on any rank: those
 * cannot be taken back. *out on all ranks alike. */
static int is_stuck(const cel__mpi *m, int *out) {
  *out = 0;
  for (uint32_t i = 0; i < m->row.n; ++i)
    *out |= !is_send(m->row.at[i].role) && !is_receive(m->row.at[i].role);
  return MPI_Allreduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_MAX, m->agreement);
}

/* As it was when it was opened, with the same communicators. */
static void begin_anew(cel__mpi *m) {
  cel__mpi_forget_waiting(m);
  cel__mpi_release_work(m);
  cel__mpi_forget_groups(&m->groups);
  for (int d = 0; d < 2; ++d) {
    m->flow[d].in_flight = 0;
    m->flow[d].first = m->flow[d].last = NULL;
  }
  m->peers.at = NULL;
  m->peers.n = m->peers.cap = 0;
  m->done_head = m->told_head = 0;
  m->transfers = m->words_out = m->awaited = 0;
  m->telling = m->credits = m->failed = false;
  m->next_vote = 0;
  m->first_vote = m->last_vote = NULL;
  m->step = NULL;
  m->steps = 0;
}

/* A session comes here where a line failed on some ranks alone. Where a
 * collective is stuck, its communicator stays for good, with the others. */
cel_status cel__mpi_renew(void *self) {
  cel__mpi *m = self;
  int stuck = 0;
  cel_assert_thread(CEL_THREAD_MAIN);
  if (m->base.broken != NULL) return cel_fail_with(m->base.broken);
  take_receives_back(m);
  int code = drain(m);
  if (code == MPI_SUCCESS) code = is_stuck(m, &stuck);
  if (code == MPI_SUCCESS) {
    free_rows(m);
    begin_anew(m);
    if (stuck) code = cel__mpi_dup_all(m);
  }
  return cel__mpi_breaks(m, code, "beginning anew", -1)
             ? cel_fail_with(&m->error)
             : CEL_E_OK;
}
