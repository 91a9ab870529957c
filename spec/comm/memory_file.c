#define _GNU_SOURCE
#include "comm/memory_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

int memory_file_make(const char *name, size_t size) {
  int file = memfd_create(name, 0);
  if (file < 0 || ftruncate(file, (off_t)size) != 0)
    cel_bug("no shared memory for %s", name);
  return file;
}

int memory_file_open(int pid, int file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
  return open(path, O_RDWR | O_CLOEXEC);
}

void *memory_file_map(int file, size_t size) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) cel_bug("no shared memory");
  return at;
}
