#define _GNU_SOURCE
#include "device/compile/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "device/kernel.h"

enum { LOCK_PATIENCE_MS = 120000, DAY_S = 24 * 3600 };

void cel_key_add(cel_key *key, const void *data, size_t size) {
  uint64_t first = cel_hash(data, size, key->half[0]);
  key->half[1] = cel_hash(data, size, key->half[1] ^ first);
  key->half[0] = cel_hash(&size, sizeof size, first);
}

void cel_key_add_string(cel_key *key, const char *text) {
  cel_key_add(key, text, strlen(text));
}

/* ---- the folder */

enum { FOLDER = 512 };
static char folder[FOLDER], folder_warning[2 * FOLDER + 256];
static cel_error nowhere; /* why there is no folder, if so */

static bool wanted_folder(char *out, size_t size) {
  const char *own = getenv("CELER_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  int n = -1;
  if (own != NULL && own[0] != '\0')
    n = snprintf(out, size, "%s", own);
  else if (xdg != NULL && xdg[0] == '/')
    n = snprintf(out, size, "%s/celer", xdg);
  else if (home != NULL && home[0] == '/')
    n = snprintf(out, size, "%s/.cache/celer", home);
  return n > 0 && (size_t)n < size;
}

static bool make_folders(char *path) {
  for (char *p = path + 1; *p != '\0'; ++p) {
    if (*p != '/') continue;
    *p = '\0';
    mkdir(path, 0700); /* what is wrong with it shows at the last one */
    *p = '/';
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Whether a group has no other member: many systems give each user one. */
static bool is_ones_own(gid_t id) {
  const struct passwd *me = getpwuid(geteuid());
  const struct group *group = getgrgid(id);
  if (me == NULL || group == NULL || me->pw_gid != id ||
      strcmp(me->pw_name, group->gr_name) != 0)
    return false;
  for (char **member = group->gr_mem; *member != NULL; ++member)
    if (strcmp(*member, me->pw_name) != 0) return false;
  return true;
}

/* Whether others may rename what the user has in a folder. */
static bool others_rename_in(const struct stat *folder) {
  mode_t mode = folder->st_mode;
  if ((mode & S_ISVTX) != 0) return false;
  return (mode & 02) != 0 ||
         ((mode & 020) != 0 && !is_ones_own(folder->st_gid));
}

/* Whether they could put a folder of theirs in the place of this one, or of one
 * that it lies in; `path`, without links, becomes the one where they could. */
static bool is_replaceable(char *path) {
  struct stat info;
  while (strcmp(path, "/") != 0) {
    char *last = strrchr(path, '/');
    last[last == path] = '\0';
    if (stat(path, &info) == 0 && others_rename_in(&info)) return true;
  }
  return false;
}

/* Why the folder cannot be used, or null; `path` loses its links, which others
 * might change. */
static const char *fault_of(char path[FOLDER]) {
  static char text[FOLDER + 64];
  char real[PATH_MAX];
  struct stat info;
  if (!make_folders(path)) return strerror(errno);
  if (stat(path, &info) != 0) return strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "not a folder";
  if (info.st_uid != geteuid()) return "it belongs to somebody else";
  if ((info.st_mode & 022) != 0) return "others can write to it";
  if (access(path, R_OK | W_OK | X_OK) != 0) return strerror(errno);
  if (realpath(path, real) == NULL) return strerror(errno);
  if (strlen(real) >= FOLDER) return strerror(ENAMETOOLONG);
  memcpy(path, real, strlen(real) + 1);
  if (!is_replaceable(real)) return NULL;
  snprintf(text, sizeof text, "others can write to %.*s, and so replace it",
           FOLDER - 1, real);
  return text;
}

const char *cel_cache_folder(void) {
  if (folder[0] != '\0') return folder;
  char wanted[FOLDER] = "";
  bool known = wanted_folder(wanted, sizeof wanted);
  const char *fault =
      known ? fault_of(wanted) : "no home folder is known; set CELER_CACHE";
  if (fault == NULL) {
    memcpy(folder, wanted, sizeof folder);
    cel_scratch_sweep(folder);
    return folder;
  }
  snprintf(folder_warning, sizeof folder_warning,
           "compiled kernels are not kept: %s%s%s%s",
           known ? "cannot use the cache folder " : "", wanted,
           known ? ": " : "", fault);
  if (cel_scratch_private(folder, sizeof folder) != CEL_E_OK)
    nowhere = *cel_error_last();
  return folder;
}

static cel_status begin_scratch(cel_scratch *out) {
  const char *in = cel_cache_folder();
  return nowhere.code != CEL_E_OK ? cel_fail_with(&nowhere)
                                  : cel_scratch_begin(in, out);
}

void cel_cache_describe(char *out, size_t size, char *warning,
                        size_t warning_size) {
  snprintf(out, size, "%s", cel_cache_folder());
  snprintf(warning, warning_size, "%s", folder_warning);
}

cel_text cel_cache_path(const cel_key *key, const char *suffix) {
  cel_text path = {0};
  cel_text_format(&path, "%s/%016llx%016llx%s", cel_cache_folder(),
                  (unsigned long long)key->half[0],
                  (unsigned long long)key->half[1], suffix);
  return path;
}

/* ---- files */

typedef struct seal {
  char magic[8];
  uint64_t size, hash;
} seal;

/* Of the name, too: it is the key, and content of another key is no entry. */
static seal seal_of(const char *path, const char *data, size_t size) {
  const char *name = strrchr(path, '/') + 1;
  seal s = {"celer 2", size,
            cel_hash(data, size, cel_hash(name, strlen(name), 1))};
  return s;
}

bool cel_cache_peek(const char *path, cel_text *out) {
  if (!cel_text_read(out, path)) return false;
  if (out->n < sizeof(seal)) return false;
  size_t size = out->n - sizeof(seal);
  seal want = seal_of(path, out->at, size);
  if (memcmp(out->at + size, &want, sizeof want) != 0) return false;
  out->n = (uint32_t)size;
  out->at[size] = '\0';
  return true;
}

void cel_cache_touch(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0 && time(NULL) - info.st_mtime >= DAY_S)
    utimensat(AT_FDCWD, path, NULL, 0);
}

bool cel_cache_read(const char *path, cel_text *out) {
  bool fine = cel_cache_peek(path, out);
  if (fine) cel_cache_touch(path);
  return fine;
}

static cel_status fail_io(const char *what, const char *path) {
  return cel_fail(CEL_E_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

cel_status cel_cache_write(const char *path, const cel_text *content) {
  cel_text whole = {0};
  cel_scratch beside;
  seal end = seal_of(path, cel_text_string(content), content->n);
  CEL_TRY(begin_scratch(&beside));
  cel_text_add(&whole, content->at, content->n);
  cel_text_add(&whole, (const char *)&end, sizeof end);
  cel_status status = CEL_E_OK;
  if (!cel_text_write(&whole, beside.path.at) ||
      rename(beside.path.at, path) != 0)
    status = fail_io("write", path);
  cel_vec_release(&whole);
  cel_scratch_end(&beside);
  return status;
}

int cel_cache_lock(const cel_key *key) {
  cel_text path = cel_cache_path(key, ".lock");
  int file = open(path.at, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  cel_vec_release(&path);
  if (file < 0) return -1;
  for (int waited = 0; waited < LOCK_PATIENCE_MS; waited += 5) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
    nanosleep(&(struct timespec){0, 5000000}, NULL);
  }
  return file;
}

void cel_cache_unlock(int lock) {
  if (lock >= 0) close(lock);
}

cel_status cel_cache_scratch(cel_scratch *out) {
  CEL_TRY(begin_scratch(out));
  if (mkdir(out->path.at, 0700) == 0) return CEL_E_OK;
  cel_status status = fail_io("make", out->path.at);
  cel_scratch_end(out);
  return status;
}

static _Atomic uint64_t count_found, count_made, count_unkept;

void cel_cache_count(bool found, bool kept) {
  atomic_fetch_add(found  ? &count_found
                   : kept ? &count_made
                          : &count_unkept,
                   1);
}

void cel_compile_count(cel_compiled *out) {
  *out = (cel_compiled){count_found, count_made, count_unkept};
}
