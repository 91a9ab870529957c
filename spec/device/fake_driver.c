/* fake_driver.c -- the fake driver as a library, with the memory of
 * fake_memory.c: $FAKE_MEMORY MiB of virtual memory on each GPU, none where
 * that is not set. It shows $FAKE_GPUS, each able to reach the next one, of
 * $FAKE_MULTIPROCESSORS. With $FAKE_VISIBLE it shows those alone that
 * $CUDA_VISIBLE_DEVICES names, as a real one always does. Memory is the host's,
 * streams do at once what they are given, and a launch writes its shape to
 * stderr; of what it computes only saxpy is known. From launch $FAKE_FAULT on,
 * counted from 1, all is an illegal address, or the error $FAKE_CODE; with
 * $FAKE_LATE the streams say so only when so many launches more have come, with
 * $FAKE_SILENT only when 64 MiB were asked for, with $FAKE_URGENT without any
 * launch, and a stream of priority first; with $FAKE_LAST likewise, and GPU
 * number $FAKE_LAST, counted from 1, long after the others. Launch
 * $FAKE_REFUSED asks for too much. With $FAKE_UNFUSED modules lack the entries
 * of folds. With $FAKE_IPC other processes can open
 * memory of 64 MiB or more. fake_driver.lua adds the functions that fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/fake_memory.h"

static int number(const char *name) {
  const char *text = getenv(name);
  return text != NULL ? atoi(text) : 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_GPUS") < 0 ? 100 : 0;
}

/* NVRTC asks for it; a table as large as its own first word has nothing in it.
 */
int cuGetExportTable(const void **table, const void *id) {
  static const size_t empty[8] = {sizeof(size_t)};
  (void)id;
  *table = empty;
  return 0;
}

int cuDriverGetVersion(int *version) {
  *version = 13010;
  return 0;
}

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {0, "CUDA_ERROR_FAKE", "it is a fake"}};

static int error_of(int code) {
  int i = 0;
  while (errors[i].code != code && errors[i].code != 0) ++i;
  return i;
}

int cuGetErrorString(int code, const char **text) {
  *text = errors[error_of(code)].text;
  return 0;
}

int cuGetErrorName(int code, const char **name) {
  *name = errors[error_of(code)].name;
  return 0;
}

/* The GPU that is shown as number `ordinal`, or -1: the list ends at what there
 * is not. */
static int shown(int ordinal) {
  int gpus = number("FAKE_GPUS");
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  if (number("FAKE_VISIBLE") == 0 || list == NULL)
    return ordinal < gpus ? ordinal : -1;
  for (int i = 0;; ++i) {
    char *end;
    long device = strtol(list, &end, 10);
    if (end == list || device < 0 || device >= gpus) return -1;
    if (i == ordinal) return (int)device;
    list = *end == ',' ? end + 1 : end;
  }
}

int cuDeviceGetCount(int *count) {
  *count = 0;
  while (shown(*count) >= 0) ++*count;
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = shown(ordinal);
  return *device >= 0 ? 0 : 101;
}

int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake %d", device);
  return 0;
}

int cuDeviceGetUuid_v2(char *uuid, int device) {
  memset(uuid, device + 1, 16);
  return 0;
}

int cuDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, (size_t)size, "0000:%02x:00.0", device + 16);
  return 0;
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
  (void)device;
  *out = attribute == 75   ? 9
         : attribute == 39 ? 2048
         : attribute == 16 ? (int)number("FAKE_MULTIPROCESSORS")
                           : 0;
  if (number("FAKE_MEMORY") > 0 && attribute >= 102) {
    *out = attribute == 102 || attribute == 103 || attribute == 141;
    return 0;
  }
  return attribute > 102; /* an old one, without virtual memory */
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = (size_t)80 << 30;
  return 0;
}

int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = peer == device + 1;
  return 0;
}

static char contexts[FAKE_DEVICES];
static __thread int current; /* device */

int cuDevicePrimaryCtxRetain(void **out, int device) {
  *out = &contexts[device];
  return number("FAKE_BROKEN") == device + 1 ? 2 : 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  return 0;
}

int cuCtxSetCurrent(void *context) {
  if (context != NULL) current = (int)((char *)context - contexts);
  return 0;
}

int cuCtxEnablePeerAccess(void *peer, unsigned flags) {
  (void)peer, (void)flags;
  return 0;
}

/* ---- modules: a cubin is an ELF file, whose symbols are looked up */

#include <elf.h>

static const Elf64_Shdr *sections(const char *image) {
  return (const Elf64_Shdr *)(image + ((const Elf64_Ehdr *)image)->e_shoff);
}

static char *loaded[256]; /* images whose functions may be asked about */

static void note(char *image) {
  for (int i = 0; i < 256; ++i)
    if (loaded[i] == NULL) {
      loaded[i] = image;
      return;
    }
}

static int fault(void);

int cuModuleLoadData(void **out, const void *image) {
  const Elf64_Ehdr *head = image;
  if (fault() != 0 && fault() != 600) return fault();
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return 200;
  size_t size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  for (int i = 0; i < head->e_shnum; ++i) {
    const Elf64_Shdr *s = sections(image) + i;
    if (s->sh_type != SHT_NOBITS && s->sh_offset + s->sh_size > size)
      size = s->sh_offset + s->sh_size;
  }
  *out = malloc(size);
  memcpy(*out, image, size);
  note(*out);
  return 0;
}

int cuModuleUnload(void *module) {
  for (int i = 0; i < 256; ++i)
    if (loaded[i] == module) loaded[i] = NULL;
  free(module);
  return 0;
}

static const Elf64_Sym *find(const char *image, const char *name) {
  const Elf64_Shdr *section = sections(image);
  int n = ((const Elf64_Ehdr *)image)->e_shnum;
  for (int i = 0; i < n; ++i) {
    if (section[i].sh_type != SHT_SYMTAB) continue;
    const char *names = image + section[section[i].sh_link].sh_offset;
    const Elf64_Sym *symbol = (const Elf64_Sym *)(image + section[i].sh_offset);
    size_t count = section[i].sh_size / sizeof *symbol;
    for (size_t k = 0; k < count; ++k)
      if (strcmp(names + symbol[k].st_name, name) == 0) return &symbol[k];
  }
  return NULL;
}

int cuModuleGetGlobal_v2(unsigned long long *at, size_t *size, void *module,
                         const char *name) {
  const Elf64_Sym *symbol = find(module, name);
  if (symbol == NULL) return 500;
  const Elf64_Shdr *section = sections(module) + symbol->st_shndx;
  *at = (unsigned long long)((char *)module + section->sh_offset +
                             symbol->st_value);
  *size = symbol->st_size;
  return 0;
}

int cuModuleGetFunction(const void **out, void *module, const char *name) {
  bool lacks = number("FAKE_UNFUSED") && strcmp(name, "celer_fused") == 0;
  *out = lacks ? NULL : find(module, name);
  return *out != NULL ? 0 : 500;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) {
  memcpy(to, (const void *)from, size);
  return 0;
}

/* The image that holds a symbol: the nearest before it. */
static const char *image_of(const Elf64_Sym *symbol) {
  const char *best = NULL;
  for (int i = 0; i < 256; ++i)
    if (loaded[i] != NULL && loaded[i] < (const char *)symbol &&
        loaded[i] > best)
      best = loaded[i];
  return best;
}

/* The word at `at` of record `tag` in a section of .nv.info: each is a format,
 * a tag, and a size that is followed by as many bytes in format 4. Those that
 * begin with a symbol must name `symbol`, if it is not 0. */
static int info_word(const char *image, const char *section, int tag, int at,
                     unsigned symbol) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const char *names = image + sections(image)[head->e_shstrndx].sh_offset;
  for (int i = 0; i < head->e_shnum; ++i) {
    const Elf64_Shdr *s = sections(image) + i;
    if (strcmp(names + s->sh_name, section) != 0) continue;
    const unsigned char *p = (const unsigned char *)image + s->sh_offset;
    const unsigned char *end = p + s->sh_size;
    for (; p < end; p += 4 + (p[0] == 4 ? p[2] + 256 * p[3] : 0)) {
      unsigned word[3] = {0};
      if (p[0] != 4 || p[1] != tag) continue;
      memcpy(word, p + 4, p[2] < 12 ? p[2] : 12);
      if (symbol == 0 || word[0] == symbol) return (int)word[at];
    }
  }
  return 0;
}

static unsigned index_of(const char *image, const Elf64_Sym *symbol) {
  const Elf64_Shdr *s = sections(image);
  while (s->sh_type != SHT_SYMTAB) ++s;
  return (unsigned)(symbol - (const Elf64_Sym *)(image + s->sh_offset));
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return 0;
}

/* As the compiler left it; threads of a block, local bytes, registers. */
int cuFuncGetAttribute(int *out, int attribute, const Elf64_Sym *function) {
  enum { MAX_THREADS = 5, FRAME_SIZE = 0x11, REGISTERS = 0x2f };
  const char *image = image_of(function);
  unsigned at = index_of(image, function);
  const Elf64_Shdr *s = sections(image) + function->st_shndx;
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  char own[256]; /* .text.<name> */
  snprintf(own, sizeof own, ".nv.info%s",
           image + sections(image)[head->e_shstrndx].sh_offset + s->sh_name +
               strlen(".text"));
  *out = attribute == 0   ? info_word(image, own, MAX_THREADS, 0, 0)
         : attribute == 3 ? info_word(image, ".nv.info", FRAME_SIZE, 1, at)
         : attribute == 4 ? info_word(image, ".nv.info", REGISTERS, 1, at)
                          : 0;
  return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *function,
                                                int threads, size_t shared) {
  (void)function, (void)shared;
  *out = 2048 / threads - 2;
  return 0;
}

/* ---- streams and memory */

typedef unsigned long long address;
typedef void *handle;

static char streams[2]; /* the second one is of priority */

int cuStreamCreate(handle *out, unsigned flags) {
  (void)flags;
  *out = &streams[0];
  return 0;
}

int cuStreamCreateWithPriority(handle *out, unsigned flags, int priority) {
  (void)flags;
  *out = &streams[priority < 0];
  return 0;
}

/* Each record of an event takes a millisecond, and nothing else does. */
typedef struct event {
  float ms;
  handle stream;
  int timed;
} event;

static _Atomic int ticks;

int cuEventCreate(event **out, unsigned flags) {
  *out = calloc(1, sizeof **out);
  (*out)->timed = !(flags & 2);
  return 0;
}

int cuEventDestroy_v2(event *e) {
  free(e);
  return 0;
}

int cuEventRecord(event *e, handle stream) {
  e->stream = stream;
  e->ms = (float)++ticks;
  return fault() == 600 ? 0 : fault();
}

int cuEventElapsedTime(float *ms, const event *from, const event *to) {
  if (!from->timed || !to->timed) return 400;
  *ms = to->ms - from->ms;
  return 0;
}

#define NOTHING(name)                                                          \
  int name(void);                                                              \
  int name(void) {                                                             \
    return 0;                                                                  \
  }
/* Launches so far; what a faulty device says of all that comes. */
static _Atomic int launches, asked;

/* For a script that waits until its work has come here. */
int fake_launches(void);
int fake_launches(void) {
  return launches;
}

static int fault(void) {
  int at = number("FAKE_FAULT");
  if (at == 0 || launches < at) return 0;
  if (number("FAKE_SILENT") > 0 && !asked) return 600;
  if (launches < at + number("FAKE_LATE")) return 600;
  return number("FAKE_CODE") > 0 ? number("FAKE_CODE") : 700;
}

#define AS_FAULTY(name)                                                        \
  int name(void);                                                              \
  int name(void) {                                                             \
    return fault();                                                            \
  }

static int last_of_all(void) {
  static _Atomic int told, questions;
  if (current == number("FAKE_LAST") - 1)
    return told && ++questions > 50 ? 700 : 600;
  told = 1;
  return 700;
}

int cuEventQuery(const event *e) {
  static _Atomic int told;
  if (number("FAKE_LAST") > 0) return last_of_all();
  if (number("FAKE_URGENT") == 0) return fault();
  if (e->stream == &streams[1]) told = 1;
  return told ? 700 : 600;
}

AS_FAULTY(cuStreamSynchronize)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamWaitEvent)
NOTHING(cuEventSynchronize)
NOTHING(cuCtxSynchronize)
NOTHING(cuMemHostRegister_v2)
NOTHING(cuMemHostUnregister)

int cuMemAlloc_v2(address *out, size_t size) {
  int large = size >= (size_t)64 << 20;
  if (large) asked = 1;
  if (asked && fault() != 0) return fault();
  if (large && number("FAKE_IPC") > 0) return fake_share(out, size);
  *out = (address)calloc(1, size);
  return 0;
}

int cuMemFree_v2(address at) {
  if (!fake_unshare(at)) free((void *)at);
  return 0;
}

NOTHING(cuIpcGetEventHandle)

int cuIpcOpenEventHandle(event **out, CUipcHandle theirs) {
  (void)theirs;
  return cuEventCreate(out, 2);
}

/* $FAKE_FREE MiB are said to be free, all where that is not set. */
int cuMemGetInfo_v2(size_t *free_bytes, size_t *all) {
  size_t bytes = fake_memory_bytes();
  if (getenv("FAKE_FREE") != NULL) bytes = (size_t)number("FAKE_FREE") << 20;
  *free_bytes = *all = bytes != 0 ? bytes : (size_t)80 << 30;
  return 0;
}

int cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  (void)flags;
  *out = calloc(1, size);
  return 0;
}

int cuMemFreeHost(void *at) {
  free(at);
  return 0;
}

int cuMemcpyAsync(address to, address from, size_t size, handle stream) {
  (void)stream;
  if (!fake_reaches(current, to) || !fake_reaches(current, from)) return 1;
  memmove((void *)to, (void *)from, size);
  return 0;
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t size,
                         handle stream) {
  (void)stream;
  memcpy((void *)to, from, size);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t size, handle stream) {
  (void)stream;
  memcpy(to, (const void *)from, size);
  return 0;
}

int cuMemcpyPeerAsync(address to, char *to_context, address from,
                      char *from_context, size_t size, handle stream) {
  (void)stream;
  if (!fake_reaches((int)(to_context - contexts), to) ||
      !fake_reaches((int)(from_context - contexts), from))
    return 1;
  memmove((void *)to, (void *)from, size);
  return 0;
}

int cuMemsetD8Async(address at, unsigned char byte, size_t size,
                    handle stream) {
  (void)stream;
  memset((void *)at, byte, size);
  return 0;
}

static int copy_box(const CUDA_MEMCPY3D *copy, int from, int to) {
  if (!fake_reaches(from, copy->srcDevice) ||
      !fake_reaches(to, copy->dstDevice))
    return 1;
  fake_copy(copy);
  return 0;
}

int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, handle stream) {
  (void)stream;
  return copy_box(copy, current, current);
}

int cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, handle stream) {
  (void)stream;
  return copy_box(copy, (int)((char *)copy->reserved0 - contexts),
                  (int)((char *)copy->reserved1 - contexts));
}

int cuLaunchHostFunc(handle stream, void (*fn)(void *), void *data) {
  (void)stream;
  fn(data);
  return 0;
}

/* ---- launches */

typedef struct saxpy {
  long long min[3], range[3];
  unsigned extent[3], unused;
  int n;
  float a;
  float *x;
  long long x_strides[2];
  float *y;
  long long y_strides[2];
  unsigned long long placeholders;
} saxpy;

int cuLaunchKernel(const Elf64_Sym *function, unsigned gx, unsigned gy,
                   unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, handle stream, void **params, void **extra);
int cuLaunchKernel(const Elf64_Sym *function, unsigned gx, unsigned gy,
                   unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, handle stream, void **params,
                   void **extra) {
  (void)shared, (void)stream, (void)extra;
  const saxpy *p = params[0];
  if (++launches == number("FAKE_REFUSED")) return 701;
  if (fault() == 700 && number("FAKE_LATE") > 0) return 700;
  fprintf(stderr, "launch %u %u %u of %u %u %u\n", gx, gy, gz, bx, by, bz);
  if (number("FAKE_FAULT") > 0 ||
      find(image_of(function), "celer_run_saxpy") != function)
    return 0;
  int n = p->placeholders == 1 && p->n == 0 ? (int)p->extent[0] : p->n;
  for (int i = 0; i < n; ++i) p->y[i] += p->a * p->x[i];
  return 0;
}
