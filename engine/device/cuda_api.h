/* cuda_api.h -- what is taken from libcuda and libnvrtc at run time.
 *
 * Declared here, as Debian has no free package with these headers; names and
 * numbers are the CUDA driver API's and NVRTC's, which keep them.
 */
#ifndef CEL_DEVICE_CUDA_API_H
#define CEL_DEVICE_CUDA_API_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* Streams that the driver opens for each GPU: one for each lane of it. */
enum {
  CEL_CUDA_KERNEL_LANES = 6,
  CEL_CUDA_URGENT_LANES = 2, /* the last of these, and copies: of priority */
  CEL_CUDA_COPY_LANES = 4,
  CEL_CUDA_COLLECTIVE_LANES = 1,
  CEL_CUDA_WAITING_LANES = 1,
  CEL_CUDA_LANES = CEL_CUDA_KERNEL_LANES + CEL_CUDA_COPY_LANES +
                   CEL_CUDA_COLLECTIVE_LANES + CEL_CUDA_WAITING_LANES
};

typedef int CUresult, CUdevice, nvrtcResult;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct CUipcHandle {
  char bytes[64];
} CUipcHandle;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_UNIFIED = 4,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

typedef struct CUmemLocation {
  int type, id;
} CUmemLocation;

typedef struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void *win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
} CUmemAccessDesc;

/* CUDA_MEMCPY3D_PEER has the ends' contexts for what is reserved here. */
typedef struct CUDA_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  int srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray, *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  int dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray, *reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

/* result, name, parameters. */
/* clang-format off */
#define CEL_CUDA_FUNCTIONS(_) \
  _(CUresult, cuInit, (unsigned flags)) \
  _(CUresult, cuDriverGetVersion, (int *version)) \
  _(CUresult, cuGetErrorName, (CUresult code, const char **name)) \
  _(CUresult, cuGetErrorString, (CUresult code, const char **text)) \
  _(CUresult, cuDeviceGetCount, (int *count)) \
  _(CUresult, cuDeviceGet, (CUdevice *out, int ordinal)) \
  _(CUresult, cuDeviceGetName, (char *name, int size, CUdevice device)) \
  _(CUresult, cuDeviceGetAttribute, (int *out, int attribute, CUdevice device)) \
  _(CUresult, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device)) \
  _(CUresult, cuDeviceGetUuid_v2, (char *uuid, CUdevice device)) \
  _(CUresult, cuDeviceGetPCIBusId, (char *text, int size, CUdevice device)) \
  _(CUresult, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer)) \
  _(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *out, CUdevice device)) \
  _(CUresult, cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
  _(CUresult, cuCtxSetCurrent, (CUcontext context)) \
  _(CUresult, cuCtxSynchronize, (void)) \
  _(CUresult, cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags)) \
  _(CUresult, cuModuleLoadData, (CUmodule *out, const void *image)) \
  _(CUresult, cuModuleUnload, (CUmodule module)) \
  _(CUresult, cuModuleGetFunction, (CUfunction *out, CUmodule module, const char *name)) \
  _(CUresult, cuModuleGetGlobal_v2, (CUdeviceptr *at, size_t *size, CUmodule module, const char *name)) \
  _(CUresult, cuFuncGetAttribute, (int *out, int attribute, CUfunction function)) \
  _(CUresult, cuFuncSetAttribute, (CUfunction function, int attribute, int value)) \
  _(CUresult, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *out, CUfunction function, int threads, size_t shared)) \
  _(CUresult, cuLaunchKernel, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)) \
  _(CUresult, cuLaunchHostFunc, (CUstream stream, void (*fn)(void *), void *data)) \
  _(CUresult, cuStreamCreate, (CUstream *out, unsigned flags)) \
  _(CUresult, cuStreamCreateWithPriority, (CUstream *out, unsigned flags, int priority)) \
  _(CUresult, cuStreamDestroy_v2, (CUstream stream)) \
  _(CUresult, cuStreamSynchronize, (CUstream stream)) \
  _(CUresult, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags)) \
  _(CUresult, cuEventCreate, (CUevent *out, unsigned flags)) \
  _(CUresult, cuEventDestroy_v2, (CUevent event)) \
  _(CUresult, cuEventRecord, (CUevent event, CUstream stream)) \
  _(CUresult, cuEventQuery, (CUevent event)) \
  _(CUresult, cuEventElapsedTime, (float *ms, CUevent from, CUevent to)) \
  _(CUresult, cuMemGetInfo_v2, (size_t *free, size_t *all)) \
  _(CUresult, cuMemAlloc_v2, (CUdeviceptr *out, size_t size)) \
  _(CUresult, cuMemFree_v2, (CUdeviceptr at)) \
  _(CUresult, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)) \
  _(CUresult, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size)) \
  _(CUresult, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size)) \
  _(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream)) \
  _(CUresult, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream)) \
  _(CUresult, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream)) \
  _(CUresult, cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream)) \
  _(CUresult, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D *copy, CUstream stream)) \
  _(CUresult, cuMemsetD8Async, (CUdeviceptr at, unsigned char byte, size_t size, CUstream stream)) \
  _(CUresult, cuMemAddressReserve, (CUdeviceptr *out, size_t size, size_t align, CUdeviceptr at, unsigned long long flags)) \
  _(CUresult, cuMemAddressFree, (CUdeviceptr at, size_t size)) \
  _(CUresult, cuMemCreate, (CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)) \
  _(CUresult, cuMemRelease, (CUmemGenericAllocationHandle handle)) \
  _(CUresult, cuMemMap, (CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
  _(CUresult, cuMemUnmap, (CUdeviceptr at, size_t size)) \
  _(CUresult, cuMemSetAccess, (CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)) \
  _(CUresult, cuMemExportToShareableHandle, (void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)) \
  _(CUresult, cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *out, void *from, int type)) \
  _(CUresult, cuIpcGetEventHandle, (CUipcHandle *out, CUevent event)) \
  _(CUresult, cuIpcOpenEventHandle, (CUevent *out, CUipcHandle handle)) \
  _(CUresult, cuIpcGetMemHandle, (CUipcHandle *out, CUdeviceptr at)) \
  _(CUresult, cuIpcOpenMemHandle_v2, (CUdeviceptr *out, CUipcHandle handle, unsigned flags)) \
  _(CUresult, cuIpcCloseMemHandle, (CUdeviceptr at))

#define CEL_NVRTC_FUNCTIONS(_) \
  _(nvrtcResult, nvrtcVersion, (int *major, int *minor)) \
  _(const char *, nvrtcGetErrorString, (nvrtcResult code)) \
  _(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram *out, const char *text, const char *name, int headers, const char *const *header, const char *const *include)) \
  _(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram program, int options, const char *const *option)) \
  _(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *size)) \
  _(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char *log)) \
  _(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, size_t *size)) \
  _(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char *out)) \
  _(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram program, size_t *size)) \
  _(nvrtcResult, nvrtcGetPTX, (nvrtcProgram program, char *out)) \
  _(nvrtcResult, nvrtcGetNumSupportedArchs, (int *count)) \
  _(nvrtcResult, nvrtcGetSupportedArchs, (int *architecture)) \
  _(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *program))
/* clang-format on */

/* The members have the functions' names. */
typedef struct cel_cuda_api {
#define CEL_CUDA_MEMBER(result, name, parameters) result(*name) parameters;
  CEL_CUDA_FUNCTIONS(CEL_CUDA_MEMBER)
} cel_cuda_api;

typedef struct cel_nvrtc_api {
  CEL_NVRTC_FUNCTIONS(CEL_CUDA_MEMBER)
#undef CEL_CUDA_MEMBER
} cel_nvrtc_api;

/* The driver, loaded and initialised once; null, and `why`, where it is not to
 * be had: "no NVIDIA driver: libcuda.so.1: cannot open ...". GPUs open for the
 * streams of their lanes, or for CUDA_DEVICE_MAX_CONNECTIONS. Thread: main. */
const cel_cuda_api *cel_cuda_api_load(char *why, size_t size);
/* "an illegal memory access was encountered"; the driver's. Thread: any. */
const char *cel_cuda_api_text(const cel_cuda_api *api, CUresult code);
/* Whether the driver says so of all that comes after what caused it: the device
 * is lost. Thread: any. */
bool cel_cuda_is_fault(CUresult code);
/* NVRTC likewise. Thread: main. */
const cel_nvrtc_api *cel_nvrtc_api_load(char *why, size_t size);
/* "13.0, libnvrtc.so.13.0.88", which names the very compiler, or null.
 * Thread: main. */
const char *cel_nvrtc_version(void);

#endif
