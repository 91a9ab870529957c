#include "device/cuda_memory.h"

#include <string.h>

#include "base/amount.h"
#include "device/memory.h"

enum { SLAB = 8 << 20, SMALLEST = 256 };

static uint64_t up_to_grain(uint64_t bytes) {
  return (bytes + CEL_CUDA_GRAIN - 1) / CEL_CUDA_GRAIN * CEL_CUDA_GRAIN;
}

/* Calls of the driver want a context in the calling thread. */
static void enter(const cel_cuda_memory *m) {
  const cel_cuda *c = m->cuda;
  c->api->cuCtxSetCurrent(c->device[m->device < 0 ? 0 : m->device].context);
}

static cel_status fail(const cel_cuda_memory *m, uint64_t bytes,
                       CUresult code) {
  char asked[32], left[32], all[32];
  size_t free_bytes = 0, all_bytes = 0;
  if (cel_cuda_is_fault(code))
    return cel_fail(CEL_E_FAULT, "GPU %d was lost: %s",
                    m->cuda->device[m->device < 0 ? 0 : m->device].ordinal,
                    cel_cuda_api_text(m->cuda->api, code));
  cel_amount_text(bytes, asked, sizeof asked);
  if (m->in_host)
    return cel_fail(CEL_E_MEMORY,
                    "out of host memory: %s of pinned memory asked for (%s)",
                    asked, cel_cuda_api_text(m->cuda->api, code));
  m->cuda->api->cuMemGetInfo_v2(&free_bytes, &all_bytes);
  cel_amount_text(free_bytes, left, sizeof left);
  cel_amount_text(all_bytes, all, sizeof all);
  return cel_fail(CEL_E_MEMORY,
                  "out of memory on GPU %d: %s asked for, %s of %s free (%s)",
                  m->cuda->device[m->device].ordinal, asked, left, all,
                  cel_cuda_api_text(m->cuda->api, code));
}

/* ---- life --------------------------------------------------------------- */

static bool host_has_virtual_memory(const cel_cuda *cuda) {
  for (int32_t d = 0; d < cuda->devices; ++d)
    if (!cuda->device[d].host_virtual_memory) return false;
  return true;
}

void cel_cuda_memory_init(cel_cuda_memory *memory, const cel_cuda *cuda,
                          int32_t device, bool in_host) {
  *memory = (cel_cuda_memory){
      .cuda = cuda, .device = device, .in_host = in_host || device < 0};
  memory->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (memory->in_host) {
    memory->virtual_memory = host_has_virtual_memory(cuda);
    memory->prop.location =
        (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, cuda->device[0].numa};
  } else {
    memory->virtual_memory = cuda->device[device].virtual_memory;
    memory->prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE,
                                            cuda->device[device].device};
  }
}

/* ---- spans -------------------------------------------------------------- */

/* The first span at or after an address. */
static uint32_t span_at(const cel_cuda_memory *m, CUdeviceptr base) {
  uint32_t begin = 0, end = m->spans.n;
  while (begin < end) {
    uint32_t middle = begin + (end - begin) / 2;
    if (m->spans.at[middle].base < base)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

static cel_cuda_span *find_span(cel_cuda_memory *m, const void *p) {
  uint32_t i = span_at(m, (uintptr_t)p);
  if (i == m->spans.n || m->spans.at[i].base != (uintptr_t)p) return NULL;
  return &m->spans.at[i];
}

/* Addresses, and memory too where there is no virtual memory. */
static cel_status get_addresses(cel_cuda_memory *m, uint64_t bytes,
                                CUdeviceptr *out) {
  const cel_cuda_api *api = m->cuda->api;
  CUresult code;
  if (m->virtual_memory) {
    code = api->cuMemAddressReserve(out, bytes, 0, 0, 0);
  } else if (m->in_host) {
    void *p;
    CEL_TRY(cel__memory_map(bytes, &p));
    *out = (uintptr_t)p;
    return CEL_E_OK;
  } else {
    code = api->cuMemAlloc_v2(out, bytes);
  }
  return code == CUDA_SUCCESS ? CEL_E_OK : fail(m, bytes, code);
}

static cel_status make_span(cel_cuda_memory *m, uint64_t bytes, void **out) {
  CUdeviceptr base;
  bytes = up_to_grain(bytes);
  enter(m);
  CEL_TRY(get_addresses(m, bytes, &base));
  uint64_t grains = bytes / CEL_CUDA_GRAIN;
  cel_cuda_span span = {.base = base, .bytes = bytes};
  span.committed = cel_alloc_zero((grains + 63) / 64 * sizeof(uint64_t));
  uint32_t i = span_at(m, base);
  cel_vec_push(&m->spans, span);
  memmove(&m->spans.at[i + 1], &m->spans.at[i],
          (m->spans.n - 1 - i) * sizeof span);
  m->spans.at[i] = span;
  *out = (void *)(uintptr_t)base; // NOLINT: the driver's addresses are integers
  return CEL_E_OK;
}

static void free_span(cel_cuda_memory *m, cel_cuda_span *span) {
  const cel_cuda_api *api = m->cuda->api;
  for (uint32_t i = 0; i < span->mappings.n; ++i) {
    const cel_cuda_mapping *at = &span->mappings.at[i];
    api->cuMemUnmap(span->base + at->begin, at->end - at->begin);
  }
  if (m->virtual_memory)
    api->cuMemAddressFree(span->base, span->bytes);
  else if (m->in_host)
    cel__memory_unmap((void *)(uintptr_t)span->base, span->bytes); // NOLINT
  else
    api->cuMemFree_v2(span->base);
  cel_vec_release(&span->mappings);
  cel_free(span->committed);
}

/* ---- commitment ---------------------------------------------------------- */

/* Whoever of ours reaches the memory may use it. */
static CUresult open_access(const cel_cuda_memory *m, CUdeviceptr at,
                            uint64_t bytes) {
  const cel_cuda *c = m->cuda;
  CUmemAccessDesc who[CEL_DEVICES + 1];
  size_t n = 0;
  for (int32_t d = 0; d < c->devices; ++d)
    if (m->in_host || d == m->device || c->device[d].peer[m->device])
      who[n++] =
          (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, c->device[d].device},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (m->in_host)
    who[n++] =
        (CUmemAccessDesc){m->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return c->api->cuMemSetAccess(at, bytes, who, n);
}

static cel_status map(cel_cuda_memory *m, cel_cuda_span *span, uint64_t begin,
                      uint64_t end) {
  const cel_cuda_api *api = m->cuda->api;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at = span->base + begin;
  CUresult code = api->cuMemCreate(&handle, end - begin, &m->prop, 0);
  if (code != CUDA_SUCCESS) return fail(m, end - begin, code);
  code = api->cuMemMap(at, end - begin, 0, handle, 0);
  if (code == CUDA_SUCCESS) {
    code = open_access(m, at, end - begin);
    if (code != CUDA_SUCCESS) api->cuMemUnmap(at, end - begin);
  }
  api->cuMemRelease(handle); /* the mapping keeps it */
  if (code != CUDA_SUCCESS) return fail(m, end - begin, code);
  cel_vec_push(&span->mappings, (cel_cuda_mapping){begin, end});
  return CEL_E_OK;
}

static bool is_committed(const cel_cuda_span *span, uint64_t grain) {
  return (span->committed[grain / 64] >> grain % 64 & 1) != 0;
}

/* One mapping per run of grains without memory. */
static cel_status commit_span(cel_cuda_memory *m, cel_cuda_span *span,
                              uint64_t begin, uint64_t end) {
  uint64_t last = up_to_grain(end) / CEL_CUDA_GRAIN;
  for (uint64_t g = begin / CEL_CUDA_GRAIN; g < last;) {
    uint64_t first = g;
    while (g < last && !is_committed(span, g)) ++g;
    if (g > first)
      CEL_TRY(map(m, span, first * CEL_CUDA_GRAIN, g * CEL_CUDA_GRAIN));
    for (uint64_t i = first; i < g; ++i)
      span->committed[i / 64] |= 1ull << i % 64;
    while (g < last && is_committed(span, g)) ++g;
  }
  return CEL_E_OK;
}

cel_status cel_cuda_memory_commit(cel_cuda_memory *memory, void *p,
                                  uint64_t begin, uint64_t end) {
  cel_cuda_span *span = find_span(memory, p);
  if (!memory->virtual_memory || span == NULL) return CEL_E_OK;
  cel_assert(begin < end && end <= span->bytes);
  enter(memory);
  return commit_span(memory, span, begin, end);
}

/* ---- pieces ---------------------------------------------------------------
 */

static int class_of(uint64_t bytes) {
  int c = 0;
  while ((uint64_t)SMALLEST << c < bytes) ++c;
  return c;
}

/* Cuts a new slab into pieces of a class. */
static cel_status add_slab(cel_cuda_memory *m, int c) {
  void *slab;
  CEL_TRY(make_span(m, SLAB, &slab));
  if (m->virtual_memory) CEL_TRY(commit_span(m, find_span(m, slab), 0, SLAB));
  for (uint64_t at = SLAB; at > 0;) {
    at -= (uint64_t)SMALLEST << c;
    cel_vec_push(&m->free[c], (uintptr_t)slab + at);
  }
  return CEL_E_OK;
}

cel_status cel_cuda_memory_reserve(cel_cuda_memory *memory, uint64_t bytes,
                                   void **out) {
  if (bytes >= CEL_CUDA_SMALL) return make_span(memory, bytes, out);
  int c = class_of(bytes);
  if (memory->free[c].n == 0) CEL_TRY(add_slab(memory, c));
  CUdeviceptr piece = cel_vec_pop(&memory->free[c]);
  *out = (void *)(uintptr_t)piece; // NOLINT
  return CEL_E_OK;
}

void cel_cuda_memory_release(cel_cuda_memory *memory, void *p, uint64_t bytes) {
  if (p == NULL) return;
  if (bytes < CEL_CUDA_SMALL) {
    cel_vec_push(&memory->free[class_of(bytes)], (uintptr_t)p);
    return;
  }
  cel_cuda_span *span = find_span(memory, p);
  cel_assert(span != NULL);
  uint32_t i = (uint32_t)(span - memory->spans.at);
  enter(memory);
  free_span(memory, span);
  memmove(span, span + 1, (memory->spans.n - 1 - i) * sizeof *span);
  memory->spans.n--;
}

void cel_cuda_memory_clear(cel_cuda_memory *memory) {
  enter(memory);
  for (uint32_t i = 0; i < memory->spans.n; ++i)
    free_span(memory, &memory->spans.at[i]);
  cel_vec_release(&memory->spans);
  for (int c = 0; c < CEL_CUDA_CLASSES; ++c) cel_vec_release(&memory->free[c]);
}
