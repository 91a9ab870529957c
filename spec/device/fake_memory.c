/* Virtual memory of the fake driver: $FAKE_MEMORY MiB on each GPU, as many as
 * it takes in the host; none where that is not set. Memory is a file without a
 * name, full of garbage, so that what is mapped elsewhere keeps its contents
 * and what is not mapped faults. $FAKE_FREE MiB of it are said to be free, all
 * where that is not set. With $FAKE_COUNT it says at the end how often memory
 * was made. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FAKE_DEVICES = 64 };

typedef struct fake_physical {
  int fd, device, mappings, released; /* device: -1 in the host */
  size_t size;
} fake_physical;

typedef struct fake_mapping {
  unsigned long long at;
  fake_physical *physical;
  unsigned long long open; /* to which devices, a bit each */
} fake_mapping;

static struct {
  pthread_mutex_t lock; /* guards all */
  size_t held[FAKE_DEVICES];
  fake_mapping *at;
  int n, cap;
  long made;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t fake_memory_bytes(void) {
  const char *text = getenv("FAKE_MEMORY");
  return text != NULL ? (size_t)atoi(text) << 20 : 0;
}

__attribute__((destructor)) static void fake_memory_count(void) {
  if (getenv("FAKE_COUNT") != NULL) fprintf(stderr, "made %ld\n", fake.made);
}

int cuMemAddressReserve(unsigned long long *out, size_t size, size_t align,
                        unsigned long long at, unsigned long long flags) {
  (void)align, (void)at, (void)flags;
  void *p = mmap(NULL, size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *out = (unsigned long long)p;
  return p == MAP_FAILED ? 2 : 0;
}

int cuMemAddressFree(unsigned long long at, size_t size) {
  return munmap((void *)at, size) == 0 ? 0 : 1;
}

static int fake_fill(int fd, size_t size) {
  if (fd < 0 || ftruncate(fd, (off_t)size) != 0) return 2;
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return 2;
  memset(p, 0xa5, size);
  munmap(p, size);
  return 0;
}

/* `prop` begins with two ints; then the location: type 1 is a device. */
int cuMemCreate(unsigned long long *out, size_t size, const int *prop,
                unsigned long long flags) {
  (void)flags;
  int device = prop[2] == 1 ? prop[3] : -1;
  pthread_mutex_lock(&fake.lock);
  int full =
      device >= 0 && fake.held[device] + size > fake_memory_bytes() ? 2 : 0;
  if (device >= 0 && !full) fake.held[device] += size;
  fake.made += !full;
  pthread_mutex_unlock(&fake.lock);
  if (full) return 2;
  fake_physical *physical = calloc(1, sizeof *physical);
  *physical = (fake_physical){
      .fd = memfd_create("fake", 0), .device = device, .size = size};
  *out = (unsigned long long)physical;
  return fake_fill(physical->fd, size);
}

static void fake_drop(fake_physical *physical) {
  if (!physical->released || physical->mappings > 0) return;
  if (physical->device >= 0) fake.held[physical->device] -= physical->size;
  close(physical->fd);
  free(physical);
}

int cuMemRelease(unsigned long long handle) {
  fake_physical *physical = (fake_physical *)handle;
  pthread_mutex_lock(&fake.lock);
  physical->released = 1;
  fake_drop(physical);
  pthread_mutex_unlock(&fake.lock);
  return 0;
}

int cuMemMap(unsigned long long at, size_t size, size_t offset,
             unsigned long long handle, unsigned long long flags) {
  (void)flags;
  fake_physical *physical = (fake_physical *)handle;
  if (size != physical->size || offset != 0) return 1;
  if (mmap((void *)at, size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd,
           0) == MAP_FAILED)
    return 2;
  pthread_mutex_lock(&fake.lock);
  physical->mappings++;
  if (fake.n == fake.cap) {
    fake.cap = fake.cap * 2 + 16;
    fake.at = realloc(fake.at, (size_t)fake.cap * sizeof *fake.at);
  }
  fake.at[fake.n++] = (fake_mapping){at, physical, 0};
  pthread_mutex_unlock(&fake.lock);
  return 0;
}

/* Whole mappings alone, as the driver wants it. */
int cuMemUnmap(unsigned long long at, size_t size) {
  int code = 1;
  pthread_mutex_lock(&fake.lock);
  for (int i = 0; i < fake.n && code != 0; ++i) {
    fake_physical *physical = fake.at[i].physical;
    if (fake.at[i].at != at || physical->size != size) continue;
    mmap((void *)at, size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    fake.at[i] = fake.at[--fake.n];
    physical->mappings--;
    fake_drop(physical);
    code = 0;
  }
  pthread_mutex_unlock(&fake.lock);
  if (code != 0) abort();
  return code;
}

int cuMemExportToShareableHandle(void *out, unsigned long long handle, int type,
                                 unsigned long long flags) {
  (void)type, (void)flags;
  int fd = dup(((fake_physical *)handle)->fd);
  memcpy(out, &fd, sizeof fd);
  return fd >= 0 ? 0 : 1;
}

int cuMemImportFromShareableHandle(unsigned long long *out, void *from,
                                   int type) {
  (void)type;
  fake_physical *physical = calloc(1, sizeof *physical);
  *physical = (fake_physical){.fd = dup((int)(long)from), .device = -1};
  off_t size = lseek(physical->fd, 0, SEEK_END);
  physical->size = size > 0 ? (size_t)size : 0;
  *out = (unsigned long long)physical;
  return physical->size > 0 ? 0 : 1;
}

/* Whether a device may touch what lies there; plain memory any may. */
static int fake_reaches(int device, unsigned long long at) {
  int reaches = 1;
  pthread_mutex_lock(&fake.lock);
  for (int i = 0; i < fake.n; ++i)
    if (at >= fake.at[i].at && at - fake.at[i].at < fake.at[i].physical->size)
      reaches = (int)(fake.at[i].open >> device & 1);
  pthread_mutex_unlock(&fake.lock);
  return reaches;
}

/* Each is a location, type 1 a device, and what it may do. */
int cuMemSetAccess(unsigned long long at, size_t size, const int (*desc)[3],
                   size_t count) {
  pthread_mutex_lock(&fake.lock);
  for (int i = 0; i < fake.n; ++i)
    for (size_t k = 0; k < count && fake.at[i].at == at; ++k)
      if (desc[k][0] == 1) fake.at[i].open |= 1ull << desc[k][1];
  pthread_mutex_unlock(&fake.lock);
  return mprotect((void *)at, size, PROT_READ | PROT_WRITE) == 0 ? 0 : 1;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *all) {
  size_t bytes = fake_memory_bytes();
  const char *promised = getenv("FAKE_FREE");
  if (promised != NULL) bytes = (size_t)atoi(promised) << 20;
  *free_bytes = *all = bytes != 0 ? bytes : (size_t)80 << 30;
  return 0;
}
