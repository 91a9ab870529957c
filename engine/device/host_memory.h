/* host_memory.h -- user data in memory that the processor addresses.
 *
 * Small pieces come from a pool by size class; large ones are mapped, so that
 * what is reserved and never touched costs nothing. Confined to the executor.
 */
#ifndef CEL_DEVICE_HOST_MEMORY_H
#define CEL_DEVICE_HOST_MEMORY_H

#include "base/status.h"

enum { CEL_MEMORY_SMALL = 128 << 10, CEL_MEMORY_CLASSES = 12 };

typedef struct cel_pool {
  void *free[CEL_MEMORY_CLASSES]; /* class c: pieces of 64 << c bytes */
} cel_pool;

/* At least `bytes`, aligned to 64 bytes, large ones to pages; uninitialised.
 * CEL_E_MEMORY says how much is free. */
cel_status cel_pool_reserve(cel_pool *pool, uint64_t bytes, void **out);
/* `bytes` as given to reserve. */
void cel_pool_release(cel_pool *pool, void *p, uint64_t bytes);
/* Gives the pool's pieces back to the system; those in use stay. */
void cel_pool_clear(cel_pool *pool);

/* Whether the host could ever hold so much: what is mapped and larger than that
 * would end the process when it is touched. CEL_E_MEMORY. Thread: any. */
cel_status cel_memory_fits(uint64_t bytes);

/* One large piece, without a pool. */
cel_status cel__memory_map(uint64_t bytes, void **out);
void cel__memory_unmap(void *p, uint64_t bytes);
/* Takes the memory from whole pages of it, until they are touched again. */
void cel__memory_vacate(void *p, uint64_t bytes);

#endif
