#include <limits.h>
#include <stdlib.h>

#include "comm/mpi/mpi.h"
#include "comm/strided.h"
#include "tuning.h"

/* --- staging ----------------------------------------------------------- */

static uint32_t pool_class(uint64_t bytes) {
  uint32_t k = 0;
  while (k < CEL__POOL_CLASSES &&
         ((uint64_t)1 << (CEL__POOL_SMALLEST + k)) < bytes)
    ++k;
  return k;
}

/* Null when there is no memory: messages are user data. */
static void *staging_take(cel__mpi_pool *pool, uint64_t bytes) {
  uint32_t k = pool_class(bytes);
  if (k == CEL__POOL_CLASSES) return malloc(bytes);
  cel__mpi_block *block = pool->free[k];
  if (block == NULL) return malloc((size_t)1 << (CEL__POOL_SMALLEST + k));
  pool->free[k] = block->next;
  --pool->kept[k];
  return block;
}

static void staging_give(cel__mpi_pool *pool, void *staging, uint64_t bytes) {
  uint32_t k = pool_class(bytes);
  if (k == CEL__POOL_CLASSES || pool->kept[k] == CEL_TUNE_MPI_KEPT) {
    free(staging);
    return;
  }
  cel__mpi_block *block = staging;
  block->next = pool->free[k];
  pool->free[k] = block;
  ++pool->kept[k];
}

void cel__mpi_release_pool(cel__mpi *m) {
  for (uint32_t k = 0; k < CEL__POOL_CLASSES; ++k)
    for (cel__mpi_block *block; (block = m->pool.free[k]) != NULL;) {
      m->pool.free[k] = block->next;
      free(block);
    }
}

/* --- types ------------------------------------------------------------- */

enum { BIG_CHUNK = 1 << 30 };

/* Bytes in a row whose number does not fit into an int: whole chunks, then the
 * rest. */
int cel__mpi_big_type(uint64_t bytes, MPI_Datatype *out) {
  MPI_Datatype chunk = MPI_DATATYPE_NULL, chunks = MPI_DATATYPE_NULL;
  uint64_t n = bytes / BIG_CHUNK;
  int code = MPI_Type_contiguous(BIG_CHUNK, MPI_BYTE, &chunk);
  if (code == MPI_SUCCESS) code = MPI_Type_contiguous((int)n, chunk, &chunks);
  if (code == MPI_SUCCESS) {
    int blocks[2] = {1, (int)(bytes % BIG_CHUNK)};
    MPI_Aint at[2] = {0, (MPI_Aint)(n * BIG_CHUNK)};
    MPI_Datatype types[2] = {chunks, MPI_BYTE};
    code = MPI_Type_create_struct(2, blocks, at, types, out);
  }
  if (chunk != MPI_DATATYPE_NULL) MPI_Type_free(&chunk);
  if (chunks != MPI_DATATYPE_NULL) MPI_Type_free(&chunks);
  return code;
}

int cel__mpi_strided_type(const cel_strided *s, MPI_Datatype *out) {
  MPI_Datatype row = MPI_DATATYPE_NULL;
  MPI_Datatype run = MPI_BYTE;
  int length = (int)s->run, code = MPI_SUCCESS;
  if (s->run > INT_MAX) {
    length = 1;
    code = cel__mpi_big_type(s->run, &run);
  }
  if (code == MPI_SUCCESS)
    code = MPI_Type_create_hvector((int)s->count[1], length,
                                   (MPI_Aint)s->stride[1], run, &row);
  if (code == MPI_SUCCESS)
    code = MPI_Type_create_hvector((int)s->count[0], 1, (MPI_Aint)s->stride[0],
                                   row, out);
  if (run != MPI_BYTE && run != MPI_DATATYPE_NULL) MPI_Type_free(&run);
  if (row != MPI_DATATYPE_NULL) MPI_Type_free(&row);
  return code;
}

/* One item of a type made for this transfer. */
static cel_status use_type(cel__mpi_transfer *transfer, int code, int *count,
                           MPI_Datatype *type) {
  if (code == MPI_SUCCESS) code = MPI_Type_commit(&transfer->type);
  if (code != MPI_SUCCESS)
    return cel_fail(CEL_E_COMM, "MPI has no room for another data type");
  *count = 1;
  *type = transfer->type;
  return CEL_E_OK;
}

static cel_status use_bytes(cel__mpi_transfer *transfer, uint64_t bytes,
                            int *count, MPI_Datatype *type) {
  if (bytes > INT_MAX)
    return use_type(transfer, cel__mpi_big_type(bytes, &transfer->type), count,
                    type);
  *count = (int)bytes;
  *type = MPI_BYTE;
  return CEL_E_OK;
}

static cel_status use_staging(cel__mpi *m, cel__mpi_transfer *transfer,
                              void **base) {
  const cel_posted *message = transfer->message;
  transfer->staging = staging_take(&m->pool, message->bytes);
  if (transfer->staging == NULL)
    return cel_fail(CEL_E_MEMORY, "no memory to pack a message of %llu bytes",
                    (unsigned long long)message->bytes);
  *base = transfer->staging;
  if (transfer->side->role == CEL__RECEIVE) return CEL_E_OK;
  cel__strided_gather(message->piece, message->pieces, transfer->staging);
  return CEL_E_OK;
}

cel_status cel__mpi_pack(cel__mpi *m, cel__mpi_transfer *transfer, void **base,
                         int *count, MPI_Datatype *type) {
  const cel_posted *message = transfer->message;
  cel_strided only = {0};
  if (message->pieces == 1) only = cel__strided_merged(message->piece[0]);
  bool dense = message->bytes == 0 ||
               (message->pieces == 1 && only.count[0] * only.count[1] == 1);
  bool typed = !dense && message->pieces == 1 &&
               message->bytes > m->config.small_bytes &&
               !cel__mpi_in_parts(m, transfer) && only.count[0] <= INT_MAX &&
               only.count[1] <= INT_MAX;
  if (typed) {
    *base = only.base;
    return use_type(transfer, cel__mpi_strided_type(&only, &transfer->type),
                    count, type);
  }
  *base = only.base;
  if (!dense) CEL_TRY(use_staging(m, transfer, base));
  return use_bytes(transfer, message->bytes, count, type);
}

void cel__mpi_unpack(cel__mpi *m, cel__mpi_transfer *transfer, bool arrived) {
  const cel_posted *message = transfer->message;
  if (transfer->staging != NULL) {
    if (arrived && transfer->side->role == CEL__RECEIVE)
      cel__strided_scatter(message->piece, message->pieces, transfer->staging);
    staging_give(&m->pool, transfer->staging, message->bytes);
    transfer->staging = NULL;
  }
  if (transfer->type != MPI_DATATYPE_NULL) MPI_Type_free(&transfer->type);
}
