/* Collectives: each a non-blocking one of MPI, started when it is posted.
 *
 * All ranks post them in one order, and on a communicator of their own, so MPI
 * matches them. What is dense is sent and received in place; what is not is
 * packed into staging, which every rank may do as its memory lies.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "comm/collectives.h"
#include "comm/mpi/mpi.h"
#include "comm/strided.h"

/* ---- units ----------------------------------------------------------------
 */

static int make_unit(uint64_t bytes, MPI_Datatype *out) {
  int code = bytes > INT_MAX ? cel__mpi_big_type(bytes, out)
                             : MPI_Type_contiguous((int)bytes, MPI_BYTE, out);
  return code == MPI_SUCCESS ? MPI_Type_commit(out) : code;
}

/* A type of so many bytes. MPI keeps one that is freed while it is under way;
 * what was asked for last is kept here, so both ends of a collective are. */
static int unit_of(cel__mpi *m, uint64_t bytes, MPI_Datatype *out) {
  *out = MPI_BYTE;
  if (bytes == 1) return MPI_SUCCESS;
  int i = 0;
  while (i < CEL__MPI_UNITS - 1 && m->unit[i].bytes != bytes) ++i;
  cel__mpi_unit found = m->unit[i];
  if (found.bytes != bytes) {
    MPI_Datatype made;
    int code = make_unit(bytes, &made);
    if (code != MPI_SUCCESS) return code;
    if (found.bytes != 0) MPI_Type_free(&found.type);
    found = (cel__mpi_unit){bytes, made};
  }
  memmove(m->unit + 1, m->unit, (size_t)i * sizeof *m->unit);
  m->unit[0] = found;
  *out = found.type;
  return MPI_SUCCESS;
}

/* ---- staging --------------------------------------------------------------
 */

/* Where in its staging an end is: that of both, unless each has its own. */
static char **staging_of(cel__mpi_collective *mine, cel__collective_end end) {
  bool two = mine->collective->pattern == CEL_PATTERN_ALL_TO_ALL;
  return &mine->staging[two ? end : CEL__GIVEN];
}

static void pack(const cel__mpi *m, cel__mpi_collective *mine) {
  const cel_collective *collective = mine->collective;
  int64_t me = m->base.rank;
  char *to = *staging_of(mine, CEL__GIVEN);
  for (int64_t k = 0; k < m->base.ranks; ++k) {
    if (!cel__collective_has(collective, CEL__GIVEN, me, k)) continue;
    cel__collective_gather(
        collective, CEL__GIVEN, me, k,
        to + cel__collective_start(collective, CEL__GIVEN, me, k));
  }
}

static void unpack(const cel__mpi *m, cel__mpi_collective *mine) {
  const cel_collective *collective = mine->collective;
  int64_t me = m->base.rank;
  const char *from = *staging_of(mine, CEL__GOT);
  if (from == NULL) return;
  for (int64_t k = 0; k < m->base.ranks; ++k) {
    if (!cel__collective_has(collective, CEL__GOT, me, k)) continue;
    cel__collective_scatter(
        collective, CEL__GOT, me, k,
        from + cel__collective_start(collective, CEL__GOT, me, k));
  }
}

/* Where MPI finds what this rank gives, or gets: that first, for what it gives
 * must not begin where MPI puts what it gets. */
static cel_status place(const cel__mpi *m, cel__mpi_collective *mine,
                        cel__collective_end end, void **out) {
  const cel_collective *collective = mine->collective;
  uint64_t bytes =
      cel__collective_bytes(collective, end, m->base.rank, m->base.ranks);
  *out =
      bytes > 0 ? cel__collective_dense(collective, end) : &mine->nothing[end];
  if (bytes == 0 || collective->wide || (*out != NULL && *out != mine->got))
    return CEL_E_OK;
  char **staging = staging_of(mine, end);
  *out = *staging = malloc(bytes + 1);
  if (*staging == NULL)
    return cel_fail(CEL_E_MEMORY,
                    "no memory to pack a collective of %llu bytes",
                    (unsigned long long)bytes);
  if (end == CEL__GIVEN) pack(m, mine);
  return CEL_E_OK;
}

/* What it goes by, the same on all ranks. */
static MPI_Comm comm_of(const cel__mpi *m, const cel_collective *collective) {
  return m->collective[cel__mpi_length_class(collective->bytes,
                                             CEL__MPI_COLLECTIVES)];
}

/* ---- counts that are no ints ----------------------------------------------
 *
 * One data type for what goes to each rank and one for what comes from it, at
 * its place in memory, so nothing is packed and there are no counts. That takes
 * O(ranks) types each time, which is little beside so many bytes.
 */

typedef struct cel__mpi_types {
  MPI_Datatype *type[2]; /* [end][rank] */
  int *count[2];         /* 0 or 1 */
  int *at;               /* all 0: places are part of the types */
} cel__mpi_types;

/* The type of a part, as seen from `base`. */
static int place_type(const cel_strided *part, const void *base,
                      MPI_Datatype *out) {
  MPI_Datatype runs = MPI_DATATYPE_NULL;
  MPI_Aint at = (MPI_Aint)((uintptr_t)part->base - (uintptr_t)base);
  int one = 1, code = cel__mpi_strided_type(part, &runs);
  if (code == MPI_SUCCESS)
    code = MPI_Type_create_hindexed(1, &one, &at, runs, out);
  if (code == MPI_SUCCESS) code = MPI_Type_commit(out);
  if (runs != MPI_DATATYPE_NULL) MPI_Type_free(&runs);
  return code;
}

static int make_types(const cel__mpi *m, const cel__mpi_collective *mine,
                      cel__collective_end end) {
  const cel_collective *collective = mine->collective;
  cel__mpi_types *wide = mine->wide;
  int code = MPI_SUCCESS;
  for (int64_t k = 0; k < m->base.ranks && code == MPI_SUCCESS; ++k) {
    if (!cel__collective_has(collective, end, m->base.rank, k)) continue;
    cel_strided part = cel__collective_at(collective, end, m->base.rank, k);
    code = place_type(&part, &mine->nothing[end], &wide->type[end][k]);
    wide->count[end][k] = code == MPI_SUCCESS;
  }
  return code;
}

static cel__mpi_types *wide_new(size_t ranks) {
  cel__mpi_types *wide = cel_alloc_zero(sizeof *wide);
  for (int end = 0; end < 2; ++end) {
    wide->type[end] = cel_alloc(ranks * sizeof *wide->type[end]);
    wide->count[end] = cel_alloc_zero(ranks * sizeof *wide->count[end]);
    for (size_t k = 0; k < ranks; ++k) wide->type[end][k] = MPI_BYTE;
  }
  wide->at = cel_alloc_zero(ranks * sizeof *wide->at);
  return wide;
}

static int all_to_all_wide(cel__mpi *m, cel__mpi_collective *mine,
                           MPI_Request *request) {
  cel__mpi_types *wide = mine->wide = wide_new((size_t)m->base.ranks);
  int code = make_types(m, mine, CEL__GIVEN);
  if (code == MPI_SUCCESS) code = make_types(m, mine, CEL__GOT);
  if (code != MPI_SUCCESS) return code;
  return MPI_Ialltoallw(
      &mine->nothing[CEL__GIVEN], wide->count[CEL__GIVEN], wide->at,
      wide->type[CEL__GIVEN], &mine->nothing[CEL__GOT], wide->count[CEL__GOT],
      wide->at, wide->type[CEL__GOT], comm_of(m, mine->collective), request);
}

static void end_wide(const cel__mpi *m, cel__mpi_collective *mine) {
  cel__mpi_types *wide = mine->wide;
  if (wide == NULL) return;
  for (int end = 0; end < 2; ++end) {
    for (int64_t k = 0; k < m->base.ranks; ++k)
      if (wide->count[end][k] > 0) MPI_Type_free(&wide->type[end][k]);
    cel_free(wide->type[end]);
    cel_free(wide->count[end]);
  }
  cel_free(wide->at);
  cel_free(wide);
  mine->wide = NULL;
}

/* ---- starting and ending --------------------------------------------------
 */

int cel__mpi_length_class(uint64_t bytes, int n) {
  if (bytes <= CEL__MPI_SAFE_BYTES || n < 2) return 0;
  return 1 + (int)(cel_hash(&bytes, sizeof bytes, 0) % ((uint64_t)n - 1));
}

static int broadcast(cel__mpi *m, cel__mpi_collective *mine, void *whole,
                     MPI_Request *request) {
  MPI_Datatype type;
  int count,
      code = cel__mpi_bytes_begin(mine->collective->bytes, &count, &type);
  if (code != MPI_SUCCESS) return code;
  mine->type = type == MPI_BYTE ? MPI_DATATYPE_NULL : type;
  return MPI_Ibcast(whole, count, type, (int)mine->collective->root,
                    comm_of(m, mine->collective), request);
}

static int all_to_all(cel__mpi *m, cel__mpi_collective *mine, void *given,
                      MPI_Request *request) {
  const cel_collective *j = mine->collective;
  if (j->wide) return all_to_all_wide(m, mine, request);
  const cel_parts *to = j->to.parts, *from = j->from.parts;
  MPI_Datatype type[2];
  int code = unit_of(m, cel__collective_unit(j, CEL__GIVEN), &type[CEL__GIVEN]);
  if (code == MPI_SUCCESS)
    code = unit_of(m, cel__collective_unit(j, CEL__GOT), &type[CEL__GOT]);
  if (code != MPI_SUCCESS) return code;
  return MPI_Ialltoallv(given, to->count, to->start, type[CEL__GIVEN],
                        mine->got, from->count, from->start, type[CEL__GOT],
                        comm_of(m, j), request);
}

/* Our own operations: of numbers of 8 and 16 bits MPI's may saturate (Open MPI
 * 4.1, on processors with AVX), and kernels wrap. */
static void fold(cel_op op, int class_, void *in, void *into, const int *n,
                 const MPI_Datatype *type) {
  int size;
  MPI_Type_size(*type, &size);
  const cel_operator by = {op, class_, (uint32_t)size};
  cel_operator_fold(&by, into, in, (uint64_t)*n * by.size);
}

#define FOLD(NAME, class_)                                                     \
  static void fold_##NAME##_                                                   \
  ##class_(void *in, void *into, int *n, MPI_Datatype *type) {                 \
    fold(CEL_OP_##NAME, #class_[0], in, into, n, type);                        \
  }
#define FOLDS(_)                                                               \
  _(SUM)                                                                       \
  _(PROD)                                                                      \
  _(MIN)                                                                       \
  _(MAX)                                                                       \
  _(AND)                                                                       \
  _(OR)
#define FOLD_BOTH(NAME) FOLD(NAME, u) FOLD(NAME, i)
FOLDS(FOLD_BOTH)

static int operation_of(cel__mpi *m, const cel_operator *by, MPI_Op *out) {
  static MPI_User_function *const functions[][2] = {
#define FOLD_ROW(NAME) [CEL_OP_##NAME] = {fold_##NAME##_u, fold_##NAME##_i},
      FOLDS(FOLD_ROW)
#undef FOLD_ROW
  };
  _Static_assert(sizeof functions / sizeof *functions == CEL__MPI_OPERATIONS,
                 "all of ours");
  bool is_signed = by->class_ == 'i';
  cel__mpi_operation *one = &m->operation[by->op][is_signed];
  int code = MPI_SUCCESS;
  if (!one->made)
    code = MPI_Op_create(functions[by->op][is_signed], 1, &one->op);
  one->made = one->made || code == MPI_SUCCESS;
  *out = one->op;
  return code;
}

void cel__mpi_release_collective(cel__mpi *m) {
  for (int i = 0; i < CEL__MPI_UNITS; ++i)
    if (m->unit[i].bytes != 0) MPI_Type_free(&m->unit[i].type);
  for (int i = 0; i < CEL__MPI_OPERATIONS; ++i)
    for (int k = 0; k < 2; ++k)
      if (m->operation[i][k].made) MPI_Op_free(&m->operation[i][k].op);
}

static MPI_Datatype number_of(uint32_t size) {
  return size == 1   ? MPI_UINT8_T
         : size == 2 ? MPI_UINT16_T
         : size == 4 ? MPI_UINT32_T
                     : MPI_UINT64_T;
}

/* Of 64 MiB at most, so an int counts them. */
static int all_reduce(cel__mpi *m, const cel_collective *collective, void *at,
                      MPI_Request *request) {
  int count = (int)(collective->bytes / collective->by.size);
  MPI_Op op;
  int code = operation_of(m, &collective->by, &op);
  if (code != MPI_SUCCESS) return code;
  return MPI_Iallreduce(MPI_IN_PLACE, at, count, number_of(collective->by.size),
                        op, comm_of(m, collective), request);
}

/* In place where a rank has its part of the whole that it gives or gets. */
static int start(cel__mpi *m, cel__mpi_collective *mine, void *at,
                 MPI_Request *request) {
  const cel_collective *j = mine->collective;
  if (j->pattern == CEL_PATTERN_BROADCAST)
    return broadcast(m, mine, at, request);
  if (j->pattern == CEL_PATTERN_ALL_TO_ALL)
    return all_to_all(m, mine, at, request);
  if (j->pattern == CEL_PATTERN_ALL_REDUCE)
    return all_reduce(m, j, at, request);
  MPI_Datatype type;
  MPI_Comm comm = comm_of(m, j);
  int code = unit_of(m, j->unit, &type), root = (int)j->root;
  if (code != MPI_SUCCESS) return code;
  int count = j->count[m->base.rank];
  bool whole = cel__collective_whole(j, m->base.rank);
  if (j->pattern == CEL_PATTERN_ALL_GATHER)
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, at, j->count,
                           j->start, type, comm, request);
  if (j->pattern == CEL_PATTERN_GATHER)
    return MPI_Igatherv(whole ? MPI_IN_PLACE : at, count, type, at, j->count,
                        j->start, type, root, comm, request);
  return MPI_Iscatterv(at, j->count, j->start, type, whole ? MPI_IN_PLACE : at,
                       count, type, root, comm, request);
}

void cel__mpi_exchange(void *self, const cel_collective *collective) {
  cel__mpi *m = self;
  cel_assert_driver();
  if (m->failed) {
    cel__mpi_report(m, collective->ticket, false);
    return;
  }
  cel__mpi_collective *mine = cel_alloc(sizeof *mine);
  *mine = (cel__mpi_collective){.collective = collective,
                                .type = MPI_DATATYPE_NULL};
  ++m->transfers;
  void *at;
  MPI_Request request;
  bool two = collective->pattern == CEL_PATTERN_ALL_TO_ALL;
  if ((two && place(m, mine, CEL__GOT, &mine->got) != CEL_E_OK) ||
      place(m, mine, CEL__GIVEN, &at) != CEL_E_OK)
    cel__mpi_fail(m);
  else
    cel__mpi_bad(m, start(m, mine, at, &request), "beginning a collective", -1);
  if (m->failed)
    cel__mpi_joined(m, mine, false);
  else
    cel__mpi_track(m, request, CEL__COLLECTIVE, mine);
}

/* In a job that has failed MPI may go on to write: what it was given stays. */
void cel__mpi_joined(cel__mpi *m, cel__mpi_collective *mine, bool good) {
  if (good) {
    unpack(m, mine);
    end_wide(m, mine);
    for (int end = 0; end < 2; ++end) free(mine->staging[end]);
  }
  if (mine->type != MPI_DATATYPE_NULL) MPI_Type_free(&mine->type);
  cel__mpi_report(m, mine->collective->ticket, good);
  cel_free(mine);
  --m->transfers;
}
