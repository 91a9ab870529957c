/* mpi_window.h -- one direction of one pair of ranks: which transfers may
 * start.
 *
 * Transfers are numbered from 0 in command order, handed over in any order, and
 * matched by tag = number mod `size`. Two in flight with one tag would be taken
 * for each other, so both ends keep a window over the numbers.
 *
 * Invariants:
 *   1. Every transfer below `base` is complete; `base` itself is not.
 *   2. What has started and is not complete lies in [base, base + size).
 *   3. A sender starts only below `granted`, which is at most the receiver's
 *      base + size / 2: hence what is under way and what the receiver has
 *      posted lie within one span of `size`, and no two share a tag.
 *   4. `waiting` is a binary heap, the lowest number first.
 * Cost: O(log waiting) to add and take, O(1) amortised to complete. Confined.
 */
#ifndef CEL_COMM_MPI_MPI_WINDOW_H
#define CEL_COMM_MPI_MPI_WINDOW_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

typedef struct cel_mpi_window_entry {
  uint64_t sequence;
  void *item;
} cel_mpi_window_entry;

typedef struct cel_mpi_window {
  uint32_t size; /* a power of two, 2 or more */
  uint64_t base, granted;
  uint64_t
      *complete; /* bit q mod size: q is complete, base < q < base + size */
  struct {
    cel_mpi_window_entry *at;
    uint32_t n, cap;
  } waiting;
} cel_mpi_window;

/* The holder owns it and calls release. A receiver's window is granted all. */
void cel_mpi_window_init(cel_mpi_window *window, uint32_t size,
                         uint64_t granted);
void cel_mpi_window_release(cel_mpi_window *window);
/* Hands over transfer `sequence`, which is not complete; `item` is borrowed. */
void cel_mpi_window_add(cel_mpi_window *window, uint64_t sequence, void *item);
/* Whether take would give an item. With `full`, only transfer `base` may. */
bool cel_mpi_window_ready(const cel_mpi_window *window, bool full);
/* The lowest waiting transfer if it may start, else null. */
void *cel_mpi_window_take(cel_mpi_window *window, bool full);
/* Transfer `sequence`, which has started, is complete. */
void cel_mpi_window_complete(cel_mpi_window *window, uint64_t sequence);
/* The receiver says that it has everything below `base`. */
void cel_mpi_window_credit(cel_mpi_window *window, uint64_t base);
void cel_mpi_window_check(const cel_mpi_window *window);

#endif
