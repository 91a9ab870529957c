/* Preloaded: the name of each file that the program opens goes into the file
 * that OPENED names, one per line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int open_really(const char *path, int flags, mode_t mode) {
  int (*real)(const char *, int, ...) =
      (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  return real(path, flags, mode);
}

static void note(const char *path) {
  char line[4096];
  int n = snprintf(line, sizeof line, "%s\n", path);
  int file = open_really(getenv("OPENED"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  (void)!write(file, line, (size_t)n);
  close(file);
}

static mode_t mode_of(int flags, va_list more) {
  return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = mode_of(flags, more);
  va_end(more);
  note(path);
  return open_really(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = mode_of(flags, more);
  va_end(more);
  note(path);
  return open_really(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
  FILE *(*real)(const char *, const char *) =
      (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
  note(path);
  return real(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
  return fopen(path, mode);
}
