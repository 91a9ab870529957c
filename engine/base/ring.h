/* ring.h -- bounded FIFO from one producer thread to one consumer thread.
 *
 * Hands pointers from main to scheduler and from scheduler to executor.
 *
 * Invariants: capacity is a power of two; 0 <= tail - head <= capacity, where
 * both counters only grow (mod 2^32) and are masked on access.
 * Cost: push and pop are O(1), wait-free, and never allocate.
 */
#ifndef CEL_BASE_RING_H
#define CEL_BASE_RING_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

typedef struct cel_ring cel_ring;

/* Makes an empty ring of `capacity` slots, a power of two; the caller owns the
 * result and gives it to destroy. Thread: any. */
cel_ring *cel_ring_create(uint32_t capacity);
/* Both threads are done with it. Thread: any. */
void cel_ring_destroy(cel_ring *ring);
/* False when full. Thread: producer. */
bool cel_ring_push(cel_ring *ring, void *item);
/* Null when empty. Thread: consumer. */
void *cel_ring_pop(cel_ring *ring);
/* Whether pop would give null just now. Thread: any. */
bool cel_ring_empty(const cel_ring *ring);

#endif
