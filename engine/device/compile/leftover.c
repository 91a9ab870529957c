#define _GNU_SOURCE /* SYS_getdents64 */
#include "device/compile/leftover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/vec.h"

typedef struct row {
  char *path; /* owned; null: a child */
  pid_t child;
} row;

static CEL_VEC(row) rows; /* the lock's */

/* ---- the lock ---------------------------------------------------------------
 *
 * Whoever holds it gets no signals, so that a handler may wait for it. */

static atomic_flag locked = ATOMIC_FLAG_INIT;
static atomic_bool ending; /* no child can be started any more */
static atomic_bool ended;  /* the lock is not given back */

enum { PATIENCE = 1000 }; /* naps of a handler: the holder may be no more */

static void nap(void) {
  nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static bool try_lock(void) {
  for (int naps = 0; naps < PATIENCE && !atomic_load(&ended); ++naps, nap())
    if (!atomic_flag_test_and_set(&locked)) return true;
  return false;
}

/* False when the end has begun. */
static bool lock(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
  while (atomic_flag_test_and_set(&locked)) {
    if (atomic_load(&ended)) return false;
    nap();
  }
  return true;
}

/* The same for what is new. */
static void lock_or_wait(sigset_t *before) {
  if (!lock(before))
    for (;;) pause();
}

static void unlock(const sigset_t *before) {
  atomic_flag_clear(&locked);
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* ---- files ------------------------------------------------------------------
 */

void cel_leftover_add(const char *path) {
  row fresh = {.path = cel_strdup(path)};
  sigset_t before;
  lock_or_wait(&before);
  cel_vec_push(&rows, fresh);
  unlock(&before);
}

void cel_leftover_drop(const char *path) {
  sigset_t before;
  char *found = NULL;
  if (!lock(&before)) return;
  for (uint32_t i = rows.n; i-- > 0 && found == NULL;) {
    if (rows.at[i].path == NULL || strcmp(rows.at[i].path, path) != 0) continue;
    found = rows.at[i].path;
    cel_vec_swap_out(&rows, i);
  }
  unlock(&before);
  cel_free(found);
}

/* A cache, its scratch, a folder in there; no deeper than is ours. */
enum { DEEPEST = 3, ENTRIES = 2048 };

typedef struct entry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[];
} entry;

static void remove_at(int parent, const char *name, int depth);

/* By the system's own call, as opendir is not for signal handlers. Whether
 * there was anything. */
static bool remove_entries(int folder, int depth) {
  _Alignas(8) char list[ENTRIES];
  bool any = false;
  long n;
  lseek(folder, 0, SEEK_SET);
  while ((n = syscall(SYS_getdents64, folder, list, sizeof list)) > 0)
    for (long at = 0; at < n; at += ((entry *)(list + at))->size) {
      const char *name = ((entry *)(list + at))->name;
      if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
      remove_at(folder, name, depth);
      any = true;
    }
  return any;
}

static void remove_at(int parent, const char *name, int depth) {
  enum { PASSES = 4 }; /* what was killed may have made one more */
  if (unlinkat(parent, name, 0) == 0 || depth == 0) return;
  int folder =
      openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  for (int i = 0; i < PASSES && remove_entries(folder, depth - 1); ++i) {
  }
  close(folder);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void cel_leftover_remove(const char *path) {
  remove_at(AT_FDCWD, path, DEEPEST);
  cel_leftover_drop(path);
}

/* ---- children ---------------------------------------------------------------
 */

int cel_leftover_start(int (*start)(void *context, pid_t *child), void *context,
                       pid_t *child) {
  sigset_t before;
  lock_or_wait(&before);
  int failed = atomic_load(&ending) ? ECANCELED : start(context, child);
  if (failed == 0) cel_vec_push(&rows, ((row){.child = *child}));
  unlock(&before);
  return failed;
}

int cel_leftover_reap(pid_t child) {
  sigset_t before;
  siginfo_t info;
  int status = 0;
  while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  if (!lock(&before)) return SIGKILL; /* as it has been ended by */
  for (uint32_t i = rows.n; i-- > 0;)
    if (rows.at[i].child == child) cel_vec_swap_out(&rows, i);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  unlock(&before);
  return status;
}

static void send_all(int signal) {
  for (uint32_t i = 0; i < rows.n; ++i)
    if (rows.at[i].child > 0) kill(-rows.at[i].child, signal);
}

static void lock_and_send_all(int signal) {
  int before = errno;
  if (try_lock()) {
    send_all(signal);
    atomic_flag_clear(&locked);
  }
  errno = before;
}

void cel_leftover_interrupt(void) {
  lock_and_send_all(SIGINT);
}

bool cel_leftover_ending(void) {
  return atomic_load(&ending);
}

void cel_leftover_end_children(void) {
  atomic_store(&ending, true);
  lock_and_send_all(SIGKILL);
}

/* ---- the end ----------------------------------------------------------------
 */

/* Until all of a killed child's group are gone. What it has started becomes
 * this process's own with its end, and so can be waited for. */
static void await(pid_t child) {
  for (int naps = 0; naps < PATIENCE; ++naps) {
    pid_t ended = waitpid(-child, NULL, WNOHANG);
    if (ended < 0 && errno != EINTR) return;
    if (ended == 0) nap();
  }
}

void cel_leftover_end(void) {
  static atomic_flag begun = ATOMIC_FLAG_INIT;
  static atomic_bool over;
  int before = errno;
  if (atomic_flag_test_and_set(&begun)) {
    for (int naps = 0; naps < PATIENCE && !atomic_load(&over); ++naps) nap();
    return;
  }
  atomic_store(&ending, true);
  (void)try_lock();
  atomic_store(&ended, true);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  send_all(SIGKILL);
  for (uint32_t i = 0; i < rows.n; ++i)
    if (rows.at[i].child > 0) await(rows.at[i].child);
  for (uint32_t i = rows.n; i-- > 0;)
    if (rows.at[i].path != NULL) remove_at(AT_FDCWD, rows.at[i].path, DEEPEST);
  atomic_store(&over, true);
  errno = before;
}
