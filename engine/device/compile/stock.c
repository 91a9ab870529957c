#include "device/compile/stock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/compile/cache.h"
#include "device/compile/leftover.h"

enum { STEM = 32, SCRATCH = 16 }; /* digits */

static const char scratch[] = "scratch/";

/* Whether the file is the cache's own. */
static bool is_own(const char *name) {
  static const char *const suffixes[] = {".so", ".cubin", ".needs",
                                         ".by", ".lock",  CEL_CACHE_SAMPLE};
  if (strspn(name, "0123456789abcdef") != STEM) return false;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; ++i)
    if (strcmp(name + STEM, suffixes[i]) == 0) return true;
  return false;
}

static void add(const char *name, const struct stat *info, bool leftover,
                cel_stock_list *out) {
  cel_stock_file file = {.leftover = leftover,
                         .bytes = (uint64_t)info->st_size,
                         .age = (int64_t)(time(NULL) - info->st_mtime)};
  snprintf(file.name, sizeof file.name, "%s%.64s", leftover ? scratch : "",
           name);
  cel_vec_push(out, file);
}

/* As scratch.h names them. */
static bool is_leftover(const char *name) {
  return strspn(name, "0123456789abcdef") == SCRATCH && name[SCRATCH] == '\0';
}

static void look(DIR *dir, bool (*wanted)(const char *name), bool leftover,
                 cel_stock_list *out) {
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    struct stat info;
    if (wanted(entry->d_name) &&
        fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      add(entry->d_name, &info, leftover, out);
  }
  closedir(dir);
}

cel_status cel_stock_find(cel_stock_list *out) {
  const char *folder = cel_cache_folder();
  cel_text path = {0};
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return cel_fail(CEL_E_IO, "cannot read %s: %s", folder, strerror(errno));
  look(dir, is_own, false, out);
  cel_text_format(&path, "%s/%s", folder, scratch);
  dir = opendir(path.at);
  if (dir != NULL) look(dir, is_leftover, true, out);
  cel_vec_release(&path);
  return CEL_E_OK;
}

bool cel_stock_remove(const char *name) {
  bool leftover = strncmp(name, scratch, sizeof scratch - 1) == 0;
  if (leftover ? !is_leftover(name + sizeof scratch - 1) : !is_own(name))
    return false;
  cel_text path = {0};
  cel_text_format(&path, "%s/%s", cel_cache_folder(), name);
  cel_leftover_remove(path.at);
  bool gone = access(path.at, F_OK) != 0;
  cel_vec_release(&path);
  return gone;
}
