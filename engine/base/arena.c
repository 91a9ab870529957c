#include "base/arena.h"

#include <string.h>

#include "base/status.h"

enum { FIRST_BLOCK = 4096, LARGEST_STEP = 1 << 20, ALIGN = 16 };

struct cel_arena_block {
  cel_arena_block *next;
  size_t size; /* of data */
  _Alignas(ALIGN) unsigned char data[];
};

void cel_arena_init(cel_arena *arena) {
  *arena = (cel_arena){0};
}

static void free_blocks(cel_arena_block *block) {
  while (block != NULL) {
    cel_arena_block *next = block->next;
    cel_free(block);
    block = next;
  }
}

void cel_arena_release(cel_arena *arena) {
  free_blocks(arena->blocks);
  cel_arena_init(arena);
}

void cel_arena_clear(cel_arena *arena) {
  /* Blocks grow, so the newest is among the largest. */
  if (arena->blocks != NULL) {
    free_blocks(arena->blocks->next);
    arena->blocks->next = NULL;
  }
  arena->used = 0;
}

static void add_block(cel_arena *arena, size_t need) {
  size_t size = FIRST_BLOCK;
  if (arena->blocks != NULL) size = arena->blocks->size * 2;
  if (size > LARGEST_STEP) size = LARGEST_STEP;
  if (size < need) size = need;
  cel_arena_block *block = cel_alloc(sizeof *block + size);
  block->next = arena->blocks;
  block->size = size;
  arena->blocks = block;
  arena->used = 0;
}

void *cel_arena_alloc(cel_arena *arena, size_t size) {
  size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (arena->blocks == NULL || arena->blocks->size - arena->used < size)
    add_block(arena, size);
  void *piece = arena->blocks->data + arena->used;
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
