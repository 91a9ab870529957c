/* cuda.h -- the GPUs of this rank: driver, devices, kernels.
 *
 * The CUDA driver and NVRTC are loaded at run time (cuda_api.h lists what is
 * taken from them), so one binary runs with and without them. Each device is
 * used through its primary context, as the CUDA runtime and its libraries do.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_H
#define CEL_DEVICE_CUDA_CUDA_H

#include "device/backend.h"
#include "device/kernel.h"

#include "device/cuda_api.h"

enum { CEL_CUDA_UNITS = 5, CEL_CUDA_UUID = 16 };

typedef struct cel_cuda_device {
  CUdevice device;
  CUcontext context; /* the primary one, retained */
  int32_t ordinal;   /* as the driver counts: what CUDA_VISIBLE_DEVICES left */
  int32_t major, minor;
  uint64_t memory; /* bytes in all */
  int64_t threads; /* that it has at a time at most; 0 where it does not say */
  int32_t multiprocessors; /* likewise */
  int32_t numa;            /* the node of the host that is near, or -1 */
  bool virtual_memory, host_virtual_memory;
  bool exports;           /* its memory can be opened by other processes */
  bool peer[CEL_DEVICES]; /* reaches the memory of that device of ours */
  /* cuda_copy.h: copies short rows, in units of 1 << i bytes; or null. */
  CUmodule packer;
  CUfunction pack[CEL_CUDA_UNITS];
  CUdeviceptr promises; /* for samples: cuda_sample.h; 0: none were taken yet */
  char name[64];
  char bus[20]; /* "0000:1b:00.0": where hwloc finds it */
} cel_cuda_device;

typedef struct cel_cuda {
  const cel_cuda_api *api;
  int32_t devices;
  bool lends; /* other ranks may be lent memory of the only device */
  /* That memory, while a backend has it; see cel_cuda_memory_lend. */
  struct cel_cuda_memory *lender;
  uint32_t loans; /* so far: others keep them, whatever becomes of a backend */
  uint32_t pack_rows; /* fewer short rows are left to the driver */
  cel_cuda_device device[CEL_DEVICES];
} cel_cuda;

/* 90: sm_90. */
static inline int32_t cel_cuda_architecture(const cel_cuda_device *device) {
  return device->major * 10 + device->minor;
}

/* How many GPUs the driver shows; on 0 `why` says what is missing ("no NVIDIA
 * driver: libcuda.so.1 not found"). Thread: main. */
int32_t cel_cuda_count(char *why, size_t size);
/* "CUDA 13.0", what the driver can do, or why there is none. Thread: main. */
void cel_cuda_describe(char *text, size_t size);
/* What the driver says of a device, without opening it: context and peers are
 * not filled in. CEL_E_MISSING. Thread: main. */
cel_status cel_cuda_query(int32_t ordinal, cel_cuda_device *out);
/* Whether a device can reach the memory of another. Thread: main. */
bool cel_cuda_reaches(const cel_cuda_device *from, const cel_cuda_device *to);
/* What tells a GPU from all others, whoever looks; zero where the driver does
 * not say. Thread: main. */
void cel_cuda_uuid(int32_t ordinal, char out[CEL_CUDA_UUID]);
/* A hash of which GPUs this process sees, and in which order. Thread: main. */
uint64_t cel_cuda_identity(void);
/* Which of `n` GPUs, at least 1, the rank `index` of `of` that see the same
 * ones takes: `want` of them, or with 0 as many as each other one can have, as
 * a contiguous block of the list: ranks have equal parts of the work, so one
 * that had more GPUs would wait for the others. Where there are more ranks than
 * GPUs they take turns. At most CEL_DEVICES into *out. CEL_E_RANGE. Thread:
 * any. */
cel_status cel_cuda_share(const int32_t *list, int32_t n, int32_t want,
                          int32_t index, int32_t of, int32_t *out,
                          int32_t *devices);
/* Opens the devices with these ordinals; one that is named twice is as two
 * devices. The caller owns *out. CEL_E_MISSING,
 * CEL_E_RANGE. Thread: main. */
cel_status cel_cuda_open(const int32_t *ordinal, int32_t devices,
                         cel_cuda **out);
/* After its backends and modules. Thread: main. */
void cel_cuda_close(cel_cuda *cuda);

/* The GPUs as devices: memory 1 + d is device d's. `cuda` is borrowed; config's
 * devices, cores and own_memory are not looked at. The caller owns *out.
 * Thread: main. */
cel_status cel_backend_cuda(const cel_backend_config *config, cel_cuda *cuda,
                            cel_backend **out);

/* As cel_module_begin_cpu, by NVRTC; cel_module_finish loads it on every
 * device: a module whose works run on these. The caller owns *out, and destroys
 * it before `cuda`. Thread: main. */
cel_status cel_module_begin_cuda(const cel_source *source, cel_cuda *cuda,
                                 cel_module **out);

/* A kernel as the backend launches it. Owned by its module. The launch has one
 * parameter: 64 bytes of celer::launch, then `argument` by argument. */
typedef struct cel_cuda_argument {
  bool view;     /* {origin, stride0, stride1} of the next view; else a value */
  bool reducer;  /* a view, followed by how many elements, and an identity */
  bool array;    /* a reducer, of more than one element */
  uint32_t at;   /* bytes from the beginning of the launch's parameter */
  uint32_t size; /* bytes of an element, or of the value */
  uint32_t from; /* value: where it is among the packed values; reducer: where
                    the identity is, as `at` */
} cel_cuda_argument;

typedef struct cel_cuda_kernel {
  CUfunction function[CEL_DEVICES];
  /* Compiled with CELER_CHECK: where the device's celer::fault is, and behind
   * the arguments the promised boxes of all views. 0: not checked. */
  CUdeviceptr fault[CEL_DEVICES];
  uint32_t boxes_at; /* with CELER_SAMPLE: where units and promises are */
  const struct cel_cuda_kernel *sample; /* the same, so compiled; or null */
  const cel_param *param;
  const char *name;
  int32_t dims;   /* of the item */
  uint32_t bytes; /* of the launch's parameter, a multiple of 16 */
  int32_t arguments;
  cel_cuda_argument *argument;
  /* CUDA's own kernel: threads of a block, x first, and an accessor's origin is
   * the first element of the view's box. 0: one of celer's. */
  int32_t block[3];
  /* Where it reduces: launched before it where rows are to begin, as those of
   * arrays. What combines rows. See kernels/reduce_launch.cuh. */
  CUfunction begin[CEL_DEVICES], combine[CEL_DEVICES];
  bool grouped;
  bool edges;    /* it has views that know where their buffer ends: near.cuh */
  bool straight; /* cel__goes_straight */
  uint32_t shared; /* bytes of a block without those rows */
} cel_cuda_kernel;

/* The values of a work that combines rows: onto what the result holds; into the
 * buffer that is reduced into, and no other row. */
enum { CEL_COMBINE_ONTO = 1, CEL_COMBINE_SETTLES = 2 };
typedef struct cel_cuda_combine {
  int32_t view; /* of the kernel */
  int32_t how;
} cel_cuda_combine;

#endif
