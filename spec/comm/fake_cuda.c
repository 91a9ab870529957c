#include "comm/fake_cuda.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"
#include "base/vec.h"
#include "comm/memory_file.h"
#include "device/cuda/cuda_copy.h"

enum { EVENTS = 4096 };

/* In memory that processes share; both only grow. */
typedef struct event {
  _Atomic(uint64_t) recorded, reached;
} event;

typedef enum work_kind { COPY, PACK, SET, RECORD, WAIT, CALL } work_kind;

typedef struct work {
  work_kind kind;
  CUDA_MEMCPY3D copy;
  void *bytes; /* COPY: owned, what it copies from; or null */
  cel_cuda_strided strided;
  size_t unit; /* SET: bytes */
  CUdeviceptr at;
  unsigned char byte;
  event *event;
  uint64_t count;
  bool (*call)(void *context);
  void *context;
} work;

struct CUstream_st {
  uint32_t next;
  CEL_VEC(work) work;
};

typedef struct segment {
  CUdeviceptr at;
  size_t size;
  int file;
} segment;

static cel_random dice;
static CEL_VEC(CUstream) streams;
static struct CUstream_st unnamed; /* the driver's null */
static CEL_VEC(segment) segments;
static event *events;
static int events_file;
static uint32_t events_made;
static int64_t copies_left = INT64_MAX;

/* ---- memory -------------------------------------------------------------- */

static CUresult mem_alloc(CUdeviceptr *out, size_t size) {
  segment s = {.size = size, .file = memory_file_make("fake-cuda", size)};
  s.at = (uintptr_t)memory_file_map(s.file, size);
  cel_vec_push(&segments, s);
  *out = s.at;
  return CUDA_SUCCESS;
}

static CUresult mem_free(CUdeviceptr at) {
  for (uint32_t i = 0; i < segments.n; ++i) {
    segment s = segments.at[i];
    if (s.at != at) continue;
    munmap((void *)(uintptr_t)at, s.size);
    close(s.file);
    cel_vec_swap_out(&segments, i);
    return CUDA_SUCCESS;
  }
  cel_bug("fake CUDA: memory is freed that there is not");
}

typedef struct handle {
  int pid, file;
  uint64_t number; /* memory: bytes; event: which */
} handle;

static CUresult get_mem(CUipcHandle *out, CUdeviceptr at) {
  for (uint32_t i = 0; i < segments.n; ++i) {
    if (segments.at[i].at != at) continue;
    handle h = {getpid(), segments.at[i].file, segments.at[i].size};
    memcpy(out->bytes, &h, sizeof h);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult open_mem(CUdeviceptr *out, CUipcHandle from, unsigned flags) {
  (void)flags;
  handle h;
  memcpy(&h, from.bytes, sizeof h);
  segment s = {.size = h.number, .file = memory_file_open(h.pid, h.file)};
  if (s.file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  s.at = (uintptr_t)memory_file_map(s.file, s.size);
  cel_vec_push(&segments, s);
  *out = s.at;
  return CUDA_SUCCESS;
}

/* ---- mapped memory ------------------------------------------------------- */

/* A block that is made or opened, by its number from 1. */
typedef struct block {
  size_t size;
  int file;
} block;

static CEL_VEC(block) blocks;
static bool refuses_loans;

static CUresult reserve(CUdeviceptr *out, size_t size, size_t align,
                        CUdeviceptr at, unsigned long long flags) {
  (void)align, (void)at, (void)flags;
  void *p = mmap(NULL, size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *out = (uintptr_t)p;
  return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult free_address(CUdeviceptr at, size_t size) {
  munmap((void *)(uintptr_t)at, size);
  return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t size,
                       const CUmemAllocationProp *prop,
                       unsigned long long flags) {
  (void)prop, (void)flags;
  cel_vec_push(&blocks, (block){size, memory_file_make("fake-cuda", size)});
  *out = blocks.n;
  return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle) {
  block *b = &blocks.at[handle - 1];
  if (b->file < 0) cel_bug("fake CUDA: memory is released twice");
  close(b->file);
  b->file = -1;
  return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset,
                    CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
  (void)flags;
  const block *b = &blocks.at[handle - 1];
  if (b->file < 0 || offset != 0 || size != b->size)
    cel_bug("fake CUDA: what is mapped is no block");
  void *p = mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, b->file, 0);
  return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t size) {
  void *p =
      mmap((void *)(uintptr_t)at, size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t size,
                           const CUmemAccessDesc *who, size_t count) {
  (void)at, (void)size, (void)who, (void)count;
  return CUDA_SUCCESS;
}

static CUresult export_block(void *out, CUmemGenericAllocationHandle handle,
                             int type, unsigned long long flags) {
  (void)type, (void)flags;
  int file = dup(blocks.at[handle - 1].file);
  memcpy(out, &file, sizeof file);
  return CUDA_SUCCESS;
}

static CUresult import_block(CUmemGenericAllocationHandle *out, void *from,
                             int type) {
  (void)type;
  if (refuses_loans) return CUDA_ERROR_OUT_OF_MEMORY;
  block b = {.file = dup((int)(intptr_t)from)};
  off_t size = lseek(b.file, 0, SEEK_END);
  if (size <= 0) cel_bug("fake CUDA: an empty block is opened");
  b.size = (size_t)size;
  cel_vec_push(&blocks, b);
  *out = blocks.n;
  return CUDA_SUCCESS;
}

void fake_cuda_refuse_loans(void) {
  refuses_loans = true;
}

/* ---- streams ------------------------------------------------------------- */

static void copy_now(const CUDA_MEMCPY3D *c) {
  const char *from = (const char *)(uintptr_t)c->srcDevice;
  char *to = (char *)(uintptr_t)c->dstDevice;
  for (size_t i = 0; i < c->Depth; ++i)
    for (size_t j = 0; j < c->Height; ++j)
      memcpy(to + (i * c->dstHeight + j) * c->dstPitch,
             from + (i * c->srcHeight + j) * c->srcPitch, c->WidthInBytes);
}

/* As kernels/strided.cuh. */
static void pack_now(const cel_cuda_strided *s, size_t unit) {
  for (uint32_t i = 0; i < s->units; ++i) {
    uint64_t at = i % s->width * unit, line = i / s->width;
    uint64_t plane = line / s->rows, row = line % s->rows;
    memcpy(
        (char *)(uintptr_t)(s->to + plane * s->to_plane + row * s->to_row + at),
        (const char *)(uintptr_t)(s->from + plane * s->from_plane +
                                  row * s->from_row + at),
        unit);
  }
}

/* False: it waits for an event. */
static bool run_one(CUstream s) {
  const work *w = &s->work.at[s->next];
  switch (w->kind) {
  case COPY:
    copy_now(&w->copy);
    cel_free(w->bytes);
    break;
  case PACK: pack_now(&w->strided, w->unit); break;
  case SET: memset((void *)(uintptr_t)w->at, w->byte, w->unit); break;
  case RECORD: atomic_store(&w->event->reached, w->count); break;
  case WAIT:
    if (atomic_load(&w->event->reached) < w->count) return false;
    break;
  case CALL:
    if (!w->call(w->context)) return false;
  }
  if (++s->next == s->work.n) s->next = s->work.n = 0;
  return true;
}

static void run_some_of(CUstream s) {
  int64_t n = cel_random_int(&dice, 0, 4);
  while (n-- > 0 && s->work.n > 0 && run_one(s)) {
  }
}

static void run_some(void) {
  run_some_of(&unnamed);
  for (uint32_t i = 0; i < streams.n; ++i) run_some_of(streams.at[i]);
}

static CUresult stream_create(CUstream *out, unsigned flags, int priority) {
  (void)flags, (void)priority;
  *out = cel_alloc_zero(sizeof **out);
  cel_vec_push(&streams, *out);
  return CUDA_SUCCESS;
}

static CUresult stream_plain(CUstream *out, unsigned flags) {
  return stream_create(out, flags, 0);
}

static CUresult stream_sync(CUstream s) {
  if (s == NULL) s = &unnamed;
  while (s->work.n > 0)
    if (!run_one(s)) run_some();
  return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream s) {
  uint32_t i = 0;
  while (i < streams.n && streams.at[i] != s) ++i;
  if (i == streams.n)
    cel_bug("fake CUDA: a stream is destroyed that there is not");
  stream_sync(s);
  cel_vec_swap_out(&streams, i);
  cel_vec_release(&s->work);
  cel_free(s);
  return CUDA_SUCCESS;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream s) {
  if (copies_left-- <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
  cel_vec_push(&s->work, (work){.kind = COPY, .copy = *copy});
  return CUDA_SUCCESS;
}

static CUresult set_bytes(CUdeviceptr at, unsigned char byte, size_t size,
                          CUstream s) {
  cel_vec_push(&s->work,
               (work){.kind = SET, .at = at, .byte = byte, .unit = size});
  return CUDA_SUCCESS;
}

static CUresult copy_1d(CUdeviceptr to, CUdeviceptr from, size_t size,
                        CUstream s) {
  CUDA_MEMCPY3D copy = {.srcDevice = from,
                        .dstDevice = to,
                        .WidthInBytes = size,
                        .Height = 1,
                        .Depth = 1};
  return copy_3d(&copy, s);
}

/* The functions are the units that they move. */
static CUresult launch(CUfunction function, unsigned gx, unsigned gy,
                       unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, CUstream s, void **params,
                       void **extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
  (void)shared, (void)extra;
  if (copies_left-- <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
  work w = {.kind = PACK, .unit = *(const size_t *)(const void *)function};
  memcpy(&w.strided, params[0], sizeof w.strided);
  uint64_t all = w.strided.from | w.strided.to;
  if (all % w.unit != 0) cel_bug("fake CUDA: a unit of %zu is astray", w.unit);
  cel_vec_push(&s->work, w);
  return CUDA_SUCCESS;
}

void fake_cuda_call(CUstream s, bool (*call)(void *context), void *context) {
  cel_vec_push(&s->work,
               (work){.kind = CALL, .call = call, .context = context});
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t size,
                        CUstream s) {
  stream_sync(s);
  memcpy((void *)(uintptr_t)to, from, size);
  return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t size, CUstream s) {
  stream_sync(s);
  memcpy(to, (const void *)(uintptr_t)from, size);
  return CUDA_SUCCESS;
}

/* The driver has the bytes when it returns; the memory may not yet. */
static CUresult copy_in_now(CUdeviceptr to, const void *from, size_t size) {
  void *bytes = cel_alloc(size);
  memcpy(bytes, from, size);
  CUDA_MEMCPY3D copy = {.srcDevice = (uintptr_t)bytes,
                        .dstDevice = to,
                        .WidthInBytes = size,
                        .Height = 1,
                        .Depth = 1};
  cel_vec_push(&unnamed.work,
               (work){.kind = COPY, .copy = copy, .bytes = bytes});
  return CUDA_SUCCESS;
}

static CUresult copy_out_now(void *to, CUdeviceptr from, size_t size) {
  stream_sync(NULL);
  memcpy(to, (const void *)(uintptr_t)from, size);
  return CUDA_SUCCESS;
}

/* ---- events -------------------------------------------------------------- */

static CUresult event_create(CUevent *out, unsigned flags) {
  (void)flags;
  if (events_made == EVENTS) cel_bug("fake CUDA: too many events");
  *out = (CUevent)&events[events_made++];
  return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent e) {
  (void)e;
  return CUDA_SUCCESS;
}

static CUresult event_record(CUevent e, CUstream s) {
  event *it = (event *)e;
  uint64_t count = atomic_fetch_add(&it->recorded, 1) + 1;
  cel_vec_push(&s->work, (work){.kind = RECORD, .event = it, .count = count});
  return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream s, CUevent e, unsigned flags) {
  (void)flags;
  event *it = (event *)e;
  uint64_t count = atomic_load(&it->recorded);
  cel_vec_push(&s->work, (work){.kind = WAIT, .event = it, .count = count});
  return CUDA_SUCCESS;
}

static CUresult event_query(CUevent e) {
  event *it = (event *)e;
  run_some();
  return atomic_load(&it->reached) == atomic_load(&it->recorded)
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_READY;
}

static CUresult get_event(CUipcHandle *out, CUevent e) {
  handle h = {getpid(), events_file, (uint64_t)((event *)e - events)};
  memcpy(out->bytes, &h, sizeof h);
  return CUDA_SUCCESS;
}

static CUresult open_event(CUevent *out, CUipcHandle from) {
  static struct {
    int pid;
    event *at;
  } seen[64];
  handle h;
  memcpy(&h, from.bytes, sizeof h);
  int i = 0;
  while (seen[i].at != NULL && seen[i].pid != h.pid) ++i;
  if (seen[i].at == NULL) {
    int file = memory_file_open(h.pid, h.file);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    seen[i].pid = h.pid;
    seen[i].at = memory_file_map(file, EVENTS * sizeof(event));
    close(file);
  }
  *out = (CUevent)(seen[i].at + h.number);
  return CUDA_SUCCESS;
}

/* ---- the rest ------------------------------------------------------------ */

static CUresult set_current(CUcontext context) {
  (void)context;
  return CUDA_SUCCESS;
}

static CUresult get_uuid(char *uuid, CUdevice device) {
  int who[4] = {getpid(), device};
  memcpy(uuid, who, sizeof who);
  return CUDA_SUCCESS;
}

static CUresult error_text(CUresult code, const char **text) {
  (void)code;
  *text = "the fake driver refuses";
  return CUDA_SUCCESS;
}

void fake_cuda_devices(cel_cuda *cuda, int32_t devices) {
  cuda->devices = devices;
  for (int32_t d = 1; d < devices; ++d) {
    cuda->device[d] = cuda->device[0];
    cuda->device[d].device = d;
    cuda->device[d].ordinal = d;
  }
}

void fake_cuda_break(int64_t copies) {
  copies_left = copies;
}

cel_cuda *fake_cuda(uint64_t seed) {
  static const cel_cuda_api api = {.cuMemAlloc_v2 = mem_alloc,
                                   .cuMemFree_v2 = mem_free,
                                   .cuIpcGetMemHandle = get_mem,
                                   .cuIpcOpenMemHandle_v2 = open_mem,
                                   .cuIpcCloseMemHandle = mem_free,
                                   .cuIpcGetEventHandle = get_event,
                                   .cuIpcOpenEventHandle = open_event,
                                   .cuStreamCreate = stream_plain,
                                   .cuStreamCreateWithPriority = stream_create,
                                   .cuStreamDestroy_v2 = stream_destroy,
                                   .cuStreamSynchronize = stream_sync,
                                   .cuStreamWaitEvent = stream_wait,
                                   .cuEventCreate = event_create,
                                   .cuEventDestroy_v2 = event_destroy,
                                   .cuEventRecord = event_record,
                                   .cuEventQuery = event_query,
                                   .cuLaunchKernel = launch,
                                   .cuMemcpyAsync = copy_1d,
                                   .cuMemsetD8Async = set_bytes,
                                   .cuMemcpy3DAsync_v2 = copy_3d,
                                   .cuMemAddressReserve = reserve,
                                   .cuMemAddressFree = free_address,
                                   .cuMemCreate = create,
                                   .cuMemRelease = release,
                                   .cuMemMap = map,
                                   .cuMemUnmap = unmap,
                                   .cuMemSetAccess = set_access,
                                   .cuMemExportToShareableHandle = export_block,
                                   .cuMemImportFromShareableHandle =
                                       import_block,
                                   .cuMemcpyHtoDAsync_v2 = copy_in,
                                   .cuMemcpyDtoHAsync_v2 = copy_out,
                                   .cuMemcpyHtoD_v2 = copy_in_now,
                                   .cuMemcpyDtoH_v2 = copy_out_now,
                                   .cuCtxSetCurrent = set_current,
                                   .cuDeviceGetUuid_v2 = get_uuid,
                                   .cuGetErrorName = error_text,
                                   .cuGetErrorString = error_text};
  static cel_cuda cuda = {
      .api = &api, .devices = 1, .device[0].memory = 256 << 20};
  cuda.device[0].virtual_memory = cuda.device[0].exports = true;
  static const size_t unit[CEL_CUDA_UNITS] = {1, 2, 4, 8, 16};
  for (int i = 0; i < CEL_CUDA_UNITS && seed % 4 != 0; ++i)
    cuda.device[0].pack[i] = (CUfunction)(uintptr_t)&unit[i];
  cuda.pack_rows = seed % 2 == 0 ? CEL_CUDA_PACK_ROWS : 1;
  dice.state = seed;
  events_file = memory_file_make("fake-cuda", EVENTS * sizeof(event));
  events = memory_file_map(events_file, EVENTS * sizeof(event));
  return &cuda;
}
