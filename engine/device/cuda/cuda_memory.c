#include "device/cuda/cuda_memory.h"

#include <string.h>

#include "base/amount.h"
#include "device/host_memory.h"
#include "tuning.h"

enum { SMALLEST = 256 };

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
    if (!cuda->device[d].host_virtual_memory || !cuda->device[d].virtual_memory)
      return false;
  return true;
}

void cel_cuda_memory_init(cel_cuda_memory *memory, cel_cuda *cuda,
                          int32_t device, bool in_host) {
  *memory = (cel_cuda_memory){.cuda = cuda,
                              .device = device,
                              .in_host = in_host || device < 0,
                              .block = CEL_TUNE_CUDA_BLOCK,
                              .idle_most = CEL_TUNE_CUDA_IDLE_MOST};
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
  if (device >= 0 && cuda->lends && cuda->device[device].exports) {
    memory->prop.requestedHandleTypes =
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    memory->lent_most = cuda->device[device].memory / CEL_TUNE_CUDA_LENT_SHARE;
  }
}

void cel_cuda_memory_limit(cel_cuda_memory *memory, uint64_t capacity,
                           uint64_t block) {
  memory->block = block;
  if (capacity != 0 && memory->lent_most > capacity / CEL_TUNE_CUDA_LENT_SHARE)
    memory->lent_most = capacity / CEL_TUNE_CUDA_LENT_SHARE;
  if (capacity != 0) capacity -= memory->lent_most;
  memory->limit = capacity;
  if (capacity != 0 && memory->idle_most > capacity / 8)
    memory->idle_most = capacity / 8;
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

static void free_addresses(cel_cuda_memory *m, cel_cuda_span *span) {
  const cel_cuda_api *api = m->cuda->api;
  if (m->virtual_memory)
    api->cuMemAddressFree(span->base, span->bytes);
  else if (m->in_host)
    cel__memory_unmap((void *)(uintptr_t)span->base, span->bytes); // NOLINT
  else
    api->cuMemFree_v2(span->base);
  cel_vec_release(&span->mappings);
  cel_free(span->committed);
}

static void remove_span(cel_cuda_memory *m, cel_cuda_span *span) {
  uint32_t i = (uint32_t)(span - m->spans.at);
  free_addresses(m, span);
  memmove(span, span + 1, (m->spans.n - 1 - i) * sizeof *span);
  m->spans.n--;
}

/* ---- idle memory --------------------------------------------------------- */

/* Takes mapping i off the span; its block is the caller's. */
static cel_cuda_block unmap(cel_cuda_memory *m, cel_cuda_span *span,
                            uint32_t i) {
  cel_cuda_mapping at = span->mappings.at[i];
  m->cuda->api->cuMemUnmap(span->base + at.begin, at.end - at.begin);
  m->mapped -= at.end - at.begin;
  cel_vec_swap_out(&span->mappings, i);
  return at.block;
}

/* Forgets that mapping i, the kth idle one, is idle. */
static void wake(cel_cuda_memory *m, cel_cuda_span *span, uint32_t i,
                 uint32_t k) {
  cel_cuda_mapping *at = &span->mappings.at[i];
  m->idle -= at->end - at->begin;
  at->idle = false;
  span->idle--;
  m->idles.n--;
  memmove(m->idles.at + k, m->idles.at + k + 1,
          (m->idles.n - k) * sizeof *m->idles.at);
}

static void put_to_sleep(cel_cuda_memory *m, cel_cuda_span *span, uint32_t i) {
  cel_cuda_mapping *at = &span->mappings.at[i];
  if (at->idle) return;
  at->idle = true;
  span->idle++;
  m->idle += at->end - at->begin;
  cel_vec_push(&m->idles,
               (cel_cuda_idle){span->base, at->begin, at->end - at->begin});
}

/* Unmaps the kth idle mapping; its block is the caller's. */
static cel_cuda_block take_idle(cel_cuda_memory *m, uint32_t k) {
  cel_cuda_idle idle = m->idles.at[k];
  cel_cuda_span *span = &m->spans.at[span_at(m, idle.base)];
  uint32_t i = 0;
  while (span->mappings.at[i].begin != idle.begin) ++i;
  wake(m, span, i, k);
  cel_cuda_block block = unmap(m, span, i);
  if (span->spare && span->mappings.n == 0) {
    m->spares--;
    remove_span(m, span);
  }
  return block;
}

/* Gives a block back to the driver, unless others have it open. */
static void drop(cel_cuda_memory *m, cel_cuda_block block, uint64_t bytes) {
  if (block.loan != 0)
    cel_vec_push(&m->kept, (cel_cuda_kept){block, bytes});
  else
    m->cuda->api->cuMemRelease(block.handle);
}

static void drop_idle(cel_cuda_memory *m, uint32_t k) {
  uint64_t bytes = m->idles.at[k].bytes;
  drop(m, take_idle(m, k), bytes);
}

static void trim(cel_cuda_memory *m, uint64_t most) {
  while (m->idle > most) drop_idle(m, 0);
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

static bool take_kept(cel_cuda_memory *m, uint64_t bytes, cel_cuda_block *out) {
  for (uint32_t k = 0; k < m->kept.n; ++k) {
    if (m->kept.at[k].bytes != bytes) continue;
    *out = m->kept.at[k].block;
    cel_vec_swap_out(&m->kept, k);
    return true;
  }
  return false;
}

/* Memory of so many bytes: some that is kept or idle, else new. */
static CUresult get_memory(cel_cuda_memory *m, uint64_t bytes,
                           cel_cuda_block *out) {
  const cel_cuda_api *api = m->cuda->api;
  if (take_kept(m, bytes, out)) return CUDA_SUCCESS;
  for (uint32_t k = 0; k < m->idles.n; ++k) {
    if (m->idles.at[k].bytes != bytes) continue;
    *out = take_idle(m, k);
    return CUDA_SUCCESS;
  }
  while (m->limit != 0 && m->idle > 0 && m->mapped + bytes > m->limit)
    drop_idle(m, 0);
  *out = (cel_cuda_block){0};
  CUresult code = api->cuMemCreate(&out->handle, bytes, &m->prop, 0);
  if (code != CUDA_ERROR_OUT_OF_MEMORY || m->idle == 0) return code;
  trim(m, 0);
  return api->cuMemCreate(&out->handle, bytes, &m->prop, 0);
}

/* Spans may go when memory is found for another, so this one is told by its
 * base. */
static cel_status map(cel_cuda_memory *m, CUdeviceptr base, uint64_t begin,
                      uint64_t end) {
  const cel_cuda_api *api = m->cuda->api;
  cel_cuda_block block;
  CUdeviceptr at = base + begin;
  CUresult code = get_memory(m, end - begin, &block);
  if (code != CUDA_SUCCESS) return fail(m, end - begin, code);
  code = api->cuMemMap(at, end - begin, 0, block.handle, 0);
  if (code == CUDA_SUCCESS) {
    code = open_access(m, at, end - begin);
    if (code != CUDA_SUCCESS) api->cuMemUnmap(at, end - begin);
  }
  if (code != CUDA_SUCCESS) {
    drop(m, block, end - begin);
    return fail(m, end - begin, code);
  }
  m->mapped += end - begin;
  cel_cuda_span *span = &m->spans.at[span_at(m, base)];
  cel_vec_push(&span->mappings, (cel_cuda_mapping){begin, end, block, false});
  return CEL_E_OK;
}

/* The first idle mapping of the span that meets [begin, end), or -1. */
static int64_t find_idle(const cel_cuda_span *span, uint64_t begin,
                         uint64_t end) {
  int64_t best = -1;
  for (uint32_t i = 0; i < span->mappings.n && span->idle > 0; ++i) {
    const cel_cuda_mapping *at = &span->mappings.at[i];
    if (!at->idle || at->end <= begin || at->begin >= end) continue;
    if (best < 0 || at->begin < span->mappings.at[best].begin) best = i;
  }
  return best;
}

/* Grains of one block: what is idle there is taken if all of it is wanted. */
static cel_status commit_run(cel_cuda_memory *m, CUdeviceptr base,
                             uint64_t begin, uint64_t end) {
  while (begin < end) {
    cel_cuda_span *span = &m->spans.at[span_at(m, base)];
    int64_t i = find_idle(span, begin, end);
    if (i < 0) return map(m, base, begin, end);
    cel_cuda_mapping at = span->mappings.at[i];
    uint32_t k = 0;
    while (m->idles.at[k].base != base || m->idles.at[k].begin != at.begin) ++k;
    if (at.begin < begin || at.end > end) {
      drop_idle(m, k);
      continue;
    }
    wake(m, span, (uint32_t)i, k);
    if (at.begin > begin) CEL_TRY(map(m, base, begin, at.begin));
    begin = at.end;
  }
  return CEL_E_OK;
}

static bool is_committed(const cel_cuda_span *span, uint64_t grain) {
  return (span->committed[grain / 64] >> grain % 64 & 1) != 0;
}

static void mark_grains(cel_cuda_memory *m, CUdeviceptr base, uint64_t first,
                        uint64_t last, bool committed) {
  uint64_t *bits = m->spans.at[span_at(m, base)].committed;
  for (uint64_t i = first; i < last; ++i) {
    if (committed)
      bits[i / 64] |= 1ull << i % 64;
    else
      bits[i / 64] &= ~(1ull << i % 64);
  }
}

/* A mapping per run of grains without memory in a block. */
static cel_status commit_span(cel_cuda_memory *m, CUdeviceptr base,
                              uint64_t begin, uint64_t end) {
  uint64_t last = up_to_grain(end) / CEL_CUDA_GRAIN;
  uint64_t per_block = m->block / CEL_CUDA_GRAIN;
  for (uint64_t g = begin / CEL_CUDA_GRAIN; g < last;) {
    const cel_cuda_span *span = &m->spans.at[span_at(m, base)];
    uint64_t first = g, stop = (g / per_block + 1) * per_block;
    if (stop > last) stop = last;
    while (g < stop && !is_committed(span, g)) ++g;
    if (g > first)
      CEL_TRY(commit_run(m, base, first * CEL_CUDA_GRAIN, g * CEL_CUDA_GRAIN));
    mark_grains(m, base, first, g, true);
    span = &m->spans.at[span_at(m, base)];
    while (g < stop && is_committed(span, g)) ++g;
  }
  return CEL_E_OK;
}

cel_status cel_cuda_memory_commit(cel_cuda_memory *memory, void *p,
                                  uint64_t begin, uint64_t end) {
  cel_cuda_span *span = find_span(memory, p);
  if (!memory->virtual_memory || span == NULL) return CEL_E_OK;
  cel_assert(begin < end && end <= span->bytes);
  enter(memory);
  return commit_span(memory, span->base, begin, end);
}

void cel_cuda_memory_decommit(cel_cuda_memory *memory, void *p, uint64_t begin,
                              uint64_t end) {
  cel_cuda_span *span = find_span(memory, p);
  if (!memory->virtual_memory || span == NULL) return;
  cel_assert(begin % memory->block == 0);
  enter(memory);
  for (uint32_t i = 0; i < span->mappings.n; ++i) {
    const cel_cuda_mapping *at = &span->mappings.at[i];
    if (at->begin >= begin && at->begin < end) put_to_sleep(memory, span, i);
  }
  mark_grains(memory, span->base, begin / CEL_CUDA_GRAIN,
              up_to_grain(end) / CEL_CUDA_GRAIN, false);
  trim(memory, memory->idle_most);
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
  CEL_TRY(make_span(m, CEL_TUNE_CUDA_SLAB, &slab));
  if (m->virtual_memory)
    CEL_TRY(commit_span(m, (uintptr_t)slab, 0, CEL_TUNE_CUDA_SLAB));
  for (uint64_t at = CEL_TUNE_CUDA_SLAB; at > 0;) {
    at -= (uint64_t)SMALLEST << c;
    cel_vec_push(&m->free[c], (uintptr_t)slab + at);
  }
  return CEL_E_OK;
}

/* A spare span of this size; its memory is idle. */
static bool take_spare(cel_cuda_memory *m, uint64_t bytes, void **out) {
  bytes = up_to_grain(bytes);
  for (uint32_t i = 0; i < m->spans.n && m->spares > 0; ++i) {
    cel_cuda_span *span = &m->spans.at[i];
    if (!span->spare || span->bytes != bytes) continue;
    span->spare = false;
    m->spares--;
    *out = (void *)(uintptr_t)span->base; // NOLINT
    return true;
  }
  return false;
}

cel_status cel_cuda_memory_reserve(cel_cuda_memory *memory, uint64_t bytes,
                                   void **out) {
  if (bytes >= CEL_CUDA_SMALL)
    return take_spare(memory, bytes, out) ? CEL_E_OK
                                          : make_span(memory, bytes, out);
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
  enter(memory);
  if (span->mappings.n == 0) {
    remove_span(memory, span);
    return;
  }
  for (uint32_t i = 0; i < span->mappings.n; ++i) put_to_sleep(memory, span, i);
  mark_grains(memory, span->base, 0, span->bytes / CEL_CUDA_GRAIN, false);
  span->spare = true;
  memory->spares++;
  trim(memory, memory->idle_most);
}

void cel_cuda_memory_clear(cel_cuda_memory *memory) {
  const cel_cuda_api *api = memory->cuda->api;
  enter(memory);
  for (uint32_t i = 0; i < memory->spans.n; ++i) {
    cel_cuda_span *span = &memory->spans.at[i];
    while (span->mappings.n > 0)
      api->cuMemRelease(unmap(memory, span, 0).handle);
    free_addresses(memory, span);
  }
  for (uint32_t k = 0; k < memory->kept.n; ++k)
    api->cuMemRelease(memory->kept.at[k].block.handle);
  cel_vec_release(&memory->spans);
  cel_vec_release(&memory->idles);
  cel_vec_release(&memory->kept);
  for (int c = 0; c < CEL_CUDA_CLASSES; ++c) cel_vec_release(&memory->free[c]);
}

/* ---- loans --------------------------------------------------------------- */

/* The mapping that the address lies in, and its span; null: none, or idle. */
static cel_cuda_mapping *mapping_at(cel_cuda_memory *m, CUdeviceptr at,
                                    CUdeviceptr *base) {
  uint32_t after = span_at(m, at + 1);
  if (after == 0) return NULL;
  cel_cuda_span *span = &m->spans.at[after - 1];
  for (uint32_t i = 0; i < span->mappings.n; ++i) {
    cel_cuda_mapping *mapping = &span->mappings.at[i];
    *base = span->base;
    if (at >= span->base + mapping->begin && at < span->base + mapping->end)
      return mapping->idle ? NULL : mapping;
  }
  return NULL;
}

static bool lend(cel_cuda_memory *m, cel_cuda_mapping *mapping) {
  uint64_t bytes = mapping->end - mapping->begin;
  if (mapping->block.loan != 0) return true;
  if (m->lent + bytes > m->lent_most) return false;
  m->lent += bytes;
  mapping->block.loan = ++m->cuda->loans;
  return true;
}

/* Nobody has heard of these yet. */
static void take_back(cel_cuda_memory *m, cel_cuda_loans *loans) {
  for (uint32_t i = 0; i < loans->n; ++i) {
    CUdeviceptr base;
    if (!loans->at[i].fresh) continue;
    mapping_at(m, loans->at[i].at, &base)->block.loan = 0;
    m->lent -= loans->at[i].whole;
    m->cuda->loans--;
  }
  cel_vec_clear(loans);
}

bool cel_cuda_memory_lend(cel_cuda_memory *memory, CUdeviceptr at,
                          uint64_t bytes, uint32_t most, cel_cuda_loans *out) {
  for (CUdeviceptr end = at + bytes; at < end;) {
    CUdeviceptr base;
    cel_cuda_mapping *mapping = mapping_at(memory, at, &base);
    bool fresh = mapping != NULL && mapping->block.loan == 0;
    if (mapping == NULL || out->n == most || !lend(memory, mapping)) {
      take_back(memory, out);
      return false;
    }
    cel_cuda_loan loan = {.block = mapping->block,
                          .at = base + mapping->begin,
                          .whole = mapping->end - mapping->begin,
                          .offset = at - base - mapping->begin,
                          .fresh = fresh};
    loan.bytes = loan.whole - loan.offset;
    if (loan.bytes > end - at) loan.bytes = end - at;
    cel_vec_push(out, loan);
    at += loan.bytes;
  }
  return true;
}
