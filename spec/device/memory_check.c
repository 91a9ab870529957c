/* memory_check [STEPS [SEED]]
 *
 * Random reservations, commitments and their ends in a GPU's memory that is
 * limited, against a model that knows which grain holds what. Parts of it are
 * lent, opened once and for good, as another process does, and written to
 * there. Exits with 77 and a reason where there is no GPU with virtual memory.
 * Run by cuda_memory_spec.lua.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "device/cuda/cuda_memory.h"

enum {
  PIECES = 12,
  GRAINS = 24, /* of a piece at most */
  BLOCK = 2,   /* grains */
  CAPACITY = 40,
  LENT = 8, /* at most */
  PARTS = 4 /* of a loan, at most */
};

typedef struct piece {
  char *p; /* null: not reserved */
  uint64_t bytes;
  int grains;
  uint64_t word[GRAINS]; /* what lies at the begin of each; 0: no memory */
} piece;

static cel_cuda *cuda;
static cel_cuda_memory memory;
static cel_random chosen;
static piece pieces[PIECES];
static uint64_t words;
static int used;
static CEL_VEC(CUdeviceptr) opened; /* by loan; 0: not yet */

#define require(x)                                                             \
  do {                                                                         \
    if (x) break;                                                              \
    printf("line %d: %s\n", __LINE__, #x);                                     \
    exit(1);                                                                   \
  } while (0)

static CUdeviceptr grain_at(const piece *at, int g) {
  return (uintptr_t)at->p + (uint64_t)g * CEL_CUDA_GRAIN;
}

static void reserve(piece *at) {
  at->grains = (int)cel_random_int(&chosen, 1, GRAINS);
  at->bytes = (uint64_t)at->grains * CEL_CUDA_GRAIN -
              (uint64_t)cel_random_int(&chosen, 0, CEL_CUDA_SMALL - 1);
  void *p;
  require(cel_cuda_memory_reserve(&memory, at->bytes, &p) == CEL_E_OK);
  at->p = p;
}

static uint64_t end_of(const piece *at, int grains) {
  uint64_t end = (uint64_t)grains * CEL_CUDA_GRAIN;
  return end < at->bytes ? end : at->bytes;
}

static void commit(piece *at) {
  int first = (int)cel_random_int(&chosen, 0, at->grains - 1);
  int last = (int)cel_random_int(&chosen, first + 1, at->grains);
  int fresh = 0;
  for (int g = first; g < last; ++g) fresh += at->word[g] == 0;
  if (used + fresh > CAPACITY) return;
  used += fresh;
  require(cel_cuda_memory_commit(&memory, at->p,
                                 (uint64_t)first * CEL_CUDA_GRAIN,
                                 end_of(at, last)) == CEL_E_OK);
  for (int g = first; g < last; ++g) {
    if (at->word[g] != 0) continue;
    at->word[g] = ++words;
    require(cuda->api->cuMemcpyAsync(grain_at(at, g), (uintptr_t)&at->word[g],
                                     8, NULL) == 0);
  }
  require(cuda->api->cuStreamSynchronize(NULL) == 0);
}

static void forget(piece *at, int first, int last) {
  for (int g = first; g < last; ++g) {
    used -= at->word[g] != 0;
    at->word[g] = 0;
  }
}

static void decommit(piece *at) {
  int blocks = (at->grains + BLOCK - 1) / BLOCK;
  int first = (int)cel_random_int(&chosen, 0, blocks - 1) * BLOCK;
  int last = first + (int)cel_random_int(&chosen, 1, 4) * BLOCK;
  if (last > at->grains) last = at->grains;
  forget(at, first, last);
  cel_cuda_memory_decommit(&memory, at->p, (uint64_t)first * CEL_CUDA_GRAIN,
                           end_of(at, last));
}

static void release(piece *at) {
  forget(at, 0, at->grains);
  cel_cuda_memory_release(&memory, at->p, at->bytes);
  at->p = NULL;
}

/* Where the borrower has it. */
static CUdeviceptr open_loan(const cel_cuda_loan *loan) {
  const cel_cuda_api *api = cuda->api;
  CUmemAccessDesc who = {memory.prop.location,
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle;
  int file;
  while (opened.n <= loan->block.loan) cel_vec_push(&opened, 0);
  CUdeviceptr *at = &opened.at[loan->block.loan];
  if (*at != 0) return *at;
  require(api->cuMemExportToShareableHandle(
              &file, loan->block.handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == 0);
  // NOLINTNEXTLINE: the driver takes the number as an address
  void *from = (void *)(intptr_t)file;
  require(api->cuMemImportFromShareableHandle(
              &handle, from, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0);
  close(file);
  require(api->cuMemAddressReserve(at, loan->whole, 0, 0, 0) == 0);
  require(api->cuMemMap(*at, loan->whole, 0, handle, 0) == 0);
  require(api->cuMemRelease(handle) == 0);
  require(api->cuMemSetAccess(*at, loan->whole, &who, 1) == 0);
  return *at;
}

static void write_loan(piece *at, int g, CUdeviceptr there) {
  at->word[g] = ++words;
  require(cuda->api->cuMemcpyAsync(there, (uintptr_t)&at->word[g], 8, NULL) ==
          0);
  require(cuda->api->cuStreamSynchronize(NULL) == 0);
}

/* What is not lent leaves all as it was. */
static void lend(piece *at) {
  static cel_cuda_loans loans;
  int g = (int)cel_random_int(&chosen, 0, at->grains - 1);
  int last = (int)cel_random_int(&chosen, g + 1, at->grains);
  uint64_t lent = memory.lent;
  bool whole = true;
  for (int i = g; i < last; ++i) whole &= at->word[i] != 0;
  cel_vec_clear(&loans);
  if (!cel_cuda_memory_lend(&memory, grain_at(at, g),
                            (uint64_t)(last - g) * CEL_CUDA_GRAIN, PARTS,
                            &loans)) {
    require(memory.lent == lent);
    return;
  }
  require(whole && memory.lent <= memory.lent_most);
  for (uint32_t i = 0; i < loans.n; ++i) {
    CUdeviceptr there = open_loan(&loans.at[i]) + loans.at[i].offset;
    for (uint64_t n = 0; n < loans.at[i].bytes; n += CEL_CUDA_GRAIN)
      write_loan(at, g++, there + n);
  }
  require(g == last);
}

static uint64_t mapped_lent(void) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < memory.spans.n; ++i)
    for (uint32_t k = 0; k < memory.spans.at[i].mappings.n; ++k) {
      const cel_cuda_mapping *at = &memory.spans.at[i].mappings.at[k];
      if (at->block.loan != 0) bytes += at->end - at->begin;
    }
  return bytes;
}

/* All words are where they were put, no more memory is there than may be, and
 * what was lent still is. */
static void verify(void) {
  for (int i = 0; i < PIECES; ++i)
    for (int g = 0; pieces[i].p != NULL && g < pieces[i].grains; ++g) {
      uint64_t word = 0;
      if (pieces[i].word[g] == 0) continue;
      require(cuda->api->cuMemcpyDtoH_v2(&word, grain_at(&pieces[i], g), 8) ==
              0);
      require(word == pieces[i].word[g]);
    }
  uint64_t live = (uint64_t)used * CEL_CUDA_GRAIN;
  require(memory.mapped == live + memory.idle);
  require(memory.idle <= memory.idle_most);
  uint64_t kept = 0;
  for (uint32_t k = 0; k < memory.kept.n; ++k) kept += memory.kept.at[k].bytes;
  require(memory.mapped + kept <= memory.limit + memory.lent_most);
  require(kept + mapped_lent() == memory.lent);
}

static void step(void) {
  piece *at = &pieces[cel_random_int(&chosen, 0, PIECES - 1)];
  int64_t what = cel_random_int(&chosen, 0, 99);
  if (at->p == NULL)
    reserve(at);
  else if (what < 50)
    commit(at);
  else if (what < 60)
    lend(at);
  else if (what < 85)
    decommit(at);
  else
    release(at);
}

int main(int argc, char **argv) {
  char why[256];
  int32_t ordinal = 0;
  int steps = argc > 1 ? atoi(argv[1]) : 1000;
  chosen.state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  if (cel_cuda_count(why, sizeof why) == 0 ||
      cel_cuda_open(&ordinal, 1, &cuda) != CEL_E_OK ||
      !cuda->device[0].virtual_memory) {
    printf("no GPU with virtual memory: %s\n", why);
    return 77;
  }
  cuda->lends = true;
  cel_cuda_memory_init(&memory, cuda, 0, false);
  cel_cuda_memory_limit(&memory, (uint64_t)CAPACITY * CEL_CUDA_GRAIN,
                        (uint64_t)BLOCK * CEL_CUDA_GRAIN);
  require(memory.limit + memory.lent_most ==
          (uint64_t)CAPACITY * CEL_CUDA_GRAIN);
  if (memory.lent_most != 0) memory.lent_most = (uint64_t)LENT * CEL_CUDA_GRAIN;
  memory.limit = (uint64_t)CAPACITY * CEL_CUDA_GRAIN;
  for (int i = 0; i < steps; ++i) {
    step();
    if (i % 8 == 0) verify();
  }
  cel_cuda_memory_clear(&memory);
  cel_cuda_close(cuda);
  printf("%d steps passed\n", steps);
  return 0;
}
