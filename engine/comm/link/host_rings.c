#include "comm/link/host_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/compile/leftover.h"

typedef struct ring {
  _Alignas(64) _Atomic(uint64_t) head; /* the consumer's */
  _Alignas(64) _Atomic(uint64_t) tail; /* the producer's */
  _Alignas(64) cel_host_record at[CEL_HOST_RING];
  _Alignas(64) _Atomic(uint64_t) words[CEL_HOST_WORDS];
} ring;

struct cel_host_rings {
  int32_t ranks;
  size_t size;
  ring *ring; /* from * ranks + to */
};

static cel_status map(int file, const char *name, int32_t ranks,
                      cel_host_rings **out) {
  size_t size = (size_t)ranks * (size_t)ranks * sizeof(ring);
  void *at = MAP_FAILED;
  if (ftruncate(file, (off_t)size) == 0)
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int why = errno;
  close(file);
  if (at == MAP_FAILED)
    return cel_fail(CEL_E_IO, "shared memory %s: %s", name, strerror(why));
  cel_host_rings *rings = cel_alloc(sizeof *rings);
  *rings = (cel_host_rings){ranks, size, at};
  *out = rings;
  return CEL_E_OK;
}

/* Where Linux has shared memory. */
static const char *path_of(const char *name, char path[PATH_MAX]) {
  snprintf(path, PATH_MAX, "/dev/shm%s", name);
  return path;
}

static cel_status open_as(const char *name, int flags, int32_t ranks,
                          cel_host_rings **out) {
  int file = shm_open(name, O_RDWR | flags, 0600);
  if (file < 0)
    return cel_fail(CEL_E_IO, "shared memory %s: %s", name, strerror(errno));
  return map(file, name, ranks, out);
}

cel_status cel_host_rings_create(const char *name, int32_t ranks,
                                 cel_host_rings **out) {
  char path[PATH_MAX];
  cel_leftover_add(path_of(name, path));
  return open_as(name, O_CREAT | O_EXCL, ranks, out);
}

cel_status cel_host_rings_open(const char *name, int32_t ranks,
                               cel_host_rings **out) {
  return open_as(name, 0, ranks, out);
}

void cel_host_rings_unlink(const char *name) {
  char path[PATH_MAX];
  shm_unlink(name);
  cel_leftover_drop(path_of(name, path));
}

void cel_host_rings_close(cel_host_rings *rings) {
  if (rings == NULL) return;
  munmap(rings->ring, rings->size);
  cel_free(rings);
}

static ring *ring_of(const cel_host_rings *rings, int32_t from, int32_t to) {
  cel_assert(from >= 0 && from < rings->ranks && to >= 0 && to < rings->ranks);
  return &rings->ring[(size_t)from * (size_t)rings->ranks + (size_t)to];
}

bool cel_host_rings_push(cel_host_rings *rings, int32_t from, int32_t to,
                         const cel_host_record *record) {
  ring *r = ring_of(rings, from, to);
  uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
  if (tail - atomic_load_explicit(&r->head, memory_order_acquire) ==
      CEL_HOST_RING)
    return false;
  r->at[tail % CEL_HOST_RING] = *record;
  atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
  return true;
}

bool cel_host_rings_pop(cel_host_rings *rings, int32_t from, int32_t to,
                        cel_host_record *out) {
  ring *r = ring_of(rings, from, to);
  uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
  if (head == atomic_load_explicit(&r->tail, memory_order_acquire))
    return false;
  *out = r->at[head % CEL_HOST_RING];
  atomic_store_explicit(&r->head, head + 1, memory_order_release);
  return true;
}

_Atomic(uint64_t) *cel_host_rings_words(cel_host_rings *rings, int32_t from,
                                        int32_t to) {
  return ring_of(rings, from, to)->words;
}
