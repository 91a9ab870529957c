/* intern.h -- objects made once: equal contents, one small id.
 *
 * Representations, versions and footprints are compared and cached by id. An
 * object begins with a cel__interned; its id stays until a sweep drops it, and
 * may then be given to another.
 *
 * Invariant: two ids are equal iff the contents are. Nothing else about an id
 * means anything, and ranks may number the same objects differently.
 * Cost: find and add are O(1), sweep is linear. Confined.
 */
#ifndef CEL_COMMAND_OWN_INTERN_H
#define CEL_COMMAND_OWN_INTERN_H

#include "base/vec.h"

typedef struct cel__interned {
  uint64_t hash;
  uint32_t next; /* in its chain; 0 ends it */
  uint32_t mark; /* what a sweep keeps */
} cel__interned;

enum { CEL__NO_ID = 0 }; /* ids start at 1 */

typedef struct cel__interner {
  CEL_VEC(cel__interned *) object; /* by id; null where free; [0] is unused */
  CEL_VEC(uint32_t) free_ids;
  uint32_t *head; /* chains by hash */
  uint32_t heads, count;
} cel__interner;

/* The object of `id`, borrowed until a sweep drops it. */
static inline void *cel__interner_at(const cel__interner *in, uint32_t id) {
  return in->object.at[id];
}

/* The first id of the chain of `hash`, then the next: the caller compares. */
uint32_t cel__interner_first(const cel__interner *in, uint64_t hash);
uint32_t cel__interner_next(const cel__interner *in, uint32_t id,
                            uint64_t hash);
/* Takes the object over; it must not be there yet. */
uint32_t cel__interner_add(cel__interner *in, cel__interned *object,
                           uint64_t hash);
/* Gives every unmarked object to `drop` and clears all marks. */
void cel__interner_sweep(cel__interner *in, void (*drop)(cel__interned *));
/* Drops every object and all memory; zero again. */
void cel__interner_release(cel__interner *in, void (*drop)(cel__interned *));
/* Bytes of the tables, without the objects. */
size_t cel__interner_bytes(const cel__interner *in);

#endif
