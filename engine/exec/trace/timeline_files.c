#include "exec/trace/timeline_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, NAP_NS = 1000000 };

static const char TAIL[] = "\n]\n";
enum { HEAD_BYTES = 2, TAIL_BYTES = 3 };

char *cel_timeline_path(const char *path, int64_t number) {
  size_t size = strlen(path) + 24;
  char *out = cel_alloc(size);
  if (number == 0)
    snprintf(out, size, "%s", path);
  else
    snprintf(out, size, "%s.%lld", path, (long long)number);
  return out;
}

/* Where the events of a file end; *closed: it is complete. Of one that is not,
 * the last line may have been cut. */
static off_t find_end(int file, char *buffer, bool *closed) {
  off_t size = lseek(file, 0, SEEK_END);
  off_t from = size > CHUNK ? size - CHUNK : 0;
  ssize_t n = pread(file, buffer, CHUNK, from);
  *closed =
      n >= TAIL_BYTES && memcmp(buffer + n - TAIL_BYTES, TAIL, TAIL_BYTES) == 0;
  if (*closed) return size - TAIL_BYTES;
  while (n >= 2 && memcmp(buffer + n - 2, ",\n", 2) != 0) --n;
  return n >= 2 ? from + n - 2 : 0;
}

/* The same, when it has been closed or no nap is left: time in which the whole
 * machine stands still is nobody's. */
static off_t await_end(int file, char *buffer, int64_t *naps) {
  struct timespec nap = {0, NAP_NS};
  bool closed;
  off_t end = find_end(file, buffer, &closed);
  for (; !closed && *naps > 0; --*naps) {
    nanosleep(&nap, NULL);
    end = find_end(file, buffer, &closed);
  }
  return end;
}

static bool write_all(int file, const char *data, size_t size) {
  while (size > 0) {
    ssize_t n = write(file, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data += n;
    size -= (size_t)n;
  }
  return true;
}

/* The events of `from` to where `out` is. */
static bool append(int out, int from, off_t end, char *buffer) {
  off_t at = HEAD_BYTES;
  if (end > at && !write_all(out, ",\n", 2)) return false;
  while (at < end) {
    size_t size = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
    ssize_t n = pread(from, buffer, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !write_all(out, buffer, (size_t)n)) return false;
    at += n;
  }
  return true;
}

static bool merge(int out, const char *path, int64_t ranks, int64_t *naps,
                  int64_t *missing, char *buffer) {
  off_t end = await_end(out, buffer, naps);
  if (end == 0 || ftruncate(out, end) != 0 || lseek(out, end, SEEK_SET) < 0)
    return false;
  for (int64_t k = 1; k < ranks; ++k) {
    char *name = cel_timeline_path(path, k);
    int from = open(name, O_RDONLY | O_CLOEXEC);
    bool ok =
        from < 0 || append(out, from, await_end(from, buffer, naps), buffer);
    if (from < 0) ++*missing;
    if (from >= 0) close(from);
    if (ok && from >= 0) unlink(name);
    cel_free(name);
    if (!ok) return false;
  }
  return write_all(out, TAIL, TAIL_BYTES);
}

cel_status cel_timeline_merge(const char *path, int64_t ranks,
                              int64_t patience_us, int64_t *missing) {
  int64_t naps = patience_us * 1000 / NAP_NS, absent = 0;
  int out = open(path, O_RDWR | O_CLOEXEC);
  char *buffer = cel_alloc(CHUNK);
  bool ok = out >= 0 && merge(out, path, ranks, &naps, &absent, buffer);
  int error = errno;
  cel_free(buffer);
  if (out >= 0 && close(out) != 0) ok = false;
  if (!ok)
    return cel_fail(CEL_E_IO,
                    "the timelines of the ranks cannot be merged: "
                    "%s: %s",
                    path, strerror(error));
  *missing = absent;
  return CEL_E_OK;
}
