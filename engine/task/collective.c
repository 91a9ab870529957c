#include "task/collective.h"

void cel_collectives_release(cel_collectives *all) {
  cel_vec_release(&all->last);
}

void cel_collectives_follow(cel_collectives *all, uint32_t group, uint64_t id,
                            uint64_t floor, cel_deps *deps) {
  if (group == 0) return;
  while (all->last.n <= group) cel_vec_push(&all->last, (uint64_t)0);
  uint64_t last = all->last.at[group];
  all->last.at[group] = id;
  if (last != 0) cel_deps_add(deps, last > floor ? last : floor, CEL_DEP_TRUE);
}
