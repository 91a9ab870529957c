#include "comm/mpi/mpi_window.h"

#include "base/vec.h"

void cel_mpi_window_init(cel_mpi_window *window, uint32_t size,
                         uint64_t granted) {
  cel_assert(size >= 2 && (size & (size - 1)) == 0);
  *window = (cel_mpi_window){.size = size, .granted = granted};
  window->complete = cel_alloc_zero((size + 63) / 64 * sizeof(uint64_t));
}

void cel_mpi_window_release(cel_mpi_window *window) {
  cel_free(window->complete);
  cel_vec_release(&window->waiting);
}

static bool complete_bit(const cel_mpi_window *w, uint64_t sequence) {
  uint64_t at = sequence & (w->size - 1);
  return w->complete[at / 64] >> (at % 64) & 1;
}

static void flip_bit(cel_mpi_window *w, uint64_t sequence) {
  uint64_t at = sequence & (w->size - 1);
  w->complete[at / 64] ^= (uint64_t)1 << (at % 64);
}

void cel_mpi_window_add(cel_mpi_window *w, uint64_t sequence, void *item) {
  if (sequence < w->base ||
      (sequence < w->base + w->size && complete_bit(w, sequence)))
    cel_bug("transfer %llu comes twice", (unsigned long long)sequence);
  cel_vec_push(&w->waiting, (cel_mpi_window_entry){sequence, item});
  cel_mpi_window_entry *at = w->waiting.at;
  uint32_t i = w->waiting.n - 1;
  cel_mpi_window_entry fresh = at[i];
  for (; i > 0 && at[(i - 1) / 2].sequence > sequence; i = (i - 1) / 2)
    at[i] = at[(i - 1) / 2];
  at[i] = fresh;
}

bool cel_mpi_window_ready(const cel_mpi_window *w, bool full) {
  if (w->waiting.n == 0) return false;
  uint64_t first = w->waiting.at[0].sequence;
  return full ? first == w->base && first < w->granted
              : first < w->base + w->size && first < w->granted;
}

void *cel_mpi_window_take(cel_mpi_window *w, bool full) {
  if (!cel_mpi_window_ready(w, full)) return NULL;
  cel_mpi_window_entry *at = w->waiting.at;
  void *item = at[0].item;
  cel_mpi_window_entry last = cel_vec_pop(&w->waiting);
  uint32_t n = w->waiting.n, i = 0;
  for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && at[child + 1].sequence < at[child].sequence) ++child;
    if (at[child].sequence >= last.sequence) break;
    at[i] = at[child];
  }
  if (n > 0) at[i] = last;
  return item;
}

void cel_mpi_window_complete(cel_mpi_window *w, uint64_t sequence) {
  if (sequence < w->base || sequence >= w->base + w->size ||
      complete_bit(w, sequence))
    cel_bug("transfer %llu completes out of its window",
            (unsigned long long)sequence);
  flip_bit(w, sequence);
  while (complete_bit(w, w->base)) flip_bit(w, w->base++);
}

void cel_mpi_window_credit(cel_mpi_window *w, uint64_t base) {
  uint64_t granted = base + w->size / 2;
  if (granted > w->granted) w->granted = granted;
}

void cel_mpi_window_check(const cel_mpi_window *w) {
  if (complete_bit(w, w->base)) cel_bug("window: base is complete");
  for (uint32_t i = 1; i < w->waiting.n; ++i)
    if (w->waiting.at[(i - 1) / 2].sequence > w->waiting.at[i].sequence)
      cel_bug("window: the heap is out of order at %u", i);
  for (uint32_t i = 0; i < w->waiting.n; ++i) {
    uint64_t sequence = w->waiting.at[i].sequence;
    if (sequence < w->base ||
        (sequence < w->base + w->size && complete_bit(w, sequence)))
      cel_bug("window: a transfer waits that is complete");
  }
  if (w->base > w->granted) cel_bug("window: base is past what is granted");
}
