/* With $FAKE_COUNT it says at the end how often virtual memory was made. */
#define _GNU_SOURCE
#include "device/fake_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Never freed, so that a handle that is used for too long is found. */
typedef struct physical {
  struct physical *next;
  int file, device, mappings; /* device: -1 in the host, or another process's */
  bool released;
  size_t size;
} physical;

typedef struct mapping {
  CUdeviceptr at;
  physical *physical;
  unsigned long long open; /* to which devices, a bit each */
} mapping;

/* Plain memory, ours or another process's. */
typedef struct shared {
  CUdeviceptr at;
  size_t size;
  int file;
} shared;

static struct {
  pthread_mutex_t lock; /* guards all */
  size_t limit;         /* 0: by the environment */
  size_t held[FAKE_DEVICES];
  physical *first;
  mapping *mapping;
  int mappings, mapping_room;
  shared *shared;
  int shares, share_room;
  long made;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void wrong(const char *what) {
  fprintf(stderr, "fake driver: %s\n", what);
  abort();
}

/* ---- files --------------------------------------------------------------- */

int fake_file_make(size_t size) {
  int file = memfd_create("fake", 0);
  if (file < 0 || ftruncate(file, (off_t)size) != 0)
    wrong("there is no shared memory");
  return file;
}

int fake_file_open(int pid, int file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
  return open(path, O_RDWR | O_CLOEXEC);
}

void *fake_file_map(int file, size_t size) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) wrong("there is no room for shared memory");
  return at;
}

/* ---- virtual memory ------------------------------------------------------ */

void fake_memory_limit(size_t bytes) {
  fake.limit = bytes;
}

size_t fake_memory_bytes(void) {
  const char *text = getenv("FAKE_MEMORY");
  if (fake.limit > 0) return fake.limit;
  return text != NULL ? (size_t)atoi(text) << 20 : 0;
}

__attribute__((destructor)) static void tell_count(void) {
  if (getenv("FAKE_COUNT") != NULL) fprintf(stderr, "made %ld\n", fake.made);
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align,
                             CUdeviceptr at, unsigned long long flags) {
  (void)align, (void)at, (void)flags;
  void *p = mmap(NULL, size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *out = (CUdeviceptr)(uintptr_t)p;
  return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t size) {
  return munmap((void *)(uintptr_t)at, size) == 0 ? CUDA_SUCCESS : 1;
}

/* The lock is held. */
static CUmemGenericAllocationHandle add_physical(int file, int device,
                                                 size_t size) {
  physical *p = calloc(1, sizeof *p);
  *p = (physical){
      .next = fake.first, .file = file, .device = device, .size = size};
  fake.first = p;
  return (uintptr_t)p;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                     const CUmemAllocationProp *prop,
                     unsigned long long flags) {
  (void)flags;
  bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  int device = on_device ? prop->location.id : -1;
  pthread_mutex_lock(&fake.lock);
  bool full = on_device && size > fake_memory_bytes() - fake.held[device];
  if (!full) {
    int file = fake_file_make(size);
    void *garbage = fake_file_map(file, size);
    memset(garbage, 0xa5, size);
    munmap(garbage, size);
    if (on_device) fake.held[device] += size;
    fake.made++;
    *out = add_physical(file, device, size);
  }
  pthread_mutex_unlock(&fake.lock);
  return full ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* The lock is held. */
static void drop(physical *p) {
  if (!p->released || p->mappings > 0) return;
  if (p->device >= 0) fake.held[p->device] -= p->size;
  close(p->file);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  physical *p = (physical *)(uintptr_t)handle;
  pthread_mutex_lock(&fake.lock);
  if (p->released) wrong("memory is released twice");
  p->released = true;
  drop(p);
  pthread_mutex_unlock(&fake.lock);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  (void)flags;
  physical *p = (physical *)(uintptr_t)handle;
  if (p->released || offset != 0 || size != p->size)
    wrong("what is mapped is no block");
  if (mmap((void *)(uintptr_t)at, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
           p->file, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&fake.lock);
  p->mappings++;
  if (fake.mappings == fake.mapping_room) {
    fake.mapping_room = fake.mapping_room * 2 + 16;
    fake.mapping =
        realloc(fake.mapping, (size_t)fake.mapping_room * sizeof *fake.mapping);
  }
  fake.mapping[fake.mappings++] = (mapping){at, p, 0};
  pthread_mutex_unlock(&fake.lock);
  return CUDA_SUCCESS;
}

/* Whole mappings alone, as the driver wants it. */
CUresult cuMemUnmap(CUdeviceptr at, size_t size) {
  pthread_mutex_lock(&fake.lock);
  int i = 0;
  while (i < fake.mappings &&
         (fake.mapping[i].at != at || fake.mapping[i].physical->size != size))
    ++i;
  if (i == fake.mappings) wrong("what is unmapped is no mapping");
  if (mmap((void *)(uintptr_t)at, size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED)
    wrong("what was mapped stays");
  physical *p = fake.mapping[i].physical;
  fake.mapping[i] = fake.mapping[--fake.mappings];
  p->mappings--;
  drop(p);
  pthread_mutex_unlock(&fake.lock);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size,
                        const CUmemAccessDesc *desc, size_t count) {
  pthread_mutex_lock(&fake.lock);
  for (int i = 0; i < fake.mappings; ++i)
    for (size_t k = 0; k < count && fake.mapping[i].at == at; ++k)
      if (desc[k].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        fake.mapping[i].open |= 1ull << desc[k].location.id;
  pthread_mutex_unlock(&fake.lock);
  return mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE) == 0
             ? CUDA_SUCCESS
             : 1;
}

CUresult cuMemExportToShareableHandle(void *out,
                                      CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags) {
  (void)type, (void)flags;
  int file = dup(((physical *)(uintptr_t)handle)->file);
  memcpy(out, &file, sizeof file);
  return file >= 0 ? CUDA_SUCCESS : 1;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out,
                                        void *from, int type) {
  (void)type;
  int file = dup((int)(intptr_t)from);
  off_t size = lseek(file, 0, SEEK_END);
  if (size <= 0) wrong("an empty block is opened");
  pthread_mutex_lock(&fake.lock);
  *out = add_physical(file, -1, (size_t)size);
  pthread_mutex_unlock(&fake.lock);
  return CUDA_SUCCESS;
}

bool fake_reaches(int device, CUdeviceptr at) {
  bool reaches = true;
  pthread_mutex_lock(&fake.lock);
  for (int i = 0; i < fake.mappings; ++i) {
    const mapping *m = &fake.mapping[i];
    if (at >= m->at && at - m->at < m->physical->size)
      reaches = m->open >> device & 1;
  }
  pthread_mutex_unlock(&fake.lock);
  return reaches;
}

void fake_copy(const CUDA_MEMCPY3D *c) {
  for (size_t z = 0; z < c->Depth; ++z)
    for (size_t y = 0; y < c->Height; ++y)
      memcpy((char *)(uintptr_t)c->dstDevice +
                 (z * c->dstHeight + y) * c->dstPitch,
             (char *)(uintptr_t)c->srcDevice +
                 (z * c->srcHeight + y) * c->srcPitch,
             c->WidthInBytes);
}

/* ---- memory that other processes can open -------------------------------- */

typedef struct opener {
  int pid, file;
  size_t size;
} opener;

static CUresult share_file(CUdeviceptr *out, size_t size, int file) {
  shared s = {(uintptr_t)fake_file_map(file, size), size, file};
  pthread_mutex_lock(&fake.lock);
  if (fake.shares == fake.share_room) {
    fake.share_room = fake.share_room * 2 + 16;
    fake.shared =
        realloc(fake.shared, (size_t)fake.share_room * sizeof *fake.shared);
  }
  fake.shared[fake.shares++] = s;
  pthread_mutex_unlock(&fake.lock);
  *out = s.at;
  return CUDA_SUCCESS;
}

CUresult fake_share(CUdeviceptr *out, size_t size) {
  return share_file(out, size, fake_file_make(size));
}

/* The lock is held; or -1. */
static int find_shared(CUdeviceptr at) {
  int i = fake.shares - 1;
  while (i >= 0 && fake.shared[i].at != at) --i;
  return i;
}

bool fake_unshare(CUdeviceptr at) {
  pthread_mutex_lock(&fake.lock);
  int i = find_shared(at);
  if (i >= 0) {
    munmap((void *)(uintptr_t)at, fake.shared[i].size);
    close(fake.shared[i].file);
    fake.shared[i] = fake.shared[--fake.shares];
  }
  pthread_mutex_unlock(&fake.lock);
  return i >= 0;
}

CUresult cuIpcGetMemHandle(CUipcHandle *out, CUdeviceptr at) {
  pthread_mutex_lock(&fake.lock);
  int i = find_shared(at);
  opener own = {.pid = getpid()};
  if (i >= 0) {
    own.file = fake.shared[i].file;
    own.size = fake.shared[i].size;
    memcpy(out->bytes, &own, sizeof own);
  }
  pthread_mutex_unlock(&fake.lock);
  return i >= 0 ? CUDA_SUCCESS : 801;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcHandle from,
                               unsigned flags) {
  (void)flags;
  opener theirs;
  memcpy(&theirs, from.bytes, sizeof theirs);
  int file = fake_file_open(theirs.pid, theirs.file);
  return file >= 0 ? share_file(out, theirs.size, file)
                   : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
  if (!fake_unshare(at)) wrong("memory is closed that is not open");
  return CUDA_SUCCESS;
}
