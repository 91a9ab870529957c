/* Collectives of more than an int can count: one data type for what goes to
 * each rank and one for what comes from it, at its place in memory, so nothing
 * is packed and there are no counts. That takes O(ranks) types each time, which
 * is little beside so many bytes.
 */
#include "comm/collectives.h"
#include "comm/mpi/mpi.h"

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

int cel__mpi_wide(cel__mpi *m, cel__mpi_collective *mine,
                  MPI_Request *request) {
  cel__mpi_types *wide = mine->wide = wide_new((size_t)m->base.ranks);
  int code = make_types(m, mine, CEL__GIVEN);
  if (code == MPI_SUCCESS) code = make_types(m, mine, CEL__GOT);
  if (code != MPI_SUCCESS) return code;
  return MPI_Ialltoallw(&mine->nothing[CEL__GIVEN], wide->count[CEL__GIVEN],
                        wide->at, wide->type[CEL__GIVEN],
                        &mine->nothing[CEL__GOT], wide->count[CEL__GOT],
                        wide->at, wide->type[CEL__GOT],
                        cel__mpi_collective_comm(m, mine->collective), request);
}

void cel__mpi_end_wide(const cel__mpi *m, cel__mpi_collective *mine) {
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
