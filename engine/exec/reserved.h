/* reserved.h -- what memory is reserved and not released, and for which
 * buffers.
 *
 * An allocation may have *spare* memory: as much as it has, committed where it
 * is. A fold leaves there what it has made, and the allocation's address and
 * the spare one change places. Spares take memory that nothing else has; what
 * is not *busy*, used by a job under way, goes as soon as something else needs
 * it, or some of the allocation's memory is taken back.
 * Confined to the executor.
 */
#ifndef CEL_EXEC_RESERVED_H
#define CEL_EXEC_RESERVED_H

#include "base/vec.h"
#include "device/backend.h"
#include "instr/instr.h"
#include "region/region.h"

typedef struct cel_reserved {
  int32_t memory;
  uint64_t bytes;
  void *address;
  const cel_buffer *buffer;
  bool whole;         /* has all its memory, always */
  uint64_t committed; /* about: ranges meet at grains */
  /* Bytes: boxes [begin, end) x 1 x 1; of one that is not whole. */
  cel_region ranges, spare_ranges;
  void *spare; /* null: there is none */
  uint32_t busy;
} cel_reserved;

/* All zero to begin; the holder owns it. */
typedef struct cel_reserved_list {
  CEL_VEC(cel_reserved) all;
} cel_reserved_list;

/* Whether there is room for what the instruction takes, once spares have gone
 * that are not busy; false: it has to wait for one that is. */
bool cel_reserved_make_room(cel_reserved_list *list, cel_backend *backend,
                            const cel_instr *instr);
/* Carries out an ALLOC, COMMIT, DECOMMIT or FREE, and notes it. CEL_E_MEMORY,
 * as the backend. */
cel_status cel_reserved_change(cel_reserved_list *list, cel_backend *backend,
                               const cel_instr *instr);
/* *heir takes the memory of an allocation that would be freed; false: not all
 * of it is there. */
bool cel_reserved_hand_on(cel_reserved_list *list, cel_backend *backend,
                          cel_allocation *allocation, cel_allocation *heir);
/* Spare memory for an allocation; null: there is no room for it. */
void *cel_reserved_spare(cel_reserved_list *list, cel_backend *backend,
                         const cel_allocation *allocation);
/* The allocation takes its spare memory for its own, which becomes spare. */
void cel_reserved_swap(cel_reserved_list *list, cel_allocation *allocation);
/* A job uses both, or does no more. */
void cel_reserved_hold(cel_reserved_list *list,
                       const cel_allocation *allocation, bool holds);
/* Releases all. */
void cel_reserved_release(cel_reserved_list *list, cel_backend *backend);
/* Adds "; it is held by u (2.0 GiB), v (16.0 MiB)" to a text: of a memory the
 * buffers that have most committed. */
void cel_reserved_say(const cel_reserved_list *list, int32_t memory, char *text,
                      size_t size);
#endif
