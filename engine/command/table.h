/* table.h -- a small hash table from a 64-bit key to two words.
 *
 * For what is sparse in a large space: buffers by id, sequence numbers by peer.
 * Invariant: linear probing without holes; a key's slot moves with any insert
 * or remove.
 * Cost: O(1). The holder owns it: zero ... release. Confined.
 */
#ifndef CEL_COMMAND_TABLE_H
#define CEL_COMMAND_TABLE_H

#include <stdint.h>

typedef struct cel__slot {
  uint64_t key; /* plus 1; 0 is an empty slot */
  uint64_t a, b;
} cel__slot;

typedef struct cel__table {
  cel__slot *slot;
  uint32_t cap, n;
} cel__table;

/* The slot of `key`, made of zeros when it is new; valid until the next call.
 */
cel__slot *cel__table_put(cel__table *table, uint64_t key);
/* Null when it is not there. */
cel__slot *cel__table_find(const cel__table *table, uint64_t key);
void cel__table_remove(cel__table *table, uint64_t key);
void cel__table_release(cel__table *table);

#endif
