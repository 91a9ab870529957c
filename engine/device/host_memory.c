#include "device/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "base/amount.h"
#include "tuning.h"

enum { HUGE_PAGE = 2 << 20 };

static uint64_t available(void) {
  FILE *file = fopen("/proc/meminfo", "r");
  if (file == NULL) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  fclose(file);
  return (uint64_t)kib << 10;
}

static cel_status fail(uint64_t bytes) {
  char asked[32], left[32];
  uint64_t most = available();
  cel_amount_text(bytes, asked, sizeof asked);
  cel_amount_text(most, left, sizeof left);
  return cel_fail(
      CEL_E_MEMORY, "out of host memory: %s asked for, %s available%s", asked,
      left,
      bytes <= most ? "; a limit refuses it: ulimit -v, or that of the "
                      "container or batch job"
                    : "");
}

/* All memory and swap of the host; what it has does not change. */
static uint64_t total(void) {
  static _Atomic uint64_t known;
  uint64_t bytes = known;
  struct sysinfo info;
  if (bytes == 0 && sysinfo(&info) == 0)
    known = bytes = (info.totalram + info.totalswap) * info.mem_unit;
  return bytes != 0 ? bytes : UINT64_MAX;
}

cel_status cel_memory_fits(uint64_t bytes) {
  if (bytes <= total()) return CEL_E_OK;
  char asked[CEL_AMOUNT_TEXT], has[CEL_AMOUNT_TEXT];
  cel_amount_texts(bytes, total(), asked, has);
  return cel_fail(CEL_E_MEMORY,
                  "out of host memory: this rank needs %s in one piece, this "
                  "host has %s in all; divide it among more hosts",
                  asked, has);
}

/* In whole huge pages: Linux lets only such begin with one. */
static uint64_t mapped(uint64_t bytes) {
  if (bytes < CEL_TUNE_HUGE_PAGES) return bytes;
  return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

cel_status cel__memory_map(uint64_t bytes, void **out) {
  if (bytes > SIZE_MAX / 2) return fail(bytes);
  void *p = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return fail(bytes);
  /* What is left of the last one is had as it is touched. */
  if (bytes >= CEL_TUNE_HUGE_PAGES)
    madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
  *out = p;
  return CEL_E_OK;
}

void cel__memory_unmap(void *p, uint64_t bytes) {
  munmap(p, mapped(bytes));
}

void cel__memory_vacate(void *p, uint64_t bytes) {
  madvise(p, bytes, MADV_DONTNEED);
}

static int class_of(uint64_t bytes) {
  int c = 0;
  while ((uint64_t)64 << c < bytes) ++c;
  return c;
}

cel_status cel_pool_reserve(cel_pool *pool, uint64_t bytes, void **out) {
  if (bytes >= CEL_MEMORY_SMALL) return cel__memory_map(bytes, out);
  int c = class_of(bytes);
  void *p = pool->free[c];
  if (p != NULL) {
    memcpy(&pool->free[c], p, sizeof p);
  } else {
    p = aligned_alloc(64, (size_t)64 << c);
    if (p == NULL) return fail(bytes);
  }
  *out = p;
  return CEL_E_OK;
}

void cel_pool_release(cel_pool *pool, void *p, uint64_t bytes) {
  if (p == NULL) return;
  if (bytes >= CEL_MEMORY_SMALL) {
    cel__memory_unmap(p, bytes);
    return;
  }
  int c = class_of(bytes);
  memcpy(p, &pool->free[c], sizeof p);
  pool->free[c] = p;
}

void cel_pool_clear(cel_pool *pool) {
  for (int c = 0; c < CEL_MEMORY_CLASSES; ++c) {
    while (pool->free[c] != NULL) {
      void *p = pool->free[c];
      memcpy(&pool->free[c], p, sizeof p);
      free(p);
    }
  }
}
