#define _GNU_SOURCE
#include "device/compile/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/compile/leftover.h"

enum { PATIENCE_MS = 120000 };

static const char lock_name[] = "lock", private_name[] = "celer-";

/* ---- the lock ---------------------------------------------------------------
 */

static int open_lock(const char *folder, int flags) {
  cel_text path = {0};
  cel_text_format(&path, "%s/scratch", folder);
  if (flags != 0) mkdir(path.at, 0700);
  cel_text_format(&path, "/%s", lock_name);
  int file = open(path.at, O_RDWR | O_CLOEXEC | flags, 0600);
  cel_vec_release(&path);
  return file;
}

/* Whoever sweeps has it for a moment. Where locks do not work nobody sweeps. */
static void share(int lock) {
  for (int waited = 0; waited < PATIENCE_MS; ++waited) {
    if (flock(lock, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}

/* The lock of a scratch that nobody uses; -1 where there is none, or it is not
 * so. */
static int take_lock(const char *folder) {
  int lock = open_lock(folder, 0);
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  close(lock);
  return -1;
}

/* ---- life -------------------------------------------------------------------
 */

static unsigned long long draw(void) {
  unsigned long long number = 0;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
  }
  return number;
}

cel_status cel_scratch_begin(const char *folder, cel_scratch *out) {
  cel_scratch made = {.lock = open_lock(folder, O_CREAT)};
  if (made.lock < 0)
    return cel_fail(CEL_E_IO, "cannot write %s/scratch: %s", folder,
                    strerror(errno));
  share(made.lock);
  cel_text_format(&made.path, "%s/scratch/%016llx", folder, draw());
  cel_leftover_add(made.path.at);
  *out = made;
  return CEL_E_OK;
}

void cel_scratch_end(cel_scratch *scratch) {
  cel_leftover_remove(scratch->path.at);
  cel_vec_release(&scratch->path);
  close(scratch->lock);
}

/* ---- sweeping ---------------------------------------------------------------
 */

static void remove_in(const char *folder, const char *name) {
  cel_text path = {0};
  cel_text_format(&path, "%s/%s", folder, name);
  cel_leftover_remove(path.at);
  cel_vec_release(&path);
}

void cel_scratch_sweep(const char *folder) {
  int lock = take_lock(folder);
  if (lock < 0) return;
  cel_text path = {0};
  cel_text_format(&path, "%s/scratch", folder);
  DIR *dir = opendir(path.at);
  struct dirent *entry;
  while (dir != NULL && (entry = readdir(dir)) != NULL)
    if (entry->d_name[0] != '.' && strcmp(entry->d_name, lock_name) != 0)
      remove_in(path.at, entry->d_name);
  if (dir != NULL) closedir(dir);
  cel_vec_release(&path);
  close(lock);
}

static bool is_mine(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == geteuid();
}

static void sweep_private(const char *parent) {
  DIR *dir = opendir(parent);
  struct dirent *entry;
  while (dir != NULL && (entry = readdir(dir)) != NULL) {
    const char *name = entry->d_name;
    if (strncmp(name, private_name, sizeof private_name - 1) != 0) continue;
    cel_text path = {0};
    cel_text_format(&path, "%s/%s", parent, name);
    int lock = is_mine(path.at) ? take_lock(path.at) : -1;
    if (lock >= 0) {
      cel_leftover_remove(path.at);
      close(lock);
    }
    cel_vec_release(&path);
  }
  if (dir != NULL) closedir(dir);
}

/* Whoever sweeps may come between the lock's making and its taking. */
static bool make_private(const char *path) {
  if (mkdir(path, 0700) != 0) return false;
  cel_leftover_add(path);
  int lock = open_lock(path, O_CREAT);
  if (lock >= 0) share(lock); /* while this process lives */
  if (lock >= 0 && access(path, W_OK) == 0) return true;
  if (lock >= 0) close(lock);
  cel_leftover_remove(path);
  return false;
}

cel_status cel_scratch_private(char *folder, size_t size) {
  const char *parent = getenv("TMPDIR");
  if (parent == NULL || parent[0] != '/') parent = "/tmp";
  atexit(cel_leftover_end); /* of programs that do not call it themselves */
  sweep_private(parent);
  bool made = false;
  int why = 0;
  for (int tries = 0; tries < 3 && !made; ++tries) {
    snprintf(folder, size, "%.400s/%s%016llx", parent, private_name, draw());
    made = make_private(folder);
    why = errno;
  }
  if (made) return CEL_E_OK;
  return cel_fail(CEL_E_IO,
                  "a kernel cannot be compiled: compilers need a folder for "
                  "their files, and none can be made in %s: %s; set TMPDIR or "
                  "CELER_CACHE to a folder that can be written to",
                  parent, strerror(why));
}

bool cel_text_read(cel_text *text, const char *path) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return false;
  char piece[16384];
  size_t n;
  while ((n = fread(piece, 1, sizeof piece, file)) > 0)
    cel_text_add(text, piece, n);
  bool fine = !ferror(file);
  fclose(file);
  return fine;
}

bool cel_text_write(const cel_text *text, const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  size_t done = 0;
  while (done < text->n) {
    ssize_t n = write(file, text->at + done, text->n - done);
    if (n <= 0) break;
    done += (size_t)n;
  }
  return close(file) == 0 && done == text->n;
}
