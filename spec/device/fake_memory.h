/* fake_memory.h -- memory of the fake driver, which shows GPUs that are not
 * there. It has two faces:
 *
 *   fake_driver.c  a library in the driver's place (fake_driver.lua builds it):
 *                  its streams do at once what they are given
 *   fake_cuda.c    a table for programs that link it: its streams do that
 * later, bit by bit, in an order that a seed chooses
 *
 * Both have this memory, which lies in the host. Virtual memory is backed by
 * files without a name, full of garbage, so that what is mapped elsewhere keeps
 * its contents and what is not mapped faults. Plain memory may be shared with
 * other processes, through /proc.
 * Thread: any.
 */
#ifndef SPEC_DEVICE_FAKE_MEMORY_H
#define SPEC_DEVICE_FAKE_MEMORY_H

#include "device/cuda_api.h"

enum { FAKE_DEVICES = 64 };

/* Bytes of virtual memory on each GPU; else $FAKE_MEMORY MiB. */
void fake_memory_limit(size_t bytes);
size_t fake_memory_bytes(void);
/* Whether a device may touch what lies there; plain memory any may. */
bool fake_reaches(int device, CUdeviceptr at);
/* What the driver's function of that name does with boxes of bytes. */
void fake_copy(const CUDA_MEMCPY3D *copy);

/* Zeroed memory that other processes can open; false: it is none of that, and
 * nothing is done. */
CUresult fake_share(CUdeviceptr *out, size_t size);
bool fake_unshare(CUdeviceptr at);

/* A file in memory of so many bytes; the caller closes it. */
int fake_file_make(size_t size);
/* That file of another process, which still has it open; or -1. */
int fake_file_open(int pid, int file);
/* The caller unmaps it. */
void *fake_file_map(int file, size_t size);

/* Functions of the driver. */
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align,
                             CUdeviceptr at, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr at, size_t size);
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr at, size_t size);
CUresult cuMemSetAccess(CUdeviceptr at, size_t size,
                        const CUmemAccessDesc *desc, size_t count);
CUresult cuMemExportToShareableHandle(void *out,
                                      CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out,
                                        void *from, int type);
CUresult cuIpcGetMemHandle(CUipcHandle *out, CUdeviceptr at);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcHandle from,
                               unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr at);
#endif
