#include "base/ring.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"

struct cel_ring {
  uint32_t mask;
  void **slot;
  _Alignas(CEL_LINE) _Atomic uint32_t head; /* written by the consumer */
  _Alignas(CEL_LINE) _Atomic uint32_t tail; /* written by the producer */
  uint32_t seen_head; /* the producer's: the head is there or further on */
};

cel_ring *cel_ring_create(uint32_t capacity) {
  if (capacity == 0 || (capacity & (capacity - 1)) != 0)
    cel_bug("ring capacity %u is no power of two", capacity);
  cel_ring *ring = cel_alloc_lines(sizeof *ring);
  ring->mask = capacity - 1;
  ring->slot = cel_alloc(capacity * sizeof *ring->slot);
  atomic_init(&ring->head, 0);
  atomic_init(&ring->tail, 0);
  return ring;
}

void cel_ring_destroy(cel_ring *ring) {
  if (ring == NULL) return;
  cel_free(ring->slot);
  cel_free(ring);
}

bool cel_ring_push(cel_ring *ring, void *item) {
  uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  /* The consumer's line is looked at only where there seems to be no room. */
  if (tail - ring->seen_head > ring->mask) {
    ring->seen_head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (tail - ring->seen_head > ring->mask) return false;
  }
  ring->slot[tail & ring->mask] = item;
  atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
  return true;
}

void *cel_ring_pop(cel_ring *ring) {
  uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
  if (head == tail) return NULL;
  void *item = ring->slot[head & ring->mask];
  atomic_store_explicit(&ring->head, head + 1, memory_order_release);
  return item;
}

bool cel_ring_empty(const cel_ring *ring) {
  return atomic_load_explicit(&ring->head, memory_order_acquire) ==
         atomic_load_explicit(&ring->tail, memory_order_acquire);
}
