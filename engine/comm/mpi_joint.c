/* Collectives: each a non-blocking one of MPI, started when it is posted.
 *
 * All ranks post them in one order, and on a communicator of their own, so MPI
 * matches them. What is dense is sent and received in place; what is not is
 * packed into staging, which every rank may do as its memory lies.
 */
#include <limits.h>
#include <stdlib.h>

#include "comm/joint.h"
#include "comm/mpi.h"
#include "comm/strided.h"

/* ---- units ----------------------------------------------------------------
 */

static int make_unit(uint64_t bytes, MPI_Datatype *out) {
  int code = bytes > INT_MAX ? cel__mpi_big_type(bytes, out)
                             : MPI_Type_contiguous((int)bytes, MPI_BYTE, out);
  return code == MPI_SUCCESS ? MPI_Type_commit(out) : code;
}

/* A type of so many bytes. MPI keeps one that is freed while it is needed. */
static int unit_of(cel__mpi *m, uint64_t bytes, MPI_Datatype *out) {
  *out = MPI_BYTE;
  if (bytes == 1) return MPI_SUCCESS;
  for (int i = 0; i < CEL__MPI_UNITS; ++i)
    if (m->unit[i].bytes == bytes) {
      *out = m->unit[i].type;
      return MPI_SUCCESS;
    }
  MPI_Datatype made;
  int code = make_unit(bytes, &made);
  if (code != MPI_SUCCESS) return code;
  cel__mpi_unit *old = &m->unit[m->oldest_unit++ % CEL__MPI_UNITS];
  if (old->bytes != 0) MPI_Type_free(&old->type);
  *old = (cel__mpi_unit){bytes, made};
  *out = made;
  return MPI_SUCCESS;
}

void cel__mpi_release_units(cel__mpi *m) {
  for (int i = 0; i < CEL__MPI_UNITS; ++i)
    if (m->unit[i].bytes != 0) MPI_Type_free(&m->unit[i].type);
}

/* ---- staging --------------------------------------------------------------
 */

static bool is_dense(const cel_joint *joint) {
  if (joint->pieces > 1) return false;
  cel_strided only = cel__strided_merged(joint->piece[0]);
  return only.count[0] * only.count[1] == 1;
}

static const cel_strided *part_of(const cel_joint *joint, int64_t rank) {
  return &joint->piece[joint->pieces > 1 ? rank : 0];
}

static void pack(const cel__mpi *m, cel__mpi_joint *mine) {
  const cel_joint *joint = mine->joint;
  int64_t me = m->base.rank;
  if (cel__joint_given(joint, me) == 0) return;
  cel__strided_gather(part_of(joint, me), 1,
                      (char *)mine->staging + cel__joint_start(joint, me));
}

static void unpack(const cel__mpi *m, const cel__mpi_joint *mine) {
  const cel_joint *joint = mine->joint;
  for (int64_t k = 0; k < m->base.ranks; ++k)
    if (k != m->base.rank && cel__joint_given(joint, k) > 0)
      cel__strided_scatter(part_of(joint, k), 1,
                           (const char *)mine->staging +
                               cel__joint_start(joint, k));
}

/* Where MPI finds the whole. */
static cel_status place(const cel__mpi *m, cel__mpi_joint *mine, void **out) {
  const cel_joint *joint = mine->joint;
  *out = joint->piece[0].base;
  if (is_dense(joint)) return CEL_E_OK;
  *out = mine->staging = malloc(joint->bytes);
  if (mine->staging == NULL)
    return cel_fail(CEL_E_MEMORY,
                    "no memory to pack a collective of %llu bytes",
                    (unsigned long long)joint->bytes);
  pack(m, mine);
  return CEL_E_OK;
}

/* ---- starting and ending --------------------------------------------------
 */

static int start(cel__mpi *m, cel__mpi_joint *mine, void *whole,
                 MPI_Request *request) {
  const cel_joint *joint = mine->joint;
  MPI_Datatype type;
  int count;
  if (joint->pattern == CEL_PATTERN_BROADCAST) {
    int code = cel__mpi_bytes_begin(joint->bytes, &count, &type);
    if (code != MPI_SUCCESS) return code;
    mine->type = type == MPI_BYTE ? MPI_DATATYPE_NULL : type;
    return MPI_Ibcast(whole, count, type, (int)joint->root, m->joint, request);
  }
  int code = unit_of(m, joint->unit, &type);
  if (code != MPI_SUCCESS) return code;
  return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole,
                         joint->count, joint->start, type, m->joint, request);
}

void cel__mpi_exchange(cel_transport *t, const cel_joint *joint) {
  cel__mpi *m = (cel__mpi *)t;
  if (m->failed) {
    cel__mpi_report(m, joint->ticket, false);
    return;
  }
  cel__mpi_joint *mine = cel_alloc(sizeof *mine);
  *mine = (cel__mpi_joint){.joint = joint, .type = MPI_DATATYPE_NULL};
  ++m->transfers;
  void *whole;
  MPI_Request request;
  if (place(m, mine, &whole) != CEL_E_OK)
    cel__mpi_fail(m);
  else
    cel__mpi_bad(m, start(m, mine, whole, &request), "beginning a collective",
                 -1);
  if (m->failed)
    cel__mpi_joined(m, mine, false);
  else
    cel__mpi_track(m, request, CEL__JOINT, mine);
}

/* In a job that has failed MPI may go on to write: staging stays. */
void cel__mpi_joined(cel__mpi *m, cel__mpi_joint *mine, bool good) {
  if (good && mine->staging != NULL) unpack(m, mine);
  if (good) free(mine->staging);
  if (mine->type != MPI_DATATYPE_NULL) MPI_Type_free(&mine->type);
  cel__mpi_report(m, mine->joint->ticket, good);
  cel_free(mine);
  --m->transfers;
}
