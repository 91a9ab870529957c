#include "command/table.h"

#include "base/status.h"

static uint32_t home(const cel__table *table, uint64_t key_plus_1) {
  return (uint32_t)(key_plus_1 * 0x9e3779b97f4a7c15u >> 32) & (table->cap - 1);
}

/* The slot that holds the key, or the empty one where it would be. */
static uint32_t slot_of(const cel__table *table, uint64_t key_plus_1) {
  uint32_t i = home(table, key_plus_1);
  while (table->slot[i].key != 0 && table->slot[i].key != key_plus_1)
    i = (i + 1) & (table->cap - 1);
  return i;
}

static void grow(cel__table *table) {
  cel__table old = *table;
  table->cap = old.cap == 0 ? 16 : old.cap * 2;
  table->slot = cel_alloc_zero(table->cap * sizeof *table->slot);
  for (uint32_t i = 0; i < old.cap; ++i)
    if (old.slot[i].key != 0)
      table->slot[slot_of(table, old.slot[i].key)] = old.slot[i];
  cel_free(old.slot);
}

cel__slot *cel__table_find(const cel__table *table, uint64_t key) {
  if (table->cap == 0) return NULL;
  cel__slot *slot = &table->slot[slot_of(table, key + 1)];
  return slot->key == 0 ? NULL : slot;
}

cel__slot *cel__table_put(cel__table *table, uint64_t key) {
  cel__slot *slot = cel__table_find(table, key);
  if (slot != NULL) return slot;
  if (2 * (table->n + 1) > table->cap) grow(table);
  slot = &table->slot[slot_of(table, key + 1)];
  *slot = (cel__slot){.key = key + 1};
  ++table->n;
  return slot;
}

/* Moves later ones of the run up, so that no probe meets a hole. */
void cel__table_remove(cel__table *table, uint64_t key) {
  cel__slot *slot = cel__table_find(table, key);
  if (slot == NULL) return;
  uint32_t mask = table->cap - 1, hole = (uint32_t)(slot - table->slot);
  for (uint32_t i = (hole + 1) & mask; table->slot[i].key != 0;
       i = (i + 1) & mask) {
    uint32_t from = home(table, table->slot[i].key);
    if (((i - from) & mask) < ((i - hole) & mask)) continue;
    table->slot[hole] = table->slot[i];
    hole = i;
  }
  table->slot[hole] = (cel__slot){0};
  --table->n;
}

void cel__table_release(cel__table *table) {
  cel_free(table->slot);
  *table = (cel__table){0};
}
