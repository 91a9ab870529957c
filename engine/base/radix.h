/* radix.h -- the order of many numbers.
 *
 * An order says where the numbers of a list belong: its entry i is of the
 * number that comes i-th. Equal ones keep the order of the list, where -0
 * equals 0 and a NaN is larger than all else. Each entry has a *code*: unsigned
 * numbers that compare as those of the list do, alike for lists of one kind.
 * So lists on several ranks are compared by codes.
 *
 * Cost: 32 bytes for each number; one pass over them for each 11 bits in which
 * codes differ, and one more. Pure. Thread: any; an order is its caller's.
 * Lua calls these functions through FFI (lua/celer/arrays/sorting.lua).
 */
#ifndef CEL_BASE_RADIX_H
#define CEL_BASE_RADIX_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

typedef struct cel_radix_entry {
  uint64_t code, place; /* in the list */
} cel_radix_entry;

typedef struct cel_radix_order {
  uint64_t count;
  cel_radix_entry *at, *room;
} cel_radix_order;

/* The order of `count` numbers of `size` bytes at `from`, 1, 2, 4 or 8; whole
 * ones with a sign ('i') or without ('u', 'b'), or floating-point ones ('f').
 * `descending`: the largest first, a NaN before it. The caller owns it, for
 * cel_radix_destroy. Null: there is no memory for it. */
cel_radix_order *cel_radix_create(const void *from, uint32_t size, char kind,
                                  bool descending, uint64_t count);
void cel_radix_destroy(cel_radix_order *order);
/* How many come before the first that has this code or a larger one. */
uint64_t cel_radix_below(const cel_radix_order *order, uint64_t code);
/* Elements of `size` bytes of a list, in this order; the two do not overlap. */
void cel_radix_take(const cel_radix_order *order, const void *from,
                    uint32_t size, void *to);

#endif
