#include "region/track.h"

#include <string.h>

#include "base/sort.h"
#include "base/vec.h"
#include "region/map.h"

/* A state is who wrote a part last and who has read it since, newest reader
 * first. It is a map value: `writer << 1` while nobody has read, otherwise
 * `cell << 1 | 1`, where a cell adds one reader to another state. Cells are
 * hash-consed, so equal states are equal values and neighbours merge. */
typedef struct cell {
  uint64_t reader;
  uint64_t next; /* the state before it read; its readers are older */
  uint64_t writer;
} cell;

/* Ids ascend, so the cells of one reader lie side by side, and only the last
 * ones can be what is looked for. While states are rewritten they are mixed. */
typedef struct cells {
  CEL_VEC(cell) all;
  bool mixed;
  uint32_t *slots; /* hash table of cell + 1, 0 for free; null while few */
  uint32_t n_slots;
  uint32_t hashed; /* the first cell in it; the others are of its reader */
} cells;

struct cel_track {
  cel_map *map;
  cells cells;
  uint32_t collect_at; /* cells at which to look for dead ones */
  cells old;           /* scratch, as the next two */
  CEL_VEC(uint64_t) moved;
  CEL_VEC(cel_dep) found; /* as the map has them: not by id */
};

enum {
  COLLECT_LEAST = 64,
  FEW = 16,     /* dependencies that are added one by one */
  UNHASHED = 8, /* cells that are looked through first */
};

/* ---------------------------------------------------------------- states */

static inline uint64_t state_of_writer(uint64_t writer) {
  return writer << 1;
}

static inline const cell *cell_of(const cells *cells, uint64_t state) {
  return state & 1 ? &cells->all.at[state >> 1] : NULL;
}

static inline uint64_t writer_of(const cells *cells, uint64_t state) {
  const cell *c = cell_of(cells, state);
  return c ? c->writer : state >> 1;
}

static uint32_t slot_of(const cells *cells, uint64_t reader, uint64_t next) {
  uint64_t h = (reader ^ next * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  uint32_t i = (uint32_t)(h >> 32) & (cells->n_slots - 1);
  for (; cells->slots[i]; i = (i + 1) & (cells->n_slots - 1)) {
    const cell *c = &cells->all.at[cells->slots[i] - 1];
    if (c->reader == reader && c->next == next) break;
  }
  return i;
}

/* For what is there, which may be much where there were none, and one more. */
static void grow_slots(cells *cells) {
  cel_free(cells->slots);
  do cells->n_slots = cells->n_slots ? 2 * cells->n_slots : 4 * UNHASHED;
  while (2 * (cells->all.n - cells->hashed) >= cells->n_slots);
  cells->slots = cel_alloc_zero(cells->n_slots * sizeof *cells->slots);
  for (uint32_t i = cells->hashed; i < cells->all.n; ++i) {
    const cell *c = &cells->all.at[i];
    cells->slots[slot_of(cells, c->reader, c->next)] = i + 1;
  }
}

static void drop_slots(cells *cells) {
  cel_free(cells->slots);
  cells->slots = NULL;
  cells->n_slots = 0;
}

static uint64_t state_of_cell(uint32_t i) {
  return (uint64_t)i << 1 | 1;
}

static uint64_t add_cell(cells *cells, uint64_t reader, uint64_t next) {
  cel_vec_push(&cells->all, (cell){reader, next, writer_of(cells, next)});
  return state_of_cell(cells->all.n - 1);
}

static uint64_t push_hashed(cells *cells, uint64_t reader, uint64_t next) {
  if (2 * (cells->all.n - cells->hashed) >= cells->n_slots) grow_slots(cells);
  uint32_t *slot = &cells->slots[slot_of(cells, reader, next)];
  if (*slot != 0) return state_of_cell(*slot - 1);
  *slot = cells->all.n + 1;
  return add_cell(cells, reader, next);
}

static uint64_t push_reader(cells *cells, uint64_t reader, uint64_t next) {
  const cell *at = cells->all.at;
  uint32_t n = cells->all.n, i = n;
  if (cells->n_slots > 0) {
    if (cells->mixed || at[cells->hashed].reader == reader)
      return push_hashed(cells, reader, next);
    drop_slots(cells);
  }
  for (; i > 0 && (cells->mixed || at[i - 1].reader == reader); --i) {
    if (at[i - 1].reader == reader && at[i - 1].next == next)
      return state_of_cell(i - 1);
    if (n - i < UNHASHED) continue;
    while (i > 0 && (cells->mixed || at[i - 1].reader == reader)) --i;
    cells->hashed = i;
    return push_hashed(cells, reader, next);
  }
  return add_cell(cells, reader, next);
}

/* The state after `reader` has read too. Ids ascend, so the loop is for callers
 * that come back to an older node. */
static uint64_t add_reader(cells *cells, uint64_t state, uint64_t reader) {
  const cell *c = cell_of(cells, state);
  if (c == NULL || c->reader < reader) return push_reader(cells, reader, state);
  if (c->reader == reader) return state;
  uint64_t newer = c->reader;
  return push_reader(cells, newer, add_reader(cells, c->next, reader));
}

/* Keeps what few cells need, which is what most tracks have. */
static void clear_cells(cells *cells) {
  cel_vec_clear(&cells->all);
  drop_slots(cells);
}

static void release_cells(cells *cells) {
  clear_cells(cells);
  cel_vec_release(&cells->all);
}

/* ------------------------------------------------------------- the floor */

typedef struct move {
  const cells *from;
  cells *to;
  uint64_t floor;
  uint64_t *moved; /* per old cell: its new state, or UNKNOWN */
} move;

#define UNKNOWN UINT64_MAX

static uint64_t raise_id(const move *m, uint64_t id) {
  return id != 0 && id < m->floor ? m->floor : id;
}

static uint64_t move_state(move *m, uint64_t state) {
  /* Down to what is known, turning the links around in `moved`, then up. */
  uint64_t below = UNKNOWN, at = state;
  while (at & 1 && m->moved[at >> 1] == UNKNOWN) {
    m->moved[at >> 1] = below;
    below = at;
    at = m->from->all.at[at >> 1].next;
  }
  uint64_t now =
      at & 1 ? m->moved[at >> 1] : state_of_writer(raise_id(m, at >> 1));
  while (below != UNKNOWN) {
    uint64_t *slot = &m->moved[below >> 1];
    uint64_t reader = raise_id(m, m->from->all.at[below >> 1].reader);
    below = *slot;
    *slot = now = add_reader(m->to, now, reader);
  }
  return now;
}

/* A map value's new state. If the floor is all that is left of readers and of
 * the writer, the writer says it alone: whoever writes next comes after it
 * anyway. With later readers the floor stays among the readers, because those
 * need not come after it. */
static uint64_t move_value(uint64_t value, void *context) {
  move *m = context;
  uint64_t now = move_state(m, value), floor = m->floor;
  const cell *c = cell_of(m->to, now);
  if (c && c->reader == floor && c->next == state_of_writer(floor))
    return c->next;
  return now;
}

/* Moves all states in use to new cells, with ids below `floor` raised to it. */
static void rebuild(cel_track *track, uint64_t floor) {
  cells swap = track->old;
  track->old = track->cells;
  track->cells = swap;
  cel_vec_clear(&track->moved);
  cel_vec_reserve(&track->moved, track->old.all.n);
  for (uint32_t i = 0; i < track->old.all.n; ++i) track->moved.at[i] = UNKNOWN;
  move m = {&track->old, &track->cells, floor, track->moved.at};
  track->cells.mixed = true;
  cel_map_rewrite(track->map, move_value, &m);
  track->cells.mixed = false;
  drop_slots(&track->cells);
  clear_cells(&track->old);
  track->collect_at =
      COLLECT_LEAST + 2 * track->cells.all.n + cel_map_count(track->map);
}

void cel_track_floor(cel_track *track, uint64_t id) {
  rebuild(track, id);
}

/* Writes leave dead cells behind; without this they would stay until the next
 * floor. */
static void collect_garbage(cel_track *track) {
  if (track->cells.all.n > track->collect_at) rebuild(track, 0);
}

/* ----------------------------------------------------- reading and writing */

cel_track *cel_track_create(const cel_box *extent, uint64_t written_by) {
  cel_track *track = cel_alloc_zero(sizeof *track);
  track->map = cel_map_create(extent, state_of_writer(written_by));
  track->collect_at = COLLECT_LEAST;
  return track;
}

void cel_track_destroy(cel_track *track) {
  if (!track) return;
  cel_map_destroy(track->map);
  release_cells(&track->cells);
  release_cells(&track->old);
  cel_vec_release(&track->moved);
  cel_vec_release(&track->found);
  cel_free(track);
}

uint32_t cel_track_count(const cel_track *track) {
  return cel_map_count(track->map) + track->cells.all.n;
}

/* Where a box has come from many, in an order of theirs, to add one by one
 * would take the square of their number: the rest waits for add_found. */
static void note(cel_track *track, uint64_t id, cel_dep_kind kind,
                 cel_deps *deps) {
  if (deps->n < FEW)
    cel_deps_add(deps, id, kind);
  else
    cel_vec_push(&track->found, (cel_dep){id, kind});
}

static void add_writer(cel_track *track, uint64_t state, uint64_t self,
                       cel_dep_kind kind, cel_deps *deps) {
  uint64_t writer = writer_of(&track->cells, state);
  if (writer == 0)
    deps->uninitialised |= kind == CEL_DEP_TRUE;
  else if (writer != self)
    note(track, writer, kind, deps);
}

/* Returns whether there is a reader but `self`. */
static bool add_readers(cel_track *track, uint64_t state, uint64_t self,
                        cel_deps *deps) {
  bool any = false;
  for (const cell *c; (c = cell_of(&track->cells, state)); state = c->next) {
    if (c->reader == self) continue;
    note(track, c->reader, CEL_DEP_ANTI, deps);
    any = true;
  }
  return any;
}

static int compare_deps(const void *left, const void *right) {
  const cel_dep *a = left, *b = right;
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  return (int)a->kind - (int)b->kind;
}

/* `n` more, in ascending order of ids, from the back. */
static void merge(cel_deps *deps, const cel_dep *more, uint32_t n) {
  cel_vec_reserve(deps, n);
  uint32_t i = deps->n, end = deps->n + n, to = end;
  while (n > 0) {
    const cel_dep *next = &more[n - 1];
    bool both = i > 0 && deps->at[i - 1].id == next->id;
    if (i > 0 && deps->at[i - 1].id > next->id) {
      deps->at[--to] = deps->at[--i];
      continue;
    }
    if (both) --i;
    --to;
    if (!both || next->kind < deps->at[i].kind)
      deps->at[to] = *next;
    else
      deps->at[to] = deps->at[i];
    --n;
  }
  memmove(&deps->at[i], &deps->at[to], (end - to) * sizeof *deps->at);
  deps->n = i + end - to;
}

/* Adds what was noted and not added yet. */
static void add_many_found(cel_track *track, cel_deps *deps) {
  cel_dep *found = track->found.at;
  cel_sort(found, track->found.n, sizeof *found, compare_deps);
  uint32_t n = 0;
  for (uint32_t i = 0; i < track->found.n; ++i)
    if (n == 0 || found[n - 1].id != found[i].id) found[n++] = found[i];
  merge(deps, found, n);
  cel_vec_clear(&track->found);
}

static inline void add_found(cel_track *track, cel_deps *deps) {
  if (track->found.n > 0) add_many_found(track, deps);
}

typedef struct access {
  cel_track *track;
  uint64_t id;
  cel_deps *deps;
} access;

static uint64_t read_state(uint64_t state, void *context) {
  const access *r = context;
  add_writer(r->track, state, r->id, CEL_DEP_TRUE, r->deps);
  return add_reader(&r->track->cells, state, r->id);
}

void cel_track_read(cel_track *track, const cel_box *box, uint64_t id,
                    cel_deps *deps) {
  cel_assert(id > 0);
  collect_garbage(track);
  access r = {track, id, deps};
  cel_map_change(track->map, box, read_state, &r);
  add_found(track, deps);
}

/* The node becomes the writer of all; `note` adds what it comes after. */
static void replace(cel_track *track, const cel_box *box, uint64_t id,
                    cel_deps *deps, void (*note)(uint64_t, void *)) {
  cel_assert(id > 0);
  collect_garbage(track);
  access w = {track, id, deps};
  cel_map_replace(track->map, box, state_of_writer(id), note, &w);
  add_found(track, deps);
}

static void overwrite_state(uint64_t state, void *context) {
  const access *w = context;
  if (!add_readers(w->track, state, w->id, w->deps))
    add_writer(w->track, state, w->id, CEL_DEP_OUTPUT, w->deps);
}

void cel_track_write(cel_track *track, const cel_box *box, uint64_t id,
                     cel_deps *deps) {
  replace(track, box, id, deps, overwrite_state);
}

static void update_state(uint64_t state, void *context) {
  const access *u = context;
  add_writer(u->track, state, u->id, CEL_DEP_TRUE, u->deps);
  add_readers(u->track, state, u->id, u->deps);
}

void cel_track_update(cel_track *track, const cel_box *box, uint64_t id,
                      cel_deps *deps) {
  replace(track, box, id, deps, update_state);
}

static void list_users(uint64_t state, void *context) {
  const access *a = context;
  add_readers(a->track, state, 0, a->deps);
  add_writer(a->track, state, 0, CEL_DEP_OUTPUT, a->deps);
}

void cel_track_users(cel_track *track, const cel_box *box, cel_deps *deps) {
  access a = {track, 0, deps};
  cel_map_visit(track->map, box, list_users, &a);
  add_found(track, deps);
}

/* ------------------------------------------------------ saving and loading */

void cel_track_save(const cel_track *track, cel_track_words *out) {
  cel_map_entries entries = {0};
  cel_map_query(track->map, cel_map_extent(track->map), &entries);
  cel_vec_clear(out);
  for (uint32_t i = 0; i < entries.n; ++i) {
    const cel_map_entry *at = &entries.at[i];
    for (int d = 0; d < CEL_DIMS; ++d) {
      cel_vec_push(out, (uint64_t)at->box.min[d]);
      cel_vec_push(out, (uint64_t)at->box.max[d]);
    }
    cel_vec_push(out, writer_of(&track->cells, at->value));
    uint32_t count = out->n;
    cel_vec_push(out, 0);
    uint64_t state = at->value;
    for (const cell *c; (c = cell_of(&track->cells, state)); state = c->next)
      cel_vec_push(out, c->reader);
    out->at[count] = out->n - count - 1;
  }
  cel_map_entries_release(&entries);
}

void cel_track_load(cel_track *track, const cel_track_words *words) {
  cel_box extent = *cel_map_extent(track->map);
  cel_map_destroy(track->map);
  track->map = cel_map_create(&extent, 0);
  clear_cells(&track->cells);
  track->cells.mixed = true;
  for (const uint64_t *at = words->at; at < words->at + words->n;) {
    cel_box box;
    for (int d = 0; d < CEL_DIMS; ++d) {
      box.min[d] = (int64_t)*at++;
      box.max[d] = (int64_t)*at++;
    }
    uint64_t state = state_of_writer(*at++), readers = *at++;
    for (uint64_t i = readers; i-- > 0;)
      state = add_reader(&track->cells, state, at[i]);
    at += readers;
    cel_map_update(track->map, &box, state);
  }
  track->cells.mixed = false;
  drop_slots(&track->cells);
  track->collect_at =
      COLLECT_LEAST + 2 * track->cells.all.n + cel_map_count(track->map);
}

/* ---------------------------------------------------------- dependencies */

void cel_deps_add(cel_deps *deps, uint64_t id, cel_dep_kind kind) {
  uint32_t lo = 0, hi = deps->n;
  if (hi > 0 && deps->at[hi - 1].id < id) lo = hi;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (deps->at[mid].id < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo < deps->n && deps->at[lo].id == id) {
    if (kind < deps->at[lo].kind) deps->at[lo].kind = kind;
    return;
  }
  cel_vec_reserve(deps, 1);
  if (lo < deps->n)
    memmove(&deps->at[lo + 1], &deps->at[lo],
            (deps->n - lo) * sizeof *deps->at);
  deps->at[lo] = (cel_dep){id, kind};
  deps->n++;
}

void cel_deps_clear(cel_deps *deps) {
  deps->n = 0;
  deps->uninitialised = false;
}

void cel_deps_release(cel_deps *deps) {
  cel_free(deps->at);
  *deps = (cel_deps){0};
}
