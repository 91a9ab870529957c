#include "fold/chain.h"

#include <string.h>

void cel__fold_chain_release(cel__fold_chain *chain) {
  cel_vec_release(&chain->tasks);
  cel_vec_release(&chain->accesses);
  cel_vec_release(&chain->ends);
}

void cel__fold_chain_clear(cel__fold_chain *chain) {
  cel_vec_clear(&chain->tasks);
  cel_vec_clear(&chain->accesses);
  cel_vec_clear(&chain->ends);
  for (int d = 0; d < CEL_DIMS; ++d) chain->wraps[d] = false;
}

/* ---- one task ------------------------------------------------------------ */

bool cel__fold_may_be_step(const cel_task *task) {
  return task->kind == CEL_TASK_KERNEL && task->placement == CEL_PLACE_SPLIT &&
         task->dims > 0 && task->oversubscribe <= 1 && task->home == NULL &&
         !task->listed && task->collective_group == 0 &&
         cel_fold_may_join(task);
}

bool cel__fold_ends(const cel_task *task) {
  return task->reduces != 0;
}

/* ---- one after another --------------------------------------------------- */

static bool equal_splits(const cel_split_kind *a, const cel_split_kind *b) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->cut[d] != b->cut[d] || a->granularity[d] != b->granularity[d])
      return false;
  return true;
}

static bool is_divided_alike(const cel_task *a, const cel_task *b) {
  return a->dims == b->dims && cel_box_equal(&a->range, &b->range) &&
         equal_splits(&a->permitted, &b->permitted) && a->weights == b->weights;
}

/* Whether what another step, or the same one, does with the buffer stands in
 * the way: it is written twice in a step, read as a table where some step
 * writes it, or read around an item by the step that writes it; or something
 * is reduced into it. */
static bool collide(const cel__fold_access *a, const cel__fold_access *b,
                    bool same_step) {
  bool writes_a = a->role == CEL_FOLD_WRITTEN,
       writes_b = b->role == CEL_FOLD_WRITTEN;
  if (a->access->buffer != b->access->buffer) return false;
  if (a->role == CEL_FOLD_REDUCED || b->role == CEL_FOLD_REDUCED) return true;
  if (!writes_a && !writes_b) return false;
  if (writes_a && writes_b) return same_step;
  const cel__fold_access *read = writes_a ? b : a;
  if (read->role == CEL_FOLD_TABLE) return true;
  return same_step && cel_reach_is_around(&read->reach);
}

/* Puts the task's accesses behind those of the chain; false where one is none
 * that a step has, or gets in another one's way. */
static bool take_accesses(cel__fold_chain *chain, const cel_task *task,
                          bool alike) {
  uint32_t first = chain->accesses.n;
  for (uint32_t i = 0; i < task->accesses; ++i) {
    cel__fold_access own = {.access = &task->access[i], .from = -1};
    own.role = cel_fold_role_of(own.access, &own.reach);
    if (own.role == CEL_FOLD_OTHER || own.access->in_place ||
        own.access->buffer->apart || own.access->late != NULL ||
        (!alike && cel_reach_is_around(&own.reach)))
      return false;
    for (uint32_t k = 0; k < chain->accesses.n; ++k)
      if (collide(&chain->accesses.at[k], &own, k >= first)) return false;
    cel_vec_push(&chain->accesses, own);
  }
  return true;
}

void cel__fold_edges_add(cel__fold_edges *edges, const cel__fold_access *a,
                         const cel_box *range) {
  const cel_box *extent = &a->access->buffer->extent;
  bool in_place = a->role == CEL_FOLD_WRITTEN || a->role == CEL_FOLD_AROUND;
  for (int d = 0; d < CEL_DIMS; ++d) {
    edges->meet[d] |= a->reach.wraps[d];
    edges->differ[d] |= in_place && (extent->min[d] != range->min[d] ||
                                     extent->max[d] != range->max[d]);
  }
}

bool cel__fold_edges_agree(const cel__fold_edges *edges) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (edges->meet[d] && edges->differ[d]) return false;
  return true;
}

/* An item that two ranks compute would count twice. */
static bool may_end(const cel__fold_chain *chain) {
  for (uint32_t i = 0; i < chain->accesses.n; ++i)
    if (cel_reach_is_around(&chain->accesses.at[i].reach)) return false;
  return chain->tasks.n > 0;
}

static int32_t writer_of(const cel__fold_chain *chain,
                         const cel_buffer *buffer) {
  for (uint32_t s = chain->ends.n; s-- > 0;)
    for (uint32_t i = s > 0 ? chain->ends.at[s - 1] : 0; i < chain->ends.at[s];
         ++i)
      if (chain->accesses.at[i].role == CEL_FOLD_WRITTEN &&
          chain->accesses.at[i].access->buffer == buffer)
        return (int32_t)s;
  return -1;
}

bool cel__fold_chain_add(cel__fold_chain *chain, const cel_task *task,
                         bool alike) {
  uint32_t n = chain->accesses.n;
  cel__fold_edges edges = {.meet = {false}};
  if (!cel__fold_may_be_step(task) || chain->tasks.n == CEL_FOLD_STEPS ||
      (chain->tasks.n > 0 && !is_divided_alike(chain->tasks.at[0], task)))
    return false;
  bool takes = take_accesses(chain, task, alike);
  for (uint32_t i = 0; i < chain->accesses.n; ++i)
    cel__fold_edges_add(&edges, &chain->accesses.at[i], &task->range);
  if (!takes || !cel__fold_edges_agree(&edges) ||
      (cel__fold_ends(task) && !may_end(chain))) {
    chain->accesses.n = n;
    return false;
  }
  for (uint32_t i = n; i < chain->accesses.n; ++i) {
    cel__fold_access *own = &chain->accesses.at[i];
    if (cel_mode_consumes(own->access->mode))
      own->from = writer_of(chain, own->access->buffer);
  }
  memcpy(chain->wraps, edges.meet, sizeof edges.meet);
  cel_vec_push(&chain->ends, chain->accesses.n);
  cel_vec_push(&chain->tasks, task);
  return true;
}

/* ---- growing ------------------------------------------------------------- */

/* To what a step that grows so far and reaches so far around an item needs. */
static void grow_to(cel_reach *own, const cel_reach *grows,
                    const cel_reach *reach) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t below = grows->below[d] + reach->below[d];
    int64_t above = grows->above[d] + reach->above[d];
    if (below > own->below[d]) own->below[d] = below;
    if (above > own->above[d]) own->above[d] = above;
  }
}

void cel__fold_chain_grow(cel__fold_chain *chain) {
  for (uint32_t s = 0; s < chain->tasks.n; ++s)
    chain->grows[s] = (cel_reach){.below = {0}};
  for (uint32_t s = chain->tasks.n, i = chain->accesses.n; s-- > 0;)
    for (uint32_t first = s > 0 ? chain->ends.at[s - 1] : 0; i > first; --i) {
      const cel__fold_access *a = &chain->accesses.at[i - 1];
      if (a->from >= 0)
        grow_to(&chain->grows[a->from], &chain->grows[s], &a->reach);
    }
}
