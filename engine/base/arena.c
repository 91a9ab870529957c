#include "base/arena.h"

#include <string.h>

#include "base/status.h"
#include "tuning.h"

struct cel_arena_block {
  cel_arena_block *next; /* in order of use */
  size_t size;           /* of data */
  _Alignas(CEL_ARENA_ALIGN) unsigned char data[];
};

void cel_arena_init(cel_arena *arena) {
  *arena = (cel_arena){0};
}

void cel_arena_release(cel_arena *arena) {
  cel_arena_block *block = arena->blocks;
  while (block != NULL) {
    cel_arena_block *next = block->next;
    cel_free(block);
    block = next;
  }
  cel_arena_init(arena);
}

static void go_on_in(cel_arena *arena, cel_arena_block *block) {
  arena->current = block;
  arena->at = block->data;
  arena->end = block->data + block->size;
}

/* Of blocks for large pieces one is kept, the largest: as a piece looks at the
 * next block alone, there might be ever more of them. */
void cel_arena_clear(cel_arena *arena) {
  const cel_arena_block *largest = arena->blocks;
  for (const cel_arena_block *b = arena->blocks; b != NULL; b = b->next)
    if (b->size > largest->size) largest = b;
  for (cel_arena_block **at = &arena->blocks; *at != NULL;) {
    cel_arena_block *block = *at;
    if (block->size <= CEL_TUNE_ARENA_STEP || block == largest) {
      at = &block->next;
    } else {
      *at = block->next;
      cel_free(block);
    }
  }
  if (arena->blocks != NULL) go_on_in(arena, arena->blocks);
}

static cel_arena_block *make_block(const cel_arena_block *before, size_t need) {
  size_t size = before == NULL ? CEL_TUNE_ARENA_FIRST : before->size * 2;
  if (size > CEL_TUNE_ARENA_STEP) size = CEL_TUNE_ARENA_STEP;
  if (size < need) size = need;
  cel_arena_block *block = cel_alloc(sizeof *block + size);
  block->next = NULL;
  block->size = size;
  return block;
}

/* Goes on in the next block, if there is one from before, and it is large
 * enough; else in a new one before that. */
void *cel__arena_more(cel_arena *arena, size_t size) {
  cel_arena_block *current = arena->current;
  cel_arena_block **next = current != NULL ? &current->next : &arena->blocks;
  if (*next == NULL || (*next)->size < size) {
    cel_arena_block *block = make_block(current, size);
    block->next = *next;
    *next = block;
  }
  go_on_in(arena, *next);
  arena->at += size;
  return arena->current->data;
}

void *cel_arena_copy(cel_arena *arena, const void *data, size_t size) {
  void *piece = cel_arena_alloc(arena, size);
  if (size > 0) memcpy(piece, data, size);
  return piece;
}

size_t cel_arena_bytes(const cel_arena *arena) {
  size_t sum = 0;
  for (const cel_arena_block *b = arena->blocks; b != NULL; b = b->next)
    sum += sizeof *b + b->size;
  return sum;
}
