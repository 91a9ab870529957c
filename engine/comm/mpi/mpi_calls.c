/* What all ranks do together before the executor starts.
 *
 * A rank may never come here, as it fails before: so no call blocks in MPI.
 * Each is a row of the table like all requests, and whoever waits for it
 * answers ranks that have failed. What MPI reads and writes is a copy, which is
 * the request's until it has ended: where MPI breaks that is never.
 */
#include <sched.h>

#include "comm/mpi/mpi.h"

enum { CHUNK = 1 << 24 };

/* Texts of other kinds are for whoever comes later. */
void cel__mpi_attend(void *self) {
  cel__mpi *m = self;
  cel_assert_thread(CEL_THREAD_MAIN);
  uint32_t kept = m->told_head;
  for (uint32_t i = kept; i < m->told.n; ++i) {
    cel_told *told = m->told.at[i];
    if (cel_report_told(&m->report, &m->base, told))
      cel_free(told);
    else
      m->told.at[kept++] = told;
  }
  m->told.n = kept;
  cel_report_tick(&m->report, &m->base);
}

/* `code` is of its beginning. The call is the caller's still unless this fails.
 */
static cel_status follow(cel__mpi *m, cel__mpi_call *call, int code,
                         MPI_Request request, const char *doing) {
  cel_assert_thread(CEL_THREAD_MAIN);
  if (cel__mpi_breaks(m, code, doing, -1)) {
    cel_free(call);
    return cel_fail_with(&m->error);
  }
  cel__mpi_track(m, request, CEL__CALL, call);
  return CEL_E_OK;
}

static cel_status await_end(cel__mpi *m, const cel__mpi_call *call) {
  while (!call->over && m->base.broken == NULL) {
    m->base.poll(&m->base, NULL, 0);
    cel__mpi_attend(m);
    sched_yield();
  }
  return call->over ? CEL_E_OK : cel_fail_with(&m->error);
}

static cel_status await(cel__mpi *m, cel__mpi_call *call, int code,
                        MPI_Request request, const char *doing) {
  CEL_TRY(follow(m, call, code, request, doing));
  return await_end(m, call);
}

static cel__mpi_call *begin(uint64_t bytes) {
  cel__mpi_call *call = cel_alloc(sizeof *call + bytes);
  call->over = false;
  return call;
}

static cel_status broadcast_some(cel__mpi *m, void *data, uint64_t size) {
  cel__mpi_call *call = begin(size);
  MPI_Request request;
  if (m->base.rank == 0) memcpy(call->bytes, data, size);
  int code =
      MPI_Ibcast(call->bytes, (int)size, MPI_BYTE, 0, m->control, &request);
  CEL_TRY(await(m, call, code, request, "broadcasting"));
  memcpy(data, call->bytes, size);
  cel_free(call);
  return CEL_E_OK;
}

static cel_status broadcast_all(cel__mpi *m, char *data, uint64_t size) {
  for (uint64_t at = 0; at < size; at += CHUNK) {
    uint64_t some = size - at < CHUNK ? size - at : CHUNK;
    CEL_TRY(broadcast_some(m, data + at, some));
  }
  return CEL_E_OK;
}

cel_status cel__mpi_broadcast(void *self, void **data, uint64_t *size) {
  cel__mpi *m = self;
  uint64_t bytes = *size;
  CEL_TRY(broadcast_some(m, &bytes, sizeof bytes));
  if (m->base.rank == 0) return broadcast_all(m, *data, bytes);
  void *all = cel_alloc(bytes + 1);
  cel_status status = broadcast_all(m, all, bytes);
  if (status != CEL_E_OK) {
    cel_free(all);
    return status;
  }
  cel_free(*data);
  *data = all;
  *size = bytes;
  return CEL_E_OK;
}

/* Sends some bytes to a rank of this host and receives as many from one. */
static cel_status pass(cel__mpi *m, const char *out, int to, char *in, int from,
                       uint64_t bytes) {
  static const char doing[] = "gathering on one host";
  cel__mpi_call *sent = begin(bytes), *got = begin(bytes);
  MPI_Request request;
  memcpy(sent->bytes, out, bytes);
  int code = MPI_Irecv(got->bytes, (int)bytes, MPI_BYTE, from, CEL__TAG_GATHER,
                       m->host, &request);
  CEL_TRY(follow(m, got, code, request, doing));
  code = MPI_Isend(sent->bytes, (int)bytes, MPI_BYTE, to, CEL__TAG_GATHER,
                   m->host, &request);
  CEL_TRY(await(m, sent, code, request, doing));
  CEL_TRY(await_end(m, got));
  memcpy(in, got->bytes, bytes);
  cel_free(sent);
  cel_free(got);
  return CEL_E_OK;
}

/* In log2(ranks) steps, as MPI_Iallgather of Open MPI 4.1 sends from each to
 * each. The first block is this rank's own, the next one the next rank's; each
 * step doubles how many there are. */
cel_status cel__mpi_gather(void *self, const void *mine, uint32_t size,
                           void *all) {
  cel__mpi *m = self;
  int ranks = (int)m->base.local_ranks, rank = (int)m->base.local_rank;
  char *block = cel_alloc((uint64_t)ranks * size);
  cel_status status = CEL_E_OK;
  memcpy(block, mine, size);
  for (int by = 1; by < ranks && status == CEL_E_OK; by *= 2) {
    int more = by < ranks - by ? by : ranks - by;
    status =
        pass(m, block, (rank - by + ranks) % ranks, block + (uint64_t)by * size,
             (rank + by) % ranks, (uint64_t)more * size);
  }
  for (int i = 0; i < ranks && status == CEL_E_OK; ++i)
    memcpy((char *)all + (uint64_t)((rank + i) % ranks) * size,
           block + (uint64_t)i * size, size);
  cel_free(block);
  return status;
}

cel_status cel__mpi_all_reduce_max(void *self, int64_t *n) {
  cel__mpi *m = self;
  cel__mpi_call *call = begin(2 * sizeof *n);
  int64_t *all = (int64_t *)(void *)call->bytes, *mine = all + 1;
  MPI_Request request;
  *mine = *n;
  int code =
      MPI_Iallreduce(mine, all, 1, MPI_INT64_T, MPI_MAX, m->control, &request);
  CEL_TRY(await(m, call, code, request, "comparing ranks"));
  *n = *all;
  cel_free(call);
  return CEL_E_OK;
}
