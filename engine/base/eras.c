#include "base/eras.h"

static void open_next(cel_eras *eras) {
  eras->open = eras->spare.n > 0 ? cel_vec_pop(&eras->spare)
                                 : cel_alloc_zero(sizeof *eras->open);
}

static void end(cel_eras *eras, cel_era *era) {
  for (uint32_t i = 0; i < era->kept.n; ++i) eras->drop(era->kept.at[i]);
  cel_vec_clear(&era->kept);
  cel_arena_clear(&era->arena);
  cel_vec_push(&eras->spare, era);
}

void cel_eras_init(cel_eras *eras, void (*drop)(void *kept)) {
  *eras = (cel_eras){.drop = drop};
  open_next(eras);
}

void cel_eras_release(cel_eras *eras) {
  end(eras, eras->open);
  cel_eras_retire(eras, UINT64_MAX);
  for (uint32_t i = 0; i < eras->spare.n; ++i) {
    cel_arena_release(&eras->spare.at[i]->arena);
    cel_vec_release(&eras->spare.at[i]->kept);
    cel_free(eras->spare.at[i]);
  }
  cel_vec_release(&eras->spare);
  cel_vec_release(&eras->closed);
}

void cel_eras_keep(cel_eras *eras, void *kept) {
  cel_vec_push(&eras->open->kept, kept);
}

void cel_eras_close(cel_eras *eras, uint64_t last) {
  eras->open->last = last;
  cel_vec_push(&eras->closed, eras->open);
  open_next(eras);
}

void cel_eras_retire(cel_eras *eras, uint64_t id) {
  uint32_t n = 0;
  while (n < eras->closed.n && eras->closed.at[n]->last < id)
    end(eras, eras->closed.at[n++]);
  cel_vec_drop_first(&eras->closed, n);
}

static size_t bytes_of(const cel_era *era) {
  return sizeof *era + cel_arena_bytes(&era->arena) +
         era->kept.cap * sizeof *era->kept.at;
}

size_t cel_eras_bytes(const cel_eras *eras) {
  size_t sum = bytes_of(eras->open);
  for (uint32_t i = 0; i < eras->closed.n; ++i)
    sum += bytes_of(eras->closed.at[i]);
  for (uint32_t i = 0; i < eras->spare.n; ++i)
    sum += bytes_of(eras->spare.at[i]);
  return sum;
}
