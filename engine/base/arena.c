#include "base/arena.h"

#include <string.h>

#include "base/status.h"

enum { FIRST_BLOCK = 4096, LARGEST_STEP = 32 << 10, ALIGN = 16 };

struct cel_arena_block {
  cel_arena_block *next; /* in order of use */
  size_t size;           /* of data */
  _Alignas(ALIGN) unsigned char data[];
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

void cel_arena_clear(cel_arena *arena) {
  arena->current = arena->blocks;
  arena->used = 0;
}

static cel_arena_block *make_block(const cel_arena_block *before, size_t need) {
  size_t size = before == NULL ? FIRST_BLOCK : before->size * 2;
  if (size > LARGEST_STEP) size = LARGEST_STEP;
  if (size < need) size = need;
  cel_arena_block *block = cel_alloc(sizeof *block + size);
  block->next = NULL;
  block->size = size;
  return block;
}

/* Goes on in the next block, if there is one from before, and it is large
 * enough; else in a new one before that. */
static void next_block(cel_arena *arena, size_t need) {
  cel_arena_block *current = arena->current;
  cel_arena_block **next = current != NULL ? &current->next : &arena->blocks;
  if (*next == NULL || (*next)->size < need) {
    cel_arena_block *block = make_block(current, need);
    block->next = *next;
    *next = block;
  }
  arena->current = *next;
  arena->used = 0;
}

void *cel_arena_alloc(cel_arena *arena, size_t size) {
  size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (arena->current == NULL || arena->current->size - arena->used < size)
    next_block(arena, size);
  void *piece = arena->current->data + arena->used;
  arena->used += size;
  return piece;
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
