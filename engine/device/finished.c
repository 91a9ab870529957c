#include "device/finished.h"

cel_entry *cel_finished_entry(cel_finished *finished, cel_job *job,
                              int32_t lane) {
  cel_entry *entry = finished->spare;
  if (entry == NULL)
    entry = cel_alloc(sizeof *entry);
  else
    finished->spare = entry->next;
  *entry = (cel_entry){.job = job, .lane = lane};
  return entry;
}

void cel_finished_push(cel_finished *finished, cel_entry *entry) {
  cel_entry *top = atomic_load_explicit(&finished->top, memory_order_relaxed);
  do entry->next = top;
  while (!atomic_compare_exchange_weak_explicit(
      &finished->top, &top, entry, memory_order_release, memory_order_relaxed));
}

/* All that was pushed, oldest first. */
static cel_entry *take_all(cel_finished *finished) {
  if (atomic_load_explicit(&finished->top, memory_order_relaxed) == NULL)
    return NULL;
  cel_entry *newest =
      atomic_exchange_explicit(&finished->top, NULL, memory_order_acquire);
  cel_entry *oldest = NULL;
  while (newest != NULL) {
    cel_entry *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

cel_entry *cel_finished_take(cel_finished *finished) {
  if (finished->ready == NULL) finished->ready = take_all(finished);
  cel_entry *entry = finished->ready;
  if (entry != NULL) finished->ready = entry->next;
  return entry;
}

void cel_finished_give(cel_finished *finished, cel_entry *entry) {
  entry->next = finished->spare;
  finished->spare = entry;
}

void cel_finished_release(cel_finished *finished) {
  for (cel_entry *e; (e = cel_finished_take(finished)) != NULL;) {
    cel_free(e->error);
    cel_free(e);
  }
  while (finished->spare != NULL) {
    cel_entry *next = finished->spare->next;
    cel_free(finished->spare);
    finished->spare = next;
  }
}

cel_error *cel_finished_error(void) {
  cel_error *error = cel_alloc(sizeof *error);
  *error = *cel_error_last();
  return error;
}
