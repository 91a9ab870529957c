/* arena.h -- memory that dies together.
 *
 * Graph nodes live in one arena per horizon: pieces are carved off in order and
 * never freed singly; the whole arena is cleared at once and its blocks reused.
 *
 * Invariant: every piece is aligned to 16 bytes and stays where it is until
 * clear or release.
 * Cost: O(1) per piece. Confined to one thread at a time.
 */
#ifndef CEL_BASE_ARENA_H
#define CEL_BASE_ARENA_H

#ifndef CEL_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

enum { CEL_ARENA_ALIGN = 16 };

typedef struct cel_arena_block cel_arena_block;

typedef struct cel_arena {
  cel_arena_block *blocks;  /* all, in order of use */
  cel_arena_block *current; /* those after it are free */
  unsigned char *at, *end;  /* what is left of it */
} cel_arena;

/* An empty arena; the holder owns it and calls release. Thread: any. */
void cel_arena_init(cel_arena *arena);
/* Frees every block. */
void cel_arena_release(cel_arena *arena);
/* Forgets every piece and keeps the blocks for reuse, of long ones one. */
void cel_arena_clear(cel_arena *arena);
/* cel_arena_alloc where the present block is full; `size` is aligned. */
void *cel__arena_more(cel_arena *arena, size_t size);
#ifndef CEL_CDEF
/* `size` bytes, uninitialised; never null. Owned by the arena. */
static inline void *cel_arena_alloc(cel_arena *arena, size_t size) {
  size_t aligned =
      (size + CEL_ARENA_ALIGN - 1) & ~(size_t)(CEL_ARENA_ALIGN - 1);
  if ((size_t)(arena->end - arena->at) < aligned || arena->at == NULL)
    return cel__arena_more(arena, aligned);
  void *piece = arena->at;
  arena->at += aligned;
  return piece;
}
#endif
/* A copy of `size` bytes at `data`. */
void *cel_arena_copy(cel_arena *arena, const void *data, size_t size);
/* Bytes held from the system. */
size_t cel_arena_bytes(const cel_arena *arena);

#endif
