/* reserved.h -- what memory is reserved and not released, and for which
 * buffers. Confined to the executor.
 */
#ifndef CEL_EXEC_RESERVED_H
#define CEL_EXEC_RESERVED_H

#include "base/vec.h"
#include "device/backend.h"
#include "instr/instr.h"

typedef struct cel_reserved {
  int32_t memory;
  uint64_t bytes;
  void *address;
  const cel_buffer *buffer;
  uint64_t committed; /* about: ranges meet at grains */
} cel_reserved;

/* All zero to begin; the holder owns it. */
typedef struct cel_reserved_list {
  CEL_VEC(cel_reserved) all;
} cel_reserved_list;

/* Carries out an ALLOC, COMMIT, DECOMMIT or FREE, and notes it. CEL_E_MEMORY,
 * as the backend. */
cel_status cel_reserved_change(cel_reserved_list *list, cel_backend *backend,
                               const cel_instr *instr);
/* Adds "; it is held by u (2.0 GiB), v (16.0 MiB)" to a text: of a memory the
 * buffers that have most committed. */
void cel_reserved_say(const cel_reserved_list *list, int32_t memory, char *text,
                      size_t size);
#endif
