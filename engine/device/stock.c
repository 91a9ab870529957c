#include "device/stock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"

enum { STEM = 32 };

static const char scratch[] = "scratch-";

/* What a stem is followed by; null when the name begins with none. */
static const char *after_stem(const char *name) {
  return strspn(name, "0123456789abcdef") == STEM ? name + STEM : NULL;
}

/* Whether the file is the cache's own, and then whether it is a leftover. */
static bool is_own(const char *name, bool *leftover) {
  static const char *const suffixes[] = {".so", ".cubin", ".needs", ".by",
                                         ".lock"};
  *leftover = true;
  if (strncmp(name, scratch, sizeof scratch - 1) == 0) return true;
  const char *rest = after_stem(name);
  for (size_t i = 0; rest != NULL && i < sizeof suffixes / sizeof *suffixes;
       ++i) {
    size_t n = strlen(suffixes[i]);
    if (strncmp(rest, suffixes[i], n) != 0) continue;
    *leftover = rest[n] == '.';
    size_t digits = strspn(rest + n + *leftover, "0123456789");
    if (rest[n] == '\0') return true;
    if (*leftover && strcmp(rest + n + 1 + digits, ".new") == 0) return true;
  }
  return false;
}

static void add(const char *name, const struct stat *info, bool leftover,
                cel_stock_list *out) {
  cel_stock_file file = {.leftover = leftover,
                         .bytes = (uint64_t)info->st_size,
                         .age = (int64_t)(time(NULL) - info->st_mtime)};
  if (strlen(name) >= sizeof file.name) return;
  memcpy(file.name, name, strlen(name) + 1);
  cel_vec_push(out, file);
}

cel_status cel_stock_look(cel_stock_list *out) {
  const char *folder = cel_cache_folder();
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return cel_fail(CEL_E_IO, "cannot read %s: %s", folder, strerror(errno));
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    struct stat info;
    bool leftover;
    if (is_own(entry->d_name, &leftover) &&
        fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      add(entry->d_name, &info, leftover, out);
  }
  closedir(dir);
  return CEL_E_OK;
}

bool cel_stock_remove(const char *name) {
  bool leftover;
  if (!is_own(name, &leftover) || strchr(name, '/') != NULL) return false;
  cel_text path = {0};
  cel_text_format(&path, "%s/%s", cel_cache_folder(), name);
  if (strncmp(name, scratch, sizeof scratch - 1) == 0)
    cel_cache_remove(path.at);
  else
    unlink(path.at);
  bool gone = access(path.at, F_OK) != 0;
  cel_vec_release(&path);
  return gone;
}
