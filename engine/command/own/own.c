#include "command/own/own.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tuning.h"

void cel__own_init(cel__own *own, int64_t me, int64_t ranks, uint32_t cap) {
  *own = (cel__own){.me = me, .ranks = ranks};
  own->cap = cap;
  own->sweep_at = own->sweep_least = CEL_TUNE_SWEEP_LEAST;
  own->sweep_at_bytes = CEL_TUNE_SWEEP_BYTES;
  own->after_slots = CEL__AFTERS;
  own->afters = cel_alloc_zero(CEL__AFTERS * sizeof *own->afters);
}

bool cel__own_join(cel__own *own) {
  bool (*join)(void *) = own->join;
  own->join = NULL;
  if (own->collective.devices == 0 || join == NULL || join(own->context))
    return true;
  own->collective = (cel_collective_limits){0};
  if (own->messages_else) own->collectives = false;
  memset(own->chosen, 0, sizeof own->chosen);
  return false;
}

static void drop(cel__interned *object) {
  cel_free(object);
}

void cel__own_release(cel__own *own) {
  cel__interner_release(&own->versions, drop);
  cel__reps_release(&own->reps);
  cel_free(own->afters);
  cel_free(own->given);
  cel_map_entries_release(&own->entries);
  cel_vec_release(&own->changes);
  cel_vec_release(&own->surplus);
  cel_vec_release(&own->kept);
  cel_vec_release(&own->holdings);
  cel_vec_release(&own->lacks);
  cel_vec_release(&own->rest);
  cel_vec_release(&own->mine);
  cel_vec_release(&own->fresh);
}

/* ---- versions -------------------------------------------------------------
 */

static const cel__rep *rep_at(const cel__own *own, uint32_t id) {
  return cel__rep_at(&own->reps, id);
}

static bool is_version(const cel__version *v, uint32_t kind, uint32_t owner,
                       const uint32_t *rep, uint32_t reps) {
  return v->owner_kind == kind && v->owner == owner && v->reps == reps &&
         (reps == 0 || memcmp(v->rep, rep, reps * sizeof *rep) == 0);
}

static uint32_t intern(cel__own *own, uint32_t kind, uint32_t owner,
                       const uint32_t *rep, uint32_t reps) {
  size_t size = reps * sizeof *rep;
  uint64_t seed = (uint64_t)owner << 32 | (uint64_t)kind << 16 | reps;
  uint64_t hash = cel_hash(rep, size, seed);
  uint32_t id = cel__interner_first(&own->versions, hash);
  while (id != CEL__NO_ID &&
         !is_version(cel__own_version(own, id), kind, owner, rep, reps))
    id = cel__interner_next(&own->versions, id, hash);
  if (id != CEL__NO_ID) return id;
  cel__version *made = cel_alloc(sizeof *made + size);
  made->owner_kind = kind;
  made->owner = owner;
  made->reps = reps;
  if (reps > 0) memcpy(made->rep, rep, size);
  return cel__interner_add(&own->versions, &made->head, hash);
}

static uint64_t owned(cel__own *own, cel__owner_kind kind, uint32_t owner) {
  return intern(own, kind, owner, NULL, 0);
}

uint64_t cel__own_everyone(cel__own *own) {
  return owned(own, CEL__EVERYONE, 0);
}

static uint64_t by_rank(cel__own *own, int64_t rank) {
  return owned(own, CEL__ONE_RANK, (uint32_t)rank);
}

static uint64_t by_rep(cel__own *own, uint32_t rep) {
  const cel__rep *parts = rep_at(own, rep);
  if (parts->n == 1 && cel__rep_is_full(parts)) return by_rank(own, 0);
  return owned(own, CEL__BY_REP, rep);
}

/* ---- reading adds replications --------------------------------------------
 */

/* Whether every rank has its part of `rep` already. */
static bool covered(const cel__own *own, const cel__version *v, uint32_t id) {
  const cel__rep *rep = rep_at(own, id);
  if (v->owner_kind == CEL__EVERYONE) return true;
  if (v->owner_kind == CEL__ONE_RANK && v->owner == 0 && rep->n == 1)
    return true;
  if (v->owner_kind == CEL__BY_REP &&
      cel__rep_within(rep, rep_at(own, v->owner)))
    return true;
  for (uint32_t i = 0; i < v->reps; ++i)
    if (cel__rep_within(rep, rep_at(own, v->rep[i]))) return true;
  return false;
}

/* Grows `id` by the owner's own part and by replications where the union is
 * one box for every rank, and leaves the others in own->kept. Each is absorbed
 * at most once, so this ends. */
static uint32_t absorb(cel__own *own, const cel__version *v, uint32_t id) {
  if (v->owner_kind == CEL__BY_REP) {
    uint32_t both = cel__rep_union(&own->reps, id, v->owner);
    if (both != CEL__NO_ID) id = both;
  }
  cel_vec_clear(&own->kept);
  for (uint32_t i = 0; i < v->reps; ++i) cel_vec_push(&own->kept, v->rep[i]);
  for (bool again = true; again;) {
    again = false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < own->kept.n; ++i) {
      uint32_t both = cel__rep_union(&own->reps, id, own->kept.at[i]);
      if (both == CEL__NO_ID) {
        own->kept.at[n++] = own->kept.at[i];
        continue;
      }
      again = again || both != id;
      id = both;
    }
    own->kept.n = n;
  }
  return id;
}

static uint32_t grow(cel__own *own, uint32_t version, uint32_t rep) {
  const cel__version *v = cel__own_version(own, version);
  if (covered(own, v, rep)) return version;
  rep = absorb(own, v, rep);
  const cel__rep *grown = rep_at(own, rep);
  if (cel__rep_is_full(grown) && cel__rep_ranks(grown) >= own->ranks)
    return (uint32_t)cel__own_everyone(own);
  uint32_t n = 0;
  for (uint32_t i = 0; i < own->kept.n; ++i)
    if (!cel__rep_within(rep_at(own, own->kept.at[i]), grown))
      own->kept.at[n++] = own->kept.at[i];
  own->kept.n = n;
  cel_vec_push(&own->kept, rep);
  return intern(own, v->owner_kind, v->owner, own->kept.at, own->kept.n);
}

uint32_t cel__own_after_reading(cel__own *own, uint32_t version, uint32_t rep) {
  struct cel__after *slot =
      &own->afters[(version * 0x9e3779b1u ^ rep * 0x85ebca6bu) %
                   own->after_slots];
  if (slot->version != version || slot->rep != rep)
    *slot = (struct cel__after){version, rep, grow(own, version, rep)};
  return slot->after;
}

/* ---- what is lacked -------------------------------------------------------
 */

/* Takes `box` out of the disjoint list `boxes`; `rest` is scratch. */
static void take_out(cel__boxes *boxes, cel__boxes *rest, const cel_box *box) {
  cel_vec_clear(rest);
  for (uint32_t i = 0; i < boxes->n; ++i) {
    cel_vec_reserve(rest, 6);
    rest->n +=
        (uint32_t)cel_box_subtract(&boxes->at[i], box, &rest->at[rest->n]);
  }
  cel__boxes swap = *boxes;
  *boxes = *rest;
  *rest = swap;
}

bool cel__own_part(const cel__own *own, const cel__version *v, int64_t k,
                   const cel_box *within, cel_box *out) {
  if (v->owner_kind == CEL__BY_REP)
    return cel__rep_box(rep_at(own, v->owner), k, within, out);
  *out = *within;
  return (int64_t)v->owner == k;
}

int64_t cel__own_sole(const cel__own *own, const cel__version *v,
                      const cel_box *box) {
  if (v->owner_kind == CEL__ONE_RANK) return v->owner;
  const cel__rep *parts = rep_at(own, v->owner);
  cel__ranks it;
  cel_box part;
  if (!cel__ranks_first(&it, parts, box) ||
      !cel__rep_box(parts, it.rank, box, &part))
    return -1;
  return cel_box_volume(&part) == cel_box_volume(box) ? it.rank : -1;
}

const cel__boxes *cel__own_lacks(cel__own *own, const cel__version *v,
                                 uint32_t rep, int64_t k, const cel_box *box) {
  cel_box owned;
  cel_vec_clear(&own->lacks);
  cel__rep_boxes(rep_at(own, rep), k, box, &own->lacks);
  if (own->lacks.n == 0) return &own->lacks;
  if (cel__own_part(own, v, k, box, &owned))
    take_out(&own->lacks, &own->rest, &owned);
  for (uint32_t i = 0; i < v->reps && own->lacks.n > 0; ++i) {
    cel_vec_clear(&own->fresh);
    cel__rep_boxes(rep_at(own, v->rep[i]), k, box, &own->fresh);
    for (uint32_t j = 0; j < own->fresh.n; ++j)
      take_out(&own->lacks, &own->rest, &own->fresh.at[j]);
  }
  return &own->lacks;
}

int64_t cel__own_lacked(cel__own *own, const cel__version *v, uint32_t rep,
                        int64_t k, const cel_box *box) {
  const cel__boxes *lacks = cel__own_lacks(own, v, rep, k, box);
  int64_t sum = 0;
  for (uint32_t i = 0; i < lacks->n; ++i) sum += cel_box_volume(&lacks->at[i]);
  return sum;
}

void cel__own_change(cel__own *own, cel_map *map) {
  for (uint32_t i = 0; i < own->changes.n; ++i) {
    const cel_map_entry *x = &own->changes.at[i];
    cel_map_update(map, &x->box, x->value);
    if (cel__own_version(own, (uint32_t)x->value)->reps > own->cap)
      cel_vec_push(&own->surplus, (cel__surplus){map, x->box});
  }
  cel_vec_clear(&own->changes);
}

static uint64_t without_oldest(uint64_t version, void *context) {
  cel__own *own = context;
  const cel__version *v = cel__own_version(own, (uint32_t)version);
  if (v->reps <= own->cap) return version;
  return intern(own, v->owner_kind, v->owner, v->rep + v->reps - own->cap,
                own->cap);
}

void cel__own_forget(cel__own *own) {
  for (uint32_t i = 0; i < own->surplus.n; ++i)
    cel_map_change(own->surplus.at[i].map, &own->surplus.at[i].box,
                   without_oldest, own);
  cel_vec_clear(&own->surplus);
}

/* ---- who has most ---------------------------------------------------------
 */

/* A holding for each rank that owns some of `box`, which is of version v. */
static void add_holdings(cel__own *own, const cel__version *v,
                         const cel_box *box) {
  if (v->owner_kind == CEL__ONE_RANK) {
    cel_vec_push(&own->holdings, (cel__holding){v->owner, cel_box_volume(box)});
    return;
  }
  const cel__rep *parts = rep_at(own, v->owner);
  cel__ranks it;
  cel_box part;
  for (bool more = cel__ranks_first(&it, parts, box); more;
       more = cel__ranks_next(&it))
    if (cel__rep_box(parts, it.rank, box, &part))
      cel_vec_push(&own->holdings,
                   (cel__holding){it.rank, cel_box_volume(&part)});
}

static int by_the_rank(const void *a, const void *b) {
  int64_t x = ((const cel__holding *)a)->rank,
          y = ((const cel__holding *)b)->rank;
  return (x > y) - (x < y);
}

int64_t cel__own_most(cel__own *own, const cel_map *map, const cel_box *box) {
  cel__holding most = {0};
  cel_vec_clear(&own->holdings);
  cel_map_query(map, box, &own->entries);
  for (uint32_t i = 0; i < own->entries.n; ++i) {
    const cel_map_entry *x = &own->entries.at[i];
    if (x->value == CEL__UNINITIALISED) continue;
    const cel__version *v = cel__own_version(own, (uint32_t)x->value);
    if (v->owner_kind != CEL__EVERYONE) add_holdings(own, v, &x->box);
  }
  uint32_t n = own->holdings.n;
  if (n > 0) qsort(own->holdings.at, n, sizeof *own->holdings.at, by_the_rank);
  for (uint32_t i = 0; i < n;) {
    cel__holding one = own->holdings.at[i++];
    while (i < n && own->holdings.at[i].rank == one.rank)
      one.elements += own->holdings.at[i++].elements;
    if (one.elements > most.elements) most = one;
  }
  return most.rank;
}

/* ---- writing --------------------------------------------------------------
 */

/* One entry for each rank's box: O(ranks), from the first that has a chunk. */
static void write_by_rank(cel__own *own, cel_map *map,
                          const cel__footprints *all,
                          const cel__footprint *footprint) {
  const cel_cut *cut = &footprint->split.cut[0];
  int64_t first = cut->sums == NULL || cut->N == 0
                      ? 0
                      : cel_cut_find(cut, cut->lo) * footprint->split.stride[0];
  for (int64_t k = first; k < footprint->split.n; ++k) {
    cel_vec_clear(&own->mine);
    cel__footprint_boxes(all, footprint, k, &own->mine);
    for (uint32_t i = 0; i < own->mine.n; ++i)
      cel_map_update(map, &own->mine.at[i], by_rank(own, k));
  }
}

void cel__own_write(cel__own *own, cel_map *map, const cel__footprints *all,
                    const cel__footprint *footprint) {
  if (!footprint->tiled) {
    write_by_rank(own, map, all, footprint);
    return;
  }
  for (uint32_t i = 0; i < footprint->shapes; ++i) {
    const cel__shape *shape = &footprint->shape[i];
    cel_map_update(map, &shape->hull, by_rep(own, shape->owner));
  }
}

void cel__own_write_alike(cel__own *own, cel_map *map,
                          const cel__footprint *footprint) {
  cel_map_update(map, &footprint->hull, cel__own_everyone(own));
}

/* ---- keeping it small -----------------------------------------------------
 */

bool cel__own_crowded(const cel__own *own) {
  return own->versions.count + own->reps.in.count > own->sweep_at ||
         own->reps.bytes > own->sweep_at_bytes;
}

static void mark_rep(cel__own *own, uint32_t id) {
  ((cel__interned *)cel__interner_at(&own->reps.in, id))->mark = 1;
}

static void mark_version(cel__own *own, uint32_t id) {
  cel__version *v = cel__interner_at(&own->versions, id);
  if (v->head.mark) return;
  v->head.mark = 1;
  if (v->owner_kind == CEL__BY_REP) mark_rep(own, v->owner);
  for (uint32_t i = 0; i < v->reps; ++i) mark_rep(own, v->rep[i]);
}

static const cel_box everything = {{INT64_MIN, INT64_MIN, INT64_MIN},
                                   {INT64_MAX, INT64_MAX, INT64_MAX}};

void cel__own_mark(cel__own *own, const cel_map *map) {
  cel_map_query(map, &everything, &own->entries);
  for (uint32_t i = 0; i < own->entries.n; ++i)
    if (own->entries.at[i].value != CEL__UNINITIALISED)
      mark_version(own, (uint32_t)own->entries.at[i].value);
}

void cel__own_sweep(cel__own *own) {
  cel__interner_sweep(&own->versions, drop);
  cel__reps_sweep(&own->reps);
  memset(own->afters, 0, CEL__AFTERS * sizeof *own->afters);
  memset(own->chosen, 0, sizeof own->chosen);
  if (own->given != NULL)
    memset(own->given, 0, CEL__GIVEN * sizeof *own->given);
  uint32_t held = own->versions.count + own->reps.in.count;
  own->sweep_at = own->sweep_least == 0 ? 0 : own->sweep_least + 2 * held;
  own->sweep_at_bytes = 2 * own->reps.bytes + CEL_TUNE_SWEEP_BYTES;
}

uint64_t cel__own_replications(const cel__own *own, const cel_map *map) {
  uint64_t sum = 0;
  cel_map_entries all = {0};
  cel_map_query(map, &everything, &all);
  for (uint32_t i = 0; i < all.n; ++i)
    if (all.at[i].value != CEL__UNINITIALISED)
      sum += cel__own_version(own, (uint32_t)all.at[i].value)->reps;
  cel_map_entries_release(&all);
  return sum;
}

uint64_t cel__own_bytes(const cel__own *own) {
  uint64_t versions = cel__interner_bytes(&own->versions);
  for (uint32_t id = 1; id < own->versions.object.n; ++id)
    if (cel__own_version(own, id) != NULL)
      versions += sizeof(cel__version) +
                  cel__own_version(own, id)->reps * sizeof(uint32_t);
  return own->reps.bytes + versions + cel__interner_bytes(&own->reps.in) +
         CEL__AFTERS * sizeof *own->afters;
}

/* ---- what must hold -------------------------------------------------------
 */

CEL_ASSERTED static bool finds(const cel__rep *parts, const cel_box *box,
                               int64_t k) {
  cel__ranks it;
  for (bool more = cel__ranks_first(&it, parts, box); more;
       more = cel__ranks_next(&it))
    if (it.rank == k) return true;
  return false;
}

static void check_parts(const cel__rep *parts, const cel_box *entry) {
  enum { MOST_RANKS = 32 };
  cel_box part[MOST_RANKS];
  int64_t volume = 0;
  cel_assert(parts->list == NULL);
  if (parts->n > MOST_RANKS) return;
  for (int64_t k = 0; k < parts->n; ++k) {
    part[k] = (cel_box){{0}, {0}};
    if (!cel__rep_box(parts, k, entry, &part[k])) continue;
    cel_assert(cel_box_covers(entry, &part[k]));
    cel_assert(finds(parts, &part[k], k));
    for (int64_t i = 0; i < k; ++i)
      cel_assert(!cel_box_meets(&part[i], &part[k]));
    volume += cel_box_volume(&part[k]);
  }
  cel_assert(volume == cel_box_volume(entry));
}

static void check_version(const cel__own *own, uint32_t id) {
  cel_assert(id > CEL__NO_ID && id < own->versions.object.n);
  const cel__version *v = cel__own_version(own, id);
  cel_assert(v != NULL && v->reps <= own->cap);
  uint32_t same = cel__interner_first(&own->versions, v->head.hash);
  for (; same != CEL__NO_ID;
       same = cel__interner_next(&own->versions, same, v->head.hash))
    cel_assert(same == id ||
               !is_version(cel__own_version(own, same), v->owner_kind, v->owner,
                           v->rep, v->reps));
  cel_assert(v->owner_kind != CEL__EVERYONE || v->reps == 0);
  cel_assert(v->owner_kind != CEL__ONE_RANK || v->owner < own->ranks);
  for (uint32_t i = 0; i < v->reps; ++i) {
    cel_assert(v->rep[i] < own->reps.in.object.n && rep_at(own, v->rep[i]));
    for (uint32_t j = 0; j < i; ++j) cel_assert(v->rep[i] != v->rep[j]);
  }
}

void cel__own_check(cel__own *own, const cel_map *map) {
  cel_map_query(map, &everything, &own->entries);
  for (uint32_t i = 0; i < own->entries.n; ++i) {
    const cel_map_entry *x = &own->entries.at[i];
    if (x->value == CEL__UNINITIALISED) continue;
    check_version(own, (uint32_t)x->value);
    const cel__version *v = cel__own_version(own, (uint32_t)x->value);
    if (v->owner_kind == CEL__BY_REP)
      check_parts(rep_at(own, v->owner), &x->box);
  }
}
