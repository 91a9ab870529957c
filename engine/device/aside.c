#include "device/aside.h"

#include "tuning.h"

void cel_aside_init(cel_aside *aside) {
  atomic_init(&aside->turn, 0);
  atomic_init(&aside->unwatched, false);
  atomic_init(&aside->stopped, false);
  cel_park_init(&aside->park);
}

/* Sequentially consistent with sleep_unwatched: either it sees the turn, or
 * this one sees that nobody watches. */
uint64_t cel_aside_begin(cel_aside *aside) {
  uint64_t turn = atomic_load_explicit(&aside->turn, memory_order_relaxed) + 1;
  atomic_store(&aside->turn, turn);
  if (atomic_load(&aside->unwatched) &&
      atomic_exchange(&aside->unwatched, false))
    cel_park_wake(&aside->park);
  return turn;
}

bool cel_aside_end(cel_aside *aside, uint64_t turn) {
  return atomic_compare_exchange_strong(&aside->turn, &turn, turn + 1);
}

/* There has been no turn for a while. */
static void sleep_unwatched(cel_aside *aside, uint64_t turn) {
  uint32_t seen = cel_park_prepare(&aside->park);
  atomic_store(&aside->unwatched, true);
  if (atomic_load(&aside->turn) == turn && !atomic_load(&aside->stopped))
    cel_park_wait(&aside->park, seen, UINT32_MAX);
  atomic_store(&aside->unwatched, false);
}

bool cel_aside_watch(cel_aside *aside) {
  while (!atomic_load(&aside->stopped)) {
    uint32_t seen = cel_park_prepare(&aside->park);
    uint64_t turn = atomic_load(&aside->turn);
    if (!atomic_load(&aside->stopped))
      cel_park_wait(&aside->park, seen, CEL_TUNE_BRIEF_WATCH_US);
    if (atomic_load(&aside->turn) != turn) continue;
    if (turn % 2 == 0)
      sleep_unwatched(aside, turn);
    else if (cel_park_prepare(&aside->park) == seen &&
             atomic_compare_exchange_strong(&aside->turn, &turn, turn + 1))
      return true;
  }
  return false;
}

void cel_aside_stop(cel_aside *aside) {
  atomic_store(&aside->stopped, true);
  cel_park_wake(&aside->park);
}
