#define _GNU_SOURCE /* sched_getaffinity */
#include "base/park.h"
#include "tuning.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LONG_NS = 4 * CEL_TUNE_LINGER_NS };

void cel_park_init(cel_park *park) {
  atomic_init(&park->news, 0);
  atomic_init(&park->asleep, 0);
  atomic_init(&park->usual_ns, 0);
  park->lingers = false;
}

void cel_park_linger(cel_park *park, int32_t processes) {
  park->lingers = cel_park_share(processes) >= CEL_TUNE_LINGER_CORES;
}

uint32_t cel_park_prepare(const cel_park *park) {
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

static _Atomic(int32_t) main_cores, core_sharers;

/* Main's thread has the process's number, and is not pinned as others may be.
 */
void cel_park_count_cores(int32_t sharers) {
  cpu_set_t set[CEL_CPUS / CPU_SETSIZE];
  int32_t n = sched_getaffinity(getpid(), sizeof set, set) == 0
                  ? CPU_COUNT_S(sizeof set, set)
                  : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
  atomic_store_explicit(&core_sharers, sharers, memory_order_relaxed);
  atomic_store_explicit(&main_cores, n, memory_order_relaxed);
}

int32_t cel_park_cores(void) {
  if (atomic_load_explicit(&main_cores, memory_order_relaxed) == 0)
    cel_park_count_cores(0);
  return atomic_load_explicit(&main_cores, memory_order_relaxed);
}

int32_t cel_park_share(int32_t processes) {
  int32_t cores = cel_park_cores();
  int32_t among = atomic_load_explicit(&core_sharers, memory_order_relaxed);
  bool bound = cores < (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (!bound && processes > among) among = processes;
  return among > 1 ? cores / among : cores;
}

bool cel_park_crowded(void) {
  return cel_park_cores() < CEL_TUNE_SPIN_CORES;
}

static _Atomic(int32_t) occupied;

void cel_park_occupy(int32_t cores) {
  atomic_fetch_add_explicit(&occupied, cores, memory_order_relaxed);
}

static int32_t free_cores(void) {
  return cel_park_cores() -
         atomic_load_explicit(&occupied, memory_order_relaxed);
}

void cel_park_defer(void) {
  struct sched_param none = {0};
  if (cel_park_crowded()) sched_setscheduler(0, SCHED_BATCH, &none);
}

bool cel_park_spin(const cel_park *park, uint32_t seen, int64_t ns) {
  int64_t end = now_ns() + ns;
  while (now_ns() < end) {
    for (int i = 0; i < 64; ++i) {
      if (cel_park_prepare(park) != seen) return true;
      pause_cpu();
    }
  }
  return false;
}

static void sleep_on(cel_park *park, uint32_t seen, uint32_t timeout_us) {
  struct timespec limit = {timeout_us / 1000000,
                           (long)(timeout_us % 1000000) * 1000};
  /* Sequentially consistent with wake: either it sees a sleeper or this one
   * sees the news. It sleeps on the mark, not on the news: whoever takes the
   * mark then wakes it, even where that one's news had been seen. A mark that
   * was taken does not come again, so nobody falls asleep by that of another
   * who came later. Whoever leaves by itself leaves the mark to the next wake.
   */
  uint32_t mark = atomic_fetch_or(&park->asleep, 1) | 1;
  if (atomic_load(&park->news) != seen) return;
  syscall(SYS_futex, &park->asleep, FUTEX_WAIT_PRIVATE, mark,
          timeout_us == UINT32_MAX ? NULL : &limit, NULL, 0);
}

/* One long wait ends lingering, and two or three short ones bring it back. */
static void learn(cel_park *park, int64_t took) {
  int64_t old = atomic_load_explicit(&park->usual_ns, memory_order_relaxed);
  if (took > LONG_NS) took = LONG_NS;
  atomic_store_explicit(&park->usual_ns, (int32_t)(old + (took - old) / 4),
                        memory_order_relaxed);
}

/* Until when others want these cores: a yield is then a wait for their turn,
 * while a sleeper gets its core back as soon as it is woken. */
static _Atomic(int64_t) wanted_ns;

/* As cel_park_spin, where threads share cores: it is who else is ready that
 * goes on, and as long as nobody is the core stays awake. */
static bool give_way(const cel_park *park, uint32_t seen) {
  int64_t now = now_ns(), end = now + CEL_TUNE_GIVE_WAY_NS;
  if (now < atomic_load_explicit(&wanted_ns, memory_order_relaxed))
    return false;
  while (now < end) {
    int64_t before = now;
    sched_yield();
    if (cel_park_prepare(park) != seen) return true;
    now = now_ns();
    if (now - before > CEL_TUNE_CROWDED_NS) {
      int64_t until = now + (now - before) * CEL_TUNE_CROWDED_TIMES;
      atomic_store_explicit(&wanted_ns, until, memory_order_relaxed);
      return false;
    }
  }
  return false;
}

void cel_park_wait(cel_park *park, uint32_t seen, uint32_t timeout_us) {
  if (timeout_us == 0 || cel_park_prepare(park) != seen) return;
  int32_t cores = free_cores();
  if (cores < CEL_TUNE_SPIN_CORES) {
    if (cores <= 1 || !give_way(park, seen)) sleep_on(park, seen, timeout_us);
    return;
  }
  bool naps = timeout_us < CEL_TUNE_LINGER_NS / 1000;
  bool learns = park->lingers && !naps;
  bool lingers =
      learns && atomic_load_explicit(&park->usual_ns, memory_order_relaxed) <
                    CEL_TUNE_LINGER_NS;
  int64_t begin = now_ns();
  if (!cel_park_spin(park, seen,
                     lingers ? CEL_TUNE_LINGER_NS : CEL_TUNE_SPIN_NS))
    sleep_on(park, seen, timeout_us);
  if (learns) learn(park, now_ns() - begin);
}

void cel_park_wake(cel_park *park) {
  atomic_fetch_add(&park->news, 1);
  uint32_t mark = atomic_load(&park->asleep);
  if (mark % 2 != 0 &&
      atomic_compare_exchange_strong(&park->asleep, &mark, mark + 1))
    syscall(SYS_futex, &park->asleep, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL,
            0);
}

bool cel_park_asleep(const cel_park *park) {
  return atomic_load_explicit(&park->asleep, memory_order_relaxed) % 2 != 0;
}
