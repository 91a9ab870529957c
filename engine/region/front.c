#include "region/front.h"

void cel_front_init(cel_front *front) {
  *front = (cel_front){.next = 1, .floor = 1, .last = 1};
}

void cel_front_release(cel_front *front) {
  cel_vec_release(&front->followed);
}

uint64_t cel_front_add(cel_front *front, const cel_deps *deps) {
  for (uint32_t i = 0; i < deps->n; ++i) {
    uint64_t on = deps->at[i].id;
    cel_assert(on >= front->floor && on < front->next);
    front->followed.at[on - front->floor] = true;
  }
  cel_vec_push(&front->followed, false);
  return front->next++;
}

void cel_front_collect(const cel_front *front, cel_deps *deps) {
  for (uint32_t i = 0; i < front->followed.n; ++i)
    if (!front->followed.at[i])
      cel_deps_add(deps, front->floor + i, CEL_DEP_ORDER);
}

void cel_front_barrier(cel_front *front, bool epoch) {
  uint64_t id = front->next - 1, floor = epoch ? id : front->last;
  cel_vec_drop_first(&front->followed, floor - front->floor);
  front->floor = floor;
  front->last = id;
}
