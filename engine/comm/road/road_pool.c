#include "comm/road/road_state.h"

/* Slabs hold some buffers each, as pinned memory is made by the grain. Kept
 * until the end: to pin memory takes longer than to copy it. */
static bool grow(cel__road *road) {
  cel_cuda_memory *memory = &road->memory;
  uint64_t size = road->config.chunk_most;
  uint64_t bytes = size * CEL__ROAD_SLAB;
  bytes = (bytes + CEL_CUDA_GRAIN - 1) / CEL_CUDA_GRAIN * CEL_CUDA_GRAIN;
  void *slab;
  bool pinned = road->config.way != CEL_ROAD_MPI;
  if (!road->opened)
    cel_cuda_memory_init(memory, road->config.cuda, pinned ? -1 : 0, pinned);
  road->opened = true;
  if (cel_cuda_memory_reserve(memory, bytes, &slab) != CEL_E_OK) {
    cel__road_fail(road);
    return false;
  }
  if (cel_cuda_memory_commit(memory, slab, 0, bytes) != CEL_E_OK) {
    cel__road_fail(road);
    return false;
  }
  for (uint64_t i = 0; i < CEL__ROAD_SLAB; ++i)
    cel_vec_push(&road->free, (char *)slab + i * size);
  road->buffers += CEL__ROAD_SLAB;
  return true;
}

void *cel__road_take(cel__road *road, bool needed) {
  uint32_t used = road->buffers - road->free.n;
  if (used >= road->config.buffers && !needed) return NULL;
  if (road->free.n == 0 && !grow(road)) return NULL;
  return cel_vec_pop(&road->free);
}

void cel__road_clear_pool(cel__road *road) {
  if (road->opened) cel_cuda_memory_clear(&road->memory);
  cel_vec_release(&road->free);
}
