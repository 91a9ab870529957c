/* cuda_memory.h -- one memory as GPUs use it: device memory, or pinned memory
 * of the host.
 *
 * Large pieces are addresses (CUDA's virtual memory management) that memory is
 * put behind as it is committed, so that growth never copies and nothing is
 * paid for what is not used. All devices of the rank may reach it. What is
 * decommitted or released stays mapped for a while, *idle*: the same rows, or
 * the next piece of the same size, find it there; others take its handle, and
 * what nobody takes is given back, the oldest first, when there is too much of
 * it, when live memory needs the room, and before anything fails.
 * What has been lent to another process stays open there, so it is never given
 * back before the end, but kept for pieces of the same size.
 * Small pieces are cut from slabs by size class and are never given back before
 * the end. Where the driver has no virtual memory, large pieces are plain
 * allocations, whole, and on the host plain pages, which are not pinned.
 *
 * Invariants: `spans` is sorted by address; a bit of `committed` is set iff the
 * grain has memory that is not idle; every mapping lies in one block of one
 * span, and is idle or live as a whole; a spare span has idle mappings alone,
 * and at least one; `idles` are the idle mappings, the oldest first.
 * Cost, of an H200: to reserve 5 us; to commit a mapping 50 us, from 64 MiB on
 * 100 us, and a host's 0.2 ms per MiB; to give one back 40 to 80 us. From what
 * is idle some us; a small piece costs an index. Confined to the executor.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_MEMORY_H
#define CEL_DEVICE_CUDA_CUDA_MEMORY_H

#ifndef CEL_CDEF
#include "base/vec.h"
#include "device/cuda/cuda.h"

enum {
  CEL_CUDA_GRAIN = 2 << 20,
  CEL_CUDA_SMALL = 1 << 20, /* from here on a piece has a span of its own */
  CEL_CUDA_CLASSES = 13     /* class c: pieces of 256 << c bytes */
};

typedef struct cel_cuda_block {
  CUmemGenericAllocationHandle handle;
  uint32_t loan; /* its number, once it has been lent; 0: it has not */
} cel_cuda_block;

typedef struct cel_cuda_mapping {
  uint64_t begin, end; /* bytes in the span, multiples of the grain */
  cel_cuda_block block;
  bool idle;
} cel_cuda_mapping;

/* A part of lent memory: [offset, offset + bytes) of a block of `whole`, which
 * lies at `at`. */
typedef struct cel_cuda_loan {
  cel_cuda_block block;
  CUdeviceptr at;
  uint64_t whole, offset, bytes;
  bool fresh; /* the block was not lent before */
} cel_cuda_loan;

typedef CEL_VEC(cel_cuda_loan) cel_cuda_loans;

/* Lent, and mapped nowhere. */
typedef struct cel_cuda_kept {
  cel_cuda_block block;
  uint64_t bytes;
} cel_cuda_kept;

typedef struct cel_cuda_span {
  CUdeviceptr base;
  uint64_t bytes; /* a multiple of the grain */
  uint64_t *committed;
  CEL_VEC(cel_cuda_mapping) mappings;
  uint32_t idle; /* how many of them are */
  bool spare;    /* nobody's; keeps what is mapped for the next of this size */
} cel_cuda_span;

typedef struct cel_cuda_idle {
  CUdeviceptr base; /* the span's */
  uint64_t begin, bytes;
} cel_cuda_idle;

typedef struct cel_cuda_memory {
  cel_cuda *cuda; /* of which nothing but the number of loans is changed */
  int32_t device; /* -1: the host's */
  bool in_host;
  bool virtual_memory;
  CUmemAllocationProp prop;
  uint64_t block;  /* see backend.h */
  uint64_t limit;  /* on what is mapped when more is made, while something is
                      idle; 0: none */
  uint64_t mapped; /* bytes, with those that are idle */
  uint64_t idle, idle_most;
  uint32_t spares;
  CEL_VEC(cel_cuda_idle) idles;
  CEL_VEC(cel_cuda_kept) kept;
  uint64_t lent, lent_most; /* bytes of blocks; the latter 0: none */
  CEL_VEC(cel_cuda_span) spans;
  CEL_VEC(CUdeviceptr) free[CEL_CUDA_CLASSES];
} cel_cuda_memory;

/* `cuda` is borrowed. With `in_host` a device's memory lies in the host, where
 * the processor reaches it too. Thread: main. */
void cel_cuda_memory_init(cel_cuda_memory *memory, cel_cuda *cuda,
                          int32_t device, bool in_host);
/* How much of it is to be taken at once, at most, 0 for any amount, and the
 * block that goes with it. A part is set aside for what is lent, `lent_most`;
 * the rest, `limit`, may be committed. Before the first piece. Thread: main. */
void cel_cuda_memory_limit(cel_cuda_memory *memory, uint64_t capacity,
                           uint64_t block);
/* Frees all of it. Nothing runs any more. Thread: main. */
void cel_cuda_memory_clear(cel_cuda_memory *memory);
/* As in the table of a backend. */
cel_status cel_cuda_memory_reserve(cel_cuda_memory *memory, uint64_t bytes,
                                   void **out);
cel_status cel_cuda_memory_commit(cel_cuda_memory *memory, void *p,
                                  uint64_t begin, uint64_t end);
void cel_cuda_memory_decommit(cel_cuda_memory *memory, void *p, uint64_t begin,
                              uint64_t end);
void cel_cuda_memory_release(cel_cuda_memory *memory, void *p, uint64_t bytes);
/* Adds to *out, in order, what lies behind these bytes, for others to open by
 * its handle. False where part of it is not to be lent: it is no committed
 * memory of ours, too much is lent already, or *out would have more than `most`
 * parts. Then *out is empty, and nothing that was added to it is lent by
 * that. */
bool cel_cuda_memory_lend(cel_cuda_memory *memory, CUdeviceptr at,
                          uint64_t bytes, uint32_t most, cel_cuda_loans *out);
#endif

#endif
