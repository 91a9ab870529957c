#define _GNU_SOURCE
#include "device/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Those that run, none of them reaped: no other process has such a number. A
 * signal handler may look at them, too. */
enum { MOST = 128 };
static _Atomic pid_t running[MOST]; /* 0: free */
static atomic_bool ending;

/* The child speaks English, and is spared what was preloaded into us. */
static char **child_environment(void) {
  static char locale[] = "LC_ALL=C";
  size_t n = 0, kept = 0;
  while (environ[n] != NULL) ++n;
  char **list = cel_alloc((n + 2) * sizeof *list);
  for (size_t i = 0; i < n; ++i)
    if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
        strncmp(environ[i], "LC_ALL=", 7) != 0)
      list[kept++] = environ[i];
  list[kept++] = locale;
  list[kept] = NULL;
  return list;
}

static int spawn(const char *const *argv, int out, pid_t *child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, out, 2);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  char **environment = child_environment();
  int failed = posix_spawnp(child, argv[0], &actions, &attributes,
                            (char *const *)argv, environment);
  cel_free(environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

static void read_all(int from, cel_text *said) {
  char piece[4096];
  for (;;) {
    ssize_t n = read(from, piece, sizeof piece);
    if (n > 0)
      cel_text_add(said, piece, (size_t)n);
    else if (n == 0 || errno != EINTR)
      return;
  }
}

bool cel_process_ending(void) {
  return atomic_load(&ending);
}

/* In a group of its own, so that all that it starts ends with it. */
static int start(const char *const *argv, int out, pid_t *child) {
  int failed = atomic_load(&ending) ? ECANCELED : spawn(argv, out, child);
  if (failed != 0) return failed;
  pid_t none = 0;
  for (int i = 0; i < MOST; ++i, none = 0)
    if (atomic_compare_exchange_strong(&running[i], &none, *child)) break;
  if (atomic_load(&ending)) kill(-*child, SIGTERM);
  return 0;
}

static int reap(pid_t child) {
  int status = 0;
  siginfo_t info;
  while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  for (int i = 0; i < MOST; ++i)
    if (atomic_load(&running[i]) == child) atomic_store(&running[i], 0);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void cel_process_end_all(void) {
  atomic_store(&ending, true);
  for (int i = 0; i < MOST; ++i) {
    pid_t child = atomic_load(&running[i]);
    if (child != 0) kill(-child, SIGTERM);
  }
}

cel_status cel_process_run(const char *const *argv, cel_text *said, int *code) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cel_fail(CEL_E_IO, "no pipe: %s", strerror(errno));
  pid_t child;
  int failed = start(argv, ends[1], &child);
  close(ends[1]);
  if (failed == 0) read_all(ends[0], said);
  close(ends[0]);
  if (failed != 0)
    return cel_fail(CEL_E_MISSING, "cannot start %s: %s", argv[0],
                    strerror(failed));
  int status = reap(child);
  *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return CEL_E_OK;
}

char *cel_process_find(const char *name) {
  if (strchr(name, '/') != NULL)
    return access(name, X_OK) == 0 ? cel_strdup(name) : NULL;
  const char *path = getenv("PATH");
  if (path == NULL) path = "/usr/local/bin:/usr/bin:/bin";
  while (*path != '\0') {
    size_t n = strcspn(path, ":");
    cel_text full = {0};
    cel_text_format(&full, "%.*s/%s", (int)n, path, name);
    if (access(full.at, X_OK) == 0) return full.at;
    cel_vec_release(&full);
    path += n + (path[n] == ':');
  }
  return NULL;
}
