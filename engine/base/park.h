/* park.h -- how a thread sleeps until another has news for it.
 *
 *   uint32_t seen = cel_park_prepare(&p);
 *   if (nothing to do) cel_park_wait(&p, seen, timeout);
 *
 * Invariant: a wake between prepare and wait is never lost, however many wait.
 * A waiter spins for some 20 us (see also cel_park_linger) and then sleeps on a
 * futex. Where threads share the cores, it gives way to the others instead for
 * a while, unless other programs want the cores, too. Wake costs one atomic
 * increment unless somebody sleeps; then the first one pays for a system call,
 * and those that follow before a sleeper has got a core do not.
 */
#ifndef CEL_BASE_PARK_H
#define CEL_BASE_PARK_H

/* Processors of a host, as many as Linux can be made to count. It refuses to
 * fill a smaller set than it counts, as a cpu_set_t of 1,024 may be. */
enum { CEL_CPUS = 8192 };

typedef struct cel_park cel_park;

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>

struct cel_park {
  _Atomic(uint32_t) news;
  _Atomic(uint32_t) asleep;  /* a futex; odd: some waiter may be, and nobody
                                wakes it yet; wakes count it up */
  _Atomic(int32_t) usual_ns; /* that a wait takes; where it lingers */
  bool lingers;              /* set before any waits */
};

void cel_park_init(cel_park *park);
/* Waiters spin for 100 us as long as waits take less than that: for the few
 * threads that hand each task on, whom to wake takes longer than a short task.
 * Only where each of so many processes of this host has cores for them. Before
 * any waits. */
void cel_park_linger(cel_park *park, int32_t processes);
/* Cores that this process may run on: a launcher may have bound it to few, as
 * mpirun binds two ranks to one each. Thread: any. */
int32_t cel_park_cores(void);
/* Counts them anew: main has just been given others, which are as many
 * processes'; 0: it is not known whose. Thread: main. */
void cel_park_count_cores(int32_t sharers);
/* Cores for each of so many processes of this host: of those that it is bound
 * to its own part, all of them where it is not known whose they are; else all
 * share all. Thread: any. */
int32_t cel_park_share(int32_t processes);
/* Cores are so few that the threads of an engine share them. Thread: any. */
bool cel_park_crowded(void);
/* Where cores are few, the calling thread is from now on one that is woken for
 * work to be done some time, and does not take the core from who wakes it: that
 * one goes on until it waits, and has more ready by then. For threads which
 * nobody waits for but by others that are not such. Thread: the one. */
void cel_park_defer(void);
/* So many more (or fewer) cores have work that nobody waits for, such as a
 * compiler's: waiters give way on those that are left where these are few.
 * Thread: any. */
void cel_park_occupy(int32_t cores);
/* Thread: any waiter. */
uint32_t cel_park_prepare(const cel_park *park);
/* Returns when there was a wake since `seen`, or after `timeout_us`
 * (UINT32_MAX: never). Thread: any waiter. */
void cel_park_wait(cel_park *park, uint32_t seen, uint32_t timeout_us);
/* Whether there is a wake since `seen` within so many ns, which are spent
 * looking: for who knows that one is near. Thread: any waiter. */
bool cel_park_spin(const cel_park *park, uint32_t seen, int64_t ns);
/* Thread: any. */
void cel_park_wake(cel_park *park);
/* Whether to wake it takes a system call. Thread: any. */
bool cel_park_asleep(const cel_park *park);
#endif

#endif
