#define _GNU_SOURCE /* sched_getaffinity */
#include "base/park.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 20000, SPIN_CORES = 4, LINGER_NS = 100000, LINGER_CORES = 16 };

void cel_park_init(cel_park *park) {
  atomic_init(&park->news, 0);
  atomic_init(&park->asleep, 0);
  park->spin_ns = SPIN_NS;
}

void cel_park_linger(cel_park *park) {
  if (cel_park_cores() >= LINGER_CORES) park->spin_ns = LINGER_NS;
}

uint32_t cel_park_look(const cel_park *park) {
  return atomic_load_explicit(&park->news, memory_order_acquire);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Main's cores: its thread has the process's number, and is not pinned as
 * others may be. */
int32_t cel_park_cores(void) {
  static _Atomic(int32_t) cores;
  int32_t n = atomic_load_explicit(&cores, memory_order_relaxed);
  if (n > 0) return n;
  cpu_set_t set;
  n = sched_getaffinity(getpid(), sizeof set, &set) == 0
          ? CPU_COUNT(&set)
          : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
  atomic_store_explicit(&cores, n, memory_order_relaxed);
  return n;
}

bool cel_park_crowded(void) {
  return cel_park_cores() < SPIN_CORES;
}

void cel_park_defer(void) {
  struct sched_param none = {0};
  if (cel_park_crowded()) sched_setscheduler(0, SCHED_BATCH, &none);
}

static bool spin(const cel_park *park, uint32_t seen) {
  if (cel_park_crowded()) return cel_park_look(park) != seen;
  for (int64_t end = now_ns() + park->spin_ns; now_ns() < end;) {
    for (int i = 0; i < 64; ++i) {
      if (cel_park_look(park) != seen) return true;
      pause_cpu();
    }
  }
  return false;
}

void cel_park_wait(cel_park *park, uint32_t seen, uint32_t timeout_us) {
  if (timeout_us == 0 || spin(park, seen)) return;
  struct timespec limit = {timeout_us / 1000000,
                           (long)(timeout_us % 1000000) * 1000};
  /* Sequentially consistent with wake: either it sees a sleeper or this one
   * sees the news. It sleeps on the mark, not on the news: whoever takes the
   * mark then wakes it, even where that one's news had been seen. Whoever
   * leaves by itself leaves the mark to the next wake. */
  atomic_store(&park->asleep, 1);
  if (atomic_load(&park->news) != seen) return;
  syscall(SYS_futex, &park->asleep, FUTEX_WAIT_PRIVATE, 1,
          timeout_us == UINT32_MAX ? NULL : &limit, NULL, 0);
}

void cel_park_wake(cel_park *park) {
  atomic_fetch_add(&park->news, 1);
  if (atomic_load(&park->asleep) != 0 && atomic_exchange(&park->asleep, 0) != 0)
    syscall(SYS_futex, &park->asleep, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL,
            0);
}

bool cel_park_asleep(const cel_park *park) {
  return atomic_load_explicit(&park->asleep, memory_order_relaxed) != 0;
}
