#include "device/fake_cuda.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/vec.h"
#include "device/cuda/cuda_copy.h"
#include "device/fake_memory.h"
#include "tuning.h"

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
  cel_cuda_boxes boxes;
  uint32_t n;  /* of these */
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

static cel_random dice;
static CEL_VEC(CUstream) streams;
static struct CUstream_st unnamed; /* the driver's null */
static event *events;
static int events_file;
static uint32_t events_made;
static int64_t copies_left = INT64_MAX;

static bool refuses_loans;

/* ---- memory -------------------------------------------------------------- */

static CUresult mem_free(CUdeviceptr at) {
  if (!fake_unshare(at))
    cel_bug("fake CUDA: memory is freed that there is not");
  return CUDA_SUCCESS;
}

static CUresult import_block(CUmemGenericAllocationHandle *out, void *from,
                             int type) {
  return refuses_loans ? CUDA_ERROR_OUT_OF_MEMORY
                       : cuMemImportFromShareableHandle(out, from, type);
}

void fake_cuda_refuse_loans(void) {
  refuses_loans = true;
}

/* ---- streams ------------------------------------------------------------- */

/* As kernels/strided.cuh. */
static void pack_one(const cel_cuda_strided *s, size_t unit) {
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

static void pack_now(const work *w) {
  for (uint32_t i = 0; i < w->n; ++i) pack_one(&w->boxes.box[i], w->unit);
}

/* False: it waits for an event. */
static bool run_one(CUstream s) {
  const work *w = &s->work.at[s->next];
  switch (w->kind) {
  case COPY:
    fake_copy(&w->copy);
    cel_free(w->bytes);
    break;
  case PACK: pack_now(w); break;
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
  (void)gx, (void)gz, (void)bx, (void)by, (void)bz;
  (void)shared, (void)extra;
  if (copies_left-- <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
  work w = {
      .kind = PACK, .unit = *(const size_t *)(const void *)function, .n = gy};
  memcpy(&w.boxes, params[0], sizeof w.boxes);
  for (uint32_t i = 0; i < gy; ++i)
    if ((w.boxes.box[i].from | w.boxes.box[i].to) % w.unit != 0)
      cel_bug("fake CUDA: a unit of %zu is astray", w.unit);
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

typedef struct handle {
  int pid, file;
  uint64_t number; /* which event */
} handle;

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
    int file = fake_file_open(h.pid, h.file);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    seen[i].pid = h.pid;
    seen[i].at = fake_file_map(file, EVENTS * sizeof(event));
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
  static const cel_cuda_api api = {
      .cuMemAlloc_v2 = fake_share,
      .cuMemFree_v2 = mem_free,
      .cuIpcGetMemHandle = cuIpcGetMemHandle,
      .cuIpcOpenMemHandle_v2 = cuIpcOpenMemHandle_v2,
      .cuIpcCloseMemHandle = cuIpcCloseMemHandle,
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
      .cuMemAddressReserve = cuMemAddressReserve,
      .cuMemAddressFree = cuMemAddressFree,
      .cuMemCreate = cuMemCreate,
      .cuMemRelease = cuMemRelease,
      .cuMemMap = cuMemMap,
      .cuMemUnmap = cuMemUnmap,
      .cuMemSetAccess = cuMemSetAccess,
      .cuMemExportToShareableHandle = cuMemExportToShareableHandle,
      .cuMemImportFromShareableHandle = import_block,
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
  cuda.pack_rows = seed % 2 == 0 ? CEL_TUNE_CUDA_PACK_ROWS : 1;
  dice.state = seed;
  fake_memory_limit(SIZE_MAX);
  events_file = fake_file_make(EVENTS * sizeof(event));
  events = fake_file_map(events_file, EVENTS * sizeof(event));
  return &cuda;
}
