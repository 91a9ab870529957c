#include "task/effect.h"

const char *cel_order_name(cel_order order) {
  static const char *const names[] = {
#define ORDER_ROW(NAME, name) #name,
      CEL_ORDERS(ORDER_ROW)
#undef ORDER_ROW
  };
  return names[order];
}

cel_order cel_effect_order(const cel_effect *effect) {
  bool shared = effect->object->scope == CEL_SCOPE_CLUSTER;
  if (shared && effect->order == CEL_ORDER_EXCLUSIVE)
    return CEL_ORDER_SEQUENTIAL;
  return effect->order;
}

bool cel_orders_conflict(cel_order a, cel_order b) {
  if (a == CEL_ORDER_SEQUENTIAL || b == CEL_ORDER_SEQUENTIAL) return false;
  return a == CEL_ORDER_EXCLUSIVE || b == CEL_ORDER_EXCLUSIVE;
}

bool cel_effects_conflict(const cel_effect *a, uint32_t n, const cel_effect *b,
                          uint32_t m) {
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t k = 0; k < m; ++k)
      if (a[i].object == b[k].object &&
          cel_orders_conflict(cel_effect_order(&a[i]), cel_effect_order(&b[k])))
        return true;
  return false;
}

/* ---- who has touched an object ------------------------------------------- */

static void use_destroy(cel_effect_use *use) {
  if (use == NULL) return;
  cel_vec_release(&use->since);
  cel_vec_release(&use->arrived);
  cel_free(use);
}

void cel_effect_track_release(cel_effect_track *track) {
  for (uint32_t i = 0; i < track->uses.n; ++i) use_destroy(track->uses.at[i]);
  cel_vec_release(&track->uses);
}

/* What is older than the floor, the floor comes after. Ids are ascending. */
static void apply(cel_effect_use *use, uint64_t floor) {
  if (use->floor == floor) return;
  use->floor = floor;
  uint32_t older = 0, arrived = 0;
  while (older < use->since.n && use->since.at[older].id < floor) ++older;
  while (arrived < use->arrived.n && use->arrived.at[arrived] < floor)
    ++arrived;
  if (older > 0) cel_vec_drop_first(&use->since, older);
  if (use->since.n == 0) use->collective = false;
  if (arrived > 0) cel_vec_drop_first(&use->arrived, arrived);
  bool before = use->sequential != 0 && use->sequential < floor;
  if (older > 0 || arrived > 0 || before) use->sequential = floor;
}

static cel_effect_use *find(const cel_effect_track *track,
                            const cel_object *object) {
  return object->id < track->uses.n ? track->uses.at[object->id] : NULL;
}

static cel_effect_use *use_of(cel_effect_track *track, const cel_object *object,
                              uint64_t floor) {
  while (track->uses.n <= object->id) cel_vec_push(&track->uses, NULL);
  cel_effect_use **use = &track->uses.at[object->id];
  if (*use == NULL) *use = cel_alloc_zero(sizeof **use);
  apply(*use, floor);
  return *use;
}

static void add_arrived(const cel_effect_use *use, cel_deps *deps) {
  for (uint32_t i = 0; i < use->arrived.n; ++i)
    cel_deps_add(deps, use->arrived.at[i], CEL_DEP_TRUE);
}

/* What came since depends on the sequential one, so that need not be named;
 * but not on the horizon that may have been applied in its place meanwhile. */
static void add_users(const cel_effect_use *use, cel_deps *deps) {
  bool named = use->since.n > 0 && use->sequential != use->floor;
  if (!named && use->sequential != 0)
    cel_deps_add(deps, use->sequential, CEL_DEP_TRUE);
  for (uint32_t i = 0; i < use->since.n; ++i)
    cel_deps_add(deps, use->since.at[i].id, CEL_DEP_TRUE);
  add_arrived(use, deps);
}

/* What even a relaxed effect comes after. */
static void add_before(const cel_effect_use *use, cel_deps *deps) {
  if (use->sequential != 0) cel_deps_add(deps, use->sequential, CEL_DEP_TRUE);
  add_arrived(use, deps);
}

static void add_sequential(cel_effect_use *use, uint64_t id, cel_deps *deps) {
  add_users(use, deps);
  use->sequential = id;
  use->collective = false;
  cel_vec_clear(&use->since);
  cel_vec_clear(&use->arrived);
}

static void add_other(cel_effect_use *use, const cel_effect_user *user,
                      cel_deps *deps) {
  add_before(use, deps);
  use->collective |= user->collective;
  for (uint32_t i = 0; use->collective && i < use->since.n; ++i) {
    const cel_effect_user *before = &use->since.at[i];
    if ((before->collective || user->collective) &&
        cel_orders_conflict(before->order, user->order))
      cel_deps_add(deps, before->id, CEL_DEP_TRUE);
  }
  cel_vec_push(&use->since, *user);
}

void cel_effects_add(cel_effect_track *track, const cel_effect *effect,
                     uint32_t n, bool collective, uint64_t id, uint64_t floor,
                     cel_deps *deps) {
  for (uint32_t i = 0; i < n; ++i) {
    cel_effect_use *use = use_of(track, effect[i].object, floor);
    cel_effect_user user = {id, cel_effect_order(&effect[i]), collective};
    if (user.order == CEL_ORDER_SEQUENTIAL)
      add_sequential(use, id, deps);
    else
      add_other(use, &user, deps);
  }
}

void cel_effect_arrive(cel_effect_track *track, const cel_object *object,
                       uint64_t id, uint64_t floor) {
  cel_vec_push(&use_of(track, object, floor)->arrived, id);
}

void cel_effect_ask(cel_effect_track *track, const cel_object *object,
                    cel_order order, uint64_t floor, cel_deps *deps) {
  cel_effect_use *use = find(track, object);
  if (use == NULL) return;
  apply(use, floor);
  if (order == CEL_ORDER_SEQUENTIAL)
    add_users(use, deps);
  else
    add_before(use, deps);
}

void cel_effect_forget(cel_effect_track *track, const cel_object *object) {
  cel_effect_use *use = find(track, object);
  if (use == NULL) return;
  use_destroy(use);
  track->uses.at[object->id] = NULL;
}

size_t cel_effect_track_bytes(const cel_effect_track *track) {
  size_t sum = track->uses.cap * sizeof(cel_effect_use *);
  for (uint32_t i = 0; i < track->uses.n; ++i) {
    const cel_effect_use *use = track->uses.at[i];
    if (use != NULL)
      sum += sizeof *use + use->since.cap * sizeof(cel_effect_user) +
             use->arrived.cap * sizeof(uint64_t);
  }
  return sum;
}

/* ---- collective tasks ---------------------------------------------------- */

void cel_collective_tasks_release(cel_collective_tasks *all) {
  cel_vec_release(&all->last);
}

void cel_collective_tasks_follow(cel_collective_tasks *all, uint32_t group,
                                 uint64_t id, uint64_t floor, cel_deps *deps) {
  if (group == 0) return;
  while (all->last.n <= group) cel_vec_push(&all->last, (uint64_t)0);
  uint64_t last = all->last.at[group];
  all->last.at[group] = id;
  if (last != 0) cel_deps_add(deps, last > floor ? last : floor, CEL_DEP_TRUE);
}
