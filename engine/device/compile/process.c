#define _GNU_SOURCE
#include "device/compile/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/compile/leftover.h"

extern char **environ;

/* What is to be started. */
typedef struct program {
  const char *const *argv;
  const char *folder; /* may be null */
  int out;            /* where it writes */
} program;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* The child speaks English, is spared what was preloaded into us, and has its
 * temporary files in `folder`, for which `temporary` is. */
static char **child_environment(const char *folder, cel_text *temporary) {
  static char locale[] = "LC_ALL=C";
  size_t n = 0, kept = 0;
  while (environ[n] != NULL) ++n;
  char **list = cel_alloc((n + 3) * sizeof *list);
  for (size_t i = 0; i < n; ++i)
    if (!begins(environ[i], "LD_PRELOAD=") && !begins(environ[i], "LC_ALL=") &&
        !(folder != NULL && begins(environ[i], "TMPDIR=")))
      list[kept++] = environ[i];
  list[kept++] = locale;
  if (folder != NULL) {
    cel_text_format(temporary, "TMPDIR=%s", folder);
    list[kept++] = temporary->at;
  }
  list[kept] = NULL;
  return list;
}

/* In a process group of its own. */
static int spawn(void *context, pid_t *child) {
  const program *p = context;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, p->out, 1);
  posix_spawn_file_actions_adddup2(&actions, p->out, 2);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  cel_text temporary = {0};
  char **environment = child_environment(p->folder, &temporary);
  int failed = posix_spawnp(child, p->argv[0], &actions, &attributes,
                            (char *const *)p->argv, environment);
  cel_free(environment);
  cel_vec_release(&temporary);
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

cel_status cel_process_run(const char *const *argv, const char *folder,
                           cel_text *said, int *code) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cel_fail(CEL_E_IO, "cannot start %s: no pipe: %s", argv[0],
                    strerror(errno));
  pid_t child;
  program program = {.argv = argv, .folder = folder, .out = ends[1]};
  int failed = cel_leftover_start(spawn, &program, &child);
  close(ends[1]);
  if (failed == 0) read_all(ends[0], said);
  close(ends[0]);
  if (failed != 0)
    return cel_fail(CEL_E_MISSING, "cannot start %s: %s%s", argv[0],
                    strerror(failed),
                    failed == EAGAIN ? " (see ulimit -u)" : "");
  int status = cel_leftover_reap(child);
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
