#define _GNU_SOURCE /* syscall */
#include "comm/heartbeat/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* That it has to end when it is asked to. */
enum { ASKED_MS = 3000 };
/* Between it and a rank may be a shell, and what a site wraps ranks in. */
enum { ANCESTORS = 4 };

/* A process's name and its parent; false: there is none. */
static bool look_up(pid_t process, char name[32], pid_t *parent) {
  char path[32], text[256], state;
  int number = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  text[n > 0 ? n : 0] = '\0';
  const char *end = strrchr(text, ')'); /* a name may have anything in it */
  if (end == NULL || sscanf(text, "%*d (%31[^)]", name) != 1 ||
      sscanf(end, ") %c %d", &state, &number) != 2)
    return false;
  *parent = (pid_t)number;
  return true;
}

/* A daemon removes its files when it is asked to end. mpirun, where it hangs,
 * crashes then, with many lines; Open MPI 4.1. */
static const struct {
  const char *name;
  int signal;
} launchers[] = {{"mpirun", SIGKILL},  {"mpiexec", SIGKILL},
                 {"orterun", SIGKILL}, {"prterun", SIGKILL},
                 {"orted", SIGTERM},   {"prted", SIGTERM}};

static int signal_for(const char *name) {
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; ++i)
    if (strcmp(name, launchers[i].name) == 0) return launchers[i].signal;
  return 0;
}

/* As a file, which is of no process that gets its number later; -1: none.
 * *number: by which signal it is asked to end. *found: its own number. */
static int find_launcher(int *number, pid_t *found) {
  pid_t process = getppid(), parent;
  char name[32];
  for (int i = 0; i < ANCESTORS && process > 1; ++i, process = parent) {
    int file = (int)syscall(SYS_pidfd_open, process, 0);
    if (file < 0 || !look_up(process, name, &parent)) return -1;
    *number = signal_for(name);
    *found = process;
    if (*number != 0) return file;
    close(file);
  }
  return -1;
}

static bool ends_within(int launcher, int ms) {
  struct pollfd file = {.fd = launcher, .events = POLLIN};
  return poll(&file, 1, ms) != 0;
}

/* The folder that the launcher has made for this job on this host, which it
 * tells its ranks and removes at its end; null: not known. */
static const char *folder_of(pid_t launcher) {
  const char *folder = getenv("PMIX_SERVER_TMPDIR");
  char name[32];
  int size = snprintf(name, sizeof name, "/pid.%d", (int)launcher);
  if (folder == NULL || folder[0] != '/') return NULL;
  const char *end = strrchr(folder, '/');
  return strlen(end) == (size_t)size && strcmp(end, name) == 0 ? folder : NULL;
}

/* That of a launcher which is gone; and the one about it, which all jobs of a
 * user share, if it is empty. Does not come back. */
static void remove_folder(const char *folder) {
  execl("/bin/sh", "sh", "-c", "rm -rf -- \"$1\"; rmdir -- \"${1%/*}\"", "sh",
        folder, (char *)NULL);
}

/* In a process of its own, with nothing of the rank's but its memory. */
static void outlive(int launcher, int number, int wait_ms, const char *folder) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  setsid();
  dup2(launcher, STDIN_FILENO);
  (void)syscall(SYS_close_range, 1, ~0U, 0);
  if (ends_within(STDIN_FILENO, wait_ms)) return;
  syscall(SYS_pidfd_send_signal, STDIN_FILENO, number, NULL, 0);
  bool ended = ends_within(STDIN_FILENO, ASKED_MS);
  if (ended && number != SIGKILL) return;
  syscall(SYS_pidfd_send_signal, STDIN_FILENO, SIGKILL, NULL, 0);
  ended = ended || ends_within(STDIN_FILENO, ASKED_MS);
  if (ended && folder != NULL) remove_folder(folder);
}

void cel_launcher_outlive(int wait_ms) {
  pid_t process = 0;
  int number = 0, launcher = find_launcher(&number, &process);
  if (launcher < 0) return;
  const char *folder = folder_of(process);
  if (fork() == 0) {
    outlive(launcher, number, wait_ms, folder);
    _exit(0);
  }
  close(launcher);
}
